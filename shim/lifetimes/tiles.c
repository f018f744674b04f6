/*
 * tiles.c - which part of which array holds which physical memory.
 * Owns:  the tiles.   Lock: lock; never held over a driver call, nor while physical.c is
 *        called.
 * Source: CUDA Driver API, cuMemMapArrayAsync
 */
#include "tiles.h"

#include <stdlib.h>
#include <string.h>

#include "gs_locks.h"
#include "key_map.h"

/* Part of an array: a box of a level's texels, or a range of a layer's mip tail, which is
 * a box of one dimension. */
struct part {
    bool tail;
    unsigned level, layer;
    uint64_t begin[3], extent[3];
};

struct tile {
    struct gs_key_node node; /* by its array */
    struct tile *next;       /* of those that end together */
    struct gs_physical *memory;
    CUcontext context;
    struct part part;
};

static struct gs_mutex lock = GS_MUTEX(GS_RANK_TILES);
static struct gs_key_map tiles; /* under lock */
static unsigned tile_count;     /* atomic: nearly every program has none */

static uint64_t key_of(const CUarrayMapInfo *info)
{
    uintptr_t handle = info->resourceType == CU_RESOURCE_TYPE_ARRAY
                           ? (uintptr_t)info->resource.array
                           : (uintptr_t)info->resource.mipmap;
    return gs_key(GS_KEY_ARRAY, handle);
}

static struct part part_of(const CUarrayMapInfo *info)
{
    struct part part = {.tail = info->subresourceType ==
                                CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL};
    if (part.tail) {
        part.layer = info->subresource.miptail.layer;
        part.begin[0] = info->subresource.miptail.offset;
        part.extent[0] = info->subresource.miptail.size;
        part.extent[1] = part.extent[2] = 1;
        return part;
    }
    part.level = info->subresource.sparseLevel.level;
    part.layer = info->subresource.sparseLevel.layer;
    part.begin[0] = info->subresource.sparseLevel.offsetX;
    part.begin[1] = info->subresource.sparseLevel.offsetY;
    part.begin[2] = info->subresource.sparseLevel.offsetZ;
    part.extent[0] = info->subresource.sparseLevel.extentWidth;
    part.extent[1] = info->subresource.sparseLevel.extentHeight;
    part.extent[2] = info->subresource.sparseLevel.extentDepth;
    return part;
}

static bool is_within(const struct part *inner, const struct part *outer)
{
    bool within = inner->tail == outer->tail && inner->level == outer->level &&
                  inner->layer == outer->layer;
    for (unsigned i = 0; i < 3; i++) {
        within = within && inner->begin[i] >= outer->begin[i] &&
                 inner->begin[i] + inner->extent[i] <= outer->begin[i] + outer->extent[i];
    }
    return within;
}

/* ---- with the lock held ------------------------------------------------------------ */

static void take(struct tile *tile, struct tile **ended)
{
    gs_key_map_take(&tiles, &tile->node);
    __atomic_sub_fetch(&tile_count, 1, __ATOMIC_RELAXED);
    tile->next = *ended;
    *ended = tile;
}

/* Those of the array that lie within the part; NULL: all of it. */
static void take_within(uint64_t key, const struct part *part, struct tile **ended)
{
    struct gs_key_node *node = gs_key_map_find(&tiles, key);
    while (node) {
        struct tile *tile = (struct tile *)node;
        node = gs_key_map_older(node);
        if (!part || is_within(&tile->part, part)) {
            take(tile, ended);
        }
    }
}
static_assert(offsetof(struct tile, node) == 0, "a node is its tile");

static bool is_of_context(void *arg, const struct gs_key_node *node)
{
    return ((const struct tile *)node)->context == arg;
}

/* ---- without it -------------------------------------------------------------------- */

static void end(struct gs_state *state, struct tile *ended, enum gs_api api)
{
    while (ended) {
        struct tile *tile = ended;
        ended = tile->next;
        gs_physical_let_go(state, tile->memory, api);
        free(tile);
    }
}

/* A tile for what is mapped; NULL: its memory is not known, or nothing is mapped. */
static struct tile *new_tile(const CUarrayMapInfo *info, CUcontext context)
{
    struct tile *tile = info->memOperationType == CU_MEM_OPERATION_TYPE_MAP
                            ? calloc(1, sizeof(*tile))
                            : NULL;
    struct gs_physical *memory =
        tile ? gs_physical_hold(gs_key(GS_KEY_ALLOCATION, info->memHandle.memHandle))
             : NULL;
    if (!memory) {
        free(tile);
        return NULL;
    }
    tile->node.key = key_of(info);
    tile->memory = memory;
    tile->context = context;
    tile->part = part_of(info);
    return tile;
}

void gs_tiles_mapped(struct gs_state *state, const CUarrayMapInfo *list, unsigned count,
                     CUcontext context)
{
    struct tile *ended = NULL;
    for (unsigned i = 0; i < count; i++) {
        const struct part part = part_of(&list[i]);
        struct tile *made = new_tile(&list[i], context);
        gs_mutex_lock(&lock);
        take_within(key_of(&list[i]), &part, &ended);
        if (made) {
            gs_key_map_put(&tiles, &made->node);
            __atomic_add_fetch(&tile_count, 1, __ATOMIC_RELAXED);
        }
        gs_mutex_unlock(&lock);
    }
    end(state, ended, GS_API_cuMemMapArrayAsync);
}

void gs_tiles_array_ended(struct gs_state *state, uint64_t key, enum gs_api api)
{
    struct tile *ended = NULL;
    if (__atomic_load_n(&tile_count, __ATOMIC_RELAXED) == 0) {
        return;
    }
    gs_mutex_lock(&lock);
    take_within(key, NULL, &ended);
    gs_mutex_unlock(&lock);
    end(state, ended, api);
}

void gs_tiles_context_lost(struct gs_state *state, CUcontext context)
{
    struct tile *ended = NULL;
    struct gs_key_node *node;
    if (__atomic_load_n(&tile_count, __ATOMIC_RELAXED) == 0) {
        return;
    }
    gs_mutex_lock(&lock);
    while ((node = gs_key_map_search(&tiles, is_of_context, context))) {
        take((struct tile *)node, &ended);
    }
    gs_mutex_unlock(&lock);
    end(state, ended, GS_API_UNKNOWN);
}

void gs_tiles_reset(void)
{
    gs_mutex_init(&lock, GS_RANK_TILES);
    memset(&tiles, 0, sizeof(tiles)); /* another thread may have been changing them */
    __atomic_store_n(&tile_count, 0, __ATOMIC_RELAXED);
}
