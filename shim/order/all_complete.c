/*
 * all_complete.c - searches the contexts for one that is not complete since a point.
 * Owns:  nothing.   Lock: none.
 * Source: all_complete.h
 */
#include "shim/order/all_complete.h"

#include "shim/order/verify.h"
#include "shim/state/state.h"

bool gs_all_complete_search(struct gs_state *state, uint64_t point,
                            const struct gs_context *but)
{
    CUcontext handle;
    if (!gs_known_proof_holds() || gs_all_contexts_incomplete()) {
        return false;
    }
    for (unsigned i = 0; gs_all_contexts_at(i, &handle); i++) {
        if (but && but->handle == handle) {
            continue;
        }
        const struct gs_context *context = gs_context_find(state, handle);
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
