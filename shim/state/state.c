/*
 * state.c - the pointer to the state of the process, and the re-entry guard.
 * Owns:  the pointers to the process's state.
 * Lock:  start_lock during creation; the pointers are published with release order.
 */
#include "shim/state/state.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include "gs_locks.h"
#include "gs_uncancelled.h"
#include "shim/link/plain_calls.h"
#include "shim/parts.h"
#include "tracker/stacks/alt_stack.h"

/* Whose state the roots lead to. */
enum owner {
    OWNER_NONE, /* a child finds this */
    OWNER_RESETS,
    OWNER_THIS,
};

struct gs_state_roots gs_state_roots;
bool gs_state_begun;       /* atomic */
static bool roots_cleared; /* atomic: the kernel clears the roots in each child */
static struct gs_mutex start_lock = GS_MUTEX(GS_RANK_START);

/* start_lock is held. */
static void create_on_large_stack(void *out)
{
    *(struct gs_state **)out = gs_parts_make_state();
}

/* Blocks signals, except those that a fault of the thread itself raises. */
static void hold_signals(sigset_t *was)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < GS_ARRAY_LEN(own); i++) {
        sigdelset(&all, own[i]);
    }
    (void)pthread_sigmask(SIG_BLOCK, &all, was);
}

/* Linux before 4.14, or a filter of system calls: only handlers reset a child. */
static void clear_roots_in_children(void)
{
    if (!__atomic_load_n(&roots_cleared, __ATOMIC_RELAXED) &&
        madvise(&gs_state_roots, sizeof(gs_state_roots), MADV_WIPEONFORK) == 0) {
        __atomic_store_n(&gs_state_roots.owner, OWNER_THIS, __ATOMIC_RELEASE);
        __atomic_store_n(&roots_cleared, true, __ATOMIC_RELEASE);
    }
}

bool gs_state_claim(sigset_t *was)
{
    hold_signals(was); /* a handler that forks would wait for this thread */
    if (!__atomic_load_n(&roots_cleared, __ATOMIC_ACQUIRE)) {
        return true;
    }
    for (;;) {
        int owner = OWNER_NONE;
        if (__atomic_compare_exchange_n(&gs_state_roots.owner, &owner, OWNER_RESETS,
                                        false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            return true;
        }
        if (owner == OWNER_THIS) {
            (void)pthread_sigmask(SIG_SETMASK, was, NULL);
            return false;
        }
        sched_yield();
    }
}

void gs_state_claimed(const sigset_t *was)
{
    __atomic_store_n(&gs_state_roots.owner, OWNER_THIS, __ATOMIC_RELEASE);
    (void)pthread_sigmask(SIG_SETMASK, was, NULL);
}

void gs_state_check_child(void)
{
    if (__atomic_load_n(&roots_cleared, __ATOMIC_ACQUIRE) &&
        __atomic_load_n(&gs_state_roots.owner, __ATOMIC_ACQUIRE) != OWNER_THIS) {
        gs_parts_child_found();
    }
}

static struct gs_state *start(void)
{
    sigset_t was;
    int saved_errno = errno;
    if (gs_thread.starting) {
        return NULL;
    }
    clear_roots_in_children();
    gs_state_check_child();
    /* Starting reads files: the thread must not be cancelled with the lock held, nor may
     * a handler leave by longjmp. */
    hold_signals(&was);
    int before = gs_uncancelled_begin();
    gs_thread.starting = true;
    gs_plain_calls_start();
    /* Before the lock is held; an exchange is ordered before what follows. */
    (void)__atomic_exchange_n(&gs_state_begun, true, __ATOMIC_SEQ_CST);
    gs_mutex_lock(&start_lock);
    struct gs_state *state = __atomic_load_n(&gs_state_roots.current, __ATOMIC_ACQUIRE);
    if (!state) {
        gs_alt_stack_call(GS_ALT_STACK_BYTES, create_on_large_stack, &state);
        __atomic_store_n(&gs_state_roots.current, state, __ATOMIC_RELEASE);
    }
    gs_mutex_unlock(&start_lock);
    gs_thread.starting = false;
    gs_uncancelled_end(before);
    (void)pthread_sigmask(SIG_SETMASK, &was, NULL);
    errno = saved_errno;
    return state;
}

struct gs_state *gs_state(void)
{
    struct gs_state *state = __atomic_load_n(&gs_state_roots.current, __ATOMIC_ACQUIRE);
    if (GS_UNLIKELY(!state)) {
        state = start();
    }
    return state && state->active ? state : NULL;
}

struct gs_state *gs_state_peek(void)
{
    struct gs_state *state = __atomic_load_n(&gs_state_roots.current, __ATOMIC_ACQUIRE);
    return state && state->active ? state : NULL;
}

struct gs_state *gs_enter_first(void)
{
    int saved_errno = errno;
    gs_state_check_child();
    struct gs_state *state = gs_real_complete() ? gs_state() : NULL;
    if (state && !gs_real_initialized()) {
        state = NULL; /* the driver refuses every call: there is nothing to record */
    }
    if (state) {
        gs_real_keep();
        __atomic_store_n(&gs_state_roots.ready, state, __ATOMIC_RELEASE);
    }
    errno = saved_errno;
    return state;
}

void gs_state_forget(void)
{
    __atomic_store_n(&gs_state_roots.current, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&gs_state_roots.ready, NULL, __ATOMIC_RELAXED);
    gs_mutex_init(&start_lock, GS_RANK_START);
    /* In a signal handler the thread may be inside a wrapper, and its gs_leave still
     * follows. */
    gs_thread = (struct gs_thread){.errno_at = gs_thread.errno_at};
}

bool gs_owned_by_pool(CUdeviceptr dptr)
{
    const struct gs_state *state = gs_state_peek();
    return state && state->pool && gs_pool_owns(state->pool, dptr);
}
