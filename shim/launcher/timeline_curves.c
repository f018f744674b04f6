/*
 * timeline_curves.c - the timeline of a page: how much memory was live, by call site, in
 * equal intervals of the trace's time.
 *
 * An interval shows its peak, so that no peak of the run is lost, and all call sites at
 * the time of that peak. The sites with the largest areas have a curve each, the others
 * one together.
 *
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include "export_json_values.h"
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

#define INTERVALS  GS_TIMELINE_INTERVALS_MOST
#define SITES_MOST 8

/* A memory, while its curves are made. */
struct curves {
    const struct gs_timeline *timeline;
    struct gs_timeline_intervals intervals;
    size_t site_count;     /* stacks, and one for no stack */
    uint64_t *live, *area; /* by site: now; the sum over all intervals */
    uint32_t shown[SITES_MOST];
    size_t shown_count;
    uint64_t *curve; /* INTERVALS for each shown site, and for the rest */
};

static size_t site_of(const struct curves *curves, const struct gs_replay_op *op)
{
    size_t stack = curves->timeline->stack_of[op->id];

    return stack < curves->site_count ? stack : curves->site_count - 1;
}

static void change_live(void *self, const struct gs_replay_op *op, uint64_t change)
{
    struct curves *curves = self;

    curves->live[site_of(curves, op)] += change;
}

/* Calls `see` for each interval, with curves->live as of its peak. */
static void visit_peaks(struct curves *curves, gs_timeline_see see)
{
    memset(curves->live, 0, curves->site_count * sizeof *curves->live);
    gs_timeline_visit_peaks(&curves->intervals, change_live, see, curves);
}

static void add_areas(void *self, size_t interval)
{
    struct curves *curves = self;

    (void)interval;
    for (size_t i = 0; i < curves->site_count; i++)
        curves->area[i] += curves->live[i];
}

/* The sites with the largest areas, the largest first. */
static void choose_sites(struct curves *curves)
{
    curves->shown_count = 0;
    for (size_t i = 0; i < curves->site_count; i++) {
        size_t k = curves->shown_count;

        if (curves->area[i] == 0)
            continue;
        for (; k > 0 && curves->area[curves->shown[k - 1]] < curves->area[i]; k--)
            if (k < SITES_MOST)
                curves->shown[k] = curves->shown[k - 1];
        if (k < SITES_MOST)
            curves->shown[k] = (uint32_t)i;
        if (curves->shown_count < SITES_MOST)
            curves->shown_count++;
    }
}

static void fill_curves(void *self, size_t interval)
{
    struct curves *curves = self;
    uint64_t rest = curves->intervals.most[interval];

    for (size_t i = 0; i < curves->shown_count; i++) {
        uint64_t live = curves->live[curves->shown[i]];

        curves->curve[i * INTERVALS + interval] = live;
        rest -= live;
    }
    curves->curve[curves->shown_count * INTERVALS + interval] = rest;
}

static void put_numbers(struct gs_json *json, const char *key, const uint64_t *numbers)
{
    gs_json_member_open(json, key, '[');
    for (size_t i = 0; i < INTERVALS; i++)
        gs_json_number(json, numbers[i]);
    gs_json_close(json, ']');
}

static void put_site(struct gs_json *json, const struct curves *curves, size_t number)
{
    const struct gs_timeline *timeline = curves->timeline;
    uint32_t site = curves->shown[number];

    gs_json_open(json, '{');
    gs_json_member_open(json, "stack", '[');
    for (size_t i = 0; site < timeline->stack_count && i < timeline->stacks[site].count;
         i++)
        gs_json_number(json, timeline->stacks[site].frames[i].number);
    gs_json_close(json, ']');
    put_numbers(json, "live", &curves->curve[number * INTERVALS]);
    gs_json_close(json, '}');
}

static void put_memory(struct gs_json *json, struct curves *curves, unsigned memory)
{
    bool pinned = memory == GS_TIMELINE_PINNED;

    gs_timeline_find_peaks(&curves->intervals, memory);
    memset(curves->area, 0, curves->site_count * sizeof *curves->area);
    visit_peaks(curves, add_areas);
    choose_sites(curves);
    visit_peaks(curves, fill_curves);
    gs_json_open(json, '{');
    gs_json_member_or_null(json, "device", !pinned, memory);
    put_numbers(json, "live", curves->intervals.most);
    gs_json_member_open(json, "sites", '[');
    for (size_t i = 0; i < curves->shown_count; i++)
        put_site(json, curves, i);
    gs_json_close(json, ']');
    put_numbers(json, "others", &curves->curve[curves->shown_count * INTERVALS]);
    gs_json_close(json, '}');
}

enum gs_status gs_timeline_curves(const struct gs_timeline *timeline,
                                  const struct gs_export_sink *sink)
{
    const struct gs_replay_trace *trace = timeline->trace;
    static struct curves curves; /* one thread */
    static struct gs_json json;
    static bool used[GS_TIMELINE_MEMORIES];

    json = (struct gs_json){.depth = 0};
    curves =
        (struct curves){.timeline = timeline, .site_count = timeline->stack_count + 1};
    gs_timeline_divide(&curves.intervals, trace, INTERVALS);
    curves.live = gs_replay_alloc(curves.site_count, sizeof *curves.live);
    curves.area = gs_replay_alloc(curves.site_count, sizeof *curves.area);
    curves.curve =
        gs_replay_alloc((size_t)(SITES_MOST + 1) * INTERVALS, sizeof *curves.curve);
    memset(used, 0, sizeof used);
    for (size_t i = 0; i < trace->count; i++)
        if (trace->ops[i].op != GS_TRACE_SYNC)
            used[gs_timeline_memory_of(&trace->ops[i])] = true;
    gs_out_begin(&json.out, sink);
    gs_json_open(&json, '{');
    gs_json_member(&json, "interval_ns", curves.intervals.interval_ns);
    gs_json_member_open(&json, "memories", '[');
    for (unsigned memory = 0; memory < GS_TIMELINE_MEMORIES; memory++)
        if (used[memory])
            put_memory(&json, &curves, memory);
    gs_json_close(&json, ']');
    gs_json_close(&json, '}');
    free(curves.live);
    free(curves.area);
    free(curves.curve);
    return gs_out_end(&json.out);
}
