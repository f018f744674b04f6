/*
 * ipc.c - the handles by which processes share events and memory.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

#include <string.h>

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    CUipcEventHandle driver_handle;

    memcpy(&driver_handle, &handle, sizeof(handle));
    return RT_FORWARD(cuIpcOpenEventHandle_v4010, event, driver_handle);
}

cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle,
                                 unsigned int flags)
{
    CUipcMemHandle driver_handle;
    CUdeviceptr address = 0;
    cudaError_t error;

    if (!devPtr)
        return gs_rt_leave(cudaErrorInvalidValue);
    memcpy(&driver_handle, &handle, sizeof(handle));
    error = RT_FORWARD(cuIpcOpenMemHandle_v11000, &address, driver_handle, flags);
    if (error == cudaSuccess)
        *devPtr = (void *)(uintptr_t)address;
    return error;
}
