/*
 * shield.h - protects the host from side effects of writing: no signal, no cancellation.
 * Locks: none; the calling thread's own state. Async-signal-safe.
 */
#ifndef GS_SHIELD_H
#define GS_SHIELD_H

#include <signal.h>
#include "gs_base.h"

/* The saved state of the calling thread. */
struct gs_shield {
    int saved_errno;
    int cancel_state;
    bool signal_raised; /* a write has failed in a way that raises a signal */
    sigset_t mask;
    sigset_t pending;
};

/* Bracket calls that may write; the second restores errno. */
void gs_shield_raise(struct gs_shield *shield);
void gs_shield_lower(struct gs_shield *shield);

#endif
