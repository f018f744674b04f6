/*
 * groups.c - allocations summed by call site: an open-addressed table of indexes into an
 * array, which the report then sorts.
 * Owns: the arrays of one table.   Lock: the table's owner has one.
 */
#include "tracker/groups.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 64

static size_t hash_key(const struct gs_group *key)
{
    uint64_t hash =
        ((uint64_t)key->stack << 32) | ((uint64_t)key->api << 16) | (uint16_t)key->device;

    hash ^= ((uint64_t)key->kind << 1 | key->lost | (uint64_t)key->holds << 6) << 56;
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash ^ (hash >> 32));
}

static bool same_key(const struct gs_group *a, const struct gs_group *b)
{
    return a->stack == b->stack && a->api == b->api && a->device == b->device &&
           a->kind == b->kind && a->lost == b->lost && a->holds == b->holds;
}

/* Returns the slot of the key, or the empty slot where the key belongs. */
static size_t find_slot(const struct gs_groups *groups, const struct gs_group *key)
{
    size_t mask = groups->slot_count - 1;
    size_t slot = hash_key(key) & mask;

    while (groups->slots[slot] != 0 &&
           !same_key(&groups->items[groups->slots[slot] - 1], key)) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

/* Doubles the capacity. Without memory the table stays as it is. */
static enum gs_status grow(struct gs_groups *groups)
{
    size_t capacity = groups->capacity ? groups->capacity * 2 : FIRST_CAPACITY;
    struct gs_group *items = realloc(groups->items, capacity * sizeof(*items));

    if (!items) {
        return GS_ERR_HOST_NOMEM;
    }
    groups->items = items;

    uint32_t *slots = calloc(capacity * 2, sizeof(*slots));
    if (!slots) {
        return GS_ERR_HOST_NOMEM;
    }
    free(groups->slots);
    groups->slots = slots;
    groups->slot_count = capacity * 2;
    groups->capacity = capacity;
    for (size_t i = 0; i < groups->count; i++) {
        groups->slots[find_slot(groups, &items[i])] = (uint32_t)(i + 1);
    }
    return GS_OK;
}

void gs_group_sum(struct gs_group *group, const struct gs_group *part)
{
    group->bytes += part->bytes;
    group->count += part->count;
    group->likely_bytes += part->likely_bytes;
    group->likely_count += part->likely_count;
    if (part->oldest_ns < group->oldest_ns) {
        group->oldest_ns = part->oldest_ns;
    }
    if (part->newest_ns > group->newest_ns) {
        group->newest_ns = part->newest_ns;
    }
    for (unsigned i = 0; i < GS_SCAN_RESULTS; i++) {
        group->found[i] += part->found[i];
    }
}

enum gs_status gs_groups_add(struct gs_groups *groups, const struct gs_group *part)
{
    if (groups->count == groups->capacity) {
        enum gs_status status = grow(groups);
        if (status != GS_OK) {
            return status;
        }
    }
    size_t slot = find_slot(groups, part);
    if (groups->slots[slot] == 0) {
        groups->items[groups->count++] = *part;
        groups->slots[slot] = (uint32_t)groups->count;
        return GS_OK;
    }
    gs_group_sum(&groups->items[groups->slots[slot] - 1], part);
    return GS_OK;
}

const struct gs_group *gs_groups_find(const struct gs_groups *groups,
                                      const struct gs_group *key)
{
    size_t slot = groups->slot_count ? find_slot(groups, key) : 0;

    return groups->slot_count && groups->slots[slot] != 0
               ? &groups->items[groups->slots[slot] - 1]
               : NULL;
}

void gs_groups_free(struct gs_groups *groups)
{
    free(groups->items);
    free(groups->slots);
    memset(groups, 0, sizeof(*groups));
}
