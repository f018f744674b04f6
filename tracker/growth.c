/*
 * growth.c - compares live memory by call site with the previous snapshot.
 *
 * Owns:  struct gs_growth.   Lock: growth->lock.   Design: docs/tracker.md
 */
#include "tracker/growth.h"

#include <stdlib.h>

#include "gs_compare.h"
#include "gs_locks.h"
#include "tracker/growth_copy.h"
#include "tracker/tracker_internal.h"

/* A call site is growing after this many increases since its last decrease, if at most
 * this many snapshots have passed since the last increase. */
#define GROWN_MIN  3
#define RECENT_MAX 3
/* A call site that did not grow counts so much less: a cache that has filled up comes
 * behind a leak. */
#define RESTED 64

struct gs_growth {
    struct gs_mutex lock;
    struct gs_growth_sums last;
    struct gs_groups sites;     /* live at the last snapshot */
    struct gs_trend *trends;    /* one for each item of `sites` */
    struct gs_growing *growing; /* the fastest first */
    size_t growing_count;
};

struct gs_growth *gs_growth_create(void)
{
    struct gs_growth *growth = calloc(1, sizeof(*growth));

    if (growth) {
        gs_mutex_init(&growth->lock, GS_RANK_GROWTH);
    }
    return growth;
}

void gs_growth_destroy(struct gs_growth *growth)
{
    if (!growth) {
        return;
    }
    gs_groups_free(&growth->sites);
    free(growth->trends);
    free(growth->growing);
    gs_mutex_destroy(&growth->lock);
    free(growth);
}

/* ---- a snapshot ------------------------------------------------------------------- */

struct search {
    struct gs_groups sites;
    const struct gs_tracker *tracker;
    struct gs_part_list parts; /* each grows by its own stack */
    uint64_t bytes, count;     /* of all allocations, with a stack or without */
    bool failed;               /* no memory */
};

/* Adds an allocation, or a part of one, with the estimate that its stack represents. */
static void add_site(void *self, struct gs_group *part)
{
    struct search *search = self;

    part->bytes = gs_likely(part->likely_bytes);
    search->failed = search->failed || (!gs_stack_left_out(part->stack) &&
                                        gs_groups_add(&search->sites, part) != GS_OK);
}

static bool visit(void *arg, const struct gs_allocation *allocation)
{
    struct search *search = arg;
    struct gs_group whole = gs_group_of(search->tracker, allocation);

    search->bytes += gs_group_weight(&whole);
    search->count++;
    if (gs_key_is_handle(allocation->addr) ||
        !gs_part_list_split(&search->parts, allocation->addr, &whole, add_site, search)) {
        add_site(search, &whole);
    }
    return !search->failed;
}

static struct gs_trend trend_of(const struct gs_growth *growth,
                                const struct gs_group *site, uint64_t now_ns)
{
    const struct gs_group *before = gs_groups_find(&growth->sites, site);
    struct gs_trend trend = {.base_bytes = site->bytes,
                             .base_count = site->count,
                             .since_ns = now_ns,
                             .since_snapshot = growth->last.snapshots};

    if (!before || !growth->trends || site->bytes < before->bytes) {
        return trend;
    }
    trend = growth->trends[before - growth->sites.items];
    trend.recent_bytes /= site->bytes > before->bytes ? 2 : RESTED;
    if (site->bytes > before->bytes) {
        trend.recent_bytes += site->bytes - before->bytes;
        trend.grown++;
        trend.last_snapshot = growth->last.snapshots;
    }
    return trend;
}

static bool is_growing(const struct gs_growth *growth, const struct gs_trend *trend)
{
    return trend->grown >= GROWN_MIN &&
           growth->last.snapshots - trend->last_snapshot < RECENT_MAX;
}

static int by_growth(const void *left, const void *right)
{
    const struct gs_growing *a = left, *b = right;
    uint64_t x = a->group.bytes - a->trend.base_bytes;
    uint64_t y = b->group.bytes - b->trend.base_bytes;

    return GS_FALLING(a->trend.recent_bytes, b->trend.recent_bytes) ?: GS_FALLING(x, y);
}

/* Selects the growing call sites. growth->sites and growth->trends are those of the new
 * snapshot. */
static void find_growing(struct gs_growth *growth)
{
    size_t count = 0;

    free(growth->growing);
    growth->growing = NULL;
    growth->growing_count = 0;
    for (size_t i = 0; growth->trends && i < growth->sites.count; i++) {
        count += is_growing(growth, &growth->trends[i]);
    }
    if (count == 0 || !(growth->growing = calloc(count, sizeof(*growth->growing)))) {
        return;
    }
    for (size_t i = 0; i < growth->sites.count; i++) {
        if (is_growing(growth, &growth->trends[i])) {
            growth->growing[growth->growing_count++] =
                (struct gs_growing){growth->sites.items[i], growth->trends[i]};
        }
    }
    qsort(growth->growing, count, sizeof(*growth->growing), by_growth);
}

/* Returns the copy in the state file; NULL: no state file, or no space in it.
 * growth->lock is held. */
static struct gs_growth_copy *copy_of(struct gs_tracker *tracker)
{
    struct gs_state_memory *memory = tracker->config.memory;
    struct gs_growth_copy *copy =
        __atomic_load_n(&tracker->growth_copy, __ATOMIC_RELAXED);

    if (copy || !memory) {
        return copy;
    }
    copy = gs_pages_map(memory, sizeof(*copy));
    if (copy && !gs_state_holds(memory, copy)) {
        gs_host_unmap(copy, sizeof(*copy));
        copy = NULL;
    }
    __atomic_store_n(&tracker->growth_copy, copy, __ATOMIC_RELEASE);
    return copy;
}

/* Writes the snapshot to the state file, which also keeps the previous one. growth->lock
 * is held. */
static void copy_to_file(const struct gs_growth *growth, struct gs_tracker *tracker)
{
    struct gs_growth_copy *copy = copy_of(tracker);

    if (!copy) {
        return;
    }
    uint64_t next = copy->current == 1 ? 2 : 1;
    struct gs_growth_saved *to = &copy->copies[next - 1];
    to->sums = growth->last;
    to->count = growth->growing_count < GS_GROWING_COPIED ? growth->growing_count
                                                          : GS_GROWING_COPIED;
    for (size_t i = 0; i < to->count; i++) {
        to->growing[i] = growth->growing[i];
    }
    __atomic_store_n(&copy->current, next, __ATOMIC_RELEASE);
}

struct gs_growth *gs_growth_of(const struct gs_growth_sums *sums,
                               const struct gs_growing *growing, size_t count)
{
    struct gs_growth *growth = gs_growth_create();

    if (!growth || !(growth->growing = calloc(count + 1, sizeof(*growing)))) {
        gs_growth_destroy(growth);
        return NULL;
    }
    growth->last = *sums;
    growth->growing_count = count;
    for (size_t i = 0; i < count; i++) {
        growth->growing[i] = growing[i];
    }
    return growth;
}

void gs_growth_take_snapshot(struct gs_growth *growth, struct gs_tracker *tracker)
{
    uint64_t now_ns = gs_tracker_now(tracker);
    struct search search = {.tracker = tracker};
    struct gs_trend *trends;

    search.parts =
        gs_cached_parts_copy(__atomic_load_n(&tracker->parts, __ATOMIC_ACQUIRE));
    gs_records_visit(tracker, visit, &search);
    gs_part_list_free(&search.parts);
    gs_mutex_lock(&growth->lock);
    trends = calloc(search.sites.count + 1, sizeof(*trends));
    for (size_t i = 0; i < search.sites.count && trends; i++) {
        trends[i] = trend_of(growth, &search.sites.items[i], now_ns);
    }
    growth->last.change = (int64_t)(search.bytes - growth->last.bytes);
    growth->last.interval_ns = now_ns - growth->last.time_ns;
    growth->last.time_ns = now_ns;
    growth->last.bytes = search.bytes;
    growth->last.count = search.count;
    gs_groups_free(&growth->sites);
    free(growth->trends);
    growth->sites = search.sites;
    growth->trends = trends;
    find_growing(growth);
    growth->last.snapshots++;
    copy_to_file(growth, tracker);
    gs_mutex_unlock(&growth->lock);
}

void gs_growth_forget(struct gs_growth *growth, struct gs_tracker *tracker)
{
    struct gs_growth_copy *copy;

    gs_mutex_lock(&growth->lock);
    gs_groups_free(&growth->sites);
    free(growth->trends);
    free(growth->growing);
    growth->last = (struct gs_growth_sums){0};
    growth->sites = (struct gs_groups){0};
    growth->trends = NULL;
    growth->growing = NULL;
    growth->growing_count = 0;
    copy = __atomic_load_n(&tracker->growth_copy, __ATOMIC_RELAXED);
    if (copy) {
        __atomic_store_n(&copy->current, 0, __ATOMIC_RELEASE);
    }
    gs_mutex_unlock(&growth->lock);
}

struct gs_growth_snapshot gs_growth_last(struct gs_growth *growth, unsigned most)
{
    struct gs_growth_snapshot last;

    gs_mutex_lock(&growth->lock);
    last.sums = growth->last;
    last.count = growth->growing_count < most ? growth->growing_count : most;
    last.growing = malloc((last.count + 1) * sizeof(*last.growing));
    if (!last.growing) {
        last.count = 0;
    }
    for (size_t i = 0; i < last.count; i++) {
        last.growing[i] = growth->growing[i];
    }
    gs_mutex_unlock(&growth->lock);
    return last;
}

bool gs_growth_has(struct gs_growth *growth, const struct gs_group *group)
{
    bool has = false;

    if (!growth || group->lost || !gs_mutex_try(&growth->lock)) {
        return false;
    }
    for (size_t i = 0; i < growth->growing_count && !has; i++) {
        has = growth->growing[i].group.stack == group->stack &&
              growth->growing[i].group.device == group->device &&
              growth->growing[i].group.kind == group->kind &&
              (group->stack != 0 || growth->growing[i].group.api == group->api);
    }
    gs_mutex_unlock(&growth->lock);
    return has;
}
