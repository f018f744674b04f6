/*
 * event.c - events, and the handles by which processes share events and memory.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

#include <string.h>

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle), "same handle");
static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle), "same handle");

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return RT_FORWARD(cuEventCreate_v2000, event, CU_EVENT_DEFAULT);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    return RT_FORWARD(cuEventCreate_v2000, event, flags);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return RT_FORWARD(cuEventRecord_v2000, event, stream);
}

cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream)
{
    return RT_FORWARD(cuEventRecord_v7000_ptsz, event, stream);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                     unsigned int flags)
{
    return RT_FORWARD(cuEventRecordWithFlags_v11010, event, stream, flags);
}

cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream,
                                          unsigned int flags)
{
    return RT_FORWARD(cuEventRecordWithFlags_v11010_ptsz, event, stream, flags);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return RT_FORWARD(cuEventQuery_v2000, event);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return RT_FORWARD(cuEventSynchronize_v2000, event);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return RT_FORWARD(cuEventDestroy_v4000, event);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    return RT_FORWARD(cuEventElapsedTime_v12080, ms, start, end);
}

/* ---- between processes ----------------------------------------------------------- */

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    return RT_FORWARD(cuIpcGetEventHandle_v4010, (CUipcEventHandle *)handle, event);
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    CUipcEventHandle driver_handle;

    memcpy(&driver_handle, &handle, sizeof(handle));
    return RT_FORWARD(cuIpcOpenEventHandle_v4010, event, driver_handle);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr)
{
    return RT_FORWARD(cuIpcGetMemHandle_v4010, (CUipcMemHandle *)handle,
                      gs_rt_address(devPtr));
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

cudaError_t cudaIpcCloseMemHandle(void *devPtr)
{
    return RT_FORWARD(cuIpcCloseMemHandle_v4010, gs_rt_address(devPtr));
}
