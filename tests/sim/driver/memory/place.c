/*
 * place.c - where in the device's units a block of a heap lies: requests of 2 MiB and
 * more get units of their own, smaller ones share chunks of one unit. Owns:  chunks and
 * idle extents of heaps.   Lock: space->lock. Design: docs/simulator.md, "Device memory"
 */
#include "place.h"

#include <stdlib.h>

#include "space.h"

void sim_place_hand_over(struct sim_alloc *of, struct sim_alloc *to)
{
    struct sim_space *space = of->heap->space;
    size_t offset = of->base - space->va;

    if (of->chunk) {
        size_t slot = offset % SIM_UNIT_BYTES / SIM_ALIGN_BYTES;
        for (size_t i = 0; i < of->block_bytes / SIM_ALIGN_BYTES; i++)
            of->chunk->owners[slot + i] = to;
    } else {
        for (size_t i = 0; i < of->block_bytes / SIM_UNIT_BYTES; i++)
            space->units[offset / SIM_UNIT_BYTES + i].alloc = to;
    }
}

static struct sim_extent *new_extent(size_t first, size_t count, struct sim_extent *next)
{
    struct sim_extent *extent = malloc(sizeof(*extent));

    if (extent)
        *extent = (struct sim_extent){.next = next, .first = first, .count = count};
    return extent;
}

/* Cut `count` units off the idle extent that fits best. Needs space->lock. */
static bool take_idle(struct sim_heap *heap, size_t count, size_t *first)
{
    struct sim_extent **best = NULL;

    for (struct sim_extent **link = &heap->idle; *link; link = &(*link)->next) {
        if ((*link)->count >= count && (!best || (*link)->count < (*best)->count))
            best = link;
    }
    if (!best)
        return false;
    struct sim_extent *extent = *best;
    *first = extent->first;
    extent->first += count;
    extent->count -= count;
    heap->idle_units -= count;
    if (extent->count == 0) {
        *best = extent->next;
        free(extent);
    }
    return true;
}

/* Units for the heap, from its idle ones or the device. Needs space->lock. */
static bool take_units(struct sim_heap *heap, size_t count, bool may_grow, size_t *first)
{
    if (take_idle(heap, count, first))
        return true;
    if (!may_grow || !sim_space_take(heap->space, count, first))
        return false;
    heap->units += count;
    if (heap->units > heap->units_high)
        heap->units_high = heap->units;
    return true;
}

static struct sim_chunk *new_chunk(struct sim_heap *heap, bool may_grow)
{
    struct sim_chunk *chunk = calloc(1, sizeof(*chunk));

    if (!chunk)
        return NULL;
    if (!take_units(heap, 1, may_grow, &chunk->unit)) {
        free(chunk);
        return NULL;
    }
    chunk->heap = heap;
    chunk->next = heap->chunks;
    if (chunk->next)
        chunk->next->prev = chunk;
    heap->chunks = chunk;
    heap->idle_units++; /* until its first allocation */
    heap->space->units[chunk->unit].chunk = chunk;
    return chunk;
}

/* Take an empty chunk apart; its unit stays held. Needs space->lock. */
static void drop_chunk(struct sim_chunk *chunk)
{
    struct sim_heap *heap = chunk->heap;

    if (chunk->prev)
        chunk->prev->next = chunk->next;
    else
        heap->chunks = chunk->next;
    if (chunk->next)
        chunk->next->prev = chunk->prev;
    heap->space->units[chunk->unit].chunk = NULL;
    heap->idle_units--;
    free(chunk);
}

static size_t chunk_find(struct sim_chunk *chunk, size_t slots)
{
    if (SIM_CHUNK_SLOTS - chunk->used_slots < slots)
        return SIM_CHUNK_SLOTS;
    if (chunk->too_long && slots >= chunk->too_long)
        return SIM_CHUNK_SLOTS;
    size_t found = sim_bits_find_clear(chunk->bits, 0, SIM_CHUNK_SLOTS, slots);
    if (found == SIM_CHUNK_SLOTS)
        chunk->too_long = slots;
    return found;
}

/* Place a small allocation. Needs space->lock. */
static bool place_small(struct sim_heap *heap, struct sim_alloc *alloc, bool may_grow)
{
    size_t slots = alloc->block_bytes / SIM_ALIGN_BYTES;
    size_t found = SIM_CHUNK_SLOTS;
    struct sim_chunk *chunk = heap->chunks;

    for (; chunk; chunk = chunk->next) {
        found = chunk_find(chunk, slots);
        if (found < SIM_CHUNK_SLOTS)
            break;
    }
    if (!chunk) {
        chunk = new_chunk(heap, may_grow);
        if (!chunk)
            return false;
        found = 0;
    }
    if (chunk->used_slots == 0)
        heap->idle_units--;
    sim_bits_set(chunk->bits, found, slots);
    chunk->used_slots += slots;
    for (size_t i = found; i < found + slots; i++)
        chunk->owners[i] = alloc;
    alloc->chunk = chunk;
    alloc->base = sim_space_address(heap->space, chunk->unit) + found * SIM_ALIGN_BYTES;
    return true;
}

/* Place an allocation of whole units. Needs space->lock. */
static bool place_large(struct sim_heap *heap, struct sim_alloc *alloc, bool may_grow)
{
    size_t count = alloc->block_bytes / SIM_UNIT_BYTES;
    size_t first;

    if (!take_units(heap, count, may_grow, &first))
        return false;
    for (size_t i = first; i < first + count; i++)
        heap->space->units[i].alloc = alloc;
    alloc->base = sim_space_address(heap->space, first);
    return true;
}

bool sim_place(struct sim_alloc *alloc, bool may_grow)
{
    return alloc->block_bytes < SIM_UNIT_BYTES
               ? place_small(alloc->heap, alloc, may_grow)
               : place_large(alloc->heap, alloc, may_grow);
}

/* Free a small block; returns units to give back. Needs space->lock. */
static struct sim_extent *unplace_small(struct sim_alloc *alloc)
{
    struct sim_chunk *chunk = alloc->chunk;
    struct sim_heap *heap = chunk->heap;
    size_t slots = alloc->block_bytes / SIM_ALIGN_BYTES;
    size_t first =
        (alloc->base - sim_space_address(heap->space, chunk->unit)) / SIM_ALIGN_BYTES;

    sim_place_hand_over(alloc, NULL);
    sim_bits_clear(chunk->bits, first, slots);
    chunk->used_slots -= slots;
    chunk->too_long = 0;
    if (chunk->used_slots > 0)
        return NULL;
    heap->idle_units++;
    if (heap->keeps_idle)
        return NULL;
    struct sim_extent *extent = new_extent(chunk->unit, 1, NULL);
    if (extent) { /* otherwise the empty chunk stays, ready for reuse */
        drop_chunk(chunk);
        heap->units--;
    }
    return extent;
}

/* Free whole units; returns units to give back. Needs space->lock. */
static struct sim_extent *unplace_large(struct sim_alloc *alloc)
{
    struct sim_heap *heap = alloc->heap;
    size_t first = (alloc->base - heap->space->va) / SIM_UNIT_BYTES;
    size_t count = alloc->block_bytes / SIM_UNIT_BYTES;

    sim_place_hand_over(alloc, NULL);
    struct sim_extent *extent = new_extent(first, count, NULL);
    if (!extent)
        return NULL;
    if (heap->keeps_idle) {
        extent->next = heap->idle;
        heap->idle = extent;
        heap->idle_units += count;
        return NULL;
    }
    heap->units -= count;
    return extent;
}

struct sim_extent *sim_unplace(struct sim_alloc *alloc)
{
    return alloc->chunk ? unplace_small(alloc) : unplace_large(alloc);
}

void sim_heap_trim(struct sim_heap *heap, size_t keep_bytes)
{
    struct sim_space *space = heap->space;
    struct sim_extent *release = NULL;
    struct sim_extent **link = &heap->idle;
    const size_t keep = keep_bytes / SIM_UNIT_BYTES + (keep_bytes % SIM_UNIT_BYTES != 0);

    pthread_mutex_lock(&space->lock);
    while (*link) {
        struct sim_extent *extent = *link;
        if (heap->units < extent->count || heap->units - extent->count < keep) {
            link = &extent->next; /* "at least minBytesToKeep" stay (cuMemPoolTrimTo) */
            continue;
        }
        *link = extent->next;
        heap->idle_units -= extent->count;
        heap->units -= extent->count;
        extent->next = release;
        release = extent;
    }
    struct sim_chunk *next;
    for (struct sim_chunk *chunk = heap->chunks; chunk && heap->units > keep;
         chunk = next) {
        next = chunk->next;
        if (chunk->used_slots > 0)
            continue;
        struct sim_extent *extent = new_extent(chunk->unit, 1, release);
        if (!extent)
            break;
        drop_chunk(chunk);
        heap->units--;
        release = extent;
    }
    pthread_mutex_unlock(&space->lock);
    sim_space_release(space, release);
}
