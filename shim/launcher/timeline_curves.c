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

#define INTERVALS  600
#define SITES_MOST 8
#define MEMORIES   257 /* devices, and pinned host memory */
#define BEFORE     SIZE_MAX

/* A memory, while its curves are made. */
struct curves {
    const struct gs_timeline *timeline;
    unsigned memory; /* a device's ordinal; 256: pinned host memory */
    uint64_t interval_ns;
    size_t at[INTERVALS];     /* the operation after which most was live; BEFORE: none */
    uint64_t most[INTERVALS]; /* live bytes then */
    size_t site_count;        /* stacks, and one for no stack */
    uint64_t *live, *area;    /* by site: now; the sum over all intervals */
    uint32_t shown[SITES_MOST];
    size_t shown_count;
    uint64_t *curve; /* INTERVALS for each shown site, and for the rest */
};

static unsigned memory_of(const struct gs_replay_op *op)
{
    return op->kind == GS_TRACE_KIND_PINNED ? MEMORIES - 1 : op->device;
}

static bool is_of(const struct curves *curves, const struct gs_replay_op *op)
{
    return op->op != GS_TRACE_SYNC && memory_of(op) == curves->memory;
}

static size_t interval_of(const struct curves *curves, const struct gs_replay_op *op)
{
    size_t interval = (size_t)(op->time_ns / curves->interval_ns);

    return interval < INTERVALS ? interval : INTERVALS - 1;
}

static size_t site_of(const struct curves *curves, const struct gs_replay_op *op)
{
    size_t stack = curves->timeline->stack_of[op->id];

    return stack < curves->site_count ? stack : curves->site_count - 1;
}

/* Finds the peak of each interval. */
static void find_peaks(struct curves *curves)
{
    const struct gs_replay_trace *trace = curves->timeline->trace;
    uint64_t live = 0;
    size_t interval = 0, last = BEFORE;

    curves->at[0] = BEFORE;
    curves->most[0] = 0;
    for (size_t i = 0; i < trace->count; i++) {
        const struct gs_replay_op *op = &trace->ops[i];

        if (!is_of(curves, op))
            continue;
        for (; interval < interval_of(curves, op); interval++) {
            curves->at[interval + 1] = last;
            curves->most[interval + 1] = live;
        }
        live += op->op == GS_TRACE_ALLOC ? op->bytes : -op->bytes;
        last = i;
        if (live >= curves->most[interval]) {
            curves->most[interval] = live;
            curves->at[interval] = i;
        }
    }
    for (; interval + 1 < INTERVALS; interval++) {
        curves->at[interval + 1] = last;
        curves->most[interval + 1] = live;
    }
}

/* Calls `see` for each interval, with curves->live as of its peak. */
static void visit_peaks(struct curves *curves,
                        void (*see)(struct curves *curves, size_t interval))
{
    const struct gs_replay_trace *trace = curves->timeline->trace;
    size_t interval = 0;

    memset(curves->live, 0, curves->site_count * sizeof *curves->live);
    for (; interval < INTERVALS && curves->at[interval] == BEFORE; interval++)
        see(curves, interval);
    for (size_t i = 0; i < trace->count && interval < INTERVALS; i++) {
        const struct gs_replay_op *op = &trace->ops[i];

        if (!is_of(curves, op))
            continue;
        curves->live[site_of(curves, op)] +=
            op->op == GS_TRACE_ALLOC ? op->bytes : -op->bytes;
        for (; interval < INTERVALS && curves->at[interval] == i; interval++)
            see(curves, interval);
    }
}

static void add_areas(struct curves *curves, size_t interval)
{
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

static void fill_curves(struct curves *curves, size_t interval)
{
    uint64_t rest = curves->most[interval];

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

static void put_memory(struct gs_json *json, struct curves *curves)
{
    bool pinned = curves->memory == MEMORIES - 1;

    find_peaks(curves);
    memset(curves->area, 0, curves->site_count * sizeof *curves->area);
    visit_peaks(curves, add_areas);
    choose_sites(curves);
    visit_peaks(curves, fill_curves);
    gs_json_open(json, '{');
    gs_json_member_or_null(json, "device", !pinned, curves->memory);
    put_numbers(json, "live", curves->most);
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
    static bool used[MEMORIES];
    uint64_t duration = trace->count ? trace->ops[trace->count - 1].time_ns + 1 : 1;

    json = (struct gs_json){.depth = 0};
    curves = (struct curves){.timeline = timeline,
                             .interval_ns = (duration + INTERVALS - 1) / INTERVALS,
                             .site_count = timeline->stack_count + 1};
    curves.live = gs_replay_alloc(curves.site_count, sizeof *curves.live);
    curves.area = gs_replay_alloc(curves.site_count, sizeof *curves.area);
    curves.curve =
        gs_replay_alloc((size_t)(SITES_MOST + 1) * INTERVALS, sizeof *curves.curve);
    memset(used, 0, sizeof used);
    for (size_t i = 0; i < trace->count; i++)
        if (trace->ops[i].op != GS_TRACE_SYNC)
            used[memory_of(&trace->ops[i])] = true;
    gs_out_begin(&json.out, sink);
    gs_json_open(&json, '{');
    gs_json_member(&json, "interval_ns", curves.interval_ns);
    gs_json_member_open(&json, "memories", '[');
    for (curves.memory = 0; curves.memory < MEMORIES; curves.memory++)
        if (used[curves.memory])
            put_memory(&json, &curves);
    gs_json_close(&json, ']');
    gs_json_close(&json, '}');
    free(curves.live);
    free(curves.area);
    free(curves.curve);
    return gs_out_end(&json.out);
}
