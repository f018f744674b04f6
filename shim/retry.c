/*
 * retry.c - gives the pool's idle memory back when the driver runs out.
 * Owns:  nothing.   Lock: none.
 */
#include "retry.h"

#include "captures.h"

bool gs_retry_after_trim(struct gs_state *state, const struct gs_context *context,
                         CUresult result)
{
    if (GS_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY) || !state->pool ||
        gs_captures_active()) {
        return false;
    }
    return gs_pool_trim(state->pool, context ? context->device : -1, SIZE_MAX) > 0;
}
