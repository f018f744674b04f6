/*
 * stream.c - streams, work of the host in them, and their attributes.
 * A cudaStream_t is a CUstream, the two special handles included.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

#include <stdlib.h>

static_assert(sizeof(cudaStreamAttrValue) == sizeof(CUstreamAttrValue),
              "the runtime's stream attributes are the driver's");

cudaError_t cudaStreamCreate(cudaStream_t *pStream)
{
    return RT_FORWARD(cuStreamCreate_v2000, pStream, CU_STREAM_DEFAULT);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
    return RT_FORWARD(cuStreamCreate_v2000, pStream, flags);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags,
                                         int priority)
{
    return RT_FORWARD(cuStreamCreateWithPriority_v5050, pStream, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return RT_FORWARD(cuStreamDestroy_v4000, stream);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return RT_FORWARD(cuStreamSynchronize_v2000, stream);
}

cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream)
{
    return RT_FORWARD(cuStreamSynchronize_v7000_ptsz, stream);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return RT_FORWARD(cuStreamQuery_v2000, stream);
}

cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream)
{
    return RT_FORWARD(cuStreamQuery_v7000_ptsz, stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned int flags)
{
    return RT_FORWARD(cuStreamWaitEvent_v3020, stream, event, flags);
}

cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event,
                                     unsigned int flags)
{
    return RT_FORWARD(cuStreamWaitEvent_v7000_ptsz, stream, event, flags);
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int *priority)
{
    return RT_FORWARD(cuStreamGetPriority_v5050, hStream, priority);
}

cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t hStream, int *priority)
{
    return RT_FORWARD(cuStreamGetPriority_v7000_ptsz, hStream, priority);
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags)
{
    return RT_FORWARD(cuStreamGetFlags_v5050, hStream, flags);
}

cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t hStream, unsigned int *flags)
{
    return RT_FORWARD(cuStreamGetFlags_v7000_ptsz, hStream, flags);
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId)
{
    return RT_FORWARD(cuStreamGetId_v12000, hStream, streamId);
}

cudaError_t cudaStreamGetId_ptsz(cudaStream_t hStream, unsigned long long *streamId)
{
    return RT_FORWARD(cuStreamGetId_v12000_ptsz, hStream, streamId);
}

static cudaError_t stream_device(PFN_cuStreamGetDevice_v12080 get, cudaStream_t stream,
                                 int *device)
{
    CUdevice handle = 0;
    cudaError_t error;

    if (!device)
        return gs_rt_leave(cudaErrorInvalidValue);
    error = gs_rt_leave_cu(get(stream, &handle));
    if (error != cudaSuccess)
        return error;
    if (gs_rt_ordinal(handle) < 0)
        return gs_rt_leave(cudaErrorInvalidDevice);
    *device = gs_rt_ordinal(handle);
    return cudaSuccess;
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int *device)
{
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess)
        return error;
    return stream_device(gs_rt_cu.cuStreamGetDevice_v12080, hStream, device);
}

cudaError_t cudaStreamGetDevice_ptsz(cudaStream_t hStream, int *device)
{
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess)
        return error;
    return stream_device(gs_rt_cu.cuStreamGetDevice_v12080_ptsz, hStream, device);
}

/* ---- attributes ------------------------------------------------------------------ */

cudaError_t cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src)
{
    return RT_FORWARD(cuStreamCopyAttributes_v11000, dst, src);
}

cudaError_t cudaStreamCopyAttributes_ptsz(cudaStream_t dst, cudaStream_t src)
{
    return RT_FORWARD(cuStreamCopyAttributes_v11000_ptsz, dst, src);
}

cudaError_t cudaStreamGetAttribute(cudaStream_t hStream, cudaStreamAttrID attr,
                                   cudaStreamAttrValue *value_out)
{
    return RT_FORWARD(cuStreamGetAttribute_v11000, hStream, (CUstreamAttrID)attr,
                      (CUstreamAttrValue *)value_out);
}

cudaError_t cudaStreamGetAttribute_ptsz(cudaStream_t hStream, cudaStreamAttrID attr,
                                        cudaStreamAttrValue *value_out)
{
    return RT_FORWARD(cuStreamGetAttribute_v11000_ptsz, hStream, (CUstreamAttrID)attr,
                      (CUstreamAttrValue *)value_out);
}

cudaError_t cudaStreamSetAttribute(cudaStream_t hStream, cudaStreamAttrID attr,
                                   const cudaStreamAttrValue *value)
{
    return RT_FORWARD(cuStreamSetAttribute_v11000, hStream, (CUstreamAttrID)attr,
                      (const CUstreamAttrValue *)value);
}

cudaError_t cudaStreamSetAttribute_ptsz(cudaStream_t hStream, cudaStreamAttrID attr,
                                        const cudaStreamAttrValue *value)
{
    return RT_FORWARD(cuStreamSetAttribute_v11000_ptsz, hStream, (CUstreamAttrID)attr,
                      (const CUstreamAttrValue *)value);
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *devPtr, size_t length,
                                     unsigned int flags)
{
    return RT_FORWARD(cuStreamAttachMemAsync_v6000, stream, gs_rt_address(devPtr), length,
                      flags);
}

cudaError_t cudaStreamAttachMemAsync_ptsz(cudaStream_t stream, void *devPtr,
                                          size_t length, unsigned int flags)
{
    return RT_FORWARD(cuStreamAttachMemAsync_v7000_ptsz, stream, gs_rt_address(devPtr),
                      length, flags);
}

/* ---- work of the host ------------------------------------------------------------ */

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
    return RT_FORWARD(cuLaunchHostFunc_v10000, stream, fn, userData);
}

cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
    return RT_FORWARD(cuLaunchHostFunc_v10000_ptsz, stream, fn, userData);
}

/* What a callback of the runtime needs when the driver calls back. Freed by the call. */
struct callback {
    cudaStreamCallback_t function;
    void *user_data;
};

static void CUDA_CB call_back(CUstream stream, CUresult status, void *user_data)
{
    struct callback callback = *(struct callback *)user_data;

    free(user_data);
    callback.function(stream, gs_rt_error_of(status), callback.user_data);
}

static cudaError_t add_callback(PFN_cuStreamAddCallback_v5000 add, cudaStream_t stream,
                                cudaStreamCallback_t function, void *user_data,
                                unsigned int flags)
{
    struct callback *callback;
    cudaError_t error;

    if (!function)
        return gs_rt_leave(cudaErrorInvalidValue);
    callback = malloc(sizeof(*callback));
    if (!callback)
        return gs_rt_leave(cudaErrorMemoryAllocation);
    callback->function = function;
    callback->user_data = user_data;
    error = gs_rt_leave_cu(add(stream, call_back, callback, flags));
    if (error != cudaSuccess)
        free(callback);
    return error;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                  void *userData, unsigned int flags)
{
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess)
        return error;
    return add_callback(gs_rt_cu.cuStreamAddCallback_v5000, stream, callback, userData,
                        flags);
}

cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream, cudaStreamCallback_t callback,
                                       void *userData, unsigned int flags)
{
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess)
        return error;
    return add_callback(gs_rt_cu.cuStreamAddCallback_v7000_ptsz, stream, callback,
                        userData, flags);
}
