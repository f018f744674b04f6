/*
 * replay_map.c - from 64-bit numbers to small ones. See replay_map.h.
 */
#include "shim/tools/replay/replay_map.h"

#include <stdlib.h>

#include "shim/tools/replay/replay_trace.h"

void gs_replay_map_free(struct gs_replay_map *map)
{
    free(map->rows);
    *map = (struct gs_replay_map){0};
}

static struct gs_replay_map_row *row_of(const struct gs_replay_map *map, uint64_t key)
{
    size_t i = (size_t)((key ^ key >> 29) * 0x9e3779b97f4a7c15ull >> 20);

    for (;; i++) {
        struct gs_replay_map_row *row = &map->rows[i & (map->room - 1)];

        if (!row->used || row->key == key) {
            return row;
        }
    }
}

static void grow(struct gs_replay_map *map)
{
    struct gs_replay_map old = *map;

    map->room = old.room ? 2 * old.room : 64;
    map->rows = gs_replay_alloc(map->room, sizeof(*map->rows));
    for (size_t i = 0; i < old.room; i++) {
        if (old.rows[i].used) {
            *row_of(map, old.rows[i].key) = old.rows[i];
        }
    }
    free(old.rows);
}

uint64_t *gs_replay_map_find(const struct gs_replay_map *map, uint64_t key)
{
    struct gs_replay_map_row *row = map->room ? row_of(map, key) : NULL;

    return row && row->used ? &row->value : NULL;
}

uint64_t *gs_replay_map_put(struct gs_replay_map *map, uint64_t key, uint64_t fresh)
{
    struct gs_replay_map_row *row;

    if (2 * map->count >= map->room) {
        grow(map);
    }
    row = row_of(map, key);
    if (!row->used) {
        *row = (struct gs_replay_map_row){key, fresh, true};
        map->count++;
    }
    return &row->value;
}

uint64_t gs_replay_map_number(struct gs_replay_map *map, uint64_t key)
{
    return *gs_replay_map_put(map, key, map->count);
}
