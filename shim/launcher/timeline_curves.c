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
    struct gs_timeline_intervals intervals;
    size_t site_count;     /* stacks, and one for no stack */
    uint64_t *live, *area; /* by site: now; the sum over all intervals */
    uint32_t shown[SITES_MOST];
    size_t shown_count;
    uint64_t *curve; /* INTERVALS for each shown site, and for the rest */
};

/* All memories of a trace. */
struct memories {
    const struct gs_timeline *timeline;
    struct curves *curves[GS_TIMELINE_MEMORIES]; /* NULL: the trace has none of it */
    gs_timeline_see *see; /* at each peak, with its memory's curves; NULL: find them */
    struct gs_timeline_pool *pool; /* NULL: the trace does not say what it held */
};

static struct curves *curves_of(struct memories *memories, unsigned memory)
{
    const struct gs_timeline *timeline = memories->timeline;
    struct curves *curves = memories->curves[memory];

    if (curves)
        return curves;
    curves = memories->curves[memory] = gs_replay_alloc(1, sizeof *curves);
    curves->site_count = timeline->stack_count + 1;
    curves->live = gs_replay_alloc(curves->site_count, sizeof *curves->live);
    curves->area = gs_replay_alloc(curves->site_count, sizeof *curves->area);
    curves->curve =
        gs_replay_alloc((size_t)(SITES_MOST + 1) * INTERVALS, sizeof *curves->curve);
    gs_timeline_divide(&curves->intervals, timeline->trace, INTERVALS);
    return curves;
}

static void free_curves(struct curves *curves)
{
    if (!curves)
        return;
    free(curves->live);
    free(curves->area);
    free(curves->curve);
    free(curves);
}

/* gs_replay_see */
static void see_operation(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct memories *memories = self;
    struct curves *curves;

    if (op->op == GS_TRACE_SYNC)
        return;
    curves = curves_of(memories, gs_timeline_memory_of(op));
    if (!memories->see) {
        gs_timeline_add(&curves->intervals, op);
        gs_timeline_pool_see(memories->pool, op, address);
        return;
    }
    curves->live[gs_timeline_stack_number(memories->timeline, op)] +=
        gs_timeline_change(op);
    gs_timeline_add_again(&curves->intervals, memories->see, curves);
}

/* gs_replay_see_range */
static void see_range(void *self, const struct gs_replay_range *range)
{
    struct memories *memories = self;

    gs_timeline_pool_see_range(memories->pool, range);
}

static void find_peaks(struct memories *memories)
{
    memories->see = NULL;
    memories->pool = gs_timeline_pool_create(memories->timeline);
    gs_replay_visit_ranges(memories->timeline->trace, see_operation, see_range, memories);
    if (!gs_timeline_pool_end(memories->pool)) {
        gs_timeline_pool_free(memories->pool);
        memories->pool = NULL;
    }
    for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++)
        if (memories->curves[i])
            gs_timeline_end(&memories->curves[i]->intervals);
}

/* Calls `see` for each interval of each memory, with curves->live as of its peak. */
static void visit_peaks(struct memories *memories, gs_timeline_see *see)
{
    for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++) {
        struct curves *curves = memories->curves[i];

        if (!curves)
            continue;
        memset(curves->live, 0, curves->site_count * sizeof *curves->live);
        gs_timeline_repeat(&curves->intervals, see, curves);
    }
    memories->see = see;
    gs_replay_visit(memories->timeline->trace, see_operation, memories);
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

static void put_site(struct gs_json *json, const struct gs_timeline *timeline,
                     const struct curves *curves, size_t number)
{
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

static void put_memory(struct gs_json *json, const struct memories *memories,
                       unsigned memory)
{
    const struct curves *curves = memories->curves[memory];

    gs_json_open(json, '{');
    gs_json_member_or_null(json, "device", memory != GS_TIMELINE_PINNED, memory);
    put_numbers(json, "live", curves->intervals.most);
    gs_json_member_open(json, "sites", '[');
    for (size_t i = 0; i < curves->shown_count; i++)
        put_site(json, memories->timeline, curves, i);
    gs_json_close(json, ']');
    put_numbers(json, "others", &curves->curve[curves->shown_count * INTERVALS]);
    if (memories->pool)
        gs_timeline_pool_put(memories->pool, json, memory);
    gs_json_close(json, '}');
}

enum gs_status gs_timeline_curves(const struct gs_timeline *timeline,
                                  const struct gs_export_sink *sink)
{
    static struct memories memories; /* one thread */
    static struct gs_json json;

    json = (struct gs_json){.depth = 0};
    memories = (struct memories){.timeline = timeline};
    find_peaks(&memories);
    visit_peaks(&memories, add_areas);
    for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++)
        if (memories.curves[i])
            choose_sites(memories.curves[i]);
    visit_peaks(&memories, fill_curves);
    gs_out_begin(&json.out, sink);
    gs_json_open(&json, '{');
    gs_json_member(&json, "interval_ns",
                   gs_timeline_interval_ns(timeline->trace, INTERVALS));
    gs_json_member_open(&json, "memories", '[');
    for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++) {
        if (memories.curves[i])
            put_memory(&json, &memories, i);
        free_curves(memories.curves[i]);
    }
    gs_json_close(&json, ']');
    gs_json_close(&json, '}');
    if (memories.pool)
        gs_timeline_pool_free(memories.pool);
    return gs_out_end(&json.out);
}
