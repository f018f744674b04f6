/*
 * loader_gate.h - keeps fork away from threads of ours that hold the loader's lock.
 *
 * glibc gives a forked child a fresh dl_load_lock but not a fresh dl_load_write_lock,
 * which dl_iterate_phdr holds: a child forked in such a moment would wait for ever at its
 * own first look. Everything in tracker/ that may take that lock does so between enter
 * and leave; around fork the gate is closed. Nobody waits at a closed gate (whoever holds
 * the loader's lock might): he does without.
 *
 * Owns: one counter, process-wide.   Lock: none, atomic.
 */
#ifndef GS_LOADER_GATE_H
#define GS_LOADER_GATE_H

#include "gs_base.h"

/* False: closed, do not call the loader. True: call gs_loader_leave afterwards. */
bool gs_loader_enter(void);
void gs_loader_leave(void);

/* Before fork: waits, 100 ms at most, until nobody is inside. */
void gs_loader_close(void);
/* After fork, in parent and child. */
void gs_loader_open(void);

#endif
