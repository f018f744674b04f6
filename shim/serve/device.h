/*
 * device.h - device memory past the fast paths of cuMemAlloc and cuMemFree: who serves a
 * request, and how a block is freed while work may be running.
 *
 * Locks: none is held.
 */
#ifndef GS_DEVICE_H
#define GS_DEVICE_H

#include "pool/hit.h"
#include "shim/memory/tell.h"

/* Hands a block of the pool to the program. */
static inline CUresult gs_hand_out_block(struct gs_state *state,
                                         const struct gs_context *context,
                                         struct gs_block *block, CUdeviceptr *out,
                                         size_t bytes)
{
    uint64_t addr = gs_hit_addr(block);
    if (gs_recording(state) || gs_notified()) {
        const struct gs_call request =
            gs_call_in(context, GS_MEMORY_DEVICE, GS_API_cuMemAlloc_v2);
        gs_tell_block_allocated(state, &request, addr, bytes, block);
    }
    *out = addr;
    return CUDA_SUCCESS;
}

/*
 * Serves a cuMemAlloc that the thread cache cannot, to the end of the call: by the pool,
 * by the driver, or from the host (spill.h).
 * In: known  the current context, or NULL
 */
CUresult gs_serve_device(struct gs_state *state, const struct gs_context *known,
                         CUdeviceptr *out, size_t bytes);

/*
 * Frees a claimed block for a cuMemFree. The block is reused only after all work of its
 * context has completed, for which the native free waits. Returns the driver's code;
 * after an error that keeps the memory the block is live again.
 */
CUresult gs_release_device(struct gs_state *state, struct gs_block *block, uint64_t addr);

#endif
