/*
 * suppress_sampled.c - applies rules to allocations whose call stacks were not sampled.
 *
 * Rules match stacks. A sampled stack that a rule matches represents other allocations,
 * and so does a stack that no rule matches; the origin of a particular unsampled
 * allocation is unknown. So for each device, kind of memory and fate, the rules take the
 * same share of the memory without a stack as of the memory that the sampled stacks
 * represent beyond themselves: all of it if every sampled stack is known, none of it if
 * none is.
 *
 * Owns: nothing.   Lock: none.   Design: docs/suppressions.md, "Sampled stacks"
 */
#include "tracker/report/report_internal.h"

/* The memory that the stacks of one device, kind and fate represent beyond themselves. */
struct beyond {
    double bytes, count;           /* of the stacks that a rule matches */
    double all_bytes, all_count;   /* of all stacks */
    uint64_t groups, known_groups; /* all groups; those that a rule matches */
};

/* Sums, over the groups like this one, the estimated amounts beyond the recorded ones. */
static struct beyond beyond_of(const struct gs_report_data *data,
                               const struct gs_group *like)
{
    struct beyond sum = {0};

    for (size_t i = 0; i < data->groups.count; i++) {
        const struct gs_group *group = &data->groups.items[i];
        bool known = i >= data->leak_groups;
        double bytes = group->likely_bytes - (double)group->bytes;
        double count = group->likely_count - (double)group->count;

        if (group->device != like->device || group->kind != like->kind ||
            group->lost != like->lost) {
            continue;
        }
        bytes = bytes > 0 ? bytes : 0;
        count = count > 0 ? count : 0;
        sum.groups++;
        sum.known_groups += known;
        sum.all_bytes += bytes;
        sum.all_count += count;
        sum.bytes += known ? bytes : 0;
        sum.count += known ? count : 0;
    }
    return sum;
}

/* Returns the share part / all of `whole`. */
static uint64_t share_of(uint64_t whole, double part, double all)
{
    uint64_t share = all > 0 ? gs_likely((double)whole * (part / all)) : 0;

    return share < whole ? share : whole;
}

static void take_share(struct gs_report_data *data, struct gs_group *group)
{
    struct beyond sum = beyond_of(data, group);
    bool weighs = gs_group_weight(group) == group->bytes;
    uint64_t count = share_of(group->count, sum.count, sum.all_count);
    uint64_t bytes = share_of(group->bytes, sum.bytes, sum.all_bytes);

    if (sum.known_groups == 0) {
        return;
    }
    if (count == 0 && sum.known_groups < sum.groups) {
        return;
    }
    if (count == group->count || sum.known_groups == sum.groups) {
        count = group->count;
        bytes = group->bytes;
    }
    group->count -= count;
    group->bytes -= bytes;
    data->shared_count += count;
    data->shared_bytes += weighs ? bytes : 0;
}

void gs_report_suppress_share(struct gs_report_data *data)
{
    size_t kept = 0;

    for (size_t i = 0; i < data->unplaced.count; i++) {
        struct gs_group *group = &data->unplaced.items[i];

        if (group->stack == GS_STACK_NOT_SAMPLED) {
            take_share(data, group);
        }
        if (group->count != 0) {
            data->unplaced.items[kept++] = *group;
        }
    }
    data->unplaced.count = kept;
    data->unplaced_bytes -= data->shared_bytes;
    data->unplaced_count -= data->shared_count;
    data->leaked_bytes -= data->shared_bytes;
    data->leaked_count -= data->shared_count;
    data->suppressed_bytes += data->shared_bytes;
    data->suppressed_count += data->shared_count;
}
