/*
 * fences.h - events that say when a freed block may be reused, and their contexts.
 *
 * An event dies with its context, and so does all work before it: such a fence is done.
 * The driver must not be asked about it then, for the handle may be anything.
 *
 * Lock: a mutex inside, never held across a driver call.
 */
#ifndef GS_FENCES_H
#define GS_FENCES_H

#include "backend.h"
#include "real.h"

/*
 * Record an event behind the work that `stream` has now, in the stream's own context.
 * Out:    *out  the fence, on CUDA_SUCCESS only
 * Returns the driver's code, CUDA_ERROR_OUT_OF_MEMORY where there is no host memory.
 */
CUresult gs_fence_record(CUstream stream, bool per_thread, gs_fence *out);

/*
 * The same behind a stream of a context that the caller names; or behind all work of that
 * context (cuCtxRecordEvent: CUDA_ERROR_NOT_SUPPORTED before CUDA 12.5). The caller has
 * entered the capture gate, or has seen that the stream does not capture.
 */
CUresult gs_fence_record_in(CUcontext context, CUstream stream, bool per_thread,
                            gs_fence *out);
CUresult gs_fence_record_context(CUcontext context, gs_fence *out);

/* As gs_backend.fence_query and .fence_release. */
enum gs_status gs_fence_query(gs_fence fence) GS_MUST_USE;
/* Was it recorded in that context? */
bool gs_fence_is_of(gs_fence fence, CUcontext context);
/* Wait for it, in its own context, whatever captures meanwhile. Returns the driver's
 * code, CUDA_SUCCESS at once if its context has gone. */
CUresult gs_fence_wait(gs_fence fence);
/* The event behind it; NULL if its context has gone. */
CUevent gs_fence_event(gs_fence fence);

void gs_fence_release(gs_fence fence);

/* A context is about to be destroyed: its fences answer "not yet" without asking ... */
void gs_fences_freeze(CUcontext context);
/* ... until it was (then they are done) or was not (then they are asked again). */
void gs_fences_thaw(CUcontext context, bool destroyed);

/* Whether a call that may end the context is under way. */
bool gs_fences_are_frozen(CUcontext context);

/* In a forked child: there are none. */
void gs_fences_reset(void);

#endif
