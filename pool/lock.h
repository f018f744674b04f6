/*
 * lock.h - the pool's lock.
 *
 * include/gs_locks.def has the order in which locks are taken. The pool holds none while
 * it calls the backend.
 *
 * The lock is a word and a futex. An uncontended call costs two inlined atomic
 * operations; the C library's mutex costs 50 instructions more. The lock is neither fair
 * nor recursive. No thread holds it for longer than a walk over records.
 *
 * Owns: nothing.   Lock: is one.   Design: docs/pool.md, "Locks"
 */
#ifndef GS_POOL_LOCK_H
#define GS_POOL_LOCK_H

#include <stdatomic.h>

#include "gs_locks.h"

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

/* The lock is taken by another thread; errno is preserved. */
void gs_lock_wait(struct gs_lock *lock);
void gs_lock_wake(struct gs_lock *lock);

static inline void gs_lock_take(struct gs_lock *lock)
{
    uint32_t open = 0;

    gs_lock_check_take(lock->rank);
    if (GS_UNLIKELY(!atomic_compare_exchange_strong_explicit(
            &lock->word, &open, 1, memory_order_acquire, memory_order_relaxed))) {
        gs_lock_wait(lock);
    }
    gs_lock_record_held(lock->rank);
}

static inline void gs_lock_drop(struct gs_lock *lock)
{
    gs_lock_record_given(lock->rank);
    uint32_t was = atomic_exchange_explicit(&lock->word, 0, memory_order_release);

    if (GS_UNLIKELY(was == 2)) {
        gs_lock_wake(lock);
    }
}

#endif
