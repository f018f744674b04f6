/*
 * loader_gate.c - counts the threads inside the loader; closed around fork.
 *
 * Owns:  gate: the count, and the number of forks that hold it closed; how many forks
 * have closed it, and the last that was not waited for to its end; the address of the
 *        loader's lock.
 * Lock:  none, atomic.   Design: docs/stacks.md
 */
#include "tracker/names/loader_gate.h"

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_wait.h"

#define CLOSED_ONE ((uint64_t)1 << 32) /* one fork in progress; below: threads inside */
#define INSIDE     (CLOSED_ONE - 1)
#define WAIT_STEPS 1000
#define STEP_NS    100000

/* No lock. */
static _Atomic uint64_t gate;
static _Atomic pid_t closer; /* a thread that forks; of several, one */
static _Atomic uint64_t closes, overdue;
static _Atomic bool shut;                         /* set in a child, for good */
static _Atomic(const pthread_mutex_t *) its_lock; /* the loader's lock; NULL: not known */

static pid_t this_thread(void)
{
    return (pid_t)syscall(SYS_gettid);
}

bool gs_loader_enter(void)
{
    if (GS_LIKELY(atomic_fetch_add(&gate, 1) < CLOSED_ONE)) {
        return true;
    }
    atomic_fetch_sub(&gate, 1);
    return false;
}

/* The wait is bounded, once for all calls during a fork: the forking thread may be
 * waiting for this one, in another library's fork handler. */
bool gs_loader_enter_after_fork(void)
{
    uint64_t fork = 0;
    bool waits = true;
    for (int i = 0; i < WAIT_STEPS && waits && !atomic_load(&shut); i++) {
        if (GS_LIKELY(gs_loader_enter())) {
            return true;
        }
        fork = atomic_load(&closes);
        waits = atomic_load(&overdue) != fork &&
                atomic_load(&closer) != this_thread(); /* a handler of the program's */
        if (waits) {
            gs_nap(STEP_NS);
        }
    }
    if (waits) {
        atomic_store(&overdue, fork);
    }
    if (atomic_load(&shut)) {
        return false;
    }
    atomic_fetch_add(&gate, 1);
    return true;
}

void gs_loader_leave(void)
{
    atomic_fetch_sub(&gate, 1);
}

bool gs_loader_is_shut(void)
{
    return atomic_load(&shut);
}

/* ---- the loader's own lock ------------------------------------------------------- */

struct region {
    const char *begin;
    size_t bytes;
    pid_t thread;
    const pthread_mutex_t *mine; /* the last mutex found */
    size_t count;
};

/* glibc's mutex: a word that is not 0 while the mutex is held, and its owner. */
static bool is_held(const pthread_mutex_t *mutex)
{
    return __atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED) != 0;
}

static void find_own_mutex(struct region *region)
{
    region->count = 0;
    for (size_t at = 0; at + sizeof(pthread_mutex_t) <= region->bytes;
         at += _Alignof(pthread_mutex_t)) {
        const pthread_mutex_t *mutex = (const pthread_mutex_t *)(region->begin + at);

        if (is_held(mutex) &&
            __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) == region->thread) {
            region->mine = mutex;
            region->count++;
        }
    }
}

/* dl_iterate_phdr callback; the first entry is enough. */
static int check_first_entry(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)info;
    (void)size;
    find_own_mutex(data);
    return 1;
}

void gs_loader_learn(const void *begin, size_t bytes)
{
    struct region region = {begin, bytes, this_thread(), NULL, 0};

    find_own_mutex(&region);
    if (region.count > 0 || atomic_load(&its_lock) != NULL || !gs_loader_enter()) {
        return; /* in a constructor, under the loader's locks: try another time */
    }
    dl_iterate_phdr(check_first_entry, &region);
    gs_loader_leave();
    if (region.count == 1) {
        atomic_store(&its_lock, region.mine);
    }
}

/* ---- fork ------------------------------------------------------------------------ */

/* The wait is bounded: a handler that interrupted a thread inside may call fork. */
void gs_loader_close(void)
{
    atomic_fetch_add(&closes, 1);
    atomic_fetch_add(&gate, CLOSED_ONE);
    atomic_store(&closer, this_thread());
    for (int i = 0; i < WAIT_STEPS && (atomic_load(&gate) & INSIDE) != 0; i++) {
        gs_nap(STEP_NS);
    }
}

void gs_loader_close_in_child(void)
{
    atomic_store(&gate, CLOSED_ONE);
}

void gs_loader_open(void)
{
    atomic_fetch_sub(&gate, CLOSED_ONE);
}

void gs_loader_open_in_child(void)
{
    const pthread_mutex_t *lock = atomic_load(&its_lock);

    if (lock != NULL && is_held(lock)) {
        atomic_store(&shut, true); /* and leaves the gate closed */
    } else {
        gs_loader_open();
    }
}
