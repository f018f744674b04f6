/*
 * model.c - a driver of which only the memory is modelled. See model.h.
 */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay_trace.h"

/* What calls took on an H200 (docs/results/2026-11-26-h200.latency). */
#define ALLOC_NS   34000u
#define FREE_NS    36000u
#define SMALL_NS   1100u
#define CREATE_NS  8600u
#define RELEASE_NS 15800u
#define RESERVE_NS 570u

#define GRANULES (MODEL_PAGE / MODEL_GRANULE)
#define WORDS    (GRANULES / 64)

/* Addresses begin here. */
#define FIRST_ADDR ((uint64_t)1 << 33)

struct model_chunk {
    uint64_t addr; /* 0: not in use */
    uint64_t used[WORDS];
    unsigned allocations;
    unsigned largest; /* no free run is longer than this */
};

/* A range of addresses that is free again. */
struct model_range {
    uint64_t addr;
    size_t next; /* number + 1 of the next of the same length; 0: none */
};

void model_init(struct model *model, size_t capacity)
{
    *model = (struct model){.capacity = capacity, .next_addr = FIRST_ADDR};
    pthread_mutex_init(&model->lock, NULL);
}

void model_free_all(struct model *model)
{
    free(model->chunks);
    free(model->ranges);
    map_free(&model->pages);
    map_free(&model->spares);
    pthread_mutex_destroy(&model->lock);
}

static void *grown(void *items, size_t count, size_t *room, size_t bytes)
{
    void *more;

    if (count < *room)
        return items;
    more = trace_alloc(*room ? 2 * *room : 64, bytes);
    if (count)
        memcpy(more, items, count * bytes);
    free(items);
    *room = *room ? 2 * *room : 64;
    return more;
}

/* ---- whole pages; the lock is held ------------------------------------------------- */

static uint64_t take_pages(struct model *model, size_t pages)
{
    uint64_t *first, addr;

    if (pages * MODEL_PAGE > model->capacity - model->charged)
        return 0;
    model->charged += pages * MODEL_PAGE;
    if (model->charged > model->peak)
        model->peak = model->charged;
    first = map_find(&model->spares, pages);
    if (first && *first) {
        struct model_range *range = &model->ranges[*first - 1];
        size_t number = *first;

        addr = range->addr;
        *first = range->next;
        range->next = model->range_free;
        model->range_free = number;
        return addr;
    }
    addr = model->next_addr;
    model->next_addr += pages * MODEL_PAGE;
    return addr;
}

static void give_pages(struct model *model, uint64_t addr, size_t pages)
{
    uint64_t *first = map_put(&model->spares, pages, 0);
    size_t number = model->range_free;

    if (number) {
        model->range_free = model->ranges[number - 1].next;
    } else {
        model->ranges = grown(model->ranges, model->range_count, &model->range_room,
                              sizeof(*model->ranges));
        number = ++model->range_count;
    }
    model->ranges[number - 1] = (struct model_range){addr, *first};
    *first = number;
    model->charged -= pages * MODEL_PAGE;
}

/* ---- chunks; the lock is held ------------------------------------------------------ */

static bool is_used(const struct model_chunk *chunk, unsigned granule)
{
    return chunk->used[granule / 64] >> granule % 64 & 1;
}

static void mark(struct model_chunk *chunk, unsigned first, unsigned count, bool used)
{
    for (unsigned i = first; i < first + count; i++) {
        uint64_t bit = (uint64_t)1 << i % 64;

        chunk->used[i / 64] =
            used ? chunk->used[i / 64] | bit : chunk->used[i / 64] & ~bit;
    }
}

/* The first run of `count` free granules; GRANULES if there is none. */
static unsigned find_run(struct model_chunk *chunk, unsigned count)
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
        if (run >= count)
            return i + 1 - run;
    }
    chunk->largest = largest;
    return GRANULES;
}

static uint64_t take_granules(struct model_chunk *chunk, unsigned first, unsigned count)
{
    mark(chunk, first, count, true);
    chunk->allocations++;
    return chunk->addr + (uint64_t)first * MODEL_GRANULE;
}

static uint64_t take_small(struct model *model, unsigned count)
{
    size_t spare = model->chunk_count;
    uint64_t addr;

    for (size_t i = 0; i < model->chunk_count; i++) {
        struct model_chunk *chunk = &model->chunks[i];
        unsigned first = GRANULES;

        if (!chunk->addr)
            spare = i < spare ? i : spare;
        else if (chunk->largest >= count)
            first = find_run(chunk, count);
        if (first < GRANULES)
            return take_granules(chunk, first, count);
    }
    addr = take_pages(model, 1);
    if (!addr)
        return 0;
    if (spare == model->chunk_count) {
        model->chunks = grown(model->chunks, model->chunk_count, &model->chunk_room,
                              sizeof(*model->chunks));
        model->chunk_count++;
    }
    model->chunks[spare] = (struct model_chunk){.addr = addr, .largest = GRANULES};
    *map_put(&model->pages, addr / MODEL_PAGE, 0) = spare + 1;
    return take_granules(&model->chunks[spare], 0, count);
}

static void give_small(struct model *model, uint64_t addr, unsigned count)
{
    uint64_t *number = map_find(&model->pages, addr / MODEL_PAGE);
    struct model_chunk *chunk = number && *number ? &model->chunks[*number - 1] : NULL;
    unsigned first = (unsigned)(addr % MODEL_PAGE / MODEL_GRANULE);

    if (!chunk || chunk->allocations == 0 || !is_used(chunk, first)) {
        fprintf(stderr, "replay: the driver was given back what it never handed out\n");
        abort();
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
    return bytes ? (unsigned)((bytes + MODEL_GRANULE - 1) / MODEL_GRANULE) : 1;
}

uint64_t model_take(struct model *model, size_t bytes)
{
    uint64_t addr;

    pthread_mutex_lock(&model->lock);
    model->calls++;
    model->ns += bytes >= MODEL_PAGE ? ALLOC_NS : SMALL_NS;
    if (bytes >= MODEL_PAGE)
        addr = take_pages(model, (bytes + MODEL_PAGE - 1) / MODEL_PAGE);
    else
        addr = take_small(model, granules_of(bytes));
    model->failed += addr == 0;
    pthread_mutex_unlock(&model->lock);
    return addr;
}

void model_give(struct model *model, uint64_t addr, size_t bytes)
{
    pthread_mutex_lock(&model->lock);
    model->calls++;
    model->ns += bytes >= MODEL_PAGE ? FREE_NS : SMALL_NS;
    if (bytes >= MODEL_PAGE)
        give_pages(model, addr, (bytes + MODEL_PAGE - 1) / MODEL_PAGE);
    else
        give_small(model, addr, granules_of(bytes));
    pthread_mutex_unlock(&model->lock);
}

/* ---- virtual memory management ----------------------------------------------------- */

bool model_create(struct model *model, size_t bytes)
{
    bool fits;

    pthread_mutex_lock(&model->lock);
    model->calls++;
    model->ns += CREATE_NS;
    fits = bytes <= model->capacity - model->charged;
    if (fits)
        model->charged += bytes;
    else
        model->failed++;
    if (model->charged > model->peak)
        model->peak = model->charged;
    pthread_mutex_unlock(&model->lock);
    return fits;
}

void model_release(struct model *model, size_t bytes)
{
    pthread_mutex_lock(&model->lock);
    model->calls++;
    model->ns += RELEASE_NS;
    model->charged -= bytes;
    pthread_mutex_unlock(&model->lock);
}

uint64_t model_reserve(struct model *model, size_t bytes)
{
    uint64_t addr;

    pthread_mutex_lock(&model->lock);
    model->remaps++;
    model->ns += RESERVE_NS;
    addr = model->next_addr;
    model->next_addr += bytes;
    pthread_mutex_unlock(&model->lock);
    return addr;
}

void model_remap(struct model *model, uint64_t ns)
{
    pthread_mutex_lock(&model->lock);
    model->remaps++;
    model->ns += ns;
    pthread_mutex_unlock(&model->lock);
}
