/*
 * loader_gate.h - keeps a fork from happening while a thread of the library holds the
 * loader's lock.
 *
 * glibc gives a forked child a fresh dl_load_lock, but not a fresh dl_load_write_lock,
 * which dl_iterate_phdr holds. A child of a fork under that lock would wait for ever in
 * its first dl_iterate_phdr. So all code of the library that may take that lock runs
 * between enter and leave, and the gate is closed around fork. The program's own threads
 * do not know the gate: if one of them held the lock at the fork, the gate stays shut in
 * the child.
 *
 * Owns: one counter and the address of the loader's lock, process-wide.   Lock: none,
 * atomic.
 */
#ifndef GS_LOADER_GATE_H
#define GS_LOADER_GATE_H

#include "gs_base.h"

/* False: the gate is closed or shut; do not call the loader. True: call gs_loader_leave
 * afterwards. Never waits, so callers may hold the loader's lock. */
bool gs_loader_enter(void) GS_MUST_USE;
/* The same for callers that need the loader: waits for another thread's fork, and enters
 * anyway once a caller has waited 100 ms for it. False only in a child whose gate is
 * shut. */
bool gs_loader_enter_after_fork(void) GS_MUST_USE;
void gs_loader_leave(void);
/* Returns true in a child whose gate is shut for good. */
bool gs_loader_is_shut(void);

/*
 * Finds the lock of dl_iterate_phdr among the loader's data, `bytes` from `begin`: the
 * only mutex there that this thread owns exactly during the call. Reads only. If none was
 * found, a child cannot know the lock's state, and enters.
 */
void gs_loader_learn(const void *begin, size_t bytes);

/* Before fork: waits, 100 ms at most, until no thread is inside. A thread that holds a
 * lock which is taken inside closes the gate first. Each close needs its open. */
void gs_loader_close(void);
/* In a child whose fork called no function of these, before gs_loader_open_in_child: the
 * parent's threads that were inside, or were forking, are not there. */
void gs_loader_close_in_child(void);
/* After fork, in the parent. */
void gs_loader_open(void);
/* After fork, in the child, which has one thread: shuts the gate if no thread is left to
 * release the loader's lock. */
void gs_loader_open_in_child(void);

#endif
