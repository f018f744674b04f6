/*
 * map.h - from 64-bit numbers to small ones: open addressing, grows, never shrinks.
 * Owns: its rows.   Lock: none.
 */
#ifndef REPLAY_MAP_H
#define REPLAY_MAP_H

#include "gs_base.h"

struct map_row {
    uint64_t key;
    uint64_t value;
    bool used;
};

struct map {
    struct map_row *rows;
    size_t room, count; /* room is a power of two */
};

void map_free(struct map *map);
/* The row's value, or NULL if the key was never put in. Valid until the next map_put. */
uint64_t *map_find(const struct map *map, uint64_t key);
/* The row's value, which is `fresh` if the key is new. */
uint64_t *map_put(struct map *map, uint64_t key, uint64_t fresh);
/* The key's place in the order in which keys were first seen. */
uint64_t map_number(struct map *map, uint64_t key);

#endif
