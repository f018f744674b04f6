/*
 * other_threads.h - reports whether the calling thread is alone in the process, apart
 * from the driver's own threads.
 * Owns:   the cached result of the last search (other_threads.c).   Lock: its own.
 * Source: rule L5 (single_order.h)
 */
#ifndef GS_OTHER_THREADS_H
#define GS_OTHER_THREADS_H

#include <stdbool.h>

/* Returns true if the calling thread is alone; false where the answer cannot be known.
 * Makes system calls directly, since the C library's functions are cancellation
 * points. */
bool gs_alone(void);

/* Waits until each of the driver's threads sleeps, at most 0.2 s. For a failed cuInit:
 * its caller may unload the driver at once (NVIDIA's runtimes do), while a thread that
 * driver 555 leaves behind still executes the driver's code. */
void gs_await_driver_threads(void);

/* In a forked child: drops the cached result. */
void gs_alone_reset(void);

#endif
