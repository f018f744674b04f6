/*
 * driver_model.c - a driver of which only the memory is modelled. See driver_model.h.
 */
#include "shim/tools/replay/driver_model.h"

#include <stdlib.h>
#include <string.h>

#include "shim/tools/replay/replay_trace.h"

/* What calls took on an H200 (docs/results/2026-11-26-h200.latency). */
#define ALLOC_NS   34000u
#define FREE_NS    36000u
#define SMALL_NS   1100u
#define CREATE_NS  8600u
#define RELEASE_NS 15800u
#define RESERVE_NS 570u

#define GRANULES (GS_MODEL_PAGE / GS_MODEL_GRANULE)
#define WORDS    (GRANULES / 64)

/* Addresses begin here. */
#define FIRST_ADDR ((uint64_t)1 << 33)

struct gs_driver_model_chunk {
    uint64_t addr; /* 0: not in use */
    uint64_t used[WORDS];
    unsigned allocations;
    unsigned largest; /* no free run is longer than this */
};

/* A range of addresses that is free again. */
struct gs_driver_model_range {
    uint64_t addr;
    size_t next; /* number + 1 of the next of the same length; 0: none */
};

void gs_driver_model_init(struct gs_driver_model *model, size_t capacity)
{
    *model = (struct gs_driver_model){.capacity = capacity, .next_addr = FIRST_ADDR};
    gs_mutex_init(&model->lock, GS_RANK_REPLAY_MODEL);
}

void gs_driver_model_free_all(struct gs_driver_model *model)
{
    free(model->chunks);
    free(model->ranges);
    gs_replay_map_free(&model->pages);
    gs_replay_map_free(&model->spares);
    gs_mutex_destroy(&model->lock);
}

/* ---- whole pages; the lock is held ------------------------------------------------- */

static uint64_t take_pages(struct gs_driver_model *model, size_t pages)
{
    uint64_t *first, addr;

    if (pages * GS_MODEL_PAGE > model->capacity - model->charged) {
        return 0;
    }
    model->charged += pages * GS_MODEL_PAGE;
    if (model->charged > model->peak) {
        model->peak = model->charged;
    }
    first = gs_replay_map_find(&model->spares, pages);
    if (first && *first) {
        struct gs_driver_model_range *range = &model->ranges[*first - 1];
        size_t number = *first;

        addr = range->addr;
        *first = range->next;
        range->next = model->range_free;
        model->range_free = number;
        return addr;
    }
    addr = model->next_addr;
    model->next_addr += pages * GS_MODEL_PAGE;
    return addr;
}

static void give_pages(struct gs_driver_model *model, uint64_t addr, size_t pages)
{
    uint64_t *first = gs_replay_map_put(&model->spares, pages, 0);
    size_t number = model->range_free;

    if (number) {
        model->range_free = model->ranges[number - 1].next;
    } else {
        model->ranges = gs_replay_grow(model->ranges, model->range_count,
                                       &model->range_room, sizeof(*model->ranges));
        number = ++model->range_count;
    }
    model->ranges[number - 1] = (struct gs_driver_model_range){addr, *first};
    *first = number;
    model->charged -= pages * GS_MODEL_PAGE;
}

/* ---- chunks; the lock is held ------------------------------------------------------ */

static bool is_used(const struct gs_driver_model_chunk *chunk, unsigned granule)
{
    return chunk->used[granule / 64] >> granule % 64 & 1;
}

static void mark(struct gs_driver_model_chunk *chunk, unsigned first, unsigned count,
                 bool used)
{
    for (unsigned i = first; i < first + count; i++) {
        uint64_t bit = (uint64_t)1 << i % 64;

        chunk->used[i / 64] =
            used ? chunk->used[i / 64] | bit : chunk->used[i / 64] & ~bit;
    }
}

/* The first run of `count` free granules; GRANULES if there is none. */
static unsigned find_run(struct gs_driver_model_chunk *chunk, unsigned count)
{
    unsigned run = 0, largest = 0;

    for (unsigned i = 0; i < GRANULES; i++) {
        uint64_t word = chunk->used[i / 64];

        if (i % 64 == 0 && (word == 0 || word == UINT64_MAX)) {
            run = word ? 0 : run + 64;
            i += 63;
        } else {
            run = is_used(chunk, i) ? 0 : run + 1;
        }
        largest = run > largest ? run : largest;
        if (run >= count) {
            return i + 1 - run;
        }
    }
    chunk->largest = largest;
    return GRANULES;
}

static uint64_t take_granules(struct gs_driver_model_chunk *chunk, unsigned first,
                              unsigned count)
{
    mark(chunk, first, count, true);
    chunk->allocations++;
    return chunk->addr + (uint64_t)first * GS_MODEL_GRANULE;
}

static uint64_t take_small(struct gs_driver_model *model, unsigned count)
{
    size_t spare = model->chunk_count;
    uint64_t addr;

    for (size_t i = 0; i < model->chunk_count; i++) {
        struct gs_driver_model_chunk *chunk = &model->chunks[i];
        unsigned first = GRANULES;

        if (!chunk->addr) {
            spare = i < spare ? i : spare;
        } else if (chunk->largest >= count) {
            first = find_run(chunk, count);
        }
        if (first < GRANULES) {
            return take_granules(chunk, first, count);
        }
    }
    addr = take_pages(model, 1);
    if (!addr) {
        return 0;
    }
    if (spare == model->chunk_count) {
        model->chunks = gs_replay_grow(model->chunks, model->chunk_count,
                                       &model->chunk_room, sizeof(*model->chunks));
        model->chunk_count++;
    }
    model->chunks[spare] =
        (struct gs_driver_model_chunk){.addr = addr, .largest = GRANULES};
    *gs_replay_map_put(&model->pages, addr / GS_MODEL_PAGE, 0) = spare + 1;
    return take_granules(&model->chunks[spare], 0, count);
}

static void give_small(struct gs_driver_model *model, uint64_t addr, unsigned count)
{
    uint64_t *number = gs_replay_map_find(&model->pages, addr / GS_MODEL_PAGE);
    struct gs_driver_model_chunk *chunk =
        number && *number ? &model->chunks[*number - 1] : NULL;
    unsigned first = (unsigned)(addr % GS_MODEL_PAGE / GS_MODEL_GRANULE);

    if (!chunk || chunk->allocations == 0 || !is_used(chunk, first)) {
        gs_replay_fail("the modelled driver was given back what it never handed out");
    }
    mark(chunk, first, count, false);
    chunk->largest = GRANULES;
    if (--chunk->allocations == 0) {
        *number = 0;
        give_pages(model, chunk->addr, 1);
        chunk->addr = 0;
    }
}

/* ---- the public part --------------------------------------------------------------- */

static unsigned granules_of(size_t bytes)
{
    return bytes ? (unsigned)((bytes + GS_MODEL_GRANULE - 1) / GS_MODEL_GRANULE) : 1;
}

uint64_t gs_driver_model_take(struct gs_driver_model *model, size_t bytes)
{
    uint64_t addr;

    gs_mutex_lock(&model->lock);
    model->calls++;
    model->ns += bytes >= GS_MODEL_PAGE ? ALLOC_NS : SMALL_NS;
    if (bytes >= GS_MODEL_PAGE) {
        addr = take_pages(model, (bytes + GS_MODEL_PAGE - 1) / GS_MODEL_PAGE);
    } else {
        addr = take_small(model, granules_of(bytes));
    }
    model->failed += addr == 0;
    gs_mutex_unlock(&model->lock);
    return addr;
}

void gs_driver_model_give(struct gs_driver_model *model, uint64_t addr, size_t bytes)
{
    gs_mutex_lock(&model->lock);
    model->calls++;
    model->ns += bytes >= GS_MODEL_PAGE ? FREE_NS : SMALL_NS;
    if (bytes >= GS_MODEL_PAGE) {
        give_pages(model, addr, (bytes + GS_MODEL_PAGE - 1) / GS_MODEL_PAGE);
    } else {
        give_small(model, addr, granules_of(bytes));
    }
    gs_mutex_unlock(&model->lock);
}

/* ---- virtual memory management ----------------------------------------------------- */

bool gs_driver_model_create(struct gs_driver_model *model, size_t bytes)
{
    bool fits;

    gs_mutex_lock(&model->lock);
    model->calls++;
    model->ns += CREATE_NS;
    fits = bytes <= model->capacity - model->charged;
    if (fits) {
        model->charged += bytes;
    } else {
        model->failed++;
    }
    if (model->charged > model->peak) {
        model->peak = model->charged;
    }
    gs_mutex_unlock(&model->lock);
    return fits;
}

void gs_driver_model_release(struct gs_driver_model *model, size_t bytes)
{
    gs_mutex_lock(&model->lock);
    model->calls++;
    model->ns += RELEASE_NS;
    model->charged -= bytes;
    gs_mutex_unlock(&model->lock);
}

uint64_t gs_driver_model_reserve(struct gs_driver_model *model, size_t bytes)
{
    uint64_t addr;

    gs_mutex_lock(&model->lock);
    model->remaps++;
    model->ns += RESERVE_NS;
    addr = model->next_addr;
    model->next_addr += bytes;
    gs_mutex_unlock(&model->lock);
    return addr;
}

void gs_driver_model_remap(struct gs_driver_model *model, uint64_t ns)
{
    gs_mutex_lock(&model->lock);
    model->remaps++;
    model->ns += ns;
    gs_mutex_unlock(&model->lock);
}
