/*
 * context_switch.h - calls of the driver in another context than the thread's current
 * one.
 *
 * Lock: none.
 */
#ifndef GS_CONTEXT_SWITCH_H
#define GS_CONTEXT_SWITCH_H

#include "real.h"

/* Make `handle` current if it is not. *pushed: to be passed to gs_context_pop. Returns
 * the driver's code. */
CUresult gs_context_push(CUcontext handle, bool *pushed);
void gs_context_pop(bool pushed);

/* The context whose work a stream's is: that of a default stream is the current one.
 * Returns the driver's code. */
CUresult gs_stream_context(CUstream stream, CUcontext *out);

#endif
