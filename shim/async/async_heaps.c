/*
 * async_heaps.c - finds and creates the heaps of streams, and serves memory from them.
 * Owns:  every heap.
 * Lock:  gs_async_lock, for the members named in async_heaps.h.
 */
#include "shim/async/async_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/async/async_policy.h"
#include "shim/limits/mem_limits.h"
#include "shim/memory/tell.h"
#include "shim/order/capture_gate.h"
#include "shim/order/captures.h"
#include "shim/order/fences.h"
#include "shim/order/streams.h"
#include "shim/parts.h"
#include "shim/settings/log.h"

struct gs_mutex gs_async_lock = GS_MUTEX(GS_RANK_ASYNC);
struct gs_async_heap *gs_async_heaps;
unsigned gs_async_heap_count;

static uint64_t generation = 1; /* atomic: ends of streams and contexts */

/* The heaps that the thread has used, one for each hash of a handle. Allocated by the
 * thread's first request: static thread-local memory is scarce next to audit libraries
 * and other preloaded ones. */
#define SEEN 8u

struct seen {
    struct gs_async_heap *heap;
    const struct gs_context *context;
    CUstream stream;
    uint64_t at; /* valid while this is the generation */
};

/* Stands for the table of a thread that has none; never written. */
static struct seen none_seen[SEEN];
static _Thread_local struct seen *all_seen __attribute__((tls_model("initial-exec"))) =
    none_seen;

static pthread_key_t seen_key; /* immutable after seen_once */
static bool seen_key_made;     /* likewise */
static pthread_once_t seen_once = PTHREAD_ONCE_INIT;

static inline struct seen *seen_at(CUstream stream)
{
    uintptr_t bits = (uintptr_t)stream;
    return &all_seen[(bits >> 4 ^ bits >> 8 ^ bits >> 12) % SEEN];
}

/* Called as the thread ends. A request of a later destructor makes a new table. */
static void drop_seen(void *table)
{
    all_seen = none_seen;
    free(table);
}

static void make_seen_key(void)
{
    seen_key_made = pthread_key_create(&seen_key, drop_seen) == 0;
}

/* Records a heap that the thread has found; without memory it is searched each time. */
static void record_seen(const struct seen *seen)
{
    if (all_seen == none_seen) {
        struct seen *table;
        pthread_once(&seen_once, make_seen_key);
        table = seen_key_made ? calloc(SEEN, sizeof(*table)) : NULL;
        if (!table || pthread_setspecific(seen_key, table) != 0) {
            free(table);
            return;
        }
        all_seen = table;
    }
    *seen_at(seen->stream) = *seen;
}

void gs_async_drop_cached(void)
{
    __atomic_add_fetch(&generation, 1, __ATOMIC_ACQ_REL);
}

/* ---- the backend ------------------------------------------------------------------- */

static CUresult allocate_in_driver(struct gs_async_heap *heap, size_t bytes,
                                   CUdeviceptr *found)
{
    return GS_ON_BEHALF(
        "cuMemAllocAsync", false,
        GS_CHARGED(heap->face.device, bytes,
                   gs_real()->cuMemAllocFromPoolAsync(found, bytes, heap->source,
                                                      gs_async_order_of(heap))));
}

static struct gs_driver_range range_of(const struct gs_async_heap *heap, uint64_t addr,
                                       size_t bytes)
{
    return (struct gs_driver_range){.kind = GS_MEMORY_ASYNC,
                                    .device = heap->face.device,
                                    .addr = addr,
                                    .bytes = bytes};
}

/* Called during a call on the heap's own stream, whose context is current. */
static enum gs_status backend_map(void *self, size_t bytes, uint64_t *addr, int *native)
{
    struct gs_async_heap *heap = self;
    CUdeviceptr found = 0;
    CUresult result = allocate_in_driver(heap, bytes, &found);
    if (result != CUDA_SUCCESS) {
        *native = (int)result;
        return result == CUDA_ERROR_OUT_OF_MEMORY ? GS_ERR_NOMEM : GS_ERR_BACKEND;
    }
    *addr = found;
    __atomic_add_fetch(&heap->mapped, 1, __ATOMIC_RELAXED);
    const struct gs_driver_range range = range_of(heap, found, bytes);
    gs_tell_range_added(&range);
    return GS_OK;
}

static void backend_unmap(void *self, uint64_t addr, size_t bytes)
{
    struct gs_async_heap *heap = self;
    static struct gs_log_limit limit;
    const struct gs_driver_range range = range_of(heap, addr, bytes);
    gs_tell_range_leaving(&range);
    CUresult result = gs_async_return(heap, addr, bytes);
    if (result == CUDA_ERROR_NOT_READY) {
        gs_async_add_overdue(heap, addr, bytes);
    }
    gs_tell_range_gone(&range, result == CUDA_SUCCESS);
    __atomic_sub_fetch(&heap->mapped, 1, __ATOMIC_RELEASE);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
        gs_log_once(&limit, GS_LOG_INFO, "the driver failed to free %zu bytes (error %d)",
                    bytes, (int)result);
    }
}

/* True: a stream-ordered free waits for nothing. */
static bool backend_idle(void *self)
{
    (void)self;
    return !gs_captures_active();
}

/* Reclaims memory for a segment. If the request still finds none, the driver serves it
 * (entry_async.c). */
static bool backend_reclaim(void *self, size_t bytes, enum gs_shortage_kind kind)
{
    const struct gs_async_heap *heap = self;
    const struct gs_shortage shortage = {gs_state_peek(), NULL, heap->face.device, bytes,
                                         kind};
    return shortage.state && kind == GS_SHORTAGE_SEGMENT && gs_parts_reclaim(&shortage);
}

static bool is_pressed(const struct gs_async_heap *heap)
{
    return __atomic_load_n(&heap->pressed, __ATOMIC_RELAXED);
}

/* Orders a stream after the fence: later uses in its order are then safe. */
static CUresult order_behind(CUcontext home, CUstream stream, gs_fence fence)
{
    CUresult result = CUDA_ERROR_NOT_READY;
    if (gs_gate_enter()) {
        result = gs_fence_order(home, stream, fence);
        gs_gate_leave();
    }
    return result;
}

static enum gs_status wait_in_stream(struct gs_async_heap *heap, gs_fence fence)
{
    CUresult result = GS_ON_BEHALF(
        "cuMemAllocAsync", false,
        order_behind(gs_async_home_of(heap), gs_async_order_of(heap), fence));
    return result == CUDA_SUCCESS ? GS_OK : GS_ERR_TIMEOUT;
}

static enum gs_status backend_fence_query(void *self, gs_fence fence)
{
    struct gs_async_heap *heap = self;
    if (is_pressed(heap)) {
        return wait_in_stream(heap, fence);
    }
    enum gs_status status = gs_fence_query(fence);
    if (status == GS_ERR_BACKEND) {
        __atomic_store_n(&heap->broken, true, __ATOMIC_RELAXED);
    }
    return status;
}

static void backend_fence_release(void *self, gs_fence fence)
{
    (void)self;
    gs_fence_release(fence);
}

static void backend_retired(void *self, uint64_t addr, gs_fence fence)
{
    const struct gs_async_heap *heap = self;
    if (gs_notified() && fence && !is_pressed(heap)) {
        gs_notify_retire(addr, gs_fence_event(fence));
    }
}

static const struct gs_backend stream_backend = {
    .map = backend_map,
    .unmap = backend_unmap,
    .quiet = backend_idle,
    .reclaim = backend_reclaim,
    .fence_query = backend_fence_query,
    .fence_release = backend_fence_release,
    .retired = backend_retired,
};

/* ---- finding a stream's heap ------------------------------------------------------- */

/* gs_async_lock is held. */
static struct gs_async_heap *find(CUcontext home, CUstream stream)
{
    struct gs_async_heap *heap = gs_async_heaps;
    while (heap && (heap->ended || heap->stream != stream || heap->home != home)) {
        heap = heap->next;
    }
    return heap;
}

/* A heap that has ended and holds nothing. gs_async_lock is held. */
static struct gs_async_heap *find_empty(int device, CUmemoryPool source)
{
    struct gs_async_heap *heap = gs_async_heaps;
    while (heap &&
           (!heap->ended || heap->broken || heap->moving || heap->owed || heap->users ||
            heap->source != source || heap->face.device != device ||
            __atomic_load_n(&heap->mapped, __ATOMIC_ACQUIRE))) {
        heap = heap->next;
    }
    return heap;
}

static struct gs_async_heap *make(struct gs_state *state, int device, CUmemoryPool source)
{
    struct gs_async_heap *heap = calloc(1, sizeof(*heap));
    if (!heap) {
        return NULL;
    }
    heap->face = (struct gs_context){.device = device, .ordered = true};
    heap->source = source;
    if (gs_heap_create(state->pool, &stream_backend, heap, device, &heap->face.heap) !=
        GS_OK) {
        free(heap);
        return NULL;
    }
    return heap;
}

/* gs_async_lock is held. */
static void publish(struct gs_async_heap *heap)
{
    heap->next = gs_async_heaps;
    gs_async_heaps = heap;
    __atomic_add_fetch(&gs_async_heap_count, 1, __ATOMIC_RELEASE);
}

/* Returns true if the stream was created by a hooked call in this context, and not for a
 * green context. */
static bool is_known(const struct gs_context *context, CUstream stream)
{
    return !stream || gs_streams_find(stream) == context->handle;
}

/* The stream's heap, or an empty one. gs_async_lock is held. */
static struct gs_async_heap *find_or_take(const struct gs_context *context,
                                          CUstream stream, CUmemoryPool source)
{
    struct gs_async_heap *heap = find(context->handle, stream);
    if (!heap && (heap = find_empty(context->device, source))) {
        gs_async_bind(heap, context->handle, stream, false);
    }
    return heap;
}

/* The stream's heap, made if there is none. NULL: the context or the stream is not known,
 * or there is no memory. */
static GS_NOINLINE struct gs_async_heap *find_or_make(struct gs_state *state,
                                                      const struct gs_context *context,
                                                      CUstream stream,
                                                      CUmemoryPool source)
{
    uint64_t at = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
    if (!is_known(context, stream)) {
        return NULL;
    }
    gs_mutex_lock(&gs_async_lock);
    struct gs_async_heap *heap = find_or_take(context, stream, source);
    gs_mutex_unlock(&gs_async_lock);
    if (!heap) {
        struct gs_async_heap *made = make(state, context->device, source);
        if (!made) {
            return NULL;
        }
        gs_mutex_lock(&gs_async_lock);
        heap = find(context->handle, stream);
        gs_async_bind(made, context->handle, stream,
                      heap != NULL); /* then it is a spare one */
        publish(made);
        heap = heap ? heap : made;
        gs_mutex_unlock(&gs_async_lock);
    }
    record_seen(&(struct seen){heap, context, stream, at});
    return heap;
}

struct gs_async_heap *gs_async_heap_of(struct gs_state *state,
                                       const struct gs_context *context, CUstream stream)
{
    CUmemoryPool source = gs_async_pool_of(state, context->device);
    if (!source) {
        return NULL;
    }
    stream = gs_async_stream(stream);
    const struct seen *seen = seen_at(stream);
    struct gs_async_heap *heap = seen->heap;
    if (GS_UNLIKELY(!heap || seen->stream != stream || seen->context != context ||
                    seen->at != __atomic_load_n(&generation, __ATOMIC_ACQUIRE))) {
        heap = find_or_make(state, context, stream, source);
    }
    return heap && !gs_async_is_broken(heap) ? heap : NULL;
}

enum gs_status gs_async_press(struct gs_async_heap *heap, size_t bytes,
                              struct gs_block **out, int *native)
{
    __atomic_store_n(&heap->pressed, true, __ATOMIC_RELAXED);
    enum gs_status status = gs_heap_alloc(heap->face.heap, bytes, out, native);
    __atomic_store_n(&heap->pressed, false, __ATOMIC_RELAXED);
    return status;
}

/* ---- frees ------------------------------------------------------------------------- */

bool gs_async_is_own(const struct gs_async_heap *heap, CUstream stream, bool per_thread)
{
    CUcontext now = NULL;
    if (gs_async_is_ended(heap) || stream == CU_STREAM_PER_THREAD ||
        (per_thread && !stream)) {
        return false;
    }
    stream = gs_async_stream(stream);
    if (gs_async_order_of(heap) != stream) {
        return false;
    }
    return stream || (gs_real()->cuCtxGetCurrent(&now) == CUDA_SUCCESS && now &&
                      now == gs_async_home_of(heap));
}

CUresult gs_async_order(struct gs_async_heap *heap, CUstream stream, bool per_thread,
                        gs_fence *fence)
{
    CUcontext home;
    CUstream own;
    *fence = 0;
    CUresult result = gs_fence_record(stream, per_thread, fence);
    if (result != CUDA_SUCCESS || !gs_async_is_ended(heap) ||
        !gs_async_pin(heap, &home, &own)) {
        return result;
    }
    /* An ended heap is in the order of a stream of the library's own, which may wait for
     * any work. */
    if (gs_async_is_ended(heap) &&
        GS_ON_BEHALF("cuMemFreeAsync", false, order_behind(home, own, *fence)) ==
            CUDA_SUCCESS) {
        gs_fence_release(*fence);
        *fence = 0;
    }
    gs_async_unpin(heap);
    return result;
}

void gs_async_freed(struct gs_async_heap *heap)
{
    if (GS_UNLIKELY(gs_async_is_ended(heap))) {
        gs_async_settle(heap);
        (void)gs_heap_give_back(heap->face.heap);
    } else if (GS_UNLIKELY(gs_heap_wants_maintenance(heap->face.heap)) &&
               !gs_captures_active()) {
        gs_async_settle(heap);
        (void)gs_heap_maintain(heap->face.heap, 0);
        gs_safe_point(gs_state_peek());
    }
}

void gs_async_heaps_reset(void)
{
    gs_mutex_init(&gs_async_lock, GS_RANK_ASYNC);
    gs_async_heaps = NULL;
    gs_async_heap_count = 0;
    generation = 1;
    if (all_seen != none_seen) {
        memset(all_seen, 0, SEEN * sizeof(*all_seen));
    }
}
