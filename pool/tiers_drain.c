/*
 * tiers_drain.c - returns all cached blocks to the segments, because the device is full
 * or the heap ends; and sums up the counters of the cache tiers.
 *
 * Owns: nothing.   Lock: the thread caches are excluded throughout (tcache_lock.c).
 * Design: docs/pool.md, "Cache tiers"
 */
#include <string.h>

#include "pool/free_lists.h"
#include "pool/segment.h"

/* Moves all cached blocks to the chain; the thread caches are excluded. */
static void gather(struct gs_tiers *tiers, struct gs_chain *chain)
{
    struct gs_link *link;

    for (link = tiers->tcaches.next; link != &tiers->tcaches; link = link->next) {
        struct gs_tcache *tcache = GS_LINK_OWNER(link, struct gs_tcache, of_heap);

        for (unsigned i = 0; i < GS_CLASS_COUNT && tcache->bytes; i++) {
            struct gs_stack *stack = &tcache->stacks[i];

            if (!stack->count) {
                continue;
            }
            while (stack->top) {
                struct gs_block *block = stack->top;

                stack->top = block->live.below;
                gs_chain_add(chain, block);
            }
            stack->count = 0;
        }
        tcache->bytes = 0;
        memset(tcache->batches, 0, sizeof(tcache->batches));
        gs_chain_add_whole(tcache, chain);
    }
    for (unsigned i = 0; i < GS_CLASS_EXACT && atomic_load(&tiers->global_bytes); i++) {
        struct gs_free_list free_list = gs_free_list_global(tiers, i);

        gs_free_list_empty(&free_list, chain);
    }
    for (unsigned j = 0; j < GS_STREAMS && atomic_load(&tiers->stream_bytes); j++) {
        struct gs_cache *cache = atomic_load(&tiers->streams[j]);

        for (unsigned i = 0; cache && i < GS_CLASS_EXACT; i++) {
            struct gs_free_list free_list = gs_free_list_stream(tiers, cache, i);

            gs_free_list_empty(&free_list, chain);
        }
    }
}

/*
 * Returns true if the tiers are suspended and drained already. On a full device each miss
 * drains, and excluding the thread caches interrupts every core that runs the process.
 * While the tiers are suspended one drain is enough: the thread caches stay closed, and
 * hold nothing.
 */
static GS_NOINLINE bool is_drained(struct gs_tiers *tiers, uint32_t calls)
{
    bool drained;

    gs_lock_take(&tiers->lock);
    drained = tiers->drained && atomic_load(&tiers->suspended);
    if (drained && calls) {
        atomic_store(&tiers->suspended, calls);
    }
    gs_lock_drop(&tiers->lock);
    return drained;
}

static size_t drain(struct gs_heap *heap, uint32_t calls)
{
    struct gs_tiers *tiers = heap->tiers;
    struct gs_segment *detached = NULL;
    struct gs_chain chain = {0};

    if (!tiers) {
        return 0;
    }
    if (GS_UNLIKELY(atomic_load_explicit(&tiers->suspended, memory_order_relaxed)) &&
        is_drained(tiers, calls)) {
        return 0;
    }
    gs_tiers_exclude(heap);
    if (calls) {
        atomic_store(&tiers->suspended, calls);
    }
    gather(tiers, &chain);
    tiers->drained = true; /* until the thread caches are opened again */
    gs_chain_release(heap, &chain, &detached);
    gs_tiers_admit(heap);
    gs_segments_return(detached);
    return chain.bytes;
}

size_t gs_tiers_drain(struct gs_heap *heap)
{
    return drain(heap, 0);
}

void gs_tiers_limit(struct gs_heap *heap)
{
    struct gs_tiers *tiers = heap->tiers;
    struct gs_segment *detached = NULL;
    struct gs_chain chain = {0};

    gs_tiers_exclude(heap);
    gather(tiers, &chain);
    gs_chain_release(heap, &chain, &detached);
    gs_tiers_set_limits(tiers, heap->pool);
    gs_tcaches_share(heap, &detached);
    gs_tiers_admit(heap);
    gs_segments_return(detached);
}

size_t gs_tiers_suspend(struct gs_heap *heap)
{
    return drain(heap, GS_SUSPENDED);
}

void gs_tiers_count(struct gs_heap *heap)
{
    struct gs_tiers *tiers = heap->tiers;
    uint32_t calls = atomic_load_explicit(&tiers->suspended, memory_order_relaxed);

    while (calls && !atomic_compare_exchange_weak(&tiers->suspended, &calls, calls - 1)) {
    }
    if (calls != 1) {
        return;
    }
    gs_tiers_exclude(heap); /* opens them, unless the device is full again by now */
    gs_tiers_admit(heap);
}

/* Closes the tiers, and leaves the blocks in `chain`; the thread caches are excluded. */
static void close_chain(struct gs_heap *heap, struct gs_chain *chain)
{
    struct gs_tiers *tiers = heap->tiers;
    struct gs_link *link;

    gather(tiers, chain);
    for (link = tiers->tcaches.next; link != &tiers->tcaches; link = link->next) {
        gs_tcache_settle(GS_LINK_OWNER(link, struct gs_tcache, of_heap), heap);
    }
    atomic_store(&tiers->closed, true);
    gs_tcaches_unbind(tiers);
}

void gs_tiers_close(struct gs_heap *heap)
{
    struct gs_segment *detached = NULL;
    struct gs_chain chain = {0};

    if (!heap->tiers || atomic_load(&heap->tiers->closed)) {
        return;
    }
    gs_tiers_exclude(heap);
    close_chain(heap, &chain);
    gs_chain_release(heap, &chain, &detached);
    gs_tiers_admit(heap);
    gs_segments_return(detached);
}

void gs_tiers_bury(struct gs_heap *heap)
{
    struct gs_chain forgotten = {0};

    gs_tiers_exclude(heap);
    if (heap->tiers) {
        close_chain(heap, &forgotten);
    }
}

void gs_tiers_reopen(struct gs_tiers *tiers)
{
    gs_lock_take(&tiers->lock);
    tiers->shares = 0;
    tiers->drained = false;
    atomic_store(&tiers->suspended, 0);
    atomic_store(&tiers->closed, false);
    gs_lock_drop(&tiers->lock);
}

void gs_tiers_sum(struct gs_heap *heap, struct gs_pool_stats *sum)
{
    struct gs_tiers *tiers = heap->tiers;
    struct gs_link *link;

    if (!tiers) {
        return;
    }
    for (link = tiers->tcaches.next; link != &tiers->tcaches; link = link->next) {
        const struct gs_tcache *tcache = GS_LINK_OWNER(link, struct gs_tcache, of_heap);
        const struct gs_tcache_counts *counts = &tcache->counts;

        sum->allocs += counts->allocs;
        sum->hits += counts->allocs;
        sum->frees += counts->frees;
        sum->requested_bytes += counts->requested_bytes;
        sum->given_bytes += counts->given_bytes;
        sum->live_bytes += counts->requested_bytes - counts->requested_freed_bytes;
        sum->used_bytes += counts->given_bytes - counts->given_back_bytes;
        sum->stream_hits += counts->from_stream;
        sum->global_hits += counts->from_global;
        sum->thread_hits += gs_tcache_hits(counts);
        sum->thread_bytes += tcache->bytes;
        for (unsigned i = 0; i < GS_WHOLE_COUNT; i++) {
            sum->thread_bytes +=
                tcache->whole_units[i] ? gs_block_bytes(tcache->whole[i]) : 0;
        }
    }
    sum->stream_bytes += atomic_load(&tiers->stream_bytes);
    sum->global_bytes += atomic_load(&tiers->global_bytes);
}
