/*
 * trim_hold.h - keeps the trim thread (trim_thread.h) out of the driver, and starts it.
 *
 * The program waits for the trim thread in three cases only: a fork, the end of a
 * context, and exit. Each waits until the thread's current driver call has returned, one
 * second at most. Until then the thread makes no other call, and after exit none at all.
 *
 * Lock: none. The thread sets `working` before it may call the driver, and then checks
 * `holds`; a holder sets `holds` and then checks `working`. At least one side sees the
 * other.
 */
#ifndef GS_TRIM_HOLD_H
#define GS_TRIM_HOLD_H

#include "gs_base.h"
#include "shim/parts.h"

/* Atomic: whether the thread runs, or will never run. */
extern bool gs_trim_thread_settled __attribute__((visibility("hidden")));

/* Called when memory was freed that may become idle: starts the thread if there is
 * none. */
static inline void gs_trim_thread_want(void)
{
    if (GS_UNLIKELY(!__atomic_load_n(&gs_trim_thread_settled, __ATOMIC_RELAXED))) {
        gs_parts_start_trim_thread();
    }
}

/* Between gs_trim_hold and its release the thread makes no driver call; gs_trim_hold
 * waits for the current one. Calls nest. Async-signal-safe. */
void gs_trim_hold(void);
void gs_trim_release(void);
/* Returns true if a caller holds the thread. */
bool gs_trim_is_held(void);
/* Waits for the thread's current driver call. The thread makes no other call for a
 * context that fences.h has frozen. */
void gs_trim_pass(void);

/* The thread, or another of the library's, may call the driver between the two, if
 * gs_trim_begin_work returns true. */
bool gs_trim_begin_work(void);
void gs_trim_end_work(void);

/* In a forked child: there is no thread. */
void gs_trim_hold_reset(void);

#endif
