/*
 * tracker_lock.h - the tracker's lock, and the order of its locks.
 *
 * Sections under these locks are a few dozen instructions and never call the driver or
 * the program. A waiter spins, then yields, then sleeps: a real-time thread that only
 * spins could starve the holder for ever. Taking a free lock costs one atomic exchange,
 * giving it back a plain store.
 *
 * Owns: nothing.   Lock: this is it.
 */
#ifndef GS_TRACKER_LOCK_H
#define GS_TRACKER_LOCK_H

#include "gs_base.h"

/* A thread that holds a lock takes only locks further down. Asserted in debug builds. */
enum gs_tracker_rank {
    GS_RANK_LOSE,    /* one context death at a time */
    GS_RANK_SLOTS,   /* the assignment of slots to threads */
    GS_RANK_SHARD,   /* a shard's ids and counters; lose_context takes all, in order */
    GS_RANK_STRIPE,  /* a part of the address look-up */
    GS_RANK_PLACES,  /* the table of places */
    GS_RANK_RECORDS, /* the slab's end and its spare ids */
    GS_RANK_LOST,    /* groups of memory lost with a context */
    GS_RANK_PEAK,    /* peak and its time */
    GS_RANK_ERRORS,  /* the error records */
    GS_RANK_SINCE,   /* allocations freed since the peaks */
    GS_RANK_TALLY    /* a part of the sums of all allocations */
};

struct gs_tracker_lock {
    uint32_t held;
};

void gs_tracker_lock_wait(struct gs_tracker_lock *lock);

#ifndef NDEBUG
/* Ranks that this thread holds, one bit each. Lock: thread-local. */
extern __thread uint32_t gs_tracker_ranks_held;
#endif

static inline void gs_tracker_rank_enter(enum gs_tracker_rank rank)
{
#ifndef NDEBUG
    assert((gs_tracker_ranks_held >> rank) == 0);
    gs_tracker_ranks_held |= 1u << rank;
#else
    (void)rank;
#endif
}

static inline void gs_tracker_rank_leave(enum gs_tracker_rank rank)
{
#ifndef NDEBUG
    gs_tracker_ranks_held &= ~(1u << rank);
#else
    (void)rank;
#endif
}

/* In a forked child: the parent holds the locks of before. */
static inline void gs_tracker_ranks_forget(void)
{
#ifndef NDEBUG
    gs_tracker_ranks_held = 0;
#endif
}

/* The lock without the rank: for several locks of one rank, taken in a fixed order. */
static inline void gs_tracker_lock_take_raw(struct gs_tracker_lock *lock)
{
    if (GS_UNLIKELY(__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE) != 0))
        gs_tracker_lock_wait(lock);
}

/* Never waits; true if the lock was taken. Any order is fine without a wait. */
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
                                        enum gs_tracker_rank rank)
{
    gs_tracker_rank_enter(rank);
    gs_tracker_lock_take_raw(lock);
}

static inline void gs_tracker_lock_give(struct gs_tracker_lock *lock,
                                        enum gs_tracker_rank rank)
{
    gs_tracker_lock_give_raw(lock);
    gs_tracker_rank_leave(rank);
}

#endif
