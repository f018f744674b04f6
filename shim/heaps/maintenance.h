/*
 * maintenance.h - idle memory goes back to the driver on calls that the program makes
 * anyway.
 *
 * Lock: none.   Design: docs/tuning.md, "When idle memory goes back"
 */
#ifndef GS_MAINTENANCE_H
#define GS_MAINTENANCE_H

#include "state.h"

/*
 * All work of the heap's context has just been waited for, or it is idle: memory may be
 * given back without a wait. Does nothing most of the time.
 */
void gs_maintain_now(struct gs_state *state, const struct gs_context *context);

/* The same where the heap says that it is due. */
static inline void gs_maintenance(struct gs_state *state,
                                  const struct gs_context *context)
{
    if (GS_UNLIKELY(gs_heap_wants_maintenance(context->heap))) {
        gs_maintain_now(state, context);
    }
}

#endif
