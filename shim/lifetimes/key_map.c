/*
 * key_map.c - chained hashing, with the links inside the entries.
 * Owns:  the buckets of a map.   Lock: the caller's.
 */
#include "key_map.h"

#include <stdlib.h>

static size_t room_of(const struct gs_key_map *map)
{
    return map->buckets ? map->room : GS_KEY_MAP_FIRST;
}

/* Addresses and handles alike have zeros as low bits. */
static struct gs_key_node **bucket_of(const struct gs_key_map *map, uint64_t key)
{
    size_t at = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
    struct gs_key_node *const *buckets = map->buckets ? map->buckets : map->first;
    return (struct gs_key_node **)&buckets[at & (room_of(map) - 1)];
}

/* Doubles the buckets. A chain is reversed first, and again as it is put into the new
 * buckets, so that nodes of one key keep their order. */
static void grow(struct gs_key_map *map)
{
    struct gs_key_map bigger = {.room = 2 * room_of(map)};
    struct gs_key_node **old = map->buckets ? map->buckets : map->first;
    bigger.buckets = calloc(bigger.room, sizeof(struct gs_key_node *));
    if (!bigger.buckets) {
        return;
    }
    for (size_t i = 0; i < room_of(map); i++) {
        struct gs_key_node *turned = NULL, *node = old[i], *next;
        for (; node; node = next) {
            next = node->next;
            node->next = turned;
            turned = node;
        }
        for (node = turned; node; node = next) {
            struct gs_key_node **bucket = bucket_of(&bigger, node->key);
            next = node->next;
            node->next = *bucket;
            *bucket = node;
        }
    }
    free(map->buckets);
    map->buckets = bigger.buckets;
    map->room = bigger.room;
}

void gs_key_map_put(struct gs_key_map *map, struct gs_key_node *node)
{
    if (map->count >= room_of(map)) {
        grow(map);
    }
    struct gs_key_node **bucket = bucket_of(map, node->key);
    node->next = *bucket;
    *bucket = node;
    map->count++;
}

void gs_key_map_take(struct gs_key_map *map, struct gs_key_node *node)
{
    struct gs_key_node **link = bucket_of(map, node->key);
    while (*link != node) {
        link = &(*link)->next;
    }
    *link = node->next;
    map->count--;
}

/* The first node with the key from `node` on. */
static struct gs_key_node *find_from(struct gs_key_node *node, uint64_t key)
{
    while (node && node->key != key) {
        node = node->next;
    }
    return node;
}

struct gs_key_node *gs_key_map_find(const struct gs_key_map *map, uint64_t key)
{
    return find_from(*bucket_of(map, key), key);
}

struct gs_key_node *gs_key_map_older(const struct gs_key_node *node)
{
    return find_from(node->next, node->key);
}

struct gs_key_node *
gs_key_map_search(const struct gs_key_map *map,
                  bool (*match)(void *arg, const struct gs_key_node *node), void *arg)
{
    struct gs_key_node *const *buckets = map->buckets ? map->buckets : map->first;
    for (size_t i = 0; i < room_of(map); i++) {
        for (struct gs_key_node *node = buckets[i]; node; node = node->next) {
            if (match(arg, node)) {
                return node;
            }
        }
    }
    return NULL;
}
