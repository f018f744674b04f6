/*
 * full_wait.h - the bounded wait of an allocation on a full device.
 *
 * Memory that is idle in the library would natively be free, so an allocation on a full
 * device reclaims it. The driver's free waits for the context, which a native allocation
 * never does. If the running work waits for the thread that allocates, this wait would
 * never end. So the library first waits for at most GPUSHIM_POOL_WAIT, and lets the
 * allocation fail if the work has not completed by then.
 */
#ifndef GS_FULL_WAIT_H
#define GS_FULL_WAIT_H

#include "shim/state/contexts.h"

/*
 * Returns true if all work submitted to the context completes within the time that an
 * allocation may wait. True also if this cannot be checked: the driver is too old, or a
 * stream captures. An event whose wait timed out is kept; while it is incomplete, later
 * calls return false at once. Called with no lock held.
 */
bool gs_full_wait(struct gs_state *state, const struct gs_context *context);

/* Like gs_full_wait, for every known context. */
bool gs_full_wait_all(struct gs_state *state);

/*
 * Returns true if the driver cannot take idle memory back now, because work runs that may
 * never end. Polls an event, for 50 ms at the first call and for 2 ms while the context's
 * work was seen to end within the last 10 s; an incomplete event is kept, and later calls
 * only query it. If work was seen to end, the context is busy only once an event has been
 * incomplete for a second. Makes no driver call, and returns false, while a stream
 * captures or the context is known to be idle.
 */
bool gs_full_wait_is_busy(struct gs_state *state, const struct gs_context *context);

/* Drops the kept events of a context that has ended. */
void gs_full_wait_context_ends(const struct gs_context *context);

#endif
