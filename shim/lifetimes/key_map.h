/*
 * key_map.h - a hash map from keys to entries of the caller, with a node inside each.
 *
 * Several nodes may have one key; the newest is found first. An insertion never fails:
 * without memory for more buckets the chains get longer.
 *
 * Owns:  the buckets, not the nodes.   Lock: the caller's.
 */
#ifndef GS_KEY_MAP_H
#define GS_KEY_MAP_H

#include "gs_base.h"

#define GS_KEY_MAP_FIRST 16u

struct gs_key_node {
    struct gs_key_node *next; /* in its bucket */
    uint64_t key;
};

/* All zeros: an empty map. */
struct gs_key_map {
    struct gs_key_node **buckets; /* NULL: `first` */
    size_t room, count;           /* room: of `buckets`, a power of two */
    struct gs_key_node *first[GS_KEY_MAP_FIRST];
};

void gs_key_map_put(struct gs_key_map *map, struct gs_key_node *node);
/* Removes a node, which must be in the map. */
void gs_key_map_take(struct gs_key_map *map, struct gs_key_node *node);
/* The newest node with the key, and the next older one with the same key; NULL: none. */
struct gs_key_node *gs_key_map_find(const struct gs_key_map *map, uint64_t key);
struct gs_key_node *gs_key_map_older(const struct gs_key_node *node);
/* The first node for which `match` returns true, in no order; NULL: none. */
struct gs_key_node *
gs_key_map_search(const struct gs_key_map *map,
                  bool (*match)(void *arg, const struct gs_key_node *node), void *arg);

#endif
