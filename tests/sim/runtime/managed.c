/*
 * managed.c - placement of managed memory: prefetch and advice.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

#include <string.h>

static CUmemLocation driver_location(struct cudaMemLocation location)
{
    CUmemLocation driver;

    memcpy(&driver, &location, sizeof(driver));
    return driver;
}

cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count,
                                 struct cudaMemLocation location, unsigned int flags,
                                 cudaStream_t stream)
{
    return RT_FORWARD(cuMemPrefetchAsync_v12020, gs_rt_address(devPtr), count,
                      driver_location(location), flags, stream);
}

cudaError_t cudaMemPrefetchAsync_ptsz(const void *devPtr, size_t count,
                                      struct cudaMemLocation location, unsigned int flags,
                                      cudaStream_t stream)
{
    return RT_FORWARD(cuMemPrefetchAsync_v12020_ptsz, gs_rt_address(devPtr), count,
                      driver_location(location), flags, stream);
}

cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    return RT_FORWARD(cuMemAdvise_v12020, gs_rt_address(devPtr), count,
                      (CUmem_advise)advice, driver_location(location));
}

cudaError_t
cudaMemDiscardAndPrefetchBatchAsync_ptsz(void **dptrs, size_t *sizes, size_t count,
                                         struct cudaMemLocation *prefetchLocs,
                                         size_t *prefetchLocIdxs, size_t numPrefetchLocs,
                                         unsigned long long flags, cudaStream_t stream)
{
    return RT_FORWARD(cuMemDiscardAndPrefetchBatchAsync_v13000_ptsz, (CUdeviceptr *)dptrs,
                      sizes, count, (CUmemLocation *)prefetchLocs, prefetchLocIdxs,
                      numPrefetchLocs, flags, stream);
}
