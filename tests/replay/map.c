/*
 * map.c - from 64-bit numbers to small ones. See map.h.
 */
#include "map.h"

#include <stdlib.h>

#include "replay_trace.h"

void map_free(struct map *map)
{
    free(map->rows);
    *map = (struct map){0};
}

static struct map_row *row_of(const struct map *map, uint64_t key)
{
    size_t i = (size_t)((key ^ key >> 29) * 0x9e3779b97f4a7c15ull >> 20);

    for (;; i++) {
        struct map_row *row = &map->rows[i & (map->room - 1)];

        if (!row->used || row->key == key)
            return row;
    }
}

static void grow(struct map *map)
{
    struct map old = *map;

    map->room = old.room ? 2 * old.room : 64;
    map->rows = trace_alloc(map->room, sizeof(*map->rows));
    for (size_t i = 0; i < old.room; i++)
        if (old.rows[i].used)
            *row_of(map, old.rows[i].key) = old.rows[i];
    free(old.rows);
}

uint64_t *map_find(const struct map *map, uint64_t key)
{
    struct map_row *row = map->room ? row_of(map, key) : NULL;

    return row && row->used ? &row->value : NULL;
}

uint64_t *map_put(struct map *map, uint64_t key, uint64_t fresh)
{
    struct map_row *row;

    if (2 * map->count >= map->room)
        grow(map);
    row = row_of(map, key);
    if (!row->used) {
        *row = (struct map_row){key, fresh, true};
        map->count++;
    }
    return &row->value;
}

uint64_t map_number(struct map *map, uint64_t key)
{
    return *map_put(map, key, map->count);
}
