/*
 * maintenance.c - returns idle memory to the driver where this costs no wait.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/heaps/maintenance.h"

#include "shim/heaps/pressure.h"
#include "shim/limits/mem_limits.h"
#include "shim/order/captures.h"
#include "shim/parts.h"

void gs_maintain_now(struct gs_state *state, const struct gs_context *context)
{
    if (gs_captures_active()) {
        return; /* a later free retries */
    }
    gs_parts_maintain(state, context);
    size_t missing = gs_limits_missing_now(state, context, false);
    size_t excess = gs_pressure_excess(state, context->device);
    size_t over = gs_limits_excess(state, context->device);
    excess = excess > over ? excess : over;
    (void)gs_heap_maintain(context->heap, missing > excess ? missing : excess);
}
