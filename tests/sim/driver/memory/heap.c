/*
 * heap.c - memory for one user of it (a context, a memory pool), of a device or, for some
 * pools, of the host. A pool's heap also knows blocks that were freed in stream order and
 * are not everybody's yet: their free is queued, or it has run and they are freed for
 * those who are behind it. Where a block lies: place.c.
 *
 * Owns:  heaps and the records of their allocations.   Lock: space->lock.
 * Design: docs/simulator.md, "Device memory", "Stream-ordered memory"
 */
#include <stdlib.h>

#include "context.h"
#include "ipc.h"
#include "op.h"
#include "order.h"
#include "place.h"
#include "space.h"
#include "stream.h"
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

static void freed_push(struct sim_freed *freed, struct sim_alloc *alloc)
{
    list_push(&freed->first, alloc);
    freed->count++;
    freed->of_stream += alloc->freed_at.stream == freed->stream;
}

static void freed_remove(struct sim_freed *freed, struct sim_alloc *alloc)
{
    list_remove(&freed->first, alloc);
    freed->count--;
    freed->of_stream -= alloc->freed_at.stream == freed->stream;
}

static void count_used(struct sim_heap *heap, size_t bytes)
{
    heap->used_bytes += bytes;
    if (heap->used_bytes > heap->used_high)
        heap->used_high = heap->used_bytes;
}

static size_t block_bytes(size_t bytes)
{
    return gs_round_up(bytes, bytes < SIM_UNIT_BYTES ? SIM_ALIGN_BYTES : SIM_UNIT_BYTES);
}

static struct sim_alloc *new_alloc(struct sim_heap *heap, size_t bytes,
                                   const struct sim_allocation *allocation)
{
    struct sim_alloc *alloc = calloc(1, sizeof(*alloc));

    if (!alloc)
        return NULL;
    atomic_init(&alloc->refs, 1);
    atomic_init(&alloc->state, SIM_MEMORY_LIVE);
    alloc->bytes = bytes;
    alloc->block_bytes = block_bytes(bytes);
    alloc->id = sim_memory_next_id();
    alloc->device = heap->space->device != SIM_NO_DEVICE ? heap->space->device
                                                         : allocation->context->device;
    alloc->heap = heap;
    alloc->kind = allocation->kind;
    alloc->context = allocation->context;
    alloc->context_id = allocation->context_id;
    return alloc;
}

void sim_heap_adopt(struct sim_heap *heap, struct sim_alloc *alloc)
{
    count_used(heap, alloc->block_bytes);
    list_push(&heap->allocs, alloc);
}

CUresult sim_heap_alloc(struct sim_heap *heap, size_t bytes, bool may_grow,
                        const struct sim_allocation *allocation, struct sim_alloc **out)
{
    struct sim_space *space = heap->space;

    if (bytes > space->capacity_units * SIM_UNIT_BYTES)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_alloc *alloc = new_alloc(heap, bytes, allocation);
    if (!alloc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&space->lock);
    bool placed = sim_place(alloc, may_grow);
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

static bool may_have(const struct sim_reuse *reuse, const struct sim_alloc *alloc)
{
    return reuse->any || alloc->freed_at.stream == reuse->stream ||
           sim_frees_know(reuse->behind, alloc->freed_at);
}

/* The block of the list that fits best and may be had. Needs space->lock. */
static struct sim_alloc *find_freed(const struct sim_freed *freed, size_t want,
                                    const struct sim_reuse *reuse)
{
    struct sim_alloc *best = NULL;

    for (struct sim_alloc *alloc = freed->first;
         alloc && !(best && best->block_bytes == want); alloc = alloc->next) {
        if (alloc->block_bytes >= want && may_have(reuse, alloc) &&
            (alloc->chunk != NULL) == (want < SIM_UNIT_BYTES) &&
            (!best || alloc->block_bytes < best->block_bytes))
            best = alloc;
    }
    return best;
}

/* The block's end, or all of it, becomes that of the new allocation. Returns whether it
 * was all: the block is in no list then. What is left stays freed; its address stays,
 * too, since queued work may know it. Needs space->lock. */
static bool hand_over(struct sim_freed *freed, struct sim_alloc *from,
                      struct sim_alloc *to)
{
    from->block_bytes -= to->block_bytes;
    to->base = from->base + from->block_bytes;
    to->chunk = from->chunk;
    sim_place_hand_over(to, to);
    list_push(&to->heap->allocs, to);
    sim_memory_ref(to);
    if (from->block_bytes > 0)
        return false;
    from->handed_over = true;
    freed_remove(freed, from);
    return true;
}

void sim_heap_take_over(struct sim_heap *heap, size_t bytes,
                        const struct sim_allocation *allocation,
                        const struct sim_reuse *reuse, struct sim_alloc **out,
                        struct sim_op **behind)
{
    struct sim_alloc *to = NULL, *parked = NULL;

    *out = NULL;
    if (bytes <= heap->space->capacity_units * SIM_UNIT_BYTES)
        to = new_alloc(heap, bytes, allocation);
    if (!to)
        return;
    pthread_mutex_lock(&heap->space->lock);
    struct sim_alloc *freeing = find_freed(&heap->freeing, to->block_bytes, reuse);
    bool all = false;
    if (freeing) {
        all = hand_over(&heap->freeing, freeing, to);
        if (all)
            list_push(&heap->handed, freeing);
        sim_op_ref(freeing->free_op);
        *behind = freeing->free_op;
    } else if ((parked = find_freed(&heap->parked, to->block_bytes, reuse)) != NULL) {
        all = hand_over(&heap->parked, parked, to);
        count_used(heap, to->block_bytes);
        *behind = NULL;
    }
    pthread_mutex_unlock(&heap->space->lock);
    if (parked && all)
        sim_memory_unref(parked);
    if (freeing || parked)
        *out = to;
    else
        free(to);
}

/* Are there some of another stream? The list is walked only when the stream whose blocks
 * are counted has none left in it. Needs space->lock. */
static bool has_others(struct sim_freed *freed, uint64_t stream)
{
    if (freed->of_stream == 0 && freed->first) {
        freed->stream = freed->first->freed_at.stream;
        for (const struct sim_alloc *alloc = freed->first; alloc; alloc = alloc->next)
            freed->of_stream += alloc->freed_at.stream == freed->stream;
    }
    return freed->count > (stream == freed->stream ? freed->of_stream : 0);
}

bool sim_heap_has_freed(struct sim_heap *heap, uint64_t but_of_stream)
{
    pthread_mutex_lock(&heap->space->lock);
    bool has = has_others(&heap->freeing, but_of_stream) ||
               has_others(&heap->parked, but_of_stream);
    pthread_mutex_unlock(&heap->space->lock);
    return has;
}

bool sim_memory_begin_free(struct sim_alloc *alloc)
{
    int live = SIM_MEMORY_LIVE;

    return atomic_compare_exchange_strong(&alloc->state, &live, SIM_MEMORY_FREEING);
}

void sim_memory_queue_free(struct sim_op *op)
{
    struct sim_alloc *alloc = op->free;
    struct sim_space *space = sim_space_of(alloc->base); /* the heap may have gone */

    pthread_mutex_lock(&space->lock);
    if (sim_memory_state(alloc) == SIM_MEMORY_FREEING) { /* not ended with its context */
        list_remove(&alloc->heap->allocs, alloc);
        alloc->freed_at = (struct sim_free_point){op->stream->id, op->free_number};
        freed_push(&alloc->heap->freeing, alloc);
        alloc->free_op = op;
        sim_op_ref(op);
    }
    pthread_mutex_unlock(&space->lock);
}

void sim_memory_cancel_free(struct sim_alloc *alloc)
{
    int freeing = SIM_MEMORY_FREEING;

    atomic_compare_exchange_strong(&alloc->state, &freeing, SIM_MEMORY_LIVE);
}

/* Take an allocation that lives out of its list. Needs space->lock. */
static void unlist(struct sim_heap *heap, struct sim_alloc *alloc)
{
    if (alloc->handed_over)
        list_remove(&heap->handed, alloc);
    else if (alloc->free_op)
        freed_remove(&heap->freeing, alloc);
    else
        list_remove(&heap->allocs, alloc);
}

/* End an allocation; its block is given back, or freed behind that free. */
static bool end(struct sim_alloc *alloc, const struct sim_free_point *free)
{
    struct sim_heap *heap = alloc->heap;
    struct sim_space *space = heap->space;
    struct sim_extent *extent = NULL;
    struct sim_op *op;
    bool parks;

    pthread_mutex_lock(&space->lock);
    if (sim_memory_state(alloc) == SIM_MEMORY_DEAD) {
        pthread_mutex_unlock(&space->lock);
        return false;
    }
    sim_order_ended(alloc);
    atomic_store_explicit(&alloc->state, SIM_MEMORY_DEAD, memory_order_release);
    unlist(heap, alloc);
    heap->used_bytes -= alloc->block_bytes;
    parks = free && !alloc->import && !alloc->handed_over;
    if (parks) {
        alloc->freed_at = *free;
        freed_push(&heap->parked, alloc);
    }
    if (alloc->import || parks)
        sim_place_hand_over(alloc, NULL);
    else if (!alloc->handed_over)
        extent = sim_unplace(alloc);
    op = alloc->free_op;
    alloc->free_op = NULL;
    pthread_mutex_unlock(&space->lock);
    sim_op_unref(op);
    sim_share_end(alloc);
    sim_import_end(alloc);
    sim_space_release(space, extent);
    if (!parks)
        sim_memory_unref(alloc);
    return true;
}

bool sim_heap_free(struct sim_alloc *alloc)
{
    return end(alloc, NULL);
}

bool sim_heap_park(struct sim_alloc *alloc, struct sim_free_point free)
{
    return end(alloc, &free);
}

bool sim_heap_unpark(struct sim_heap *heap, const struct sim_reuse *which)
{
    struct sim_extent *release = NULL;
    struct sim_alloc *gone = NULL, *next;
    bool any = false;

    pthread_mutex_lock(&heap->space->lock);
    for (struct sim_alloc *alloc = heap->parked.first; alloc; alloc = next) {
        next = alloc->next;
        if (!may_have(which, alloc))
            continue;
        freed_remove(&heap->parked, alloc);
        struct sim_extent *extent = sim_unplace(alloc);
        if (extent) {
            extent->next = release;
            release = extent;
        }
        list_push(&gone, alloc);
        any = true;
    }
    pthread_mutex_unlock(&heap->space->lock);
    sim_space_release(heap->space, release);
    for (; gone; gone = next) {
        next = gone->next;
        sim_memory_unref(gone);
    }
    return any;
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

/* Some allocation of the heap, with a reference, or NULL. Takes space->lock. */
static struct sim_alloc *any_alloc(struct sim_heap *heap)
{
    pthread_mutex_lock(&heap->space->lock);
    struct sim_alloc *alloc = heap->allocs ? heap->allocs : heap->freeing.first;
    if (!alloc)
        alloc = heap->handed;
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
    sim_heap_unpark(heap, &(const struct sim_reuse){.any = true});
    sim_heap_trim(heap, 0);
}

/* The allocation at an address of the range, with a reference, or NULL. */
static struct sim_alloc *find_in(struct sim_space *space, uintptr_t address)
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
        return find_in(space, address);
    struct sim_alloc *alloc = sim_range_find(address);
    return alloc ? alloc : sim_host_find(address);
}

void *sim_memory_alias(const struct sim_alloc *alloc, uintptr_t address)
{
    if (alloc->range)
        return alloc->range->alias + (address - alloc->base);
    if (!sim_memory_is_device_kind(alloc) && !sim_memory_is_of_pool(alloc) &&
        alloc->kind != SIM_MEMORY_ARRAY)
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
