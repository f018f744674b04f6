/*
 * levels_drain.c - everything that is cached goes back to the segments: because the
 * device is full, or the heap ends. And the sums of what the levels did.
 *
 * Owns:  nothing.   Lock: the fronts are excluded meanwhile (front.c).
 * Design: docs/pool.md, "Levels"
 */
#include <string.h>

#include "shelves.h"

/* All that is cached; the fronts are excluded. */
static void gather(struct gs_levels *levels, struct gs_chain *chain)
{
    struct gs_link *link;

    for (link = levels->fronts.next; link != &levels->fronts; link = link->next) {
        struct gs_front *front = GS_LINK_OWNER(link, struct gs_front, of_heap);

        for (unsigned i = 0; i < GS_CLASS_COUNT && front->bytes; i++) {
            struct gs_stack *stack = &front->stacks[i];

            if (!stack->count)
                continue;
            while (stack->top) {
                struct gs_block *block = stack->top;

                stack->top = block->live.below;
                gs_chain_add(chain, block);
            }
            stack->count = 0;
        }
        front->bytes = 0;
        memset(front->batches, 0, sizeof(front->batches));
        gs_chain_add_whole(front, chain);
    }
    for (unsigned i = 0; i < GS_CLASS_EXACT && atomic_load(&levels->global_bytes); i++) {
        struct gs_shelf shelf = gs_shelf_global(levels, i);

        gs_shelf_empty(&shelf, chain);
    }
    for (unsigned j = 0; j < GS_STREAMS && atomic_load(&levels->stream_bytes); j++) {
        struct gs_cache *cache = atomic_load(&levels->streams[j]);

        for (unsigned i = 0; cache && i < GS_CLASS_EXACT; i++) {
            struct gs_shelf shelf = gs_shelf_stream(levels, cache, i);

            gs_shelf_empty(&shelf, chain);
        }
    }
}

/*
 * On a full device each miss comes here, and excluding the fronts interrupts every core
 * that runs the process. While the levels are suspended that is needed once: the fronts
 * stay shut, and what they held is gone. Returns whether that is so.
 */
static GS_NOINLINE bool is_drained(struct gs_levels *levels, uint32_t calls)
{
    bool drained;

    gs_lock_take(&levels->lock);
    drained = levels->drained && atomic_load(&levels->suspended);
    if (drained && calls)
        atomic_store(&levels->suspended, calls);
    gs_lock_drop(&levels->lock);
    return drained;
}

static size_t drain(struct gs_heap *heap, uint32_t calls)
{
    struct gs_levels *levels = heap->levels;
    struct gs_segment *detached = NULL;
    struct gs_chain chain = {0};

    if (!levels)
        return 0;
    if (GS_UNLIKELY(atomic_load_explicit(&levels->suspended, memory_order_relaxed)) &&
        is_drained(levels, calls))
        return 0;
    gs_levels_exclude(heap);
    if (calls)
        atomic_store(&levels->suspended, calls);
    gather(levels, &chain);
    levels->drained = true; /* until the fronts are opened again */
    gs_chain_release(heap, &chain, &detached);
    gs_levels_admit(heap);
    gs_segments_return(detached);
    return chain.bytes;
}

size_t gs_levels_drain(struct gs_heap *heap)
{
    return drain(heap, 0);
}

size_t gs_levels_suspend(struct gs_heap *heap)
{
    return drain(heap, GS_SUSPENDED);
}

void gs_levels_pass(struct gs_heap *heap)
{
    struct gs_levels *levels = heap->levels;
    uint32_t calls =
        levels ? atomic_load_explicit(&levels->suspended, memory_order_relaxed) : 0;

    while (calls && !atomic_compare_exchange_weak(&levels->suspended, &calls, calls - 1))
        ;
    if (calls != 1)
        return;
    gs_levels_exclude(heap); /* opens them, unless the device is full again by now */
    gs_levels_admit(heap);
}

void gs_levels_close(struct gs_heap *heap, bool release_blocks)
{
    struct gs_segment *detached = NULL;
    struct gs_chain chain = {0};
    struct gs_link *link;

    if (!heap->levels || atomic_load(&heap->levels->closed))
        return;
    gs_levels_exclude(heap);
    gather(heap->levels, &chain);
    if (release_blocks)
        gs_chain_release(heap, &chain, &detached);
    for (link = heap->levels->fronts.next; link != &heap->levels->fronts;
         link = link->next)
        gs_front_settle(GS_LINK_OWNER(link, struct gs_front, of_heap), heap);
    atomic_store(&heap->levels->closed, true);
    gs_levels_admit(heap);
    gs_segments_return(detached);
}

void gs_levels_sum(struct gs_heap *heap, struct gs_pool_stats *sum)
{
    struct gs_levels *levels = heap->levels;
    struct gs_link *link;

    if (!levels)
        return;
    for (link = levels->fronts.next; link != &levels->fronts; link = link->next) {
        const struct gs_front *front = GS_LINK_OWNER(link, struct gs_front, of_heap);
        const struct gs_front_counts *counts = &front->counts;

        sum->allocs += counts->allocs;
        sum->hits += counts->allocs;
        sum->frees += counts->frees;
        sum->asked_bytes += counts->asked_bytes;
        sum->given_bytes += counts->given_bytes;
        sum->live_bytes += counts->asked_bytes - counts->asked_back_bytes;
        sum->used_bytes += counts->given_bytes - counts->given_back_bytes;
        sum->stream_hits += counts->from_stream;
        sum->global_hits += counts->from_global;
        sum->front_hits += gs_front_hits(counts);
        sum->front_bytes += front->bytes;
        for (unsigned i = 0; i < GS_WHOLE_COUNT; i++)
            sum->front_bytes +=
                front->whole_units[i] ? gs_block_bytes(front->whole[i]) : 0;
    }
    sum->stream_bytes += atomic_load(&levels->stream_bytes);
    sum->global_bytes += atomic_load(&levels->global_bytes);
}
