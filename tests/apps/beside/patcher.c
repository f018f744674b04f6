/*
 * patcher.c - a library that patches functions in place, as UCX does: libpatcher.so.
 *
 * From its constructor on, the first bytes of the driver's cuMemAlloc_v2 and cuMemFree_v2
 * are a jump to counters of its own. These put the old bytes back, call the function and
 * patch it again, which is enough for a program with one thread. As UCX does, it asks for
 * the function that comes next behind itself; PATCHER_DEFAULT=1 asks for the first one of
 * all, which is the preloaded library's. PATCHER_COUNTS names a file that gets the counts
 * at exit.
 * Owns: the patches.   Lock: none, one thread.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
/* mov $hook, %rax; jmp *%rax */
static const unsigned char jump_code[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
#define ADDRESS_AT 2
#elif defined(__aarch64__)
/* ldr x16, .+8; br x16; the address */
static const unsigned char jump_code[] = {0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6,
                                          0,    0, 0, 0,    0, 0, 0,    0};
#define ADDRESS_AT 8
#else
#error "no jump for this machine"
#endif
#define JUMP_BYTES sizeof(jump_code)

struct patch {
    unsigned char *function, before[JUMP_BYTES], after[JUMP_BYTES];
    unsigned calls;
};

static struct patch of_alloc, of_free;

static void write_code(struct patch *patch, const unsigned char *bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)patch->function & ~(page - 1);
    size_t size = (uintptr_t)patch->function + JUMP_BYTES - begin;

    if (mprotect((void *)begin, size, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        abort();
    memcpy(patch->function, bytes, JUMP_BYTES);
    __builtin___clear_cache((char *)patch->function,
                            (char *)patch->function + JUMP_BYTES);
}

static CUresult patched_alloc(CUdeviceptr *out, size_t bytes)
{
    CUresult result;

    of_alloc.calls++;
    write_code(&of_alloc, of_alloc.before);
    result =
        ((CUresult(*)(CUdeviceptr *, size_t))(uintptr_t)of_alloc.function)(out, bytes);
    write_code(&of_alloc, of_alloc.after);
    return result;
}

static CUresult patched_free(CUdeviceptr ptr)
{
    CUresult result;

    of_free.calls++;
    write_code(&of_free, of_free.before);
    result = ((CUresult(*)(CUdeviceptr))(uintptr_t)of_free.function)(ptr);
    write_code(&of_free, of_free.after);
    return result;
}

static void patch(struct patch *patch, void *function, uintptr_t hook)
{
    if (!function)
        return;
    patch->function = function;
    memcpy(patch->before, function, JUMP_BYTES);
    memcpy(patch->after, jump_code, JUMP_BYTES);
    memcpy(patch->after + ADDRESS_AT, &hook, sizeof(hook));
    write_code(patch, patch->after);
}

static void __attribute__((constructor)) patch_all(void)
{
    void *where = getenv("PATCHER_DEFAULT") ? RTLD_DEFAULT : RTLD_NEXT;

    patch(&of_alloc, dlsym(where, "cuMemAlloc_v2"), (uintptr_t)patched_alloc);
    patch(&of_free, dlsym(where, "cuMemFree_v2"), (uintptr_t)patched_free);
}

static void __attribute__((destructor)) write_counts(void)
{
    const char *name = getenv("PATCHER_COUNTS");
    FILE *file = name ? fopen(name, "w") : NULL;

    if (!file)
        return;
    fprintf(file, "allocs %u\nfrees %u\n", of_alloc.calls, of_free.calls);
    fclose(file);
}
