/*
 * segment.c - segments come from the backend and go back to it.
 *
 * A segment enters the page map before it joins its heap, and leaves it before the
 * backend is told, so an address is never known twice. The backend is called between the
 * locks, never under one.
 *
 * Owns: segment records.   Lock: heap->lock for a mapped segment; a detached one belongs
 * to the thread that detached it.   Design: docs/pool.md, "Segments"
 */

#include "heap.h"
#include "gs_clock.h"
#include "gs_uncancelled.h"

/* A call of the backend that began at that time is over. No lock is held. */
static void note_call(struct gs_heap *heap, uint64_t began_ns)
{
    uint64_t took_ns = gs_now_ns() - began_ns;

    gs_lock_take(&heap->lock);
    heap->stats.driver_calls++;
    heap->stats.driver_ns += took_ns;
    gs_lock_drop(&heap->lock);
}

/* Memory of a heap that may have died meanwhile, and its memory with it. */
static void unmap(struct gs_heap *heap, uint64_t addr, size_t bytes)
{
    uint64_t began_ns;
    int before;

    if (gs_heap_is_dead(heap))
        return;
    began_ns = gs_now_ns();
    before = gs_uncancelled_begin();
    heap->backend->unmap(heap->self, addr, bytes);
    gs_uncancelled_end(before);
    note_call(heap, began_ns);
}

static enum gs_idle_part part_of(const struct gs_segment *segment)
{
    return segment->shared ? GS_IDLE_SHARED : GS_IDLE_LARGE;
}

void gs_segment_rest(struct gs_heap *heap, struct gs_segment *segment)
{
    gs_list_append(&heap->idle[part_of(segment)], &segment->idle);
    heap->idle_bytes[part_of(segment)] += segment->bytes;
    segment->rested = ++heap->rests;
    gs_limits_rest(heap, segment);
}

void gs_segment_wake(struct gs_heap *heap, struct gs_segment *segment)
{
    if (gs_list_empty(&segment->idle)) /* on no list: fresh from the backend */
        return;
    gs_list_remove(&segment->idle);
    heap->idle_bytes[part_of(segment)] -= segment->bytes;
    gs_limits_wake(heap, segment);
}

/* Shared, and larger than what the driver shares among small requests. */
static inline bool is_grown(const struct gs_segment *segment)
{
    return segment->shared && GS_UNLIKELY(segment->bytes > GS_LARGE_BYTES) &&
           !segment->carved;
}

/* heap->lock is held. */
static GS_NOINLINE void note_grown(struct gs_heap *heap, size_t more, size_t less)
{
    heap->grown_bytes += more - less;
    atomic_fetch_add_explicit(&gs_room_of(heap)->grown, more - less,
                              memory_order_relaxed);
}

void gs_segment_forget_grown(struct gs_heap *heap)
{
    note_grown(heap, 0, heap->grown_bytes);
}

void gs_segment_detach(struct gs_heap *heap, struct gs_segment *segment)
{
    struct gs_pool *pool = heap->pool;
    struct gs_block *block = gs_block_at(pool, segment->first);
    bool begun;

    assert(segment->occupied == 0 && block->next == 0);
    if (!gs_list_empty(&segment->idle)) { /* only what rests is up for new tenants */
        gs_segment_wake(heap, segment);
        if (segment->shared)
            gs_hole_drop(heap, block);
        else
            gs_large_drop(&pool->blocks, heap->large, block);
    }
    gs_block_recycle(heap, block);
    segment->mapped = false;
    segment->next_detached = NULL;
    gs_list_remove(&segment->all);
    begun = gs_relief_begin(heap, &segment->ticket, !segment->in_free);
    assert(begun); /* the heap lives: its lock is held */
    (void)begun;
    gs_pages_remove(&pool->pages, segment);
    heap->stats.reserved_bytes -= segment->bytes;
    heap->stats.segments_unmapped++;
    if (is_grown(segment))
        note_grown(heap, 0, segment->bytes);
    gs_relief_depart(heap, segment->bytes);
}

void gs_segments_return(struct gs_segment *detached)
{
    while (GS_UNLIKELY(detached != NULL)) {
        struct gs_segment *segment = detached;
        struct gs_heap *heap = gs_segment_heap(segment);

        detached = segment->next_detached;
        unmap(heap, segment->addr, segment->bytes);
        gs_relief_return(heap, &segment->ticket, segment->bytes, segment->bytes);
        gs_table_give(&heap->pool->segments, segment->id);
    }
}

void gs_segment_is_out(struct gs_segment *segment, bool freed)
{
    struct gs_heap *heap = gs_segment_heap(segment);

    note_call(heap, gs_now_ns()); /* its time is that of the free's wait */
    gs_relief_return(heap, &segment->ticket, freed ? segment->bytes : 0, segment->bytes);
    gs_table_give(&heap->pool->segments, segment->id);
}

void gs_segment_label(struct gs_segment *segment)
{
    enum gs_cacheable label = segment->shared ? GS_CACHEABLE_BLOCKS : GS_CACHEABLE_WHOLE;

    if (segment->single || segment->retained || segment->carved ||
        (!segment->shared && gs_segment_heap(segment)->pool->strict_idle))
        label = GS_CACHEABLE_NOTHING;
    atomic_store(&segment->cacheable, (uint8_t)label);
}

/* Can the page map and the alignment of blocks live with this address? */
static bool is_suitable(uint64_t addr, size_t bytes)
{
    uint64_t limit = (uint64_t)1 << GS_ADDRESS_BITS;

    return addr && addr % GS_LARGE_BYTES == 0 && addr < limit && bytes <= limit - addr;
}

/*
 * A record for the segment, known to the page map, not yet to its heap.
 * Errors: GS_ERR_HOST_NOMEM; GS_ERR_INVALID (the range is this heap's own already)
 */
static enum gs_status publish(struct gs_heap *heap, uint64_t addr, size_t bytes,
                              enum gs_segment_kind kind, struct gs_segment **out)
{
    struct gs_pool *pool = heap->pool;
    struct gs_segment *segment;
    struct gs_heap *owner = NULL;
    enum gs_status status;
    uint32_t id;

    status = gs_table_take(&pool->segments, &id);
    if (status != GS_OK)
        return status;
    segment = gs_table_at(&pool->segments, id, sizeof(*segment));
    segment->id = id;
    __atomic_store_n(&segment->addr, addr, __ATOMIC_RELAXED);
    __atomic_store_n(&segment->bytes, bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&segment->first, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&segment->shared,
                     kind == GS_SEGMENT_SHARED || kind == GS_SEGMENT_CARVED,
                     __ATOMIC_RELAXED);
    segment->carved = kind == GS_SEGMENT_CARVED;
    segment->slack = 0;
    segment->single = kind == GS_SEGMENT_SINGLE;
    segment->requested = 0;
    segment->occupied = segment->chain = 0;
    segment->retained = segment->mapped = segment->in_free = false;
    gs_list_init(&segment->all);
    gs_list_init(&segment->idle);
    atomic_store_explicit(&segment->heap, heap, memory_order_release);
    gs_segment_label(segment);

    /* An address the driver hands out is nobody's: a heap that still claims it has lost
     * its context unseen, and there may be several such. */
    while ((status = gs_pages_insert(&pool->pages, segment, &owner)) == GS_ERR_INVALID &&
           owner != heap)
        gs_heap_bury(owner, 0);
    if (status != GS_OK) {
        gs_table_give(&pool->segments, id);
        return status;
    }
    *out = segment;
    return GS_OK;
}

/* The segment's one block, free, covering all of it. heap->lock is held. */
static struct gs_block *first_block(struct gs_heap *heap, struct gs_segment *segment)
{
    struct gs_block *block = gs_block_new(heap);

    gs_block_place(block, segment, 0,
                   (uint32_t)((segment->bytes + GS_BLOCK_BYTES - 1) / GS_BLOCK_BYTES));
    block->prev = block->next = 0;
    gs_block_become(block, GS_BLOCK_FREE);
    __atomic_store_n(&segment->first, block->id, __ATOMIC_RELEASE);
    return block;
}

/*
 * The published segment joins its heap and serves the request.
 * Errors: GS_ERR_UNPOOLABLE (dead or poisoned meanwhile), GS_ERR_HOST_NOMEM
 */
static enum gs_status settle(struct gs_heap *heap, struct gs_segment *segment,
                             const struct gs_request *request, struct gs_block **out)
{
    struct gs_block *block;
    enum gs_status status;

    if (!gs_heap_usable(heap))
        return GS_ERR_UNPOOLABLE;
    status = gs_stock_fill(&heap->pool->blocks, &heap->spare_blocks, 3);
    if (status == GS_OK)
        status = gs_heap_stock(heap);
    if (status != GS_OK)
        return status;

    heap->unsuitable = 0;
    segment->mapped = true;
    gs_list_append(&heap->segments, &segment->all);
    heap->stats.segments_mapped++;
    heap->stats.reserved_bytes += segment->bytes;
    if (heap->stats.reserved_bytes > heap->stats.reserved_peak_bytes)
        heap->stats.reserved_peak_bytes = heap->stats.reserved_bytes;
    gs_relief_account(heap, segment->bytes);
    if (is_grown(segment))
        note_grown(heap, segment->bytes, 0);

    block = first_block(heap, segment);
    if (segment->shared) {
        gs_hole_put(heap, block);
        block = gs_heap_carve(heap, block, request);
    } else {
        gs_heap_occupy(heap, block, request);
        gs_slack_note(heap);
    }
    *out = block;
    return GS_OK;
}

/* An address that cannot be pooled, of a size that usually can, makes the heap wary. */
static void note_unsuitable(struct gs_heap *heap, enum gs_segment_kind kind)
{
    if (kind == GS_SEGMENT_SINGLE) /* small exact sizes come unaligned by nature */
        return;
    gs_lock_take(&heap->lock);
    heap->unsuitable++;
    gs_lock_drop(&heap->lock);
}

/* From an address of the backend to a live block. Errors: as gs_segment_obtain. */
static enum gs_status adopt(struct gs_heap *heap, const struct gs_request *request,
                            enum gs_segment_kind kind, uint64_t addr, size_t bytes,
                            struct gs_block **out)
{
    struct gs_segment *segment;
    enum gs_status status;

    if (!is_suitable(addr, bytes)) {
        note_unsuitable(heap, kind);
        status = GS_ERR_UNPOOLABLE;
        if (bytes == request->bytes && heap->backend->keep &&
            heap->backend->keep(heap->self, addr, bytes))
            return status;
        goto give_back;
    }
    status = publish(heap, addr, bytes, kind, &segment);
    if (status != GS_OK)
        goto give_back;
    gs_lock_take(&heap->lock);
    status = settle(heap, segment, request, out);
    gs_lock_drop(&heap->lock);
    if (status == GS_OK)
        return GS_OK;

    gs_pages_remove(&heap->pool->pages, segment);
    gs_table_give(&heap->pool->segments, segment->id);
give_back:
    unmap(heap, addr, bytes);
    if (status == GS_ERR_INVALID) { /* this very heap is the stale one */
        gs_heap_bury(heap, 0);
        status = GS_ERR_UNPOOLABLE;
    }
    return status;
}

enum gs_status gs_segment_obtain(struct gs_heap *heap, const struct gs_request *request,
                                 enum gs_segment_kind kind, size_t bytes,
                                 struct gs_block **out, int *native)
{
    bool shares = kind == GS_SEGMENT_SHARED || kind == GS_SEGMENT_CARVED;
    struct gs_ticket ticket;
    enum gs_status status;
    uint64_t addr = 0, began_ns;
    int code = 0, before;

    if (!gs_relief_begin(heap, &ticket, shares))
        return GS_ERR_UNPOOLABLE;
    began_ns = gs_now_ns();
    before = gs_uncancelled_begin(); /* the ticket lies on this stack */
    status = heap->backend->map(heap->self, bytes, &addr, &code);
    gs_uncancelled_end(before);
    note_call(heap, began_ns);
    if (status != GS_OK) {
        gs_relief_end(heap, &ticket, false);
        *native = code;
        return status == GS_ERR_NOMEM ? GS_ERR_NOMEM : GS_ERR_BACKEND;
    }
    gs_limits_served(heap, bytes);
    if (kind == GS_SEGMENT_LARGE)
        gs_free_mapped(heap, bytes);
    status = adopt(heap, request, kind, addr, bytes, out);
    /* What it has beyond this request is anybody's; a segment of one block has nothing,
     * but the driver may have it again. */
    gs_relief_end(heap, &ticket, shares || status != GS_OK);
    return status;
}
