/*
 * report_sampled.c - prints the limits of a report of partial records: the covered part
 * of the run, the share with call stacks, and the memory without stacks by sampling.
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md, "Sampling"
 */
#include "tracker/report/report_internal.h"

#include <stdio.h>

struct gs_no_stack gs_report_no_stack(uint32_t stack)
{
    if (stack == GS_STACK_NOT_SAMPLED) {
        return (struct gs_no_stack){"no call stack: not sampled", "[not sampled]"};
    }
    if (stack == GS_STACK_TOO_SMALL) {
        return (struct gs_no_stack){"no call stack: smaller than GPUSHIM_STACK=min",
                                    "[smaller than GPUSHIM_STACK=min]"};
    }
    return (struct gs_no_stack){"no call stack was recorded", "[no call stack]"};
}

/* "recorded from 1.2s to 3.4s: ..."; nothing if the whole run was recorded. */
void gs_report_windows_text(const struct gs_tracker *tracker, struct gs_text *text)
{
    struct gs_tracker_windows windows;
    char first[24], from[24], to[24], count[32];

    gs_tracker_get_windows(tracker, &windows);
    if (!windows.switched) {
        return;
    }
    if (windows.count == 0) {
        gs_text_add(text, "nothing was recorded: tracking was never started "
                          "(GPUSHIM_TRACK=later)");
        return;
    }
    gs_text_duration(windows.from_ns, from);
    gs_text_add(text, "recorded ");
    if (windows.count > 1) {
        gs_text_add(text, "%s times, first from %s, last ",
                    gs_text_count(windows.count, count),
                    gs_text_duration(windows.first_ns, first));
    }
    if (windows.open) {
        gs_text_add(text, "from %s on", from);
    } else {
        gs_text_add(text, "from %s to %s", from, gs_text_duration(windows.to_ns, to));
    }
    gs_text_add(text, windows.attached && windows.count == 1
                          ? " (attached): memory allocated before is not counted"
                          : ": allocations at other times are not included");
}

void gs_report_windows(const struct gs_report_writer *writer)
{
    struct gs_text text = {0};

    gs_report_windows_text(writer->tracker, &text);
    if (text.data) {
        gs_text_add(writer->text, "%s%s\n", writer->prefix, text.data);
    }
    gs_text_free(&text);
}

/* Sums over groups: of those with a stack, and of all. */
struct share {
    uint64_t bytes, count, all_bytes, all_count;
};

static void add_share(struct share *share, const struct gs_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        const struct gs_group *group = &groups->items[i];
        bool has = group->stack != 0 && !gs_stack_left_out(group->stack);

        share->bytes += has ? gs_group_weight(group) : 0;
        share->count += has ? group->count : 0;
        share->all_bytes += gs_group_weight(group);
        share->all_count += group->count;
    }
}

/* "one call stack in 512 KiB was recorded" */
static void put_rate(const struct gs_report_writer *writer, char out[160])
{
    const struct gs_sampling sampling = gs_tracker_sampling(writer->tracker);
    uint64_t changed_ns = 0;
    char distance[24], since[24];

    gs_text_bytes(sampling.distance_bytes, distance);
    if (gs_tracker_resampled(writer->tracker, &changed_ns) == 0) {
        snprintf(out, 160, "one call stack in %s was recorded", distance);
        return;
    }
    snprintf(out, 160, "the share of call stacks was changed, from %s on %s%s",
             gs_text_duration(changed_ns, since),
             sampling.distance_bytes ? "one in " : "all were recorded",
             sampling.distance_bytes ? distance : "");
}

void gs_report_sampled(const struct gs_report_writer *writer)
{
    const struct gs_tracker_config *config = &writer->tracker->config;
    uint64_t refused = config->stacks ? gs_stacks_refused(config->stacks) : 0;
    struct share share = {0};
    char rate[160], bytes[24], all[24], count[32], all_count[32];

    add_share(&share, &writer->data->groups);
    add_share(&share, &writer->data->unplaced);
    share.all_bytes += writer->data->shared_bytes;
    share.all_count += writer->data->shared_count;
    if (gs_tracker_is_sampled(writer->tracker) && share.all_count != 0) {
        put_rate(writer, rate);
        gs_text_add(
            writer->text,
            "%sNote: %s (GPUSHIM_STACK=sample): %s of %s and %s of %s allocation%s "
            "have one\n",
            writer->prefix, rate, gs_text_bytes(share.bytes, bytes),
            gs_text_bytes(share.all_bytes, all), gs_text_count(share.count, count),
            gs_text_count(share.all_count, all_count), gs_report_plural(share.all_count));
    }
    if (refused != 0 && (share.all_count != 0 || writer->data->error_count != 0)) {
        gs_text_add(writer->text,
                    "%sNote: the table of call stacks is full (GPUSHIM_STACK=table): "
                    "%s call%s found no room for a new one\n",
                    writer->prefix, gs_text_count(refused, count),
                    gs_report_plural(refused));
    }
}

void gs_report_unplaced(const struct gs_report_writer *writer)
{
    const struct gs_groups *groups = &writer->data->unplaced;
    uint64_t small_bytes = 0, small_count = 0, sampled_bytes, sampled_count;
    char bytes[24], count[32], least[24];

    for (size_t i = 0; i < groups->count; i++) {
        const struct gs_group *group = &groups->items[i];
        bool small = group->stack == GS_STACK_TOO_SMALL;

        small_bytes += small ? gs_group_weight(group) : 0;
        small_count += small ? group->count : 0;
    }
    sampled_bytes = writer->data->unplaced_bytes - small_bytes;
    sampled_count = writer->data->unplaced_count - small_count;
    if (sampled_count != 0) {
        gs_text_add(writer->text,
                    "%s%s in %s allocation%s without a call stack "
                    "(GPUSHIM_STACK=sample): those with one stand for them\n",
                    writer->prefix, gs_text_bytes(sampled_bytes, bytes),
                    gs_text_count(sampled_count, count), gs_report_plural(sampled_count));
    }
    if (small_count != 0) {
        gs_text_add(writer->text,
                    "%s%s in %s allocation%s of less than %s (GPUSHIM_STACK=min)\n",
                    writer->prefix, gs_text_bytes(small_bytes, bytes),
                    gs_text_count(small_count, count), gs_report_plural(small_count),
                    gs_text_bytes(gs_tracker_sampling(writer->tracker).min_bytes, least));
    }
}
