/*
 * context_switch.c - calls of the driver in another context than the current one.
 * Owns:  nothing.   Lock: none.
 */
#include "context_switch.h"

CUresult gs_context_push(CUcontext handle, bool *pushed)
{
    const struct gs_real *real = gs_real();
    CUcontext now = NULL;
    *pushed = false;
    CUresult result = real->cuCtxGetCurrent(&now);
    if (result != CUDA_SUCCESS || now == handle) {
        return result;
    }
    result = real->cuCtxPushCurrent_v2(handle);
    *pushed = result == CUDA_SUCCESS;
    return result;
}

void gs_context_pop(bool pushed)
{
    CUcontext popped;
    if (pushed) {
        gs_real()->cuCtxPopCurrent_v2(&popped);
    }
}

CUresult gs_stream_context(CUstream stream, CUcontext *out)
{
    const struct gs_real *real = gs_real();
    CUresult result = real->cuCtxGetCurrent(out);
    if (result == CUDA_SUCCESS && stream && stream != CU_STREAM_LEGACY &&
        stream != CU_STREAM_PER_THREAD && real->cuStreamGetCtx) {
        result = real->cuStreamGetCtx(stream, out);
    }
    return result;
}
