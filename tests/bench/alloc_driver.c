/*
 * alloc_driver.c - the allocators of bench_driver, over the CUDA driver.
 *
 *   malloc   cuMemAlloc and cuMemFree: the driver's own, or gpushim's where it is
 * preloaded calls    no allocator: the driver calls that gpushim makes in a pair that it
 * serves, so that the device's share can be told from its own
 *
 * Owns: the primary context's handle, immutable after start.   Lock: none.
 */
#include "bench.h"

#include <cuda.h>

static CUcontext context; /* immutable after start */

static int start(void)
{
    CUdevice device;
    CUresult res = cuInit(0);

    if (res == CUDA_SUCCESS)
        res = cuDeviceGet(&device, 0);
    if (res == CUDA_SUCCESS && !context)
        res = cuDevicePrimaryCtxRetain(&context, device);
    if (res == CUDA_SUCCESS)
        res = cuCtxSetCurrent(context);
    return (int)res;
}

static int driver_alloc(uint64_t *addr, size_t bytes)
{
    CUdeviceptr block;
    CUresult res = cuMemAlloc(&block, bytes);

    if (res == CUDA_SUCCESS)
        *addr = block;
    return (int)res;
}

static int driver_free(uint64_t addr)
{
    return (int)cuMemFree(addr);
}

static int calls_alloc(uint64_t *addr, size_t bytes)
{
    CUcontext current;

    *addr = bytes;
    return (int)cuCtxGetCurrent(&current);
}

static int calls_free(uint64_t addr)
{
    CUcontext current;
    CUresult res = cuCtxGetCurrent(&current);

    (void)addr;
    return (int)(res == CUDA_SUCCESS ? cuCtxSynchronize() : res);
}

const struct bench_allocator bench_allocators[] = {
    {"malloc", start, driver_alloc, driver_free},
    {"calls", start, calls_alloc, calls_free},
    {0},
};
