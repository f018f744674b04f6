/*
 * alloc.c - requests served from memory the heap already has.
 *
 * Sizes a request, takes the best hole of the shared segments or the closest cached large
 * segment, and splits. What cannot be served here goes to grow.c.
 *
 * Owns: nothing.   Lock: heap->lock.   Design: docs/pool.md, "Sizes" and "Small requests"
 */
#include "heap.h"

static inline struct gs_request size_request(size_t bytes)
{
    struct gs_request request = {.bytes = bytes, .large = bytes >= GS_LARGE_BYTES};

    request.rounded = gs_round_up(bytes, request.large ? GS_LARGE_BYTES : GS_BLOCK_BYTES);
    request.units = (uint32_t)(request.rounded / GS_BLOCK_BYTES);
    return request;
}

enum gs_status gs_heap_stock(struct gs_heap *heap)
{
    enum gs_status status = gs_stock_fill(&heap->pool->blocks, &heap->spare_blocks, 2);

    if (status != GS_OK)
        return status;
    return gs_stock_fill(&heap->pool->nodes, &heap->spare_nodes, GS_STARTS_DEPTH);
}

/* Cut what lies behind the first `units` of `block` off as a free neighbour. */
static inline struct gs_block *split(struct gs_heap *heap, struct gs_block *block,
                                     uint32_t units)
{
    struct gs_pool *pool = heap->pool;
    struct gs_block *rest = gs_block_new(heap);

    rest->segment = block->segment;
    rest->offset = block->offset + units;
    rest->units = block->units - units;
    rest->state = GS_BLOCK_FREE;
    rest->prev = block->id;
    rest->next = block->next;
    if (block->next)
        gs_block_at(pool, block->next)->prev = rest->id;
    block->next = rest->id;
    block->units = units;
    return rest;
}

struct gs_block *gs_heap_carve(struct gs_heap *heap, struct gs_block *hole,
                               const struct gs_request *request)
{
    const struct gs_table *blocks = &heap->pool->blocks;
    struct gs_segment *segment = hole->segment;
    struct gs_block *block = hole;
    uint32_t head =
        request->units < GS_ALIGNED_UNITS ? 0 : -hole->offset & (GS_ALIGNED_UNITS - 1);

    gs_bins_drop(blocks, heap->bins, hole);
    if (segment->occupied++ == 0)
        gs_segment_wake(heap, segment);
    if (head) {
        block = split(heap, hole, head);
        gs_bins_put(blocks, heap->bins, hole, &heap->seed);
    }
    if (block->units > request->units)
        gs_bins_put(blocks, heap->bins, split(heap, block, request->units), &heap->seed);
    gs_starts_put(heap->pool, &heap->spare_nodes, block);
    block->state = GS_BLOCK_LIVE;
    block->live.requested = (uint32_t)request->bytes;
    block->live.tag = 0;
    heap->small_units += block->units;
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
    segment->requested = request->bytes;
    block->state = GS_BLOCK_LIVE;
    block->live.tag = 0;
    heap->stats.live_bytes += request->bytes;
    heap->stats.used_bytes += segment->bytes;
    heap->stats.asked_bytes += request->bytes;
    heap->stats.given_bytes += segment->bytes;
    heap->stats.allocs++;
}

/* The smallest cached segment that is big enough, if it is not an eighth too big. */
static struct gs_block *fit_large(struct gs_heap *heap, const struct gs_request *request)
{
    struct gs_block *block =
        gs_tree_fit(&heap->pool->blocks, &heap->large, request->units);

    if (!block || block->units > request->units + request->units / 8)
        return NULL;
    return block;
}

enum gs_status gs_heap_try(struct gs_heap *heap, const struct gs_request *request,
                           struct gs_block **out)
{
    struct gs_block *block;
    enum gs_status status;

    if (GS_UNLIKELY(!gs_heap_usable(heap)))
        return GS_ERR_UNPOOLABLE;
    if (request->large) {
        block = fit_large(heap, request);
        if (!block)
            return GS_ERR_NOT_FOUND;
        gs_segment_wake(heap, block->segment);
        gs_tree_drop(&heap->pool->blocks, &heap->large, block);
        gs_heap_occupy(heap, block, request);
        *out = block;
        return GS_OK;
    }
    block = gs_bins_fit(&heap->pool->blocks, heap->bins, request->units);
    if (!block)
        return GS_ERR_NOT_FOUND;
    status = gs_heap_stock(heap);
    if (status != GS_OK)
        return status;
    *out = gs_heap_carve(heap, block, request);
    return GS_OK;
}

enum gs_status gs_heap_alloc(struct gs_heap *heap, size_t bytes, struct gs_block **out,
                             int *native)
{
    struct gs_request request;
    enum gs_status status;

    /* Nothing, or more than a block's units can say: the driver has its own answer. */
    if (GS_UNLIKELY(bytes - 1 >= GS_REQUEST_MAX))
        return GS_ERR_UNPOOLABLE;
    request = size_request(bytes);
    gs_lock_take(&heap->lock);
    status = gs_heap_try(heap, &request, out);
    if (status == GS_OK)
        heap->stats.hits++;
    gs_lock_drop(&heap->lock);
    if (GS_LIKELY(status != GS_ERR_NOT_FOUND))
        return status;
    return gs_heap_grow(heap, &request, out, native);
}

uint64_t gs_block_addr(const struct gs_block *block)
{
    return block->segment->addr + (uint64_t)block->offset * GS_BLOCK_BYTES;
}

size_t gs_block_requested(const struct gs_block *block)
{
    return block->segment->shared ? block->live.requested : block->segment->requested;
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
