/*
 * full_wait.h - how long an allocation on a full device waits for what runs.
 *
 * Memory that is idle in the library natively is free, so an allocation gives it back
 * when the device has no more. The driver's free waits for the context, which no native
 * allocation does; and if what runs waits for the very thread that allocates, it would
 * wait forever. So the library looks first, for GPUSHIM_POOL_WAIT at most, and rather
 * lets the allocation fail.
 */
#ifndef GS_FULL_WAIT_H
#define GS_FULL_WAIT_H

#include "contexts.h"

/*
 * Has all that the context had been given completed, or does it within the time that an
 * allocation may wait? True also where that cannot be asked: the driver is old, or a
 * stream captures. What was waited for in vain is remembered, and while it still runs the
 * answer is no at once. Called with no lock held.
 */
bool gs_full_wait(struct gs_state *state, const struct gs_context *context);

/* Of every context that was seen. */
bool gs_full_wait_all(struct gs_state *state);

/* The context ended: what was waited for in it is over. */
void gs_full_wait_context_ends(const struct gs_context *context);

#endif
