/*
 * gs_uncancelled.h - sections of the library in which no thread is cancelled.
 *
 * pthreads(7) lists open, read, write, nanosleep, the condition waits and many more as
 * cancellation points. Natively a program's CUDA calls are none. So the library puts
 * every such call on a program's thread between these two functions, but for sleeps
 * (gs_wait.h). A pending cancellation acts at the first point after the CUDA call, as
 * natively. A thread that has cancellation disabled keeps it disabled. Not installed.
 * Locks: none; the calling thread's own state. Async-signal-safe.
 */
#ifndef GS_UNCANCELLED_H
#define GS_UNCANCELLED_H

#include <pthread.h>

/* Disables cancellation. Returns the value for gs_uncancelled_end. Calls nest. */
static inline int gs_uncancelled_begin(void)
{
    int before = PTHREAD_CANCEL_ENABLE;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void gs_uncancelled_end(int before)
{
    int unused;

    (void)pthread_setcancelstate(before, &unused);
}

#endif
