/*
 * pooled.c - addresses of the program's, looked up in the pool of device memory.
 * Owns:  nothing.   Lock: the pool locks itself.
 */
#include "pooled.h"

#include "mutants.h"

enum gs_status gs_pooled_find(struct gs_state *state, CUdeviceptr address,
                              struct gs_range *out)
{
    return state->pool ? gs_pool_find(state->pool, address, out) : GS_ERR_NOT_OURS;
}

void gs_pooled_retain(struct gs_state *state, CUdeviceptr address)
{
    if (state->pool && !gs_mutant(GS_MUTANT_marks_ignored) &&
        gs_pool_retain(state->pool, address) != GS_OK) {
        return; /* the driver's own, or freed meanwhile */
    }
}
