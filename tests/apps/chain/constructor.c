/*
 * constructor.c - a library whose constructor allocates device memory (-DMODULE), and a
 * program that opens the library with RTLD_DEEPBIND and frees the memory.
 * Prints how many calls failed.
 */
#define _GNU_SOURCE /* RTLD_DEEPBIND */
#include <dlfcn.h>
#include <stdio.h>

typedef unsigned long long address;
int cuMemAlloc_v2(address *out, size_t bytes), cuMemFree_v2(address block);

enum { BLOCKS = 4 };

#ifdef MODULE
address made[BLOCKS];

static void __attribute__((constructor)) make(void)
{
    for (int i = 0; i < BLOCKS; i++)
        if (cuMemAlloc_v2(&made[i], 4096))
            made[i] = 1; /* its free fails */
}
#else
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);

int main(void)
{
    address own[BLOCKS];
    void *context, *library;
    const address *made;
    int failed = 0;

    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 2;
    for (int i = 0; i < BLOCKS; i++)
        failed += cuMemAlloc_v2(&own[i], 4096) != 0;
    library = dlopen("./libmade.so", RTLD_NOW | RTLD_DEEPBIND);
    made = library ? (const address *)dlsym(library, "made") : NULL;
    for (int i = 0; made && i < BLOCKS; i++)
        failed += (cuMemFree_v2(made[i]) != 0) + (cuMemFree_v2(own[i]) != 0);
    printf("failed %d\n", made ? failed : -1);
    return failed;
}
#endif
