/*
 * fork.h - a forked child starts as if the library had never been used.
 */
#ifndef GS_FORK_H
#define GS_FORK_H

#include <stdbool.h>
#include <sys/types.h>

/* Register what is done around each fork, once a process. False: that failed. Under the
 * start's lock. */
bool gs_fork_watch(void);

/* Whether this process was forked from one that had made CUDA calls. */
bool gs_fork_is_child(void);

/* _Fork: `real_fork`, and in the child what a fork leaves behind. Keeps errno.
 * Async-signal-safe. */
pid_t gs_fork_bare(pid_t (*real_fork)(void));

#endif
