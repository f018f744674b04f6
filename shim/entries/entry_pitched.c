/*
 * entry_pitched.c - cuMemAllocPitch: the driver's own, unless it has no memory.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/checks/redzones.h"
#include "shim/heaps/spill.h"
#include "shim/heaps/unpooled.h"
#include "shim/serve/device.h"
#include "shim/serve/driver.h"

/* The native alignment of rows, which suits any element and texture. */
#define ROW_BYTES ((size_t)512)

/*
 * The driver packs small pitched memory among its other small allocations. It cannot do
 * so in the pool's segments: if it has no memory, the pool's holes serve the request.
 * Returns whether the program was given memory, with *pitch.
 */
static bool pool_serves_pitched(struct gs_state *state, const struct gs_call *request,
                                CUdeviceptr *out, size_t *pitch, size_t width,
                                size_t rows, CUresult result)
{
    const struct gs_context *context = request->context;
    struct gs_block *block;
    size_t bytes;
    int native;
    if (GS_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY) || !context || !context->heap ||
        !out || !pitch || width > SIZE_MAX - ROW_BYTES ||
        __builtin_mul_overflow(gs_round_up(width, ROW_BYTES), rows, &bytes) ||
        bytes >= GS_LARGE_BYTES) {
        return false;
    }
    if (gs_redzones_alloc(state, context, bytes, &block, &native) == GS_OK) {
        *out = gs_hit_addr(block);
        gs_tell_block_allocated(state, request, *out, bytes, block);
    } else if (!gs_unpooled_hand_out(state, request, out, bytes)) {
        gs_unpooled_drop();
        return false;
    }
    *pitch = gs_round_up(width, ROW_BYTES);
    return true;
}

GS_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch,
                                      size_t WidthInBytes, size_t Height,
                                      unsigned int ElementSizeBytes)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_real()->cuMemAllocPitch_v2(dptr, pPitch, WidthInBytes, Height,
                                             ElementSizeBytes);
    }
    const struct gs_call request =
        gs_call_in(gs_context_serving(state, gs_context_current(state)), GS_MEMORY_DEVICE,
                   GS_API_cuMemAllocPitch_v2);
    size_t bytes = gs_limits_pitched(WidthInBytes, Height);
    bool allowed =
        dptr && pPitch && WidthInBytes && Height &&
        (ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16);
    CUresult result = GS_SERVED(gs_retry(state, request.context, request.device, bytes),
                                request.device, bytes,
                                gs_real()->cuMemAllocPitch_v2(dptr, pPitch, WidthInBytes,
                                                              Height, ElementSizeBytes));
    if (result == CUDA_SUCCESS && dptr && pPitch) {
        gs_limits_correct(request.device, bytes, *pPitch * Height);
        gs_tell_allocated(state, &request, *dptr, *pPitch * Height);
    } else if (result == CUDA_ERROR_OUT_OF_MEMORY && !allowed) {
        result = CUDA_ERROR_INVALID_VALUE; /* the limit was asked before the driver */
    } else if (pool_serves_pitched(state, &request, dptr, pPitch, WidthInBytes, Height,
                                   result)) {
        result = CUDA_SUCCESS;
    } else if (pPitch && gs_spill(state, &request, dptr, bytes, result)) {
        *pPitch = bytes / Height;
        result = CUDA_SUCCESS;
    } else {
        gs_tell_refused(state, &request, bytes, result);
    }
    gs_leave_served(state);
    return result;
}
