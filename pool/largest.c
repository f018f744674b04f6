/*
 * largest.c - the largest piece of memory that a device's heaps have and nothing uses,
 * and why a refused request did not get it.
 *
 * Owns: nothing.   Lock: heap->lock, with the thread caches excluded.
 * Design: docs/tracker.md, "Out of memory"
 */
#include "pool/heap.h"
#include "pool/policy.h"

/* A refused request, and the largest piece so far. */
struct search {
    const struct gs_heap *heap;
    size_t bytes;
    size_t largest_bytes;
    enum gs_piece_bar bar;
};

static size_t rounded(const struct search *search, const struct gs_segment *segment)
{
    bool large = search->bytes >= GS_LARGE_BYTES;
    size_t step = large             ? segment->heap->pool->large_step_bytes
                  : segment->carved ? GS_CUT_UNITS * GS_BLOCK_BYTES
                                    : GS_BLOCK_BYTES;

    return gs_round_up(search->bytes, step);
}

static enum gs_piece_bar bar_of(const struct search *search, const struct gs_block *block)
{
    const struct gs_segment *segment = block->segment;
    enum gs_block_state state = gs_block_state(block);

    if (gs_block_bytes(block) < search->bytes) {
        return GS_PIECE_SMALL;
    }
    if (state == GS_BLOCK_PENDING || state == GS_BLOCK_READY) {
        return GS_PIECE_PENDING;
    }
    if (segment->heap != search->heap) {
        return GS_PIECE_ELSEWHERE;
    }
    if (segment->retained) {
        return GS_PIECE_RETAINED;
    }
    if (segment->shared && !segment->carved && search->bytes >= GS_LARGE_BYTES) {
        return GS_PIECE_UNSHARED;
    }
    return gs_block_bytes(block) < rounded(search, segment) ? GS_PIECE_ROUNDED
                                                            : GS_PIECE_FREED;
}

static void look_at(struct search *search, const struct gs_block *block)
{
    switch (gs_block_state(block)) {
    case GS_BLOCK_SPARE:
    case GS_BLOCK_LIVE:
    case GS_BLOCK_CLAIMED:
        return;
    case GS_BLOCK_FREE:
    case GS_BLOCK_PENDING:
    case GS_BLOCK_READY:
    case GS_BLOCK_CACHED:
        break;
    }
    if (gs_block_bytes(block) > search->largest_bytes) {
        search->largest_bytes = gs_block_bytes(block);
        search->bar = bar_of(search, block);
    }
}

/* heap->lock is held. */
static void search_heap(struct search *search, const struct gs_heap *heap)
{
    const struct gs_link *link;

    for (link = heap->segments.next; link != &heap->segments; link = link->next) {
        uint32_t id = GS_LINK_OWNER(link, const struct gs_segment, all)->first;

        while (id) {
            const struct gs_block *block = gs_block_at(heap->pool, id);

            look_at(search, block);
            id = block->next;
        }
    }
}

size_t gs_pool_largest_piece(struct gs_pool *pool, int device, const struct gs_heap *heap,
                             size_t bytes, enum gs_piece_bar *bar)
{
    struct search search = {.heap = heap, .bytes = bytes};

    for (struct gs_heap *each = atomic_load(&pool->heaps); each; each = each->next) {
        if (!gs_heap_on(each, device)) {
            continue;
        }
        gs_tiers_exclude(each);
        gs_lock_take(&each->lock);
        search_heap(&search, each);
        gs_lock_drop(&each->lock);
        gs_tiers_admit(each);
    }
    if (search.largest_bytes) {
        *bar = search.bar;
    }
    return search.largest_bytes;
}
