/*
 * memory.c - device, host and managed memory: allocate, free, register, ask.
 * Owns:  nothing; the driver knows what is allocated.   Lock: none.
 */
#include "rt.h"

#include <string.h>

/* Pitch of cudaMallocPitch serves accesses of up to this many bytes (cuMemAllocPitch). */
#define PITCH_ELEMENT_BYTES 16

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
    CUdeviceptr address = 0;

    RT_TRY(gs_rt_enter());
    if (!devPtr)
        return gs_rt_leave(cudaErrorInvalidValue);
    /* Nothing asked, nothing given: the driver would refuse a size of 0. */
    if (size == 0) {
        *devPtr = NULL;
        return cudaSuccess;
    }
    cudaError_t error = gs_rt_leave_cu(gs_rt_cu.cuMemAlloc_v3020(&address, size));
    if (error == cudaSuccess)
        *devPtr = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaFree(void *devPtr)
{
    /* cudaFree(NULL) does nothing but bring up the context. */
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess || !devPtr)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuMemFree_v3020(gs_rt_address(devPtr)));
}

cudaError_t cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
    CUdeviceptr address = 0;
    size_t bytes = 0;

    RT_TRY(gs_rt_enter());
    if (!devPtr || !pitch)
        return gs_rt_leave(cudaErrorInvalidValue);
    if (width == 0 || height == 0) {
        *devPtr = NULL;
        *pitch = 0;
        return cudaSuccess;
    }
    cudaError_t error = gs_rt_leave_cu(gs_rt_cu.cuMemAllocPitch_v3020(
        &address, &bytes, width, height, PITCH_ELEMENT_BYTES));
    if (error == cudaSuccess) {
        *devPtr = (void *)(uintptr_t)address;
        *pitch = bytes;
    }
    return error;
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
    void *address;
    size_t pitch, rows;

    if (!pitchedDevPtr || __builtin_mul_overflow(extent.height, extent.depth, &rows))
        return gs_rt_leave(cudaErrorInvalidValue);
    RT_TRY(cudaMallocPitch(&address, &pitch, extent.width, rows));
    pitchedDevPtr->ptr = address;
    pitchedDevPtr->pitch = pitch;
    pitchedDevPtr->xsize = extent.width;
    pitchedDevPtr->ysize = extent.height;
    return cudaSuccess;
}

cudaError_t cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)
{
    CUdeviceptr address = 0;

    RT_TRY(gs_rt_enter());
    if (!devPtr)
        return gs_rt_leave(cudaErrorInvalidValue);
    cudaError_t error =
        gs_rt_leave_cu(gs_rt_cu.cuMemAllocManaged_v6000(&address, size, flags));
    if (error == cudaSuccess)
        *devPtr = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
    void *address = NULL;

    RT_TRY(gs_rt_enter());
    if (!pHost)
        return gs_rt_leave(cudaErrorInvalidValue);
    if (size == 0) {
        *pHost = NULL;
        return cudaSuccess;
    }
    cudaError_t error =
        gs_rt_leave_cu(gs_rt_cu.cuMemHostAlloc_v2020(&address, size, flags));
    if (error == cudaSuccess)
        *pHost = address;
    return error;
}

/* The runtime never asks for cuMemAllocHost. */
cudaError_t cudaMallocHost(void **ptr, size_t size)
{
    return cudaHostAlloc(ptr, size, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *ptr)
{
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess || !ptr)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuMemFreeHost_v2000(ptr));
}

cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
    CUdeviceptr address = 0;
    cudaError_t error;

    if (!pDevice)
        return gs_rt_leave(cudaErrorInvalidValue);
    error = RT_FORWARD(cuMemHostGetDevicePointer_v3020, &address, pHost, flags);
    if (error == cudaSuccess)
        *pDevice = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    size_t free_bytes = 0, total_bytes = 0;

    RT_TRY(RT_FORWARD(cuMemGetInfo_v3020, &free_bytes, &total_bytes));
    if (free)
        *free = free_bytes;
    if (total)
        *total = total_bytes;
    return cudaSuccess;
}

/* What the caller has room for: 12 knew no reserved members at the end. */
#if GS_RT_MAJOR >= 13
#define POINTER_ATTRIBUTES_BYTES sizeof(struct cudaPointerAttributes)
#else
#define POINTER_ATTRIBUTES_BYTES offsetof(struct cudaPointerAttributes, reserved)
#endif

/* CUmemorytype and whether it is managed -> the runtime's kind of memory. */
static enum cudaMemoryType memory_type(unsigned int type, bool managed)
{
    if (managed)
        return cudaMemoryTypeManaged;
    if (type == CU_MEMORYTYPE_DEVICE)
        return cudaMemoryTypeDevice;
    if (type == CU_MEMORYTYPE_HOST)
        return cudaMemoryTypeHost;
    return cudaMemoryTypeUnregistered;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                     const void *ptr)
{
    unsigned int type = 0, managed = 0;
    CUdeviceptr device_pointer = 0;
    void *host_pointer = NULL;
    int device = cudaInvalidDeviceId;
    CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &managed, &device_pointer, &host_pointer, &device};

    if (!attributes)
        return gs_rt_leave(cudaErrorInvalidValue);
    /* A pointer that CUDA does not know is no error here: its attributes stay as above.
     */
    RT_TRY(RT_FORWARD(cuPointerGetAttributes_v7000, GS_ARRAY_LEN(wanted), wanted, values,
                      gs_rt_address(ptr)));
    memset(attributes, 0, POINTER_ATTRIBUTES_BYTES);
    attributes->type = memory_type(type, managed);
    if (attributes->type == cudaMemoryTypeUnregistered) {
        attributes->device = cudaInvalidDeviceId;
        attributes->hostPointer = (void *)(uintptr_t)ptr;
        return cudaSuccess;
    }
    attributes->device = device;
    attributes->devicePointer = (void *)(uintptr_t)device_pointer;
    attributes->hostPointer = host_pointer;
    return cudaSuccess;
}
