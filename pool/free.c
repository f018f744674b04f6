/*
 * free.c - from an address to its block, and from a block to free memory.
 *
 * Claiming is separate from freeing, because between the two the caller has work that may
 * take long or fail (waiting for the device, updating the tracker). From the claim on the
 * address has no owner, and a second free of it is refused.
 *
 * A claim takes no lock. A free puts the block into the thread cache of the calling
 * thread. Without a thread cache, or if the block may not be cached, the block goes back
 * to its segment, under the heap's lock.
 *
 * Owns: nothing.   Lock: heap->lock, as stated.   Design: docs/pool.md, "A free"
 */
#include "pool/device_free.h"
#include "pool/hit.h"
#include "pool/pending.h"
#include "pool/pool_limits.h"
#include "pool/release.h"
#include "pool/segment.h"

/*
 * Locks the heap of the mapped segment that holds `addr`. Returns NULL, and locks
 * nothing, if there is none. The segment record may be reused between the look-up and the
 * lock, so the page map is read again under the lock.
 */
static inline struct gs_segment *lock_segment(struct gs_pool *pool, uint64_t addr)
{
    for (;;) {
        struct gs_segment *segment = gs_pages_find(&pool->pages, addr);
        struct gs_heap *heap;

        if (!segment) {
            return NULL;
        }
        heap = gs_segment_heap(segment);
        gs_lock_take(&heap->lock);
        if (GS_LIKELY(gs_pages_find(&pool->pages, addr) == segment &&
                      gs_segment_heap(segment) == heap)) {
            if (segment->mapped && gs_segment_holds(segment, addr)) {
                return segment;
            }
            gs_lock_drop(&heap->lock);
            return NULL;
        }
        gs_lock_drop(&heap->lock);
    }
}

/* The block that may start `offset` bytes into the segment, or NULL. Takes no lock. */
static inline struct gs_block *start_at(struct gs_pool *pool,
                                        const struct gs_segment *segment, uint64_t offset)
{
    uint32_t first;

    if (GS_LIKELY(__atomic_load_n(&segment->shared, __ATOMIC_RELAXED))) {
        if (GS_UNLIKELY(offset % GS_BLOCK_BYTES)) {
            return NULL;
        }
        return gs_starts_seek(pool, &gs_segment_heap(segment)->starts, segment,
                              (uint32_t)(offset / GS_BLOCK_BYTES));
    }
    first = __atomic_load_n(&segment->first, __ATOMIC_ACQUIRE);
    return offset || !first ? NULL : gs_block_at(pool, first);
}

/* Continues after the first look-up found no block. Errors: as gs_pool_claim. */
static GS_NOINLINE enum gs_status claim_slowly(struct gs_pool *pool, uint64_t addr,
                                               struct gs_block **out)
{
    for (;;) {
        struct gs_segment *segment = gs_pages_find(&pool->pages, addr);
        struct gs_block *block = NULL;
        bool inside;

        if (!segment) {
            return GS_ERR_NOT_OURS;
        }
        inside = gs_segment_holds(segment, addr);
        if (GS_LIKELY(inside)) {
            block = start_at(pool, segment,
                             addr - __atomic_load_n(&segment->addr, __ATOMIC_RELAXED));
        }
        if (GS_LIKELY(block && gs_block_claim(block, segment, addr))) {
            *out = block;
            return GS_OK;
        }
        /* A bad free, unless the address changed hands during the look-up. */
        if (gs_pages_find(&pool->pages, addr) == segment) {
            return inside ? GS_ERR_BAD_FREE : GS_ERR_NOT_OURS;
        }
    }
}

enum gs_status gs_pool_claim(struct gs_pool *pool, uint64_t addr, struct gs_block **out)
{
    const struct gs_segment *segment = gs_pages_find(&pool->pages, addr);

    if (GS_LIKELY(segment && __atomic_load_n(&segment->shared, __ATOMIC_RELAXED))) {
        struct gs_starts_walk walk;
        uint32_t slot;

        gs_starts_begin(&walk, &gs_segment_heap(segment)->starts, addr);
        while ((slot = gs_starts_next(&walk))) { /* nearly always the first one */
            struct gs_block *block = gs_block_at(pool, slot & (GS_TABLE_IDS - 1));

            if (GS_LIKELY(gs_block_claim(block, segment, addr))) {
                *out = block;
                return GS_OK;
            }
        }
    }
    return claim_slowly(pool, addr, out);
}

/*
 * Counts a free. heap->lock is held. Returns false if the heap is dead: the block is
 * forgotten.
 */
static inline bool count_free(struct gs_heap *heap, struct gs_block *block)
{
    heap->stats.frees++;
    if (gs_heap_is_dead(heap)) {
        gs_block_forget(heap, block);
        return false;
    }
    heap->stats.live_bytes -= gs_block_requested(block);
    heap->stats.used_bytes -= gs_block_bytes(block);
    return true;
}

/* Claims a block that is not claimed yet: it is still live if a failed call is undone.
 * Returns false if the block was lost with its heap. */
static bool ensure_claimed(struct gs_block *block)
{
    uint32_t word = atomic_load_explicit(&block->word, memory_order_acquire);

    return (word & GS_BLOCK_STATE_MASK) == GS_BLOCK_CLAIMED ||
           gs_block_take(block, word, GS_BLOCK_CLAIMED);
}

static bool free_to_tcache(struct gs_heap *heap, struct gs_block *block,
                           struct gs_segment **detached)
{
    struct gs_tcache *tcache = gs_tcache_of(heap);
    bool cached;

    if (!tcache || !gs_tcache_enter(tcache)) {
        return false;
    }
    cached = gs_tcache_put(tcache, heap, block, true, detached);
    gs_tcache_leave(tcache);
    return cached;
}

void gs_block_free(struct gs_block *block)
{
    struct gs_heap *heap = gs_segment_heap(block->segment);
    struct gs_segment *detached = NULL, *segment = NULL;

    if (!ensure_claimed(block)) {
        return;
    }
    if (!free_to_tcache(heap, block, &detached)) {
        gs_tiers_pass(heap, heap->tiers);
        gs_lock_take(&heap->lock);
        if (count_free(heap, block)) {
            segment = gs_block_release(heap, block);
        }
        gs_lock_drop(&heap->lock);
    }
    gs_segments_return(detached);
    gs_segments_return(segment);
}

void gs_block_free_fenced(struct gs_block *block, gs_fence fence)
{
    struct gs_heap *heap = gs_block_heap(block);
    bool waits = false;

    gs_lock_take(&heap->lock);
    if (ensure_claimed(block) && count_free(heap, block)) {
        heap->stats.pending_bytes += gs_block_bytes(block);
        gs_block_become(block, GS_BLOCK_PENDING);
        block->pending.fence = fence;
        block->pending.stamp = (uint32_t)heap->epoch;
        block->pending.next = 0;
        if (heap->pending_tail) {
            gs_block_at(heap->pool, heap->pending_tail)->pending.next = block->id;
        } else {
            gs_pending_set_head(heap, block->id);
        }
        heap->pending_tail = block->id;
        waits = true;
    }
    gs_lock_drop(&heap->lock);
    if (!waits && fence) {
        heap->backend->fence_release(heap->self, fence);
    }
}

bool gs_block_give_back(struct gs_block *block)
{
    struct gs_heap *heap = gs_block_heap(block);
    struct gs_segment *segment = block->segment, *detached = NULL;

    if (segment->shared || segment->paged) {
        return false;
    }
    gs_lock_take(&heap->lock);
    if (ensure_claimed(block) && count_free(heap, block)) {
        detached = gs_block_release(heap, block);
        if (!detached) {
            gs_segment_detach(heap, segment);
            detached = segment;
        }
    }
    gs_lock_drop(&heap->lock);
    gs_segments_return(detached);
    return true;
}

bool gs_block_goes_back(const struct gs_block *block)
{
    const struct gs_segment *segment = block->segment;

    return !segment->shared && !segment->single && !segment->paged &&
           gs_limits_keep_nothing(gs_segment_heap(segment), segment->bytes);
}

struct gs_segment *gs_block_detach(struct gs_block *block)
{
    struct gs_heap *heap = gs_block_heap(block);
    struct gs_segment *segment = block->segment, *detached = NULL;

    if (segment->shared || segment->paged) {
        return NULL;
    }
    gs_lock_take(&heap->lock);
    if (!gs_heap_is_dead(heap) && ensure_claimed(block) && count_free(heap, block)) {
        segment->retained = segment->in_free = true;
        gs_free_became_idle(heap, segment->bytes, gs_free_wants(heap, segment->bytes));
        /* A retained segment is detached as soon as its last block is released. */
        detached = gs_block_release(heap, block);
    }
    gs_lock_drop(&heap->lock);
    return detached;
}

void gs_block_release_claim(struct gs_block *block)
{
    struct gs_heap *heap = gs_block_heap(block);

    gs_lock_take(&heap->lock);
    if (gs_block_state(block) == GS_BLOCK_CLAIMED) {
        if (gs_heap_is_dead(heap)) {
            gs_block_forget(heap, block);
        } else {
            gs_block_become(block, GS_BLOCK_LIVE);
        }
    }
    gs_lock_drop(&heap->lock);
}

enum gs_status gs_pool_retain(struct gs_pool *pool, uint64_t addr)
{
    struct gs_segment *segment = lock_segment(pool, addr);
    int spare = GS_CARVE_SPARE;
    bool empty = false;
    struct gs_heap *heap;

    if (!segment) {
        return GS_ERR_NOT_OURS;
    }
    (void)atomic_compare_exchange_strong(&pool->carving, &spare, GS_CARVE_NEVER);
    heap = gs_segment_heap(segment);
    if (!segment->retained) {
        empty = segment->occupied == 0;
        if (empty) {
            gs_segment_detach(heap, segment);
        } else if (segment->shared) {
            gs_segment_close_holes(heap, segment);
        }
        segment->retained = true;
        gs_segment_label(segment);
    }
    gs_lock_drop(&heap->lock);
    if (empty) {
        gs_segments_return(segment);
    } else {
        gs_tiers_drain(heap);
    }
    return GS_OK;
}

void gs_heap_retain_shared(struct gs_heap *heap)
{
    /* Drains first: a segment whose blocks are all cached becomes idle memory instead of
     * going back, which may wait. */
    gs_tiers_drain(heap);
    gs_lock_take(&heap->lock);
    for (struct gs_link *link = heap->segments.next; link != &heap->segments;
         link = link->next) {
        struct gs_segment *segment = GS_LINK_OWNER(link, struct gs_segment, all);

        if (!segment->shared || segment->retained || !segment->mapped ||
            segment->occupied == 0) {
            continue;
        }
        gs_segment_close_holes(heap, segment);
        segment->retained = true;
        gs_segment_label(segment);
    }
    gs_lock_drop(&heap->lock);
    gs_tiers_drain(heap);
}

void gs_heap_retain_paged(struct gs_heap *heap)
{
    struct gs_segment *chain = NULL;
    struct gs_link *link, *next;

    gs_tiers_drain(heap);
    gs_lock_take(&heap->lock);
    for (link = heap->segments.next; link != &heap->segments; link = next) {
        struct gs_segment *segment = GS_LINK_OWNER(link, struct gs_segment, all);

        next = link->next;
        if (!segment->paged || segment->single || segment->retained || !segment->mapped) {
            continue;
        }
        if (segment->occupied) {
            segment->retained = true;
            gs_segment_label(segment);
        } else {
            gs_segment_detach(heap, segment);
            segment->next_detached = chain;
            chain = segment;
        }
    }
    gs_lock_drop(&heap->lock);
    gs_segments_return(chain);
    gs_tiers_drain(heap);
}

bool gs_pool_owns(const struct gs_pool *pool, uint64_t addr)
{
    const struct gs_segment *segment = gs_pages_find(&pool->pages, addr);

    return segment && gs_segment_holds(segment, addr);
}

/* The block of a shared segment that holds an offset, occupied or free. Two searches take
 * turns: back from the offset among the starts, which is short where blocks are small,
 * and forward through the blocks, which is short where they are few. */
static struct gs_block *block_around(struct gs_pool *pool, struct gs_segment *segment,
                                     uint32_t offset)
{
    const struct gs_starts *starts = &gs_segment_heap(segment)->starts;
    struct gs_block *ahead = gs_block_at(pool, segment->first);

    for (uint32_t at = offset; offset - ahead->offset >= ahead->units; at--) {
        struct gs_block *block = gs_starts_find(pool, starts, segment, at);

        /* The table holds no free blocks: one may follow the occupied block that was
         * found. */
        if (block) {
            return offset - block->offset < block->units ? block
                                                         : gs_block_at(pool, block->next);
        }
        ahead = gs_block_at(pool, ahead->next);
    }
    return ahead;
}

bool gs_pool_seek(struct gs_pool *pool, uint64_t addr, uint64_t bytes,
                  struct gs_block_hint *hint)
{
    struct gs_segment *segment = lock_segment(pool, addr);
    bool covered = false;

    if (!segment) {
        return false;
    }
    if (segment->shared) {
        const struct gs_block *block = block_around(
            pool, segment, (uint32_t)((addr - segment->addr) / GS_BLOCK_BYTES));
        uint32_t word = atomic_load_explicit(&block->word, memory_order_acquire);

        covered = (word & GS_BLOCK_STATE_MASK) == GS_BLOCK_LIVE &&
                  gs_block_covers(block, word, addr - gs_block_start(block), bytes);
        if (covered) {
            gs_hint_set(hint, block, gs_block_start(block), word);
        }
    }
    gs_lock_drop(&gs_segment_heap(segment)->lock);
    return covered;
}

enum gs_status gs_pool_find(struct gs_pool *pool, uint64_t addr, struct gs_range *out)
{
    struct gs_segment *segment = lock_segment(pool, addr);
    enum gs_block_state state;
    struct gs_block *block;

    if (!segment) {
        return GS_ERR_NOT_OURS;
    }
    if (segment->shared) {
        block = block_around(pool, segment,
                             (uint32_t)((addr - segment->addr) / GS_BLOCK_BYTES));
    } else {
        block = gs_block_at(pool, segment->first);
    }
    out->segment_addr = segment->addr;
    out->segment_bytes = segment->bytes;
    out->block_addr = gs_block_addr(block);
    out->block_bytes = gs_block_bytes(block);
    state = gs_block_state(block);
    out->live = state == GS_BLOCK_LIVE;
    out->claimed = state == GS_BLOCK_CLAIMED;
    out->pending = state == GS_BLOCK_PENDING;
    out->requested_bytes = out->live ? gs_block_requested(block) : 0;
    out->shared = segment->shared;
    out->poisoned = gs_segment_heap(segment)->poisoned;
    out->retained = segment->retained;
    out->paged = segment->paged;
    out->pages_id = segment->pages_id;
    out->heap = gs_segment_heap(segment);
    gs_lock_drop(&gs_segment_heap(segment)->lock);
    return GS_OK;
}
