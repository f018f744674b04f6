/*
 * pinned_calls.h - GPUSHIM_CHECK=transfers: reports which pinned memory copies and
 * kernels use (pinned_uses.h).
 *
 * A kernel uses what its parameters point to, as far as the driver tells how large they
 * are (CUDA 12.4), and what a small copy to the device has the address of. Where a use
 * may go unseen, no memory is called unused.
 *
 * Lock: none of its own; all functions may be called from any thread.
 */
#ifndef GS_PINNED_CALLS_H
#define GS_PINNED_CALLS_H

#include "gs_base.h"
#include "shim/cuda/cuda_names.h"

/* A call names this memory. */
void gs_pinned_used(uint64_t addr);
/* A copy to the device takes these bytes, which may be a structure with addresses. */
void gs_pinned_sent(uint64_t addr, size_t bytes);
/* A kernel is launched. params, extra: as in cuLaunchKernel */
void gs_pinned_kernel(CUfunction function, void **params, void **extra);
/* Work begins whose memory is not known: of a graph, or of a launch from before CUDA 4.
 */
void gs_pinned_unknown(void);

#endif
