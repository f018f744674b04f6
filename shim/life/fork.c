/*
 * fork.c - handles a fork, and resets the library in the child.
 *
 * The handlers do not run in a child made by clone or another system call. Such a child
 * is reset at its first CUDA call or fork (gs_state_check_child), and so is a child that
 * makes a CUDA call in a handler that runs earlier than these.
 *
 * Owns:  whether the fork handlers are registered, and whether this process is a forked
 *        child of one that had made CUDA calls.
 * Lock:  none: atomics, and what the only thread of a forked child writes.
 */
#include "shim/life/fork.h"

#include <errno.h>

#include "gs_locks.h"
#include "shim/link/caller_runtime.h"
#include "shim/link/real.h"
#include "shim/parts.h"
#include "shim/state/state.h"
#include "shim/state/trim_hold.h"
#include "shim/statefile/state_file.h"
#include "tracker/names/loader_gate.h"

static bool not_watched; /* atomic: the fork handlers could not be registered */
static bool forked_child;

/* What the forking thread holds during a fork; accessed by that thread only. A fork in a
 * signal handler during these functions finds the same, and leaves it. */
static _Thread_local struct {
    struct gs_stacks *stacks;
    bool trim, inside;
} held;

/* Excludes other threads' look-ups and captures, so that none of them holds the loader's
 * lock during the fork: in the child nobody would release it. */
static void before_fork(void)
{
    gs_state_check_child();
    struct gs_state *state = gs_state_peek();
    struct gs_stacks *stacks = state ? state->stacks : NULL;
    bool trim = __atomic_load_n(&gs_state_begun, __ATOMIC_RELAXED);
    if (held.stacks != stacks ||
        held.trim != trim) { /* without CUDA: no page is written */
        held.stacks = stacks;
        held.trim = trim;
    }
    if (trim) {
        gs_trim_hold(); /* the trim thread must not be inside a driver call */
    }
    if (GS_UNLIKELY(gs_thread.depth > 0)) { /* in a signal handler */
        held.inside = true;
        gs_state_file_before_fork();
    }
    gs_stacks_before_fork(stacks);
}

static void after_fork(void)
{
    gs_stacks_after_fork(held.stacks);
    if (GS_UNLIKELY(held.inside)) {
        held.inside = false;
        gs_state_file_after_fork();
    }
    if (held.trim) {
        gs_trim_release();
    }
}

/* In the child: drops all state, and leaks its memory. CUDA cannot continue in a forked
 * child, and locks that other threads of the parent hold are never released there.
 * `stacks` are those that this thread holds; NULL: none. `inside`: it is in a signal
 * handler that interrupted a wrapper, and has the pages for what remains. */
static void reset(struct gs_stacks *stacks, bool inside)
{
    /* A lock in a mapped file is shared with the parent, and the parent releases it. */
    bool own = gs_state_file_after_fork_in_child(inside);
    gs_stacks_after_fork_in_child(own ? stacks : NULL);
    gs_lock_forget_held();
    gs_state_forget();
    gs_parts_fork_in_child();
    forked_child = true;
}

void gs_fork_reset(void)
{
    sigset_t was;
    if (gs_state_claim(&was)) {
        if (!held.inside) {
            gs_loader_close_in_child();
        }
        reset(held.inside ? held.stacks : NULL, held.inside);
        gs_state_claimed(&was);
    }
}

/* Before the first CUDA call only look-ups have locks, and before the first look-up
 * nothing has. The children of a program without CUDA run little: each page of code and
 * data that they meet here is one more fault. */
static void after_fork_in_child(void)
{
    if (__atomic_load_n(&gs_state_begun, __ATOMIC_RELAXED)) {
        sigset_t was;
        if (gs_state_claim(&was)) {
            reset(held.stacks, gs_thread.depth > 0);
            gs_state_claimed(&was);
        }
        held.inside = false;
        return;
    }
    gs_loader_open_in_child();
    if (__atomic_load_n(&gs_look_ups_begun, __ATOMIC_RELAXED)) {
        gs_real_after_fork();
        gs_caller_runtime_after_fork();
    }
}

/* What pthread_atfork calls, which is in the library itself. Weak: musl lacks the
 * function, and refuses to start a program with a strong reference to it. */
typedef void fork_handler(void);
extern int __register_atfork(fork_handler *before, fork_handler *after,
                             fork_handler *in_child, void *dso) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static bool register_handlers(void)
{
    return __register_atfork &&
           __register_atfork(before_fork, after_fork, after_fork_in_child,
                             &__dso_handle) == 0;
}

bool gs_fork_hook(void)
{
    static bool tried; /* atomic */
    if (!__atomic_exchange_n(&tried, true, __ATOMIC_RELAXED) && !register_handlers()) {
        __atomic_store_n(&not_watched, true, __ATOMIC_RELAXED);
    }
    return !__atomic_load_n(&not_watched, __ATOMIC_RELAXED);
}

/* The child of a fork in progress runs no handler that is registered during the fork. */
__attribute__((constructor)) static void hook_at_load(void)
{
    (void)gs_fork_hook();
}

bool gs_fork_is_child(void)
{
    return forked_child;
}

/* Waits for nothing, since a signal handler may call it: neither for the stacks' lock,
 * which is dropped with the state, nor long for a thread inside a look-up. */
pid_t gs_fork_bare(pid_t (*real_fork)(void))
{
    int saved_errno = errno;
    bool inside = gs_thread.depth > 0;
    gs_stacks_before_fork(NULL);
    if (inside) {
        gs_state_file_before_fork();
    }
    errno = saved_errno;
    pid_t pid = real_fork();
    saved_errno = errno;
    if (pid != 0) {
        gs_stacks_after_fork(NULL);
        if (inside) {
            gs_state_file_after_fork();
        }
    } else {
        held.stacks = NULL;
        after_fork_in_child();
    }
    errno = saved_errno;
    return pid;
}
