/*
 * classes.c - the user's size classes, and the classes of the statistics.
 *
 * The content of a class is not counted as the program runs, but on request, block by
 * block: no call of the program pays for it. Only hits and misses are counted as they
 * happen. A thread cache counts hits in its stacks, and adds them to the heap's counters
 * when it is unbound.
 *
 * Owns: heap->class_counts.   Lock: heap->lock; for thread caches see tiers.h.
 * Design: docs/pool.md, "Classes"
 */
#include <string.h>

#include "pool/heap.h"
#include "pool/policy.h"

static_assert(GS_POOL_SMALL_CLASSES == GS_CLASS_COUNT, "pool.h states the number");

/* ---- sizes ------------------------------------------------------------------------- */

size_t gs_size_class(const struct gs_pool *pool, size_t bytes)
{
    unsigned low = 0, high = pool->class_count;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;

        if (pool->classes[middle] < bytes) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < pool->class_count ? pool->classes[low] : 0;
}

unsigned gs_pool_class_of(size_t bytes)
{
    if (bytes == 0) {
        return 0;
    }
    if (bytes > GS_REQUEST_MAX) {
        return GS_POOL_CLASSES - 1;
    }
    return gs_class_of_units((uint32_t)((bytes + GS_BLOCK_BYTES - 1) / GS_BLOCK_BYTES));
}

size_t gs_pool_class_bytes(unsigned class)
{
    unsigned octave, step;

    if (class < GS_CLASS_EXACT) {
        return (class + 1) * GS_BLOCK_BYTES;
    }
    if (class >= GS_CLASS_COUNT) {
        return GS_LARGE_BYTES << (class - GS_CLASS_COUNT + 1);
    }
    octave = (class - GS_CLASS_EXACT) / 8;
    step = (class - GS_CLASS_EXACT) % 8;
    return (size_t)(8 + step + 1) * ((GS_CLASS_EXACT / 8 * GS_BLOCK_BYTES) << octave);
}

/* ---- hits and misses -------------------------------------------------------------- */

void gs_classes_settle(struct gs_tcache *tcache, struct gs_heap *heap)
{
    gs_lock_take(&heap->lock);
    for (unsigned i = 0; i < GS_CLASS_COUNT; i++) {
        heap->class_counts[i].hits += tcache->stacks[i].hits;
        tcache->stacks[i].hits = 0;
    }
    for (unsigned i = 0; i < GS_POOL_LARGE_CLASSES; i++) {
        heap->class_counts[GS_CLASS_COUNT + i].hits += tcache->counts.whole_hits[i];
    }
    gs_lock_drop(&heap->lock);
}

/* Adds the heap's counts and cached blocks. All threads are excluded from the thread
 * caches, and heap->lock is held. */
static void add_counts(const struct gs_heap *heap, struct gs_pool_class *classes)
{
    const struct gs_link *link;

    for (unsigned i = 0; i < GS_POOL_CLASSES; i++) {
        classes[i].hits += heap->class_counts[i].hits;
        classes[i].misses += heap->class_counts[i].misses;
    }
    if (!heap->tiers) {
        return;
    }
    for (link = heap->tiers->tcaches.next; link != &heap->tiers->tcaches;
         link = link->next) {
        const struct gs_tcache *tcache =
            GS_LINK_OWNER(link, const struct gs_tcache, of_heap);

        for (unsigned i = 0; i < GS_CLASS_COUNT; i++) {
            classes[i].hits += tcache->stacks[i].hits;
        }
        for (unsigned i = 0; i < GS_POOL_LARGE_CLASSES; i++) {
            classes[GS_CLASS_COUNT + i].hits += tcache->counts.whole_hits[i];
        }
    }
}

/* ---- blocks and holes ------------------------------------------------------------- */

static void add_hole(const struct gs_segment *segment, size_t bytes,
                     struct gs_pool_holes *holes)
{
    holes->count++;
    holes->bytes += bytes;
    if (bytes > holes->largest_bytes) {
        holes->largest_bytes = bytes;
    }
    if (segment->occupied) {
        holes->stranded_bytes += bytes;
    }
    if (segment->retained) {
        holes->retained_bytes += bytes;
    }
}

/* Adds a block to the statistics of its class, by its state. */
static void add_block(const struct gs_block *block, struct gs_pool_class_stats *out)
{
    const struct gs_segment *segment = block->segment;
    struct gs_pool_class *class = &out->classes[gs_class_of_units(block->units)];
    size_t bytes = gs_block_bytes(block);

    switch (gs_block_state(block)) {
    case GS_BLOCK_LIVE:
    case GS_BLOCK_CLAIMED:
        class->live++;
        class->live_bytes += bytes;
        class->rounding_bytes += bytes - gs_block_requested(block);
        break;
    case GS_BLOCK_PENDING:
    case GS_BLOCK_READY:
        class->pending++;
        class->pending_bytes += bytes;
        break;
    case GS_BLOCK_FREE:
        if (segment->shared) {
            add_hole(segment, bytes, &out->holes);
            break;
        }
        __attribute__((fallthrough));
    case GS_BLOCK_CACHED:
        class->cached++;
        class->cached_bytes += bytes;
        break;
    case GS_BLOCK_SPARE:
        break;
    }
}

/* Adds the heap's counts, blocks and holes. All threads are excluded from the thread
 * caches, and heap->lock is held. */
static void add_heap(struct gs_heap *heap, struct gs_pool_class_stats *out)
{
    const struct gs_link *link;

    add_counts(heap, out->classes);
    out->holes.tolerance_bytes += heap->tolerance_bytes;
    for (link = heap->segments.next; link != &heap->segments; link = link->next) {
        const struct gs_segment *segment =
            GS_LINK_OWNER(link, const struct gs_segment, all);

        for (uint32_t id = segment->first; id;) {
            const struct gs_block *block = gs_block_at(heap->pool, id);

            add_block(block, out);
            id = block->next;
        }
    }
}

void gs_pool_class_stats(struct gs_pool *pool, int device,
                         struct gs_pool_class_stats *out)
{
    memset(out, 0, sizeof(*out));
    for (unsigned i = 0; i < GS_POOL_CLASSES; i++) {
        out->classes[i].bytes = gs_pool_class_bytes(i);
    }
    for (struct gs_heap *heap = atomic_load(&pool->heaps); heap; heap = heap->next) {
        if (!gs_heap_on(heap, device)) {
            continue;
        }
        gs_tiers_exclude(heap);
        gs_lock_take(&heap->lock);
        add_heap(heap, out);
        gs_lock_drop(&heap->lock);
        gs_tiers_admit(heap);
    }
}

/* The user's size that stands for one of the pool's classes; above all, the pool's own; 0:
 * the class is part of the next larger one. */
static size_t user_bytes(const struct gs_pool *pool, unsigned class)
{
    unsigned i = pool->class_count;

    if (i == 0 || class > gs_pool_class_of(pool->classes[i - 1])) {
        return gs_pool_class_bytes(class);
    }
    while (i > 0 && gs_pool_class_of(pool->classes[i - 1]) > class) {
        i--;
    }
    return i > 0 && gs_pool_class_of(pool->classes[i - 1]) == class ? pool->classes[i - 1]
                                                                    : 0;
}

unsigned gs_pool_classes_by_user(const struct gs_pool *pool,
                                 struct gs_pool_class classes[GS_POOL_CLASSES])
{
    struct gs_pool_class sum = {0};
    unsigned count = 0;

    for (unsigned i = 0; i < GS_POOL_CLASSES; i++) {
        const struct gs_pool_class *from = &classes[i];

        sum.bytes = user_bytes(pool, i);
        sum.live += from->live;
        sum.live_bytes += from->live_bytes;
        sum.rounding_bytes += from->rounding_bytes;
        sum.cached += from->cached;
        sum.cached_bytes += from->cached_bytes;
        sum.pending += from->pending;
        sum.pending_bytes += from->pending_bytes;
        sum.hits += from->hits;
        sum.misses += from->misses;
        if (sum.bytes != 0) {
            classes[count++] = sum;
            sum = (struct gs_pool_class){0};
        }
    }
    return count;
}

/* ---- the checker ------------------------------------------------------------------ */

/* Returns NULL, or the sum that does not agree. */
static const char *compare_classes(const struct gs_heap *heap,
                                   const struct gs_pool_stats *stats,
                                   const struct gs_pool_class_stats *by_class)
{
    struct gs_pool_class sum = {0};
    uint64_t tiers = stats->thread_bytes + stats->stream_bytes + stats->global_bytes;

    for (unsigned i = 0; i < GS_POOL_CLASSES; i++) {
        const struct gs_pool_class *class = &by_class->classes[i];

        sum.live_bytes += class->live_bytes;
        sum.rounding_bytes += class->rounding_bytes;
        sum.cached_bytes += class->cached_bytes;
        sum.pending_bytes += class->pending_bytes;
        sum.hits += class->hits;
        sum.misses += class->misses;
    }
    if (sum.hits != stats->hits || sum.misses != stats->misses) {
        return "hits or misses by class do not add up to all of them";
    }
    if (sum.live_bytes != stats->used_bytes ||
        sum.live_bytes - sum.rounding_bytes != stats->live_bytes ||
        sum.pending_bytes != stats->pending_bytes) {
        return "live or pending bytes by class do not add up to all of them";
    }
    if (sum.cached_bytes != tiers + heap->idle_bytes[GS_IDLE_LARGE]) {
        return "cached bytes by class do not add up to all of them";
    }
    if (sum.live_bytes + sum.pending_bytes + sum.cached_bytes + by_class->holes.bytes !=
        stats->reserved_bytes + heap->absent_bytes) {
        return "blocks and holes by class do not add up to what is reserved";
    }
    return NULL;
}

const char *gs_classes_check(struct gs_heap *heap, const struct gs_pool_stats *stats,
                             struct gs_pool_class_stats *by_class)
{
    memset(by_class, 0, sizeof(*by_class));
    add_heap(heap, by_class);
    return compare_classes(heap, stats, by_class);
}
