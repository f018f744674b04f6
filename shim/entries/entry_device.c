/*
 * entry_device.c - device memory: cuMemAlloc, cuMemFree and their family.
 * Owns:  nothing.   Lock: none; pool and tracker lock themselves.
 */
#include "pool/hit.h"
#include "shim/async/async_heaps.h"
#include "shim/checks/redzones.h"
#include "shim/heaps/ipc_mode.h"
#include "shim/heaps/maintenance.h"
#include "shim/heaps/spill.h"
#include "shim/heaps/unpooled.h"
#include "shim/heaps/warmup.h"
#include "shim/host/host_pools.h"
#include "shim/host/managed.h"
#include "shim/memory/tell.h"
#include "shim/order/capture_check.h"
#include "shim/order/captures.h"
#include "shim/order/context_errors.h"
#include "shim/order/free_lazy.h"
#include "shim/order/free_wait.h"
#include "shim/parts.h"
#include "shim/pool_lookup.h"
#include "shim/serve/driver.h"
#include "shim/state/submissions.h"
#include "shim/trace/trace.h"

/* ---- allocate -------------------------------------------------------------------- */

/* Hands a block of the pool to the program. */
static inline CUresult hand_out(struct gs_state *state, const struct gs_context *context,
                                struct gs_block *block, CUdeviceptr *out, size_t bytes)
{
    uint64_t addr = gs_hit_addr(block);
    if (gs_tell_wanted(state)) {
        const struct gs_call request =
            gs_call_in(context, GS_MEMORY_DEVICE, GS_API_cuMemAlloc_v2);
        gs_tell_allocated(state, &request, addr, bytes, block);
    }
    *out = addr;
    return CUDA_SUCCESS;
}

/* Hands a driver allocation that the pool could not keep to the program (unpooled.h).
 * Returns whether there was one of this size. */
static bool hand_out_kept(struct gs_state *state, const struct gs_call *request,
                          CUdeviceptr *out, size_t bytes)
{
    struct gs_call kept = *request;
    if (!out || !gs_unpooled_take(request->context, bytes, out)) {
        return false;
    }
    kept.charged = kept.handed_out = true;
    gs_tell_allocated(state, &kept, *out, bytes, NULL);
    return true;
}

/*
 * While a stream captures the driver decides whether an allocation is allowed. If it is
 * allowed and the driver has no memory, memory of the pool serves equally well, and so
 * does an allocation that the driver made for the pool. Returns whether the program was
 * given memory.
 */
static bool served_by_pool(struct gs_state *state, const struct gs_call *request,
                           CUdeviceptr *out, size_t bytes)
{
    const struct gs_context *context = request->context;
    struct gs_block *block;
    int native;
    if (!gs_captures_active() || !context || !context->heap || !out) {
        return false;
    }
    if (gs_redzones_alloc(state, context, bytes, &block, &native) == GS_OK) {
        return hand_out(state, context, block, out, bytes) == CUDA_SUCCESS;
    }
    if (hand_out_kept(state, request, out, bytes)) {
        return true;
    }
    gs_unpooled_drop();
    return false;
}

/* The device has refused: other memory, or the driver's answer. */
static CUresult refuse(struct gs_state *state, const struct gs_call *request,
                       CUdeviceptr *out, size_t bytes, CUresult refused)
{
    if (gs_spill(state, request, out, bytes, refused)) {
        return CUDA_SUCCESS;
    }
    gs_tell_refused(state, request, bytes, refused);
    return refused;
}

/* Allocates from the driver, natively except for the record. */
static GS_NOINLINE CUresult allocate_native(struct gs_state *state,
                                            const struct gs_call *request,
                                            CUdeviceptr *out, size_t bytes)
{
    bool served = false;
    int charged = out ? request->device : -1; /* without one the driver refuses */
    CUresult result =
        GS_SERVED(!(served = served_by_pool(state, request, out, bytes)) &&
                      gs_retry(state, request->context, request->device, bytes),
                  charged, bytes, gs_real()->cuMemAlloc_v2(out, bytes));
    if (served) {
        return CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS && out) {
        gs_tell_allocated(state, request, *out, bytes, NULL);
        if (GS_UNLIKELY(gs_redzones_on)) {
            gs_redzones_passed(state);
        }
    } else {
        result = refuse(state, request, out, bytes, result);
    }
    return result;
}

/* Handles a request for which the pool has returned `status`, which is not GS_OK, and
 * `native`. */
static GS_NOINLINE CUresult allocate_otherwise(struct gs_state *state,
                                               const struct gs_context *context,
                                               CUdeviceptr *out, size_t bytes,
                                               enum gs_status status, int native)
{
    const struct gs_call request =
        gs_call_in(context, GS_MEMORY_DEVICE, GS_API_cuMemAlloc_v2);
    if (status == GS_ERR_NOMEM || status == GS_ERR_BACKEND) {
        return refuse(state, &request, out, bytes, (CUresult)native);
    }
    if (status == GS_ERR_UNPOOLABLE && hand_out_kept(state, &request, out, bytes)) {
        return CUDA_SUCCESS;
    }
    return allocate_native(state, &request, out, bytes);
}

/* Serves a request that the thread cache cannot, to the end of the call.
 * In: known  the current context, or NULL */
static GS_NOINLINE CUresult allocate_deeper(struct gs_state *state,
                                            const struct gs_context *known,
                                            CUdeviceptr *out, size_t bytes)
{
    const struct gs_context *context = known ?: gs_context_current(state);
    struct gs_block *block;
    int native = CUDA_ERROR_OUT_OF_MEMORY;
    enum gs_status status = GS_ERR_UNPOOLABLE;

    if (out && bytes != 0 && context && context->heap &&
        !gs_ipc_keeps_apart(&state->options, bytes) && !gs_captures_active()) {
        gs_warmup(context);
        gs_pool_thread_stream(gs_submissions_stream());
        status = gs_redzones_alloc(state, context, bytes, &block, &native);
    }
    CUresult result =
        status == GS_OK ? hand_out(state, context, block, out, bytes)
                        : allocate_otherwise(state, context, out, bytes, status, native);
    gs_safe_point(state);
    gs_leave();
    return result;
}

/* Handles the first call of a thread, and a call from within a wrapper. */
static GS_NOINLINE CUresult allocate_first(CUdeviceptr *dptr, size_t bytesize)
{
    struct gs_state *state = gs_enter();
    return state ? allocate_deeper(state, NULL, dptr, bytesize)
                 : gs_real()->cuMemAlloc_v2(dptr, bytesize);
}

/* Hands out a block of the thread cache that must be recorded, to the end of the call. */
static GS_NOINLINE CUresult hand_out_seen(struct gs_state *state,
                                          const struct gs_context *context,
                                          struct gs_block *block, CUdeviceptr *out,
                                          size_t bytes)
{
    if (GS_UNLIKELY(gs_notified())) {
        (void)hand_out(state, context, block, out, bytes);
    } else {
        uint64_t addr = gs_hit_addr(block);
        gs_record_block(state, context, GS_MEMORY_DEVICE, GS_API_cuMemAlloc_v2, addr,
                        bytes, block, &block->live.tag);
        *out = addr;
    }
    gs_leave();
    return CUDA_SUCCESS;
}

/* Most calls end in this function: the thread cache has a block on top of its list. */
GS_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    struct gs_state *state = gs_enter_lightly();
    if (GS_UNLIKELY(!state)) {
        return allocate_first(dptr, bytesize);
    }
    gs_keep_errno();
    const struct gs_context *context = gs_context_again(state);
    if (GS_UNLIKELY(!dptr || !context || !context->heap || gs_captures_active() ||
                    gs_warmup_wanted)) {
        return allocate_deeper(state, context, dptr, bytesize);
    }
    struct gs_block *block = gs_hit_alloc(context->heap, bytesize);
    if (GS_UNLIKELY(!block)) {
        return allocate_deeper(state, context, dptr, bytesize);
    }
    if (gs_recording(state) || gs_notified()) {
        return hand_out_seen(state, context, block, dptr, bytesize);
    }
    *dptr = gs_hit_addr(block);
    gs_leave();
    return CUDA_SUCCESS;
}

/* The native alignment of rows, which suits any element and texture. */
#define ROW_BYTES ((size_t)512)

/*
 * The driver packs small pitched memory among its other small allocations. It cannot do
 * so beside blocks of the pool: if it has no memory, the pool's holes serve the request.
 * Returns whether the program was given memory, with *pitch.
 */
static bool pitched_by_pool(struct gs_state *state, const struct gs_call *request,
                            CUdeviceptr *out, size_t *pitch, size_t width, size_t rows,
                            CUresult result)
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
        gs_tell_allocated(state, request, *out, bytes, block);
    } else if (!hand_out_kept(state, request, out, bytes)) {
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
    const struct gs_call request = gs_call_in(gs_context_current(state), GS_MEMORY_DEVICE,
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
        gs_tell_allocated(state, &request, *dptr, *pPitch * Height, NULL);
    } else if (result == CUDA_ERROR_OUT_OF_MEMORY && !allowed) {
        result = CUDA_ERROR_INVALID_VALUE; /* the limit was asked before the driver */
    } else if (pitched_by_pool(state, &request, dptr, pPitch, WidthInBytes, Height,
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

/* ---- free ------------------------------------------------------------------------ */

static CUresult free_native(struct gs_state *state, CUdeviceptr dptr)
{
    struct gs_freeing freeing = {
        .key = dptr, .api = GS_API_cuMemFree_v2, .how = GS_TRACE_DRIVER};
    return GS_TOLD_FREE(state, &freeing, gs_real()->cuMemFree_v2(gs_pooled_asked(dptr)));
}

/* Holds back a block that work may use which nobody has waited for. */
static void hold_back(struct gs_state *state, struct gs_block *block)
{
    struct gs_context *context = gs_heap_self(gs_block_heap(block));
    if (!gs_free_into_epoch(state, block)) {
        gs_block_free_fenced(block, 0);
        __atomic_store_n(&context->unfenced, true, __ATOMIC_RELEASE);
    }
}

/*
 * The free has waited for the owner, and a context with access may still use the block.
 * Natively the driver has the memory back at this point, and serves the next request from
 * it. So a block with a segment of its own is returned to the driver: the driver's free
 * waits for the owner, which was just waited for. A part of a shared segment cannot be
 * returned.
 */
static void free_beside_accessors(struct gs_state *state, struct gs_block *block)
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
 * waits by itself, and only once. Meanwhile no thread waits for this memory: without the
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
    struct gs_segment *segment = gs_block_take_out(block);
    *result = CUDA_SUCCESS;
    if (!segment) { /* the context and its memory have ended meanwhile */
        gs_block_free(block);
        return true;
    }
    const struct gs_driver_range range =
        gs_range_in(context, GS_MEMORY_DEVICE, addr, traced ? found.segment_bytes : 0);
    gs_tell_range_leaving(&range);
    *result = gs_free_in_driver(context, addr, bytes);
    gs_tell_range_gone(&range, *result == CUDA_SUCCESS);
    gs_segment_is_out(segment, *result == CUDA_SUCCESS);
    if (*result != CUDA_SUCCESS) {
        note_failed_free(state, heap, &was, addr, *result);
    }
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

/*
 * The block is claimed. It is reused only after all work of its context has completed,
 * for which the native free waits.
 */
static GS_NOINLINE CUresult free_block(struct gs_state *state, struct gs_block *block,
                                       uint64_t addr)
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
        gs_redzones_look(state, block, GS_API_cuMemFree_v2,
                         outcome == OUTCOME_CAPTURING ? GS_CHECK_CAPTURE
                         : outcome == OUTCOME_FAILED  ? GS_CHECK_REFUSED
                                                      : GS_CHECK_LOOKED,
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
        free_beside_accessors(state, block);
    } else {
        gs_block_free(block);
    }
    gs_maintenance(state, gs_heap_self(heap));
    gs_safe_point(state);
    return CUDA_SUCCESS;
}

/* The maintenance, now and then: returns idle memory to the driver, saves the
 * statistics. */
static GS_NOINLINE void look_after(struct gs_state *state, struct gs_heap *heap)
{
    if (gs_heap_maintenance_is_late(heap)) {
        gs_maintain_now(state, gs_heap_self(heap));
    }
    gs_safe_point(state);
}

/* Frees a claimed block of an idle context that gs_hit_free could not. Returns whether
 * the maintenance may be due. */
static inline bool free_idle_block(struct gs_state *state, struct gs_heap *heap,
                                   struct gs_block *block)
{
    gs_pool_thread_stream(gs_submissions_stream());
    gs_block_free(block);
    gs_safe_point(state);
    return gs_heap_wants_maintenance(heap);
}

/* Frees a claimed block of an idle context, with a record, to the end of the call. */
static GS_NOINLINE CUresult free_seen(struct gs_state *state, struct gs_heap *heap,
                                      struct gs_block *block, uint64_t addr)
{
    gs_keep_errno();
    gs_tell_block_freed_by(state, block->live.tag, GS_API_cuMemFree_v2, addr,
                           GS_TRACE_READY);
    bool maintenance;
    if (GS_UNLIKELY(!gs_hit_free(heap, block, &maintenance))) {
        maintenance = free_idle_block(state, heap, block);
    }
    if (GS_UNLIKELY(maintenance)) {
        look_after(state, heap);
    }
    gs_leave();
    return CUDA_SUCCESS;
}

/* Frees a claimed block of an idle context that gs_hit_free could not, to the end of the
 * call. */
static GS_NOINLINE CUresult free_idle_deeper(struct gs_state *state, struct gs_heap *heap,
                                             struct gs_block *block)
{
    gs_keep_errno();
    if (GS_UNLIKELY(free_idle_block(state, heap, block))) {
        look_after(state, heap);
    }
    gs_leave();
    return CUDA_SUCCESS;
}

/* After a free: runs the maintenance if it is due. To the end of the call. */
static GS_NOINLINE CUresult end_looking_after(struct gs_state *state,
                                              struct gs_heap *heap)
{
    gs_keep_errno();
    look_after(state, heap);
    gs_leave();
    return CUDA_SUCCESS;
}

/* Handles an address that is not the pool's, or not the start of a live block. */
static GS_NOINLINE CUresult free_other(struct gs_state *state, CUdeviceptr dptr,
                                       enum gs_status found)
{
    CUresult result;
    if (found != GS_ERR_BAD_FREE && gs_managed_free(state, dptr, &result)) {
        return result;
    }
    if (found == GS_ERR_BAD_FREE || gs_host_owns(state, dptr) || gs_async_owes(dptr)) {
        /* The driver must not see the call: a cached block may start where its segment
         * does. */
        gs_record_bad_free(state, dptr, GS_API_cuMemFree_v2);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return free_native(state, dptr);
}

/*
 * Handles a free that the fast path cannot, to the end of the call: a large block, a
 * block whose slot is behind others, an address that is not the pool's; or a claimed
 * block with work in flight.
 */
static GS_NOINLINE CUresult free_deeper(struct gs_state *state, struct gs_block *claimed,
                                        CUdeviceptr dptr)
{
    struct gs_block *block = claimed;
    enum gs_status found = GS_OK;
    CUresult result;
    gs_keep_errno();
    if (!claimed) {
        found = state->pool ? gs_pool_claim(state->pool, dptr, &block) : GS_ERR_NOT_OURS;
    }
    if (found != GS_OK) {
        result = free_other(state, dptr, found);
    } else if (!gs_captures_active() &&
               gs_free_finds_idle(state, gs_hit_heap(block)->self)) {
        return free_seen(state, gs_hit_heap(block), block, dptr);
    } else {
        result = free_block(state, block, dptr);
    }
    gs_leave();
    return result;
}

/* Handles a call from within a wrapper, and a free that is the process's first call. */
static GS_NOINLINE CUresult free_first(CUdeviceptr dptr)
{
    struct gs_state *state = gs_enter();
    if (state) {
        return free_deeper(state, NULL, dptr);
    }
    return gs_owned_by_pool(dptr) ? CUDA_ERROR_NOT_PERMITTED
                                  : gs_real()->cuMemFree_v2(dptr);
}

/* The frequent cases of gs_free_finds_idle; false: the rarer ones remain. */
static inline bool finds_idle(struct gs_state *state, const struct gs_context *context)
{
    struct gs_submissions *own = gs_thread.submissions;
    if (GS_UNLIKELY(gs_captures_active() || !own ||
                    !gs_context_is_idle_alone(&state->contexts, context))) {
        return false;
    }
    gs_free_count_idle(own, context);
    return true;
}

/* Most calls end in this function, or in free_seen: no work is in flight, and the thread
 * cache has headroom. */
GS_EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    struct gs_state *state = gs_enter_lightly();
    if (GS_UNLIKELY(!state)) {
        return free_first(dptr);
    }
    struct gs_block *block =
        GS_LIKELY(state->pool != NULL) ? gs_hit_claim(state->pool, dptr) : NULL;
    if (GS_UNLIKELY(!block)) {
        return free_deeper(state, NULL, dptr);
    }
    struct gs_heap *heap = gs_hit_heap(block);
    if (GS_UNLIKELY(!finds_idle(state, heap->self))) {
        return free_deeper(state, block, dptr);
    }
    if (gs_recording(state) || gs_notified()) {
        return free_seen(state, heap, block, dptr);
    }
    bool maintenance;
    if (GS_UNLIKELY(!gs_hit_free(heap, block, &maintenance))) {
        return free_idle_deeper(state, heap, block);
    }
    if (GS_UNLIKELY(maintenance)) {
        return end_looking_after(state, heap);
    }
    gs_leave_lightly();
    return CUDA_SUCCESS;
}
