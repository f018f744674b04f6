/*
 * check.c - checks every invariant of the pool, one heap at a time.
 *
 * Slow: walks all blocks under the heap's lock. For tests and for a debugging option.
 *
 * Owns: nothing.   Lock: one heap->lock at a time.   See gs_pool_check in pool.h
 */
#include "pool/heap.h"
#include "pool/policy.h"
#include "pool/reclaim.h"
#include "pool/runs.h"

/* The sums of a walk over a heap's segments. */
struct tally {
    size_t holes;  /* free blocks; each must be in a bin */
    size_t cached; /* free blocks; each must be in the large tree */
    size_t starts; /* occupied blocks; each must be in the table of starts */
    size_t tiers;  /* cached blocks; each must be in a cache tier */
    size_t pending;
    size_t idle[GS_IDLE_PARTS];
    size_t carved; /* free blocks; each must be in the tree of the carved segments */
    uint64_t small_units, carved_bytes, tolerance_bytes, grown_bytes, live_bytes,
        used_bytes, pending_bytes, reserved_bytes, absent_bytes;
};

static const char *check_block(struct gs_pool *pool, const struct gs_segment *segment,
                               const struct gs_block *block)
{
    enum gs_block_state state = gs_block_state(block);
    bool occupied = state == GS_BLOCK_LIVE || state == GS_BLOCK_CLAIMED ||
                    state == GS_BLOCK_PENDING || state == GS_BLOCK_READY ||
                    state == GS_BLOCK_CACHED;
    const struct gs_starts *starts = &gs_segment_heap(segment)->starts;

    if (block->segment != segment) {
        return "a block names another segment";
    }
    if (!occupied && state != GS_BLOCK_FREE) {
        return "a spare record stands in a segment";
    }
    if (block->units == 0) {
        return "a block is empty";
    }
    if (!segment->shared) {
        return block->offset || block->next ? "a large segment is split" : NULL;
    }
    if (occupied && gs_starts_find(pool, starts, segment, block->offset) != block) {
        return "an occupied block's start is not known";
    }
    if (!occupied && gs_starts_find(pool, starts, segment, block->offset)) {
        return "a free block's start is taken for an occupied one's";
    }
    if (segment->carved && (block->offset | block->units) % GS_CUT_UNITS) {
        return "a block of a carved segment is no multiple of 64 KiB";
    }
    if (segment->carved && occupied && block->units % GS_LARGE_UNITS == 0 &&
        block->offset % GS_LARGE_UNITS) {
        return "a large block of a carved segment starts at no multiple of 2 MiB";
    }
    if (!occupied && block->next &&
        gs_block_state(gs_block_at(pool, block->next)) == GS_BLOCK_FREE) {
        return "two free neighbours were not merged";
    }
    return NULL;
}

/* Counts a block in the tables in which it must be. */
static void tally_block(struct tally *tally, const struct gs_segment *segment,
                        const struct gs_block *block)
{
    enum gs_block_state state = gs_block_state(block);
    size_t bytes = gs_block_bytes(block);

    if (state == GS_BLOCK_FREE) {
        tally->holes += segment->shared && !segment->carved && !segment->retained;
        tally->carved += segment->carved && !segment->retained;
        tally->cached += !segment->shared;
        return;
    }
    tally->starts += segment->shared;
    if (segment->shared && !segment->carved) {
        tally->small_units += block->units;
    }
    if (state == GS_BLOCK_CACHED) {
        tally->tiers++;
        return;
    }
    if (state == GS_BLOCK_PENDING || state == GS_BLOCK_READY) {
        tally->pending += state == GS_BLOCK_PENDING;
        tally->pending_bytes += bytes;
        return;
    }
    tally->live_bytes += gs_block_requested(block);
    tally->used_bytes += bytes;
}

/* Checks a segment: the page map, its blocks in their order, and its counts. Adds to the
 * tally. Returns the first error, or NULL. */
static const char *check_segment(struct gs_heap *heap, struct gs_segment *segment,
                                 struct tally *tally)
{
    struct gs_pool *pool = heap->pool;
    uint64_t units = (segment->bytes + GS_BLOCK_BYTES - 1) / GS_BLOCK_BYTES;
    uint32_t prev = 0, occupied = 0;
    uint64_t offset = 0;

    if (!segment->mapped || gs_segment_heap(segment) != heap) {
        return "a segment does not know its heap";
    }
    for (uint64_t at = 0; at < segment->bytes; at += GS_LARGE_BYTES) {
        if (gs_pages_find(&pool->pages, segment->addr + at) != segment) {
            return "the page map does not know a segment";
        }
    }
    for (uint32_t id = segment->first; id;) {
        const struct gs_block *block = gs_block_at(pool, id);
        const char *why = check_block(pool, segment, block);

        if (why) {
            return why;
        }
        if (block->id != id || block->prev != prev || block->offset != offset) {
            return "the blocks of a segment do not follow one another";
        }
        tally_block(tally, segment, block);
        occupied += gs_block_state(block) != GS_BLOCK_FREE;
        offset += block->units;
        prev = id;
        id = block->next;
    }
    if (offset != units) {
        return "the blocks of a segment do not fill it";
    }
    if (occupied != segment->occupied) {
        return "a segment miscounts its blocks";
    }
    if (gs_list_empty(&segment->idle) != (occupied != 0)) {
        return "an empty segment is not idle, or one in use is";
    }
    if (!occupied) {
        tally->idle[segment->shared ? GS_IDLE_SHARED : GS_IDLE_LARGE] += segment->bytes;
    }
    if (segment->tolerance && (segment->shared || !occupied)) {
        return "a segment without an allocation of its own has a fit tolerance";
    }
    if (segment->carved && !segment->shared) {
        return "blocks of a carved segment may be cached";
    }
    if (segment->carved && !occupied) {
        return "a segment without a block is still carved";
    }
    tally->carved_bytes += segment->carved ? segment->bytes : 0;
    tally->tolerance_bytes += segment->tolerance;
    if (segment->shared && !segment->carved && segment->bytes > GS_LARGE_BYTES) {
        tally->grown_bytes += segment->bytes;
    }
    tally->reserved_bytes += gs_segment_present(segment);
    tally->absent_bytes += segment->bytes - gs_segment_present(segment);
    return NULL;
}

static const char *check_idle(const struct gs_heap *heap, const struct tally *tally)
{
    for (int i = 0; i < GS_IDLE_PARTS; i++) {
        size_t bytes = 0;

        for (struct gs_link *link = heap->idle[i].next; link != &heap->idle[i];
             link = link->next) {
            bytes += GS_LINK_OWNER(link, struct gs_segment, idle)->bytes;
        }
        if (bytes != tally->idle[i] || bytes != heap->idle_bytes[i]) {
            return "idle memory is miscounted";
        }
    }
    return gs_runs_check(heap);
}

static const char *check_pending(const struct gs_heap *heap, const struct tally *tally)
{
    size_t count = 0;
    uint32_t last = 0;

    for (uint32_t id = heap->pending_head; id;) {
        const struct gs_block *block = gs_block_at(heap->pool, id);

        if (gs_block_state(block) != GS_BLOCK_PENDING) {
            return "a block on the pending list is not pending";
        }
        count++;
        last = id;
        id = block->pending.next;
    }
    if (last != heap->pending_tail) {
        return "the pending list does not end at its tail";
    }
    return count == tally->pending ? NULL : "a pending block is on no list";
}

/* by_class: space for the sums over classes; NULL: they are not checked. */
static const char *check_counters(struct gs_heap *heap, const struct tally *tally,
                                  struct gs_pool_class_stats *by_class)
{
    struct gs_pool_stats sum = heap->stats;
    const struct gs_pool_stats *stats = &sum;

    gs_tiers_sum(heap, &sum);

    if (heap->carved_bytes != tally->carved_bytes ||
        heap->tolerance_bytes != tally->tolerance_bytes ||
        heap->grown_bytes != tally->grown_bytes) {
        return "carved segments, fit tolerance or growth are miscounted";
    }
    if (heap->small_units != tally->small_units) {
        return "the small bytes in use are miscounted";
    }
    if (stats->live_bytes != tally->live_bytes ||
        stats->used_bytes != tally->used_bytes) {
        return "live or used bytes are miscounted";
    }
    if (stats->pending_bytes != tally->pending_bytes) {
        return "pending bytes are miscounted";
    }
    if (heap->absent_bytes != tally->absent_bytes ||
        stats->reserved_bytes != tally->reserved_bytes ||
        stats->reserved_bytes > stats->reserved_peak_bytes) {
        return "reserved bytes are miscounted";
    }
    if (stats->frees > stats->allocs || stats->allocs > stats->hits + stats->misses) {
        return "more blocks came back than went out, or more went out than were asked "
               "for";
    }
    return by_class ? gs_classes_check(heap, stats, by_class) : NULL;
}

/* heap->lock is held, and all threads are excluded from the thread caches. */
static const char *check_heap(struct gs_heap *heap, struct gs_pool_class_stats *by_class)
{
    const struct gs_table *blocks = &heap->pool->blocks;
    struct tally tally = {0};
    size_t holes = 0, cached = 0, carved = 0, tiers = 0;
    const char *why = NULL;

    for (struct gs_link *link = heap->segments.next; link != &heap->segments && !why;
         link = link->next) {
        why = check_segment(heap, GS_LINK_OWNER(link, struct gs_segment, all), &tally);
    }
    if (why) {
        return why;
    }
    if (!gs_bins_check(blocks, heap->bins, &holes)) {
        return "the bins are out of order";
    }
    if (!gs_large_check(blocks, &heap->large->segments, &cached)) {
        return "the cached large segments are out of order";
    }
    if (!gs_large_check(blocks, &heap->large->holes, &carved)) {
        return "the holes of carved segments are out of order";
    }
    if (carved != tally.carved) {
        return "a hole of a carved segment is in no tree, or in two";
    }
    if (holes != tally.holes || cached != tally.cached) {
        return "a free block is in no bin, or one that is not free is";
    }
    if (heap->starts.used != tally.starts) {
        return "the table of starts knows a block that is none";
    }
    why = gs_tiers_check(heap, &tiers);
    if (!why && tiers != tally.tiers) {
        why = "a cached block is in no tier, or in two";
    }
    if (!why) {
        why = check_idle(heap, &tally);
    }
    if (!why &&
        !gs_heap_is_dead(heap)) { /* a dying heap's pending list is cleared last */
        why = check_pending(heap, &tally);
    }
    return why ? why : check_counters(heap, &tally, by_class);
}

/* Sums over all heaps. They hold only while no thread is inside the backend. */
static const char *check_sums(struct gs_pool *pool)
{
    uint64_t stays = gs_reclaim_stays(pool), reserved = 0, row;
    size_t pages = 0, used = gs_pages_used(&pool->pages);

    for (struct gs_heap *heap = atomic_load(&pool->heaps); heap; heap = heap->next) {
        gs_lock_take(&heap->lock);
        reserved += heap->stats.reserved_bytes;
        for (struct gs_link *link = heap->segments.next; link != &heap->segments;
             link = link->next) {
            pages += (GS_LINK_OWNER(link, struct gs_segment, all)->bytes +
                      GS_LARGE_BYTES - 1) /
                     GS_LARGE_BYTES;
        }
        gs_lock_drop(&heap->lock);
    }
    row = gs_reclaim_row(pool, -1).reserved;
    if (!stays || gs_reclaim_stays(pool) != stays) {
        return NULL;
    }
    if (pages != used) {
        return "the page map knows pages of no segment";
    }
    return row == reserved ? NULL : "the devices' reserved bytes are miscounted";
}

bool gs_pool_check(struct gs_pool *pool, const char **why)
{
    struct gs_pool_class_stats *by_class = gs_meta_map(sizeof(*by_class));
    const char *broken = NULL;

    for (struct gs_heap *heap = atomic_load(&pool->heaps); heap && !broken;
         heap = heap->next) {
        gs_tiers_exclude(heap);
        gs_lock_take(&heap->lock);
        broken = check_heap(heap, by_class);
        gs_lock_drop(&heap->lock);
        gs_tiers_admit(heap);
    }
    if (by_class) {
        gs_meta_unmap(by_class, sizeof(*by_class));
    }
    if (!broken) {
        broken = check_sums(pool);
    }
    if (broken && why) {
        *why = broken;
    }
    return !broken;
}
