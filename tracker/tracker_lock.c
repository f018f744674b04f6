/*
 * tracker_lock.c - waits for a tracker lock that another thread holds.
 * Owns: the locks that each thread holds (gs_locks.h).   Lock: thread-local, none.
 */
#include "tracker/tracker_lock.h"

#include "gs_wait.h"

#define SPINS  128 /* a holder that runs is done within these spins */
#define YIELDS 32  /* enough for a preempted holder to get the processor */
#define NAP_NS 50000

#ifndef NDEBUG
__attribute__((weak)) __thread struct gs_locks gs_locks;
#endif

/* Waits until the lock is free and takes it. Preserves errno. */
void gs_tracker_lock_wait(struct gs_tracker_lock *lock)
{
    struct gs_wait wait = {.spins = SPINS, .yields = YIELDS, .nap_ns = NAP_NS};

    while (!gs_tracker_lock_try_raw(lock)) {
        (void)gs_wait_step(&wait);
    }
}
