/*
 * sorted.c - see sorted.h. A node's priority is a hash of its key, and no child's is
 * above its parent's. Owns: nothing.   Lock: that of the tree's owner.
 */
#include "pool/sorted.h"

static uint64_t priority_of(const struct gs_sorted *tree,
                            const struct gs_sorted_node *node)
{
    struct gs_sorted_key key = tree->key_of(node);
    uint64_t hash = key.major * 0x9e3779b97f4a7c15u ^ key.minor;

    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
}

static bool is_before(const struct gs_sorted *tree, const struct gs_sorted_node *a,
                      const struct gs_sorted_node *b)
{
    return gs_sorted_less(tree->key_of(a), tree->key_of(b));
}

void gs_sorted_insert(struct gs_sorted *tree, struct gs_sorted_node *node)
{
    struct gs_sorted_node **link = &tree->root, **less = &node->less,
                          **more = &node->more;
    uint64_t priority = priority_of(tree, node);

    while (*link && priority_of(tree, *link) >= priority) {
        link = is_before(tree, *link, node) ? &(*link)->more : &(*link)->less;
    }
    struct gs_sorted_node *rest = *link;
    *link = node;
    while (rest) { /* what was below divides around the node */
        if (is_before(tree, rest, node)) {
            *less = rest;
            less = &rest->more;
            rest = rest->more;
        } else {
            *more = rest;
            more = &rest->less;
            rest = rest->less;
        }
    }
    *less = *more = NULL;
}

void gs_sorted_remove(struct gs_sorted *tree, struct gs_sorted_node *node)
{
    struct gs_sorted_node **link = &tree->root, *less = node->less, *more = node->more;

    while (*link != node) {
        link = is_before(tree, *link, node) ? &(*link)->more : &(*link)->less;
    }
    while (less && more) { /* what was below joins */
        if (priority_of(tree, less) >= priority_of(tree, more)) {
            *link = less;
            link = &less->more;
            less = less->more;
        } else {
            *link = more;
            link = &more->less;
            more = more->less;
        }
    }
    *link = less ? less : more;
}
