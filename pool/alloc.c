/*
 * alloc.c - requests served from memory the heap already has.
 *
 * Sizes a request and asks the calling thread's front, then the levels below it; then
 * takes the best hole of the shared segments or the closest cached large segment, and
 * splits. What cannot be served here goes to grow.c.
 *
 * Owns: nothing.   Lock: heap->lock, but for the levels.
 * Design: docs/pool.md, "Sizes", "Levels" and "Small requests"
 */
#include "hit.h"

static_assert(GS_SHARED_MAX_BYTES <= UINT32_MAX, "a shared block's bytes fit 32 bits");

/* `size`: what is made room for, `bytes` or more. */
static struct gs_request size_request(const struct gs_pool *pool, size_t bytes,
                                      size_t size)
{
    struct gs_request request = {.bytes = bytes, .large = size >= GS_LARGE_BYTES};

    request.rounded =
        gs_round_up(size, request.large ? pool->large_step_bytes : GS_BLOCK_BYTES);
    request.units = (uint32_t)(request.rounded / GS_BLOCK_BYTES);
    request.carved = request.large && pool->carve &&
                     request.rounded <= pool->segment_bytes &&
                     request.rounded <= GS_SHARED_MAX_BYTES;
    return request;
}

/* Rounded to the user's size classes, unless the device is full: then only what was asked
 * for is taken, so that they do not make a program fail that has begun. `wanted`: what is
 * made room for in any case, `bytes` or more. */
static struct gs_request size_by_class(struct gs_heap *heap, size_t bytes, size_t wanted)
{
    const struct gs_pool *pool = heap->pool;
    size_t size = gs_size_class(pool, wanted);
    struct gs_request request;

    if (size <= wanted ||
        atomic_load_explicit(&gs_room_of(heap)->refused, memory_order_relaxed))
        return size_request(pool, bytes, wanted);
    request = size_request(pool, bytes, size);
    request.classed = true;
    return request;
}

enum gs_status gs_heap_stock(struct gs_heap *heap)
{
    enum gs_status status = gs_stock_fill(&heap->pool->blocks, &heap->spare_blocks, 2);

    if (status != GS_OK)
        return status;
    return gs_starts_reserve(heap->pool, &heap->starts);
}

/* Cut what lies behind the first `units` of `block` off as a free neighbour. */
static inline struct gs_block *split(struct gs_heap *heap, struct gs_block *block,
                                     uint32_t units)
{
    struct gs_pool *pool = heap->pool;
    struct gs_block *rest = gs_block_new(heap);

    gs_block_place(rest, block->segment, block->offset + units, block->units - units);
    gs_block_become(rest, GS_BLOCK_FREE);
    rest->prev = block->id;
    rest->next = block->next;
    if (block->next)
        gs_block_at(pool, block->next)->prev = rest->id;
    block->next = rest->id;
    block->units = units;
    return rest;
}

/* Units of the hole in front of the block: one that starts at a page lies at the hole's
 * end where that alone is at one, so that nothing is left on both sides of it; or where
 * the hole begins, if that is all there is. */
static inline uint32_t head_of(const struct gs_block *hole, uint32_t units)
{
    uint32_t head = -hole->offset & (GS_PAGE_UNITS - 1);

    if (head == 0 || !gs_bins_aligned(units) || head + units > hole->units)
        return 0;
    return (hole->offset + hole->units) % GS_PAGE_UNITS ? head : hole->units - units;
}

/* An occupied block of `units` out of the hole; what it is for is yet to be said. */
static inline struct gs_block *cut_out(struct gs_heap *heap, struct gs_block *hole,
                                       uint32_t units)
{
    struct gs_segment *segment = hole->segment;
    struct gs_block *block = hole;
    uint32_t head = head_of(hole, units);

    gs_hole_drop(heap, hole);
    if (segment->occupied++ == 0) {
        gs_segment_wake(heap, segment);
        gs_slack_note(heap);
    }
    if (head) {
        block = split(heap, hole, head);
        gs_hole_put(heap, hole);
    }
    if (block->units > units)
        gs_hole_put(heap, split(heap, block, units));
    gs_starts_put(&heap->starts, block);
    *gs_units_in(heap, segment) += block->units;
    return block;
}

struct gs_block *gs_heap_cut(struct gs_heap *heap, uint32_t units)
{
    struct gs_block *block =
        gs_heap_usable(heap) ? gs_bins_fit(&heap->pool->blocks, heap->bins, units) : NULL;

    /* An idle segment stays so: it could be given back. */
    if (!block || !block->segment->occupied || gs_heap_stock(heap) != GS_OK)
        return NULL;
    block = cut_out(heap, block, units);
    gs_block_begin(block, GS_BLOCK_CACHED);
    return block;
}

struct gs_block *gs_heap_carve(struct gs_heap *heap, struct gs_block *hole,
                               const struct gs_request *request)
{
    struct gs_block *block = cut_out(heap, hole, request->units);

    gs_block_tenant(block, request->bytes);
    gs_block_begin(block, GS_BLOCK_LIVE);
    heap->stats.live_bytes += request->bytes;
    heap->stats.used_bytes += block->units * GS_BLOCK_BYTES;
    heap->stats.asked_bytes += request->bytes;
    heap->stats.given_bytes += block->units * GS_BLOCK_BYTES;
    heap->stats.allocs++;
    return block;
}

void gs_heap_occupy(struct gs_heap *heap, struct gs_block *block,
                    const struct gs_request *request)
{
    struct gs_segment *segment = block->segment;

    segment->occupied = 1;
    gs_slack_begin(heap, segment, request->rounded);
    gs_block_tenant(block, request->bytes);
    gs_block_begin(block, GS_BLOCK_LIVE);
    heap->stats.live_bytes += request->bytes;
    heap->stats.used_bytes += segment->bytes;
    heap->stats.asked_bytes += request->bytes;
    heap->stats.given_bytes += segment->bytes;
    heap->stats.allocs++;
}

/* A cached segment that the request may have, or a hole of a carved one; NULL: none. */
static struct gs_block *fit_large(struct gs_heap *heap, const struct gs_request *request,
                                  enum gs_closeness closeness)
{
    const struct gs_table *blocks = &heap->pool->blocks;
    struct gs_block *block = NULL;

    if (request->carved) {
        for (int i = 0; i < GS_CARVED_PARTS && !block; i++)
            block = gs_tree_fit(blocks, &heap->carved[i], request->units);
        return block;
    }
    block = gs_large_fit(blocks, heap->large, request->units);
    return block && gs_slack_allows(heap, request, block->units, closeness) ? block
                                                                            : NULL;
}

/* The block becomes the request's: a cached segment whole, a hole as far as needed. */
static enum gs_status serve(struct gs_heap *heap, const struct gs_request *request,
                            struct gs_block *block, struct gs_block **out)
{
    enum gs_status status;

    if (!block)
        return GS_ERR_NOT_FOUND;
    if (block->segment->shared) {
        status = gs_heap_stock(heap);
        if (status != GS_OK)
            return status;
        *out = gs_heap_carve(heap, block, request);
        return GS_OK;
    }
    gs_large_drop(&heap->pool->blocks, heap->large, block);
    gs_heap_occupy(heap, block, request);
    gs_segment_wake(heap, block->segment);
    gs_slack_note(heap);
    *out = block;
    return GS_OK;
}

enum gs_status gs_heap_try(struct gs_heap *heap, const struct gs_request *request,
                           struct gs_block **out)
{
    struct gs_block *block;

    if (GS_UNLIKELY(!gs_heap_usable(heap)))
        return GS_ERR_UNPOOLABLE;
    block = request->large ? fit_large(heap, request, GS_CLOSE)
                           : gs_bins_fit(&heap->pool->blocks, heap->bins, request->units);
    return serve(heap, request, block, out);
}

enum gs_status gs_heap_try_anywhere(struct gs_heap *heap,
                                    const struct gs_request *request,
                                    struct gs_block **out)
{
    if (GS_UNLIKELY(!gs_heap_usable(heap)))
        return GS_ERR_UNPOOLABLE;
    return serve(heap, request,
                 gs_bins_fit_anywhere(&heap->pool->blocks, heap->bins, request->units),
                 out);
}

enum gs_status gs_heap_try_loosely(struct gs_heap *heap, const struct gs_request *request,
                                   struct gs_block **out)
{
    if (GS_UNLIKELY(!gs_heap_usable(heap)))
        return GS_ERR_UNPOOLABLE;
    if (!request->large)
        return gs_heap_try(heap, request, out);
    return serve(heap, request, fit_large(heap, request, GS_LOOSE), out);
}

/* From any of the levels, or NULL. */
static struct gs_block *take_cached(struct gs_heap *heap,
                                    const struct gs_request *request)
{
    struct gs_front *front = gs_front_of(heap);
    struct gs_block *block;

    if (!front || !gs_front_enter(front))
        return NULL;
    block = request->large ? gs_levels_take_whole(front, request->units)
                           : gs_levels_take(front, heap, request->units);
    if (block) {
        unsigned class = gs_class_of_units(block->units);

        if (class < GS_CLASS_COUNT)
            front->stacks[class].hits++;
        else
            front->counts.whole_hits[class - GS_CLASS_COUNT]++;
        gs_block_tenant(block, request->bytes);
        gs_front_hand_out(front, block, request->bytes, gs_block_bytes(block));
    }
    gs_front_leave(front);
    return block;
}

/* There is no memory for a request that was made larger: once more, as it was asked for.
 */
static enum gs_status grow_plainly(struct gs_heap *heap, size_t bytes,
                                   struct gs_block **out, int *native)
{
    struct gs_request request = size_request(heap->pool, bytes, bytes);

    gs_lock_take(&heap->lock);
    heap->stats.failed--; /* it is not over yet */
    gs_lock_drop(&heap->lock);
    return gs_heap_grow(heap, &request, out, native);
}

static GS_NOINLINE enum gs_status alloc_slowly(struct gs_heap *heap, size_t bytes,
                                               size_t behind, struct gs_block **out,
                                               int *native)
{
    struct gs_request request;
    struct gs_block *block;
    enum gs_status status;

    /* Nothing, or more than a block's units can say: the driver has its own answer. */
    if (GS_UNLIKELY(bytes - 1 >= GS_REQUEST_MAX))
        return GS_ERR_UNPOOLABLE;
    request = size_by_class(heap, bytes, bytes + behind);
    block = take_cached(heap, &request);
    if (block) {
        *out = block;
        return GS_OK;
    }
    gs_levels_pass(heap);
    gs_lock_take(&heap->lock);
    status = gs_heap_try(heap, &request, out);
    if (status == GS_OK)
        gs_heap_hit(heap, *out);
    gs_lock_drop(&heap->lock);
    if (GS_LIKELY(status != GS_ERR_NOT_FOUND))
        return status;
    status = gs_heap_grow(heap, &request, out, native);
    if (status == GS_ERR_NOMEM && (request.classed || behind))
        status = grow_plainly(heap, bytes, out, native);
    return status;
}

enum gs_status gs_heap_alloc_behind(struct gs_heap *heap, size_t bytes, size_t behind,
                                    struct gs_block **out, int *native)
{
    return alloc_slowly(heap, bytes, behind, out, native);
}

enum gs_status gs_heap_alloc(struct gs_heap *heap, size_t bytes, struct gs_block **out,
                             int *native)
{
    struct gs_block *block = gs_hit_alloc(heap, bytes);

    if (GS_UNLIKELY(!block))
        return alloc_slowly(heap, bytes, 0, out, native);
    *out = block;
    return GS_OK;
}

uint64_t gs_block_addr(const struct gs_block *block)
{
    return gs_hit_addr(block);
}

size_t gs_block_room(const struct gs_block *block)
{
    return gs_block_bytes(block);
}

size_t gs_block_requested(const struct gs_block *block)
{
    if (block->segment->shared)
        return __atomic_load_n(&block->live.requested, __ATOMIC_RELAXED);
    return __atomic_load_n(&block->segment->requested, __ATOMIC_RELAXED);
}

struct gs_heap *gs_block_heap(const struct gs_block *block)
{
    return gs_segment_heap(block->segment);
}

void gs_block_set_tag(struct gs_block *block, uint32_t tag)
{
    block->live.tag = tag;
}

uint32_t gs_block_tag(const struct gs_block *block)
{
    return block->live.tag;
}

void *gs_heap_self(const struct gs_heap *heap)
{
    return heap->self;
}
