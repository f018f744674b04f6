/*
 * next.c - libraries that call the next definition of the driver's functions, which they
 * find by dlsym(RTLD_NEXT), and a program that mixes them with its own calls.
 *
 * With -DLIBRARY: next_alloc and next_free. With -DLAYER=NAME also the driver's two
 * functions, as a library that wraps them; the library appends its calls, and how deep
 * they were nested, to the file NAME.counts. With -DEARLY its constructor makes all
 * look-ups.
 *
 * Without: the program. It opens the library of its argument RTLD_LOCAL, or is linked
 * with one, and prints how many calls failed, and how many live blocks have other
 * contents than were written.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long long address;
typedef int alloc_fn(address *out, size_t bytes);
typedef int free_fn(address block);

#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)

#ifdef LIBRARY

static alloc_fn *alloc_found;
static free_fn *free_found;

static void look_up(void)
{
    alloc_found = (alloc_fn *)dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    free_found = (free_fn *)dlsym(RTLD_NEXT, "cuMemFree_v2");
}

#ifdef EARLY
static void __attribute__((constructor)) begin(void)
{
    look_up();
}
#define FIND()
#else
#define FIND() look_up()
#endif

int next_alloc(address *out, size_t bytes)
{
    FIND();
    return alloc_found(out, bytes);
}

int next_free(address block)
{
    FIND();
    return free_found(block);
}

#ifdef LAYER
static int allocs, frees, depth, deepest;

static void enter(int *calls)
{
    ++*calls;
    deepest = ++depth > deepest ? depth : deepest;
}

int cuMemAlloc_v2(address *out, size_t bytes)
{
    enter(&allocs);
    int code = depth > 100 ? 999 : next_alloc(out, bytes);
    depth--;
    return code;
}

int cuMemFree_v2(address block)
{
    enter(&frees);
    int code = depth > 100 ? 999 : next_free(block);
    depth--;
    return code;
}

static void __attribute__((destructor)) end(void)
{
    FILE *file = fopen(TEXT(LAYER) ".counts", "a");
    fprintf(file, "allocs %d frees %d deepest %d\n", allocs, frees, deepest);
    fclose(file);
}
#endif

#else

int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuMemcpyDtoH_v2(void *, address, size_t),
    cuMemsetD8_v2(address, unsigned char, size_t);
alloc_fn cuMemAlloc_v2;
free_fn cuMemFree_v2;
__attribute__((weak)) alloc_fn next_alloc;
__attribute__((weak)) free_fn next_free;

enum { BLOCKS = 8, BYTES = 4096 };

int main(int argc, char **argv)
{
    address blocks[BLOCKS], other;
    unsigned char bytes[BYTES];
    void *context, *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    alloc_fn *alloc = library ? (alloc_fn *)dlsym(library, "next_alloc") : next_alloc;
    free_fn *release = library ? (free_fn *)dlsym(library, "next_free") : next_free;
    int failed = 0, bad = 0;

    if (!alloc || !release || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
        cuCtxSetCurrent(context))
        return 2;
    for (int i = 0; i < BLOCKS; i++) {
        failed += cuMemAlloc_v2(&blocks[i], BYTES) != 0;
        failed += cuMemsetD8_v2(blocks[i], (unsigned char)(i + 1), BYTES) != 0;
    }
    failed += release(blocks[0]) != 0; /* the program's own block, by the library */
    for (int i = 1; i < BLOCKS; i++) {
        memset(bytes, 0, sizeof(bytes));
        failed += cuMemcpyDtoH_v2(bytes, blocks[i], BYTES) != 0;
        bad += bytes[BYTES - 1] != i + 1;
    }
    failed += alloc(&other, 2 * BYTES) != 0;
    failed += cuMemFree_v2(other) != 0;
    failed += release(other) == 0; /* a second free is refused */
    for (int i = 1; i < BLOCKS; i++)
        failed += (i % 2 ? release(blocks[i]) : cuMemFree_v2(blocks[i])) != 0;
    failed += alloc(&other, 3 << 20) != 0;
    failed += release(other) != 0;
    printf("failed %d bad %d\n", failed, bad);
    return failed || bad;
}
#endif
