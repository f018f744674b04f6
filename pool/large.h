/*
 * large.h - cached large segments, found by size in constant time.
 *
 * A row of bins: one for each multiple of 2 MiB, and the last for 2 GiB and more. Two
 * levels of bitmap find the first bin that may serve a request. Each bin is a treap
 * (bins.h), ordered by size, then by address.
 *
 * Owns: only the roots; members link through their records.   Lock: heap->lock
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
/* The smallest segment of `units` or more, at equal size the lowest address; NULL if
 * there is none. The segment stays in its bin. */
struct gs_block *gs_large_fit(const struct gs_table *blocks, const struct gs_large *large,
                              uint32_t units);
/* Returns true if the bitmaps agree with the trees, and the trees are valid. Adds the
 * number of members to *count. */
bool gs_large_check(const struct gs_table *blocks, const struct gs_large *large,
                    size_t *count);

#endif
