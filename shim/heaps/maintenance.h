/*
 * maintenance.h - returns idle memory to the driver during calls that the program makes
 * anyway.
 *
 * Lock: none.   Design: docs/tuning.md, "When idle memory goes back"
 */
#ifndef GS_MAINTENANCE_H
#define GS_MAINTENANCE_H

#include "shim/state/state.h"

/*
 * Called when the heap's context is idle or all its work has just been waited for:
 * returns memory to the driver without a wait. Does nothing most of the time.
 */
void gs_maintain_now(struct gs_state *state, const struct gs_context *context);

/* Calls gs_maintain_now if the heap's maintenance is due. */
static inline void gs_maintenance(struct gs_state *state,
                                  const struct gs_context *context)
{
    if (GS_UNLIKELY(gs_heap_wants_maintenance(context->heap))) {
        gs_maintain_now(state, context);
    }
}

#endif
