/*
 * trampolines.c - the driver's functions as a framework has them: each opens the driver
 * at the first call. TensorFlow's libtensorflow_framework exports 607 of this kind.
 */
#include <dlfcn.h>

#include "calls.h"

static void *look_up(const char *name)
{
    static void *driver;
    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    return driver ? dlsym(driver, name) : NULL;
}

#define ONE(name, type)                                                                  \
    int name(type a)                                                                     \
    {                                                                                    \
        int (*next)(type) = (int (*)(type))look_up(#name);                               \
        return next ? next(a) : 999;                                                     \
    }
#define TWO(name, type, other)                                                           \
    int name(type a, other b)                                                            \
    {                                                                                    \
        int (*next)(type, other) = (int (*)(type, other))look_up(#name);                 \
        return next ? next(a, b) : 999;                                                  \
    }

ONE(cuInit, unsigned)
ONE(cuDriverGetVersion, int *)
ONE(cuCtxGetCurrent, void **)
ONE(cuCtxSetCurrent, void *)
TWO(cuDevicePrimaryCtxRetain, void **, int)
TWO(cuMemAlloc_v2, pointer *, size_t)
ONE(cuMemFree_v2, pointer)
