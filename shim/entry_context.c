/*
 * entry_context.c - the life of contexts: with a context its heap ends.
 *
 * Where a call is certain to end a context, the heap is ended before it, so that memory
 * which another context is given meanwhile is never taken for the old one's.
 *
 * Owns:  nothing.   Lock: none; the context map locks itself.
 */
#include "record.h"

/* ---- destroy --------------------------------------------------------------------- */

static CUresult destroy(__typeof__(cuCtxDestroy_v2) *real_destroy, CUcontext ctx)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return real_destroy(ctx);
    }
    if (ctx) {
        gs_context_end(state, ctx);
    }
    CUresult result = real_destroy(ctx);
    if (ctx && result == CUDA_SUCCESS) {
        gs_record_context_lost(state, ctx);
    }
    gs_leave();
    return result;
}

GS_EXPORT CUresult cuCtxDestroy(CUcontext ctx)
{
    return destroy(gs_real()->cuCtxDestroy, ctx);
}

GS_EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    return destroy(gs_real()->cuCtxDestroy_v2, ctx);
}

GS_EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
    return destroy(gs_real()->cuCtxDetach, ctx);
}

/* ---- primary contexts ------------------------------------------------------------ */

/* A release ends the context if it was the last one, which only the driver can tell. */
static CUresult release(__typeof__(cuDevicePrimaryCtxRelease_v2) *real_release,
                        CUdevice dev)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return real_release(dev);
    }
    const struct gs_context *context = gs_context_primary(state, (int)dev);
    CUresult result = real_release(dev);
    unsigned flags;
    int active = 1;
    if (context && result == CUDA_SUCCESS && gs_real()->cuDevicePrimaryCtxGetState &&
        gs_real()->cuDevicePrimaryCtxGetState(dev, &flags, &active) == CUDA_SUCCESS &&
        !active) {
        gs_context_end(state, context->handle);
        gs_record_context_lost(state, context->handle);
    }
    gs_leave();
    return result;
}

GS_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    return release(gs_real()->cuDevicePrimaryCtxRelease, dev);
}

GS_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    return release(gs_real()->cuDevicePrimaryCtxRelease_v2, dev);
}

static CUresult reset(__typeof__(cuDevicePrimaryCtxReset_v2) *real_reset, CUdevice dev)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return real_reset(dev);
    }
    const struct gs_context *context = gs_context_primary(state, (int)dev);
    if (context) {
        gs_context_end(state, context->handle);
    }
    CUresult result = real_reset(dev);
    if (context && result == CUDA_SUCCESS) {
        gs_record_context_lost(state, context->handle);
    }
    gs_leave();
    return result;
}

GS_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    return reset(gs_real()->cuDevicePrimaryCtxReset, dev);
}

GS_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    return reset(gs_real()->cuDevicePrimaryCtxReset_v2, dev);
}

/* ---- peers and green contexts ---------------------------------------------------- */

GS_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_real()->cuCtxEnablePeerAccess(peerContext, Flags);
    }
    gs_context_share(state, peerContext);
    (void)gs_context_current(state); /* the one that will access it: waited for as well */
    CUresult result = gs_real()->cuCtxEnablePeerAccess(peerContext, Flags);
    gs_leave();
    return result;
}

#if CUDA_VERSION >= 12040
GS_EXPORT CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
    struct gs_state *state = gs_enter();
    CUresult result = gs_real()->cuCtxFromGreenCtx(pContext, hCtx);
    if (!state) {
        return result;
    }
    if (result == CUDA_SUCCESS) {
        gs_context_never_pool(state, *pContext);
    }
    gs_leave();
    return result;
}
#endif
