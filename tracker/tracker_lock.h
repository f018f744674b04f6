/*
 * tracker_lock.h - the tracker's lock; gs_locks.def has the order.
 *
 * Sections under these locks are a few dozen instructions and never call the driver or
 * the program. A waiter spins, then yields, then sleeps: a real-time thread that only
 * spins could starve the holder for ever. Taking a free lock costs one atomic exchange,
 * releasing it a plain store.
 *
 * Owns: nothing.   Lock: this is it.
 */
#ifndef GS_TRACKER_LOCK_H
#define GS_TRACKER_LOCK_H

#include "gs_locks.h"

struct gs_tracker_lock {
    uint32_t held;
};

void gs_tracker_lock_wait(struct gs_tracker_lock *lock);

/* The lock without the rank: for several locks of one rank, taken in a fixed order. */
static inline void gs_tracker_lock_take_raw(struct gs_tracker_lock *lock)
{
    if (GS_UNLIKELY(__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE) != 0)) {
        gs_tracker_lock_wait(lock);
    }
}

/* Takes the lock if it is free; never waits, so any order is fine. */
static inline bool gs_tracker_lock_try_raw(struct gs_tracker_lock *lock)
{
    return __atomic_load_n(&lock->held, __ATOMIC_RELAXED) == 0 &&
           __atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE) == 0;
}

static inline void gs_tracker_lock_give_raw(struct gs_tracker_lock *lock)
{
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}

static inline void gs_tracker_lock_take(struct gs_tracker_lock *lock,
                                        enum gs_lock_rank rank)
{
    gs_lock_check_take(rank);
    gs_tracker_lock_take_raw(lock);
    gs_lock_record_held(rank);
}

static inline void gs_tracker_lock_give(struct gs_tracker_lock *lock,
                                        enum gs_lock_rank rank)
{
    gs_lock_record_given(rank);
    gs_tracker_lock_give_raw(lock);
}

/* Returns false if the lock is held. */
static inline bool gs_tracker_lock_try(struct gs_tracker_lock *lock,
                                       enum gs_lock_rank rank)
{
    gs_lock_check_take(rank);
    if (__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE) != 0) {
        return false;
    }
    gs_lock_record_held(rank);
    return true;
}

#endif
