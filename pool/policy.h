/*
 * policy.h - holes by kind of segment, fit tolerance, and classes.
 *
 * Owns: nothing.   Lock: heap->lock, except where stated.
 * Design: docs/pool.md, "Fewer calls of the driver", "Carving" and "Classes"
 */
#ifndef GS_POOL_POLICY_H
#define GS_POOL_POLICY_H

#include "pool/heap.h"

/* The class of a block, as pool.h defines the classes. */
static inline unsigned gs_class_of_units(uint32_t units)
{
    if (units <= GS_LARGE_UNITS) {
        return gs_class_of(units);
    }
    return GS_CLASS_COUNT + (31 - (unsigned)__builtin_clz(units - 1)) - 12;
}

/* Counts a request served without the driver; heap->lock is held. */
static inline void gs_heap_hit(struct gs_heap *heap, const struct gs_block *block)
{
    heap->stats.hits++;
    heap->class_counts[gs_class_of_units(block->units)].hits++;
}

static inline struct gs_headroom *gs_headroom_of(const struct gs_heap *heap)
{
    int device = heap->device;

    return &heap->pool->rooms[device < GS_MAX_DEVICES ? device : GS_MAX_DEVICES - 1];
}

/* Enters a hole of a shared segment into its index, or takes it out; heap->lock is
 * held. */
static inline void gs_hole_put(struct gs_heap *heap, struct gs_block *hole)
{
    const struct gs_table *blocks = &heap->pool->blocks;

    if (GS_LIKELY(!hole->segment->carved)) {
        gs_bins_put(blocks, heap->bins, hole, &heap->seed);
    } else {
        gs_large_put(blocks, &heap->large->holes, hole, &heap->seed);
    }
}

static inline void gs_hole_drop(struct gs_heap *heap, struct gs_block *hole)
{
    const struct gs_table *blocks = &heap->pool->blocks;

    if (GS_LIKELY(!hole->segment->carved)) {
        gs_bins_drop(blocks, heap->bins, hole);
    } else {
        gs_large_drop(blocks, &heap->large->holes, hole);
    }
}

/* Enters a hole of a shared segment as another part of it; heap->lock is held. */
static inline void gs_hole_move(struct gs_heap *heap, struct gs_block *hole,
                                uint32_t offset, uint32_t units)
{
    const struct gs_table *blocks = &heap->pool->blocks;

    if (GS_LIKELY(!hole->segment->carved)) {
        gs_bins_move(blocks, heap->bins, hole, offset, units, &heap->seed);
    } else {
        gs_large_move(blocks, &heap->large->holes, hole, offset, units, &heap->seed);
    }
}

/* ---- fit_tolerance.c -------------------------------------------------------------- */

/* How closely a cached large segment has to fit. GS_EXACT: a segment of pages exactly,
 * any other as GS_CLOSE. */
enum gs_closeness { GS_EXACT, GS_CLOSE, GS_LOOSE };

/* Returns true if a cached large segment may serve the request with its block.
 * heap->lock is held. */
bool gs_fit_tolerance_allows(struct gs_heap *heap, const struct gs_request *request,
                             const struct gs_block *block, enum gs_closeness closeness);
/* The bytes of the device that are neither needed, by the peak so far, nor reserved for
 * higher peaks; 0: there are none, or the device's size is not known. */
size_t gs_fit_tolerance_margin(const struct gs_heap *heap);
/* Records that an allocation of `bytes` moves into a large segment, or has left it.
 * heap->lock is held. */
void gs_fit_tolerance_begin(struct gs_heap *heap, struct gs_segment *segment,
                            size_t bytes);
void gs_fit_tolerance_end(struct gs_heap *heap, struct gs_segment *segment);
/* Updates the peak need after an idle segment was put to use. */
void gs_fit_tolerance_record(struct gs_heap *heap);
/* Clears the fit tolerance of a dead heap; heap->lock is held. */
void gs_fit_tolerance_forget(struct gs_heap *heap);

/* ---- carving.c -------------------------------------------------------------------- */

/* Returns true if large blocks may share one more segment of `bytes`. heap->lock is
 * held. */
bool gs_carving_allows(struct gs_heap *heap, size_t bytes);
/* Returns true if a block of `bytes` may keep the segment from the driver. heap->lock is
 * held. */
bool gs_carving_admits(const struct gs_heap *heap, const struct gs_segment *segment,
                       size_t bytes);
/* The bytes of a new segment for a large request: more than it needs if later requests
 * may share the segment. heap->lock is held. */
size_t gs_carving_grown(struct gs_heap *heap, const struct gs_request *request);
/* Large blocks share the segment from now on, which is neither idle nor in use; or no
 * longer, as its last one has left. heap->lock is held. */
void gs_carving_begin(struct gs_heap *heap, struct gs_segment *segment);
void gs_carving_end(struct gs_heap *heap, struct gs_segment *segment);
/* Clears the sums of a dead heap; heap->lock is held. */
void gs_carving_forget(struct gs_heap *heap);

/* ---- classes.c -------------------------------------------------------------------- */

/* The user's size class for a request; 0: there is none. Takes no lock. */
size_t gs_size_class(const struct gs_pool *pool, size_t bytes);
/* Adds a thread cache's counters by class to its heap's. tiers->lock is held, and no
 * thread is inside the thread cache. Takes heap->lock. */
void gs_classes_settle(struct gs_tcache *tcache, struct gs_heap *heap);
/* Compares the sums over classes with `stats`, which includes the thread caches'
 * counters. Returns NULL, or the fault. Overwrites `by_class`. heap->lock is held, and
 * all threads are excluded from the thread caches. */
const char *gs_classes_check(struct gs_heap *heap, const struct gs_pool_stats *stats,
                             struct gs_pool_class_stats *by_class);

#endif
