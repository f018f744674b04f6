/*
 * ready.c - moves blocks whose wait is over into the thread cache of the thread that
 * waited, or back to their segments.
 *
 * Owns: nothing.   Lock: heap->lock, and the thread cache of the calling thread.
 * Design: docs/pool.md, "Pending blocks"
 */
#include "pool/hit.h"
#include "pool/ready.h"
#include "pool/release.h"
#include "pool/segment.h"

bool gs_tcache_put(struct gs_tcache *tcache, struct gs_heap *heap, struct gs_block *block,
                   bool uncounted, struct gs_segment **detached)
{
    enum gs_cacheable what = gs_block_cacheable(block);

    if (what == GS_CACHEABLE_BLOCKS) {
        if (GS_LIKELY(gs_tcache_push(tcache, block, uncounted))) {
            return true;
        }
        if (!tcache->stacks[gs_class_of(block->units)].limit) {
            return false; /* the class is not kept */
        }
        gs_tiers_spill(tcache, heap, block->units, detached);
        return gs_tcache_push(tcache, block, uncounted);
    }
    if (what != GS_CACHEABLE_WHOLE) {
        return false;
    }
    if (uncounted) {
        gs_tcache_take_in(tcache, block, gs_block_bytes(block),
                          gs_block_requested(block));
    } else {
        gs_block_become(block, GS_BLOCK_CACHED);
    }
    gs_tiers_put_whole(tcache, heap, block, detached);
    return true;
}

/* Releases a block that cannot be cached. */
static void collect_ready_in_segment(struct gs_heap *heap, struct gs_block *block)
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

/* Caches the blocks that may be cached, within one turn in the thread cache, so that
 * every reader sees blocks and counters agree. Moves the rest to the head of the list and
 * returns how many remain. */
static unsigned collect_ready_inside(struct gs_tcache *tcache, struct gs_heap *heap,
                                     struct gs_block **blocks, unsigned count,
                                     struct gs_segment **detached)
{
    unsigned left = 0;
    size_t bytes = 0;

    for (unsigned i = 0; i < count; i++) {
        size_t own_bytes = gs_block_bytes(blocks[i]);

        if (gs_tcache_put(tcache, heap, blocks[i], false, detached)) {
            bytes += own_bytes;
        } else {
            blocks[left++] = blocks[i];
        }
    }
    gs_lock_take(&heap->lock);
    heap->stats.pending_bytes -= gs_heap_is_dead(heap) ? 0 : bytes;
    gs_lock_drop(&heap->lock);
    return left;
}

void gs_blocks_set_ready(struct gs_heap *heap, struct gs_block **blocks, unsigned count)
{
    struct gs_tcache *tcache = count ? gs_tcache_of(heap) : NULL;
    struct gs_segment *detached = NULL;

    if (tcache && gs_tcache_enter(tcache)) {
        count = collect_ready_inside(tcache, heap, blocks, count, &detached);
        gs_tcache_leave(tcache);
    }
    for (unsigned i = 0; i < count; i++) {
        collect_ready_in_segment(heap, blocks[i]);
    }
    gs_segments_return(detached);
}
