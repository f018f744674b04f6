/*
 * redzone_map.h - stretches of device memory that hold a pattern which nobody is to
 * change, by address.
 *
 * Pure: no CUDA, no environment, no printing.   Lock: the caller's.
 */
#ifndef GS_REDZONE_MAP_H
#define GS_REDZONE_MAP_H

#include "tracker.h"

struct gs_context;

struct gs_redzone {
    struct gs_redzone *left, *right; /* the map's; `right` links a list as well */
    uint32_t weight;                 /* the map's */
    unsigned char value;             /* the pattern: this byte throughout */
    bool live;                       /* of a live block; else of freed memory */
    bool seen;           /* was looked at, or counted as not, since it was made */
    uint64_t begin, end; /* the block, or what is left of the freed memory ... */
    uint64_t from, to;   /* ... and what of it holds the pattern */
    uint64_t serial;     /* a number of its own */
    const struct gs_context *context;
    struct gs_allocation was;  /* freed: whose memory it was; addr 0 if not known */
    struct gs_free_site freed; /* freed: by whom */
};

/* Zeros are an empty map. */
struct gs_redzone_map {
    struct gs_redzone *root;
    uint32_t seed;
};

/* Nothing in the map overlaps it. The node is the map's from now on. */
void gs_redzone_map_put(struct gs_redzone_map *map, struct gs_redzone *zone);
/* The zone of the live block at `addr`, out of the map; NULL: there is none. */
struct gs_redzone *gs_redzone_map_take(struct gs_redzone_map *map, uint64_t addr);
/*
 * All that overlaps [begin, end) leaves the map: a list by `right`, by rising address.
 * What freed memory has beyond it stays, unless there is no host memory for its node.
 */
struct gs_redzone *gs_redzone_map_cut(struct gs_redzone_map *map, uint64_t begin,
                                      uint64_t end);
/* The first zone that begins at `addr` or behind it; NULL: none. */
struct gs_redzone *gs_redzone_map_from(const struct gs_redzone_map *map, uint64_t addr);

#endif
