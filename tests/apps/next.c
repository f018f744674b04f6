/*
 * next.c - another preloaded library that wraps CUDA calls: libnext.so.
 *
 * Each wrapper asks dlsym(RTLD_NEXT, ...) for the real call, as such libraries do, and
 * counts. NEXT_COUNTS names a file that gets the counts at exit. Used before and after
 * libgpushim.so in LD_PRELOAD.
 * Owns: the counts.   Lock: atomic.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT        __attribute__((visibility("default")))
#define NOT_AVAILABLE 999 /* cudaErrorUnknown, CUDA_ERROR_UNKNOWN */

int cuMemAlloc_v2(unsigned long long *out, size_t bytes) EXPORT;
int cuMemFree_v2(unsigned long long ptr) EXPORT;
int cudaMalloc(void **out, size_t bytes) EXPORT;
int cudaFree(void *ptr) EXPORT;

static atomic_uint driver_allocs, driver_frees, runtime_allocs, runtime_frees;

int cuMemAlloc_v2(unsigned long long *out, size_t bytes)
{
    int (*next)(unsigned long long *, size_t) =
        (int (*)(unsigned long long *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");

    atomic_fetch_add(&driver_allocs, 1);
    return next ? next(out, bytes) : NOT_AVAILABLE;
}

int cuMemFree_v2(unsigned long long ptr)
{
    int (*next)(unsigned long long) =
        (int (*)(unsigned long long))dlsym(RTLD_NEXT, "cuMemFree_v2");

    atomic_fetch_add(&driver_frees, 1);
    return next ? next(ptr) : NOT_AVAILABLE;
}

int cudaMalloc(void **out, size_t bytes)
{
    int (*next)(void **, size_t) =
        (int (*)(void **, size_t))dlsym(RTLD_NEXT, "cudaMalloc");

    atomic_fetch_add(&runtime_allocs, 1);
    return next ? next(out, bytes) : NOT_AVAILABLE;
}

int cudaFree(void *ptr)
{
    int (*next)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "cudaFree");

    atomic_fetch_add(&runtime_frees, 1);
    return next ? next(ptr) : NOT_AVAILABLE;
}

static void __attribute__((destructor)) write_counts(void)
{
    const char *path = getenv("NEXT_COUNTS");
    FILE *file = path ? fopen(path, "w") : NULL;

    if (!file)
        return;
    fprintf(file, "cuMemAlloc_v2 %u\ncuMemFree_v2 %u\ncudaMalloc %u\ncudaFree %u\n",
            driver_allocs, driver_frees, runtime_allocs, runtime_frees);
    fclose(file);
}
