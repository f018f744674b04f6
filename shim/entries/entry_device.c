/*
 * entry_device.c - cuMemAlloc and cuMemFree: their fast paths.
 * Owns:  nothing.   Lock: none; pool and tracker lock themselves.
 */
#include "pool/hit.h"
#include "shim/async/async_heaps.h"
#include "shim/heaps/maintenance.h"
#include "shim/heaps/releasable.h"
#include "shim/heaps/warmup.h"
#include "shim/host/host_pools.h"
#include "shim/host/managed.h"
#include "shim/order/captures.h"
#include "shim/order/free_wait.h"
#include "shim/parts.h"
#include "shim/pooled_memory.h"
#include "shim/serve/device.h"
#include "shim/state/submissions.h"

/* ---- allocate -------------------------------------------------------------------- */

/* Handles the first call of a thread, and a call from within a wrapper. */
static GS_NOINLINE CUresult allocate_first(CUdeviceptr *dptr, size_t bytesize)
{
    struct gs_state *state = gs_enter();
    return state ? gs_serve_device(state, NULL, dptr, bytesize)
                 : gs_real()->cuMemAlloc_v2(dptr, bytesize);
}

/* Hands out a block of the thread cache that must be recorded, to the end of the call. */
static GS_NOINLINE CUresult alloc_recorded(struct gs_state *state,
                                           const struct gs_context *context,
                                           struct gs_block *block, CUdeviceptr *out,
                                           size_t bytes)
{
    if (GS_UNLIKELY(gs_notified())) {
        (void)gs_hand_out_block(state, context, block, out, bytes);
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
    struct gs_state *state = gs_enter_fast();
    if (GS_UNLIKELY(!state)) {
        return allocate_first(dptr, bytesize);
    }
    gs_keep_errno();
    const struct gs_context *context = gs_context_cached(state);
    if (GS_UNLIKELY(!dptr || !context || !context->heap || gs_captures_active() ||
                    gs_warmup_wanted)) {
        return gs_serve_device(state, context, dptr, bytesize);
    }
    struct gs_block *block = gs_hit_alloc(context->heap, bytesize);
    if (GS_UNLIKELY(!block)) {
        return gs_serve_device(state, context, dptr, bytesize);
    }
    if (gs_recording(state) || gs_notified()) {
        return alloc_recorded(state, context, block, dptr, bytesize);
    }
    *dptr = gs_hit_addr(block);
    gs_leave();
    return CUDA_SUCCESS;
}

/* ---- free ------------------------------------------------------------------------ */

/* The maintenance, now and then: returns idle memory to the driver, saves the
 * statistics. */
static GS_NOINLINE void run_maintenance(struct gs_state *state, struct gs_heap *heap)
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
static GS_NOINLINE CUresult free_recorded(struct gs_state *state, struct gs_heap *heap,
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
        run_maintenance(state, heap);
    }
    gs_leave();
    return CUDA_SUCCESS;
}

/* Frees a claimed block of an idle context that gs_hit_free could not, to the end of the
 * call. */
static GS_NOINLINE CUresult free_idle_slow(struct gs_state *state, struct gs_heap *heap,
                                           struct gs_block *block)
{
    gs_keep_errno();
    if (GS_UNLIKELY(free_idle_block(state, heap, block))) {
        run_maintenance(state, heap);
    }
    gs_leave();
    return CUDA_SUCCESS;
}

/* After a free: runs the maintenance if it is due. To the end of the call. */
static GS_NOINLINE CUresult end_with_maintenance(struct gs_state *state,
                                                 struct gs_heap *heap)
{
    gs_keep_errno();
    run_maintenance(state, heap);
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
    struct gs_freeing freeing = {
        .key = dptr, .api = GS_API_cuMemFree_v2, .how = GS_TRACE_DRIVER};
    return GS_TOLD_FREE(state, &freeing, gs_real()->cuMemFree_v2(gs_pooled_asked(dptr)));
}

/*
 * Handles a free that the fast path cannot, to the end of the call: a large block, a
 * block whose slot is not the first of its run, an address that is not the pool's; or a
 * claimed block with work in flight.
 */
static GS_NOINLINE CUresult free_slow(struct gs_state *state, struct gs_block *claimed,
                                      CUdeviceptr dptr)
{
    struct gs_block *block = claimed;
    enum gs_status found = GS_OK;
    CUresult result;
    gs_keep_errno();
    if (!claimed) {
        found = state->pool ? gs_pool_claim(state->pool, dptr, &block) : GS_ERR_NOT_OURS;
    }
    if (found == GS_ERR_BAD_FREE &&
        gs_releasable_free(state, GS_API_cuMemFree_v2, true, dptr, &block, &result)) {
        if (!block) {
            gs_leave();
            return result;
        }
        found = GS_OK;
    }
    if (found != GS_OK) {
        result = free_other(state, dptr, found);
    } else if (!gs_captures_active() &&
               gs_free_finds_idle(state, gs_hit_heap(block)->self)) {
        return free_recorded(state, gs_hit_heap(block), block, dptr);
    } else {
        result = gs_release_device(state, block, dptr);
    }
    gs_leave();
    return result;
}

/* Handles a call from within a wrapper, and a free that is the process's first call. */
static GS_NOINLINE CUresult free_first(CUdeviceptr dptr)
{
    struct gs_state *state = gs_enter();
    if (state) {
        return free_slow(state, NULL, dptr);
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

/* Most calls end in this function, or in free_recorded: no work is in flight, and the
 * thread cache has headroom. */
GS_EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    struct gs_state *state = gs_enter_fast();
    if (GS_UNLIKELY(!state)) {
        return free_first(dptr);
    }
    struct gs_block *block =
        GS_LIKELY(state->pool != NULL) ? gs_hit_claim(state->pool, dptr) : NULL;
    if (GS_UNLIKELY(!block)) {
        return free_slow(state, NULL, dptr);
    }
    struct gs_heap *heap = gs_hit_heap(block);
    if (GS_UNLIKELY(!finds_idle(state, heap->self))) {
        return free_slow(state, block, dptr);
    }
    if (gs_recording(state) || gs_notified()) {
        return free_recorded(state, heap, block, dptr);
    }
    bool maintenance;
    if (GS_UNLIKELY(!gs_hit_free(heap, block, &maintenance))) {
        return free_idle_slow(state, heap, block);
    }
    if (GS_UNLIKELY(maintenance)) {
        return end_with_maintenance(state, heap);
    }
    gs_leave_fast();
    return CUDA_SUCCESS;
}
