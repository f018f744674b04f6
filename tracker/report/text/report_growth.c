/*
 * report_growth.c - prints a snapshot of live memory: sums and growing call sites.
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md, "Does it grow"
 */
#include "report_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* "5m00s: 2.31 GiB live in 57 allocations, 12.0 MiB more than 30s ago" */
static void write_sums(const struct gs_report_writer *writer,
                       const struct gs_growth_sums *sums)
{
    char time[24], bytes[24], count[32], change[24], interval[24];
    uint64_t apart = sums->change < 0 ? -(uint64_t)sums->change : (uint64_t)sums->change;

    gs_text_add(writer->text, "%s: %s live in %s allocation%s",
                gs_text_duration(sums->time_ns, time), gs_text_bytes(sums->bytes, bytes),
                gs_text_count(sums->count, count), gs_report_plural(sums->count));
    gs_text_duration(sums->interval_ns, interval);
    if (sums->snapshots > 1 && sums->change == 0)
        gs_text_add(writer->text, ", as much as %s ago", interval);
    else if (sums->snapshots > 1)
        gs_text_add(writer->text, ", %s %s than %s ago", gs_text_bytes(apart, change),
                    sums->change > 0 ? "more" : "less", interval);
    gs_text_add(writer->text, "\n");
}

static void write_growing(const struct gs_report_writer *writer, size_t number,
                          const struct gs_growing *one, uint64_t snapshots)
{
    const struct gs_trend *trend = &one->trend;
    uint64_t live = gs_group_likely_count(&one->group);
    char more[24], count[32], bytes[24], since[24];

    gs_text_add(
        writer->text, "%sGROWING %zu: %s more since %s, in %llu of %llu samples; now ",
        writer->prefix, number, gs_text_bytes(one->group.bytes - trend->base_bytes, more),
        gs_text_duration(trend->since_ns, since), (unsigned long long)trend->grown,
        (unsigned long long)(snapshots - 1 - trend->since_snapshot));
    gs_text_add(writer->text, "%s%s in %s allocation%s\n",
                gs_group_is_estimate(&one->group) ? "about " : "",
                gs_text_bytes(one->group.bytes, bytes), gs_text_count(live, count),
                gs_report_plural(live));
    gs_report_call_site(writer, &one->group, "growing");
}

/* Writes the call sites, with names for their stacks. */
static void write_last(const struct gs_report_writer *base,
                       const struct gs_growth_snapshot *last)
{
    struct gs_frame_table frames = {0};
    struct gs_report_writer writer = *base;
    struct gs_stack_ids ids = {0};

    writer.frames = &frames;
    for (size_t i = 0; i < last->count; i++)
        gs_stack_ids_add(&ids, last->growing[i].group.stack);
    gs_frame_table_take(&frames, writer.config, writer.tracker->config.stacks,
                        writer.source, &ids);
    write_sums(&writer, &last->sums);
    for (size_t i = 0; i < last->count; i++)
        write_growing(&writer, i + 1, &last->growing[i], last->sums.snapshots);
    gs_frame_table_free(&frames);
}

void gs_growth_write(struct gs_growth *growth, struct gs_tracker *tracker,
                     const struct gs_report_config *config, unsigned most,
                     struct gs_text *text)
{
    struct gs_growth_snapshot last = gs_growth_last(growth, most);
    struct gs_live_source live;
    const struct gs_report_source source = gs_report_live(tracker, config, &live);
    struct gs_report_writer writer = {
        .tracker = tracker, .config = config, .source = &source, .text = text};

    snprintf(writer.prefix, sizeof writer.prefix, "==%ld== ", config->pid);
    gs_text_add(text, "%s", writer.prefix);
    write_last(&writer, &last);
    free(last.growing);
}

void gs_report_growth(const struct gs_report_writer *writer)
{
    const struct gs_report_config *config = writer->config;

    if (!config->growth || config->growing == 0)
        return;
    struct gs_growth_snapshot last = gs_growth_last(config->growth, config->growing);
    gs_text_add(writer->text, "%slast sample at ", writer->prefix);
    write_last(writer, &last);
    if (last.count == 0)
        gs_report_blank(writer);
    free(last.growing);
}
