/*
 * fork.c - handles a fork, and resets the library in the child.
 * Owns:  whether the fork handlers are registered, and whether this process is a forked
 *        child.
 * Lock:  the start lock.
 */
#include "fork.h"

#include <errno.h>
#include <pthread.h>

#include "gs_locks.h"
#include "parts.h"
#include "state.h"
#include "state_file.h"
#include "trim_hold.h"

static bool handlers_registered; /* under the start lock */
static bool forked_child;        /* written by the only thread of a forked child */

/* Locked by the forking thread during a fork; accessed by that thread only. */
static _Thread_local struct gs_stacks *held_over_fork;

/* No other thread may hold the loader's lock during the fork, in a look-up or capture: in
 * the child the lock would never be released. */
static void before_fork(void)
{
    struct gs_state *state = gs_state_peek();
    held_over_fork = state ? state->stacks : NULL;
    gs_trim_hold(); /* the trim thread must not be inside a driver call */
    gs_stacks_before_fork(held_over_fork);
}

static void after_fork(void)
{
    gs_trim_release();
    gs_stacks_after_fork(held_over_fork);
}

/*
 * CUDA cannot continue in a forked child, and locks of the parent's other threads are
 * never released there: drops all state. The old state's memory is leaked.
 */
static void after_fork_in_child(void)
{
    /* A lock in a mapped file is shared with the parent, and the parent releases it. */
    bool own = gs_state_file_after_fork_in_child(gs_thread.depth > 0);
    gs_stacks_after_fork_in_child(own ? held_over_fork : NULL);
    gs_lock_forget_held();
    gs_state_forget();
    gs_parts_fork_in_child();
    forked_child = true;
}

bool gs_fork_hook(void)
{
    if (!handlers_registered) {
        handlers_registered =
            pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0;
    }
    return handlers_registered;
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
    gs_stacks_before_fork(NULL);
    errno = saved_errno;
    pid_t pid = real_fork();
    saved_errno = errno;
    if (pid != 0) {
        gs_stacks_after_fork(NULL);
    } else if (handlers_registered) {
        held_over_fork = NULL;
        after_fork_in_child();
    } else {
        gs_stacks_after_fork_in_child(NULL);
    }
    errno = saved_errno;
    return pid;
}
