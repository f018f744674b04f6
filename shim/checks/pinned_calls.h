/*
 * pinned_calls.h - GPUSHIM_CHECK=transfers: reports which pinned memory copies and
 * kernels use (pinned_uses.h).
 *
 * The parameters of kernels, as far as the driver tells how large they are (CUDA 12.4),
 * and what copies bring to the device are searched for addresses of pinned memory. Where
 * kernels read memory that the host writes directly, it may have any address in it: then
 * no memory is called unused.
 *
 * Lock: none of its own; all functions may be called from any thread.
 */
#ifndef GS_PINNED_CALLS_H
#define GS_PINNED_CALLS_H

#include "gs_base.h"
#include "shim/cuda/cuda_names.h"

/* A call names this memory. */
void gs_pinned_used(uint64_t addr);
/* A copy to the device takes these bytes, which may have addresses among them. */
void gs_pinned_sent(uint64_t addr, size_t bytes);
/* A kernel is launched. params, extra: as in cuLaunchKernel */
void gs_pinned_kernel(CUfunction function, void **params, void **extra);
/* Kernels may reach memory that no call names: of a graph, by a pointer that the program
 * asked for, through managed, registered or mapped memory; or bytes that a host function
 * writes are copied later.
 */
void gs_pinned_unknown(void);

#endif
