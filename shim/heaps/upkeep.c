/*
 * upkeep.c - idle memory goes back to the driver, where that costs no wait.
 * Owns:  nothing.   Lock: none.
 */
#include "upkeep.h"

#include "captures.h"
#include "mem_limits.h"
#include "parts.h"

void gs_upkeep_now(struct gs_state *state, const struct gs_context *context)
{
    if (gs_captures_active()) {
        return; /* a later free will do */
    }
    gs_parts_relax(state, context);
    (void)gs_heap_upkeep(context->heap, gs_limits_missing_now(state, context));
}
