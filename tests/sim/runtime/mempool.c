/*
 * mempool.c - stream-ordered allocation and memory pools.
 * Owns:  nothing.   Lock: none.
 *
 * A cudaMemPool_t is a CUmemoryPool, and the parameter structures of both APIs have the
 * same members in the same order; the assertions below say so where one is passed on.
 */
#include "rt.h"

#define SAME_LAYOUT(runtime_type, driver_type)                                           \
    static_assert(sizeof(runtime_type) == sizeof(driver_type),                           \
                  #runtime_type " and " #driver_type " differ")

SAME_LAYOUT(struct cudaMemPoolProps, CUmemPoolProps);
SAME_LAYOUT(struct cudaMemAccessDesc, CUmemAccessDesc);
SAME_LAYOUT(struct cudaMemLocation, CUmemLocation);
SAME_LAYOUT(struct cudaMemPoolPtrExportData, CUmemPoolPtrExportData);

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

cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)
{
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess)
        return error;
    return malloc_async(gs_rt_cu.cuMemAllocAsync_v11020, devPtr, size, hStream);
}

cudaError_t cudaMallocAsync_ptsz(void **devPtr, size_t size, cudaStream_t hStream)
{
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess)
        return error;
    return malloc_async(gs_rt_cu.cuMemAllocAsync_v11020_ptsz, devPtr, size, hStream);
}

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

cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool,
                                    cudaStream_t stream)
{
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess)
        return error;
    return malloc_from_pool(gs_rt_cu.cuMemAllocFromPoolAsync_v11020, ptr, size, memPool,
                            stream);
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void **ptr, size_t size, cudaMemPool_t memPool,
                                         cudaStream_t stream)
{
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess)
        return error;
    return malloc_from_pool(gs_rt_cu.cuMemAllocFromPoolAsync_v11020_ptsz, ptr, size,
                            memPool, stream);
}

cudaError_t cudaFreeAsync(void *devPtr, cudaStream_t hStream)
{
    return RT_FORWARD(cuMemFreeAsync_v11020, gs_rt_address(devPtr), hStream);
}

cudaError_t cudaFreeAsync_ptsz(void *devPtr, cudaStream_t hStream)
{
    return RT_FORWARD(cuMemFreeAsync_v11020_ptsz, gs_rt_address(devPtr), hStream);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *memPool,
                              const struct cudaMemPoolProps *poolProps)
{
    return RT_FORWARD(cuMemPoolCreate_v11020, memPool, (const CUmemPoolProps *)poolProps);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool)
{
    return RT_FORWARD(cuMemPoolDestroy_v11020, memPool);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep)
{
    return RT_FORWARD(cuMemPoolTrimTo_v11020, memPool, minBytesToKeep);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr,
                                    void *value)
{
    return RT_FORWARD(cuMemPoolSetAttribute_v11020, memPool, (CUmemPool_attribute)attr,
                      value);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr,
                                    void *value)
{
    return RT_FORWARD(cuMemPoolGetAttribute_v11020, memPool, (CUmemPool_attribute)attr,
                      value);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool,
                                 const struct cudaMemAccessDesc *descList, size_t count)
{
    return RT_FORWARD(cuMemPoolSetAccess_v11020, memPool,
                      (const CUmemAccessDesc *)descList, count);
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
                                 struct cudaMemLocation *location)
{
    return RT_FORWARD(cuMemPoolGetAccess_v11020, (CUmemAccess_flags *)flags, memPool,
                      (CUmemLocation *)location);
}

cudaError_t cudaMemPoolExportToShareableHandle(void *shareableHandle,
                                               cudaMemPool_t memPool,
                                               enum cudaMemAllocationHandleType type,
                                               unsigned int flags)
{
    return RT_FORWARD(cuMemPoolExportToShareableHandle_v11020, shareableHandle, memPool,
                      (CUmemAllocationHandleType)type, flags);
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *memPool,
                                                 void *shareableHandle,
                                                 enum cudaMemAllocationHandleType type,
                                                 unsigned int flags)
{
    return RT_FORWARD(cuMemPoolImportFromShareableHandle_v11020, memPool, shareableHandle,
                      (CUmemAllocationHandleType)type, flags);
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData,
                                     void *ptr)
{
    return RT_FORWARD(cuMemPoolExportPointer_v11020, (CUmemPoolPtrExportData *)exportData,
                      gs_rt_address(ptr));
}

cudaError_t cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool,
                                     struct cudaMemPoolPtrExportData *exportData)
{
    CUdeviceptr address = 0;
    CUresult result;
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess)
        return error;
    if (!ptr)
        return gs_rt_leave(cudaErrorInvalidValue);
    result = gs_rt_cu.cuMemPoolImportPointer_v11020(&address, memPool,
                                                    (CUmemPoolPtrExportData *)exportData);
    return give(result, address, ptr);
}

/* The pools of a device: no context is needed, its handle is. */
static cudaError_t enter_for_device(int ordinal, CUdevice *handle)
{
    cudaError_t error = gs_rt_enter_without_context();

    if (error != cudaSuccess)
        return error;
    return gs_rt_leave(gs_rt_device(ordinal, handle));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)
{
    CUdevice handle;
    cudaError_t error = enter_for_device(device, &handle);

    if (error != cudaSuccess)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuDeviceGetDefaultMemPool_v11020(memPool, handle));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)
{
    CUdevice handle;
    cudaError_t error = enter_for_device(device, &handle);

    if (error != cudaSuccess)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuDeviceGetMemPool_v11020(memPool, handle));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)
{
    CUdevice handle;
    cudaError_t error = enter_for_device(device, &handle);

    if (error != cudaSuccess)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuDeviceSetMemPool_v11020(handle, memPool));
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *memPool,
                                     struct cudaMemLocation *location,
                                     enum cudaMemAllocationType type)
{
    return RT_FORWARD(cuMemGetDefaultMemPool_v13000, memPool, (CUmemLocation *)location,
                      (CUmemAllocationType)type);
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
                              enum cudaMemAllocationType type)
{
    return RT_FORWARD(cuMemGetMemPool_v13000, memPool, (CUmemLocation *)location,
                      (CUmemAllocationType)type);
}

cudaError_t cudaMemSetMemPool(struct cudaMemLocation *location,
                              enum cudaMemAllocationType type, cudaMemPool_t memPool)
{
    return RT_FORWARD(cuMemSetMemPool_v13000, (CUmemLocation *)location,
                      (CUmemAllocationType)type, memPool);
}
