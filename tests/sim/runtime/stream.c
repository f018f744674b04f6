/*
 * stream.c - streams and callbacks in them; forward.def has the functions that only
 * forward. A cudaStream_t is a CUstream, the two special handles included. Owns: nothing.
 * Lock: none.
 */
#include "rt.h"

#include <stdlib.h>

static cudaError_t stream_device(PFN_cuStreamGetDevice_v12080 get, cudaStream_t stream,
                                 int *device)
{
    CUdevice handle = 0;

    if (!device)
        return gs_rt_leave(cudaErrorInvalidValue);
    RT_TRY(gs_rt_leave_cu(get(stream, &handle)));
    if (gs_rt_ordinal(handle) < 0)
        return gs_rt_leave(cudaErrorInvalidDevice);
    *device = gs_rt_ordinal(handle);
    return cudaSuccess;
}

RT_TWINS(cudaStreamGetDevice, ptsz, (cudaStream_t hStream, int *device),
         RT_ENTERED(stream_device(RT_PICK(per_thread, cuStreamGetDevice_v12080,
                                          cuStreamGetDevice_v12080_ptsz),
                                  hStream, device)));

/* ---- work of the host ------------------------------------------------------------ */

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

RT_TWINS(cudaStreamAddCallback, ptsz,
         (cudaStream_t stream, cudaStreamCallback_t callback, void *userData,
          unsigned int flags),
         RT_ENTERED(add_callback(RT_PICK(per_thread, cuStreamAddCallback_v5000,
                                         cuStreamAddCallback_v7000_ptsz),
                                 stream, callback, userData, flags)));
