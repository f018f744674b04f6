/*
 * cached_parts.c - a table of the parts of cached memory, open-addressed by address.
 * Owns: struct gs_cached_parts.   Lock: its own.
 */
#include "tracker/cached_parts.h"

#include "tracker/host_memory.h"
#include "tracker/tracker_lock.h"

#include <stdlib.h>

#define FIRST_ROOM ((size_t)4096)

struct gs_cached_parts {
    struct gs_tracker_lock lock;
    struct gs_part *slots;
    size_t room; /* a power of two */
    size_t count;
    bool lost; /* memory was short: some parts are missing */
};

struct gs_cached_parts *gs_cached_parts_create(void)
{
    struct gs_cached_parts *parts = gs_host_map(sizeof(*parts));

    if (parts && !(parts->slots = gs_host_map(FIRST_ROOM * sizeof(*parts->slots)))) {
        gs_host_unmap(parts, sizeof(*parts));
        return NULL;
    }
    if (parts) {
        parts->room = FIRST_ROOM;
    }
    return parts;
}

void gs_cached_parts_destroy(struct gs_cached_parts *parts)
{
    if (!parts) {
        return;
    }
    gs_host_unmap(parts->slots, parts->room * sizeof(*parts->slots));
    gs_host_unmap(parts, sizeof(*parts));
}

static size_t home_of(const struct gs_cached_parts *parts, uint64_t addr)
{
    return (size_t)(addr * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (parts->room - 1);
}

/* Returns the part's slot, or the empty slot where it belongs. */
static size_t slot_of(const struct gs_cached_parts *parts, uint64_t addr)
{
    size_t slot = home_of(parts, addr);

    while (parts->slots[slot].addr != 0 && parts->slots[slot].addr != addr) {
        slot = (slot + 1) & (parts->room - 1);
    }
    return slot;
}

static bool grow(struct gs_cached_parts *parts)
{
    struct gs_part *old = parts->slots;
    size_t room = parts->room;
    struct gs_part *slots = gs_host_map(room * 2 * sizeof(*slots));

    if (!slots) {
        return false;
    }
    parts->slots = slots;
    parts->room = room * 2;
    for (size_t i = 0; i < room; i++) {
        if (old[i].addr != 0) {
            slots[slot_of(parts, old[i].addr)] = old[i];
        }
    }
    gs_host_unmap(old, room * sizeof(*old));
    return true;
}

/* Empties a slot, and moves those behind it that belong further to the front. */
static void empty(struct gs_cached_parts *parts, size_t slot)
{
    size_t mask = parts->room - 1, at = slot;

    parts->count--;
    parts->slots[slot].addr = 0;
    for (at = (at + 1) & mask; parts->slots[at].addr != 0; at = (at + 1) & mask) {
        size_t home = home_of(parts, parts->slots[at].addr);
        if (((at - home) & mask) < ((at - slot) & mask)) {
            continue;
        }
        parts->slots[slot] = parts->slots[at];
        parts->slots[at].addr = 0;
        slot = at;
    }
}

void gs_cached_parts_add(struct gs_cached_parts *parts, const struct gs_part *part)
{
    if (part->addr == 0 || part->bytes == 0) {
        return;
    }
    gs_tracker_lock_take(&parts->lock, GS_RANK_PARTS);
    if (parts->count * 2 >= parts->room && !grow(parts)) {
        parts->lost = true;
    } else {
        size_t slot = slot_of(parts, part->addr);
        parts->count += parts->slots[slot].addr == 0;
        parts->slots[slot] = *part;
    }
    gs_tracker_lock_give(&parts->lock, GS_RANK_PARTS);
}

void gs_cached_parts_remove(struct gs_cached_parts *parts, uint64_t addr)
{
    if (addr == 0) {
        return;
    }
    gs_tracker_lock_take(&parts->lock, GS_RANK_PARTS);
    size_t slot = slot_of(parts, addr);
    if (parts->slots[slot].addr != 0) {
        empty(parts, slot);
    }
    gs_tracker_lock_give(&parts->lock, GS_RANK_PARTS);
}

static int compare_parts(const void *left, const void *right)
{
    const struct gs_part *a = left, *b = right;

    return a->addr < b->addr ? -1 : a->addr > b->addr;
}

struct gs_part_list gs_cached_parts_copy(struct gs_cached_parts *parts)
{
    struct gs_part_list list = {0};

    if (!parts) {
        return list;
    }
    gs_tracker_lock_take(&parts->lock, GS_RANK_PARTS);
    list.items = malloc((parts->count + 1) * sizeof(*list.items));
    list.known = list.items && !parts->lost;
    for (size_t i = 0; list.known && i < parts->room; i++) {
        if (parts->slots[i].addr != 0) {
            list.items[list.count++] = parts->slots[i];
        }
    }
    gs_tracker_lock_give(&parts->lock, GS_RANK_PARTS);
    if (list.count > 0) {
        qsort(list.items, list.count, sizeof(*list.items), compare_parts);
    }
    return list;
}

void gs_part_list_free(struct gs_part_list *list)
{
    free(list->items);
    *list = (struct gs_part_list){0};
}

size_t gs_part_list_within(const struct gs_part_list *list, uint64_t addr, uint64_t bytes,
                           size_t *first)
{
    size_t low = 0, high = list->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->items[middle].addr < addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (high = low; high < list->count && list->items[high].addr - addr < bytes;) {
        high++;
    }
    *first = low;
    return high - low;
}
