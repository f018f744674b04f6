/*
 * gs_uncancelled.h - sections of the library in which no thread is cancelled.
 *
 * pthreads(7) lists open, read, write, nanosleep, the condition waits and many more as
 * cancellation points. Natively a program's CUDA calls are none. So the library puts
 * every such call on a program's thread between these two functions. A pending
 * cancellation acts at the first point after the CUDA call, as natively. A thread that
 * has cancellation disabled keeps it disabled. Not installed.
 * Locks: none; the calling thread's own state. Async-signal-safe.
 */
#ifndef GS_UNCANCELLED_H
#define GS_UNCANCELLED_H

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

/* nanosleep without a cancellation point: the system call. */
static inline void gs_nap(const struct timespec *time)
{
    (void)syscall(SYS_nanosleep, time, NULL);
}

#endif
