/*
 * churn.c - a table of call sites that allocate, with the lifetimes of their allocations.
 *
 * The limits below are such that a hint is worth a change of the program: a thousand
 * allocations by the driver take some 100 ms.
 *
 * Owns:  struct gs_churn.   Lock: churn->lock.
 */
#include "tracker/churn.h"

#include <stdlib.h>

#include "gs_compare.h"
#include "gs_locks.h"
#include "tracker/sampling.h"

#define MANY 1000u
/* Memory that is kept would serve as many allocations, each time. */
#define REUSES 10u

#define SLOTS (2 * GS_CHURN_SITES)

struct gs_churn {
    struct gs_mutex lock;
    uint32_t count;
    uint64_t allocs;
    uint16_t slots[SLOTS]; /* numbers of call sites; 0: empty */
    struct gs_churn_site sites[GS_CHURN_SITES];
};

struct gs_churn *gs_churn_create(void)
{
    struct gs_churn *churn = calloc(1, sizeof(*churn));

    if (churn) {
        gs_mutex_init(&churn->lock, GS_RANK_TRANSFERS);
    }
    return churn;
}

static bool is_site(const struct gs_churn_site *site,
                    const struct gs_allocation *allocation)
{
    return site->stack == allocation->stack && site->api == allocation->api &&
           site->device == allocation->device && site->kind == allocation->kind;
}

/* Returns the allocation's call site, or NULL; *slot: where a new one belongs. */
static struct gs_churn_site *find(struct gs_churn *churn,
                                  const struct gs_allocation *allocation, uint32_t *slot)
{
    uint32_t at = (allocation->stack * UINT32_C(0x9e3779b1)) >> 16;

    for (; churn->slots[at % SLOTS] != 0; at++) {
        struct gs_churn_site *site = &churn->sites[churn->slots[at % SLOTS] - 1];
        if (is_site(site, allocation)) {
            return site;
        }
    }
    *slot = at % SLOTS;
    return NULL;
}

/* The same, added if new; NULL: the table is full. */
static struct gs_churn_site *find_or_add(struct gs_churn *churn,
                                         const struct gs_allocation *allocation)
{
    uint32_t slot;
    struct gs_churn_site *site = find(churn, allocation, &slot);

    if (site || churn->count == GS_CHURN_SITES) {
        return site;
    }
    site = &churn->sites[churn->count++];
    churn->slots[slot] = (uint16_t)churn->count;
    *site = (struct gs_churn_site){.stack = allocation->stack,
                                   .api = allocation->api,
                                   .device = allocation->device,
                                   .kind = allocation->kind};
    return site;
}

void gs_churn_add(struct gs_churn *churn, const struct gs_allocation *allocation)
{
    gs_mutex_lock(&churn->lock);
    churn->allocs++;
    struct gs_churn_site *site =
        gs_stack_left_out(allocation->stack) ? NULL : find_or_add(churn, allocation);
    if (site) {
        site->count++;
        site->bytes += allocation->bytes;
        site->most_bytes =
            allocation->bytes > site->most_bytes ? allocation->bytes : site->most_bytes;
        site->live_count++;
        site->most_live =
            site->live_count > site->most_live ? site->live_count : site->most_live;
    }
    gs_mutex_unlock(&churn->lock);
}

/* The lifetime; a record's time may be later than now (tracker/peaks.h). */
static uint64_t lived_ns(const struct gs_allocation *allocation, uint64_t now_ns)
{
    return now_ns > allocation->time_ns ? now_ns - allocation->time_ns : 0;
}

void gs_churn_end(struct gs_churn *churn, const struct gs_allocation *allocation,
                  uint64_t now_ns)
{
    uint64_t lived = lived_ns(allocation, now_ns);
    uint32_t slot;

    gs_mutex_lock(&churn->lock);
    struct gs_churn_site *site = find(churn, allocation, &slot);
    if (site && site->live_count != 0) {
        site->live_count--;
        site->ended_count++;
        site->ended_ns += lived;
        site->longest_ns = lived > site->longest_ns ? lived : site->longest_ns;
        if (lived < GS_CHURN_SHORT_NS) {
            site->short_count++;
            site->short_ns += lived;
        }
    }
    gs_mutex_unlock(&churn->lock);
}

void gs_churn_take_back(struct gs_churn *churn, const struct gs_allocation *allocation,
                        uint64_t now_ns)
{
    uint64_t lived = lived_ns(allocation, now_ns);
    uint32_t slot;

    gs_mutex_lock(&churn->lock);
    struct gs_churn_site *site = find(churn, allocation, &slot);
    if (site && site->ended_count != 0) {
        site->live_count++;
        site->ended_count--;
        site->ended_ns -= lived < site->ended_ns ? lived : site->ended_ns;
        if (lived < GS_CHURN_SHORT_NS && site->short_count != 0) {
            site->short_count--;
            site->short_ns -= lived < site->short_ns ? lived : site->short_ns;
        }
    }
    gs_mutex_unlock(&churn->lock);
}

/* Returns true if most of the call site's allocations lived shortly, there were many of
 * them, and few at once. Never of stream-ordered memory: it is made for short lives, and
 * to keep it saves nothing. */
static bool is_much(const struct gs_churn_site *site)
{
    return site->kind != GS_MEMORY_ASYNC && site->short_count >= MANY &&
           site->short_count >= site->count - site->count / 10 &&
           site->most_live <= site->count / REUSES;
}

/* The other keys only make the order reproducible. */
static int compare(const void *left, const void *right)
{
    const struct gs_churn_site *a = left, *b = right;
    bool a_much = is_much(a), b_much = is_much(b);

    return GS_FALLING(a_much, b_much) ?: GS_FALLING(a->count, b->count) ?:
        GS_FALLING(a->bytes, b->bytes) ?: GS_RISING(a->stack, b->stack) ?:
        GS_RISING(a->device, b->device);
}

struct gs_churn_list gs_churn_copy(struct gs_churn *churn)
{
    struct gs_churn_list list = {0};

    gs_mutex_lock(&churn->lock);
    list.allocs = churn->allocs;
    list.sites = malloc((churn->count + 1) * sizeof(*list.sites));
    for (size_t i = 0; i < churn->count && list.sites; i++) {
        list.sites[list.count++] = churn->sites[i];
        list.much_count += is_much(&churn->sites[i]);
    }
    gs_mutex_unlock(&churn->lock);
    if (list.count != 0) {
        qsort(list.sites, list.count, sizeof(*list.sites), compare);
    }
    return list;
}
