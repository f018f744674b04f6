/*
 * lock.c - what lock.h does not inline: set-up, and the rank checks of debug builds.
 * Owns: the thread's mask of held ranks.   Lock: thread-local, none.
 */
#include "lock.h"

enum gs_status gs_lock_init(struct gs_lock *lock, enum gs_lock_rank rank)
{
    lock->rank = rank;
    return pthread_mutex_init(&lock->mutex, NULL) ? GS_ERR_HOST_NOMEM : GS_OK;
}

void gs_lock_fini(struct gs_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

#ifdef NDEBUG

bool gs_lock_none_held(void)
{
    return true;
}

#else

static __thread unsigned held_ranks; /* bit r: this thread holds a lock of rank r */

void gs_lock_note_take(const struct gs_lock *lock)
{
    unsigned bit = 1u << lock->rank;

    assert(held_ranks < bit); /* nothing of this rank or above is held */
    held_ranks |= bit;
}

void gs_lock_note_drop(const struct gs_lock *lock)
{
    unsigned bit = 1u << lock->rank;

    assert(held_ranks & bit);
    held_ranks &= ~bit;
}

bool gs_lock_none_held(void)
{
    return held_ranks == 0;
}

#endif
