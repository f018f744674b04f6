/*
 * all_complete.c - searches the contexts for one that is not complete since a point.
 * Owns:  nothing.   Lock: none.
 * Source: all_complete.h
 */
#include "shim/order/all_complete.h"

#include "shim/order/verify.h"
#include "shim/state/state.h"

/* The entry of the context whose completion is that of `handle`: "If the current context is
 * the primary context, green contexts that have been created will also be synchronized"
 * (cuCtxSynchronize). */
static const struct gs_context *find_waited(struct gs_state *state, CUcontext handle)
{
    const struct gs_context *found = gs_context_find(state, handle);
    return found && found->owner != handle ? gs_context_find(state, found->owner) : found;
}

bool gs_all_complete_search(struct gs_state *state, uint64_t point,
                            const struct gs_context *but)
{
    CUcontext handle;
    if (!gs_known_proof_holds() || gs_all_contexts_incomplete()) {
        return false;
    }
    for (unsigned i = 0; gs_all_contexts_at(i, &handle); i++) {
        const struct gs_context *context = find_waited(state, handle);
        if (but && context == but) {
            continue;
        }
        bool complete =
            context && __atomic_load_n(&context->complete_at, __ATOMIC_ACQUIRE) >= point;
        if (!complete) {
            return false;
        }
        if (context && gs_known_proof_is_verified()) {
            gs_verify_complete(&state->contexts, context, point, but != NULL);
        }
    }
    return true;
}
