/*
 * control.h - answers the command gpushim while the program runs: a thread with a Unix
 * socket, from the process's first context on (GPUSHIM_CONTROL).
 *
 * Locks: none.   Design: docs/state.md, "A running program is asked"
 */
#ifndef GS_CONTROL_H
#define GS_CONTROL_H

struct gs_state;

/* A context was found: starts the thread, unless it runs. No lock is held. */
void gs_control_start(const struct gs_state *state);

/* In a forked child: there is no thread, and the socket is the parent's. */
void gs_control_reset(void);

#endif
