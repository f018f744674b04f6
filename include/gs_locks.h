/*
 * gs_locks.h - the one order in which the library's locks are taken, and its mutex.
 *
 * A thread takes locks further and further down the table of gs_locks.def, at most one of
 * a rank: so no two threads ever wait for each other. A try that does not wait may be out
 * of order; a lock taken after it may not. Builds with assertions keep a mask of the held
 * ranks per thread and end the process at a lock out of order, with the names of both;
 * other builds pay nothing.
 *
 * Three kinds of lock carry a rank: struct gs_mutex (below), for most of the library;
 * struct gs_lock (pool/lock.h), where every instruction counts; struct gs_tracker_lock
 * (tracker/tracker_lock.h), for sections of a few dozen instructions.
 *
 * Not installed.
 * Owns: what each thread holds.   Lock: thread-local, none.
 */
#ifndef GS_LOCKS_H
#define GS_LOCKS_H

#include <pthread.h>

#include "gs_base.h"

enum gs_lock_rank {
#define GS_LOCK(rank, guards) rank,
#include "gs_locks.def"
    GS_LOCK_RANKS
};
static_assert(GS_LOCK_RANKS <= 64, "a bit each of what a thread holds");

/* ---- what is held ------------------------------------------------------------------ */

#ifdef NDEBUG

static inline void gs_lock_check_take(enum gs_lock_rank rank)
{
    (void)rank;
}

static inline void gs_lock_check_wait(enum gs_lock_rank rank)
{
    (void)rank;
}

static inline void gs_lock_check_driver(void)
{
}

static inline void gs_lock_record_reentry(bool reentered)
{
    (void)reentered;
}

static inline void gs_lock_record_held(enum gs_lock_rank rank)
{
    (void)rank;
}

static inline void gs_lock_record_given(enum gs_lock_rank rank)
{
    (void)rank;
}

static inline void gs_lock_forget_held(void)
{
}

static inline bool gs_lock_none_held(void)
{
    return true;
}

#else

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The locks that a thread holds. Both pool/lock.c and tracker/tracker_lock.c define it,
 * weak: the library has the two files, the unit tests of pool/ or tracker/ one. */
extern __thread struct gs_locks {
    uint64_t held;      /* bit r: a lock of rank r */
    uint64_t forgotten; /* the same of the parent, in a forked child */
    bool reentered;     /* a call in a signal handler has interrupted the wrapper */
} gs_locks __attribute__((visibility("hidden")));

static inline uint64_t gs_lock_bit(enum gs_lock_rank rank)
{
    return UINT64_C(1) << rank;
}

/* The innermost rank of a mask that is not empty. */
static inline enum gs_lock_rank gs_lock_last(uint64_t mask)
{
    return (enum gs_lock_rank)(63 - __builtin_clzll(mask));
}

static inline const char *gs_lock_name(enum gs_lock_rank rank)
{
    static const char *const names[] = {
#define GS_LOCK(rank, guards) #rank,
#include "gs_locks.def"
    };
    return names[rank];
}

__attribute__((cold, noinline, noreturn, unused)) static void
gs_lock_refuse(const char *what, enum gs_lock_rank held)
{
    (void)dprintf(STDERR_FILENO,
                  "gpushim: %s while %s is held: against include/gs_locks.def\n", what,
                  gs_lock_name(held));
    abort();
}

/* Call before the thread waits for a lock of the rank. */
static inline void gs_lock_check_take(enum gs_lock_rank rank)
{
    if (GS_UNLIKELY(gs_locks.held >> rank != 0)) {
        gs_lock_refuse(gs_lock_name(rank), gs_lock_last(gs_locks.held));
    }
}

/* Call before the thread waits for a condition: it gives up its lock of the rank, and
 * keeps all others. */
static inline void gs_lock_check_wait(enum gs_lock_rank rank)
{
    uint64_t others = gs_locks.held & ~gs_lock_bit(rank);

    if (GS_UNLIKELY(others != 0)) {
        gs_lock_refuse("a wait for a condition", gs_lock_last(others));
    }
}

/* Call before the thread calls the driver. */
static inline void gs_lock_check_driver(void)
{
    const uint64_t allowed = 0
#define GS_LOCK(rank, guards)
#define GS_LOCK_OVER_DRIVER(rank, guards) | (UINT64_C(1) << rank)
#include "gs_locks.def"
        ;
    uint64_t others = gs_locks.held & ~allowed;

    if (GS_UNLIKELY(others != 0 && !gs_locks.reentered)) {
        gs_lock_refuse("a call of the driver", gs_lock_last(others));
    }
}

/* Records the begin of a wrapper. `reentered`: a wrapper is in progress on this thread,
 * and the call is forwarded to the driver, whatever lock is held. */
static inline void gs_lock_record_reentry(bool reentered)
{
    gs_locks.reentered = reentered;
}

/* Records that the thread has taken a lock of the rank. */
static inline void gs_lock_record_held(enum gs_lock_rank rank)
{
    assert(!(gs_locks.held & gs_lock_bit(rank)));
    gs_locks.held |= gs_lock_bit(rank);
}

/* Records that the thread has released it. */
static inline void gs_lock_record_given(enum gs_lock_rank rank)
{
    assert((gs_locks.held | gs_locks.forgotten) & gs_lock_bit(rank));
    gs_locks.held &= ~gs_lock_bit(rank);
}

/* In a forked child: the locks that the thread held are the parent's. The thread may
 * still release them, if a signal handler forked. */
static inline void gs_lock_forget_held(void)
{
    gs_locks.forgotten |= gs_locks.held;
    gs_locks.held = 0;
}

/* Returns true if the calling thread holds no lock of the library; without assertions
 * always. */
static inline bool gs_lock_none_held(void)
{
    return gs_locks.held == 0;
}

#endif

/* ---- the mutex ------------------------------------------------------------------ */

/* The C library's, with a rank. Not recursive. A forked child initializes again those
 * that the parent's other threads may hold (GS_IN_CHILD of shim/parts.def). */
struct gs_mutex {
    pthread_mutex_t mutex;
    enum gs_lock_rank rank;
};

/* For a mutex of static storage. */
#define GS_MUTEX(its_rank)                                                               \
    {                                                                                    \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (its_rank)                           \
    }

static inline void gs_mutex_init(struct gs_mutex *mutex, enum gs_lock_rank rank)
{
    (void)pthread_mutex_init(&mutex->mutex, NULL);
    mutex->rank = rank;
}

static inline void gs_mutex_destroy(struct gs_mutex *mutex)
{
    (void)pthread_mutex_destroy(&mutex->mutex);
}

static inline void gs_mutex_lock(struct gs_mutex *mutex)
{
    gs_lock_check_take(mutex->rank);
    (void)pthread_mutex_lock(&mutex->mutex);
    gs_lock_record_held(mutex->rank);
}

/* Never waits; true if the mutex was taken. */
static inline bool gs_mutex_try(struct gs_mutex *mutex)
{
    if (pthread_mutex_trylock(&mutex->mutex) != 0) {
        return false;
    }
    gs_lock_record_held(mutex->rank);
    return true;
}

static inline void gs_mutex_unlock(struct gs_mutex *mutex)
{
    gs_lock_record_given(mutex->rank);
    (void)pthread_mutex_unlock(&mutex->mutex);
}

/* Waits for the condition, and releases the mutex for the wait; it is the only lock held.
 * A cancellation point (gs_uncancelled.h). Returns as pthread_cond_timedwait; no
 * deadline: as pthread_cond_wait. */
static inline int gs_mutex_wait(struct gs_mutex *mutex, pthread_cond_t *condition,
                                const struct timespec *deadline)
{
    gs_lock_check_wait(mutex->rank);
    return deadline ? pthread_cond_timedwait(condition, &mutex->mutex, deadline)
                    : pthread_cond_wait(condition, &mutex->mutex);
}

#endif
