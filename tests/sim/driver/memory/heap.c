/*
 * heap.c - device memory for one user of it (a context, a memory pool): requests of 2 MiB
 * and more get units of their own, smaller ones share chunks of one unit.
 * Owns:  heaps, chunks and the records of device allocations.   Lock: space->lock.
 * Design: docs/simulator.md, "Device memory"
 */
#include <stdlib.h>

#include "ipc.h"
#include "op.h"
#include "order.h"
#include "space.h"
#include "vmm_range.h"

static atomic_ullong last_id; /* atomic */

uint64_t sim_memory_next_id(void)
{
    return 1 + atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed);
}

void sim_heap_init(struct sim_heap *heap, struct sim_space *space, bool keeps_idle)
{
    *heap = (struct sim_heap){.space = space, .keeps_idle = keeps_idle};
}

static void list_push(struct sim_alloc **head, struct sim_alloc *alloc)
{
    alloc->prev = NULL;
    alloc->next = *head;
    if (*head)
        (*head)->prev = alloc;
    *head = alloc;
}

static void list_remove(struct sim_alloc **head, struct sim_alloc *alloc)
{
    if (alloc->prev)
        alloc->prev->next = alloc->next;
    else
        *head = alloc->next;
    if (alloc->next)
        alloc->next->prev = alloc->prev;
}

static void count_used(struct sim_heap *heap, size_t bytes)
{
    heap->used_bytes += bytes;
    if (heap->used_bytes > heap->used_high)
        heap->used_high = heap->used_bytes;
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

static size_t block_bytes(size_t bytes)
{
    return gs_round_up(bytes, bytes < SIM_UNIT_BYTES ? SIM_ALIGN_BYTES : SIM_UNIT_BYTES);
}

static struct sim_alloc *new_alloc(struct sim_heap *heap, size_t bytes,
                                   const struct sim_tenant *tenant)
{
    struct sim_alloc *alloc = calloc(1, sizeof(*alloc));

    if (!alloc)
        return NULL;
    atomic_init(&alloc->refs, 1);
    atomic_init(&alloc->state, SIM_MEMORY_LIVE);
    alloc->bytes = bytes;
    alloc->block_bytes = block_bytes(bytes);
    alloc->id = sim_memory_next_id();
    alloc->device = heap->space->device;
    alloc->heap = heap;
    alloc->kind = tenant->kind;
    alloc->context = tenant->context;
    alloc->context_id = tenant->context_id;
    return alloc;
}

void sim_heap_adopt(struct sim_heap *heap, struct sim_alloc *alloc)
{
    count_used(heap, alloc->block_bytes);
    list_push(&heap->allocs, alloc);
}

CUresult sim_heap_alloc(struct sim_heap *heap, size_t bytes, bool may_grow,
                        const struct sim_tenant *tenant, struct sim_alloc **out)
{
    struct sim_space *space = heap->space;

    if (bytes > space->capacity_units * SIM_UNIT_BYTES)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_alloc *alloc = new_alloc(heap, bytes, tenant);
    if (!alloc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&space->lock);
    bool placed = alloc->block_bytes < SIM_UNIT_BYTES
                      ? place_small(heap, alloc, may_grow)
                      : place_large(heap, alloc, may_grow);
    if (placed) {
        count_used(heap, alloc->block_bytes);
        list_push(&heap->allocs, alloc);
        sim_memory_ref(alloc); /* the caller's */
    }
    pthread_mutex_unlock(&space->lock);
    if (!placed) {
        free(alloc);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = alloc;
    return CUDA_SUCCESS;
}

/* Point the map at the new tenant of a block. Needs space->lock. */
static void repoint(struct sim_alloc *from, struct sim_alloc *to)
{
    struct sim_space *space = from->heap->space;
    size_t offset = from->base - space->va;

    if (from->chunk) {
        size_t slot = offset % SIM_UNIT_BYTES / SIM_ALIGN_BYTES;
        for (size_t i = 0; i < from->block_bytes / SIM_ALIGN_BYTES; i++)
            from->chunk->owners[slot + i] = to;
    } else {
        for (size_t i = 0; i < from->block_bytes / SIM_UNIT_BYTES; i++)
            space->units[offset / SIM_UNIT_BYTES + i].alloc = to;
    }
}

/* A block whose free is queued and that fits. Needs space->lock. */
static struct sim_alloc *find_freeing(struct sim_heap *heap, size_t want,
                                      const void *stream)
{
    struct sim_alloc *alloc = heap->freeing;

    while (alloc && (alloc->handed_over || (stream && alloc->freed_on != stream) ||
                     alloc->block_bytes < want || alloc->block_bytes / 2 > want ||
                     (alloc->chunk != NULL) != (want < SIM_UNIT_BYTES)))
        alloc = alloc->next;
    return alloc;
}

void sim_heap_take_over(struct sim_heap *heap, size_t bytes,
                        const struct sim_tenant *tenant, const void *stream,
                        struct sim_alloc **out, struct sim_op **behind)
{
    struct sim_alloc *to = new_alloc(heap, bytes, tenant);

    *out = NULL;
    if (!to)
        return;
    pthread_mutex_lock(&heap->space->lock);
    struct sim_alloc *from = find_freeing(heap, to->block_bytes, stream);
    if (from) {
        to->base = from->base;
        to->chunk = from->chunk;
        to->block_bytes = from->block_bytes;
        repoint(from, to);
        from->handed_over = true;
        from->block_bytes = 0;
        list_push(&heap->allocs, to);
        sim_memory_ref(to);
        sim_op_ref(from->free_op);
        *behind = from->free_op;
    }
    pthread_mutex_unlock(&heap->space->lock);
    if (from)
        *out = to;
    else
        free(to);
}

bool sim_memory_begin_free(struct sim_alloc *alloc, const void *stream, struct sim_op *op)
{
    struct sim_heap *heap = alloc->heap;
    int live = SIM_MEMORY_LIVE;

    pthread_mutex_lock(&heap->space->lock);
    bool was_live =
        atomic_compare_exchange_strong(&alloc->state, &live, SIM_MEMORY_FREEING);
    if (was_live) {
        list_remove(&heap->allocs, alloc);
        list_push(&heap->freeing, alloc);
        alloc->freed_on = stream;
        alloc->free_op = op;
        sim_op_ref(op);
    }
    pthread_mutex_unlock(&heap->space->lock);
    return was_live;
}

void sim_memory_cancel_free(struct sim_alloc *alloc)
{
    struct sim_heap *heap = alloc->heap;
    struct sim_op *op = NULL;
    int freeing = SIM_MEMORY_FREEING;

    pthread_mutex_lock(&heap->space->lock);
    if (!alloc->handed_over &&
        atomic_compare_exchange_strong(&alloc->state, &freeing, SIM_MEMORY_LIVE)) {
        list_remove(&heap->freeing, alloc);
        list_push(&heap->allocs, alloc);
        op = alloc->free_op;
        alloc->free_op = NULL;
    }
    pthread_mutex_unlock(&heap->space->lock);
    sim_op_unref(op);
}

/* Free a small block; returns units to give back. Needs space->lock. */
static struct sim_extent *unplace_small(struct sim_alloc *alloc)
{
    struct sim_chunk *chunk = alloc->chunk;
    struct sim_heap *heap = chunk->heap;
    size_t slots = alloc->block_bytes / SIM_ALIGN_BYTES;
    size_t first =
        (alloc->base - sim_space_address(heap->space, chunk->unit)) / SIM_ALIGN_BYTES;

    repoint(alloc, NULL);
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

    repoint(alloc, NULL);
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

bool sim_heap_free(struct sim_alloc *alloc)
{
    struct sim_heap *heap = alloc->heap;
    struct sim_space *space = heap->space;
    struct sim_extent *extent = NULL;
    struct sim_op *op;

    pthread_mutex_lock(&space->lock);
    enum sim_memory_state state = sim_memory_state(alloc);
    if (state == SIM_MEMORY_DEAD) {
        pthread_mutex_unlock(&space->lock);
        return false;
    }
    sim_order_ended(alloc);
    atomic_store_explicit(&alloc->state, SIM_MEMORY_DEAD, memory_order_release);
    list_remove(state == SIM_MEMORY_LIVE ? &heap->allocs : &heap->freeing, alloc);
    heap->used_bytes -= alloc->block_bytes;
    if (alloc->import)
        repoint(alloc, NULL);
    else if (!alloc->handed_over)
        extent = alloc->chunk ? unplace_small(alloc) : unplace_large(alloc);
    op = alloc->free_op;
    alloc->free_op = NULL;
    pthread_mutex_unlock(&space->lock);
    sim_op_unref(op);
    sim_share_end(alloc);
    sim_import_end(alloc);
    sim_space_release(space, extent);
    sim_memory_unref(alloc);
    return true;
}

void sim_heap_read(struct sim_heap *heap, struct sim_heap_info *out)
{
    pthread_mutex_lock(&heap->space->lock);
    *out = (struct sim_heap_info){
        .reserved = heap->units * SIM_UNIT_BYTES,
        .reserved_high = heap->units_high * SIM_UNIT_BYTES,
        .used = heap->used_bytes,
        .used_high = heap->used_high,
    };
    pthread_mutex_unlock(&heap->space->lock);
}

void sim_heap_reset_high(struct sim_heap *heap, bool reserved, bool used)
{
    pthread_mutex_lock(&heap->space->lock);
    if (reserved)
        heap->units_high = heap->units;
    if (used)
        heap->used_high = heap->used_bytes;
    pthread_mutex_unlock(&heap->space->lock);
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

/* Some allocation of the heap, with a reference, or NULL. Takes space->lock. */
static struct sim_alloc *any_alloc(struct sim_heap *heap)
{
    pthread_mutex_lock(&heap->space->lock);
    struct sim_alloc *alloc = heap->allocs ? heap->allocs : heap->freeing;
    if (alloc)
        sim_memory_ref(alloc);
    pthread_mutex_unlock(&heap->space->lock);
    return alloc;
}

void sim_heap_clear(struct sim_heap *heap)
{
    struct sim_alloc *alloc;

    while ((alloc = any_alloc(heap)) != NULL) {
        bool ended = sim_heap_free(alloc);
        (void)ended; /* false if its own free came first: it is gone all the same */
        sim_memory_unref(alloc);
    }
    sim_heap_trim(heap, 0);
}

/* The device allocation at an address, with a reference, or NULL. */
static struct sim_alloc *find_device(struct sim_space *space, uintptr_t address)
{
    size_t offset = address - space->va;

    pthread_mutex_lock(&space->lock);
    const struct sim_unit *unit = &space->units[offset / SIM_UNIT_BYTES];
    struct sim_alloc *alloc = unit->alloc;
    if (unit->chunk)
        alloc = unit->chunk->owners[offset % SIM_UNIT_BYTES / SIM_ALIGN_BYTES];
    if (alloc && address - alloc->base < alloc->bytes)
        sim_memory_ref(alloc);
    else
        alloc = NULL;
    pthread_mutex_unlock(&space->lock);
    return alloc;
}

struct sim_alloc *sim_memory_find(uintptr_t address)
{
    struct sim_space *space = sim_space_of(address);

    if (space)
        return find_device(space, address);
    struct sim_alloc *alloc = sim_range_find(address);
    return alloc ? alloc : sim_host_find(address);
}

void *sim_memory_alias(const struct sim_alloc *alloc, uintptr_t address)
{
    if (alloc->range)
        return alloc->range->alias + (address - alloc->base);
    if (!sim_memory_is_device_kind(alloc) && alloc->kind != SIM_MEMORY_ARRAY)
        return (void *)address;
    const struct sim_space *space = sim_space_of(address);
    return space->alias + (address - space->va);
}

void sim_memory_mapping(const struct sim_alloc *alloc, uintptr_t *base, size_t *bytes)
{
    if (alloc->chunk || alloc->import) {
        *base = alloc->base & ~(uintptr_t)(SIM_UNIT_BYTES - 1);
        *bytes = alloc->chunk ? SIM_UNIT_BYTES : alloc->block_bytes;
    } else {
        *base = alloc->base;
        *bytes = alloc->block_bytes;
    }
}
