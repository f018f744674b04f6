/*
 * lock.h - the pool's mutexes and the one order they may be taken in.
 *
 * A thread takes locks of rising rank only, at most one of each rank, and calls the
 * backend with none held. Builds with assertions keep a mask of the held ranks per thread
 * and check both rules; other builds pay nothing for it.
 *
 * Owns: the thread-local mask (lock.c).   Lock: is one.   Design: docs/pool.md, "Locks"
 */
#ifndef GS_POOL_LOCK_H
#define GS_POOL_LOCK_H

#include <pthread.h>

#include "gs_base.h"

enum gs_lock_rank {
    GS_RANK_HEAP,   /* one heap: its blocks, bins, caches, counters */
    GS_RANK_PAGES,  /* writers of the page map; readers take nothing */
    GS_RANK_META,   /* the pool-wide stores of records */
    GS_RANK_RELIEF, /* who is inside the backend, and the device rows */
};

struct gs_lock {
    pthread_mutex_t mutex;
    enum gs_lock_rank rank;
};

/* Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_lock_init(struct gs_lock *lock, enum gs_lock_rank rank) GS_MUST_USE;
void gs_lock_fini(struct gs_lock *lock);

#ifdef NDEBUG
static inline void gs_lock_note_take(const struct gs_lock *lock)
{
    (void)lock;
}
static inline void gs_lock_note_drop(const struct gs_lock *lock)
{
    (void)lock;
}
#else
void gs_lock_note_take(const struct gs_lock *lock);
void gs_lock_note_drop(const struct gs_lock *lock);
#endif

/* Does the calling thread hold no lock of the pool? Always true without assertions. */
bool gs_lock_none_held(void);

static inline void gs_lock_take(struct gs_lock *lock)
{
    gs_lock_note_take(lock);
    pthread_mutex_lock(&lock->mutex);
}

static inline void gs_lock_drop(struct gs_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
    gs_lock_note_drop(lock);
}

#endif
