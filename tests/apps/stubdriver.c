/*
 * stubdriver.c - libcuda.so.1 as toolkits have it for linking: each function is there and
 * refuses. Beside that it has what a driver of tomorrow may have: functions that no
 * header names, and a newer interface of one that all do. They answer what they were
 * given.
 */
#include <stdint.h>
#include <string.h>

/* As in cuda.h, which declares the functions with what they are natively given. */
typedef int CUresult;
#define CUDA_SUCCESS            0
#define CUDA_ERROR_STUB_LIBRARY 34
#define CUDA_ERROR_NOT_FOUND    500

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define EXPORT __attribute__((visibility("default")))

/* The names count: nobody gives these anything. */
#define STUB(name)                                                                       \
    EXPORT CUresult name(void)                                                           \
    {                                                                                    \
        return CUDA_ERROR_STUB_LIBRARY;                                                  \
    }

STUB(cuInit)
STUB(cuDriverGetVersion)
STUB(cuCtxGetCurrent)
STUB(cuMemAlloc_v2)
STUB(cuMemFree_v2)

EXPORT int cuSubgridCreate(int a, double b, int c, int d, int e, int f, int g, int h)
{
    return a + (int)b + c + d + e + f + g + h;
}

EXPORT int cuMemAlloc_v9(int a, int b)
{
    return a * b;
}

/* The newest version gets the newest interface; symbolStatus is left alone. */
EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
                                    uint64_t flags, void *status)
{
    (void)flags;
    (void)status;
    *pfn = NULL;
    if (strcmp(symbol, "cuSubgridCreate") == 0)
        *pfn = (void *)cuSubgridCreate;
    else if (strcmp(symbol, "cuMemAlloc") == 0)
        *pfn = version > 90000 ? (void *)cuMemAlloc_v9 : (void *)cuMemAlloc_v2;
    return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
