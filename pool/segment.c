/*
 * segment.c - segments become idle and active, leave their heap, and return to the
 * backend.
 *
 * A segment leaves the page map before the backend unmaps it, so no address is in two
 * segments. The backend is called between the locks, never under one.
 *
 * Owns: segment records.
 * Lock: heap->lock for a mapped segment; a detached one belongs to the thread that
 * detached it.   Design: docs/pool.md, "Segments"
 */

#include "gs_clock.h"
#include "gs_uncancelled.h"
#include "pool/policy.h"
#include "pool/pool_limits.h"
#include "pool/reclaim.h"
#include "pool/runs.h"
#include "pool/segment.h"

void gs_segment_record_call(struct gs_heap *heap, uint64_t began_ns)
{
    uint64_t took_ns = gs_now_ns() - began_ns;

    gs_lock_take(&heap->lock);
    heap->stats.driver_calls++;
    heap->stats.driver_ns += took_ns;
    gs_lock_drop(&heap->lock);
}

/* A dead heap's memory has gone with its context. */
void gs_segment_unmap(struct gs_heap *heap, uint64_t addr, size_t bytes)
{
    uint64_t began_ns;
    int before;

    if (gs_heap_is_dead(heap)) {
        return;
    }
    began_ns = gs_now_ns();
    before = gs_uncancelled_begin();
    heap->backend->unmap(heap->self, addr, bytes);
    gs_uncancelled_end(before);
    gs_segment_record_call(heap, began_ns);
}

static enum gs_idle_part part_of(const struct gs_segment *segment)
{
    return segment->shared ? GS_IDLE_SHARED : GS_IDLE_LARGE;
}

void gs_segment_set_idle(struct gs_heap *heap, struct gs_segment *segment)
{
    gs_list_append(&heap->idle[part_of(segment)], &segment->idle);
    heap->idle_bytes[part_of(segment)] += segment->bytes;
    segment->idle_turn = ++heap->idle_turns;
    gs_limits_set_idle(heap, segment);
    if (segment->paged) {
        gs_runs_add(heap, segment);
    }
}

void gs_segment_set_active(struct gs_heap *heap, struct gs_segment *segment)
{
    if (gs_list_empty(&segment->idle)) { /* on no list: fresh from the backend */
        return;
    }
    gs_list_remove(&segment->idle);
    heap->idle_bytes[part_of(segment)] -= segment->bytes;
    gs_limits_set_active(heap, segment);
    if (segment->paged) {
        gs_runs_drop(heap, segment);
    }
}

/* Returns true if the segment is shared, and larger than the chunk that the driver shares
 * among small requests. */
bool gs_segment_is_grown(const struct gs_segment *segment)
{
    return segment->shared && GS_UNLIKELY(segment->bytes > GS_LARGE_BYTES) &&
           !segment->carved;
}

/* heap->lock is held. */
GS_NOINLINE void gs_segment_record_grown(struct gs_heap *heap, size_t more, size_t less)
{
    heap->grown_bytes += more - less;
    atomic_fetch_add_explicit(&gs_headroom_of(heap)->grown, more - less,
                              memory_order_relaxed);
}

void gs_segment_forget_grown(struct gs_heap *heap)
{
    gs_segment_record_grown(heap, 0, heap->grown_bytes);
}

void gs_segment_detach(struct gs_heap *heap, struct gs_segment *segment)
{
    struct gs_pool *pool = heap->pool;
    struct gs_block *block = gs_block_at(pool, segment->first);
    bool begun;

    assert(segment->occupied == 0 && block->next == 0);
    if (!gs_list_empty(&segment->idle)) { /* only idle segments are in the indexes of free
                                           * memory */
        gs_segment_set_active(heap, segment);
        if (segment->shared) {
            gs_hole_drop(heap, block);
        } else {
            gs_large_drop(&pool->blocks, &heap->large->segments, block);
        }
    }
    gs_block_recycle(heap, block);
    segment->mapped = false;
    segment->next_detached = NULL;
    gs_list_remove(&segment->all);
    begun = gs_reclaim_begin(heap, &segment->ticket, !segment->in_free);
    assert(begun); /* the heap lives: its lock is held */
    (void)begun;
    gs_pages_remove(&pool->pages, segment);
    heap->stats.reserved_bytes -= gs_segment_present(segment);
    heap->absent_bytes -= segment->bytes - gs_segment_present(segment);
    heap->stats.segments_unmapped++;
    if (gs_segment_is_grown(segment)) {
        gs_segment_record_grown(heap, 0, segment->bytes);
    }
    gs_reclaim_depart(heap, gs_segment_present(segment));
}

void gs_segments_return(struct gs_segment *detached)
{
    while (GS_UNLIKELY(detached != NULL)) {
        struct gs_segment *segment = detached;
        struct gs_heap *heap = gs_segment_heap(segment);

        detached = segment->next_detached;
        gs_segment_unmap(heap, segment->addr, segment->bytes);
        gs_reclaim_return(heap, &segment->ticket, gs_segment_present(segment),
                          gs_segment_present(segment));
        gs_table_give(&heap->pool->segments, segment->id);
    }
}

void gs_segment_was_freed(struct gs_segment *segment, bool freed)
{
    struct gs_heap *heap = gs_segment_heap(segment);

    gs_segment_record_call(heap, gs_now_ns()); /* its time is part of the free's wait */
    if (freed) {
        gs_lock_take(&heap->lock);
        heap->stats.maintenance_bytes += segment->bytes;
        gs_lock_drop(&heap->lock);
    }
    gs_reclaim_return(heap, &segment->ticket, freed ? segment->bytes : 0, segment->bytes);
    gs_table_give(&heap->pool->segments, segment->id);
}

void gs_segment_label(struct gs_segment *segment)
{
    bool large = !segment->shared || segment->carved;
    enum gs_cacheable label = large ? GS_CACHEABLE_WHOLE : GS_CACHEABLE_BLOCKS;

    if (segment->single || segment->retained ||
        (large && gs_segment_heap(segment)->pool->strict_idle)) {
        label = GS_CACHEABLE_NOTHING;
    }
    atomic_store(&segment->cacheable, (uint8_t)label);
}
