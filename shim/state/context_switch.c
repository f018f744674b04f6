/*
 * context_switch.c - driver calls in a context other than the current one.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/state/context_switch.h"

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
