/*
 * spill.h - GPUSHIM_SPILL: what a full device refuses is served from host memory.
 *
 * A spilled allocation is managed memory that stays on the host, and that the device
 * reaches over the bus. Its record says managed memory.
 *
 * Locks: a leaf lock, never held across a driver call.
 */
#ifndef GS_SPILL_H
#define GS_SPILL_H

#include "record.h"

extern bool gs_spill_wanted; /* written once, at start, before any call is served */

void gs_spill_start(const struct gs_options *options);
void gs_spill_reset(void); /* in a forked child */

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
    return GS_UNLIKELY(gs_spill_wanted) && refused == CUDA_ERROR_OUT_OF_MEMORY &&
           gs_spill_alloc(state, request, out, bytes);
}

/* Around the driver's free of an address, as gs_limits_leave. */
void gs_spill_leave(CUdeviceptr addr);
void gs_spill_left(bool freed);
/* Forgets what a context had that has ended. */
void gs_spill_context_lost(CUcontext context);

/* What was spilled of a device's requests: how often, and the most at once. */
struct gs_spilled {
    uint64_t count, most_bytes;
};
struct gs_spilled gs_spill_of(int device);

#endif
