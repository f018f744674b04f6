/*
 * ready.c - blocks whose wait is over: into the front of the thread that waited, or back
 * to their segments.
 *
 * Owns: nothing.   Lock: heap->lock, and the calling thread's front.
 * Design: docs/pool.md, "Pending blocks"
 */
#include "hit.h"

/* Into the front, which the thread is inside, after what it has too much of was moved
 * down, or a whole segment. Returns false if it has to go back to its segment. */
bool gs_front_put(struct gs_front *front, struct gs_heap *heap, struct gs_block *block,
                  bool anew, struct gs_segment **detached)
{
    enum gs_cacheable what = gs_block_cacheable(block);

    if (what == GS_CACHEABLE_BLOCKS) {
        if (GS_LIKELY(gs_front_push(front, block, anew)))
            return true;
        gs_levels_spill(front, heap, block->units, detached);
        return gs_front_push(front, block, anew);
    }
    if (what != GS_CACHEABLE_WHOLE)
        return false;
    if (anew)
        gs_front_take_in(front, block, gs_block_bytes(block), gs_block_requested(block));
    else
        gs_block_become(block, GS_BLOCK_CACHED);
    gs_levels_put_whole(front, heap, block, detached);
    return true;
}

/* What could not be cached. */
static void ripen_in_segment(struct gs_heap *heap, struct gs_block *block)
{
    struct gs_segment *segment = NULL;

    gs_lock_take(&heap->lock);
    if (gs_heap_is_dead(heap)) {
        gs_block_forget(heap, block);
    } else {
        heap->stats.pending_bytes -= gs_block_bytes(block);
        segment = gs_block_release(heap, block);
    }
    gs_lock_drop(&heap->lock);
    gs_segments_return(segment);
}

/* Those that may be cached, within one turn in the front, so that nobody sees blocks and
 * books apart. What is left is moved to the head of the list; returns how many. */
static unsigned ripen_inside(struct gs_front *front, struct gs_heap *heap,
                             struct gs_block **blocks, unsigned count,
                             struct gs_segment **detached)
{
    unsigned left = 0;
    size_t bytes = 0;

    for (unsigned i = 0; i < count; i++) {
        size_t own_bytes = gs_block_bytes(blocks[i]);

        if (gs_front_put(front, heap, blocks[i], false, detached))
            bytes += own_bytes;
        else
            blocks[left++] = blocks[i];
    }
    gs_lock_take(&heap->lock);
    heap->stats.pending_bytes -= gs_heap_is_dead(heap) ? 0 : bytes;
    gs_lock_drop(&heap->lock);
    return left;
}

void gs_blocks_ripen(struct gs_heap *heap, struct gs_block **blocks, unsigned count)
{
    struct gs_front *front = count ? gs_front_of(heap) : NULL;
    struct gs_segment *detached = NULL;

    if (front && gs_front_enter(front)) {
        count = ripen_inside(front, heap, blocks, count, &detached);
        gs_front_leave(front);
    }
    for (unsigned i = 0; i < count; i++)
        ripen_in_segment(heap, blocks[i]);
    gs_segments_return(detached);
}
