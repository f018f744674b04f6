/*
 * fences.h - events that report when a freed block may be reused.
 *
 * An event ends with its context, and so does all work before it: the fence is then
 * complete. The driver must not be queried about it any more, since its handle may have
 * been reused.
 *
 * Lock: a mutex inside, never held across a driver call.
 */
#ifndef GS_FENCES_H
#define GS_FENCES_H

#include "pool/backend.h"
#include "shim/link/real.h"

/*
 * Records an event after the work submitted to `stream`, in the stream's own context.
 * Out:    *out  the fence, on CUDA_SUCCESS only
 * Returns the driver's code, CUDA_ERROR_OUT_OF_MEMORY if there is no host memory.
 */
CUresult gs_fence_record(CUstream stream, bool per_thread, gs_fence *out);

/*
 * Record an event after the work of a stream of the named context, or after all work of
 * the context (cuCtxRecordEvent: CUDA_ERROR_NOT_SUPPORTED before CUDA 12.5). The caller
 * has entered the capture gate, or has checked that the stream does not capture.
 */
CUresult gs_fence_record_in(CUcontext context, CUstream stream, bool per_thread,
                            gs_fence *out);
CUresult gs_fence_record_context(CUcontext context, gs_fence *out);

/* Implements gs_backend.fence_query. */
enum gs_status gs_fence_query(gs_fence fence) GS_MUST_USE;
/* Returns true if the fence was recorded in the context. */
bool gs_fence_is_of(gs_fence fence, CUcontext context);
/* Waits for the fence, in its own context, whatever streams capture during the wait.
 * Returns the driver's code; CUDA_SUCCESS at once if the fence's context has ended. */
CUresult gs_fence_wait(gs_fence fence);
/* The fence's event; NULL if its context has ended. */
CUevent gs_fence_event(gs_fence fence);

/* Orders `stream`, of the named context, after the fence. */
CUresult gs_fence_order(CUcontext context, CUstream stream, gs_fence fence);
/* Orders `later` after the work submitted to `earlier` so far, both of the named context.
 * The caller as for gs_fence_record_in. */
CUresult gs_fence_order_streams(CUcontext context, CUstream earlier, CUstream later);

void gs_fence_release(gs_fence fence);

/* Called before a context is destroyed: until gs_fences_thaw, queries of its fences
 * return "not complete" without a driver call. */
void gs_fences_freeze(CUcontext context);
/* Called after the attempt. destroyed: the context has ended and its fences are complete;
 * else they are queried again. */
void gs_fences_thaw(CUcontext context, bool destroyed);

/* Returns true if a call in progress may end the context. */
bool gs_fences_are_frozen(CUcontext context);

/* In a forked child: drops all fences. */
void gs_fences_reset(void);

#endif
