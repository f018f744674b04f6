/*
 * device_free.c - frees blocks of device memory while work may be running.
 * Owns:  nothing.   Lock: none; pool and tracker lock themselves.
 */
#include "shim/serve/device.h"

#include "shim/async/async_heaps.h"
#include "shim/checks/redzones.h"
#include "shim/heaps/maintenance.h"
#include "shim/heaps/pressure.h"
#include "shim/limits/mem_limits.h"
#include "shim/order/capture_check.h"
#include "shim/order/captures.h"
#include "shim/order/context_errors.h"
#include "shim/order/free_lazy.h"
#include "shim/order/free_wait.h"
#include "shim/parts.h"
#include "shim/state/submissions.h"
#include "shim/trace/trace.h"

/* Holds back a block that work may use which nobody has waited for. */
static void hold_back(struct gs_state *state, struct gs_block *block)
{
    struct gs_context *context = gs_heap_self(gs_block_heap(block));
    if (!gs_free_into_epoch(state, block)) {
        gs_block_free_fenced(block, 0);
        __atomic_store_n(&context->unfenced, true, __ATOMIC_RELEASE);
    }
}

/* For an allocation that waits in this free's place (retry.c). */
static GS_NOINLINE void note_captured(struct gs_context *context)
{
    __atomic_store_n(&context->captured_at, gs_submissions_begun(GS_COUNT_ALL) + 1,
                     __ATOMIC_RELEASE);
}

/*
 * The free has waited for the owner, and a context with access may still use the block.
 * Natively the driver has the memory back at this point, and serves the next request from
 * it. So a block with a segment of its own is returned to the driver: the driver's free
 * waits for the owner, which was just waited for. A part of a shared segment cannot be
 * returned.
 */
static void free_shared_with_peers(struct gs_state *state, struct gs_block *block)
{
    const struct gs_context *owner = gs_heap_self(gs_block_heap(block));
    if (!gs_context_accessor(&state->contexts, owner->handle, 0) ||
        !gs_block_give_back(block)) {
        hold_back(state, block);
    }
}

/*
 * A capture runs, or has just begun, and a synchronize of its context would invalidate
 * it. If the driver has waited for the context in the free of a probe (`waited`), the
 * block is ready, as natively. Otherwise memory that the native free would return to the
 * driver is returned, and the driver waits as it does natively; a block of a shared
 * segment is held back until later.
 */
static void free_while_capturing(struct gs_state *state, struct gs_block *block,
                                 bool waited)
{
    struct gs_context *context = gs_heap_self(gs_block_heap(block));
    if (gs_context_is_idle(&state->contexts, context) ||
        (waited && !gs_context_accessor(&state->contexts, context->handle, 0))) {
        gs_block_free(block);
    } else if (!gs_block_give_back(block)) {
        hold_back(state, block);
    }
}

/* Called when the driver's free of a block taken out of the pool has failed. After a
 * temporary error the memory is the program's, which frees it as the driver's own. */
static GS_NOINLINE void note_failed_free(struct gs_state *state, struct gs_heap *heap,
                                         const struct gs_allocation *was, uint64_t addr,
                                         CUresult result)
{
    gs_trace_free_refused(addr);
    gs_context_record_error(gs_heap_self(heap), result);
    if (!gs_error_keeps_memory(result)) {
        gs_heap_poison(heap);
    } else {
        gs_record_restore(state, was);
    }
}

/*
 * Frees a block through the driver: work is in flight, and the device is so short of
 * memory that the block's segment would be returned after the wait. The driver's free
 * waits by itself, and only once. Until then no thread waits for this memory: without the
 * library none would. Returns false if the case is a different one.
 */
static GS_NOINLINE bool freed_in_driver(struct gs_state *state, struct gs_block *block,
                                        uint64_t addr, CUresult *result)
{
    struct gs_heap *heap = gs_block_heap(block);
    const struct gs_context *context = gs_heap_self(heap);
    struct gs_allocation was;
    size_t bytes = gs_block_requested(block);
    if (!gs_block_goes_back(block) || gs_heap_is_dead(heap) ||
        state->options.free_sync == GS_FREE_SYNC_WAIT) {
        return false;
    }
    if (!state->tracker ||
        gs_tracker_get(state->tracker, gs_block_tag(block), &was) != GS_OK) {
        was.addr = 0;
    }
    struct gs_range found;
    bool traced = gs_tracing() && gs_pool_find(state->pool, addr, &found) == GS_OK;
    gs_tell_block_freed(state, block, GS_API_cuMemFree_v2, addr, GS_TRACE_WAITED);
    struct gs_segment *segment = gs_block_detach(block);
    *result = CUDA_SUCCESS;
    if (!segment) { /* the context and its memory have ended since */
        gs_block_free(block);
        return true;
    }
    const struct gs_driver_range range =
        gs_range_in(context, GS_MEMORY_DEVICE, addr, traced ? found.segment_bytes : 0);
    gs_tell_range_leaving(&range);
    *result = gs_free_in_driver(context, addr, bytes);
    gs_tell_range_gone(&range, *result == CUDA_SUCCESS);
    gs_segment_was_freed(segment, *result == CUDA_SUCCESS);
    if (*result != CUDA_SUCCESS) {
        note_failed_free(state, heap, &was, addr, *result);
    }
    (void)gs_limits_excess(state, context->device); /* it may fit the limit by now */
    gs_safe_point(state);
    return true;
}

/* Frees a claimed block of a stream's heap, without a wait: "Callers must ensure that all
 * accesses have completed" (cuMemFree). */
static CUresult free_ordered(struct gs_state *state, struct gs_async_heap *ordered,
                             struct gs_block *block, uint64_t addr)
{
    if (gs_async_is_broken(ordered) && !gs_captures_active()) {
        CUresult result = gs_real()->cuCtxSynchronize();
        /* Natively a free needs no current context, and hears of no error then. */
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_CONTEXT) {
            gs_block_release_claim(block);
            return result;
        }
    }
    gs_tell_block_freed(state, block, GS_API_cuMemFree_v2, addr, GS_TRACE_READY);
    gs_block_free(block);
    gs_async_freed(ordered);
    return CUDA_SUCCESS;
}

/* How the wait of a free has ended. */
enum outcome {
    OUTCOME_REFUSED,   /* an error after which the memory is still the program's */
    OUTCOME_IDLE,      /* there was nothing to wait for */
    OUTCOME_WAITED,    /* the work is complete */
    OUTCOME_IN_USE,    /* it is, but for that of a context with access to the memory */
    OUTCOME_CAPTURING, /* a stream captures: the context was not synchronized */
    OUTCOME_FAILED,    /* an error after which the running work is unknown */
};

/* Waits as the native free of the block does; while a stream captures, checks whether the
 * native free is allowed. Out: *result, the driver's code; *waited, for
 * OUTCOME_CAPTURING: the check has waited for the context. */
static inline enum outcome wait_for_block(struct gs_state *state, struct gs_block *block,
                                          bool capturing, CUresult *result, bool *waited)
{
    bool idle, in_use;
    *waited = false;
    if (capturing) {
        *result = gs_capture_check_free(state, gs_heap_self(gs_block_heap(block)),
                                        GS_CAPTURE_CHECK_DEVICE, waited);
        return *result == CUDA_SUCCESS ? OUTCOME_CAPTURING : OUTCOME_REFUSED;
    }
    *result = gs_free_wait(state, block, &idle, &in_use);
    if (GS_UNLIKELY(*result != CUDA_SUCCESS)) {
        return gs_error_keeps_memory(*result)    ? OUTCOME_REFUSED
               : gs_refused_for_capture(*result) ? OUTCOME_CAPTURING
                                                 : OUTCOME_FAILED;
    }
    return idle ? OUTCOME_IDLE : in_use ? OUTCOME_IN_USE : OUTCOME_WAITED;
}

CUresult gs_release_device(struct gs_state *state, struct gs_block *block, uint64_t addr)
{
    struct gs_heap *heap = gs_block_heap(block);
    struct gs_async_heap *ordered = gs_async_heap_of_block(block);
    struct gs_allocation was = {.addr = 0};
    CUresult result;
    if (ordered) {
        return free_ordered(state, ordered, block, addr);
    }
    bool capturing = gs_captures_active();
    gs_pool_thread_stream(gs_submissions_stream());
    if (gs_free_lazily(state, block, addr)) {
        if (GS_UNLIKELY(capturing)) {
            note_captured(gs_heap_self(heap));
        }
        return CUDA_SUCCESS;
    }
    if (!capturing && !gs_redzones_on && freed_in_driver(state, block, addr, &result)) {
        return result;
    }
    bool waited;
    enum outcome outcome = wait_for_block(state, block, capturing, &result, &waited);
    if (outcome == OUTCOME_REFUSED) {
        gs_block_release_claim(block);
        return result;
    }
    if (GS_UNLIKELY(gs_redzones_on)) {
        gs_redzones_check_before_free(state, block, GS_API_cuMemFree_v2,
                                      outcome == OUTCOME_CAPTURING ? GS_CHECK_CAPTURE
                                      : outcome == OUTCOME_FAILED  ? GS_CHECK_REFUSED
                                                                   : GS_CHECK_DONE,
                                      &was);
    }
    gs_tell_block_freed(state, block, GS_API_cuMemFree_v2, addr,
                        outcome == OUTCOME_IDLE     ? GS_TRACE_READY
                        : outcome == OUTCOME_WAITED ? GS_TRACE_WAITED
                                                    : GS_TRACE_HELD);
    if (outcome == OUTCOME_CAPTURING) {
        free_while_capturing(state, block, waited);
        return CUDA_SUCCESS;
    }
    if (outcome == OUTCOME_FAILED) {
        /* The context has failed, or the driver is shutting down. The running work is
         * unknown: no block of the heap is reused. */
        gs_context_record_error(gs_heap_self(heap), result);
        gs_heap_poison(heap);
        gs_block_free(block);
        gs_safe_point(state);
        return result;
    }
    if (GS_UNLIKELY(gs_redzones_on)) {
        gs_redzones_free(state, block, GS_API_cuMemFree_v2, &was);
    } else if (outcome == OUTCOME_IN_USE) {
        free_shared_with_peers(state, block);
    } else {
        gs_block_free(block);
    }
    gs_maintenance(state, gs_heap_self(heap));
    gs_safe_point(state);
    return CUDA_SUCCESS;
}
