/*
 * tiles.c - the physical memory in each part of an array.
 * Owns:  the tiles, by their arrays.
 * Lock:  lock; never held across a driver call, nor while physical.c is called.
 * Source: CUDA Driver API, cuMemMapArrayAsync
 */
#include "tiles.h"

#include <stdlib.h>

#include "gs_hash.h"
#include "gs_locks.h"

/* A part of an array: a box of a level's texels, or a range of a layer's mip tail, stored
 * as a box of one dimension. */
struct part {
    bool tail;
    unsigned level, layer;
    uint64_t begin[3], extent[3];
};

struct tile {
    struct tile *next; /* of the same array, or in a list that ends together */
    struct gs_physical *memory;
    struct part part;
};

/* An array that has tiles. */
struct array {
    UT_hash_handle hh; /* in arrays, by key */
    uint64_t key;
    CUcontext context;
    struct tile *tiles;
};

static struct gs_mutex lock = GS_MUTEX(GS_RANK_TILES);
static struct array *arrays; /* under lock */
static unsigned tile_count;  /* atomic: nearly every program has none */

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

static void put_first(struct tile *tile, struct tile **list)
{
    tile->next = *list;
    *list = tile;
}

/* Takes the array's tiles within the part; NULL: all of them. */
static void take_within(struct array *array, const struct part *part, struct tile **ended)
{
    for (struct tile **link = array ? &array->tiles : NULL; link && *link;) {
        struct tile *tile = *link;
        if (part && !is_within(&tile->part, part)) {
            link = &tile->next;
            continue;
        }
        *link = tile->next;
        put_first(tile, ended);
        __atomic_sub_fetch(&tile_count, 1, __ATOMIC_RELAXED);
    }
    if (array && !array->tiles) {
        HASH_DEL(arrays, array);
        free(array);
    }
}

/* False: no memory for the array. */
static bool put(uint64_t key, CUcontext context, struct tile *tile)
{
    struct array *array = GS_HASH_FIND(arrays, &key);
    if (!array && (array = calloc(1, sizeof(*array)))) {
        array->key = key;
        if (!GS_HASH_ADD(arrays, key, array)) {
            free(array);
            array = NULL;
        }
    }
    if (array) {
        array->context = context;
        put_first(tile, &array->tiles);
        __atomic_add_fetch(&tile_count, 1, __ATOMIC_RELAXED);
    }
    return array != NULL;
}

/* ---- without the lock -------------------------------------------------------------- */

static void end(struct gs_state *state, struct tile *ended, enum gs_api api)
{
    while (ended) {
        struct tile *tile = ended;
        ended = tile->next;
        gs_physical_let_go(state, tile->memory, api);
        free(tile);
    }
}

/* A tile for a mapping; NULL: its memory is not known, or the call unmaps. */
static struct tile *new_tile(const CUarrayMapInfo *info)
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
    tile->memory = memory;
    tile->part = part_of(info);
    return tile;
}

void gs_tiles_mapped(struct gs_state *state, const CUarrayMapInfo *list, unsigned count,
                     CUcontext context)
{
    struct tile *ended = NULL;
    for (unsigned i = 0; i < count; i++) {
        const struct part part = part_of(&list[i]);
        struct tile *made = new_tile(&list[i]);
        uint64_t key = key_of(&list[i]);
        gs_mutex_lock(&lock);
        take_within(GS_HASH_FIND(arrays, &key), &part, &ended);
        if (made && !put(key, context, made)) {
            put_first(made, &ended);
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
    take_within(GS_HASH_FIND(arrays, &key), NULL, &ended);
    gs_mutex_unlock(&lock);
    end(state, ended, api);
}

void gs_tiles_context_lost(struct gs_state *state, CUcontext context)
{
    struct tile *ended = NULL;
    struct array *array, *next;
    if (__atomic_load_n(&tile_count, __ATOMIC_RELAXED) == 0) {
        return;
    }
    gs_mutex_lock(&lock);
    HASH_ITER (hh, arrays, array, next) {
        if (array->context == context) {
            take_within(array, NULL, &ended);
        }
    }
    gs_mutex_unlock(&lock);
    end(state, ended, GS_API_UNKNOWN);
}

void gs_tiles_reset(void)
{
    gs_mutex_init(&lock, GS_RANK_TILES);
    arrays = NULL; /* another thread may have been changing them */
    __atomic_store_n(&tile_count, 0, __ATOMIC_RELAXED);
}
