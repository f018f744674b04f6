/*
 * wrapper.c - stands between the preloaded library and the driver, and wraps calls that
 * give the device work, and the look-up that hands such calls out, as a quota library
 * does.
 */
#include <cuda.h>
#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))

static void *find_next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    /* No tail call: dlsym must return to this library, which RTLD_NEXT is relative to. */
    __asm__ volatile("" : "+r"(found));
    return found;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    CUresult (*next)(CUgraphExec, CUstream) = find_next("cuGraphLaunch");

    return next(exec, stream);
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z,
                               unsigned block_x, unsigned block_y, unsigned block_z,
                               unsigned shared, CUstream stream, void **parameters,
                               void **extra)
{
    CUresult (*next)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                     unsigned, unsigned, CUstream, void **, void **) =
        find_next("cuLaunchKernel");

    return next(function, x, y, z, block_x, block_y, block_z, shared, stream, parameters,
                extra);
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **found, int version,
                                    cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status)
{
    CUresult (*next)(const char *, void **, int, cuuint64_t,
                     CUdriverProcAddressQueryResult *) = find_next("cuGetProcAddress_v2");

    return next(name, found, version, flags, status);
}
