/*
 * grown.c - finds the call sites of allocations that grew until Python ended.
 *
 * Owns: grown of struct gs_tracker.   Lock: none; written once, in the thread that first
 * sees Python's end.   Design: docs/tracker.md, "Hints"
 */
#include "tracker/grown.h"

#include "tracker/tracker_internal.h"

struct live {
    const struct gs_tracker *tracker;
    struct gs_groups groups;
};

static bool add_live(void *self, const struct gs_allocation *allocation)
{
    struct live *live = self;
    const struct gs_group group = gs_group_of(live->tracker, allocation);

    if (group.stack != 0 && !gs_stack_left_out(group.stack) &&
        gs_totals_row(group.device, group.kind) <= GS_ROW_PINNED) {
        (void)!gs_groups_add(&live->groups, &group); /* without memory it is missing */
    }
    return true;
}

/* A run that ends so soon after an allocation has not computed for long with it. */
#define SOON_NS UINT64_C(1000000000)

/* When Python ended. */
struct end {
    const struct gs_tracker *tracker;
    uint64_t now_ns, frees; /* since the tracker's start */
};

static bool has_grown(const struct end *end, const struct gs_group *group)
{
    const uint64_t since_ns =
        end->now_ns > group->newest_ns ? end->now_ns - group->newest_ns : 0;
    struct gs_python_uses uses;

    return group->count >= GS_GREW_RECORDS && group->count <= end->frees &&
           (since_ns <= SOON_NS || since_ns <= group->newest_ns) &&
           gs_stacks_python_uses(end->tracker->config.stacks, group->stack, &uses) &&
           group->count * 8 >= (uint64_t)uses.count * GS_GREW_EIGHTHS &&
           (uint64_t)(uses.last - uses.first) * 8 >= (uint64_t)uses.all * GS_GREW_EIGHTHS;
}

static uint64_t count_frees(const struct gs_tracker *tracker)
{
    uint32_t used = __atomic_load_n(&gs_slots_used, __ATOMIC_ACQUIRE);
    uint64_t frees = 0;

    for (uint32_t i = 0; i < used; i++) {
        for (unsigned row = 0; row < GS_ROWS; row++) {
            frees +=
                __atomic_load_n(&tracker->shards[i].rows[row].frees, __ATOMIC_RELAXED);
        }
    }
    return frees;
}

/* Python has ended. No lock is taken: a caller of the capture may hold any. */
static void find(void *self)
{
    struct gs_tracker *tracker = self;
    struct live live = {.tracker = tracker};
    const struct end end = {.tracker = tracker,
                            .now_ns = gs_tracker_clock(tracker) - tracker->start_ns,
                            .frees = count_frees(tracker)};
    size_t count = 0;

    gs_records_visit(tracker, add_live, &live);
    for (size_t i = 0; i < live.groups.count && count < GS_GROWN_SITES; i++) {
        const struct gs_group *group = &live.groups.items[i];
        if (has_grown(&end, group)) {
            tracker->grown[count++] = (struct gs_grown_site){.count = group->count,
                                                             .bytes = group->bytes,
                                                             .stack = group->stack,
                                                             .device = group->device};
        }
    }
    gs_groups_free(&live.groups);
}

void gs_grown_watch(struct gs_tracker *tracker)
{
    gs_stacks_watch_python(tracker->config.stacks, find, tracker);
}

static uint64_t subtract(uint64_t from, uint64_t value)
{
    return from > value ? from - value : 0;
}

size_t gs_grown_freed(const struct gs_tracker *tracker, const struct gs_groups *left,
                      struct gs_grown_site out[GS_GROWN_SITES])
{
    size_t count = 0;

    for (size_t i = 0; i < GS_GROWN_SITES; i++) {
        struct gs_grown_site site = tracker->grown[i];
        for (size_t k = 0; site.count != 0 && k < left->count; k++) {
            const struct gs_group *group = &left->items[k];
            if (group->stack == site.stack) {
                site.count = subtract(site.count, group->count);
                site.bytes = subtract(site.bytes, group->bytes);
            }
        }
        if (site.count >= GS_GREW_RECORDS) {
            out[count++] = site;
        }
    }
    return count;
}
