/*
 * lock.c - the parts of lock.h that are not inline: waiting and waking.
 * Owns: the locks that each thread holds (gs_locks.h).   Lock: thread-local, none.
 */
#include "pool/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_wait.h"

/* Sections are short: mostly the holder is gone before a sleep would pay. */
#define SPINS 100

#ifndef NDEBUG
__attribute__((weak)) __thread struct gs_locks gs_locks;
#endif

void gs_lock_wait(struct gs_lock *lock)
{
    int saved = errno;

    for (int i = 0; i < SPINS; i++) {
        uint32_t open = 0;

        gs_wait_relax();
        if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(
                &lock->word, &open, 1, memory_order_acquire, memory_order_relaxed)) {
            return;
        }
    }
    /* Taken as 2, since other threads may sleep too: the next drop wakes one of them. */
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0) {
        syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
    }
    errno = saved;
}

void gs_lock_wake(struct gs_lock *lock)
{
    int saved = errno;

    syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved;
}
