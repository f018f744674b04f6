/*
 * obtain.c - maps a new segment for a request that found no memory.
 *
 * A segment enters the page map before it joins its heap, so no address is in two
 * segments. The backend is called between the locks, never under one.
 *
 * Owns: nothing.   Lock: heap->lock as the segment joins the heap.
 * Design: docs/pool.md, "Segments"
 */
#include "gs_clock.h"
#include "gs_uncancelled.h"
#include "pool/device_free.h"
#include "pool/fit.h"
#include "pool/obtain.h"
#include "pool/policy.h"
#include "pool/pool_limits.h"
#include "pool/reclaim.h"
#include "pool/segment.h"

/* Returns true if the page map and the alignment of blocks allow this address. */
static bool is_suitable(uint64_t addr, size_t bytes)
{
    uint64_t limit = (uint64_t)1 << GS_ADDRESS_BITS;

    return addr && addr % GS_LARGE_BYTES == 0 && addr < limit && bytes <= limit - addr;
}

/*
 * Makes a record for the segment and enters it into the page map, not yet into its heap.
 * Errors: GS_ERR_HOST_NOMEM; GS_ERR_INVALID (the range is this heap's own already)
 */
static enum gs_status publish(struct gs_heap *heap, uint64_t addr, size_t bytes,
                              enum gs_segment_kind kind, bool paged,
                              struct gs_segment **out)
{
    struct gs_pool *pool = heap->pool;
    struct gs_segment *segment;
    struct gs_heap *owner = NULL;
    enum gs_status status;
    uint32_t id;

    status = gs_table_take(&pool->segments, &id);
    if (status != GS_OK) {
        return status;
    }
    segment = gs_table_at(&pool->segments, id, sizeof(*segment));
    segment->id = id;
    __atomic_store_n(&segment->addr, addr, __ATOMIC_RELAXED);
    __atomic_store_n(&segment->bytes, bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&segment->first, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&segment->shared, kind == GS_SEGMENT_SHARED, __ATOMIC_RELAXED);
    segment->carved = false;
    segment->tolerance = 0;
    segment->single = kind == GS_SEGMENT_SINGLE;
    segment->paged = paged;
    segment->pages_id =
        paged ? 1 + atomic_fetch_add_explicit(&pool->pages_ids, 1, memory_order_relaxed)
              : 0;
    segment->requested = 0;
    segment->occupied = segment->chain = 0;
    segment->retained = segment->mapped = segment->in_free = segment->absent = false;
    gs_list_init(&segment->all);
    gs_list_init(&segment->idle);
    atomic_store_explicit(&segment->heap, heap, memory_order_release);
    gs_segment_label(segment);

    /* The driver hands out free addresses only. So a heap that still holds this address
     * has lost its context without a notice; there may be several such heaps. */
    while ((status = gs_pages_insert(&pool->pages, segment, &owner)) == GS_ERR_INVALID &&
           owner != heap) {
        gs_heap_bury(owner, 0);
    }
    if (status != GS_OK) {
        gs_table_give(&pool->segments, id);
        return status;
    }
    *out = segment;
    return GS_OK;
}

/* Makes the segment's one block, free, covering all of it. heap->lock is held. */
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
 * Adds the published segment to its heap and serves the request; NULL: a large segment
 * that is idle.
 * Errors: GS_ERR_UNPOOLABLE (dead or poisoned in the meantime), GS_ERR_HOST_NOMEM
 */
static enum gs_status add_segment(struct gs_heap *heap, struct gs_segment *segment,
                                  const struct gs_request *request, struct gs_block **out)
{
    struct gs_block *block;
    enum gs_status status;

    if (!gs_heap_usable(heap)) {
        return GS_ERR_UNPOOLABLE;
    }
    status = gs_stock_fill(&heap->pool->blocks, &heap->spare_blocks, 3);
    if (status == GS_OK) {
        status = gs_heap_stock(heap);
    }
    if (status != GS_OK) {
        return status;
    }

    heap->unsuitable = 0;
    segment->mapped = true;
    gs_list_append(&heap->segments, &segment->all);
    heap->stats.segments_mapped++;
    heap->stats.reserved_bytes += segment->bytes;
    if (heap->stats.reserved_bytes > heap->stats.reserved_peak_bytes) {
        heap->stats.reserved_peak_bytes = heap->stats.reserved_bytes;
    }
    gs_reclaim_account(heap, segment->bytes);
    if (gs_segment_is_grown(segment)) {
        gs_segment_record_grown(heap, segment->bytes, 0);
    }

    block = first_block(heap, segment);
    if (request && !segment->shared && segment->bytes > request->rounded) {
        gs_carving_begin(heap, segment);
    }
    if (segment->shared) {
        gs_hole_put(heap, block);
        block = gs_heap_carve(heap, block, request);
    } else if (request) {
        gs_heap_occupy(heap, block, request);
        gs_fit_tolerance_record(heap);
    } else {
        gs_large_put(&heap->pool->blocks, &heap->large->segments, block, &heap->seed);
        gs_segment_set_idle(heap, segment);
    }
    *out = block;
    return GS_OK;
}

/* Counts an unusable address, if its size usually gets a usable one. */
static void record_unsuitable(struct gs_heap *heap, enum gs_segment_kind kind)
{
    if (kind == GS_SEGMENT_SINGLE) { /* small exact sizes are mostly unaligned */
        return;
    }
    gs_lock_take(&heap->lock);
    heap->unsuitable++;
    gs_lock_drop(&heap->lock);
}

/* Makes an address of the backend a live block. Errors: as gs_segment_obtain. */
static enum gs_status adopt(struct gs_heap *heap, const struct gs_request *request,
                            enum gs_segment_kind kind, bool paged, uint64_t addr,
                            size_t bytes, struct gs_block **out)
{
    struct gs_segment *segment;
    enum gs_status status;

    if (!is_suitable(addr, bytes)) {
        record_unsuitable(heap, kind);
        status = GS_ERR_UNPOOLABLE;
        if (request && bytes == request->bytes && heap->backend->keep &&
            heap->backend->keep(heap->self, addr, bytes)) {
            return status;
        }
        goto give_back;
    }
    status = publish(heap, addr, bytes, kind, paged, &segment);
    if (status != GS_OK) {
        goto give_back;
    }
    gs_lock_take(&heap->lock);
    status = add_segment(heap, segment, request, out);
    gs_lock_drop(&heap->lock);
    if (status == GS_OK) {
        return GS_OK;
    }

    gs_pages_remove(&heap->pool->pages, segment);
    gs_table_give(&heap->pool->segments, segment->id);
give_back:
    gs_segment_unmap(heap, addr, bytes);
    if (status == GS_ERR_INVALID) { /* this very heap is the stale one */
        gs_heap_bury(heap, 0);
        status = GS_ERR_UNPOOLABLE;
    }
    return status;
}

enum gs_status gs_segment_adopt_pages(struct gs_heap *heap,
                                      const struct gs_request *request, bool single,
                                      uint64_t addr, size_t bytes, struct gs_block **out)
{
    return adopt(heap, request, single ? GS_SEGMENT_SINGLE : GS_SEGMENT_LARGE, true, addr,
                 bytes, out);
}

void gs_segment_adopt_idle(struct gs_heap *heap, uint64_t addr, size_t bytes)
{
    struct gs_block *block;
    enum gs_status status =
        adopt(heap, NULL, GS_SEGMENT_LARGE, true, addr, bytes, &block);

    (void)status; /* what cannot be adopted was returned */
}

/* Returns true if the device has refused memory, or large segments went back to it
 * because it was short. */
static bool was_short(const struct gs_heap *heap)
{
    const struct gs_headroom *room = gs_headroom_of(heap);

    return atomic_load_explicit(&room->refused, memory_order_relaxed) ||
           atomic_load_explicit(&room->short_next, memory_order_relaxed);
}

/* Returns true if a large segment is to be made of pages. */
static bool wants_pages(struct gs_heap *heap, size_t bytes)
{
    struct gs_pool *pool = heap->pool;
    int spare = GS_CARVE_SPARE;

    if (!heap->backend->make_pages || bytes % GS_LARGE_BYTES ||
        (pool->late_pages && !was_short(heap))) {
        return false;
    }
    if (pool->late_pages) { /* a segment of pages must not be carved */
        (void)atomic_compare_exchange_strong(&pool->carving, &spare, GS_CARVE_NEVER);
    }
    return true;
}

/* Asks the backend for memory. `large`: one large block will take all of it. Out: *paged
 * whether it is made of pages */
static enum gs_status map(struct gs_heap *heap, bool large, size_t bytes, uint64_t *addr,
                          bool *paged, int *native)
{
    const struct gs_backend *backend = heap->backend;
    enum gs_status status = GS_ERR_UNPOOLABLE;

    *paged = large && wants_pages(heap, bytes);
    if (*paged) {
        status = backend->make_pages(heap->self, bytes, NULL, 0, addr, native);
    }
    if (status != GS_ERR_UNPOOLABLE) {
        return status;
    }
    *paged = false;
    return backend->map(heap->self, bytes, addr, native);
}

enum gs_status gs_segment_obtain(struct gs_heap *heap, const struct gs_request *request,
                                 enum gs_segment_kind kind, size_t bytes,
                                 struct gs_block **out, int *native)
{
    bool shares = kind == GS_SEGMENT_SHARED || bytes > request->rounded, paged;
    bool large = kind == GS_SEGMENT_LARGE && !shares;
    struct gs_ticket ticket;
    enum gs_status status;
    uint64_t addr = 0, began_ns;
    int code = 0, before;

    if (!gs_reclaim_begin(heap, &ticket, shares)) {
        return GS_ERR_UNPOOLABLE;
    }
    began_ns = gs_now_ns();
    before = gs_uncancelled_begin(); /* the ticket is on this stack */
    status = map(heap, large, bytes, &addr, &paged, &code);
    if (status == GS_ERR_NOMEM && gs_heap_reclaim(heap, bytes, GS_SHORTAGE_SEGMENT)) {
        status = map(heap, large, bytes, &addr, &paged, &code);
    }
    gs_uncancelled_end(before);
    gs_segment_record_call(heap, began_ns);
    if (status != GS_OK) {
        gs_reclaim_end(heap, &ticket, false);
        *native = code;
        return status == GS_ERR_NOMEM ? GS_ERR_NOMEM : GS_ERR_BACKEND;
    }
    gs_limits_served(heap, bytes);
    if (kind == GS_SEGMENT_LARGE) {
        gs_free_mapped(heap, bytes);
    }
    status = adopt(heap, request, kind, paged, addr, bytes, out);
    /* Reports more memory to waiting requests: the rest of a shared segment; or, after a
     * failure, memory that the driver may have again. */
    gs_reclaim_end(heap, &ticket, shares || status != GS_OK);
    return status;
}
