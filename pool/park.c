/*
 * park.c - from an address back to its block, and from a block back to free memory.
 *
 * Claiming is separate from parking because the caller has work to do in between that may
 * take long or fail (waiting for the device, the books of the tracker): from the claim on
 * the address is nobody's, and a second free of it is told so.
 *
 * Owns: nothing.   Lock: heap->lock.   Design: docs/pool.md, "A free"
 */
#include "heap.h"

/*
 * The mapped segment that holds `addr`, its heap locked; NULL, and nothing locked, if
 * there is none. The record may be reused between the look-up and the lock: what the map
 * says under the lock decides.
 */
static inline struct gs_segment *lock_segment(struct gs_pool *pool, uint64_t addr)
{
    for (;;) {
        struct gs_segment *segment = gs_pages_find(&pool->pages, addr);
        struct gs_heap *heap;

        if (!segment)
            return NULL;
        heap = gs_segment_heap(segment);
        gs_lock_take(&heap->lock);
        if (GS_LIKELY(gs_pages_find(&pool->pages, addr) == segment &&
                      gs_segment_heap(segment) == heap)) {
            if (segment->mapped && addr - segment->addr < segment->bytes)
                return segment;
            gs_lock_drop(&heap->lock);
            return NULL;
        }
        gs_lock_drop(&heap->lock);
    }
}

/* The occupied block that starts at `addr`, or NULL. */
static struct gs_block *block_at(struct gs_pool *pool, struct gs_segment *segment,
                                 uint64_t addr)
{
    uint64_t offset = addr - segment->addr;

    if (!segment->shared)
        return offset ? NULL : gs_block_at(pool, segment->first);
    if (offset % GS_BLOCK_BYTES)
        return NULL;
    return gs_starts_find(pool, segment, (uint32_t)(offset / GS_BLOCK_BYTES));
}

enum gs_status gs_pool_claim(struct gs_pool *pool, uint64_t addr, struct gs_block **out)
{
    struct gs_segment *segment = lock_segment(pool, addr);
    enum gs_status status = GS_ERR_BAD_FREE;
    struct gs_block *block;

    if (!segment)
        return GS_ERR_NOT_OURS;
    block = block_at(pool, segment, addr);
    if (GS_LIKELY(block && block->state == GS_BLOCK_LIVE)) {
        block->state = GS_BLOCK_CLAIMED;
        *out = block;
        status = GS_OK;
    }
    gs_lock_drop(&gs_segment_heap(segment)->lock);
    return status;
}

/* `block` takes over its neighbour `next`, which is free; the record of that is spare. */
static inline void absorb(struct gs_heap *heap, struct gs_block *block,
                          struct gs_block *next)
{
    block->units += next->units;
    block->next = next->next;
    if (next->next)
        gs_block_at(heap->pool, next->next)->prev = block->id;
    gs_block_recycle(heap, next);
}

/* Merge a free block with its free neighbours, out of their bins; the hole that results
 * is in none. */
static inline struct gs_block *coalesce(struct gs_heap *heap, struct gs_block *block)
{
    struct gs_pool *pool = heap->pool;
    bool binned = !block->segment->retained;
    struct gs_block *other;

    if (block->next) {
        other = gs_block_at(pool, block->next);
        if (other->state == GS_BLOCK_FREE) {
            if (binned)
                gs_bins_drop(&pool->blocks, heap->bins, other);
            absorb(heap, block, other);
        }
    }
    if (block->prev) {
        other = gs_block_at(pool, block->prev);
        if (other->state == GS_BLOCK_FREE) {
            if (binned)
                gs_bins_drop(&pool->blocks, heap->bins, other);
            absorb(heap, other, block);
            block = other;
        }
    }
    return block;
}

struct gs_segment *gs_block_release(struct gs_heap *heap, struct gs_block *block)
{
    struct gs_segment *segment = block->segment;

    segment->occupied--;
    if (segment->shared) {
        heap->small_units -= block->units;
        gs_starts_drop(heap->pool, &heap->spare_nodes, block);
    }
    block->state = GS_BLOCK_FREE;
    if (segment->shared)
        block = coalesce(heap, block);
    if (segment->retained || segment->single) {
        if (segment->occupied)
            return NULL;
        gs_segment_detach(heap, segment);
        return segment;
    }
    if (segment->shared)
        gs_bins_put(&heap->pool->blocks, heap->bins, block, &heap->seed);
    else
        gs_tree_put(&heap->pool->blocks, &heap->large, block, &heap->seed);
    if (!segment->occupied)
        gs_segment_rest(heap, segment);
    return NULL;
}

/* The last trace of a claimed block whose heap died. heap->lock is held. */
static void forget(struct gs_heap *heap, struct gs_block *block)
{
    struct gs_segment *segment = block->segment;

    block->state = GS_BLOCK_SPARE;
    gs_table_give(&heap->pool->blocks, block->id);
    if (--segment->occupied == 0)
        gs_heap_lose_segment(heap->pool, segment->id);
}

/* The size of an occupied block, as the segment and the counters see it. */
static inline size_t block_bytes(const struct gs_block *block)
{
    return block->segment->shared ? block->units * GS_BLOCK_BYTES : block->segment->bytes;
}

/*
 * The books of a free. heap->lock is held.
 * Returns false if the heap is dead: the block is forgotten.
 */
static inline bool begin_park(struct gs_heap *heap, struct gs_block *block)
{
    heap->stats.frees++;
    if (gs_heap_is_dead(heap)) {
        forget(heap, block);
        return false;
    }
    heap->stats.live_bytes -= gs_block_requested(block);
    heap->stats.used_bytes -= block_bytes(block);
    return true;
}

/* A block its holder may park: claimed, or still live (a failed call undone). A live
 * block whose heap died was given up with it. */
static bool is_held(const struct gs_block *block)
{
    return block->state == GS_BLOCK_CLAIMED || block->state == GS_BLOCK_LIVE;
}

void gs_block_park(struct gs_block *block)
{
    struct gs_heap *heap = gs_block_heap(block);
    struct gs_segment *segment = NULL;

    gs_lock_take(&heap->lock);
    if (is_held(block) && begin_park(heap, block))
        segment = gs_block_release(heap, block);
    gs_lock_drop(&heap->lock);
    if (GS_UNLIKELY(segment != NULL))
        gs_segment_return(heap, segment);
}

void gs_block_park_fenced(struct gs_block *block, gs_fence fence)
{
    struct gs_heap *heap = gs_block_heap(block);
    bool waits = false;

    gs_lock_take(&heap->lock);
    if (is_held(block) && begin_park(heap, block)) {
        heap->stats.pending_bytes += block_bytes(block);
        block->state = GS_BLOCK_PENDING;
        block->pending.fence = fence;
        block->pending.stamp = (uint32_t)heap->epoch;
        block->pending.next = 0;
        if (heap->pending_tail)
            gs_block_at(heap->pool, heap->pending_tail)->pending.next = block->id;
        else
            heap->pending_head = block->id;
        heap->pending_tail = block->id;
        waits = true;
    }
    gs_lock_drop(&heap->lock);
    if (!waits && fence)
        heap->backend->fence_release(heap->self, fence);
}

void gs_block_unclaim(struct gs_block *block)
{
    struct gs_heap *heap = gs_block_heap(block);

    gs_lock_take(&heap->lock);
    if (block->state == GS_BLOCK_CLAIMED) {
        if (gs_heap_is_dead(heap))
            forget(heap, block);
        else
            block->state = GS_BLOCK_LIVE;
    }
    gs_lock_drop(&heap->lock);
}

/* Take the holes of a segment that keeps its tenants out of the bins. */
static void close_holes(struct gs_heap *heap, struct gs_segment *segment)
{
    struct gs_block *block;

    for (uint32_t id = segment->first; id; id = block->next) {
        block = gs_block_at(heap->pool, id);
        if (block->state == GS_BLOCK_FREE)
            gs_bins_drop(&heap->pool->blocks, heap->bins, block);
    }
}

size_t gs_segment_reopen(struct gs_heap *heap)
{
    struct gs_link *link;
    size_t opened = 0;

    gs_lock_take(&heap->lock);
    for (link = heap->segments.next; link != &heap->segments; link = link->next) {
        struct gs_segment *segment = GS_LINK_OWNER(link, struct gs_segment, all);

        if (!segment->retained || !segment->shared || !segment->mapped)
            continue;
        segment->retained = false;
        opened++;
        for (uint32_t id = segment->first; id;) {
            struct gs_block *block = gs_block_at(heap->pool, id);

            id = block->next;
            if (block->state == GS_BLOCK_FREE)
                gs_bins_put(&heap->pool->blocks, heap->bins, block, &heap->seed);
        }
    }
    gs_lock_drop(&heap->lock);
    return opened;
}

enum gs_status gs_pool_retain(struct gs_pool *pool, uint64_t addr)
{
    struct gs_segment *segment = lock_segment(pool, addr);
    bool empty = false;
    struct gs_heap *heap;

    if (!segment)
        return GS_ERR_NOT_OURS;
    heap = gs_segment_heap(segment);
    if (!segment->retained) {
        empty = segment->occupied == 0;
        if (empty)
            gs_segment_detach(heap, segment);
        else if (segment->shared)
            close_holes(heap, segment);
        segment->retained = true;
    }
    gs_lock_drop(&heap->lock);
    if (empty)
        gs_segment_return(heap, segment);
    return GS_OK;
}

bool gs_pool_owns(const struct gs_pool *pool, uint64_t addr)
{
    const struct gs_segment *segment = gs_pages_find(&pool->pages, addr);

    return segment && addr - segment->addr < segment->bytes;
}

void gs_pool_displace(struct gs_pool *pool, uint64_t addr)
{
    const struct gs_segment *segment = gs_pages_find(&pool->pages, addr);

    if (segment && addr - segment->addr < segment->bytes)
        gs_heap_kill(gs_segment_heap(segment));
}

/* The block of a shared segment that holds an offset, occupied or free. */
static struct gs_block *block_around(struct gs_pool *pool, struct gs_segment *segment,
                                     uint32_t offset)
{
    struct gs_block *block = gs_starts_floor(pool, segment, offset);

    if (!block)
        return gs_block_at(pool, segment->first);
    /* Free blocks are in no trie: one may follow the occupied block that was found. */
    return offset - block->offset < block->units ? block : gs_block_at(pool, block->next);
}

enum gs_status gs_pool_find(struct gs_pool *pool, uint64_t addr, struct gs_range *out)
{
    struct gs_segment *segment = lock_segment(pool, addr);
    struct gs_block *block;

    if (!segment)
        return GS_ERR_NOT_OURS;
    if (segment->shared)
        block = block_around(pool, segment,
                             (uint32_t)((addr - segment->addr) / GS_BLOCK_BYTES));
    else
        block = gs_block_at(pool, segment->first);
    out->segment_addr = segment->addr;
    out->segment_bytes = segment->bytes;
    out->block_addr = gs_block_addr(block);
    out->block_bytes = block_bytes(block);
    out->live = block->state == GS_BLOCK_LIVE;
    out->requested_bytes = out->live ? gs_block_requested(block) : 0;
    out->shared = segment->shared;
    gs_lock_drop(&gs_segment_heap(segment)->lock);
    return GS_OK;
}
