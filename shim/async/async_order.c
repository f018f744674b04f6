/*
 * async_order.c - the order of a heap's memory: returns segments in it, and keeps heaps
 * beyond the end of streams and contexts.
 *
 * Any thread may return a segment to the driver in the order of the heap's stream. The
 * stream's handle is valid until the stream is destroyed: threads that return segments
 * are counted, and the end of a stream waits for them. Their calls do not block.
 *
 * Owns:  one stream a context, which orders the context's ended heaps.
 * Lock:  gs_async_lock for those streams, and for the members named in async_heaps.h.
 */
#include "shim/async/async_internal.h"

#include <stdlib.h>
#include <string.h>

#include "gs_uncancelled.h"
#include "gs_wait.h"
#include "shim/order/captures.h"
#include "shim/order/fences.h"
#include "shim/order/own_handles.h"
#include "shim/order/streams.h"
#include "shim/order/visit.h"
#include "shim/state/contexts.h"

/* The stream that orders a context's ended heaps. */
struct own_stream {
    CUcontext home;
    CUstream stream;
    struct own_stream *next;
};

static pthread_cond_t user_left = PTHREAD_COND_INITIALIZER; /* of gs_async_lock */
static struct own_stream *own_streams;                      /* under gs_async_lock */

/* ---- the library's own streams ----------------------------------------------------- */

/* gs_async_lock is held. */
static CUstream find_own_stream(CUcontext home)
{
    const struct own_stream *own = own_streams;
    while (own && own->home != home) {
        own = own->next;
    }
    return own ? own->stream : NULL;
}

/* The stream of the context's ended heaps, created if there is none; NULL on failure. */
static CUstream own_stream_of(CUcontext home)
{
    struct own_stream *made = NULL;
    CUstream found;
    bool pushed;
    gs_mutex_lock(&gs_async_lock);
    found = find_own_stream(home);
    gs_mutex_unlock(&gs_async_lock);
    if (found || !(made = calloc(1, sizeof(*made)))) {
        return found;
    }
    made->home = home;
    CUresult result = gs_context_push(home, &pushed);
    if (result == CUDA_SUCCESS) {
        result = gs_own_stream_create(&made->stream, CU_STREAM_NON_BLOCKING);
    }
    gs_context_pop(pushed);
    if (result != CUDA_SUCCESS) {
        free(made);
        return NULL;
    }
    /* If two threads create one each, the second one is not used. */
    gs_mutex_lock(&gs_async_lock);
    made->next = own_streams;
    own_streams = made;
    found = made->stream;
    gs_mutex_unlock(&gs_async_lock);
    return found;
}

/* gs_async_lock is held. */
static void forget_own_streams(CUcontext home)
{
    struct own_stream **link = &own_streams;
    while (*link) {
        struct own_stream *own = *link;
        if (own->home == home) {
            *link = own->next;
            free(own);
        } else {
            link = &own->next;
        }
    }
}

/* ---- returning segments ------------------------------------------------------------ */

/* Puts a heap without a context in the order of a stream of the current context, if this
 * is on the heap's device. All work of the ended context is over, so the heap has no
 * order to keep. */
static void bind_to_current(struct gs_async_heap *heap)
{
    struct gs_state *state = gs_state_peek();
    const struct gs_context *context = state ? gs_context_current(state) : NULL;
    if (!context || !context->heap || context->device != heap->face.device) {
        return;
    }
    CUstream stream = own_stream_of(context->handle);
    gs_mutex_lock(&gs_async_lock);
    if (stream && !gs_async_home_of(heap) && !heap->moving) {
        gs_async_bind(heap, context->handle, stream, true);
    }
    gs_mutex_unlock(&gs_async_lock);
}

/* Keeps its stream until unpin. Returns false if it has none at the moment. */
bool gs_async_pin(struct gs_async_heap *heap, CUcontext *home, CUstream *stream)
{
    if (!gs_async_home_of(heap)) {
        bind_to_current(heap);
    }
    gs_mutex_lock(&gs_async_lock);
    bool pinned = !heap->moving && heap->home;
    if (pinned) {
        heap->users++;
        *home = heap->home;
        *stream = heap->stream;
    }
    gs_mutex_unlock(&gs_async_lock);
    return pinned;
}

void gs_async_unpin(struct gs_async_heap *heap)
{
    gs_mutex_lock(&gs_async_lock);
    if (--heap->users == 0) {
        pthread_cond_broadcast(&user_left);
    }
    gs_mutex_unlock(&gs_async_lock);
}

/* The last RECENT returned segments: their frees may not have run yet. */
#define RECENT 256u

static struct {
    uint64_t addr;
    size_t bytes;
} recent[RECENT];             /* under gs_async_lock */
static unsigned recent_count; /* under gs_async_lock */

static void record_returned(uint64_t addr, size_t bytes)
{
    gs_mutex_lock(&gs_async_lock);
    recent[recent_count % RECENT].addr = addr;
    recent[recent_count % RECENT].bytes = bytes;
    recent_count++;
    gs_mutex_unlock(&gs_async_lock);
}

static void leave_home(struct gs_async_heap *heap, struct gs_visit *visit)
{
    gs_visit_end(visit);
    gs_gate_leave();
    gs_async_unpin(heap);
}

/* Enters the heap's context for calls in the order of its stream. CUDA_ERROR_NOT_READY:
 * not now. On success leave_home must follow. */
static CUresult enter_home(struct gs_async_heap *heap, struct gs_visit *visit,
                           CUstream *stream)
{
    CUcontext home;
    if (!gs_async_pin(heap, &home, stream)) {
        return CUDA_ERROR_NOT_READY;
    }
    if (!gs_gate_enter()) {
        gs_async_unpin(heap);
        return CUDA_ERROR_NOT_READY;
    }
    CUresult result = gs_visit_begin(visit, "returning memory", home, false);
    if (result != CUDA_SUCCESS) {
        leave_home(heap, visit);
    }
    return result;
}

/* Returns CUDA_ERROR_NOT_READY if the segment cannot be returned now. */
CUresult gs_async_return(struct gs_async_heap *heap, uint64_t addr, size_t bytes)
{
    struct gs_visit visit;
    CUstream stream;
    CUresult result = enter_home(heap, &visit, &stream);
    if (result == CUDA_SUCCESS) {
        record_returned(addr, bytes);
        result = gs_real()->cuMemFreeAsync(addr, stream);
        __atomic_add_fetch(&heap->given, 1, __ATOMIC_RELAXED);
        /* So that a thread short of memory need not wait for a synchronize. */
        (void)gs_real()->cuMemPoolTrimTo(heap->source, 0);
        leave_home(heap, &visit);
    }
    return result;
}

static unsigned overdue_count; /* atomic: segments, of all heaps */

void gs_async_add_overdue(struct gs_async_heap *heap, uint64_t addr, size_t bytes)
{
    struct owed *owed = calloc(1, sizeof(*owed));
    if (!owed) {
        return; /* stays in the driver's pool until the process ends */
    }
    owed->addr = addr;
    owed->bytes = bytes;
    __atomic_add_fetch(&overdue_count, 1, __ATOMIC_RELAXED);
    gs_mutex_lock(&gs_async_lock);
    owed->next = heap->owed;
    heap->owed = owed;
    gs_mutex_unlock(&gs_async_lock);
}

void gs_async_settle(struct gs_async_heap *heap)
{
    gs_mutex_lock(&gs_async_lock);
    struct owed *owed = heap->owed;
    heap->owed = NULL;
    gs_mutex_unlock(&gs_async_lock);
    while (owed) {
        struct owed *next = owed->next;
        if (gs_async_return(heap, owed->addr, owed->bytes) == CUDA_ERROR_NOT_READY) {
            gs_async_add_overdue(heap, owed->addr, owed->bytes);
        }
        __atomic_sub_fetch(&overdue_count, 1, __ATOMIC_RELAXED);
        free(owed);
        owed = next;
    }
}

bool gs_async_owes(uint64_t addr)
{
    bool found = false;
    if (GS_LIKELY(__atomic_load_n(&overdue_count, __ATOMIC_RELAXED) == 0)) {
        return false;
    }
    gs_mutex_lock(&gs_async_lock);
    for (const struct gs_async_heap *heap = gs_async_heaps; heap && !found;
         heap = heap->next) {
        for (const struct owed *owed = heap->owed; owed && !found; owed = owed->next) {
            found = addr - owed->addr < owed->bytes;
        }
    }
    gs_mutex_unlock(&gs_async_lock);
    return found;
}

bool gs_async_is_going(uint64_t addr)
{
    bool found = gs_async_owes(addr);
    gs_mutex_lock(&gs_async_lock);
    for (size_t i = 0; i < RECENT && !found; i++) {
        found = addr - recent[i].addr < recent[i].bytes;
    }
    gs_mutex_unlock(&gs_async_lock);
    return found;
}

bool gs_async_is_idle(struct gs_async_heap *heap)
{
    struct gs_visit visit;
    CUstream stream;
    if (!gs_real()->cuStreamQuery || enter_home(heap, &visit, &stream) != CUDA_SUCCESS) {
        return false;
    }
    CUresult result = gs_real()->cuStreamQuery(stream);
    leave_home(heap, &visit);
    return result == CUDA_SUCCESS;
}

/* A reclaim, and a query of free memory, must find memory that is free natively: a stream
 * without other work runs its frees within a short time. Limits: the number of polls
 * before the first sleep, the longest wait, and the sleep; the driver's thread may have
 * to wake up. The wait is bounded since the stream may have work that waits for this
 * thread. On a busy machine the time passes with few polls: LEAST_POLLS are made even if
 * it is over. An allocation that would fail otherwise waits for LAST_WAIT_NS, once for
 * the same frees. */
#define POLLS       1000u
#define LEAST_POLLS 2000u
#define WAIT_NS     10000000ull
#define NAP_NS      20000u

#define LAST_WAIT_NS 400000000ull
#define LAST_NAP_NS  200000u

/* Waits until `until_ns`, and until *polls is LEAST_POLLS, for the frees made so far in
 * the heap's stream. Returns whether they have run. */
static bool await_frees(struct gs_async_heap *heap, uint64_t until_ns, unsigned *polls)
{
    struct gs_wait wait = {.spins = POLLS, .nap_ns = NAP_NS, .until_ns = until_ns};
    unsigned given = __atomic_load_n(&heap->given, __ATOMIC_RELAXED);
    bool done = gs_async_is_idle(heap);
    if (given == __atomic_load_n(&heap->in_vain, __ATOMIC_RELAXED)) {
        *polls = LEAST_POLLS;
        wait.until_ns = 1; /* has passed */
    }
    for (; !done && (gs_wait_step(&wait) || *polls < LEAST_POLLS); ++*polls) {
        done = gs_async_is_idle(heap);
    }
    (void)gs_real()->cuMemPoolTrimTo(heap->source, 0);
    if (done) { /* else the next call waits again */
        __atomic_store_n(&heap->awaited, given, __ATOMIC_RELAXED);
    }
    return done;
}

/* The newest heap, linked to the others; none is ever removed. */
static struct gs_async_heap *first_heap(void)
{
    gs_mutex_lock(&gs_async_lock);
    struct gs_async_heap *heap = gs_async_heaps;
    gs_mutex_unlock(&gs_async_lock);
    return heap;
}

/* Returns true if the heap is on the device and its stream may not have run all frees. */
static bool is_awaited(const struct gs_async_heap *heap, int device)
{
    return (device < 0 || heap->face.device == device) &&
           __atomic_load_n(&heap->given, __ATOMIC_RELAXED) !=
               __atomic_load_n(&heap->awaited, __ATOMIC_RELAXED);
}

bool gs_async_await_given(int device)
{
    bool any = false;
    if (GS_LIKELY(!__atomic_load_n(&gs_async_heap_count, __ATOMIC_ACQUIRE))) {
        return false;
    }
    uint64_t until_ns = gs_now_ns() + WAIT_NS; /* of all streams: these continue to run */
    unsigned polls = 0;                        /* of all, too */
    for (struct gs_async_heap *heap = first_heap(); heap; heap = heap->next) {
        if (is_awaited(heap, device)) {
            any |= await_frees(heap, until_ns, &polls);
        }
    }
    return any;
}

/* Waits for the first heap whose frees run. */
static bool await_any(int device)
{
    struct gs_wait wait = {.nap_ns = LAST_NAP_NS,
                           .longest_ns = 16 * LAST_NAP_NS,
                           .until_ns = gs_now_ns() + LAST_WAIT_NS};
    bool waits = true;
    while (waits && gs_wait_step(&wait)) {
        waits = false;
        for (struct gs_async_heap *heap = first_heap(); heap; heap = heap->next) {
            unsigned given = __atomic_load_n(&heap->given, __ATOMIC_RELAXED);
            if (!is_awaited(heap, device) ||
                given == __atomic_load_n(&heap->in_vain, __ATOMIC_RELAXED)) {
                continue;
            }
            if (gs_async_is_idle(heap)) {
                (void)gs_real()->cuMemPoolTrimTo(heap->source, 0);
                __atomic_store_n(&heap->awaited, given, __ATOMIC_RELAXED);
                return true;
            }
            waits = true;
        }
    }
    return false;
}

bool gs_async_await_given_long(int device)
{
    if (GS_LIKELY(!__atomic_load_n(&gs_async_heap_count, __ATOMIC_ACQUIRE))) {
        return false;
    }
    bool any = await_any(device);
    for (struct gs_async_heap *heap = first_heap(); !any && heap; heap = heap->next) {
        if (is_awaited(heap, device)) {
            __atomic_store_n(&heap->in_vain,
                             __atomic_load_n(&heap->given, __ATOMIC_RELAXED),
                             __ATOMIC_RELAXED);
        }
    }
    return any;
}

void gs_async_give_back(int device)
{
    for (struct gs_async_heap *heap = first_heap(); heap; heap = heap->next) {
        if (device < 0 || heap->face.device == device) {
            bool was_done = gs_async_is_idle(heap); /* else no wait, as in the driver */
            gs_async_settle(heap);
            (void)gs_heap_give_back(heap->face.heap);
            if (was_done) {
                unsigned polls = 0;
                (void)await_frees(heap, gs_now_ns() + WAIT_NS, &polls);
            } else {
                (void)gs_real()->cuMemPoolTrimTo(heap->source, 0);
            }
        }
    }
}

/* ---- the end of a stream ----------------------------------------------------------- */

/* Excludes all threads from the heap's stream: waits for those that use it, and lets no
 * other begin. gs_async_lock is held. */
static void begin_move(struct gs_async_heap *heap)
{
    int before = gs_uncancelled_begin();
    heap->moving = true;
    while (heap->users) {
        (void)gs_mutex_wait(&gs_async_lock, &user_left, NULL);
    }
    gs_uncancelled_end(before);
}

/* Orders the library's own stream after all work of `stream`. NULL on failure. */
static CUstream take_over(CUcontext home, CUstream stream)
{
    CUstream own = gs_captures_stream(stream, false) ? NULL : own_stream_of(home);
    return own && gs_fence_order_streams(home, stream, own) == CUDA_SUCCESS ? own : NULL;
}

void gs_async_stream_ends(CUstream stream)
{
    if (GS_LIKELY(!__atomic_load_n(&gs_async_heap_count, __ATOMIC_ACQUIRE)) || !stream ||
        stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
        return;
    }
    gs_mutex_lock(&gs_async_lock);
    struct gs_async_heap *heap = gs_async_heaps;
    while (heap && (heap->ended || heap->stream != stream)) {
        heap = heap->next;
    }
    if (heap) {
        begin_move(heap);
    }
    gs_mutex_unlock(&gs_async_lock);
    if (!heap) {
        return;
    }
    struct gs_state *state = gs_enter();
    gs_notify_begin("cuStreamDestroy", false);
    CUcontext home = gs_async_home_of(heap);
    CUstream own = take_over(home, stream);
    gs_notify_end();
    gs_mutex_lock(&gs_async_lock);
    if (!own) {
        /* The heap's order can no longer be waited for: the heap is neither used nor
         * returned. */
        __atomic_store_n(&heap->broken, true, __ATOMIC_RELAXED);
    }
    gs_async_bind(heap, own ? home : NULL, own, true);
    heap->moving = !own;
    gs_mutex_unlock(&gs_async_lock);
    gs_async_drop_cached();
    if (own) {
        gs_async_settle(heap);
        (void)gs_heap_give_back(heap->face.heap);
    } else {
        gs_heap_poison(heap->face.heap);
    }
    if (state) {
        gs_leave();
    }
}

void gs_async_context_fails(CUcontext context)
{
    gs_mutex_lock(&gs_async_lock);
    for (struct gs_async_heap *heap = gs_async_heaps; heap; heap = heap->next) {
        if (heap->home == context) {
            __atomic_store_n(&heap->broken, true, __ATOMIC_RELAXED);
        }
    }
    gs_mutex_unlock(&gs_async_lock);
}

/* ---- the end of a context ---------------------------------------------------------- */

void gs_async_heaps_freeze(CUcontext context)
{
    gs_mutex_lock(&gs_async_lock);
    for (struct gs_async_heap *heap = gs_async_heaps; heap; heap = heap->next) {
        if (heap->home == context) {
            begin_move(heap);
        }
    }
    gs_mutex_unlock(&gs_async_lock);
}

void gs_async_heaps_thaw(CUcontext context, bool destroyed)
{
    gs_mutex_lock(&gs_async_lock);
    for (struct gs_async_heap *heap = gs_async_heaps; heap; heap = heap->next) {
        if (heap->home == context) {
            heap->moving = false;
            if (destroyed) {
                gs_async_bind(heap, NULL, NULL, true);
            }
        }
    }
    if (destroyed) {
        forget_own_streams(context);
    }
    gs_mutex_unlock(&gs_async_lock);
    gs_async_drop_cached();
}

void gs_async_order_reset(void)
{
    pthread_cond_init(&user_left, NULL);
    own_streams = NULL;
    overdue_count = 0;
    memset(recent, 0, sizeof(recent));
}
