/*
 * redzone_map.c - a treap: a tree by address that random weights keep shallow.
 * Owns:  its nodes.   Lock: the caller's.
 */
#include "shim/checks/redzone_map.h"

#include <stdlib.h>

static uint32_t next_weight(struct gs_redzone_map *map)
{
    map->seed = map->seed * 1664525u + 1013904223u;
    return map->seed ^ map->seed >> 16;
}

/* Splits the tree: zones that begin below `key` to the left, the rest to the right. */
static void split(struct gs_redzone *tree, uint64_t key, struct gs_redzone **left,
                  struct gs_redzone **right)
{
    while (tree) {
        if (tree->begin < key) {
            *left = tree;
            left = &tree->right;
            tree = tree->right;
        } else {
            *right = tree;
            right = &tree->left;
            tree = tree->left;
        }
    }
    *left = *right = NULL;
}

/* Joins two trees; every zone of `left` is below every zone of `right`. */
static struct gs_redzone *merge(struct gs_redzone *left, struct gs_redzone *right)
{
    struct gs_redzone *root = NULL, **link = &root;
    while (left && right) {
        if (left->weight > right->weight) {
            *link = left;
            link = &left->right;
            left = left->right;
        } else {
            *link = right;
            link = &right->left;
            right = right->left;
        }
    }
    *link = left ? left : right;
    return root;
}

void gs_redzone_map_put(struct gs_redzone_map *map, struct gs_redzone *zone)
{
    struct gs_redzone *below, *above;
    zone->left = zone->right = NULL;
    zone->weight = next_weight(map);
    split(map->root, zone->begin, &below, &above);
    map->root = merge(merge(below, zone), above);
}

struct gs_redzone *gs_redzone_map_from(const struct gs_redzone_map *map, uint64_t addr)
{
    struct gs_redzone *found = NULL;
    for (struct gs_redzone *zone = map->root; zone;) {
        if (zone->begin >= addr) {
            found = zone;
            zone = zone->left;
        } else {
            zone = zone->right;
        }
    }
    return found;
}

struct gs_redzone *gs_redzone_map_take(struct gs_redzone_map *map, uint64_t addr)
{
    struct gs_redzone *found = gs_redzone_map_from(map, addr);
    struct gs_redzone *below, *rest, *above;
    if (!found || found->begin != addr || !found->live) {
        return NULL;
    }
    split(map->root, addr, &below, &rest);
    split(rest, addr + 1, &found, &above);
    map->root = merge(below, above);
    return found;
}

/* Prepends the zones of the tree, by rising address, to `list`. */
static struct gs_redzone *flatten(struct gs_redzone *tree, struct gs_redzone *list)
{
    while (tree) {
        struct gs_redzone *left = tree->left;
        tree->right = flatten(tree->right, list);
        tree->left = NULL;
        list = tree;
        tree = left;
    }
    return list;
}

/* Takes the last zone that begins below `begin` and extends beyond it out of the tree. */
static struct gs_redzone *take_reaching(struct gs_redzone **tree, uint64_t begin)
{
    struct gs_redzone **link = tree;
    while (*link && (*link)->right) {
        link = &(*link)->right;
    }
    struct gs_redzone *last = *link;
    if (!last || last->end <= begin) {
        return NULL;
    }
    *link = last->left;
    last->left = NULL;
    return last;
}

/* Puts the remaining part of a freed zone back into the map. */
static void keep_part(struct gs_redzone_map *map, const struct gs_redzone *of,
                      uint64_t begin, uint64_t end)
{
    struct gs_redzone *part = malloc(sizeof(*part));
    if (!part) {
        return;
    }
    *part = *of;
    part->begin = part->from = begin;
    part->end = part->to = end;
    gs_redzone_map_put(map, part);
}

struct gs_redzone *gs_redzone_map_cut(struct gs_redzone_map *map, uint64_t begin,
                                      uint64_t end)
{
    struct gs_redzone *below, *rest, *inside, *above;
    split(map->root, begin, &below, &rest);
    split(rest, end, &inside, &above);
    struct gs_redzone *list = flatten(inside, NULL);
    struct gs_redzone *first = take_reaching(&below, begin);
    map->root = merge(below, above);
    if (first) {
        first->right = list;
        list = first;
    }
    for (struct gs_redzone *zone = list; zone; zone = zone->right) {
        if (zone->live) {
            continue;
        }
        if (zone->begin < begin) {
            keep_part(map, zone, zone->begin, begin);
            zone->begin = zone->from = begin;
        }
        if (zone->end > end) {
            keep_part(map, zone, end, zone->end);
            zone->end = zone->to = end;
        }
    }
    return list;
}
