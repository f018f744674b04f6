/*
 * quota.c - a library that shares a GPU, as /etc/ld.so.preload has them behind
 * LD_PRELOAD: it counts allocations and halves the memory that cuMemGetInfo shows.
 * QUOTA_COUNTS names the file for the counts. plain     (-DPLAIN) the next functions by
 * RTLD_NEXT, as natively for a program linked with the driver helped    (-DHELPED) the
 * next functions from another library, in a constructor frees     (-DFREES) cuMemFree
 * alone, by the dlsym that the C library's handle gives otherwise a dlsym and a
 * cuGetProcAddress of its own, and the driver by its handle
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

static long allocs, frees, infos;

#if defined(PLAIN)
#define NEXT(name) dlsym(RTLD_NEXT, #name)
#elif defined(HELPED)
void *helper(const char *name);
static void *next_cuMemAlloc_v2, *next_cuMemFree_v2, *next_cuMemGetInfo_v2;
__attribute__((constructor)) static void start(void)
{
    next_cuMemAlloc_v2 = helper("cuMemAlloc_v2");
    next_cuMemFree_v2 = helper("cuMemFree_v2");
    next_cuMemGetInfo_v2 = helper("cuMemGetInfo_v2");
}
#define NEXT(name) next_##name
#elif defined(FREES)
static void *past_all(const char *name)
{
    void *(*find)(void *, const char *) =
        (void *(*)(void *, const char *))dlsym(dlopen("libc.so.6", RTLD_NOW), "dlsym");
    return find(dlopen("libcuda.so.1", RTLD_NOW), name);
}
#define NEXT(name) past_all(#name)
#else
#define LOOKS_UP
typedef void *look_up_fn(void *, const char *);

static look_up_fn *libc_look_up(void)
{
    static look_up_fn *found;
    const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    for (size_t i = 0; !found && i < 3; i++)
        found = (look_up_fn *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    return found;
}

static void *driver(const char *name)
{
    static void *handle;
    if (!handle)
        handle = dlopen("libcuda.so.1", RTLD_NOW);
    return handle ? libc_look_up()(handle, name) : NULL;
}
#define NEXT(name) driver(#name)
#endif

#ifndef FREES
int cuMemAlloc_v2(pointer *out, size_t bytes)
{
    int (*next)(pointer *, size_t) = (int (*)(pointer *, size_t))NEXT(cuMemAlloc_v2);
    allocs++;
    return next(out, bytes);
}

#endif

int cuMemFree_v2(pointer address)
{
    int (*next)(pointer) = (int (*)(pointer))NEXT(cuMemFree_v2);
    frees++;
    return next(address);
}

#ifndef FREES
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    int (*next)(size_t *, size_t *) = (int (*)(size_t *, size_t *))NEXT(cuMemGetInfo_v2);
    int result = next(free_bytes, total);
    infos++;
    if (result == 0 && total)
        *total /= 2;
    return result;
}
#endif

#ifdef LOOKS_UP
static void *mine(const char *name)
{
    if (strcmp(name, "cuMemAlloc_v2") == 0 || strcmp(name, "cuMemAlloc") == 0)
        return (void *)cuMemAlloc_v2;
    if (strcmp(name, "cuMemFree_v2") == 0 || strcmp(name, "cuMemFree") == 0)
        return (void *)cuMemFree_v2;
    if (strcmp(name, "cuMemGetInfo_v2") == 0 || strcmp(name, "cuMemGetInfo") == 0)
        return (void *)cuMemGetInfo_v2;
    return NULL;
}

int cuGetProcAddress_v2(const char *name, void **out, int version,
                        unsigned long long flags, void *status)
{
    int (*next)(const char *, void **, int, unsigned long long, void *) =
        (int (*)(const char *, void **, int, unsigned long long, void *))driver(
            "cuGetProcAddress_v2");
    int result = next(name, out, version, flags, status);
    if (result == 0 && out && *out && version >= 3020 && mine(name))
        *out = mine(name);
    if (result == 0 && out && *out && version >= 12000 &&
        strcmp(name, "cuGetProcAddress") == 0)
        *out = (void *)cuGetProcAddress_v2;
    return result;
}

void *dlsym(void *handle, const char *name)
{
    void *found = NULL;
    if (handle != RTLD_NEXT && strcmp(name, "cuMemAlloc") != 0 &&
        strcmp(name, "cuMemFree") != 0 && strcmp(name, "cuMemGetInfo") != 0)
        found = strcmp(name, "cuGetProcAddress_v2") == 0 ? (void *)cuGetProcAddress_v2
                                                         : mine(name);
    return found && libc_look_up()(handle, name) ? found : libc_look_up()(handle, name);
}
#endif

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("QUOTA_COUNTS");
    FILE *file = path && allocs + frees + infos > 0 ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "allocs %ld\nfrees %ld\ninfos %ld\n", allocs, frees, infos);
        fclose(file);
    }
}
