/*
 * lock.h - the pool's locks, and their one order.
 *
 * A thread takes locks of rising rank only, at most one of each rank, and calls the
 * backend with none held. Builds with assertions keep a mask of the held ranks per thread
 * and check both rules; other builds pay nothing for it.
 *
 * The lock is a word and a futex. An uncontended call costs two inlined atomic
 * operations; the C library's mutex costs 50 instructions more. The lock is neither fair
 * nor recursive. No thread holds it for longer than a walk over records.
 *
 * Owns: the thread-local mask (lock.c).   Lock: is one.   Design: docs/pool.md, "Locks"
 */
#ifndef GS_POOL_LOCK_H
#define GS_POOL_LOCK_H

#include <stdatomic.h>

#include "gs_base.h"

enum gs_lock_rank {
    GS_RANK_THREADS, /* the bindings of thread caches to heaps (tcache.c) */
    GS_RANK_TIERS,   /* a heap's list of thread caches, and their exclusion */
    GS_RANK_STREAM,  /* one cache of the stream tier */
    GS_RANK_GLOBAL,  /* one class of the global tier */
    GS_RANK_HEAP,    /* one heap: its blocks, bins, caches, counters */
    GS_RANK_PAGES,   /* writers of the page map; readers take nothing */
    GS_RANK_META,    /* the pool-wide stores of records */
    GS_RANK_RECLAIM, /* stays inside the backend, and the device rows (reclaim.c) */
    GS_RANK_LAST,    /* a lock of the backend's own; no pool lock is taken inside it */
};

/* All zero is an open lock, except for the rank. */
struct gs_lock {
    _Atomic uint32_t word; /* 0 open, 1 taken, 2 taken and perhaps waited for */
    enum gs_lock_rank rank;
};

static inline void gs_lock_init(struct gs_lock *lock, enum gs_lock_rank rank)
{
    atomic_init(&lock->word, 0);
    lock->rank = rank;
}

#ifdef NDEBUG
static inline void gs_lock_record_take(enum gs_lock_rank rank)
{
    (void)rank;
}
static inline void gs_lock_record_drop(enum gs_lock_rank rank)
{
    (void)rank;
}
#else
void gs_lock_record_take(enum gs_lock_rank rank);
void gs_lock_record_drop(enum gs_lock_rank rank);
#endif

/* Does the calling thread hold no lock of the pool? Always true without assertions. */
bool gs_lock_none_held(void);

/* Waits for a lock that another thread holds, and wakes a waiter; errno is preserved. */
void gs_lock_wait(struct gs_lock *lock);
void gs_lock_wake(struct gs_lock *lock);

static inline void gs_lock_take(struct gs_lock *lock)
{
    uint32_t open = 0;

    gs_lock_record_take(lock->rank);
    if (GS_UNLIKELY(!atomic_compare_exchange_strong_explicit(
            &lock->word, &open, 1, memory_order_acquire, memory_order_relaxed)))
        gs_lock_wait(lock);
}

static inline void gs_lock_drop(struct gs_lock *lock)
{
    uint32_t was = atomic_exchange_explicit(&lock->word, 0, memory_order_release);

    if (GS_UNLIKELY(was == 2))
        gs_lock_wake(lock);
    gs_lock_record_drop(lock->rank);
}

#endif
