/*
 * release.c - returns a block to its segment and merges it with its free neighbours;
 * takes the holes of a retained segment out of use, and back into use.
 *
 * Owns: nothing.   Lock: heap->lock.   Design: docs/pool.md, "Small requests"
 */
#include "gs_clock.h"
#include "pool/policy.h"
#include "pool/release.h"
#include "pool/segment.h"

/* Merges the free neighbour `next` into `block` and recycles its record. */
static inline void absorb(struct gs_heap *heap, struct gs_block *block,
                          struct gs_block *next)
{
    block->units += next->units;
    block->next = next->next;
    if (next->next) {
        gs_block_at(heap->pool, next->next)->prev = block->id;
    }
    gs_block_recycle(heap, next);
}

/* The free neighbour with this id; NULL: none, or an occupied one. */
static inline struct gs_block *free_at(const struct gs_pool *pool, uint32_t id)
{
    struct gs_block *block = id ? gs_block_at(pool, id) : NULL;

    return block && gs_block_state(block) == GS_BLOCK_FREE ? block : NULL;
}

/* Merges a free block with its free neighbours, which are in no bin. */
static struct gs_block *coalesce(struct gs_heap *heap, struct gs_block *block)
{
    struct gs_block *prev = free_at(heap->pool, block->prev);
    struct gs_block *next = free_at(heap->pool, block->next);

    if (next) {
        absorb(heap, block, next);
    }
    if (!prev) {
        return block;
    }
    absorb(heap, prev, block);
    return prev;
}

/* Enters a free block as a hole, or extends the neighbouring hole. */
static inline void enter(struct gs_heap *heap, struct gs_block *block)
{
    const struct gs_pool *pool = heap->pool;
    struct gs_block *prev = free_at(pool, block->prev);
    struct gs_block *next = free_at(pool, block->next);
    uint32_t units = block->units;

    if (!prev && !next) {
        gs_hole_put(heap, block);
        return;
    }
    gs_block_unlink(pool, block);
    if (!prev) {
        gs_hole_move(heap, next, block->offset, units + next->units);
    } else {
        if (next) {
            gs_hole_drop(heap, next);
            units += next->units;
            gs_block_unlink(pool, next);
            gs_block_recycle(heap, next);
        }
        gs_hole_move(heap, prev, prev->offset, prev->units + units);
    }
    gs_block_recycle(heap, block);
}

/* The last block has left a carved segment, which has no holes any more. */
static GS_NOINLINE void end_carving(struct gs_heap *heap, struct gs_block *block)
{
    struct gs_block *prev = free_at(heap->pool, block->prev);
    struct gs_block *next = free_at(heap->pool, block->next);
    struct gs_segment *segment = block->segment;

    if (!segment->retained && prev) {
        gs_hole_drop(heap, prev);
    }
    if (!segment->retained && next) {
        gs_hole_drop(heap, next);
    }
    (void)coalesce(heap, block);
    gs_carving_end(heap, segment);
}

struct gs_segment *gs_block_release(struct gs_heap *heap, struct gs_block *block)
{
    struct gs_segment *segment = block->segment;

    segment->occupied--;
    gs_block_become(block, GS_BLOCK_FREE);
    if (segment->shared) {
        if (GS_LIKELY(!segment->carved)) {
            heap->small_units -= block->units;
        }
        gs_starts_drop(&heap->starts, block);
    } else {
        gs_fit_tolerance_end(heap, segment);
    }
    if (segment->carved && !segment->occupied) {
        end_carving(heap, block);
    } else if (segment->retained && segment->shared) {
        (void)coalesce(heap, block);
    }
    if (segment->retained || segment->single) {
        if (segment->occupied) {
            return NULL;
        }
        gs_segment_detach(heap, segment);
        return segment;
    }
    if (segment->shared) {
        enter(heap, block);
    } else {
        gs_large_put(&heap->pool->blocks, &heap->large->segments,
                     gs_block_at(heap->pool, segment->first), &heap->seed);
    }
    if (!segment->occupied) {
        gs_segment_set_idle(heap, segment);
    }
    return NULL;
}

void gs_segment_close_holes(struct gs_heap *heap, struct gs_segment *segment)
{
    struct gs_block *block;

    for (uint32_t id = segment->first; id; id = block->next) {
        block = gs_block_at(heap->pool, id);
        if (gs_block_state(block) == GS_BLOCK_FREE) {
            gs_hole_drop(heap, block);
        }
    }
}

size_t gs_segment_reopen(struct gs_heap *heap)
{
    struct gs_link *link;
    size_t opened = 0;

    gs_lock_take(&heap->lock);
    for (link = heap->segments.next; link != &heap->segments; link = link->next) {
        struct gs_segment *segment = GS_LINK_OWNER(link, struct gs_segment, all);

        if (!segment->retained || !segment->shared || !segment->mapped) {
            continue;
        }
        segment->retained = false;
        gs_segment_label(segment);
        opened++;
        for (uint32_t id = segment->first; id;) {
            struct gs_block *block = gs_block_at(heap->pool, id);

            id = block->next;
            if (gs_block_state(block) == GS_BLOCK_FREE) {
                gs_hole_put(heap, block);
            }
        }
    }
    gs_lock_drop(&heap->lock);
    return opened;
}

/* ---- heaps that have died --------------------------------------------------------- */

/* The records of dead heaps stay unused for this long at least, unless there are more
 * than this many: a program may leave any number of blocks to a reset, again and again.
 */
#define LOST_NS   2000000000ull
#define LOST_MOST 16384u

/* Puts one chain of records in front of the other. pool->meta is held. */
static void join(const struct gs_table *table, uint32_t first, uint32_t tail,
                 uint32_t *rest)
{
    if (first) {
        *gs_table_link(table, tail) = *rest;
        *rest = first;
    }
}

/* The last record of a chain; 0: the chain is empty. Adds its length to *count. */
static uint32_t tail_of(const struct gs_table *table, uint32_t id, uint32_t *count)
{
    uint32_t last = 0;

    for (; id; id = *gs_table_link(table, id)) {
        last = id;
        ++*count;
    }
    return last;
}

void gs_records_lose(struct gs_pool *pool, uint32_t blocks, uint32_t segments)
{
    uint32_t count = 0;
    uint32_t last_block = tail_of(&pool->blocks, blocks, &count);
    uint32_t last_segment = tail_of(&pool->segments, segments, &count);
    uint64_t now = gs_now_coarse_ns();
    struct gs_lost old = {0};

    gs_lock_take(&pool->meta);
    if (now - pool->lost_since_ns >= LOST_NS || pool->lost[0].count >= LOST_MOST) {
        old = pool->lost[1];
        pool->lost[1] = pool->lost[0];
        pool->lost[0] = (struct gs_lost){0};
        pool->lost_since_ns = now;
    }
    join(&pool->blocks, blocks, last_block, &pool->lost[0].blocks);
    join(&pool->segments, segments, last_segment, &pool->lost[0].segments);
    pool->lost[0].count += count;
    gs_lock_drop(&pool->meta);
    gs_table_give_chain(&pool->blocks, old.blocks);
    gs_table_give_chain(&pool->segments, old.segments);
}

void gs_heap_lose_segment(struct gs_pool *pool, uint32_t segment)
{
    gs_lock_take(&pool->meta);
    join(&pool->segments, segment, segment, &pool->lost[0].segments);
    pool->lost[0].count++;
    gs_lock_drop(&pool->meta);
}

/* A block that others held leaves a segment of a dead heap. heap->lock is held. */
static void forget_block(struct gs_heap *heap, struct gs_segment *segment)
{
    if (--segment->occupied == 0) {
        heap->lost_segments--;
        gs_heap_lose_segment(heap->pool, segment->id);
    }
}

void gs_block_forget(struct gs_heap *heap, struct gs_block *block)
{
    struct gs_segment *segment = block->segment;

    gs_block_become(block, GS_BLOCK_SPARE);
    gs_table_give(&heap->pool->blocks, block->id);
    forget_block(heap, segment);
}
