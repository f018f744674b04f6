/*
 * context_events.h - implements an epoch's event with the events that this driver offers
 * (backend.h, struct gs_event_ops).
 *
 *   context event   cuCtxRecordEvent, since CUDA 12.5: covers all work of the context
 *   stream events   before 12.5, if streams.h has every stream and no work was ever
 *                   submitted outside the reach of stream events (submissions.h): one
 *                   event after all streams
 *   none            otherwise: a free waits, as in the native mode
 *
 * An event covers the context that owns the memory and each context that may access the
 * memory.
 *
 * Lock: none; the functions it calls lock internally.   Design: docs/free.md, "Lazy"
 */
#ifndef GS_CONTEXT_EVENTS_H
#define GS_CONTEXT_EVENTS_H

#include "shim/state/state.h"

/* Whether events can cover frees of the context's memory, instead of a wait. */
bool gs_context_events_work(struct gs_state *state, const struct gs_context *context);

/* Whether the driver has events of a whole context, and events use them. */
bool gs_context_events_whole(void);

/*
 * Waits for all work of the context, by an event. Unlike a synchronize, the wait does not
 * invalidate a capture that begins during the wait. Returns the driver's code;
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: a stream captures; CUDA_ERROR_NOT_SUPPORTED: the
 * driver lacks context events.
 */
CUresult gs_context_events_wait(CUcontext context);

/* The event_ops over the real driver; its `self` is a struct gs_context. */
extern const struct gs_event_ops gs_context_event_ops;

/* Notifies a simulated driver that the block at `addr`, freed with the event, may be used
 * again, and names each event that proves this. */
void gs_context_event_notify(uint64_t event, uint64_t addr);

/* Waits for all work that the event covers. */
void gs_context_event_wait(uint64_t event);

/* Called before a stream is destroyed: later events still cover its remaining work.
 * Returns the stream's context, for gs_streams_restore if the destroy fails. */
CUcontext gs_context_events_stream_ends(CUstream stream);

/* Called when a context has ended. */
void gs_context_events_context_ends(CUcontext context);

/* In a forked child: drops all helper streams. */
void gs_context_events_reset(void);

#endif
