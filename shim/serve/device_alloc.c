/*
 * device_alloc.c - serves requests for device memory that the thread cache cannot.
 * Owns:  nothing.   Lock: none; pool and tracker lock themselves.
 */
#include "shim/serve/device.h"

#include "shim/checks/redzones.h"
#include "shim/heaps/ipc_mode.h"
#include "shim/heaps/spill.h"
#include "shim/heaps/unpooled.h"
#include "shim/heaps/warmup.h"
#include "shim/order/captures.h"
#include "shim/parts.h"
#include "shim/serve/driver.h"
#include "shim/state/submissions.h"

/*
 * While a stream captures the driver decides whether an allocation is allowed. If it is
 * allowed and the driver has no memory, memory of the pool serves equally well, and so
 * does an allocation that the driver made for the pool. Returns whether the program was
 * given memory.
 */
static bool pool_serves_capture(struct gs_state *state, const struct gs_call *request,
                                CUdeviceptr *out, size_t bytes)
{
    const struct gs_context *context = request->context;
    struct gs_block *block;
    int native;
    if (!gs_captures_active() || !context || !context->heap || !out) {
        return false;
    }
    if (gs_redzones_alloc(state, context, bytes, &block, &native) == GS_OK) {
        return gs_hand_out_block(state, context, block, out, bytes) == CUDA_SUCCESS;
    }
    if (gs_unpooled_hand_out(state, request, out, bytes)) {
        return true;
    }
    gs_unpooled_drop();
    return false;
}

/*
 * Handles a request for which the pool has returned `status`, which is not GS_OK, and
 * `native`: memory that the pool could not keep, or the driver's own, or, from a full
 * device, host memory. Else the program gets the driver's answer.
 */
static GS_NOINLINE CUresult handle_refusal(struct gs_state *state,
                                           const struct gs_context *context,
                                           CUdeviceptr *out, size_t bytes,
                                           enum gs_status status, int native)
{
    const struct gs_call request =
        gs_call_in(context, GS_MEMORY_DEVICE, GS_API_cuMemAlloc_v2);
    CUresult result = (CUresult)native;
    if (status != GS_ERR_NOMEM && status != GS_ERR_BACKEND) {
        bool served = false;
        if (status == GS_ERR_UNPOOLABLE &&
            gs_unpooled_hand_out(state, &request, out, bytes)) {
            return CUDA_SUCCESS;
        }
        int charged = out ? request.device : -1; /* without one the driver refuses */
        result = GS_SERVED(!(served = pool_serves_capture(state, &request, out, bytes)) &&
                               gs_retry(state, request.context, request.device, bytes),
                           charged, bytes, gs_real()->cuMemAlloc_v2(out, bytes));
        if (served) {
            return CUDA_SUCCESS;
        }
        if (result == CUDA_SUCCESS && out) {
            gs_tell_allocated(state, &request, *out, bytes);
            if (GS_UNLIKELY(gs_redzones_on)) {
                gs_redzones_count_unchecked(state);
            }
            return result;
        }
    }
    if (gs_spill(state, &request, out, bytes, result)) {
        return CUDA_SUCCESS;
    }
    gs_tell_refused(state, &request, bytes, result);
    return result;
}

CUresult gs_serve_device(struct gs_state *state, const struct gs_context *known,
                         CUdeviceptr *out, size_t bytes)
{
    const struct gs_context *context =
        gs_context_serving(state, known ?: gs_context_current(state));
    struct gs_block *block;
    int native = CUDA_ERROR_OUT_OF_MEMORY;
    enum gs_status status = GS_ERR_UNPOOLABLE;

    if (out && bytes != 0 && context && context->heap &&
        !gs_ipc_keeps_apart(&state->options, bytes) && !gs_captures_active()) {
        gs_warmup(context);
        gs_pool_thread_stream(gs_submissions_stream());
        status = gs_redzones_alloc(state, context, bytes, &block, &native);
    }
    CUresult result = status == GS_OK
                          ? gs_hand_out_block(state, context, block, out, bytes)
                          : handle_refusal(state, context, out, bytes, status, native);
    gs_safe_point(state);
    gs_leave();
    return result;
}
