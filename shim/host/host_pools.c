/*
 * host_pools.c - heaps of pinned memory, their backend, and the wait of a free.
 *
 * The pool engine is the same as for device memory, in a second pool: the addresses are
 * host addresses, and no statistic counts them for a device.
 *
 * The wait of a free. The native free waits for the work of the context that owns the
 * memory (assumed; not documented), and this one does the same. Other contexts may use
 * the memory as well, and the native free is not known to wait for them: a wait for them
 * might be for a kernel that waits for this very thread. So the free does not wait for
 * them. The block is held back until each of them was found complete after the free
 * (all_contexts.h), by a synchronize that the program makes for its own purpose. The
 * held-back bytes are bounded: beyond the bound large blocks are freed natively, and
 * small requests go to the driver.
 *
 * Memory shortage. Pinned pages cannot be swapped, and when memory runs out the kernel
 * kills a process instead of returning an error. So the pool grows only while enough
 * memory is left to other processes, and returns idle memory while less is left.
 *
 * Owns:  the heaps of the contexts; the count of held-back bytes.   Lock: `making`, while
 *        a heap is created; the rest is atomic or immutable after start.   Design:
 *        docs/host-memory.md
 */
#include "shim/host/host_pools.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_locks.h"
#include "pool/hit.h"
#include "shim/host/page_state.h"
#include "shim/limits/machine_memory.h"
#include "shim/memory/tell.h"
#include "shim/order/all_complete.h"
#include "shim/order/capture_check.h"
#include "shim/order/captures.h"
#include "shim/order/context_errors.h"
#include "shim/order/free_wait.h"
#include "shim/order/full_wait.h"
#include "shim/order/visit.h"
#include "shim/settings/checkers.h"
#include "shim/settings/log.h"
#include "shim/state/all_contexts.h"
#include "shim/state/trim_hold.h"

/* Large requests are rounded up to this step; the pool would otherwise pin up to 2 MiB
 * more. */
#define LARGE_STEP_BYTES (64 * GS_KIB)
/* The pool's own cache tiers hold 1/CACHE_SHARE of the bytes that those for device memory
 * hold. */
#define CACHE_SHARE 4u
/* The default limit on idle memory: features, D5. */
#define IDLE_MAX_BYTES (2 * GS_GIB)
/* The most bytes held back; or a quarter of the limit on idle memory, if smaller. */
#define HELD_MAX_BYTES (64 * GS_MIB)
/* The reserve left to other processes: a share of the memory, and at most
 * RESERVE_MAX_BYTES. */
#define RESERVE_SHARE     32u
#define RESERVE_MAX_BYTES GS_GIB

/* A fence holds a point and a size: the low bits have the size in units. */
#define HELD_BITS       20u
#define HELD_MASK       (((uint64_t)1 << HELD_BITS) - 1)
#define HELD_UNIT_BYTES ((uint64_t)4096)
#define POINT_MAX       (((uint64_t)1 << (64 - HELD_BITS)) - 1)

struct gs_host_heap {
    const struct gs_context *context; /* immutable, like the next two */
    unsigned key;
    struct gs_heap *heap;
    unsigned page_state; /* atomic: of fresh large segments; 0: not read yet */
};

static struct {
    size_t page_bytes;
    uint64_t idle_limit;
    enum gs_host_clear clear;
} settings; /* immutable after start */

static struct gs_mutex making = GS_MUTEX(GS_RANK_HOST_HEAPS); /* held to create heaps */

static bool any_heap;       /* atomic: some context has, or had, a heap */
static uint64_t held_bytes; /* atomic: freed, and not known to be unused */

/* Per thread: the address that the backend mapped last, so that fresh pages are not
 * cleared. */
static _Thread_local uint64_t just_mapped;

/* ---- start ------------------------------------------------------------------------- */

/* The limit in bytes: a percentage applies to the machine's memory and is capped; a size
 * applies as given. */
static uint64_t idle_limit_of(uint64_t share)
{
    struct gs_machine_memory memory;
    if (!(share & GS_SHARE_PARTS)) {
        return share;
    }
    uint64_t limit = gs_machine_memory_read("", &memory)
                         ? gs_share_bytes(share, memory.total_bytes)
                         : IDLE_MAX_BYTES;
    return limit < IDLE_MAX_BYTES ? limit : IDLE_MAX_BYTES;
}

enum gs_status gs_host_start(struct gs_state *state, size_t cache_bytes)
{
    const struct gs_options *options = &state->options;
    struct gs_pool_config config = {.segment_bytes = options->pool_segment_bytes,
                                    .cache_bytes = cache_bytes / CACHE_SHARE,
                                    .age_ms = options->pool_trim_interval_ms,
                                    .large_step_bytes = LARGE_STEP_BYTES,
                                    .strict_idle = true};
    long page = sysconf(_SC_PAGESIZE);
    settings.page_bytes = page > 0 ? (size_t)page : 4096;
    settings.idle_limit = idle_limit_of(options->host_release);
    settings.clear = (enum gs_host_clear)options->host_clear;
    if (!options->host_pool) {
        return GS_OK;
    }
    enum gs_status status = gs_pool_create(&config, &state->host_pool);
    if (status == GS_OK) {
        struct gs_pool_limits limits = {.reserved_bytes = SIZE_MAX,
                                        .idle_bytes = (size_t)settings.idle_limit};
        gs_pool_set_limits(state->host_pool, 0, &limits);
    }
    return status;
}

void gs_host_set_cache(const struct gs_state *state, size_t cache_bytes)
{
    if (state->host_pool) {
        (void)gs_pool_set_cache(state->host_pool, cache_bytes / CACHE_SHARE, 0, 0);
    }
}

void gs_host_reset(void)
{
    gs_mutex_init(&making, GS_RANK_HOST_HEAPS);
    __atomic_store_n(&held_bytes, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&any_heap, false, __ATOMIC_RELAXED);
    just_mapped = 0;
}

uint64_t gs_host_idle_limit(void)
{
    return settings.idle_limit;
}

/* ---- the backend ------------------------------------------------------------------- */

/* The bytes missing from the reserve left to other processes, after `wanted` bytes are
 * taken. */
static uint64_t missing_of(const struct gs_machine_memory *memory, uint64_t wanted)
{
    uint64_t reserve = memory->total_bytes / RESERVE_SHARE;
    reserve = (reserve < RESERVE_MAX_BYTES ? reserve : RESERVE_MAX_BYTES) + wanted;
    return memory->available_bytes < reserve ? reserve - memory->available_bytes : 0;
}

uint64_t gs_host_missing_reserve(void)
{
    struct gs_machine_memory memory;
    return gs_machine_memory_recent("", gs_now_coarse_ns(), &memory)
               ? missing_of(&memory, 0)
               : 0;
}

/* Whether the pool may grow by this many bytes. A request is refused only on a fresh
 * answer. */
static bool has_room_for(uint64_t bytes)
{
    struct gs_machine_memory memory;
    return !gs_machine_memory_recent("", gs_now_coarse_ns(), &memory) ||
           !missing_of(&memory, bytes) || !gs_machine_memory_read("", &memory) ||
           !missing_of(&memory, bytes);
}

/* Allocates pinned memory of the heap's flags, if the reserve for other processes allows
 * it. */
static enum gs_status backend_map(void *self, size_t bytes, uint64_t *addr, int *native)
{
    struct gs_host_heap *own = self;
    void *found = NULL;
    struct gs_visit visit;
    *native = CUDA_ERROR_OUT_OF_MEMORY;
    if (!has_room_for(bytes)) {
        return GS_ERR_NOMEM; /* the caller reclaims idle memory, or asks the driver */
    }
    CUresult result =
        gs_visit_begin(&visit, "cuMemHostAlloc", own->context->handle, false);
    if (result == CUDA_SUCCESS) {
        result = own->key == GS_HOST_PLAIN
                     ? gs_real()->cuMemAllocHost_v2(&found, bytes)
                     : gs_real()->cuMemHostAlloc(&found, bytes, own->key);
    }
    gs_visit_end(&visit);
    if (result == CUDA_SUCCESS) {
        *addr = just_mapped = (uint64_t)(uintptr_t)found;
        gs_checkers_returned(&settings); /* as mapped by this thread */
        const struct gs_driver_range range =
            gs_range_in(own->context, GS_MEMORY_PINNED, *addr, bytes);
        gs_tell_range_added(&range);
        gs_machine_memory_taken((int64_t)bytes);
        if (bytes >= GS_LARGE_BYTES &&
            !__atomic_load_n(&own->page_state, __ATOMIC_RELAXED)) {
            __atomic_store_n(&own->page_state, gs_page_state_read(*addr),
                             __ATOMIC_RELAXED);
        }
        if (!__atomic_load_n(&gs_trim_thread_settled, __ATOMIC_RELAXED)) {
            gs_heap_set_due(own->heap); /* the next free starts the thread */
        }
        return GS_OK;
    }
    *native = (int)result;
    return result == CUDA_ERROR_OUT_OF_MEMORY ? GS_ERR_NOMEM : GS_ERR_BACKEND;
}

static void backend_unmap(void *self, uint64_t addr, size_t bytes)
{
    const struct gs_host_heap *own = self;
    static struct gs_log_limit limit;
    struct gs_visit visit;
    const struct gs_driver_range range =
        gs_range_in(own->context, GS_MEMORY_PINNED, addr, bytes);
    gs_tell_range_leaving(&range);
    CUresult result = gs_visit_begin(&visit, "returning memory", own->context->handle,
                                     gs_captures_ever());
    if (result == CUDA_SUCCESS) {
        result = gs_real()->cuMemFreeHost((void *)(uintptr_t)addr);
    }
    gs_visit_end(&visit);
    gs_tell_range_gone(&range, result == CUDA_SUCCESS);
    if (result == CUDA_SUCCESS) {
        gs_machine_memory_taken(-(int64_t)bytes);
    } else {
        gs_log_once(&limit, GS_LOG_INFO,
                    "the driver failed to free %zu bytes of pinned memory (error %d)",
                    bytes, (int)result);
    }
}

static bool backend_idle(void *self)
{
    const struct gs_host_heap *own = self;
    struct gs_state *state = gs_state_peek();
    return state && !gs_captures_active() &&
           gs_context_counts_idle(&state->contexts, own->context);
}

static bool backend_await_idle(void *self)
{
    const struct gs_host_heap *own = self;
    struct gs_state *state = gs_state_peek();
    return !state || gs_full_wait(state, own->context);
}

static enum gs_status backend_fence_query(void *self, gs_fence fence)
{
    struct gs_state *state = gs_state_peek();
    uint64_t point = fence >> HELD_BITS;
    (void)self;
    return state && point < POINT_MAX && gs_all_complete(state, point, NULL)
               ? GS_OK
               : GS_ERR_TIMEOUT;
}

static void backend_fence_release(void *self, gs_fence fence)
{
    (void)self;
    __atomic_sub_fetch(&held_bytes, (fence & HELD_MASK) * HELD_UNIT_BYTES,
                       __ATOMIC_RELAXED);
}

static void backend_retired(void *self, uint64_t addr, gs_fence fence)
{
    (void)self;
    (void)fence;
    gs_notify_retire(addr, NULL);
}

static const struct gs_backend backend = {
    .map = backend_map,
    .unmap = backend_unmap,
    .quiet = backend_idle,
    .await_idle = backend_await_idle,
    .fence_query = backend_fence_query,
    .fence_release = backend_fence_release,
    .retired = backend_retired,
};

/* ---- the heaps --------------------------------------------------------------------- */

static GS_NOINLINE struct gs_host_heap *make_heap(struct gs_state *state,
                                                  const struct gs_context *context,
                                                  unsigned key,
                                                  struct gs_host_heap **slot)
{
    struct gs_host_heap *made = NULL;
    gs_mutex_lock(&making);
    made = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (!made && (made = calloc(1, sizeof(*made))) != NULL) {
        *made = (struct gs_host_heap){.context = context, .key = key};
        if (gs_heap_create(state->host_pool, &backend, made, 0, &made->heap) == GS_OK) {
            __atomic_store_n(slot, made, __ATOMIC_RELEASE);
            __atomic_store_n(&any_heap, true, __ATOMIC_RELAXED);
        } else {
            free(made);
            made = NULL;
        }
    }
    gs_mutex_unlock(&making);
    return made;
}

/* The context's heap for the key, created on first use; NULL: no memory for a heap. */
static inline struct gs_heap *heap_of(struct gs_state *state,
                                      const struct gs_context *context, unsigned key,
                                      bool paged)
{
    /* The entry belongs to the context map, this member to this file. */
    struct gs_host_heap **slot =
        &((struct gs_context *)(uintptr_t)context)->host[2 * key + (paged ? 1 : 0)];
    struct gs_host_heap *own = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (GS_UNLIKELY(!own)) {
        own = make_heap(state, context, key, slot);
    }
    return own ? own->heap : NULL;
}

void gs_host_context_end(struct gs_context *context)
{
    for (unsigned i = 0; i < GS_HOST_HEAPS; i++) {
        struct gs_host_heap *own = __atomic_load_n(&context->host[i], __ATOMIC_ACQUIRE);
        if (own) {
            gs_heap_kill(own->heap);
            gs_heap_end(own->heap);
        }
    }
}

void gs_host_context_fails(const struct gs_context *context)
{
    for (unsigned i = 0; i < GS_HOST_HEAPS; i++) {
        const struct gs_host_heap *own =
            __atomic_load_n(&context->host[i], __ATOMIC_ACQUIRE);
        if (own) {
            gs_heap_poison(own->heap);
        }
    }
}

/* ---- allocate ---------------------------------------------------------------------- */

/* Whether too much is held back for the pool to grow; queries the fences first. */
static GS_NOINLINE bool holds_too_much(struct gs_state *state)
{
    uint64_t limit = settings.idle_limit / 4;
    limit = limit < HELD_MAX_BYTES ? limit : HELD_MAX_BYTES;
    if (__atomic_load_n(&held_bytes, __ATOMIC_RELAXED) <= limit) {
        return false;
    }
    (void)gs_pool_idle_bytes(state->host_pool, 0); /* queries the fences */
    return __atomic_load_n(&held_bytes, __ATOMIC_RELAXED) > limit;
}

static inline void clear(uint64_t addr, size_t bytes)
{
    if (settings.clear == GS_HOST_CLEAR_ALL ||
        (settings.clear == GS_HOST_CLEAR_LARGE && bytes >= GS_LARGE_BYTES &&
         addr != just_mapped)) {
        memset((void *)(uintptr_t)addr, 0, bytes);
    }
}

/* Serves a request that the thread cache cannot. */
static GS_NOINLINE enum gs_status alloc_deeper(struct gs_heap *heap, size_t bytes,
                                               struct gs_block **out)
{
    int native;
    gs_pool_thread_stream(gs_submissions_stream());
    just_mapped = 0;
    return gs_heap_alloc(heap, bytes, out, &native);
}

enum gs_status gs_host_alloc(struct gs_state *state, const struct gs_context *context,
                             unsigned key, size_t bytes, struct gs_block **out)
{
    bool paged = bytes >= settings.page_bytes;
    if (GS_UNLIKELY(!state->host_pool || !context || !context->heap || bytes == 0 ||
                    bytes > SIZE_MAX / 2 || gs_captures_active() ||
                    (__atomic_load_n(&held_bytes, __ATOMIC_RELAXED) > 0 &&
                     holds_too_much(state)))) {
        return GS_ERR_UNPOOLABLE;
    }
    struct gs_heap *heap = heap_of(state, context, key, paged);
    if (GS_UNLIKELY(!heap)) {
        return GS_ERR_HOST_NOMEM;
    }
    size_t rounded = paged ? gs_round_up(bytes, settings.page_bytes) : bytes;
    struct gs_block *block = gs_hit_alloc(heap, rounded);
    if (GS_UNLIKELY(!block)) {
        enum gs_status status = alloc_deeper(heap, rounded, &block);
        if (status != GS_OK) {
            return status;
        }
    }
    gs_checkers_handed_out(&settings);
    clear(gs_hit_addr(block), bytes);
    *out = block;
    return GS_OK;
}

/* ---- free -------------------------------------------------------------------------- */

static GS_NOINLINE CUresult wait_for(struct gs_state *state,
                                     const struct gs_context *context,
                                     const struct gs_block *block)
{
    /* free_held() covers every context that may use the block. */
    return gs_free_wait_other(state, context, "cuMemFreeHost", gs_block_addr(block),
                              gs_block_requested(block));
}

/* Restores the state of a large block's pages before the block is freed. If that fails,
 * the driver gets the memory back. Small blocks share pages, as the driver's small
 * allocations do. */
static void restore_pages(struct gs_state *state, const struct gs_block *block)
{
    const struct gs_host_heap *own = gs_heap_self(gs_block_heap(block));
    unsigned made = __atomic_load_n(&own->page_state, __ATOMIC_RELAXED);
    size_t bytes = gs_block_requested(block);
    if (bytes >= GS_LARGE_BYTES &&
        !gs_page_state_restore(gs_block_addr(block), bytes, made)) {
        gs_host_retain(state, gs_block_addr(block));
    }
}

/* Frees a block that contexts may still use which nobody has waited for. */
static void free_held(struct gs_state *state, struct gs_block *block, uint64_t point,
                      bool may_unmap)
{
    size_t bytes = gs_block_requested(block);
    uint64_t units = (bytes + HELD_UNIT_BYTES - 1) / HELD_UNIT_BYTES;
    units = units < HELD_MASK ? units : HELD_MASK;
    bool too_much =
        __atomic_load_n(&held_bytes, __ATOMIC_RELAXED) + bytes > settings.idle_limit / 4;
    if (may_unmap && bytes >= GS_LARGE_BYTES && too_much &&
        gs_pool_retain(state->host_pool, gs_block_addr(block)) == GS_OK) {
        gs_block_free(block); /* the last of its segment: ends in the native free */
        return;
    }
    point = point < POINT_MAX ? point : POINT_MAX;
    __atomic_add_fetch(&held_bytes, units * HELD_UNIT_BYTES, __ATOMIC_RELAXED);
    gs_block_free_fenced(block, point << HELD_BITS | units);
}

/* Frees a block while work may be running. */
static GS_NOINLINE CUresult free_busy(struct gs_state *state, struct gs_block *block,
                                      uint64_t addr)
{
    uint64_t point = gs_all_complete_point();
    struct gs_heap *heap = gs_block_heap(block);
    const struct gs_host_heap *own = gs_heap_self(heap);
    bool waited = !gs_captures_active(), checked = false;
    CUresult result =
        waited
            ? wait_for(state, own->context, block)
            : gs_capture_check_free(state, (struct gs_context *)(uintptr_t)own->context,
                                    GS_CAPTURE_CHECK_PINNED, &checked);
    if (waited ? gs_wait_keeps_memory(result) : result != CUDA_SUCCESS) {
        gs_block_release_claim(block);
        return result;
    }
    waited = (waited && !gs_refused_for_capture(result)) || checked;
    bool done =
        waited && result == CUDA_SUCCESS && gs_all_complete(state, point, own->context);
    gs_tell_block_freed(state, block, GS_API_cuMemFreeHost, addr,
                        done ? GS_TRACE_WAITED : GS_TRACE_HELD);
    restore_pages(state, block);
    if (!waited) {
        free_held(state, block, point, false);
        return CUDA_SUCCESS;
    }
    if (result != CUDA_SUCCESS) {
        /* As for device memory: the running work is unknown, so nothing is reused. */
        gs_context_record_error(own->context, result);
        gs_heap_poison(heap);
        gs_block_free(block);
        return result;
    }
    if (done) {
        gs_block_free(block);
    } else {
        /* Unmapping waits, as the native free of a segment does. */
        free_held(state, block, point, !checked);
    }
    if (gs_heap_wants_maintenance(heap)) {
        gs_host_maintain(state, own->context);
    }
    return CUDA_SUCCESS;
}

/* Whether a free needs neither a wait nor a held-back block. */
static inline bool is_idle(struct gs_state *state, const struct gs_context *context)
{
    return GS_LIKELY(!gs_captures_active()) &&
           GS_LIKELY(
               gs_context_is_idle_for(&state->contexts, context, GS_API_cuMemFreeHost)) &&
           (GS_LIKELY(gs_all_contexts_are_one()) ||
            gs_all_complete(state, gs_all_complete_point(), context));
}

CUresult gs_host_free(struct gs_state *state, struct gs_block *block, uint64_t addr)
{
    struct gs_heap *heap = gs_hit_heap(block);
    const struct gs_host_heap *own = heap->self;
    bool maintenance;
    gs_checkers_returned(&settings);
    if (GS_UNLIKELY(!is_idle(state, own->context))) {
        return free_busy(state, block, addr);
    }
    gs_tell_block_freed_by(state, block->live.tag, GS_API_cuMemFreeHost, addr,
                           GS_TRACE_READY);
    if (GS_UNLIKELY(!gs_hit_free(heap, block, &maintenance))) {
        restore_pages(state, block);
        gs_pool_thread_stream(gs_submissions_stream());
        gs_block_free(block);
        maintenance = gs_heap_wants_maintenance(heap);
    }
    if (GS_UNLIKELY(maintenance) && gs_heap_maintenance_is_late(heap)) {
        gs_host_maintain(state, own->context);
    }
    return CUDA_SUCCESS;
}

/* ---- reclaiming ------------------------------------------------------------------- */

void gs_host_retain(struct gs_state *state, uint64_t addr)
{
    if (state->host_pool && gs_pool_retain(state->host_pool, addr) != GS_OK) {
        return; /* not the pool's */
    }
}

size_t gs_host_trim(struct gs_state *state)
{
    return state->host_pool ? gs_pool_trim(state->host_pool, 0, SIZE_MAX) : 0;
}

void gs_host_maintain(struct gs_state *state, const struct gs_context *context)
{
    uint64_t missing = UINT64_MAX;
    gs_trim_thread_want();
    if (!state->host_pool || !__atomic_load_n(&any_heap, __ATOMIC_RELAXED) ||
        gs_captures_active()) {
        return;
    }
    for (unsigned i = 0; i < GS_HOST_HEAPS; i++) {
        struct gs_host_heap *own = __atomic_load_n(&context->host[i], __ATOMIC_ACQUIRE);
        if (!own) {
            continue;
        }
        if (missing == UINT64_MAX) {
            missing = gs_host_missing_reserve();
        }
        if (!missing && !gs_heap_maintenance_is_late(own->heap)) {
            continue; /* device memory is due, possibly with every free */
        }
        size_t given = gs_heap_maintain(own->heap, (size_t)missing);
        missing -= given < missing ? given : missing;
    }
}

bool gs_host_has_aged(struct gs_state *state, const struct gs_context *context)
{
    bool aged = false;
    for (unsigned i = 0; state->host_pool && !aged && i < GS_HOST_HEAPS; i++) {
        struct gs_host_heap *own = __atomic_load_n(&context->host[i], __ATOMIC_ACQUIRE);
        aged = own && gs_heap_has_aged(own->heap);
    }
    return aged;
}

void gs_host_give_aged(struct gs_state *state, const struct gs_context *context,
                       bool (*may)(void *self), void *self)
{
    for (unsigned i = 0; state->host_pool && i < GS_HOST_HEAPS; i++) {
        struct gs_host_heap *own = __atomic_load_n(&context->host[i], __ATOMIC_ACQUIRE);
        if (own) {
            (void)gs_heap_give_aged(own->heap, 0, may, self);
        }
    }
}

bool gs_host_has_served(void)
{
    return __atomic_load_n(&any_heap, __ATOMIC_RELAXED);
}

void gs_host_log(struct gs_state *state)
{
    struct gs_pool_stats stats = {0};
    if (state->host_pool) {
        gs_pool_stats(state->host_pool, -1, &stats);
    }
    if (stats.allocs > 0) {
        gs_log_line(
            GS_LOG_INFO,
            "pinned memory: %llu of %llu requests to the pool were served without "
            "the driver, %llu bytes reserved at most",
            (unsigned long long)stats.hits, (unsigned long long)stats.allocs,
            (unsigned long long)stats.reserved_peak_bytes);
    }
}
