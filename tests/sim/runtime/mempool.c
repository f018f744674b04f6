/*
 * mempool.c - stream-ordered allocation and memory pools.
 * forward.def has the functions that only forward. A cudaMemPool_t is a CUmemoryPool.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

/* Hand out what the driver gave, if it did. */
static cudaError_t give(CUresult result, CUdeviceptr address, void **out)
{
    if (result == CUDA_SUCCESS)
        *out = (void *)(uintptr_t)address;
    return gs_rt_leave_cu(result);
}

static cudaError_t malloc_async(PFN_cuMemAllocAsync_v11020 alloc, void **devPtr,
                                size_t size, cudaStream_t stream)
{
    CUdeviceptr address = 0;
    CUresult result;

    if (!devPtr)
        return gs_rt_leave(cudaErrorInvalidValue);
    if (size == 0) {
        *devPtr = NULL;
        return cudaSuccess;
    }
    result = alloc(&address, size, stream);
    return give(result, address, devPtr);
}

RT_TWINS(cudaMallocAsync, ptsz, (void **devPtr, size_t size, cudaStream_t hStream),
         RT_ENTERED(malloc_async(RT_PICK(per_thread, cuMemAllocAsync_v11020,
                                         cuMemAllocAsync_v11020_ptsz),
                                 devPtr, size, hStream)));

static cudaError_t malloc_from_pool(PFN_cuMemAllocFromPoolAsync_v11020 alloc, void **ptr,
                                    size_t size, cudaMemPool_t pool, cudaStream_t stream)
{
    CUdeviceptr address = 0;
    CUresult result;

    if (!ptr)
        return gs_rt_leave(cudaErrorInvalidValue);
    if (size == 0) {
        *ptr = NULL;
        return cudaSuccess;
    }
    result = alloc(&address, size, pool, stream);
    return give(result, address, ptr);
}

RT_TWINS(cudaMallocFromPoolAsync, ptsz,
         (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
         RT_ENTERED(malloc_from_pool(RT_PICK(per_thread, cuMemAllocFromPoolAsync_v11020,
                                             cuMemAllocFromPoolAsync_v11020_ptsz),
                                     ptr, size, memPool, stream)));

cudaError_t cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool,
                                     struct cudaMemPoolPtrExportData *exportData)
{
    CUdeviceptr address = 0;
    CUresult result;

    RT_TRY(gs_rt_enter());
    if (!ptr)
        return gs_rt_leave(cudaErrorInvalidValue);
    result = gs_rt_cu.cuMemPoolImportPointer_v11020(&address, memPool,
                                                    (CUmemPoolPtrExportData *)exportData);
    return give(result, address, ptr);
}

/* The pools of a device: no context is needed, its handle is. */
static cudaError_t enter_for_device(int ordinal, CUdevice *handle)
{
    RT_TRY(gs_rt_enter_without_context());
    return gs_rt_leave(gs_rt_device(ordinal, handle));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)
{
    CUdevice handle;

    RT_TRY(enter_for_device(device, &handle));
    return gs_rt_leave_cu(gs_rt_cu.cuDeviceGetDefaultMemPool_v11020(memPool, handle));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)
{
    CUdevice handle;

    RT_TRY(enter_for_device(device, &handle));
    return gs_rt_leave_cu(gs_rt_cu.cuDeviceGetMemPool_v11020(memPool, handle));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)
{
    CUdevice handle;

    RT_TRY(enter_for_device(device, &handle));
    return gs_rt_leave_cu(gs_rt_cu.cuDeviceSetMemPool_v11020(handle, memPool));
}
