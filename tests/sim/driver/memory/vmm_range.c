/*
 * vmm_range.c - the map of address ranges outside the devices' own.
 *
 * Pieces of an alias are never left without pages once they had some: an operation that
 * is under way while its memory is unmapped goes on in scratch pages, as a device would
 * fault without taking the process along.
 *
 * Owns:  the map, sorted by address.   Lock: ranges_lock; range_count is atomic.
 * Source: Driver API, "Virtual Memory Management".
 */
#include "vmm_range.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "op.h"
#include "order.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define RESERVE_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

static struct sim_alloc **ranges; /* ranges_lock; sorted by base */
static size_t range_room;         /* ranges_lock */
static atomic_size_t range_count; /* written under ranges_lock */
static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;

/* Index of the first range that ends behind the address. Needs ranges_lock. */
static size_t lower_bound(uintptr_t address)
{
    size_t low = 0;
    size_t high = atomic_load_explicit(&range_count, memory_order_relaxed);

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (address - ranges[middle]->base < ranges[middle]->bytes ||
            ranges[middle]->base > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static CUresult insert(struct sim_alloc *alloc)
{
    CUresult res = CUDA_SUCCESS;

    pthread_mutex_lock(&ranges_lock);
    size_t count = atomic_load_explicit(&range_count, memory_order_relaxed);
    if (count == range_room) {
        size_t room = range_room ? range_room * 2 : 16;
        struct sim_alloc **grown = realloc(ranges, room * sizeof(struct sim_alloc *));
        if (grown) {
            ranges = grown;
            range_room = room;
        } else {
            res = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (res == CUDA_SUCCESS) {
        size_t at = lower_bound(alloc->base);
        memmove(&ranges[at + 1], &ranges[at], (count - at) * sizeof(struct sim_alloc *));
        ranges[at] = alloc;
        atomic_store_explicit(&range_count, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&ranges_lock);
    return res;
}

/* Take the entry at an index out, addresses and all. Needs ranges_lock. */
static void take_out(size_t at)
{
    struct sim_alloc *alloc = ranges[at];
    size_t count = atomic_load_explicit(&range_count, memory_order_relaxed) - 1;

    sim_order_ended(alloc);
    atomic_store_explicit(&alloc->state, SIM_MEMORY_DEAD, memory_order_release);
    memmove(&ranges[at], &ranges[at + 1], (count - at) * sizeof(struct sim_alloc *));
    atomic_store_explicit(&range_count, count, memory_order_release);
    munmap(alloc->range->area, alloc->range->area_bytes);
}

/* Addresses at the hint, if they are free, or anywhere. */
static bool reserve(const struct sim_range_wish *wish, struct sim_range *range,
                    uintptr_t *base)
{
    if (wish->hint && wish->hint % wish->align == 0) {
        void *there = mmap((void *)wish->hint, wish->bytes, PROT_NONE,
                           RESERVE_FLAGS | MAP_FIXED_NOREPLACE, -1, 0);
        if (there == (void *)wish->hint) {
            range->area = there;
            range->area_bytes = wish->bytes;
            *base = wish->hint;
            return true;
        }
        if (there != MAP_FAILED)
            munmap(there, wish->bytes);
    }
    if (wish->bytes > SIZE_MAX - wish->align)
        return false;
    range->area_bytes = wish->bytes + wish->align;
    range->area = mmap(NULL, range->area_bytes, PROT_NONE, RESERVE_FLAGS, -1, 0);
    if (range->area == MAP_FAILED)
        return false;
    *base = gs_round_up((uintptr_t)range->area, wish->align);
    return true;
}

static struct sim_range *new_range(const struct sim_range_wish *wish, uintptr_t *base)
{
    struct sim_range *range = calloc(1, sizeof(*range));

    if (!range)
        return NULL;
    range->hidden = wish->hidden;
    if (!reserve(wish, range, base))
        goto free_range;
    void *alias = mmap(NULL, wish->bytes, PROT_NONE, RESERVE_FLAGS, -1, 0);
    if (alias == MAP_FAILED)
        goto unmap_area;
    range->alias = alias;
    if (wish->kind == SIM_MEMORY_RESERVED) {
        size_t last = (*base + wish->bytes - 1) / SIM_UNIT_BYTES;
        range->units =
            calloc(last - *base / SIM_UNIT_BYTES + 1, sizeof(struct sim_mapping *));
        if (!range->units)
            goto unmap_alias;
    }
    return range;
unmap_alias:
    munmap(alias, wish->bytes);
unmap_area:
    munmap(range->area, range->area_bytes);
free_range:
    free(range);
    return NULL;
}

CUresult sim_range_create(const struct sim_range_wish *wish, struct sim_alloc **out)
{
    struct sim_alloc *alloc = calloc(1, sizeof(*alloc));

    if (!alloc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    alloc->range = new_range(wish, &alloc->base);
    if (!alloc->range) {
        free(alloc);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_init(&alloc->refs, 2); /* the map's and the caller's */
    atomic_init(&alloc->state, SIM_MEMORY_LIVE);
    alloc->kind = wish->kind;
    alloc->bytes = wish->bytes;
    alloc->block_bytes = wish->bytes;
    alloc->id = sim_memory_next_id();
    alloc->device = wish->device;
    alloc->context = wish->context;
    alloc->context_id = wish->context_id;
    CUresult res = insert(alloc);
    if (res != CUDA_SUCCESS) {
        munmap(alloc->range->area, alloc->range->area_bytes);
        sim_range_destroy(alloc);
        free(alloc);
        return res;
    }
    *out = alloc;
    return CUDA_SUCCESS;
}

bool sim_range_remove(struct sim_alloc *alloc)
{
    pthread_mutex_lock(&ranges_lock);
    size_t at = lower_bound(alloc->base);
    bool found = at < atomic_load_explicit(&range_count, memory_order_relaxed) &&
                 ranges[at] == alloc;
    if (found)
        take_out(at);
    pthread_mutex_unlock(&ranges_lock);
    if (found)
        sim_memory_unref(alloc);
    return found;
}

void sim_range_remove_context(const struct sim_context *context, uint64_t context_id)
{
    struct sim_alloc *found;

    do {
        found = NULL;
        pthread_mutex_lock(&ranges_lock);
        size_t count = atomic_load_explicit(&range_count, memory_order_relaxed);
        for (size_t at = 0; at < count && !found; at++) {
            if (ranges[at]->context != context || ranges[at]->context_id != context_id)
                continue;
            found = ranges[at];
            take_out(at);
        }
        pthread_mutex_unlock(&ranges_lock);
        if (found)
            sim_memory_unref(found);
    } while (found);
}

struct sim_alloc *sim_range_find(uintptr_t address)
{
    struct sim_alloc *alloc = NULL;

    if (atomic_load_explicit(&range_count, memory_order_acquire) == 0)
        return NULL;
    pthread_mutex_lock(&ranges_lock);
    size_t at = lower_bound(address);
    if (at < atomic_load_explicit(&range_count, memory_order_relaxed) &&
        ranges[at]->base <= address) {
        alloc = ranges[at];
        sim_memory_ref(alloc);
    }
    pthread_mutex_unlock(&ranges_lock);
    return alloc;
}

bool sim_range_show(struct sim_alloc *alloc, uintptr_t address, size_t bytes, int fd,
                    size_t offset)
{
    return mmap(alloc->range->alias + (address - alloc->base), bytes,
                PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
                (off_t)offset) != MAP_FAILED;
}

void sim_range_hide(struct sim_alloc *alloc, uintptr_t address, size_t bytes)
{
    void *piece = mmap(alloc->range->alias + (address - alloc->base), bytes,
                       PROT_READ | PROT_WRITE, RESERVE_FLAGS | MAP_FIXED, -1, 0);

    (void)piece; /* refused: the old pages stay until the next mapping or the end */
}

bool sim_range_open_to_host(uintptr_t address, size_t bytes, int fd, size_t offset,
                            int protection)
{
    if (protection == PROT_NONE)
        return mmap((void *)address, bytes, PROT_NONE, RESERVE_FLAGS | MAP_FIXED, -1,
                    0) != MAP_FAILED;
    return mmap((void *)address, bytes, protection,
                MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, (off_t)offset) != MAP_FAILED;
}

void sim_range_destroy(struct sim_alloc *alloc)
{
    munmap(alloc->range->alias, alloc->block_bytes);
    free(alloc->range->units);
    free(alloc->range);
    alloc->range = NULL;
}
