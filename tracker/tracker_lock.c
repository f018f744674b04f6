/*
 * tracker_lock.c - waits for a tracker lock that another thread holds.
 * Owns: the locks that each thread holds (gs_locks.h).   Lock: thread-local, none.
 */
#include "tracker_lock.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPINS  128 /* a holder that runs is done within these */
#define YIELDS 32  /* a holder that was preempted gets the processor */

#ifndef NDEBUG
__attribute__((weak)) __thread struct gs_locks gs_locks;
#endif

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/*
 * Wait until the lock is free and take it. Preserves errno.
 * Sleeping at the end matters under SCHED_FIFO, where yielding to a thread of lower
 * priority never lets it run. The sleep is no place to be cancelled at, as nanosleep is:
 * the caller may hold another lock.
 */
void gs_tracker_lock_wait(struct gs_tracker_lock *lock)
{
    const struct timespec nap = {.tv_sec = 0, .tv_nsec = 50000};
    int saved = errno;

    for (unsigned turn = 0;; turn++) {
        if (gs_tracker_lock_try_raw(lock))
            break;
        if (turn < SPINS)
            pause_briefly();
        else if (turn < SPINS + YIELDS)
            sched_yield();
        else
            (void)syscall(SYS_nanosleep, &nap, NULL);
    }
    errno = saved;
}
