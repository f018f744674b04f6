/*
 * large.c - the rows of bins of free memory for large requests.
 * Owns: nothing.   Lock: heap->lock.   See large.h
 */
#include "pool/large.h"

#include "pool/heap.h"

void gs_large_init(struct gs_large *large)
{
    large->segments.shift = (uint32_t)__builtin_ctz(GS_LARGE_UNITS);
    large->holes.shift = (uint32_t)__builtin_ctz(GS_CUT_UNITS);
}

static inline unsigned bin_of(const struct gs_large_row *row, uint32_t units)
{
    unsigned bin = units >> row->shift;

    return bin < GS_LARGE_BINS ? bin : GS_LARGE_BINS - 1;
}

void gs_large_put(const struct gs_table *blocks, struct gs_large_row *row,
                  struct gs_block *block, uint32_t *seed)
{
    unsigned bin = bin_of(row, block->units);

    gs_tree_put(blocks, &row->trees[bin], block, seed);
    row->words[bin / 64] |= 1ull << (bin % 64);
    row->summary |= 1ull << (bin / 64);
}

void gs_large_drop(const struct gs_table *blocks, struct gs_large_row *row,
                   struct gs_block *block)
{
    unsigned bin = bin_of(row, block->units);

    gs_tree_drop(blocks, &row->trees[bin], block);
    if (row->trees[bin].root) {
        return;
    }
    row->words[bin / 64] &= ~(1ull << (bin % 64));
    if (!row->words[bin / 64]) {
        row->summary &= ~(1ull << (bin / 64));
    }
}

void gs_large_move(const struct gs_table *blocks, struct gs_large_row *row,
                   struct gs_block *block, uint32_t offset, uint32_t units,
                   uint32_t *seed)
{
    unsigned bin = bin_of(row, block->units);
    uint32_t was = block->units;

    if (bin == bin_of(row, units)) {
        gs_block_place(block, block->segment, offset, units);
        if (gs_tree_stays(blocks, &row->trees[bin], block, was)) {
            return;
        }
        gs_large_drop(blocks, row, block);
    } else {
        gs_large_drop(blocks, row, block);
        gs_block_place(block, block->segment, offset, units);
    }
    gs_large_put(blocks, row, block, seed);
}

/* First bin above `bin` that is not empty; GS_LARGE_BINS if there is none. */
static unsigned next_bin(const struct gs_large_row *row, unsigned bin)
{
    unsigned from = bin + 1, word = from / 64;
    uint64_t bits;

    if (from >= GS_LARGE_BINS) {
        return GS_LARGE_BINS;
    }
    bits = row->words[word] & (~0ull << (from % 64));
    if (!bits) {
        uint64_t above = row->summary & (~0ull << word) & ~(1ull << word);

        if (!above) {
            return GS_LARGE_BINS;
        }
        word = (unsigned)__builtin_ctzll(above);
        bits = row->words[word];
    }
    return word * 64 + (unsigned)__builtin_ctzll(bits);
}

struct gs_block *gs_large_fit(const struct gs_table *blocks,
                              const struct gs_large_row *row, uint32_t units)
{
    unsigned bin = bin_of(row, units);
    struct gs_block *block = gs_tree_fit(blocks, &row->trees[bin], units);

    if (block) {
        return block;
    }
    bin = next_bin(row, bin);
    if (bin == GS_LARGE_BINS) {
        return NULL;
    }
    return gs_table_at(blocks, row->trees[bin].first, sizeof(*block));
}

/* Returns true if every member of the tree belongs in the bin. The tree is ordered by
 * size, so the first and the last member decide. */
static bool all_fit_bin(const struct gs_table *blocks, const struct gs_large_row *row,
                        const struct gs_tree *tree, unsigned bin)
{
    const struct gs_block *block = gs_table_at(blocks, tree->first, sizeof(*block));

    if (bin_of(row, block->units) != bin) {
        return false;
    }
    block = gs_table_at(blocks, tree->root, sizeof(*block));
    while (block->hole.right) {
        block = gs_table_at(blocks, block->hole.right, sizeof(*block));
    }
    return bin_of(row, block->units) == bin;
}

bool gs_large_check(const struct gs_table *blocks, const struct gs_large_row *row,
                    size_t *count)
{
    for (unsigned bin = 0; bin < GS_LARGE_BINS; bin++) {
        const struct gs_tree *tree = &row->trees[bin];
        bool bit = row->words[bin / 64] >> (bin % 64) & 1;

        if (bit != (tree->root != 0) ||
            (row->summary >> (bin / 64) & 1) != (row->words[bin / 64] != 0) ||
            !gs_tree_check(blocks, tree, -1, count) ||
            (bit && !all_fit_bin(blocks, row, tree, bin))) {
            return false;
        }
    }
    return true;
}
