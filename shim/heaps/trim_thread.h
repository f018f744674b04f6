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
 * The program never waits for the thread's work, but in four calls: a fork, the end of a
 * context and exit wait until the driver's call that the thread is in has returned, one
 * second at most, and the thread makes no other meanwhile (exit: none ever again).
 *
 * Lock: none is held over the driver.   Design: docs/tuning.md, "When idle memory goes
 * back"
 */
#ifndef GS_TRIM_THREAD_H
#define GS_TRIM_THREAD_H

#include "state.h"

/* Atomic: whether the thread runs, or none ever will. */
extern bool gs_trim_thread_settled __attribute__((visibility("hidden")));

/* At start. */
void gs_trim_thread_begin(const struct gs_options *options);

/* Out of line part of the function below. */
void gs_trim_thread_start(void) __attribute__((cold, noinline));

/* Memory was freed that may become idle: the thread starts if there is none. */
static inline void gs_trim_thread_want(void)
{
    if (GS_UNLIKELY(!__atomic_load_n(&gs_trim_thread_settled, __ATOMIC_RELAXED))) {
        gs_trim_thread_start();
    }
}

/* Between the two the thread makes no call of the driver; the first waits for the one
 * that it is in. They nest. Async-signal-safe. */
void gs_trim_thread_hold(void);
void gs_trim_thread_release(void);
/* Wait for the driver's call that the thread is in: it makes no other for a context that
 * fences.h has frozen. */
void gs_trim_thread_pass(void);

/* The context ended: what the thread has recorded in it is released. */
void gs_trim_thread_context_ends(const struct gs_context *context);

/* In a forked child: there is none. */
void gs_trim_thread_reset(void);

#endif
