/*
 * replay_map.h - from 64-bit numbers to small ones: open addressing, grows, never
 * shrinks. Owns: its rows.   Lock: none.
 */
#ifndef GS_REPLAY_MAP_H
#define GS_REPLAY_MAP_H

#include "gs_base.h"

struct gs_replay_map_row {
    uint64_t key;
    uint64_t value;
    bool used;
};

struct gs_replay_map {
    struct gs_replay_map_row *rows;
    size_t room, count; /* room is a power of two */
};

void gs_replay_map_free(struct gs_replay_map *map);
/* The row's value, or NULL if the key was never put in. Valid until the next
 * gs_replay_map_put. */
uint64_t *gs_replay_map_find(const struct gs_replay_map *map, uint64_t key);
/* The row's value, which is `fresh` if the key is new. */
uint64_t *gs_replay_map_put(struct gs_replay_map *map, uint64_t key, uint64_t fresh);
/* The key's place in the order in which keys were first seen. */
uint64_t gs_replay_map_number(struct gs_replay_map *map, uint64_t key);

#endif
