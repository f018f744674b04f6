/*
 * transfers.c - a table of call sites that copy between host and device.
 *
 * The limits below are such that a hint is worth a change of the program: to pin memory
 * for a few copies costs more than it saves, and copies with other work between them
 * cannot become one.
 *
 * Owns:  struct gs_transfers.   Lock: transfers->lock.
 */
#include "tracker/transfers.h"

#include <stdlib.h>
#include <string.h>

#include "gs_compare.h"
#include "gs_float_mode.h"
#include "gs_locks.h"

#define PAGEABLE_MIN 10u /* copies */
#define MANY         100u
#define TIMED_MIN    3u
#define RETURNED_MIN 10u
#define SLOW_RATE    UINT64_C(2000000000) /* bytes a second */

#define SLOTS (2 * GS_TRANSFER_SITES)

struct gs_transfers {
    struct gs_mutex lock;
    uint32_t count;
    uint64_t rest_count, rest_bytes;
    struct gs_transfer_way ways[GS_TRANSFER_WAYS];
    uint16_t slots[SLOTS]; /* numbers of call sites; 0: empty */
    struct gs_transfer_site sites[GS_TRANSFER_SITES];
};

struct gs_transfers *gs_transfers_create(void)
{
    struct gs_transfers *transfers = calloc(1, sizeof(*transfers));

    if (transfers) {
        gs_mutex_init(&transfers->lock, GS_RANK_TRANSFERS);
    }
    return transfers;
}

static bool is_site(const struct gs_transfer_site *site, const struct gs_transfer *copy)
{
    return site->stack == copy->stack && site->to_host == copy->to_host &&
           strcmp(site->call, copy->call) == 0;
}

/* Returns the number of the copy's call site, added if new; 0: the table is full. */
static uint32_t find(struct gs_transfers *transfers, const struct gs_transfer *copy)
{
    uint32_t slot = (copy->stack * UINT32_C(0x9e3779b1)) >> 16;
    uint16_t *number;

    while (*(number = &transfers->slots[slot++ % SLOTS]) != 0) {
        if (is_site(&transfers->sites[*number - 1], copy)) {
            return *number;
        }
    }
    if (transfers->count == GS_TRANSFER_SITES) {
        return 0;
    }
    transfers->sites[transfers->count++] =
        (struct gs_transfer_site){.call = copy->call,
                                  .stack = copy->stack,
                                  .to_host = copy->to_host,
                                  .least_bytes = UINT64_MAX};
    return *number = (uint16_t)transfers->count;
}

/* In bytes a second; 0: not measured. */
static uint64_t rate_of(const struct gs_transfer *copy)
{
    const struct gs_float_mode mode = gs_float_mode_begin();
    const uint64_t rate =
        copy->took_ns ? (uint64_t)((double)copy->bytes * 1e9 / (double)copy->took_ns) : 0;

    gs_float_mode_end(mode);
    return rate;
}

static void add_to_way(struct gs_transfers *transfers, const struct gs_transfer *copy)
{
    const enum gs_transfer_memory memory = copy->bytes <= GS_TRANSFER_SMALL_BYTES
                                               ? GS_TRANSFER_OF_FEW
                                           : copy->pageable ? GS_TRANSFER_FROM_PAGEABLE
                                                            : GS_TRANSFER_FROM_PINNED;
    struct gs_transfer_way *way =
        &transfers->ways[(memory * 2u + copy->to_host) * 2u + copy->asynchronous];
    const uint64_t rate = rate_of(copy);

    way->memory = memory;
    way->to_host = copy->to_host;
    way->asynchronous = copy->asynchronous;
    way->count++;
    way->bytes += copy->bytes;
    way->fastest_rate = rate > way->fastest_rate ? rate : way->fastest_rate;
}

static void add_rate(struct gs_transfer_site *site, const struct gs_transfer *copy)
{
    uint64_t rate = rate_of(copy);

    site->timed_count++;
    site->unaligned_count += copy->unaligned;
    if (rate > site->fastest_rate) {
        site->fastest_rate = rate;
    }
}

uint32_t gs_transfers_add(struct gs_transfers *transfers, const struct gs_transfer *copy)
{
    const uint64_t bytes = copy->bytes;
    const bool small = bytes <= GS_TRANSFER_SMALL_BYTES;

    gs_mutex_lock(&transfers->lock);
    add_to_way(transfers, copy);
    uint32_t number = find(transfers, copy);
    if (number == 0) {
        transfers->rest_count++;
        transfers->rest_bytes += bytes;
        gs_mutex_unlock(&transfers->lock);
        return 0;
    }
    struct gs_transfer_site *site = &transfers->sites[number - 1];
    site->count++;
    site->bytes += bytes;
    site->least_bytes = bytes < site->least_bytes ? bytes : site->least_bytes;
    site->most_bytes = bytes > site->most_bytes ? bytes : site->most_bytes;
    site->weight += small ? GS_TRANSFER_SMALL_BYTES : bytes;
    site->small_count += small;
    site->in_a_row_count += small && copy->in_a_row;
    site->pageable_count += copy->pageable;
    site->pageable_bytes += copy->pageable ? bytes : 0;
    site->returned_count += copy->returns;
    site->returned_bytes += copy->returns ? bytes : 0;
    if (copy->took_ns != 0) {
        add_rate(site, copy);
    }
    gs_mutex_unlock(&transfers->lock);
    return number;
}

void gs_transfers_add_wait(struct gs_transfers *transfers, uint32_t site)
{
    gs_mutex_lock(&transfers->lock);
    transfers->sites[site - 1].waited_count++;
    gs_mutex_unlock(&transfers->lock);
}

unsigned gs_transfer_hints(const struct gs_transfer_site *site)
{
    bool small =
        site->small_count >= MANY && site->in_a_row_count >= site->small_count / 2;
    bool waited = site->waited_count >= MANY &&
                  site->waited_count >= site->count - site->count / 10;
    bool slow = site->timed_count >= TIMED_MIN && site->fastest_rate < SLOW_RATE;

    return (site->pageable_count >= PAGEABLE_MIN ? GS_TRANSFER_PAGEABLE : 0u) |
           (small ? GS_TRANSFER_SMALL : 0u) | (waited ? GS_TRANSFER_WAITED : 0u) |
           (slow ? GS_TRANSFER_SLOW : 0u) |
           (site->returned_count >= RETURNED_MIN ? GS_TRANSFER_RETURNED : 0u);
}

/* The other keys only make the order reproducible. */
static int compare(const void *left, const void *right)
{
    const struct gs_transfer_site *a = left, *b = right;

    return GS_FALLING(a->weight, b->weight) ?: GS_RISING(a->stack, b->stack) ?:
        GS_RISING(a->to_host, b->to_host) ?: strcmp(a->call, b->call);
}

static int compare_ways(const void *left, const void *right)
{
    const struct gs_transfer_way *a = left, *b = right;

    return GS_FALLING(a->bytes, b->bytes) ?: GS_RISING(a, b);
}

/* Copies the ways of which there are copies. */
static void take_ways(const struct gs_transfers *transfers, struct gs_transfer_list *list)
{
    for (size_t i = 0; i < GS_TRANSFER_WAYS; i++) {
        if (transfers->ways[i].count != 0) {
            list->ways[list->way_count++] = transfers->ways[i];
        }
    }
    qsort(list->ways, list->way_count, sizeof(list->ways[0]), compare_ways);
}

struct gs_transfer_list gs_transfers_slow(struct gs_transfers *transfers)
{
    struct gs_transfer_list list = {0};

    gs_mutex_lock(&transfers->lock);
    list.rest_count = transfers->rest_count;
    list.rest_bytes = transfers->rest_bytes;
    take_ways(transfers, &list);
    list.sites = malloc((transfers->count + 1) * sizeof(*list.sites));
    for (size_t i = 0; i < transfers->count && list.sites; i++) {
        if (gs_transfer_hints(&transfers->sites[i]) != 0) {
            list.sites[list.count++] = transfers->sites[i];
        }
    }
    gs_mutex_unlock(&transfers->lock);
    if (list.sites) {
        qsort(list.sites, list.count, sizeof(*list.sites), compare);
    }
    return list;
}
