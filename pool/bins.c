/*
 * bins.c - treaps of holes, and the row of bins above them.
 *
 * Each insertion draws a new priority, so no block keeps an unlucky one. Members carry
 * parent links: the first member is removed and put back without a walk from the root.
 *
 * Owns: nothing.   Lock: heap->lock.   See bins.h
 */
#include "pool/bins.h"

#include "pool/heap.h"

static inline struct gs_block *block_at(const struct gs_table *blocks, uint32_t id)
{
    return gs_table_at(blocks, id, sizeof(struct gs_block));
}

/* A whole free segment could be returned, so it is the last choice among fits. */
static inline bool is_whole(const struct gs_block *block)
{
    return (block->prev | block->next) == 0;
}

static inline bool is_before(const struct gs_block *a, const struct gs_block *b)
{
    if (is_whole(a) != is_whole(b)) {
        return is_whole(b);
    }
    if (a->units != b->units) {
        return a->units < b->units;
    }
    return gs_block_start(a) < gs_block_start(b);
}

/* The next number of a linear congruence. Comparisons use its high bits, which are the
 * good ones. */
static inline uint32_t next_random(uint32_t *seed)
{
    return *seed = *seed * 1664525u + 1013904223u;
}

/* Replaces `old` with `child` (or 0) below `parent`. */
static inline void replace_child(const struct gs_table *blocks, struct gs_tree *tree,
                                 uint32_t old, uint32_t parent, uint32_t child)
{
    if (child) {
        block_at(blocks, child)->hole.parent = parent;
    }
    if (!parent) {
        tree->root = child;
    } else if (block_at(blocks, parent)->hole.left == old) {
        block_at(blocks, parent)->hole.left = child;
    } else {
        block_at(blocks, parent)->hole.right = child;
    }
}

/* One rotation that lifts `block` above its parent. */
static void rotate_up(const struct gs_table *blocks, struct gs_tree *tree,
                      struct gs_block *block)
{
    struct gs_block *parent = block_at(blocks, block->hole.parent);
    uint32_t moved;

    replace_child(blocks, tree, parent->id, parent->hole.parent, block->id);
    if (parent->hole.left == block->id) {
        moved = block->hole.right;
        parent->hole.left = moved;
        block->hole.right = parent->id;
    } else {
        moved = block->hole.left;
        parent->hole.right = moved;
        block->hole.left = parent->id;
    }
    if (moved) {
        block_at(blocks, moved)->hole.parent = parent->id;
    }
    parent->hole.parent = block->id;
}

/* Makes the block the first member of an empty tree. */
static inline void make_root(struct gs_tree *tree, struct gs_block *block, uint32_t *seed)
{
    block->hole.left = block->hole.right = block->hole.parent = 0;
    block->hole.priority = next_random(seed);
    tree->root = tree->first = block->id;
}

void gs_tree_put(const struct gs_table *blocks, struct gs_tree *tree,
                 struct gs_block *block, uint32_t *seed)
{
    struct gs_block *parent;

    if (!tree->root) {
        make_root(tree, block, seed);
        return;
    }
    block->hole.left = block->hole.right = block->hole.parent = 0;
    block->hole.priority = next_random(seed);
    parent = block_at(blocks, tree->first);
    if (is_before(block, parent)) {
        parent->hole.left = block->id;
        tree->first = block->id;
    } else {
        uint32_t *next = &tree->root;

        while (*next) {
            parent = block_at(blocks, *next);
            next = is_before(block, parent) ? &parent->hole.left : &parent->hole.right;
        }
        *next = block->id;
    }
    block->hole.parent = parent->id;
    while (block->hole.parent &&
           block_at(blocks, block->hole.parent)->hole.priority < block->hole.priority) {
        rotate_up(blocks, tree, block);
    }
}

/* The member after the first one. */
static uint32_t second_member(const struct gs_table *blocks, const struct gs_block *first)
{
    uint32_t id = first->hole.right;

    if (!id) {
        return first->hole.parent;
    }
    while (block_at(blocks, id)->hole.left) {
        id = block_at(blocks, id)->hole.left;
    }
    return id;
}

void gs_tree_drop(const struct gs_table *blocks, struct gs_tree *tree,
                  struct gs_block *block)
{
    if (tree->first == block->id) {
        tree->first = second_member(blocks, block);
    }
    while (block->hole.left && block->hole.right) {
        struct gs_block *left = block_at(blocks, block->hole.left);
        struct gs_block *right = block_at(blocks, block->hole.right);

        rotate_up(blocks, tree,
                  left->hole.priority > right->hole.priority ? left : right);
    }
    replace_child(blocks, tree, block->id, block->hole.parent,
                  block->hole.left ? block->hole.left : block->hole.right);
}

/* The member before the block; NULL: it is the first. */
static const struct gs_block *before_it(const struct gs_table *blocks,
                                        const struct gs_tree *tree,
                                        const struct gs_block *block)
{
    uint32_t id = block->hole.left, from = block->id;

    if (tree->first == block->id) {
        return NULL;
    }
    if (id) {
        while (block_at(blocks, id)->hole.right) {
            id = block_at(blocks, id)->hole.right;
        }
        return block_at(blocks, id);
    }
    for (id = block->hole.parent; block_at(blocks, id)->hole.left == from;
         id = block_at(blocks, id)->hole.parent) {
        from = id;
    }
    return block_at(blocks, id);
}

/* The member after the block; NULL: it is the last. */
static const struct gs_block *after_it(const struct gs_table *blocks,
                                       const struct gs_block *block)
{
    uint32_t id = block->hole.right, from = block->id;

    if (id) {
        while (block_at(blocks, id)->hole.left) {
            id = block_at(blocks, id)->hole.left;
        }
        return block_at(blocks, id);
    }
    for (id = block->hole.parent; id && block_at(blocks, id)->hole.right == from;
         id = block_at(blocks, id)->hole.parent) {
        from = id;
    }
    return id ? block_at(blocks, id) : NULL;
}

bool gs_tree_stays(const struct gs_table *blocks, const struct gs_tree *tree,
                   const struct gs_block *block, uint32_t units)
{
    const struct gs_block *other;

    if (block->units < units) {
        other = before_it(blocks, tree, block);
        return !other || is_before(other, block);
    }
    other = after_it(blocks, block);
    return !other || is_before(block, other);
}

struct gs_block *gs_tree_fit(const struct gs_table *blocks, const struct gs_tree *tree,
                             uint32_t units)
{
    struct gs_block *best = NULL;
    uint32_t id = tree->root;

    if (!id) {
        return NULL;
    }
    best = block_at(blocks, tree->first);
    if (GS_LIKELY(best->units >= units)) {
        return best;
    }
    best = NULL;
    while (id) {
        struct gs_block *block = block_at(blocks, id);

        if (block->units >= units) {
            best = block;
            id = block->hole.left;
        } else {
            id = block->hole.right;
        }
    }
    return best;
}

bool gs_tree_check(const struct gs_table *blocks, const struct gs_tree *tree, int bin,
                   size_t *count)
{
    const struct gs_block *last = NULL;
    uint32_t id = tree->root, from = 0;

    if (!id) {
        return tree->first == 0;
    }
    /* In-order walk by parent links: down from a parent, up from a child. */
    while (id) {
        struct gs_block *block = block_at(blocks, id);
        uint32_t left = block->hole.left, right = block->hole.right;

        if (from == block->hole.parent) {
            if (block->hole.parent &&
                block_at(blocks, block->hole.parent)->hole.priority <
                    block->hole.priority) {
                return false;
            }
            if (left) {
                from = id;
                id = left;
                continue;
            }
        }
        if (from != right || (from == block->hole.parent && !right)) {
            if (last ? !is_before(last, block) : tree->first != id) {
                return false;
            }
            if (bin >= 0 && (int)gs_bins_of(block->offset, block->units) != bin) {
                return false;
            }
            last = block;
            ++*count;
            if (right) {
                from = id;
                id = right;
                continue;
            }
        }
        from = id;
        id = block->hole.parent;
    }
    return true;
}

unsigned gs_bins_of(uint32_t offset, uint32_t units)
{
    uint32_t capacity = gs_bins_capacity(offset, units);

    if (capacity < GS_ALIGNED_UNITS) {
        return units - 1;
    }
    if (capacity > GS_LARGE_UNITS) {
        capacity = GS_LARGE_UNITS;
    }
    return GS_LOOSE_BINS + capacity - GS_ALIGNED_UNITS;
}

void gs_bins_put(const struct gs_table *blocks, struct gs_bins *bins,
                 struct gs_block *block, uint32_t *seed)
{
    unsigned bin = gs_bins_of(block->offset, block->units);

    struct gs_tree *tree = &bins->trees[bin];

    if (tree->root) {
        gs_tree_put(blocks, tree, block, seed);
        return;
    }
    make_root(tree, block, seed);
    bins->words[bin / 64] |= 1ull << (bin % 64);
    bins->summary[bin / 4096] |= 1ull << (bin / 64 % 64);
}

void gs_bins_drop(const struct gs_table *blocks, struct gs_bins *bins,
                  struct gs_block *block)
{
    unsigned bin = gs_bins_of(block->offset, block->units);

    if (block->hole.left | block->hole.right | block->hole.parent) {
        gs_tree_drop(blocks, &bins->trees[bin], block);
        return;
    }
    bins->trees[bin].root = bins->trees[bin].first = 0;
    bins->words[bin / 64] &= ~(1ull << (bin % 64));
    if (!bins->words[bin / 64]) {
        bins->summary[bin / 4096] &= ~(1ull << (bin / 64 % 64));
    }
}

void gs_bins_move(const struct gs_table *blocks, struct gs_bins *bins,
                  struct gs_block *block, uint32_t offset, uint32_t units, uint32_t *seed)
{
    unsigned bin = gs_bins_of(block->offset, block->units);
    uint32_t was = block->units;

    if (bin == gs_bins_of(offset, units)) {
        gs_block_place(block, block->segment, offset, units);
        if (gs_tree_stays(blocks, &bins->trees[bin], block, was)) {
            return;
        }
        gs_bins_drop(blocks, bins, block);
    } else {
        gs_bins_drop(blocks, bins, block);
        gs_block_place(block, block->segment, offset, units);
    }
    gs_bins_put(blocks, bins, block, seed);
}

/* First bin at or above `from` that is not empty; GS_BIN_COUNT if there is none. */
static unsigned next_bin(const struct gs_bins *bins, unsigned from)
{
    unsigned word = from / 64;
    uint64_t bits = bins->words[word] & (~0ull << (from % 64));

    if (bits) {
        return word * 64 + (unsigned)__builtin_ctzll(bits);
    }
    word++;
    for (unsigned i = word / 64; i < GS_BIN_SUMMARIES; i++) {
        bits = bins->summary[i];
        if (i == word / 64) {
            bits &= ~0ull << (word % 64);
        }
        if (bits) {
            word = i * 64 + (unsigned)__builtin_ctzll(bits);
            return word * 64 + (unsigned)__builtin_ctzll(bins->words[word]);
        }
    }
    return GS_BIN_COUNT;
}

/* The first bin in which every hole has `units` after a page boundary or, below 64 KiB,
 * has `units` at all. */
static unsigned sure_bin(uint32_t units)
{
    return units < GS_ALIGNED_UNITS ? units - 1
                                    : GS_LOOSE_BINS + units - GS_ALIGNED_UNITS;
}

struct gs_block *gs_bins_fit_anywhere(const struct gs_table *blocks,
                                      const struct gs_bins *bins, uint32_t units)
{
    unsigned sure = sure_bin(units);
    unsigned bin = units <= GS_LOOSE_BINS ? units - 1 : sure - (GS_PAGE_UNITS - 1);

    for (bin = next_bin(bins, bin); bin < sure; bin = next_bin(bins, bin + 1)) {
        struct gs_block *block = gs_tree_fit(blocks, &bins->trees[bin], units);

        if (block) {
            return block;
        }
    }
    return bin == GS_BIN_COUNT ? NULL : block_at(blocks, bins->trees[bin].first);
}

struct gs_block *gs_bins_fit(const struct gs_table *blocks, const struct gs_bins *bins,
                             uint32_t units)
{
    unsigned bin;

    if (units > GS_ALIGNED_UNITS && !gs_bins_aligned(units)) {
        return gs_bins_fit_anywhere(blocks, bins, units);
    }
    bin = next_bin(bins, sure_bin(units));
    return bin == GS_BIN_COUNT ? NULL : block_at(blocks, bins->trees[bin].first);
}

bool gs_bins_check(const struct gs_table *blocks, const struct gs_bins *bins,
                   size_t *count)
{
    for (unsigned bin = 0; bin < GS_BIN_COUNT; bin++) {
        bool bit = bins->words[bin / 64] >> (bin % 64) & 1;
        bool word = bins->summary[bin / 4096] >> (bin / 64 % 64) & 1;

        if (bit != (bins->trees[bin].root != 0) || word != (bins->words[bin / 64] != 0)) {
            return false;
        }
        if (bit && !gs_tree_check(blocks, &bins->trees[bin], (int)bin, count)) {
            return false;
        }
    }
    return true;
}
