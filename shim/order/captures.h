/*
 * captures.h - which streams are being captured into a graph.
 *
 * While any is, allocations go to the driver, which accepts or refuses them by the
 * caller's capture mode, and a free does not synchronize: that would invalidate the
 * captures (CUDA Programming Guide, stream capture, prohibited operations).
 *
 * Lock: a mutex inside; gs_captures_active reads one atomic.
 */
#ifndef GS_CAPTURES_H
#define GS_CAPTURES_H

#include "cuda_names.h"

/* Call before the real begin, so that nothing slips in between ...
 * In:  context  with which the stream ends; NULL: not known
 *      green    of a green context's stream, with which it ends as well; else NULL */
void gs_captures_begin(CUstream stream, bool per_thread, CUcontext context,
                       CUgreenCtx green);
/* ... and after it failed, after a capture has ended, or its stream was destroyed.
 * A stream that is not capturing is ignored.
 * In:  context  as above; a thread has a default stream in each */
void gs_captures_end(CUstream stream, bool per_thread, CUcontext context);
/* The context has ended, and with it its streams and their captures. */
void gs_captures_context_ends(CUcontext context);
/* The same of a green one: its streams stay, and every call of theirs is refused. */
void gs_captures_green_ends(CUgreenCtx green);

/* How many do. Atomic. */
extern unsigned gs_captures_running __attribute__((visibility("hidden")));

/* Whether one was ever begun in this process. */
bool gs_captures_ever(void);

/* Whether any stream of the process captures. */
static inline bool gs_captures_active(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_captures_running, __ATOMIC_SEQ_CST) > 0);
}

/* In a forked child: nothing captures. */
void gs_captures_reset(void);

#endif
