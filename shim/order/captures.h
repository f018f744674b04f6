/*
 * captures.h - the set of streams that are being captured into a graph.
 *
 * While any stream captures, allocations go to the driver, which accepts or refuses them
 * by the caller's capture mode. A free does not synchronize, since a synchronize would
 * invalidate the captures (CUDA Programming Guide, stream capture, prohibited
 * operations).
 *
 * Lock: a mutex inside; gs_captures_active reads one atomic.
 */
#ifndef GS_CAPTURES_H
#define GS_CAPTURES_H

#include "shim/cuda/cuda_names.h"

/* Adds a capture. Called before the driver's begin, so that no thread can miss a capture
 * that has begun.
 * In:  context  the stream ends with this context; NULL: not known
 *      green    the stream's green context, which ends the stream as well; else NULL */
void gs_captures_begin(CUstream stream, bool per_thread, CUcontext context,
                       CUgreenCtx green);
/* Removes a capture: after the driver's begin failed, after the capture ended, or after
 * its stream was destroyed. A stream that does not capture is ignored.
 * In:  context  as above; a thread has one default stream in each context */
void gs_captures_end(CUstream stream, bool per_thread, CUcontext context);
/* Removes the captures of a context that has ended. */
void gs_captures_context_ends(CUcontext context);
/* Removes the captures of a green context that has ended. Its streams remain, but every
 * call on them is refused. */
void gs_captures_green_ends(CUgreenCtx green);

/* The number of captures. Atomic. */
extern unsigned gs_captures_running __attribute__((visibility("hidden")));

/* Returns true if a capture was ever begun in this process. */
bool gs_captures_ever(void);

/* Returns true if any stream of the process captures. */
static inline bool gs_captures_active(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_captures_running, __ATOMIC_SEQ_CST) > 0);
}

/* May capture: the driver does not tell, as of the legacy stream while another stream
 * captures. */
enum gs_capturing { GS_NOT_CAPTURING, GS_CAPTURING, GS_MAY_CAPTURE };
enum gs_capturing gs_captures_stream(CUstream stream, bool per_thread);

/* Returns true if the stream captures, so that the last call in it has become a node of a
 * graph; *graph is this graph, NULL if the driver cannot report it. Without an answer,
 * true: a missing record is better than a false leak. */
bool gs_captures_graph(CUstream stream, bool per_thread, CUgraph *graph);

/* In a forked child: removes all captures. */
void gs_captures_reset(void);

#endif
