/*
 * trim_thread.h - a thread of the library that gives idle memory back in a process that
 * makes no more calls.
 *
 * Idle memory goes back on the program's own calls, once it is older than
 * GPUSHIM_POOL_TRIM_INTERVAL. A notebook between two cells, or a server between two
 * requests, makes none. So a thread looks four times in that interval, and gives back
 * what is too old as long as the context is idle: seen complete by a wait of the
 * program's, or by an event of the context (CUDA 12.5) that the thread has recorded once
 * nothing was submitted between two of its looks. Where neither is known it does nothing.
 * It starts with the first free that may leave idle memory, and ends when the pools hold
 * nothing. GPUSHIM_POOL_TRIM_THREAD=off: there is none.
 *
 * Lock: none is held over the driver.   Design: docs/tuning.md, "When idle memory goes
 * back"
 */
#ifndef GS_TRIM_THREAD_H
#define GS_TRIM_THREAD_H

#include "state.h"

/* At start. */
void gs_trim_thread_begin(const struct gs_options *options);

/* Starts the thread, if there is none. */
void gs_trim_thread_start(void);

/* The context ended: what the thread has recorded in it is released. */
void gs_trim_thread_context_ends(const struct gs_context *context);

/* In a forked child: there is none. */
void gs_trim_thread_reset(void);

#endif
