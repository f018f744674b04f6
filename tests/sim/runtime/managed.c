/*
 * managed.c - placement of managed memory: prefetch, advice, discard, range attributes.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

#include <string.h>

static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "same location");

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

cudaError_t cudaMemPrefetchBatchAsync(void **dptrs, size_t *sizes, size_t count,
                                      struct cudaMemLocation *prefetchLocs,
                                      size_t *prefetchLocIdxs, size_t numPrefetchLocs,
                                      unsigned long long flags, cudaStream_t stream)
{
    return RT_FORWARD(cuMemPrefetchBatchAsync_v13000, (CUdeviceptr *)dptrs, sizes, count,
                      (CUmemLocation *)prefetchLocs, prefetchLocIdxs, numPrefetchLocs,
                      flags, stream);
}

cudaError_t cudaMemPrefetchBatchAsync_ptsz(void **dptrs, size_t *sizes, size_t count,
                                           struct cudaMemLocation *prefetchLocs,
                                           size_t *prefetchLocIdxs,
                                           size_t numPrefetchLocs,
                                           unsigned long long flags, cudaStream_t stream)
{
    return RT_FORWARD(cuMemPrefetchBatchAsync_v13000_ptsz, (CUdeviceptr *)dptrs, sizes,
                      count, (CUmemLocation *)prefetchLocs, prefetchLocIdxs,
                      numPrefetchLocs, flags, stream);
}

cudaError_t cudaMemDiscardBatchAsync(void **dptrs, size_t *sizes, size_t count,
                                     unsigned long long flags, cudaStream_t stream)
{
    return RT_FORWARD(cuMemDiscardBatchAsync_v13000, (CUdeviceptr *)dptrs, sizes, count,
                      flags, stream);
}

cudaError_t cudaMemDiscardBatchAsync_ptsz(void **dptrs, size_t *sizes, size_t count,
                                          unsigned long long flags, cudaStream_t stream)
{
    return RT_FORWARD(cuMemDiscardBatchAsync_v13000_ptsz, (CUdeviceptr *)dptrs, sizes,
                      count, flags, stream);
}

cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void **dptrs, size_t *sizes, size_t count,
                                                struct cudaMemLocation *prefetchLocs,
                                                size_t *prefetchLocIdxs,
                                                size_t numPrefetchLocs,
                                                unsigned long long flags,
                                                cudaStream_t stream)
{
    return RT_FORWARD(cuMemDiscardAndPrefetchBatchAsync_v13000, (CUdeviceptr *)dptrs,
                      sizes, count, (CUmemLocation *)prefetchLocs, prefetchLocIdxs,
                      numPrefetchLocs, flags, stream);
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

cudaError_t cudaMemRangeGetAttribute(void *data, size_t dataSize,
                                     enum cudaMemRangeAttribute attribute,
                                     const void *devPtr, size_t count)
{
    return RT_FORWARD(cuMemRangeGetAttribute_v8000, data, dataSize,
                      (CUmem_range_attribute)attribute, gs_rt_address(devPtr), count);
}

cudaError_t cudaMemRangeGetAttributes(void **data, size_t *dataSizes,
                                      enum cudaMemRangeAttribute *attributes,
                                      size_t numAttributes, const void *devPtr,
                                      size_t count)
{
    return RT_FORWARD(cuMemRangeGetAttributes_v8000, data, dataSizes,
                      (CUmem_range_attribute *)attributes, numAttributes,
                      gs_rt_address(devPtr), count);
}
