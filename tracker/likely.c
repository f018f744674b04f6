/*
 * likely.c - see likely.h.
 * Owns: the sums of one report.   Lock: none.
 */
#include "tracker/likely.h"

#include "tracker/host_memory.h"
#include "tracker/tracker.h"

/* What call sites represent beyond themselves, as estimated and as known. */
struct sum {
    double likely_bytes, likely_count;
    uint64_t bytes, count;
};

struct gs_likely_sums {
    struct sum by_key[GS_MAX_DEVICES + 1][GS_MEMORY_KINDS][2]; /* the first: no device */
};

struct gs_likely_sums *gs_likely_sums_create(void)
{
    return gs_host_map(sizeof(struct gs_likely_sums));
}

void gs_likely_sums_destroy(struct gs_likely_sums *sums)
{
    gs_host_unmap(sums, sizeof(*sums));
}

/* NULL: not a sampled group. */
static const struct sum *sum_of(const struct gs_likely_sums *sums,
                                const struct gs_group *group)
{
    size_t device = group->device < 0                ? 0
                    : group->device < GS_MAX_DEVICES ? (size_t)group->device + 1
                                                     : GS_MAX_DEVICES;
    return sums && group->kind < GS_MEMORY_KINDS
               ? &sums->by_key[device][group->kind][group->lost != 0]
               : NULL;
}

static double beyond(double likely, uint64_t own)
{
    return likely > (double)own ? likely - (double)own : 0;
}

void gs_likely_sums_add(struct gs_likely_sums *sums, const struct gs_group *group)
{
    struct sum *sum = (struct sum *)(uintptr_t)sum_of(sums, group);

    if (!sum) {
        return;
    }
    if (group->stack == GS_STACK_NOT_SAMPLED) {
        sum->bytes += group->bytes;
        sum->count += group->count;
    } else {
        sum->likely_bytes += beyond(group->likely_bytes, group->bytes);
        sum->likely_count += beyond(group->likely_count, group->count);
    }
}

static double scaled(double likely, uint64_t own, uint64_t known, double all)
{
    double more = beyond(likely, own);

    return more > 0 ? (double)own + more * ((double)known / all) : likely;
}

void gs_likely_scale(const struct gs_likely_sums *sums, struct gs_group *group)
{
    const struct sum *sum = sum_of(sums, group);

    if (!sum || gs_stack_left_out(group->stack)) {
        return;
    }
    group->likely_bytes =
        scaled(group->likely_bytes, group->bytes, sum->bytes, sum->likely_bytes);
    group->likely_count =
        scaled(group->likely_count, group->count, sum->count, sum->likely_count);
}
