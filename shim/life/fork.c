/*
 * fork.c - what a fork leaves behind in the child.
 * Owns:  whether a fork is watched, and whether this process is a forked child.
 * Lock:  the start's.
 */
#include "fork.h"

#include <errno.h>
#include <pthread.h>

#include "gs_locks.h"
#include "mutants.h"
#include "parts.h"
#include "state.h"
#include "state_file.h"
#include "trim_hold.h"

static bool watched;      /* under the start's lock */
static bool forked_child; /* written by the only thread of a forked child */

/* What the forking thread holds over a fork; written and read by that thread only. */
static _Thread_local struct gs_stacks *held_over_fork;

/* The loader's lock must not be held by a look-up or capture in another thread: no one
 * would ever release it in the child. */
static void before_fork(void)
{
    struct gs_state *state = gs_state_peek();
    held_over_fork = state ? state->stacks : NULL;
    gs_trim_hold(); /* it must not be in the middle of a call of the driver */
    gs_stacks_before_fork(held_over_fork);
}

static void after_fork(void)
{
    gs_trim_release();
    gs_stacks_after_fork(held_over_fork);
}

/*
 * In a forked child CUDA cannot go on where the parent was, and other threads' locks are
 * held for ever: forget everything. Memory of the old state is the price.
 */
static void after_fork_in_child(void)
{
    /* Where the lock lies in a file it is the parent's, too, and the parent gives it. */
    bool own = gs_state_file_after_fork_in_child(gs_thread.depth > 0);
    gs_stacks_after_fork_in_child(own ? held_over_fork : NULL);
    gs_lock_forget_held();
    if (gs_mutant(GS_MUTANT_child_keeps)) {
        return;
    }
    gs_state_forget();
    gs_parts_fork_in_child();
    forked_child = true;
}

bool gs_fork_watch(void)
{
    if (!watched) {
        watched = pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0;
    }
    return watched;
}

bool gs_fork_is_child(void)
{
    return forked_child;
}

/* Nothing is waited for, as the call may come from a signal handler: neither the stacks'
 * lock, which goes with the state, nor who is in the middle of a look-up for long. */
pid_t gs_fork_bare(pid_t (*real_fork)(void))
{
    int saved_errno = errno;
    gs_stacks_before_fork(NULL);
    errno = saved_errno;
    pid_t pid = real_fork();
    saved_errno = errno;
    if (pid != 0) {
        gs_stacks_after_fork(NULL);
    } else if (watched) {
        held_over_fork = NULL;
        after_fork_in_child();
    } else {
        gs_stacks_after_fork_in_child(NULL);
    }
    errno = saved_errno;
    return pid;
}
