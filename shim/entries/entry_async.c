/*
 * entry_async.c - stream-ordered memory: the driver's own, with an owner in the report,
 * or with GPUSHIM_ASYNC=pool a block of its stream's heap (async_heaps.h).
 *
 * The driver always serves requests for a pool that the program names, in a per-thread
 * default stream, in a stream of a context other than the current one, and while a stream
 * captures, since the memory may become a node of a graph.
 *
 * A pooled block of cuMemAlloc may be freed in stream order as well (CUDA Programming
 * Guide: memory of cudaMalloc may be passed to cudaFreeAsync). It is freed with an event
 * of this stream.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/async/async_heaps.h"
#include "shim/async/async_policy.h"
#include "shim/checks/redzones.h"
#include "shim/heaps/context_backend.h"
#include "shim/heaps/releasable.h"
#include "shim/heaps/spill.h"
#include "shim/host/host_pools.h"
#include "shim/host/managed.h"
#include "shim/lifetimes/graph_memory.h"
#include "shim/lifetimes/graph_nodes.h"
#include "shim/lifetimes/memory_pools.h"
#include "shim/memory/tell.h"
#include "shim/order/captures.h"
#include "shim/order/fences.h"
#include "shim/order/streams.h"
#include "shim/pooled_memory.h"
#include "shim/serve/driver.h"
#include "shim/state/submissions.h"
#include "shim/trace/trace.h"

/* ---- allocate -------------------------------------------------------------------- */

/* Returns true if the pool may serve the request. */
static bool may_pool(const struct gs_call *request, const CUdeviceptr *dptr, size_t bytes)
{
    return dptr && bytes && request->context && request->context->heap &&
           !gs_captures_active() && request->stream != CU_STREAM_PER_THREAD &&
           (request->stream || !request->per_thread);
}

/* Allocates from the stream's heap. Returns false if there is no heap, or no memory: the
 * caller then calls the driver. */
static bool allocate_from_heap(struct gs_state *state, const struct gs_call *request,
                               CUdeviceptr *dptr, size_t bytes)
{
    struct gs_async_heap *heap;
    struct gs_block *block;
    int native;
    if (!may_pool(request, dptr, bytes) ||
        !(heap = gs_async_heap_of(state, request->context, request->stream))) {
        return false;
    }
    gs_pool_thread_stream((uintptr_t)request->stream);
    enum gs_status status = gs_heap_alloc(heap->face.heap, bytes, &block, &native);
    if (GS_UNLIKELY(status == GS_ERR_NOMEM)) {
        status = gs_async_press(heap, bytes, &block, &native);
    }
    if (GS_UNLIKELY(status != GS_OK)) {
        return false;
    }
    gs_async_handed_out(heap);
    uint64_t addr = gs_block_addr(block);
    gs_tell_block_allocated(state, request, addr, bytes, block);
    *dptr = addr;
    return true;
}

/* Whether the stream captures, so that the allocation becomes a node of the graph. */
struct node {
    bool captured;
    CUgraph graph; /* NULL: not known */
};

static struct node node_of(const struct gs_call *request)
{
    struct node node = {.captured = false};
    node.captured = gs_captures_active() &&
                    gs_captures_graph(request->stream, request->per_thread, &node.graph);
    return node;
}

/* The device that the limits charge; -1, none, for host memory, managed memory unless
 * that is wished, and nodes of graphs. */
static int charged_to(const struct gs_call *request, struct node node)
{
    bool counts = request->kind == GS_MEMORY_ASYNC ||
                  (request->kind == GS_MEMORY_MANAGED && gs_limits_managed);
    return counts && !node.captured ? request->device : -1;
}

/* Records the driver's answer. */
static void record_allocated(struct gs_state *state, const struct gs_call *request,
                             struct node node, const CUdeviceptr *dptr, size_t bytes,
                             CUresult result)
{
    if (result != CUDA_SUCCESS || !dptr) {
        gs_tell_refused(state, request, bytes, result);
    } else if (node.captured) {
        gs_graph_record_alloc(state, request, node.graph, *dptr, bytes);
    } else {
        gs_tell_allocated(state, request, *dptr, bytes);
    }
}

/* Sets the kind and device of the request to those of the memory's location. */
static void set_location(struct gs_call *request,
                         const struct gs_memory_location *location)
{
    request->kind = location->known ? (enum gs_memory_kind)location->kind : request->kind;
    request->device = location->device >= 0 ? location->device : request->device;
}

/* The answer to a request that does not fit the limit: the driver's own error comes
 * first, for a stream or a pool (NULL: the current one) that is none. */
static CUresult refusal_code(CUresult refused, CUmemoryPool pool, CUstream stream,
                             bool per_thread)
{
    const struct gs_real *real = gs_real();
    __typeof__(cuStreamIsCapturing) *ask =
        per_thread ? real->cuStreamIsCapturing_ptsz : real->cuStreamIsCapturing;
    CUstreamCaptureStatus status;
    cuuint64_t kept;
    CUresult result = CUDA_SUCCESS;
    if (refused != CUDA_ERROR_OUT_OF_MEMORY) {
        return refused;
    }
    if (pool) {
        result =
            real->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept);
    }
    if (result == CUDA_SUCCESS && ask) {
        result = ask(stream, &status);
    }
    return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE
               ? result
               : refused;
}

/* cuMemAllocAsync: served by the stream's heap, else by the driver, else by
 * GPUSHIM_SPILL. */
static CUresult allocate_async(__typeof__(cuMemAllocAsync) *real, bool per_thread,
                               CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return real(dptr, bytes, stream);
    }
    struct gs_call request =
        gs_call_in(gs_context_current(state), GS_MEMORY_ASYNC, GS_API_cuMemAllocAsync);
    request.stream = stream;
    request.per_thread = per_thread;
    if ((state->options.async == GS_ASYNC_POOL || gs_thread.in_stream) &&
        allocate_from_heap(state, &request, dptr, bytes)) {
        gs_leave_served(state);
        return CUDA_SUCCESS;
    }
    const struct gs_context *home = gs_context_of_stream(state, request.context, stream);
    const struct gs_memory_location location =
        gs_memory_pools_chosen(home ? home->device : -1);
    request.context = home;
    request.owner = home ? home->owner : NULL;
    request.device = home ? home->device : -1;
    set_location(&request, &location);
    const struct node node = node_of(&request);
    int charged = dptr ? charged_to(&request, node) : -1;
    CUresult result = GS_SERVED_ELSE(gs_retry(state, home, request.device, bytes),
                                     charged, bytes, real(dptr, bytes, stream),
                                     refusal_code(refused, NULL, stream, per_thread));
    if (charged >= 0 && gs_spill(state, &request, dptr, bytes, result)) {
        result = CUDA_SUCCESS;
    } else {
        record_allocated(state, &request, node, dptr, bytes, result);
    }
    gs_leave_served(state);
    return result;
}

/* Records the location of a pool of unknown origin from its first memory, which was
 * charged to the current context's device. */
static void record_location(struct gs_call *request, struct node node, CUmemoryPool pool,
                            CUdeviceptr addr, size_t bytes)
{
    const struct gs_memory_location location = gs_memory_pools_learn(pool, addr);
    gs_limits_waive(charged_to(request, node), bytes);
    set_location(request, &location);
    gs_limits_correct(charged_to(request, node), 0, bytes);
}

/* cuMemAllocFromPoolAsync, which the driver serves: the program has chosen the pool. */
static CUresult allocate_from_pool(__typeof__(cuMemAllocFromPoolAsync) *real,
                                   bool per_thread, CUdeviceptr *dptr, size_t bytes,
                                   CUmemoryPool pool, CUstream stream)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return real(dptr, bytes, pool, stream);
    }
    const struct gs_context *current = gs_context_current(state);
    const struct gs_memory_location location = gs_memory_pools_location(pool);
    struct gs_call request =
        gs_call_in(current, GS_MEMORY_ASYNC, GS_API_cuMemAllocFromPoolAsync);
    request.stream = stream;
    request.per_thread = per_thread;
    set_location(&request, &location);
    const struct node node = node_of(&request);
    int charged = dptr ? charged_to(&request, node) : -1;
    CUresult result = GS_SERVED_ELSE(
        gs_retry(state, current, location.known ? request.device : -1, bytes), charged,
        bytes, real(dptr, bytes, pool, stream),
        refusal_code(refused, pool, stream, per_thread));
    if (result == CUDA_SUCCESS && dptr && !location.known) {
        record_location(&request, node, pool, *dptr, bytes);
    }
    record_allocated(state, &request, node, dptr, bytes, result);
    gs_leave_served(state);
    return result;
}

/* ---- free ------------------------------------------------------------------------ */

/* The functions for one kind of default stream. */
struct variant {
    __typeof__(cuMemFreeAsync) *free;
    bool per_thread;
};

static enum gs_trace_order order_of(const struct variant *variant)
{
    return variant->per_thread ? GS_TRACE_ORDERED_PER_THREAD : GS_TRACE_ORDERED;
}

/* Records an event in the legacy stream. Natively the free is work of the legacy stream,
 * for which blocking streams wait, and so orders the last use of the memory in one stream
 * before the first use in another, although neither waits for the other. The event has
 * the same effect. */
static CUresult order_by_event(void)
{
    gs_fence fence;
    gs_notify_forward();
    CUresult result = gs_fence_record(NULL, false, &fence);
    gs_notify_back();
    if (result == CUDA_SUCCESS) {
        gs_fence_release(fence);
    }
    return result;
}

/*
 * Whether the captures that run allow the free. A capture that forbids cuMemFree forbids
 * cuMemFreeAsync and cuStreamQuery alike, and each ends it (seen on an H200, driver 580);
 * the query waits for nothing.
 */
static CUresult check_captures(const struct variant *variant, CUstream stream)
{
    bool own = variant->per_thread && !stream;
    if (!gs_real()->cuStreamQuery) {
        return CUDA_SUCCESS;
    }
    CUresult result =
        GS_ON_BEHALF("cuMemFreeAsync", false,
                     gs_real()->cuStreamQuery(own ? CU_STREAM_PER_THREAD : stream));
    return gs_refused_for_capture(result) ? result : CUDA_SUCCESS;
}

/* The fence for a block freed in the stream's order; 0: none is needed. */
static CUresult order_free(const struct variant *variant, struct gs_async_heap *heap,
                           CUstream stream, gs_fence *fence)
{
    *fence = 0;
    if (gs_captures_stream(stream, variant->per_thread)) {
        /* A free inside a capture accepts only memory that was allocated in a capture. */
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (GS_UNLIKELY(gs_captures_active())) {
        CUresult result = check_captures(variant, stream);
        if (result != CUDA_SUCCESS) {
            return result;
        }
    }
    if (!heap || gs_async_is_broken(heap)) {
        return gs_fence_record(stream, variant->per_thread, fence);
    }
    if (!gs_async_is_own(heap, stream, variant->per_thread)) {
        return gs_async_order(heap, stream, variant->per_thread, fence);
    }
    return gs_async_stream(stream) || !gs_streams_any_blocking() ? CUDA_SUCCESS
                                                                 : order_by_event();
}

/* Frees a claimed block of the pool in the order of the stream. */
static CUresult free_block(struct gs_state *state, const struct variant *variant,
                           struct gs_block *block, uint64_t addr, CUstream stream)
{
    struct gs_async_heap *heap = gs_async_heap_of_block(block);
    struct gs_allocation was;
    gs_fence fence;
    CUresult result = order_free(variant, heap, stream, &fence);
    if (result != CUDA_SUCCESS) {
        gs_block_release_claim(block);
        return result;
    }
    if (GS_UNLIKELY(gs_redzones_on)) {
        gs_redzones_check_before_free(state, block, GS_API_cuMemFreeAsync,
                                      GS_CHECK_ORDERED, &was);
    }
    gs_tell_block_ordered(state, block, GS_API_cuMemFreeAsync, addr, stream,
                          order_of(variant));
    if (fence && heap) {
        gs_block_free_fenced(block, fence);
    } else if (fence) {
        gs_context_free_behind(block, fence);
    } else {
        gs_block_free(block);
    }
    if (heap) {
        gs_async_freed(heap);
    }
    return CUDA_SUCCESS;
}

/* The call becomes a free node: it frees nothing before a launch. */
static CUresult free_in_capture(struct gs_state *state, const struct variant *variant,
                                CUdeviceptr dptr, CUstream stream)
{
    gs_graph_memory_set_used();
    CUresult result = variant->free(gs_pooled_asked(dptr), stream);
    if (result == CUDA_ERROR_INVALID_VALUE) {
        gs_record_bad_free(state, dptr, GS_API_cuMemFreeAsync);
    }
    return result;
}

/* Managed memory is not freed in the order of a stream: the stream is waited for. */
static CUresult free_spilled(CUdeviceptr dptr, CUstream stream, bool per_thread)
{
    CUresult result =
        GS_ON_BEHALF("cuMemFreeAsync", true,
                     per_thread ? gs_real()->cuStreamSynchronize_ptsz(stream)
                                : gs_real()->cuStreamSynchronize(stream));
    return result == CUDA_SUCCESS ? gs_real()->cuMemFree_v2(dptr) : result;
}

static CUresult free_in_driver(const struct variant *variant, CUdeviceptr dptr,
                               CUstream stream, bool spilled)
{
    CUresult result = spilled ? free_spilled(dptr, stream, variant->per_thread)
                              : variant->free(gs_pooled_asked(dptr), stream);
    if (result == CUDA_SUCCESS) {
        gs_managed_gone(dptr);
    }
    return result;
}

/* cuMemFreeAsync: of a block of the pool, or of memory that is the driver's own. */
static CUresult free_async(__typeof__(cuMemFreeAsync) *real, bool per_thread,
                           CUdeviceptr dptr, CUstream stream)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_owned_by_pool(dptr) ? CUDA_ERROR_NOT_PERMITTED : real(dptr, stream);
    }
    const struct variant variant = {real, per_thread};
    CUresult result;
    struct gs_block *block;
    enum gs_status found =
        state->pool ? gs_pool_claim(state->pool, dptr, &block) : GS_ERR_NOT_OURS;
    bool away =
        found == GS_ERR_BAD_FREE &&
        gs_releasable_free(state, GS_API_cuMemFreeAsync, false, dptr, &block, &result);
    if (found == GS_OK || (away && block)) {
        result = free_block(state, &variant, block, dptr, stream);
    } else if (away) {
        /* freed */
    } else if (found == GS_ERR_BAD_FREE || gs_host_owns(state, dptr) ||
               gs_async_owes(dptr) || gs_managed_refuses(dptr)) {
        gs_record_bad_free(state, dptr, GS_API_cuMemFreeAsync);
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (gs_captures_stream(stream, per_thread)) {
        result = free_in_capture(state, &variant, dptr, stream);
    } else {
        struct gs_freeing freeing = {.key = dptr,
                                     .api = GS_API_cuMemFreeAsync,
                                     .how = GS_TRACE_DRIVER,
                                     .stream = stream,
                                     .order = order_of(&variant)};
        bool spilled = GS_UNLIKELY(gs_spilled_has(dptr));
        result = GS_TOLD_FREE(state, &freeing,
                              free_in_driver(&variant, dptr, stream, spilled));
    }
    gs_leave();
    return result;
}

#define GS_FILE_async ,
#include "shim/entries/forward.h"
