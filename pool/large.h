/*
 * large.h - cached large segments, found by size in constant time.
 *
 * A row of bins, one for each multiple of 2 MiB, and the last for what is 2 GiB and more.
 * two levels of bitmap find the first bin that may serve a request. Each is a treap
 * (bins.h): of the segments of one size the first is the lowest address, and those of
 * several sizes are in the order of these.
 *
 * Owns: nothing but the roots; members link through their records.   Lock: heap->lock
 */
#ifndef GS_POOL_LARGE_H
#define GS_POOL_LARGE_H

#include "bins.h"

#define GS_LARGE_BINS  1024u
#define GS_LARGE_WORDS (GS_LARGE_BINS / 64)

struct gs_large {
    uint64_t summary;               /* bit w: words[w] is not 0 */
    uint64_t words[GS_LARGE_WORDS]; /* bit b: trees[b] is not empty */
    struct gs_tree trees[GS_LARGE_BINS];
};

/* `seed` is the heap's random state. */
void gs_large_put(const struct gs_table *blocks, struct gs_large *large,
                  struct gs_block *block, uint32_t *seed);
void gs_large_drop(const struct gs_table *blocks, struct gs_large *large,
                   struct gs_block *block);
/* The smallest that has `units` or more, of these the lowest address; NULL if there is
 * none. It stays where it is. */
struct gs_block *gs_large_fit(const struct gs_table *blocks, const struct gs_large *large,
                              uint32_t units);
/* The bitmaps agree with the trees, and the trees are sound; *count is increased by the
 * members. */
bool gs_large_check(const struct gs_table *blocks, const struct gs_large *large,
                    size_t *count);

#endif
