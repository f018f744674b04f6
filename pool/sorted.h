/*
 * sorted.h - a sorted set through a member of its records: a treap, whose shape follows
 * from a hash of the keys alone. Each operation takes some 2 * log2(records) steps,
 * allocates nothing and does not recurse.
 *
 * Owns: nothing.   Lock: that of the tree's owner.
 */
#ifndef GS_POOL_SORTED_H
#define GS_POOL_SORTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gs_sorted_node {
    struct gs_sorted_node *less, *more;
};

/* Compared in this order; no two records of a tree have the same. */
struct gs_sorted_key {
    uint64_t major, minor;
};

struct gs_sorted {
    struct gs_sorted_node *root;
    struct gs_sorted_key (*key_of)(const struct gs_sorted_node *node); /* immutable */
};

static inline bool gs_sorted_less(struct gs_sorted_key a, struct gs_sorted_key b)
{
    return a.major != b.major ? a.major < b.major : a.minor < b.minor;
}

void gs_sorted_insert(struct gs_sorted *tree, struct gs_sorted_node *node);
/* The node is in the tree, and has the key that it was inserted by. */
void gs_sorted_remove(struct gs_sorted *tree, struct gs_sorted_node *node);

/* The first node whose key is not before this one; NULL: none. */
static inline struct gs_sorted_node *gs_sorted_from(const struct gs_sorted *tree,
                                                    struct gs_sorted_key key)
{
    struct gs_sorted_node *found = NULL;

    for (struct gs_sorted_node *node = tree->root; node;) {
        bool before = gs_sorted_less(tree->key_of(node), key);

        found = before ? found : node;
        node = before ? node->more : node->less;
    }
    return found;
}

/* The last node whose key is before this one; NULL: none. */
static inline struct gs_sorted_node *gs_sorted_below(const struct gs_sorted *tree,
                                                     struct gs_sorted_key key)
{
    struct gs_sorted_node *found = NULL;

    for (struct gs_sorted_node *node = tree->root; node;) {
        bool before = gs_sorted_less(tree->key_of(node), key);

        found = before ? node : found;
        node = before ? node->more : node->less;
    }
    return found;
}

/* The last node; NULL: the tree is empty. */
static inline struct gs_sorted_node *gs_sorted_last(const struct gs_sorted *tree)
{
    struct gs_sorted_node *node = tree->root;

    while (node && node->more) {
        node = node->more;
    }
    return node;
}

#endif
