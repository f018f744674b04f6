/*
 * heap.c - creates and kills heaps.
 *
 * A heap is freed only with its pool: a handle stays valid after the context is gone, and
 * readers of the page map may still hold a segment's heap. A dead heap keeps only its
 * record; the pages of its bins and tables go back, its blocks and segments are reused.
 * Its record serves a later heap of the same device and backend, once its owner has
 * ended, nobody holds a block of it, and ENDED_KEPT more owners have ended. Only a call
 * in a context that was destroyed in between, and that lasted until then, would see
 * another `self`; natively it uses a destroyed context. The record's counters go on.
 *
 * The records of blocks that were live when the heap died are set aside for two seconds
 * (release.c): a thread may be about to read the block that its allocation returned, or
 * to set its tag. In a record that was reused, the tag would overwrite a link of a hole.
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

/* Ended heaps of a device whose records are not reused yet. */
#define ENDED_KEPT  64u
#define ENDED_TRIED 8u

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

/* Maps a record with all its parts; NULL: no memory. */
static struct gs_heap *make_record(struct gs_pool *pool)
{
    struct gs_heap *heap = gs_meta_map(sizeof(*heap));

    if (!heap) {
        return NULL;
    }
    heap->bins = gs_meta_map(sizeof(*heap->bins));
    heap->large = gs_meta_map(sizeof(*heap->large));
    if (!heap->bins || !heap->large || gs_starts_init(&heap->starts) != GS_OK) {
        goto no_starts;
    }
    if (pool->has_tiers && gs_tiers_create(pool, &heap->tiers) != GS_OK) {
        goto no_tiers;
    }
    gs_lock_init(&heap->lock, GS_RANK_HEAP);
    heap->pool = pool;
    heap->seed = 0x9e3779b9u; /* any but 0 */
    gs_list_init(&heap->segments);
    for (int i = 0; i < GS_IDLE_PARTS; i++) {
        gs_list_init(&heap->idle[i]);
    }
    gs_runs_init(heap);
    gs_large_init(heap->large);
    return heap;

no_tiers:
    gs_starts_fini(&heap->starts);
no_starts:
    unmap_bins(heap->bins, heap->large);
    gs_meta_unmap(heap, sizeof(*heap));
    return NULL;
}

/* ---- ended heaps --------------------------------------------------------------------
 */

/* pool->meta is held. */
static void append_ended(struct gs_ended *ended, struct gs_heap *heap)
{
    heap->next_ended = NULL;
    if (ended->first) {
        ended->last->next_ended = heap;
    } else {
        ended->first = heap;
    }
    ended->last = heap;
    ended->count++;
}

/* Takes the heap that ended first; NULL: too few have. pool->meta is held. */
static struct gs_heap *take_ended(struct gs_ended *ended)
{
    struct gs_heap *heap = ended->count > ENDED_KEPT ? ended->first : NULL;

    if (heap) {
        ended->first = heap->next_ended;
        ended->count--;
    }
    return heap;
}

/* Returns true if no thread holds a block of the dead heap or is in its backend. */
static bool is_left(struct gs_heap *heap)
{
    bool left;

    gs_lock_take(&heap->lock);
    left = gs_heap_is_dead(heap) && heap->lost_segments == 0 && !heap->polling &&
           !heap->pending_head;
    gs_lock_drop(&heap->lock);
    return left && !gs_reclaim_is_inside(heap);
}

/* The record of an ended heap, for a heap of the same device and backend; NULL: none. Of
 * those that are still held only a few are looked at. */
static struct gs_heap *reuse_record(struct gs_pool *pool,
                                    const struct gs_backend *backend, int device)
{
    struct gs_ended *ended = &pool->ended[gs_device_row(device)];

    for (unsigned i = 0; i < ENDED_TRIED; i++) {
        struct gs_heap *heap;

        gs_lock_take(&pool->meta);
        heap = take_ended(ended);
        gs_lock_drop(&pool->meta);
        if (!heap ||
            (heap->backend == backend && heap->device == device && is_left(heap))) {
            return heap;
        }
        gs_heap_end(heap); /* again the last of them */
    }
    return NULL;
}

/* What a dead heap's record differs in from a new one. */
static void revive(struct gs_heap *heap)
{
    gs_large_init(heap->large);
    gs_lock_take(&heap->lock);
    gs_starts_restart(&heap->starts);
    heap->poisoned = false;
    heap->unsuitable = 0;
    heap->tight_bytes = 0;
    atomic_store(&heap->due, false);
    atomic_store(&heap->dead, false);
    gs_lock_drop(&heap->lock);
    if (heap->tiers) {
        gs_tiers_reopen(heap->tiers);
    }
}

void gs_heap_end(struct gs_heap *heap)
{
    gs_lock_take(&heap->pool->meta);
    append_ended(&heap->pool->ended[gs_device_row(heap->device)], heap);
    gs_lock_drop(&heap->pool->meta);
}

/* ---- create -------------------------------------------------------------------------
 */

/* Enters the heap into the lists of its pool, `fresh` into that of all records. */
static void enter(struct gs_heap *heap, bool fresh)
{
    struct gs_pool *pool = heap->pool;

    gs_lock_take(&pool->meta);
    pool->heap_bytes += sizeof(*heap->bins) + sizeof(*heap->large);
    if (fresh) {
        pool->heap_bytes += sizeof(*heap) + (heap->tiers ? sizeof(*heap->tiers) : 0);
        heap->next = atomic_load(&pool->heaps);
        atomic_store(&pool->heaps, heap);
    }
    link_living(heap);
    gs_lock_drop(&pool->meta);
}

enum gs_status gs_heap_create(struct gs_pool *pool, const struct gs_backend *backend,
                              void *self, int device, struct gs_heap **out)
{
    struct gs_heap *heap, *former;

    if (!pool || !backend || !out || device < 0) {
        return GS_ERR_INVALID;
    }
    former = reuse_record(pool, backend, device);
    heap = former ? former : make_record(pool);
    if (!heap) {
        return GS_ERR_HOST_NOMEM;
    }
    heap->backend = backend;
    heap->self = self;
    heap->device = device;
    gs_limits_begin_heap(heap);
    if (former) {
        revive(heap);
    }
    enter(heap, !former);
    *out = heap;
    return GS_OK;
}

void gs_heap_poison(struct gs_heap *heap)
{
    gs_lock_take(&heap->lock);
    heap->poisoned = true;
    gs_lock_drop(&heap->lock);
    gs_tiers_close(heap);
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
            heap->lost_segments++;
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
    heap->stats.reserved_bytes = heap->stats.pending_bytes = heap->absent_bytes = 0;
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
    bool died;

    gs_tiers_bury(heap); /* from here on no block enters or leaves a thread cache */
    gs_lock_take(&heap->lock);
    died = !gs_heap_is_dead(heap);
    if (died) {
        atomic_store(&heap->dead, true);
        bury_segments(heap, &lost_blocks, &lost_segments);
        clear_counters(heap);
        gs_meta_empty(heap->bins, sizeof(*heap->bins));
        gs_meta_empty(heap->large, sizeof(*heap->large));
    }
    gs_lock_drop(&heap->lock);
    gs_tiers_admit(heap);
    if (died) {
        gs_pending_forget(heap);
        gs_records_lose(pool, lost_blocks, lost_segments);
        gs_lock_take(&pool->meta);
        pool->heap_bytes -= sizeof(*heap->bins) + sizeof(*heap->large);
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
