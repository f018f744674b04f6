/*
 * pinned_uses.c - live pinned memory by address, and its call sites.
 *
 * Programs have few allocations of pinned memory, as each takes long: they are an array,
 * by rising addresses.
 *
 * Owns:  struct gs_pinned_uses.   Lock: uses->lock.
 */
#include "tracker/pinned_uses.h"

#include <stdlib.h>
#include <string.h>

#include "gs_locks.h"
#include "tracker/sampling.h"

struct live {
    uint64_t addr, bytes;
    uint32_t site; /* its number */
    bool used;
};

struct gs_pinned_uses {
    struct gs_mutex lock;
    bool given_up;
    uint32_t unused; /* live and not used; atomic, written under the lock */
    uint32_t live_count, site_count;
    uint64_t bytes;
    struct live live[GS_PINNED_LIVE];
    struct gs_pinned_site sites[GS_PINNED_SITES];
};

struct gs_pinned_uses *gs_pinned_uses_create(void)
{
    struct gs_pinned_uses *uses = calloc(1, sizeof(*uses));

    if (uses) {
        gs_mutex_init(&uses->lock, GS_RANK_TRANSFERS);
    }
    return uses;
}

static void set_unused(struct gs_pinned_uses *uses, uint32_t count)
{
    __atomic_store_n(&uses->unused, count, __ATOMIC_RELAXED);
}

static void give_up(struct gs_pinned_uses *uses)
{
    uses->given_up = true;
    set_unused(uses, 0);
}

/* Returns the number of live allocations that begin at the address or before it. */
static uint32_t count_until(const struct gs_pinned_uses *uses, uint64_t addr)
{
    uint32_t low = 0, high = uses->live_count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (uses->live[middle].addr <= addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Returns the number of the call site, added if new; GS_PINNED_SITES: no room. */
static uint32_t find_site(struct gs_pinned_uses *uses,
                          const struct gs_allocation *allocation)
{
    uint32_t i = 0;

    while (i < uses->site_count && (uses->sites[i].stack != allocation->stack ||
                                    uses->sites[i].api != allocation->api)) {
        i++;
    }
    if (i == uses->site_count && i < GS_PINNED_SITES) {
        uses->sites[uses->site_count++] =
            (struct gs_pinned_site){.stack = allocation->stack, .api = allocation->api};
    }
    return i;
}

static void take_out(struct gs_pinned_uses *uses, uint32_t at)
{
    set_unused(uses, uses->unused - !uses->live[at].used);
    uses->live_count--;
    memmove(&uses->live[at], &uses->live[at + 1],
            (uses->live_count - at) * sizeof(uses->live[0]));
}

/* Takes out memory that has ended unseen, as with its context: its addresses are new
 * memory's. */
static uint32_t make_room(struct gs_pinned_uses *uses,
                          const struct gs_allocation *allocation)
{
    uint32_t at = count_until(uses, allocation->addr);

    while (at != 0 &&
           allocation->addr - uses->live[at - 1].addr < uses->live[at - 1].bytes) {
        take_out(uses, --at);
    }
    while (at < uses->live_count &&
           uses->live[at].addr - allocation->addr < allocation->bytes) {
        take_out(uses, at);
    }
    return at;
}

static void add(struct gs_pinned_uses *uses, const struct gs_allocation *allocation)
{
    uint32_t at = make_room(uses, allocation);
    uint32_t site = gs_stack_left_out(allocation->stack) ? GS_PINNED_SITES
                                                         : find_site(uses, allocation);

    if (site == GS_PINNED_SITES || uses->live_count == GS_PINNED_LIVE) {
        give_up(uses);
        return;
    }
    memmove(&uses->live[at + 1], &uses->live[at],
            (uses->live_count - at) * sizeof(uses->live[0]));
    uses->live[at] =
        (struct live){.addr = allocation->addr, .bytes = allocation->bytes, .site = site};
    uses->live_count++;
    uses->bytes += allocation->bytes;
    uses->sites[site].count++;
    uses->sites[site].bytes += allocation->bytes;
    set_unused(uses, uses->unused + 1);
}

void gs_pinned_uses_add(struct gs_pinned_uses *uses,
                        const struct gs_allocation *allocation)
{
    gs_mutex_lock(&uses->lock);
    if (!uses->given_up) {
        add(uses, allocation);
    }
    gs_mutex_unlock(&uses->lock);
}

void gs_pinned_uses_end(struct gs_pinned_uses *uses, uint64_t addr)
{
    gs_mutex_lock(&uses->lock);
    uint32_t at = count_until(uses, addr);
    if (!uses->given_up && at != 0 && uses->live[at - 1].addr == addr) {
        take_out(uses, at - 1);
    }
    gs_mutex_unlock(&uses->lock);
}

bool gs_pinned_uses_wanted(struct gs_pinned_uses *uses)
{
    return __atomic_load_n(&uses->unused, __ATOMIC_RELAXED) != 0;
}

static void mark_live(struct gs_pinned_uses *uses, struct live *live)
{
    if (!live->used) {
        live->used = true;
        uses->sites[live->site].used_count++;
        set_unused(uses, uses->unused - 1);
    }
}

static void mark(struct gs_pinned_uses *uses, uint64_t addr)
{
    uint32_t at = count_until(uses, addr);

    if (at != 0 && addr - uses->live[at - 1].addr < uses->live[at - 1].bytes) {
        mark_live(uses, &uses->live[at - 1]);
    }
}

void gs_pinned_uses_mark(struct gs_pinned_uses *uses, uint64_t addr)
{
    gs_pinned_uses_mark_words(uses, &addr, sizeof(addr));
}

void gs_pinned_uses_mark_words(struct gs_pinned_uses *uses, const void *words,
                               size_t bytes)
{
    uint64_t word;

    if (!gs_pinned_uses_wanted(uses)) {
        return;
    }
    gs_mutex_lock(&uses->lock);
    for (size_t at = 0; at + sizeof(word) <= bytes && !uses->given_up;
         at += sizeof(word)) {
        memcpy(&word, (const char *)words + at, sizeof(word));
        mark(uses, word);
    }
    gs_mutex_unlock(&uses->lock);
}

void gs_pinned_uses_mark_all(struct gs_pinned_uses *uses)
{
    gs_mutex_lock(&uses->lock);
    for (uint32_t i = 0; i < uses->live_count && !uses->given_up; i++) {
        mark_live(uses, &uses->live[i]);
    }
    gs_mutex_unlock(&uses->lock);
}

void gs_pinned_uses_give_up(struct gs_pinned_uses *uses)
{
    gs_mutex_lock(&uses->lock);
    give_up(uses);
    gs_mutex_unlock(&uses->lock);
}

/* The other keys only make the order reproducible. */
static int compare(const void *left, const void *right)
{
    const struct gs_pinned_site *a = left, *b = right;

    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes ? 1 : -1;
    }
    return a->stack < b->stack ? -1 : a->stack > b->stack;
}

struct gs_pinned_list gs_pinned_uses_copy(struct gs_pinned_uses *uses)
{
    struct gs_pinned_list list = {0};

    gs_mutex_lock(&uses->lock);
    list.bytes = uses->bytes;
    list.sites = malloc((uses->site_count + 1) * sizeof(*list.sites));
    for (uint32_t i = 0; i < uses->site_count && list.sites && !uses->given_up; i++) {
        const struct gs_pinned_site *site = &uses->sites[i];
        if (site->used_count == 0 && site->bytes >= GS_PINNED_BYTES) {
            list.sites[list.count++] = *site;
        }
    }
    gs_mutex_unlock(&uses->lock);
    if (list.count != 0) {
        qsort(list.sites, list.count, sizeof(*list.sites), compare);
    }
    return list;
}
