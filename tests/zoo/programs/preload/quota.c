/*
 * quota.c - a preloaded library that shares a GPU, as HAMi-core and vgpu-manager are
 * built: its own dlsym and cuGetProcAddress hand out its cuMemAlloc and cuMemFree, which
 * count, and the real functions come from dlopen("libcuda.so.1") and glibc's dlsym. At
 * exit it prints whether each allocation was freed (QUOTA_SEES).
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#undef cuMemAlloc
#undef cuMemFree
#undef cuGetProcAddress

typedef void *dlsym_function(void *, const char *);

static long allocations, frees;

static void *look_up(void *handle, const char *name)
{
    static dlsym_function *real;

    if (!real)
        real = (dlsym_function *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!real)
        real = (dlsym_function *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return real(handle, name);
}

static void *driver(const char *name)
{
    static void *handle;

    if (!handle)
        handle = dlopen("libcuda.so.1", RTLD_NOW);
    return handle ? look_up(handle, name) : NULL;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    CUresult (*real)(CUdeviceptr *, size_t) = driver("cuMemAlloc_v2");

    allocations++;
    return real(out, bytes);
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    CUresult (*real)(CUdeviceptr) = driver("cuMemFree_v2");

    frees++;
    return real(pointer);
}

static void *mine(const char *name)
{
    if (!strcmp(name, "cuMemAlloc") || !strcmp(name, "cuMemAlloc_v2"))
        return (void *)cuMemAlloc_v2;
    if (!strcmp(name, "cuMemFree") || !strcmp(name, "cuMemFree_v2"))
        return (void *)cuMemFree_v2;
    return NULL;
}

CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    CUresult (*real)(const char *, void **, int, cuuint64_t,
                     CUdriverProcAddressQueryResult *) = driver("cuGetProcAddress_v2");
    CUresult code = real(name, out, version, flags, status);

    if (code || !out || !*out)
        return code;
    if (version >= 3020 && mine(name))
        *out = mine(name);
    if (version >= 12000 && !strcmp(name, "cuGetProcAddress"))
        *out = (void *)cuGetProcAddress_v2;
    return code;
}

void *dlsym(void *handle, const char *name)
{
    void *found = name && handle != RTLD_NEXT ? mine(name) : NULL;

    if (name && handle != RTLD_NEXT && !strcmp(name, "cuGetProcAddress_v2"))
        found = (void *)cuGetProcAddress_v2;
    return found && look_up(handle, name) ? found : look_up(handle, name);
}

__attribute__((destructor)) static void end(void)
{
    const char *sees = getenv("QUOTA_SEES");

    if (sees && strcmp(sees, "calls") == 0 && allocations + frees)
        printf("quota: allocations %s\n", allocations > 0 ? "seen" : "not seen");
}
