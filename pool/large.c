/*
 * large.c - the row of bins of cached large segments.
 * Owns: nothing.   Lock: heap->lock.   See large.h
 */
#include "large.h"

#include "heap.h"

static unsigned bin_of(uint32_t units)
{
    unsigned bin = units / GS_LARGE_UNITS;

    return bin < GS_LARGE_BINS ? bin : GS_LARGE_BINS - 1;
}

void gs_large_put(const struct gs_table *blocks, struct gs_large *large,
                  struct gs_block *block, uint32_t *seed)
{
    unsigned bin = bin_of(block->units);

    gs_tree_put(blocks, &large->trees[bin], block, seed);
    large->words[bin / 64] |= 1ull << (bin % 64);
    large->summary |= 1ull << (bin / 64);
}

void gs_large_drop(const struct gs_table *blocks, struct gs_large *large,
                   struct gs_block *block)
{
    unsigned bin = bin_of(block->units);

    gs_tree_drop(blocks, &large->trees[bin], block);
    if (large->trees[bin].root)
        return;
    large->words[bin / 64] &= ~(1ull << (bin % 64));
    if (!large->words[bin / 64])
        large->summary &= ~(1ull << (bin / 64));
}

/* First bin above `bin` that is not empty; GS_LARGE_BINS if there is none. */
static unsigned next_bin(const struct gs_large *large, unsigned bin)
{
    unsigned from = bin + 1, word = from / 64;
    uint64_t bits;

    if (from >= GS_LARGE_BINS)
        return GS_LARGE_BINS;
    bits = large->words[word] & (~0ull << (from % 64));
    if (!bits) {
        uint64_t above = large->summary & (~0ull << word) & ~(1ull << word);

        if (!above)
            return GS_LARGE_BINS;
        word = (unsigned)__builtin_ctzll(above);
        bits = large->words[word];
    }
    return word * 64 + (unsigned)__builtin_ctzll(bits);
}

struct gs_block *gs_large_fit(const struct gs_table *blocks, const struct gs_large *large,
                              uint32_t units)
{
    unsigned bin = bin_of(units);
    struct gs_block *block = gs_tree_fit(blocks, &large->trees[bin], units);

    if (block)
        return block;
    bin = next_bin(large, bin);
    if (bin == GS_LARGE_BINS)
        return NULL;
    return gs_table_at(blocks, large->trees[bin].first, sizeof(*block));
}

/* Returns true if every member of the tree belongs in the bin. The tree is ordered by
 * size, so the first and the last member decide. */
static bool belong(const struct gs_table *blocks, const struct gs_tree *tree,
                   unsigned bin)
{
    const struct gs_block *block = gs_table_at(blocks, tree->first, sizeof(*block));

    if (bin_of(block->units) != bin)
        return false;
    block = gs_table_at(blocks, tree->root, sizeof(*block));
    while (block->hole.right)
        block = gs_table_at(blocks, block->hole.right, sizeof(*block));
    return bin_of(block->units) == bin;
}

bool gs_large_check(const struct gs_table *blocks, const struct gs_large *large,
                    size_t *count)
{
    for (unsigned bin = 0; bin < GS_LARGE_BINS; bin++) {
        const struct gs_tree *tree = &large->trees[bin];
        bool bit = large->words[bin / 64] >> (bin % 64) & 1;

        if (bit != (tree->root != 0) ||
            (large->summary >> (bin / 64) & 1) != (large->words[bin / 64] != 0) ||
            !gs_tree_check(blocks, tree, -1, count) ||
            (bit && !belong(blocks, tree, bin)))
            return false;
    }
    return true;
}
