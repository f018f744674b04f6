/*
 * shield.h - keeps the host unharmed while we write: no signal of ours, no cancellation.
 * Locks: none; the calling thread's own state. Async-signal-safe.
 */
#ifndef GS_SHIELD_H
#define GS_SHIELD_H

#include <signal.h>
#include "gs_base.h"

/* State of the calling thread while we write. */
struct gs_shield {
    int saved_errno;
    int cancel_state;
    bool signal_raised; /* a write of ours has failed in a way that raises a signal */
    sigset_t mask;
    sigset_t pending;
};

/* Around what may write; errno is as before once the second has returned. */
void gs_shield_raise(struct gs_shield *shield);
void gs_shield_lower(struct gs_shield *shield);

#endif
