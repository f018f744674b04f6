/*
 * fit.c - finds the best hole of the shared segments, or the closest cached large
 * segment, for a request, and returns the rest of the hole.
 *
 * Owns: nothing.   Lock: heap->lock.
 * Design: docs/pool.md, "Small requests" and "Large requests"
 */
#include "pool/fit.h"
#include "pool/hit.h"
#include "pool/policy.h"
#include "pool/segment.h"

enum gs_status gs_heap_stock(struct gs_heap *heap)
{
    enum gs_status status = GS_OK;

    if (GS_UNLIKELY(heap->spare_blocks.count < 2)) {
        status = gs_stock_fill(&heap->pool->blocks, &heap->spare_blocks, 2);
    }
    if (GS_UNLIKELY(status != GS_OK)) {
        return status;
    }
    return gs_starts_reserve(heap->pool, &heap->starts);
}

/* Units between the start of a hole of a carved segment and the next multiple of 2 MiB,
 * where a large block starts. */
static inline uint32_t large_head(const struct gs_block *hole)
{
    return -hole->offset & (GS_LARGE_UNITS - 1);
}

/* Units of the hole in front of the block. A block that starts at a page is at the hole's
 * end if only the end is at a page: then nothing is left on both sides. If no page
 * boundary leaves enough space, the block starts where the hole begins. In a carved
 * segment, a small block is at the hole's end, so that large blocks still find the hole's
 * start at a multiple of 2 MiB. */
static inline uint32_t head_of(const struct gs_block *hole, uint32_t units)
{
    uint32_t head = -hole->offset & (GS_PAGE_UNITS - 1);

    if (GS_UNLIKELY(hole->segment->carved)) {
        return units % GS_LARGE_UNITS ? hole->units - units : large_head(hole);
    }
    if (head == 0 || !gs_bins_aligned(units) || head + units > hole->units) {
        return 0;
    }
    return (hole->offset + hole->units) % GS_PAGE_UNITS ? head : hole->units - units;
}

/* Makes `units` of the hole a block of their own, `head` units after its start. What is
 * left of the hole stays where it is entered, if possible. */
static inline struct gs_block *split(struct gs_heap *heap, struct gs_block *hole,
                                     uint32_t head, uint32_t units)
{
    const struct gs_pool *pool = heap->pool;
    uint32_t tail = hole->units - head - units;
    struct gs_block *block, *rest;

    if (!head && !tail) {
        gs_hole_drop(heap, hole);
        return hole;
    }
    block = gs_block_new(heap);
    gs_block_place(block, hole->segment, hole->offset + head, units);
    if (!head) {
        gs_block_link_before(pool, hole, block);
        gs_hole_move(heap, hole, hole->offset + units, tail);
        return block;
    }
    gs_block_link_behind(pool, hole, block);
    gs_hole_move(heap, hole, hole->offset, head);
    if (tail) {
        rest = gs_block_new(heap);
        gs_block_place(rest, hole->segment, block->offset + units, tail);
        gs_block_become(rest, GS_BLOCK_FREE);
        gs_block_link_behind(pool, block, rest);
        gs_hole_put(heap, rest);
    }
    return block;
}

/* Cuts an occupied block of `units` out of the hole. The caller sets its state. */
static inline struct gs_block *cut_out(struct gs_heap *heap, struct gs_block *hole,
                                       uint32_t units)
{
    struct gs_segment *segment = hole->segment;
    struct gs_block *block;

    if (segment->occupied++ == 0) {
        gs_segment_set_active(heap, segment);
        gs_fit_tolerance_record(heap);
    }
    block = split(heap, hole, head_of(hole, units), units);
    gs_starts_put(&heap->starts, block);
    if (GS_LIKELY(!segment->carved)) {
        heap->small_units += block->units;
    }
    return block;
}

struct gs_block *gs_heap_cut(struct gs_heap *heap, uint32_t units)
{
    struct gs_block *block =
        gs_heap_usable(heap) ? gs_bins_fit(&heap->pool->blocks, heap->bins, units) : NULL;

    /* An idle segment stays idle: it could be returned. */
    if (!block || !block->segment->occupied || gs_heap_stock(heap) != GS_OK) {
        return NULL;
    }
    block = cut_out(heap, block, units);
    gs_block_begin(block, GS_BLOCK_CACHED);
    return block;
}

struct gs_block *gs_heap_carve(struct gs_heap *heap, struct gs_block *hole,
                               const struct gs_request *request)
{
    uint32_t units = hole->segment->carved ? request->cut_units : request->units;
    struct gs_block *block = cut_out(heap, hole, units);

    gs_block_set_requested(block, request->bytes);
    gs_block_begin(block, GS_BLOCK_LIVE);
    heap->stats.live_bytes += request->bytes;
    heap->stats.used_bytes += block->units * GS_BLOCK_BYTES;
    heap->stats.requested_bytes += request->bytes;
    heap->stats.given_bytes += block->units * GS_BLOCK_BYTES;
    heap->stats.allocs++;
    return block;
}

void gs_heap_occupy(struct gs_heap *heap, struct gs_block *block,
                    const struct gs_request *request)
{
    struct gs_segment *segment = block->segment;

    segment->occupied = 1;
    gs_fit_tolerance_begin(heap, segment, request->rounded);
    gs_block_set_requested(block, request->bytes);
    gs_block_begin(block, GS_BLOCK_LIVE);
    heap->stats.live_bytes += request->bytes;
    heap->stats.used_bytes += segment->bytes;
    heap->stats.requested_bytes += request->bytes;
    heap->stats.given_bytes += segment->bytes;
    heap->stats.allocs++;
}

/* Makes the cached segment one that large blocks share. Returns its only hole; NULL: no
 * memory for the records of a cut. */
static struct gs_block *begin_carving(struct gs_heap *heap, struct gs_block *block)
{
    if (gs_heap_stock(heap) != GS_OK) {
        return NULL;
    }
    gs_large_drop(&heap->pool->blocks, &heap->large->segments, block);
    gs_segment_set_active(heap, block->segment);
    gs_carving_begin(heap, block->segment);
    gs_hole_put(heap, block);
    return block;
}

/* The best-fitting hole of the carved segments; NULL if there is none. A hole that starts
 * after a small block may be large enough only before its start is rounded up. Inlined: a
 * request that misses searches here twice. */
static inline __attribute__((always_inline)) struct gs_block *
fit_carved(struct gs_heap *heap, const struct gs_request *request)
{
    const struct gs_table *blocks = &heap->pool->blocks;
    uint32_t units = request->cut_units;
    struct gs_block *hole;

    if (!units) {
        return NULL;
    }
    hole = gs_large_fit(blocks, &heap->large->holes, units);
    if (hole && units % GS_LARGE_UNITS == 0 && large_head(hole) + units > hole->units) {
        hole = gs_large_fit(blocks, &heap->large->holes,
                            units + GS_LARGE_UNITS - GS_CUT_UNITS);
    }
    return hole;
}

/* A cached segment that fits the request, or a hole that it may be cut from; NULL:
 * none. */
static struct gs_block *fit_large(struct gs_heap *heap, const struct gs_request *request,
                                  enum gs_closeness closeness)
{
    const struct gs_table *blocks = &heap->pool->blocks;
    struct gs_block *block = gs_large_fit(blocks, &heap->large->segments, request->units),
                    *hole;

    if (block && block->units == request->units) {
        return block;
    }
    hole = fit_carved(heap, request);
    if (hole && gs_carving_admits(heap, hole->segment, request->rounded)) {
        return hole;
    }
    if (!block || gs_fit_tolerance_allows(heap, request, block, closeness)) {
        return block;
    }
    return request->cut_units && gs_carving_allows(heap, block->segment->bytes) &&
                   gs_carving_admits(heap, block->segment, request->rounded)
               ? begin_carving(heap, block)
               : NULL;
}

/* Gives the block to the request: a cached segment whole, or the needed part of a
 * hole. */
static enum gs_status serve(struct gs_heap *heap, const struct gs_request *request,
                            struct gs_block *block, struct gs_block **out)
{
    enum gs_status status;

    if (!block) {
        return GS_ERR_NOT_FOUND;
    }
    if (block->segment->shared) {
        status = gs_heap_stock(heap);
        if (status != GS_OK) {
            return status;
        }
        *out = gs_heap_carve(heap, block, request);
        return GS_OK;
    }
    gs_large_drop(&heap->pool->blocks, &heap->large->segments, block);
    gs_heap_occupy(heap, block, request);
    gs_segment_set_active(heap, block->segment);
    gs_fit_tolerance_record(heap);
    *out = block;
    return GS_OK;
}

enum gs_status gs_heap_try(struct gs_heap *heap, const struct gs_request *request,
                           struct gs_block **out)
{
    struct gs_block *block;

    if (GS_UNLIKELY(!gs_heap_usable(heap))) {
        return GS_ERR_UNPOOLABLE;
    }
    block = request->large ? fit_large(heap, request, GS_EXACT)
                           : gs_bins_fit(&heap->pool->blocks, heap->bins, request->units);
    return serve(heap, request, block, out);
}

enum gs_status gs_heap_try_anywhere(struct gs_heap *heap,
                                    const struct gs_request *request,
                                    struct gs_block **out)
{
    const struct gs_table *blocks = &heap->pool->blocks;
    struct gs_block *block;

    if (GS_UNLIKELY(!gs_heap_usable(heap))) {
        return GS_ERR_UNPOOLABLE;
    }
    block =
        request->large ? NULL : gs_bins_fit_anywhere(blocks, heap->bins, request->units);
    return serve(heap, request, block ? block : fit_carved(heap, request), out);
}

enum gs_status gs_heap_try_closely(struct gs_heap *heap, const struct gs_request *request,
                                   struct gs_block **out)
{
    if (GS_UNLIKELY(!gs_heap_usable(heap))) {
        return GS_ERR_UNPOOLABLE;
    }
    return serve(heap, request, fit_large(heap, request, GS_CLOSE), out);
}

enum gs_status gs_heap_try_loosely(struct gs_heap *heap, const struct gs_request *request,
                                   struct gs_block **out)
{
    if (GS_UNLIKELY(!gs_heap_usable(heap))) {
        return GS_ERR_UNPOOLABLE;
    }
    if (!request->large) {
        return gs_heap_try(heap, request, out);
    }
    return serve(heap, request, fit_large(heap, request, GS_LOOSE), out);
}
