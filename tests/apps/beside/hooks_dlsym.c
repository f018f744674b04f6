/*
 * hooks_dlsym.c - a preloaded library with a dlsym of its own: libhooksdlsym.so.
 *
 * As such libraries do, it finds the next dlsym by dlvsym, asks it, and puts its own
 * function in the place of one answer, cuMemAlloc_v2. HOOKS_COUNTS names a file that gets
 * the counts of that function and of all look-ups of CUDA names at exit.
 * Owns: the counts.   Lock: atomic.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef void *dlsym_function(void *handle, const char *name);
typedef CUresult alloc_function(CUdeviceptr *out, size_t bytes);

static atomic_uint lookups, allocs;
static alloc_function *next_alloc;

static dlsym_function *next_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    static dlsym_function *found;

    for (size_t i = 0; !found && i < sizeof(versions) / sizeof(versions[0]); i++)
        found = (dlsym_function *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    return found;
}

static CUresult counted_alloc(CUdeviceptr *out, size_t bytes)
{
    atomic_fetch_add(&allocs, 1);
    return next_alloc(out, bytes);
}

EXPORT void *dlsym(void *handle, const char *name)
{
    void *answer = next_dlsym()(handle, name);

    if (handle == RTLD_NEXT || strncmp(name, "cu", 2) != 0)
        return answer;
    atomic_fetch_add(&lookups, 1);
    if (!answer || strcmp(name, "cuMemAlloc_v2") != 0)
        return answer;
    next_alloc = (alloc_function *)answer;
    return (void *)counted_alloc;
}

static void __attribute__((destructor)) write_counts(void)
{
    const char *name = getenv("HOOKS_COUNTS");
    FILE *file = name ? fopen(name, "w") : NULL;

    if (!file)
        return;
    fprintf(file, "lookups %u\nallocs %u\n", atomic_load(&lookups), atomic_load(&allocs));
    fclose(file);
}
