/*
 * streams.h - the table of living streams, for drivers that cannot record an event of a
 * whole context (before CUDA 12.5, cuCtxRecordEvent).
 *
 * A created stream is in the table until it is destroyed. Before a stream is destroyed, a
 * stream of the library's own waits for its remaining work. The proof that the table is
 * complete ends for good where a stream might be missing: there was no memory for a row,
 * a green context created the stream, or the stream was destroyed during a capture.
 *
 * Lock: a mutex inside, never held across a driver call.
 * Design: docs/free.md, "Lazy"
 */
#ifndef GS_STREAMS_H
#define GS_STREAMS_H

#include "gs_base.h"
#include "shim/cuda/cuda_names.h"

/* Adds a stream that was created in the current context. blocking: without
 * CU_STREAM_NON_BLOCKING. */
void gs_streams_add(CUstream stream, bool blocking);
/* The context of a stream; NULL if the stream is not in the table. */
CUcontext gs_streams_find(CUstream stream);
/* Like gs_streams_find. Out: *number, which differs between streams that had the same
 * handle one after the other; 0 if the stream is not in the table */
CUcontext gs_streams_number(CUstream stream, uint64_t *number);
/* Removes a stream that is about to be destroyed. Returns its context; NULL if the stream
 * is not in the table. */
CUcontext gs_streams_remove(CUstream stream);
/* Called by the thread that removed a stream whose destroy then failed. context NULL: the
 * stream was not in the table. */
void gs_streams_restore(CUstream stream, CUcontext context);
/* Removes the streams of a context that has ended. */
void gs_streams_end_context(CUcontext context);

/* Called before a thread submits to a place that it has not used before, with the bits of
 * submissions.h. */
void gs_streams_submits(uintptr_t tagged_stream);
/* Returns true if some stream may wait for the legacy stream, and the legacy stream for
 * it: a blocking one, a thread's own default stream, or one that was not seen. */
bool gs_streams_any_blocking(void);

/* Ends the proof that the table is complete. */
void gs_streams_end_proof(void);
bool gs_streams_proof_holds(void);

/*
 * The streams of a context.
 * Out:  out[]  at most `room` streams
 * Returns the number of streams; if more than `room`, only the first were written.
 */
size_t gs_streams_of(CUcontext context, CUstream *out, size_t room);

/* In a forked child: empties the table. */
void gs_streams_reset(void);

#endif
