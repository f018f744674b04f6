/*
 * history.c - recently freed addresses, to explain a second free.
 *
 * A direct-mapped table. A freed address replaces the former entry of its slot. A new
 * allocation at the address clears its entry: an error must never blame a former
 * allocation. An entry is 64 bytes. The first free maps the table and touches all of its
 * pages: the addresses are scattered over the table, so otherwise each of the first frees
 * would pay for a page.
 *
 * Writers take no lock. Two threads that write one entry at the same time, for two
 * addresses of one hash, may leave a mixture. Its check is wrong, so readers ignore it.
 *
 * Owns:  history.   Locks: none, atomic words.   Design: docs/tracker.md
 */
#include "tracker/tracker_internal.h"

#include <errno.h>
#include <sys/mman.h>

/* MADV_POPULATE_WRITE; the C library's headers may be too old to define it. */
#define POPULATE_WRITE 23

/* Populates the pages at once if the kernel can (5.14). Older kernels add them at first
 * use. */
static void populate(void *table, size_t bytes)
{
    int saved_errno = errno;

    (void)madvise(table, bytes, POPULATE_WRITE);
    errno = saved_errno;
}

struct gs_history_entry *gs_history_map(struct gs_tracker *tracker)
{
    struct gs_history_entry *table = NULL;
    size_t bytes = tracker->config.free_history * sizeof(*table);

    if (bytes == 0) {
        return NULL;
    }
    struct gs_history_entry *mapped = gs_pages_map(NULL, bytes);
    if (!mapped) {
        return NULL;
    }
    populate(mapped, bytes);
    if (__atomic_compare_exchange_n(&tracker->history, &table, mapped, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        return mapped;
    }
    gs_host_unmap(mapped, bytes); /* another thread was first */
    return table;
}

/* Copies an entry. Returns false if the entry is empty, or a mixture of two. */
static bool read_entry(const struct gs_history_entry *entry,
                       struct gs_history_entry *copy)
{
    copy->addr = __atomic_load_n(&entry->addr, __ATOMIC_RELAXED);
    copy->bytes = __atomic_load_n(&entry->bytes, __ATOMIC_RELAXED);
    copy->who = __atomic_load_n(&entry->who, __ATOMIC_RELAXED);
    copy->time = __atomic_load_n(&entry->time, __ATOMIC_RELAXED);
    copy->kind = __atomic_load_n(&entry->kind, __ATOMIC_RELAXED);
    copy->site_who = __atomic_load_n(&entry->site_who, __ATOMIC_RELAXED);
    copy->site_time_ns = __atomic_load_n(&entry->site_time_ns, __ATOMIC_RELAXED);
    copy->check = __atomic_load_n(&entry->check, __ATOMIC_RELAXED);
    return copy->addr != 0 && copy->check == gs_history_check(copy);
}

static void unpack(const struct gs_history_entry *copy, struct gs_former *out)
{
    struct gs_origin origin = {.tag = copy->kind};
    struct gs_record words = {
        .addr = copy->addr,
        .size = copy->bytes,
        .who = copy->who,
        .stamp = copy->time,
    };
    out->allocation = gs_words_unpack(&words, &origin);
    out->allocation.stack = gs_stack_plain(out->allocation.stack);
    out->site = (struct gs_free_site){
        .time_ns = copy->site_time_ns,
        .thread = (uint32_t)copy->site_who,
        .stack = (uint32_t)(copy->site_who >> 32),
        .api = (uint16_t)(copy->kind >> GS_TAG_BITS),
    };
    out->lost = (copy->kind & GS_TAG_LOST) != 0;
}

bool gs_history_get(struct gs_tracker *tracker, uint64_t addr, struct gs_former *out)
{
    struct gs_history_entry *table = __atomic_load_n(&tracker->history, __ATOMIC_ACQUIRE);
    struct gs_history_entry copy;

    if (!table || addr == 0 ||
        !read_entry(&table[gs_history_slot(tracker, addr)], &copy) || copy.addr != addr) {
        return false;
    }
    unpack(&copy, out);
    return true;
}

/* Orders two freed allocations that contained an address: returns true if `a` is the
 * likelier owner. The later free wins. The clock has steps of some ms; for frees in one
 * step the later allocation wins, then the higher start address. */
static bool is_likelier(const struct gs_former *a, const struct gs_former *b)
{
    if (a->site.time_ns != b->site.time_ns) {
        return a->site.time_ns > b->site.time_ns;
    }
    if (a->allocation.time_ns != b->allocation.time_ns) {
        return a->allocation.time_ns > b->allocation.time_ns;
    }
    return a->allocation.addr > b->allocation.addr;
}

enum gs_status gs_tracker_former(struct gs_tracker *tracker, uint64_t addr,
                                 struct gs_former *out)
{
    const struct gs_history_entry *table =
        tracker ? __atomic_load_n(&tracker->history, __ATOMIC_ACQUIRE) : NULL;
    enum gs_status status = GS_ERR_NOT_FOUND;
    struct gs_history_entry copy;
    struct gs_former former;

    for (size_t i = 0; table && i < tracker->config.free_history; i++) {
        const struct gs_history_entry *entry = &table[i];

        /* A cheap test of two words first: most entries do not contain the address. */
        if (addr - __atomic_load_n(&entry->addr, __ATOMIC_RELAXED) >=
                __atomic_load_n(&entry->bytes, __ATOMIC_RELAXED) ||
            !read_entry(entry, &copy) || addr - copy.addr >= copy.bytes) {
            continue;
        }
        unpack(&copy, &former);
        if (status != GS_OK || is_likelier(&former, out)) {
            *out = former;
        }
        status = GS_OK;
    }
    return status;
}

void gs_history_free(struct gs_tracker *tracker)
{
    gs_host_unmap(tracker->history,
                  tracker->config.free_history * sizeof(*tracker->history));
}
