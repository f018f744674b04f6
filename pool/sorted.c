/*
 * sorted.c - see sorted.h. A node's priority is a hash of its key, and no child's is
 * above its parent's. Owns: nothing.   Lock: that of the tree's owner.
 */
#include "pool/sorted.h"

static uint64_t priority_of_key(struct gs_sorted_key key)
{
    uint64_t hash = key.major * 0x9e3779b97f4a7c15u ^ key.minor;

    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
}

static uint64_t priority_of(const struct gs_sorted *tree,
                            const struct gs_sorted_node *node)
{
    return priority_of_key(tree->key_of(node));
}

void gs_sorted_insert(struct gs_sorted *tree, struct gs_sorted_node *node)
{
    struct gs_sorted_node **link = &tree->root, **less = &node->less,
                          **more = &node->more;
    struct gs_sorted_key key = tree->key_of(node);
    uint64_t priority = priority_of_key(key);

    while (*link) {
        struct gs_sorted_key here = tree->key_of(*link);
        if (priority_of_key(here) < priority) {
            break;
        }
        link = gs_sorted_less(here, key) ? &(*link)->more : &(*link)->less;
    }
    struct gs_sorted_node *rest = *link;
    *link = node;
    while (rest) { /* what was below divides around the node */
        if (gs_sorted_less(tree->key_of(rest), key)) {
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
    struct gs_sorted_key key = tree->key_of(node);

    while (*link != node) {
        link = gs_sorted_less(tree->key_of(*link), key) ? &(*link)->more : &(*link)->less;
    }
    uint64_t of_less = less ? priority_of(tree, less) : 0;
    uint64_t of_more = more ? priority_of(tree, more) : 0;
    while (less && more) { /* what was below joins */
        if (of_less >= of_more) {
            *link = less;
            link = &less->more;
            less = less->more;
            of_less = less ? priority_of(tree, less) : 0;
        } else {
            *link = more;
            link = &more->less;
            more = more->less;
            of_more = more ? priority_of(tree, more) : 0;
        }
    }
    *link = less ? less : more;
}
