/*
 * loader_gate.h - keeps fork away from threads of ours that hold the loader's lock.
 *
 * glibc gives a forked child a fresh dl_load_lock but not a fresh dl_load_write_lock,
 * which dl_iterate_phdr holds: a child forked in such a moment would wait for ever at its
 * own first look. Everything of ours that may take that lock does so between enter and
 * leave; around fork the gate is closed. The program's own threads know no gate: where
 * one of them held the lock at the fork, the gate stays shut in the child.
 *
 * Owns: one counter and where the loader's lock is, process-wide.   Lock: none, atomic.
 */
#ifndef GS_LOADER_GATE_H
#define GS_LOADER_GATE_H

#include "gs_base.h"

/* False: closed or shut, do not call the loader. True: call gs_loader_leave afterwards.
 * Waits for nobody, so it is for those who may hold the loader's lock already. */
bool gs_loader_enter(void) GS_MUST_USE;
/* The same for who cannot do without: waits for another thread's fork, 100 ms at most,
 * and goes in all the same then. False only in a child in which the gate is shut. */
bool gs_loader_enter_after_fork(void) GS_MUST_USE;
void gs_loader_leave(void);
/* Whether this is a child that never gets in. */
bool gs_loader_is_shut(void);

/*
 * Finds the lock that dl_iterate_phdr holds among the loader's data, `bytes` from
 * `begin`: it is the one mutex there whose owner is this thread while it is called, and
 * at no other time. Reads only. Without it, or where nothing was found, a child cannot
 * tell and tries.
 */
void gs_loader_learn(const void *begin, size_t bytes);

/* Before fork: waits, 100 ms at most, until nobody is inside. Who holds a lock that is
 * taken inside closes the gate first; each close has its open. Handlers for fork do so,
 * too, from the start. */
void gs_loader_close(void);
/* After fork, in the parent. */
void gs_loader_open(void);
/* After fork, in the child, where there is one thread: shut, if nobody is left to release
 * the loader's lock. */
void gs_loader_open_in_child(void);

#endif
