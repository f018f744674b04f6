/*
 * alloc.c - the steps of a request: the thread cache of the calling thread, the cache
 * tiers below it, the segments (fit.c), and at last a new segment (grow.c).
 *
 * Owns: nothing.   Lock: heap->lock, except for the cache tiers.
 * Design: docs/pool.md, "Sizes" and "Cache tiers"
 */
#include "pool/fit.h"
#include "pool/grow.h"
#include "pool/hit.h"
#include "pool/policy.h"

static_assert(GS_SHARED_MAX_BYTES <= UINT32_MAX, "a shared block's bytes fit 32 bits");

/* Computes a request's sizes. `size` is the space needed, `bytes` or more. */
static struct gs_request size_request(const struct gs_pool *pool, size_t bytes,
                                      size_t size)
{
    struct gs_request request = {.bytes = bytes, .large = size >= GS_LARGE_BYTES};

    request.rounded =
        gs_round_up(size, request.large ? pool->large_step_bytes : GS_BLOCK_BYTES);
    request.units = (uint32_t)(request.rounded / GS_BLOCK_BYTES);
    if (request.rounded <= GS_SHARED_MAX_BYTES) {
        request.cut_units = (uint32_t)gs_round_up(
            request.units, request.large ? GS_LARGE_UNITS : GS_CUT_UNITS);
    }
    return request;
}

/* Rounds a request to the user's size classes. On a full device the request takes only
 * its own size, so that rounding does not fail a running program. `wanted` is the space
 * needed in any case, `bytes` or more. */
static struct gs_request size_by_class(struct gs_heap *heap, size_t bytes, size_t wanted)
{
    const struct gs_pool *pool = heap->pool;
    size_t size = gs_size_class(pool, wanted);
    struct gs_request request;

    if (size <= wanted ||
        atomic_load_explicit(&gs_headroom_of(heap)->refused, memory_order_relaxed)) {
        return size_request(pool, bytes, wanted);
    }
    request = size_request(pool, bytes, size);
    request.classed = true;
    return request;
}

/* Takes a block out of any of the cache tiers. Returns NULL if there is none. */
static struct gs_block *take_cached(struct gs_heap *heap,
                                    const struct gs_request *request)
{
    struct gs_tcache *tcache = gs_tcache_of(heap);
    struct gs_block *block;

    if (!tcache || !gs_tcache_enter(tcache)) {
        return NULL;
    }
    block = request->large ? gs_tiers_take_whole(tcache, request)
                           : gs_tiers_take(tcache, heap, request->units);
    if (block) {
        unsigned class = gs_class_of_units(block->units);

        if (class < GS_CLASS_COUNT) {
            tcache->stacks[class].hits++;
        } else {
            tcache->counts.whole_hits[class - GS_CLASS_COUNT]++;
        }
        gs_block_set_requested(block, request->bytes);
        gs_tcache_hand_out(tcache, block, request->bytes, gs_block_bytes(block));
    }
    gs_tcache_leave(tcache);
    return block;
}

/* Repeats a request that was enlarged and found no memory, with its own size. */
static enum gs_status grow_plainly(struct gs_heap *heap, size_t bytes,
                                   struct gs_block **out, int *native)
{
    struct gs_request request = size_request(heap->pool, bytes, bytes);

    gs_lock_take(&heap->lock);
    heap->stats.failed--; /* the request goes on */
    gs_lock_drop(&heap->lock);
    return gs_heap_grow(heap, &request, out, native);
}

/* Tries the cache tiers, the segments, and a new segment. */
static inline enum gs_status try_all(struct gs_heap *heap, size_t bytes, size_t behind,
                                     struct gs_block **out, int *native)
{
    struct gs_request request = size_by_class(heap, bytes, bytes + behind);
    struct gs_block *block = take_cached(heap, &request);
    enum gs_status status;

    if (block) {
        *out = block;
        return GS_OK;
    }
    gs_tiers_pass(heap, heap->tiers);
    gs_lock_take(&heap->lock);
    status = gs_heap_try(heap, &request, out);
    if (status == GS_OK) {
        gs_heap_hit(heap, *out);
    }
    gs_lock_drop(&heap->lock);
    if (GS_LIKELY(status != GS_ERR_NOT_FOUND)) {
        return status;
    }
    status = gs_heap_grow(heap, &request, out, native);
    if (status == GS_ERR_NOMEM && (request.classed || behind)) {
        status = grow_plainly(heap, bytes, out, native);
    }
    return status;
}

/* Whether to repeat a request that found no memory. */
static bool reclaim_for_retry(struct gs_heap *heap, size_t bytes, enum gs_status status)
{
    if (status == GS_ERR_UNPOOLABLE) {
        return gs_heap_reclaim(heap, bytes, GS_SHORTAGE_LIMIT);
    }
    return status == GS_ERR_NOMEM && gs_heap_reclaim(heap, bytes, GS_SHORTAGE_ALL);
}

enum gs_status gs_heap_alloc_behind(struct gs_heap *heap, size_t bytes, size_t behind,
                                    struct gs_block **out, int *native)
{
    enum gs_status status;

    /* The driver answers requests of 0 bytes, and those whose units overflow. */
    if (GS_UNLIKELY(bytes - 1 >= GS_REQUEST_MAX)) {
        return GS_ERR_UNPOOLABLE;
    }
    do {
        status = try_all(heap, bytes, behind, out, native);
    } while (GS_UNLIKELY(status != GS_OK) && reclaim_for_retry(heap, bytes, status));
    return status;
}

enum gs_status gs_heap_alloc(struct gs_heap *heap, size_t bytes, struct gs_block **out,
                             int *native)
{
    return gs_heap_alloc_behind(heap, bytes, 0, out, native);
}
