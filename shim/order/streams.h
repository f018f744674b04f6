/*
 * streams.h - the streams that live, for drivers that cannot mark a context as a whole
 * (cuCtxRecordEvent came with 12.5).
 *
 * Each created stream is in the table until it is destroyed. What a destroyed one still
 * does is not lost: a stream of the library's own waits for it first. The proof that the
 * table has every stream ends for good where one might be missing: there was no memory
 * for a row, a green context made it, or it was destroyed while something captured.
 *
 * Lock: a mutex inside, never held across a driver call.
 * Design: docs/free.md, "Lazy"
 */
#ifndef GS_STREAMS_H
#define GS_STREAMS_H

#include "cuda_names.h"
#include "gs_base.h"

/* Created in the context that is current. blocking: without CU_STREAM_NON_BLOCKING. */
void gs_streams_add(CUstream stream, bool blocking);
/* The context of a stream that is in the table, or NULL. */
CUcontext gs_streams_find(CUstream stream);
/* The same. Out: *blocking, where it is in the table */
CUcontext gs_streams_look_up(CUstream stream, bool *blocking);
/* It is about to be destroyed. Returns its context, NULL if it is not in the table. */
CUcontext gs_streams_remove(CUstream stream);
/* It was not destroyed after all, by the thread that took it out; NULL: it was not in the
 * table either. */
void gs_streams_restore(CUstream stream, CUcontext context);
/* The context ended, and its streams with it. */
void gs_streams_end_context(CUcontext context);

/* From now on a stream may be missing. */
void gs_streams_end_proof(void);
bool gs_streams_proof_holds(void);

/*
 * The streams of a context.
 * Out:  out[]  at most `room` of them
 * Returns how many there are; more than `room`: only some were written.
 */
size_t gs_streams_of(CUcontext context, CUstream *out, size_t room);
/* Those of them that wait for the legacy stream, and it for them. */
size_t gs_streams_blocking_of(CUcontext context, CUstream *out, size_t room);

/* In a forked child: there are none. */
void gs_streams_reset(void);

#endif
