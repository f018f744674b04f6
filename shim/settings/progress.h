/*
 * progress.h - whether a thread that writes a report makes progress.
 *
 * A report may take long: its reader may be slow, a scan of memory large. A thread that
 * waits for another thread's report gives up when this thread makes no more progress,
 * however long the report has taken before.
 *
 * Owns:  a counter, and the flags of working threads.   Lock: none; an atomic, and
 *        thread-local.   Async-signal-safe.
 */
#ifndef GS_PROGRESS_H
#define GS_PROGRESS_H

#include "gs_base.h"

/* Bracket work of the calling thread for which other threads may wait. */
void gs_progress_begin(void);
void gs_progress_end(void);

/* Reports that a part of the work is complete: a piece is written, a phase is over.
 * Counts only between the two above. */
void gs_progress_tick(void);

/*
 * Waits until over(arg), or until there was no progress for `patience_ms`. Not a
 * cancellation point; errno is preserved.
 * Returns whether over(arg).
 */
bool gs_progress_wait(bool (*over)(void *arg), void *arg, unsigned patience_ms);

#endif
