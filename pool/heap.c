/*
 * heap.c - creates and kills heaps.
 *
 * A heap is freed only with its pool: a handle stays valid after the context is gone, and
 * readers of the page map may still hold a segment's heap. A dead heap keeps only its
 * record; its bins are unmapped, its blocks and segments reused.
 *
 * The records of blocks that were live when the heap died are set aside until the next
 * heap dies: a thread may be about to read the block that its allocation returned.
 *
 * A dead heap leaves the list of living ones. Otherwise each query for idle memory would
 * cost more with every context that has ended. A walk that has reached the dead heap
 * continues from it.
 *
 * Owns: heap records.   Lock: heap->lock; pool->heaps is only ever pushed to.
 */
#include "pool/heap.h"
#include "pool/pending.h"
#include "pool/policy.h"
#include "pool/pool_limits.h"
#include "pool/reclaim.h"
#include "pool/release.h"
#include "pool/runs.h"
#include "pool/segment.h"

/* Puts the heap on the list of living ones. pool->meta is held. */
static void link_living(struct gs_heap *heap)
{
    struct gs_heap *next = atomic_load(&heap->pool->living);

    atomic_store(&heap->next_living, next);
    heap->living_link = &heap->pool->living;
    if (next) {
        next->living_link = &heap->next_living;
    }
    atomic_store(heap->living_link, heap);
}

/* Takes the heap off that list. pool->meta is held. */
static void unlink_living(struct gs_heap *heap)
{
    struct gs_heap *next = atomic_load(&heap->next_living);

    atomic_store(heap->living_link, next);
    if (next) {
        next->living_link = heap->living_link;
    }
}

/* A context's destruction waits this long for other threads to leave the backend. */
#define KILL_WAIT_NS 10000000000ull

/* Either may be NULL. */
static void unmap_bins(struct gs_bins *bins, struct gs_large *large)
{
    if (bins) {
        gs_meta_unmap(bins, sizeof(*bins));
    }
    if (large) {
        gs_meta_unmap(large, sizeof(*large));
    }
}

enum gs_status gs_heap_create(struct gs_pool *pool, const struct gs_backend *backend,
                              void *self, int device, struct gs_heap **out)
{
    enum gs_status status = GS_ERR_HOST_NOMEM;
    struct gs_heap *heap;

    if (!pool || !backend || !out || device < 0) {
        return GS_ERR_INVALID;
    }
    heap = gs_meta_map(sizeof(*heap));
    if (!heap) {
        return status;
    }
    heap->bins = gs_meta_map(sizeof(*heap->bins));
    heap->large = gs_meta_map(sizeof(*heap->large));
    if (!heap->bins || !heap->large) {
        goto no_bins;
    }
    gs_large_init(heap->large);
    status = gs_starts_init(&heap->starts);
    if (status != GS_OK) {
        goto no_bins;
    }
    if (pool->cache_bytes) {
        status = gs_tiers_create(pool, &heap->tiers);
    }
    if (status != GS_OK) {
        goto no_tiers;
    }
    gs_lock_init(&heap->lock, GS_RANK_HEAP);
    heap->pool = pool;
    heap->backend = backend;
    heap->self = self;
    heap->device = device;
    heap->seed = 0x9e3779b9u; /* any but 0 */
    gs_limits_begin_heap(heap);
    gs_list_init(&heap->segments);
    for (int i = 0; i < GS_IDLE_PARTS; i++) {
        gs_list_init(&heap->idle[i]);
    }
    gs_runs_init(heap);
    gs_lock_take(&pool->meta);
    pool->heap_bytes += sizeof(*heap) + sizeof(*heap->bins) + sizeof(*heap->large);
    if (heap->tiers) {
        pool->heap_bytes += sizeof(*heap->tiers);
    }
    heap->next = atomic_load(&pool->heaps);
    atomic_store(&pool->heaps, heap);
    link_living(heap);
    gs_lock_drop(&pool->meta);
    *out = heap;
    return GS_OK;

no_tiers:
    gs_starts_fini(&heap->starts);
no_bins:
    unmap_bins(heap->bins, heap->large);
    gs_meta_unmap(heap, sizeof(*heap));
    return status;
}

void gs_heap_poison(struct gs_heap *heap)
{
    gs_lock_take(&heap->lock);
    heap->poisoned = true;
    gs_lock_drop(&heap->lock);
    gs_tiers_close(heap, true);
}

/*
 * Buries each block of a dying heap's segment: free and cached ones become spare at once,
 * live ones are lost, pending ones are left to gs_pending_forget, claimed and ready ones
 * to their holders. Returns how many the holders keep. heap->lock is held.
 */
static uint32_t bury_blocks(struct gs_heap *heap, struct gs_segment *segment,
                            uint32_t *lost)
{
    uint32_t claimed = 0, next;

    for (uint32_t id = segment->first; id; id = next) {
        struct gs_block *block = gs_block_at(heap->pool, id);
        uint32_t word;

        next = block->next;
        word = atomic_load_explicit(&block->word, memory_order_acquire);
        if (gs_block_take(block, word, GS_BLOCK_SPARE)) {
            block->next = *lost;
            *lost = id;
            continue;
        }
        switch (gs_block_state(block)) { /* not live, or just claimed */
        case GS_BLOCK_CLAIMED:
        case GS_BLOCK_READY:
            claimed++;
            break;
        case GS_BLOCK_FREE:
        case GS_BLOCK_CACHED:
            gs_block_recycle(heap, block);
            break;
        default:
            break;
        }
    }
    return claimed;
}

/* heap->lock is held. */
static void bury_segments(struct gs_heap *heap, uint32_t *lost_blocks,
                          uint32_t *lost_segments)
{
    while (!gs_list_empty(&heap->segments)) {
        struct gs_segment *segment =
            GS_LINK_OWNER(heap->segments.next, struct gs_segment, all);

        gs_pages_remove(&heap->pool->pages, segment);
        gs_list_remove(&segment->all);
        gs_segment_set_active(heap, segment);
        segment->mapped = false;
        segment->occupied = bury_blocks(heap, segment, lost_blocks);
        if (segment->occupied) {
            continue;
        }
        segment->chain = *lost_segments;
        *lost_segments = segment->id;
    }
}

/* Clears the counters of a dead heap. heap->lock is held. */
static void clear_counters(struct gs_heap *heap)
{
    gs_reclaim_bury(heap, heap->stats.reserved_bytes);
    heap->stats.live_bytes = heap->stats.used_bytes = 0;
    heap->stats.reserved_bytes = heap->stats.pending_bytes = 0;
    heap->small_units = 0;
    gs_carving_forget(heap);
    gs_fit_tolerance_forget(heap);
    gs_segment_forget_grown(heap);
    gs_stock_drain(&heap->pool->blocks, &heap->spare_blocks, 0);
    gs_starts_clear(&heap->starts);
}

void gs_heap_bury(struct gs_heap *heap, uint64_t wait_ns)
{
    struct gs_pool *pool = heap->pool;
    uint32_t lost_blocks = 0, lost_segments = 0;
    struct gs_large *large;
    struct gs_bins *bins;

    gs_tiers_close(heap,
                   false); /* from here on no block enters or leaves a thread cache */
    gs_lock_take(&heap->lock);
    bins = heap->bins;
    large = heap->large;
    if (!gs_heap_is_dead(heap)) {
        atomic_store(&heap->dead, true);
        bury_segments(heap, &lost_blocks, &lost_segments);
        clear_counters(heap);
        heap->bins = NULL;
        heap->large = NULL;
    }
    gs_lock_drop(&heap->lock);
    if (bins) {
        gs_pending_forget(heap);
        gs_records_lose(pool, lost_blocks, lost_segments);
        unmap_bins(bins, large);
        gs_lock_take(&pool->meta);
        pool->heap_bytes -= sizeof(*bins) + sizeof(*large);
        unlink_living(heap);
        gs_lock_drop(&pool->meta);
    }
    if (wait_ns) {
        gs_reclaim_drain(heap, wait_ns);
    }
}

void gs_heap_kill(struct gs_heap *heap)
{
    gs_heap_bury(heap, KILL_WAIT_NS);
}

void gs_pool_displace(struct gs_pool *pool, uint64_t addr)
{
    const struct gs_segment *segment = gs_pages_find(&pool->pages, addr);

    if (segment && gs_segment_holds(segment, addr)) {
        gs_heap_kill(gs_segment_heap(segment));
    }
}
