/*
 * control.h - answers the command gpushim while the program runs, by a thread that exists
 * as long as a CUDA context does (GPUSHIM_CONTROL).
 *
 * Locks: none.   Design: docs/state.md, "A running program is asked"
 */
#ifndef GS_CONTROL_H
#define GS_CONTROL_H

struct gs_state;

/* A context was added to the map: starts the thread, unless it runs. No lock is held. */
void gs_control_start(const struct gs_state *state);

/* A context was removed from the map: with the last one the thread ends. */
void gs_control_context_ended(void);

/* The process's first thread ends: the library's thread must not be the last one. */
void gs_control_first_thread_ends(void);

/* In a forked child: there is no thread. */
void gs_control_reset(void);

#endif
