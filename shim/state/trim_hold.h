/*
 * trim_hold.h - keeping the trim thread (trim_thread.h) out of the driver, and waking it.
 *
 * The program never waits for the thread's work, but in four calls: a fork, the end of a
 * context and exit wait until the driver's call that the thread is in has returned, one
 * second at most, and the thread makes no other meanwhile (exit: none ever again).
 *
 * Lock: none; the thread is `working` while it may call the driver, and looks for `holds`
 * after it has said so: one of the two sides is bound to see the other.
 */
#ifndef GS_TRIM_HOLD_H
#define GS_TRIM_HOLD_H

#include "gs_base.h"
#include "parts.h"

/* Atomic: whether the thread runs, or none ever will. */
extern bool gs_trim_thread_settled __attribute__((visibility("hidden")));

/* Memory was freed that may become idle: the thread starts if there is none. */
static inline void gs_trim_thread_want(void)
{
    if (GS_UNLIKELY(!__atomic_load_n(&gs_trim_thread_settled, __ATOMIC_RELAXED))) {
        gs_parts_start_trim_thread();
    }
}

/* Between the two the thread makes no call of the driver; the first waits for the one
 * that it is in. They nest. Async-signal-safe. */
void gs_trim_hold(void);
void gs_trim_release(void);
/* Whether somebody holds it. */
bool gs_trim_is_held(void);
/* Wait for the driver's call that the thread is in: it makes no other for a context that
 * fences.h has frozen. */
void gs_trim_pass(void);

/* The thread may call the driver between the two, if the first returns true. */
bool gs_trim_begin_work(void);
void gs_trim_end_work(void);

/* In a forked child: there is no thread. */
void gs_trim_hold_reset(void);

#endif
