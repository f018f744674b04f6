/*
 * spill.h - GPUSHIM_SPILL: what a full device refuses is served from host memory.
 *
 * A spilled allocation is managed memory that stays on the host, and that the device
 * reaches over the bus. Its record says managed memory.   Locks: none.
 */
#ifndef GS_SPILL_H
#define GS_SPILL_H

#include "shim/limits/spilled.h"
#include "shim/record.h"

/* The slow path of gs_spill. */
bool gs_spill_alloc(struct gs_state *state, const struct gs_call *request,
                    CUdeviceptr *out, size_t bytes);

/*
 * Called when the device has refused `request`, which is recorded nowhere yet. Returns
 * true if the program got other memory, which is recorded.
 */
static inline bool gs_spill(struct gs_state *state, const struct gs_call *request,
                            CUdeviceptr *out, size_t bytes, CUresult refused)
{
    return GS_UNLIKELY(gs_spilled_wanted) && refused == CUDA_ERROR_OUT_OF_MEMORY &&
           gs_spill_alloc(state, request, out, bytes);
}

void gs_spill_reset(void); /* in a forked child */

#endif
