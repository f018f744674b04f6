/*
 * marks.h - what an epoch's mark is with this driver (backend.h, struct gs_marker).
 *
 *   context event   cuCtxRecordEvent, since CUDA 12.5: covers all work of the context
 *   stream events   before that, while streams.h has every stream and nothing was ever
 *                   submitted that no event of a stream covers (submissions.h): one
 *                   event behind all of them
 *   none            otherwise: a free waits, as in the native mode
 *
 * A mark is of the context that owns the memory and of each that may access it.
 *
 * Lock: none; what it uses locks itself.   Design: docs/free.md, "Lazy"
 */
#ifndef GS_MARKS_H
#define GS_MARKS_H

#include "state.h"

/* Whether frees of that context's memory can be marked instead of waited for. */
bool gs_marks_work(struct gs_state *state, const struct gs_context *context);

/* Whether the driver has events of a whole context: a mark is one of those then. */
bool gs_marks_are_events(void);

/*
 * Wait for all work of the context, by an event: other than a synchronize that disturbs
 * no capture that begins meanwhile. Returns the driver's code;
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: a stream captures; CUDA_ERROR_NOT_SUPPORTED: the
 * driver cannot.
 */
CUresult gs_marks_wait(CUcontext context);

/*
 * Wait for the work that the legacy stream and the blocking streams of the context have
 * now, by an event behind each of them. An event in the legacy stream would do with one,
 * but later work of the blocking streams queues behind that event. Returns as
 * gs_marks_wait; CUDA_ERROR_NOT_SUPPORTED where some stream is not known.
 */
CUresult gs_marks_wait_blocking(CUcontext context);

/* Over the real driver; its `self` is a struct gs_context. */
extern const struct gs_marker gs_context_marker;

/* The blocks freed with that mark may be used again: say so to a simulated driver, which
 * wants each event that proves it. */
void gs_mark_notify(uint64_t mark, uint64_t addr);

/* Wait for all that it covers. */
void gs_mark_wait(uint64_t mark);

/* A stream is about to be destroyed: whatever it still does stays covered. Returns its
 * context, for gs_streams_restore should it live on. */
CUcontext gs_marks_stream_ends(CUstream stream);

/* The context ended. */
void gs_marks_context_ends(CUcontext context);

/* In a forked child: there are none. */
void gs_marks_reset(void);

#endif
