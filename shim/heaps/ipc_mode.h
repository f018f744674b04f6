/*
 * ipc_mode.h - GPUSHIM_IPC: whether small requests share driver allocations. Another
 * process can only open a driver allocation as a whole.
 */
#ifndef GS_IPC_MODE_H
#define GS_IPC_MODE_H

#include "shim/state/state.h"

enum gs_ipc_apart { GS_IPC_SHARING, GS_IPC_APART_FROM_START, GS_IPC_APART };

extern int gs_ipc_apart; /* atomic: enum gs_ipc_apart */

/* Returns true if small requests go to the driver. */
static inline bool gs_ipc_is_apart(void)
{
    return __atomic_load_n(&gs_ipc_apart, __ATOMIC_RELAXED) != GS_IPC_SHARING;
}

/* Returns true if a request that the pool would carve from a shared driver allocation
 * goes to the driver instead. A pool that was created apart carves nothing. */
static inline bool gs_ipc_keeps_apart(const struct gs_options *options, size_t bytes)
{
    int apart = __atomic_load_n(&gs_ipc_apart, __ATOMIC_RELAXED);
    return GS_UNLIKELY(apart != GS_IPC_SHARING) &&
           (bytes < GS_LARGE_BYTES ||
            (apart == GS_IPC_APART && options->pool_carve == GS_CARVE_MODE_ON));
}

/* Called at start, before a pool exists: applies the option and checks the program's
 * symbols. */
void gs_ipc_start(const struct gs_options *options);
void gs_ipc_reset(void); /* in a forked child */

/*
 * Called when the program has exported a block of a shared driver allocation. A program
 * that exports once is likely to export again, so from now on requests share no driver
 * allocation, unless the option asks for sharing.
 * Locks: none may be held; takes the pool's locks.
 */
void gs_ipc_set_apart(struct gs_state *state);

#endif
