/*
 * fork.h - a forked child starts as if the library had never been used.
 */
#ifndef GS_FORK_H
#define GS_FORK_H

#include <stdbool.h>
#include <sys/types.h>

/* Registers the fork handlers, once a process: at load, or in the first CUDA call if
 * another library's constructor makes it. False on failure. */
bool gs_fork_hook(void);

/* Returns true if this process was forked from one that had begun its first CUDA call. */
bool gs_fork_is_child(void);

/* Resets the library in a forked child that ran no handler, once. Any thread of it. */
void gs_fork_reset(void);

/* Implements _Fork: calls `real_fork`, and resets the library in the child. Preserves
 * errno. Async-signal-safe. */
pid_t gs_fork_bare(pid_t (*real_fork)(void));

#endif
