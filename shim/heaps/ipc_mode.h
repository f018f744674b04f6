/*
 * ipc_mode.h - GPUSHIM_IPC: whether small requests share driver allocations, which other
 * processes can only be given whole.
 */
#ifndef GS_IPC_MODE_H
#define GS_IPC_MODE_H

#include "state.h"

enum gs_ipc_apart { GS_IPC_SHARING, GS_IPC_APART_FROM_START, GS_IPC_APART };

extern int gs_ipc_apart; /* atomic: enum gs_ipc_apart */

/* Whether small requests go to the driver. */
static inline bool gs_ipc_is_apart(void)
{
    return __atomic_load_n(&gs_ipc_apart, __ATOMIC_RELAXED) != GS_IPC_SHARING;
}

/* Whether a request that the pool would serve from what others share goes to the driver
 * instead. A pool that was made apart carves nothing. */
static inline bool gs_ipc_keeps_apart(const struct gs_options *options, size_t bytes)
{
    int apart = __atomic_load_n(&gs_ipc_apart, __ATOMIC_RELAXED);
    return GS_UNLIKELY(apart != GS_IPC_SHARING) &&
           (bytes < GS_LARGE_BYTES || (apart == GS_IPC_APART && options->pool_carve));
}

/* At start, before there is a pool: what was asked for, and what kind of program it is.
 */
void gs_ipc_start(const struct gs_options *options);
void gs_ipc_reset(void); /* in a forked child */

/*
 * The program has exported what shares an allocation, so it will do so again: from now on
 * nothing shares any more, unless it was asked to.
 * Locks: none may be held; the pool's are taken.
 */
void gs_ipc_set_apart(struct gs_state *state);

#endif
