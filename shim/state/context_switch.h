/*
 * context_switch.h - driver calls in a context other than the thread's current one.
 *
 * Lock: none.
 */
#ifndef GS_CONTEXT_SWITCH_H
#define GS_CONTEXT_SWITCH_H

#include "shim/link/real.h"

/* Makes `handle` current if it is not. *pushed goes to gs_context_pop. Returns the
 * driver's code. */
static inline CUresult gs_context_push(CUcontext handle, bool *pushed)
{
    const struct gs_real *real = gs_real_now();
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

static inline void gs_context_pop(bool pushed)
{
    CUcontext popped;
    if (pushed) {
        gs_real_now()->cuCtxPopCurrent_v2(&popped);
    }
}

/* The context of a stream; for a default stream, the current context. Returns the
 * driver's code. */
CUresult gs_stream_context(CUstream stream, CUcontext *out);

#endif
