/*
 * trim_thread.h - a thread of the library that returns idle memory to the driver in a
 * process that frees nothing more.
 *
 * The program's own frees, and some of its waits, return idle memory once it is older
 * than GPUSHIM_POOL_TRIM. A notebook between two cells makes no calls, and a
 * server only launches and waits for its streams. So the thread checks several times in
 * this interval, and returns memory that is too old while the context is idle: proven by
 * a wait of the program, or by an event of the context (CUDA 12.5) that the thread
 * records. If neither proves it, the thread tries again soon. The thread starts with the
 * first free that may leave idle memory, and ends when the pools hold nothing.
 * GPUSHIM_POOL_TRIM=thread:off disables it.
 *
 * Lock: none is held across a driver call.   Design: docs/tuning.md, "When idle memory
 * goes back"
 */
#ifndef GS_TRIM_THREAD_H
#define GS_TRIM_THREAD_H

#include "shim/state/state.h"

/* Called at start. */
void gs_trim_thread_begin(const struct gs_options *options);

/* Starts the thread, if there is none. */
void gs_trim_thread_start(void);

/*
 * Asks the thread to return all idle memory of devices, or what is due now, for another
 * thread that must not call the driver. Waits until it has, `wait_ns` at most: memory
 * stays while a context is busy. Returns false if GPUSHIM_POOL_TRIM=thread is off.
 * Out: *given  bytes
 */
bool gs_trim_thread_ask(bool all, uint64_t wait_ns, uint64_t *given);

/* Called when the context ended: releases what the thread has recorded in it. */
void gs_trim_thread_context_ends(const struct gs_context *context);

/* In a forked child: there is none. */
void gs_trim_thread_reset(void);

#endif
