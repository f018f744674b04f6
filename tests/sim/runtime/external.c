/*
 * external.c - external memory and semaphores. The runtime's descriptions have the
 * driver's members in the driver's order; those of the parameters of a signal or wait are
 * the same to the byte.
 * Owns:  nothing.   Lock: none.
 * Source: CUDA Runtime API, "External Resource Interoperability".
 */
#include "rt.h"

#include <string.h>

_Static_assert(sizeof(((struct cudaExternalMemoryHandleDesc *)0)->handle) ==
                   sizeof(((CUDA_EXTERNAL_MEMORY_HANDLE_DESC *)0)->handle),
               "handles of memory differ");
_Static_assert(sizeof(((struct cudaExternalSemaphoreHandleDesc *)0)->handle) ==
                   sizeof(((CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *)0)->handle),
               "handles of semaphores differ");

cudaError_t cudaImportExternalMemory(cudaExternalMemory_t *extMem_out,
                                     const struct cudaExternalMemoryHandleDesc *desc)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC wanted;
    CUexternalMemory made = NULL;

    RT_TRY(gs_rt_enter());
    if (!extMem_out || !desc)
        return gs_rt_leave(cudaErrorInvalidValue);
    memset(&wanted, 0, sizeof(wanted));
    wanted.type = (CUexternalMemoryHandleType)desc->type;
    memcpy(&wanted.handle, &desc->handle, sizeof(wanted.handle));
    wanted.size = desc->size;
    wanted.flags = desc->flags;
    cudaError_t error =
        gs_rt_leave_cu(gs_rt_cu.cuImportExternalMemory_v10000(&made, &wanted));
    if (error == cudaSuccess)
        *extMem_out = (cudaExternalMemory_t)made;
    return error;
}

cudaError_t
cudaExternalMemoryGetMappedBuffer(void **devPtr, cudaExternalMemory_t extMem,
                                  const struct cudaExternalMemoryBufferDesc *desc)
{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC wanted;
    CUdeviceptr address = 0;

    RT_TRY(gs_rt_enter());
    if (!devPtr || !desc)
        return gs_rt_leave(cudaErrorInvalidValue);
    memset(&wanted, 0, sizeof(wanted));
    wanted.offset = desc->offset;
    wanted.size = desc->size;
    wanted.flags = desc->flags;
    cudaError_t error = gs_rt_leave_cu(gs_rt_cu.cuExternalMemoryGetMappedBuffer_v10000(
        &address, (CUexternalMemory)extMem, &wanted));
    if (error == cudaSuccess)
        *devPtr = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaExternalMemoryGetMappedMipmappedArray(
    cudaMipmappedArray_t *mipmap, cudaExternalMemory_t extMem,
    const struct cudaExternalMemoryMipmappedArrayDesc *desc)
{
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC wanted;
    CUmipmappedArray made = NULL;
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess)
        return error;
    if (!mipmap || !desc)
        return gs_rt_leave(cudaErrorInvalidValue);
    memset(&wanted, 0, sizeof(wanted));
    wanted.offset = desc->offset;
    wanted.numLevels = desc->numLevels;
    error =
        gs_rt_array_desc(&desc->formatDesc, desc->extent, desc->flags, &wanted.arrayDesc);
    if (error != cudaSuccess)
        return gs_rt_leave(error);
    error = gs_rt_leave_cu(gs_rt_cu.cuExternalMemoryGetMappedMipmappedArray_v10000(
        &made, (CUexternalMemory)extMem, &wanted));
    if (error == cudaSuccess)
        *mipmap = (cudaMipmappedArray_t)made;
    return error;
}

cudaError_t
cudaImportExternalSemaphore(cudaExternalSemaphore_t *extSem_out,
                            const struct cudaExternalSemaphoreHandleDesc *desc)
{
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC wanted;
    CUexternalSemaphore made = NULL;

    RT_TRY(gs_rt_enter());
    if (!extSem_out || !desc)
        return gs_rt_leave(cudaErrorInvalidValue);
    memset(&wanted, 0, sizeof(wanted));
    wanted.type = (CUexternalSemaphoreHandleType)desc->type;
    memcpy(&wanted.handle, &desc->handle, sizeof(wanted.handle));
    wanted.flags = desc->flags;
    cudaError_t error =
        gs_rt_leave_cu(gs_rt_cu.cuImportExternalSemaphore_v10000(&made, &wanted));
    if (error == cudaSuccess)
        *extSem_out = (cudaExternalSemaphore_t)made;
    return error;
}
