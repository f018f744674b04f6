/*
 * progress.h - whether a thread that writes a report still gets on.
 *
 * A report may take long: its reader may be slow, a scan of memory large. A thread that
 * waits for the end of another thread's report gives up when that thread stops getting
 * on, however long the report has taken before.
 *
 * Owns:  a counter, and which threads are at work.   Lock: none; an atomic, and
 * thread-local.   Async-signal-safe.
 */
#ifndef GS_PROGRESS_H
#define GS_PROGRESS_H

#include "gs_base.h"

/* Around the work of the calling thread that others may wait for. */
void gs_progress_begin(void);
void gs_progress_end(void);

/* A part of the work is done: a piece is written, a phase is over. Counts only between
 * the two above. */
void gs_progress_tick(void);

/*
 * Wait until over(arg), or until no part of the work has been done for `patience_ms`. No
 * cancellation point; errno is preserved.
 * Returns whether over(arg).
 */
bool gs_progress_wait(bool (*over)(void *arg), void *arg, unsigned patience_ms);

#endif
