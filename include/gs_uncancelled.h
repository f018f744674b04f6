/*
 * gs_uncancelled.h - stretches of the library's own in which no thread is cancelled.
 *
 * pthreads(7) lists open, read, write, nanosleep, the waits for a condition and many more
 * as cancellation points; the CUDA calls of a program are none natively. So whatever the
 * library does of that kind on a thread of the program's stands between these two: a
 * cancellation that is pending acts at the first point after the call, as natively. A
 * thread that has cancellation disabled keeps it so. Not installed.
 * Locks: none; the calling thread's own state. Async-signal-safe.
 */
#ifndef GS_UNCANCELLED_H
#define GS_UNCANCELLED_H

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Returns what gs_uncancelled_end is to be given. They nest. */
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

/* nanosleep that is no cancellation point: the kernel's own. */
static inline void gs_nap(const struct timespec *time)
{
    (void)syscall(SYS_nanosleep, time, NULL);
}

#endif
