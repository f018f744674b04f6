/*
 * context_backend.c - the backend of a context's heap over the real driver: allocates and
 * frees memory, and queries fences.
 * Owns:  nothing.   Lock: none is held in it, but for backend_retired and
 *        backend_fence_waited (pool/backend.h).
 */
#include "shim/heaps/context_backend.h"

#include "shim/heaps/moving_pages.h"
#include "shim/heaps/releasable.h"
#include "shim/heaps/unpooled.h"
#include "shim/limits/mem_limits.h"
#include "shim/memory/tell.h"
#include "shim/order/captures.h"
#include "shim/order/context_events.h"
#include "shim/order/fences.h"
#include "shim/order/free_lazy.h"
#include "shim/order/full_wait.h"
#include "shim/order/visit.h"
#include "shim/parts.h"
#include "shim/settings/log.h"
#include "shim/state/state.h"
#include "shim/state/trim_hold.h"

static enum gs_status backend_map(void *self, size_t bytes, uint64_t *addr, int *native)
{
    const struct gs_context *context = self;
    CUdeviceptr found = 0;
    struct gs_visit visit;
    CUresult result = gs_visit_begin(&visit, "cuMemAlloc_v2", context->handle, false);
    if (result == CUDA_SUCCESS) {
        result =
            GS_CHARGED(context->device, bytes, gs_real()->cuMemAlloc_v2(&found, bytes));
        gs_lazy_mapped(context, result == CUDA_SUCCESS ? GS_OK : GS_ERR_NOMEM, bytes);
    }
    gs_visit_end(&visit);
    if (result == CUDA_SUCCESS) {
        *addr = found;
        if (!__atomic_load_n(&gs_trim_thread_settled, __ATOMIC_RELAXED)) {
            gs_heap_set_due(context->heap); /* the next free starts the thread */
        }
        const struct gs_driver_range range =
            gs_range_in(context, GS_MEMORY_DEVICE, found, bytes);
        gs_tell_range_added(&range);
        return GS_OK;
    }
    *native = (int)result;
    return result == CUDA_ERROR_OUT_OF_MEMORY ? GS_ERR_NOMEM : GS_ERR_BACKEND;
}

static void backend_unmap(void *self, uint64_t addr, size_t bytes)
{
    const struct gs_context *context = self;
    static struct gs_log_limit limit;
    struct gs_visit visit;
    if (GS_UNLIKELY(__atomic_load_n(&context->pages, __ATOMIC_RELAXED) != NULL)) {
        gs_releasable_forget(addr);
        if (gs_moving_pages_give(self, addr, bytes)) {
            return;
        }
    }
    const struct gs_driver_range range =
        gs_range_in(context, GS_MEMORY_DEVICE, addr, bytes);
    gs_tell_range_leaving(&range);
    CUresult result =
        gs_visit_begin(&visit, "returning memory", context->handle, gs_captures_ever());
    if (result == CUDA_SUCCESS) {
        result = gs_real()->cuMemFree_v2(addr);
    }
    gs_visit_end(&visit);
    gs_tell_range_gone(&range, result == CUDA_SUCCESS);
    if (result != CUDA_SUCCESS) {
        gs_log_once(&limit, GS_LOG_INFO, "the driver failed to free %zu bytes (error %d)",
                    bytes, (int)result);
    }
}

static bool backend_keep(void *self, uint64_t addr, size_t bytes)
{
    const struct gs_context *context = self;
    if (!gs_unpooled_put(context, addr, bytes)) {
        return false;
    }
    struct gs_driver_range range = gs_range_in(context, GS_MEMORY_DEVICE, addr, bytes);
    range.uncharged = true; /* the program's own from now on, with its charge */
    gs_tell_range_leaving(&range);
    return true;
}

/* Returns true if the context is idle: the driver's free waits for the context, and
 * returns at once only then. */
static bool backend_idle(void *self)
{
    struct gs_state *state = gs_state_peek();
    return state && !gs_captures_active() &&
           gs_context_counts_idle(&state->contexts, self);
}

static bool backend_await_idle(void *self)
{
    struct gs_state *state = gs_state_peek();
    return !state || gs_full_wait(state, self);
}

static bool backend_reclaim(void *self, size_t bytes, enum gs_shortage_kind kind)
{
    const struct gs_context *context = self;
    const struct gs_shortage shortage = {gs_state_peek(), context, context->device, bytes,
                                         kind};
    return shortage.state && gs_parts_reclaim(&shortage);
}

/* The free bytes of the device, up to the program's limit. */
static enum gs_status backend_free_bytes(void *self, size_t *bytes)
{
    const struct gs_context *context = self;
    size_t total;
    bool pushed;
    CUresult result = gs_context_push(context->handle, &pushed);
    if (result == CUDA_SUCCESS) {
        result = gs_real()->cuMemGetInfo_v2(bytes, &total);
    }
    gs_context_pop(pushed);
    if (result != CUDA_SUCCESS) {
        return GS_ERR_NOT_FOUND;
    }
    gs_limits_info(context->device, 0, bytes, &total);
    return GS_OK;
}

/* Epochs account for their own driver calls; events are queried while queries find some
 * complete. */
static bool backend_worth_asking(void *self)
{
    struct gs_context *context = self;
    if (__atomic_load_n(&context->events, __ATOMIC_RELAXED) > 0 &&
        gs_patience_is_over(&context->patience)) {
        gs_patience_queried(&context->patience);
        return true;
    }
    return gs_epochs_worth_asking(&context->epochs);
}

void gs_context_free_behind(struct gs_block *block, gs_fence event)
{
    struct gs_context *context = gs_heap_self(gs_block_heap(block));
    __atomic_add_fetch(&context->events, 1, __ATOMIC_RELAXED);
    gs_block_free_fenced(block, event);
}

static enum gs_status backend_fence_query(void *self, gs_fence fence)
{
    if (gs_epoch_is(fence)) {
        return gs_epoch_query(fence);
    }
    enum gs_status status = gs_fence_query(fence);
    if (status == GS_OK) {
        gs_patience_paid(&((struct gs_context *)self)->patience);
    }
    return status;
}

/* Returns true if a wait for this context covers the fence. A block may have been freed
 * in the order of another context's stream, which the wait does not cover. Epochs cover
 * the same work as the wait. */
static bool backend_fence_waited(void *self, gs_fence fence)
{
    const struct gs_context *context = self;
    return gs_epoch_is(fence) || gs_fence_is_of(fence, context->handle);
}

static void backend_fence_release(void *self, gs_fence fence)
{
    if (gs_epoch_is(fence)) {
        gs_epoch_release(fence);
    } else {
        __atomic_sub_fetch(&((struct gs_context *)self)->events, 1, __ATOMIC_RELAXED);
        gs_fence_release(fence);
    }
}

static void backend_fence_release_many(void *self, gs_fence fence, unsigned blocks)
{
    if (gs_epoch_is(fence)) {
        gs_epoch_release_many(fence, blocks);
        return;
    }
    while (blocks-- > 0) {
        backend_fence_release(self, fence);
    }
}

static void backend_retired(void *self, uint64_t addr, gs_fence fence)
{
    (void)self;
    if (gs_notified() && gs_epoch_is(fence)) {
        uint64_t event = gs_epoch_proof_event(fence);
        if (event) { /* else ready by the order of the streams, without an event */
            gs_context_event_notify(event, addr);
        }
    } else if (gs_notified()) {
        gs_notify_retire(addr, fence ? gs_fence_event(fence) : NULL);
    }
}

const struct gs_backend gs_context_backend = {
    .map = backend_map,
    .unmap = backend_unmap,
    .keep = backend_keep,
    .quiet = backend_idle,
    .await_idle = backend_await_idle,
    .reclaim = backend_reclaim,
    .free_bytes = backend_free_bytes,
    .worth_asking = backend_worth_asking,
    .fence_query = backend_fence_query,
    .fence_waited = backend_fence_waited,
    .fence_release = backend_fence_release,
    .fence_release_many = backend_fence_release_many,
    .retired = backend_retired,
};
