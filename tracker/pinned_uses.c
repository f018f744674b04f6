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
#include <sys/uio.h>
#include <unistd.h>

#include "gs_compare.h"
#include "gs_locks.h"
#include "tracker/sampling.h"

struct live {
    uint64_t addr, bytes;
    uint32_t site; /* its number */
    bool used;
};

#define READ_BYTES (64 * GS_KIB)

struct gs_pinned_uses {
    struct gs_mutex lock;
    bool given_up;
    uint32_t live_count; /* atomic, written under the lock; 0 once given up */
    uint32_t site_count;
    uint64_t bytes;
    struct live live[GS_PINNED_LIVE];
    struct gs_pinned_site sites[GS_PINNED_SITES];
    unsigned char read[sizeof(uint64_t) + READ_BYTES]; /* the first: of the part before */
};

struct gs_pinned_uses *gs_pinned_uses_create(void)
{
    struct gs_pinned_uses *uses = calloc(1, sizeof(*uses));

    if (uses) {
        gs_mutex_init(&uses->lock, GS_RANK_TRANSFERS);
    }
    return uses;
}

static void set_live(struct gs_pinned_uses *uses, uint32_t count)
{
    __atomic_store_n(&uses->live_count, count, __ATOMIC_RELAXED);
}

static void give_up(struct gs_pinned_uses *uses)
{
    uses->given_up = true;
    set_live(uses, 0);
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
    set_live(uses, uses->live_count - 1);
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
    set_live(uses, uses->live_count + 1);
    uses->bytes += allocation->bytes;
    uses->sites[site].count++;
    uses->sites[site].bytes += allocation->bytes;
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
    return __atomic_load_n(&uses->live_count, __ATOMIC_RELAXED) != 0;
}

/* Returns the live allocation around the address, or NULL. */
static struct live *find(struct gs_pinned_uses *uses, uint64_t addr)
{
    uint32_t at = count_until(uses, addr);

    return at != 0 && addr - uses->live[at - 1].addr < uses->live[at - 1].bytes
               ? &uses->live[at - 1]
               : NULL;
}

void gs_pinned_uses_mark(struct gs_pinned_uses *uses, uint64_t addr)
{
    if (!gs_pinned_uses_wanted(uses)) {
        return;
    }
    gs_mutex_lock(&uses->lock);
    struct live *live = find(uses, addr);
    if (live && !live->used) {
        live->used = true;
        uses->sites[live->site].used_count++;
    }
    gs_mutex_unlock(&uses->lock);
}

/* The byte of an address that few other data have: most addresses share it. */
#define RARE_BYTE 5u

/* Returns the first byte after `from` where a word may begin whose address is between
 * first and last; `end`: there is none. */
static const unsigned char *next_word(const unsigned char *from, const unsigned char *end,
                                      uint64_t first, uint64_t last)
{
    const unsigned shift = 8 * RARE_BYTE;

    if (first >> shift != last >> shift) {
        return from;
    }
    const unsigned char *rare = memchr(from + RARE_BYTE, (int)(first >> shift & 0xff),
                                       (size_t)(end - from) - RARE_BYTE);
    return rare ? rare - RARE_BYTE : end;
}

/* Gives up if one of the words, which begin at any byte, is the address of live memory.
 */
static void search(struct gs_pinned_uses *uses, const unsigned char *data, size_t bytes)
{
    const unsigned char *at = data, *end = data + bytes;
    uint64_t word;

    if (uses->live_count == 0) {
        return;
    }
    const struct live *highest = &uses->live[uses->live_count - 1];
    const uint64_t first = uses->live[0].addr, last = highest->addr + highest->bytes - 1;
    for (; end - at >= (ptrdiff_t)sizeof(word); at++) {
        at = next_word(at, end, first, last);
        if (end - at < (ptrdiff_t)sizeof(word)) {
            return;
        }
        memcpy(&word, at, sizeof(word));
        if (word - first <= last - first && find(uses, word)) {
            give_up(uses);
            return;
        }
    }
}

void gs_pinned_uses_search(struct gs_pinned_uses *uses, const void *words, size_t bytes)
{
    if (!gs_pinned_uses_wanted(uses)) {
        return;
    }
    gs_mutex_lock(&uses->lock);
    search(uses, words, bytes);
    gs_mutex_unlock(&uses->lock);
}

/* A word may be in two parts. */
static void read_all(struct gs_pinned_uses *uses, uint64_t addr, size_t bytes)
{
    const size_t kept = sizeof(uint64_t);

    memset(uses->read, 0, kept);
    for (size_t at = 0, length; at < bytes && uses->live_count != 0; at += length) {
        length = bytes - at < READ_BYTES ? bytes - at : READ_BYTES;
        struct iovec here = {uses->read + kept, length};
        struct iovec there = {(void *)(uintptr_t)(addr + at), length};
        if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)length) {
            give_up(uses);
            return;
        }
        search(uses, uses->read, kept + length);
        memmove(uses->read, uses->read + length, kept);
    }
}

void gs_pinned_uses_read(struct gs_pinned_uses *uses, uint64_t addr, size_t bytes)
{
    if (!gs_pinned_uses_wanted(uses)) {
        return;
    }
    gs_mutex_lock(&uses->lock);
    read_all(uses, addr, bytes);
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

    return GS_FALLING(a->bytes, b->bytes) ?: GS_RISING(a->stack, b->stack);
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
