/*
 * redzone_map.h - zones of device memory that hold a pattern and must not change, by
 * address.
 *
 * Pure: no CUDA, no environment, no printing.   Lock: the caller's.
 */
#ifndef GS_REDZONE_MAP_H
#define GS_REDZONE_MAP_H

#include "tracker/tracker.h"

struct gs_context;

struct gs_redzone {
    struct gs_redzone *left, *right; /* the map's; `right` links a list as well */
    uint32_t weight;                 /* the map's */
    unsigned char value;             /* the pattern: every byte has this value */
    bool live;                       /* of a live block; else of freed memory */
    bool seen;                       /* was checked, or counted as unchecked */
    uint64_t begin, end; /* the block, or the remaining part of the freed memory */
    uint64_t from, to;   /* the bytes of it that hold the pattern */
    uint64_t serial;     /* a unique number */
    const struct gs_context *context;
    struct gs_allocation was;  /* freed: the allocation; addr 0 if not known */
    struct gs_free_site freed; /* freed: the call that freed it */
};

/* All zeros: an empty map. */
struct gs_redzone_map {
    struct gs_redzone *root;
    uint32_t seed;
};

/* Adds a zone, which must not overlap another. The map takes over the node. */
void gs_redzone_map_put(struct gs_redzone_map *map, struct gs_redzone *zone);
/* Takes the zone of the live block at `addr` out of the map; NULL: none. */
struct gs_redzone *gs_redzone_map_take(struct gs_redzone_map *map, uint64_t addr);
/*
 * Takes all zones that overlap [begin, end) out of the map. Returns them as a list by
 * `right`, by rising address. Parts of freed memory beyond the range stay in the map,
 * unless there is no host memory for a node.
 */
struct gs_redzone *gs_redzone_map_cut(struct gs_redzone_map *map, uint64_t begin,
                                      uint64_t end);
/* The first zone that begins at or after `addr`; NULL: none. */
struct gs_redzone *gs_redzone_map_from(const struct gs_redzone_map *map, uint64_t addr);

#endif
