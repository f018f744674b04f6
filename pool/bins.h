/*
 * bins.h - the holes of a heap's shared segments, found by size in constant time.
 *
 * Blocks of 64 KiB and more that are whole pages of the host start at a page. So a hole
 * has two sizes: its units (512 B) for any other request, and for these blocks its
 * capacity, the units after its first page boundary. One row of bins serves both (with
 * pages of 4 KiB):
 *
 *   bins 0 .. 133      holes whose capacity is below 64 KiB, by units (1 to 134)
 *   bins 134 .. 4101   holes by capacity, 128 to 4,095 units
 *   bin  4102          holes with a capacity of 2 MiB and more
 *
 * Aligning a block that is no whole number of pages would waste memory: natively a
 * segment of 2 MiB holds three blocks of 682.5 KiB, aligned only two. So such blocks are
 * not aligned, and may use holes whose capacity is up to a page too small.
 *
 * One bin per size makes search unnecessary: the first member of the first bin at or
 * above the request *is* the best fit, and two levels of bitmap find that bin. So a small
 * request uses up the holes that no aligned request could use before it splits one that
 * could.
 *
 * A bin is a treap ordered by (a whole segment, units, address) that knows its first
 * member. Taking that member and putting it back is O(1) expected, anything else O(log
 * n).
 *
 * Owns: only the roots; members link through their records.   Lock: heap->lock
 */
#ifndef GS_POOL_BINS_H
#define GS_POOL_BINS_H

#include "gs_base.h"

struct gs_block;
struct gs_table;

/* 64 KiB: blocks of whole pages start at a page from this size on. */
#define GS_ALIGNED_UNITS 128u
#ifdef __x86_64__
#define GS_PAGE_UNITS 8u /* 4 KiB */
#else
#define GS_PAGE_UNITS 128u /* 64 KiB, the largest page of such systems */
#endif
#define GS_LARGE_UNITS   4096u /* 2 MiB */
#define GS_CUT_UNITS     128u  /* 64 KiB: sizes in carved segments are multiples */
#define GS_LOOSE_BINS    (GS_ALIGNED_UNITS + GS_PAGE_UNITS - 2)
#define GS_BIN_COUNT     (GS_LOOSE_BINS + GS_LARGE_UNITS - GS_ALIGNED_UNITS + 1)
#define GS_BIN_WORDS     ((GS_BIN_COUNT + 63) / 64)
#define GS_BIN_SUMMARIES ((GS_BIN_WORDS + 63) / 64)

struct gs_tree {
    uint32_t root, first; /* block ids; 0: empty */
};

struct gs_bins {
    uint64_t summary[GS_BIN_SUMMARIES]; /* bit w: words[w] is not 0 */
    uint64_t words[GS_BIN_WORDS];       /* bit b: trees[b] is not empty */
    struct gs_tree trees[GS_BIN_COUNT];
};

/* Treap of free blocks. `seed` is the heap's random state. */
void gs_tree_put(const struct gs_table *blocks, struct gs_tree *tree,
                 struct gs_block *block, uint32_t *seed);
void gs_tree_drop(const struct gs_table *blocks, struct gs_tree *tree,
                  struct gs_block *block);
/* A member had `units` before. Returns true if it is still in its place of the order. */
bool gs_tree_stays(const struct gs_table *blocks, const struct gs_tree *tree,
                   const struct gs_block *block, uint32_t units);
/* First member, in the tree's order, with at least `units`, or NULL. Either all members
 * must be whole segments, or none. */
struct gs_block *gs_tree_fit(const struct gs_table *blocks, const struct gs_tree *tree,
                             uint32_t units);
/* Returns true if order and balance are valid, and all members belong in `bin` (-1: any).
 * Adds the number of members to *count. */
bool gs_tree_check(const struct gs_table *blocks, const struct gs_tree *tree, int bin,
                   size_t *count);

/* Returns true for a block that starts at a page: whole pages, 64 KiB or more. */
static inline bool gs_bins_aligned(uint32_t units)
{
    return units >= GS_ALIGNED_UNITS && units % GS_PAGE_UNITS == 0;
}

/* Units after the first page boundary of [offset, offset + units). */
static inline uint32_t gs_bins_capacity(uint32_t offset, uint32_t units)
{
    uint32_t head = -offset & (GS_PAGE_UNITS - 1);

    return units > head ? units - head : 0;
}

/* The bin of a hole. */
unsigned gs_bins_of(uint32_t offset, uint32_t units);

void gs_bins_put(const struct gs_table *blocks, struct gs_bins *bins,
                 struct gs_block *block, uint32_t *seed);
void gs_bins_drop(const struct gs_table *blocks, struct gs_bins *bins,
                  struct gs_block *block);
/* The hole now is another part of its segment; its neighbours are linked already. */
void gs_bins_move(const struct gs_table *blocks, struct gs_bins *bins,
                  struct gs_block *block, uint32_t offset, uint32_t units,
                  uint32_t *seed);
/* Best fit for `units`, 1 to GS_LARGE_UNITS; NULL if no hole fits. The hole stays in its
 * bin. */
struct gs_block *gs_bins_fit(const struct gs_table *blocks, const struct gs_bins *bins,
                             uint32_t units);
/* The same for a block that may start anywhere. */
struct gs_block *gs_bins_fit_anywhere(const struct gs_table *blocks,
                                      const struct gs_bins *bins, uint32_t units);
/* Returns true if the bitmaps agree with the trees, and the trees are valid. */
bool gs_bins_check(const struct gs_table *blocks, const struct gs_bins *bins,
                   size_t *count);

#endif
