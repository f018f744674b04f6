/*
 * large.h - free memory for large requests, found by size in constant time: cached
 * segments, and the holes of carved segments.
 *
 * Each is a row of bins: one for each multiple of a step, and the last for the rest. The
 * step is 2 MiB for segments and 64 KiB for holes, so the last bin is for 2 GiB, or 64
 * MiB, and more. Two levels of bitmap find the first bin that may serve a request. Each
 * bin is a treap (bins.h), ordered by size, then by address.
 *
 * Owns: only the roots; members link through their records.   Lock: heap->lock
 */
#ifndef GS_POOL_LARGE_H
#define GS_POOL_LARGE_H

#include "pool/bins.h"

#define GS_LARGE_BINS  1024u
#define GS_LARGE_WORDS (GS_LARGE_BINS / 64)

struct gs_large_row {
    uint32_t shift;                 /* a step is 2^shift units; immutable */
    uint64_t summary;               /* bit w: words[w] is not 0 */
    uint64_t words[GS_LARGE_WORDS]; /* bit b: trees[b] is not empty */
    struct gs_tree trees[GS_LARGE_BINS];
};

struct gs_large {
    struct gs_large_row segments, holes;
};

/* Begins with two empty rows in memory that reads as zero. */
void gs_large_init(struct gs_large *large);
/* `seed` is the heap's random state. */
void gs_large_put(const struct gs_table *blocks, struct gs_large_row *row,
                  struct gs_block *block, uint32_t *seed);
void gs_large_drop(const struct gs_table *blocks, struct gs_large_row *row,
                   struct gs_block *block);
/* The hole now is another part of its segment; its neighbours are linked already. */
void gs_large_move(const struct gs_table *blocks, struct gs_large_row *row,
                   struct gs_block *block, uint32_t offset, uint32_t units,
                   uint32_t *seed);
/* The smallest member of `units` or more, at equal size the lowest address; NULL if there
 * is none. The member stays in its bin. */
struct gs_block *gs_large_fit(const struct gs_table *blocks,
                              const struct gs_large_row *row, uint32_t units);
/* Returns true if the bitmaps agree with the trees, and the trees are valid. Adds the
 * number of members to *count. */
bool gs_large_check(const struct gs_table *blocks, const struct gs_large_row *row,
                    size_t *count);

#endif
