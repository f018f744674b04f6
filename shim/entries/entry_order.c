/*
 * entry_order.c - calls that are looked at for one reason alone: from then on memory may
 * be used out of the order in which one context's streams do their work (single_order.h).
 *
 * A second context has streams of its own. An address that was exported as a file
 * descriptor is used without any stream. What has other reasons to be hooked says so
 * itself.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "real.h"
#include "single_order.h"

/* From before CUDA 3.2, with the same parameters. */
GS_EXPORT CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    gs_single_order_context("cuCtxCreate", false, dev);
    return gs_real()->cuCtxCreate(pctx, flags, dev);
}
