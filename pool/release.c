/*
 * release.c - returns a block to its segment and merges it with its free neighbours;
 * takes the holes of a retained segment out of use, and back into use.
 *
 * Owns: nothing.   Lock: heap->lock.   Design: docs/pool.md, "Small requests"
 */
#include "release.h"
#include "policy.h"
#include "segment.h"

/* Merges the free neighbour `next` into `block` and recycles its record. */
static inline void absorb(struct gs_heap *heap, struct gs_block *block,
                          struct gs_block *next)
{
    block->units += next->units;
    block->next = next->next;
    if (next->next)
        gs_block_at(heap->pool, next->next)->prev = block->id;
    gs_block_recycle(heap, next);
}

/* Merges a free block with its free neighbours and takes those out of their bins. The
 * resulting hole is in no bin. */
static inline struct gs_block *coalesce(struct gs_heap *heap, struct gs_block *block)
{
    struct gs_pool *pool = heap->pool;
    bool binned = !block->segment->retained;
    struct gs_block *other;

    if (block->next) {
        other = gs_block_at(pool, block->next);
        if (gs_block_state(other) == GS_BLOCK_FREE) {
            if (binned)
                gs_hole_drop(heap, other);
            absorb(heap, block, other);
        }
    }
    if (block->prev) {
        other = gs_block_at(pool, block->prev);
        if (gs_block_state(other) == GS_BLOCK_FREE) {
            if (binned)
                gs_hole_drop(heap, other);
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
        if (GS_LIKELY(!segment->carved))
            heap->small_units -= block->units;
        else
            gs_carving_count(heap, block, false);
        gs_starts_drop(&heap->starts, block);
    }
    gs_block_become(block, GS_BLOCK_FREE);
    if (segment->shared)
        block = coalesce(heap, block);
    else
        gs_fit_tolerance_end(heap, segment);
    if (segment->carved && !segment->occupied)
        gs_carving_end(heap, segment);
    if (segment->retained || segment->single) {
        if (segment->occupied)
            return NULL;
        gs_segment_detach(heap, segment);
        return segment;
    }
    if (segment->shared)
        gs_hole_put(heap, block);
    else
        gs_large_put(&heap->pool->blocks, heap->large, block, &heap->seed);
    if (!segment->occupied)
        gs_segment_set_idle(heap, segment);
    return NULL;
}

void gs_segment_close_holes(struct gs_heap *heap, struct gs_segment *segment)
{
    struct gs_block *block;

    for (uint32_t id = segment->first; id; id = block->next) {
        block = gs_block_at(heap->pool, id);
        if (gs_block_state(block) == GS_BLOCK_FREE)
            gs_hole_drop(heap, block);
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
        gs_segment_label(segment);
        opened++;
        for (uint32_t id = segment->first; id;) {
            struct gs_block *block = gs_block_at(heap->pool, id);

            id = block->next;
            if (gs_block_state(block) == GS_BLOCK_FREE)
                gs_hole_put(heap, block);
        }
    }
    gs_lock_drop(&heap->lock);
    return opened;
}

/* ---- heaps that have died --------------------------------------------------------- */

void gs_records_lose(struct gs_pool *pool, uint32_t blocks, uint32_t segments)
{
    uint32_t old_blocks, old_segments;

    gs_lock_take(&pool->meta);
    old_blocks = pool->lost_blocks;
    old_segments = pool->lost_segments;
    pool->lost_blocks = blocks;
    pool->lost_segments = segments;
    gs_lock_drop(&pool->meta);
    gs_table_give_chain(&pool->blocks, old_blocks);
    gs_table_give_chain(&pool->segments, old_segments);
}

void gs_heap_lose_segment(struct gs_pool *pool, uint32_t segment)
{
    gs_lock_take(&pool->meta);
    *gs_table_link(&pool->segments, segment) = pool->lost_segments;
    pool->lost_segments = segment;
    gs_lock_drop(&pool->meta);
}

void gs_block_forget(struct gs_heap *heap, struct gs_block *block)
{
    struct gs_segment *segment = block->segment;

    gs_block_become(block, GS_BLOCK_SPARE);
    gs_table_give(&heap->pool->blocks, block->id);
    if (--segment->occupied == 0)
        gs_heap_lose_segment(heap->pool, segment->id);
}
