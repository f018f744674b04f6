/*
 * timeline_curves.c - the timeline of a page: how much memory was live, by call site, in
 * equal stretches of the trace's time.
 *
 * A stretch shows the moment of it when most was live, so that no peak is lost; all call
 * sites are shown at that moment. The sites with the largest areas have curves of their
 * own, the others one together.
 *
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include "export_json_values.h"
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

#define STRETCHES  600
#define SITES_MOST 8
#define MEMORIES   257 /* devices, and pinned host memory */
#define BEFORE     SIZE_MAX

/* A memory, while its curves are made. */
struct curves {
    const struct gs_timeline *timeline;
    unsigned memory; /* a device's ordinal; 256: pinned host memory */
    uint64_t stretch_ns;
    size_t at[STRETCHES];     /* the operation after which most was live; BEFORE: none */
    uint64_t most[STRETCHES]; /* live bytes then */
    size_t site_count;        /* stacks, and one for no stack */
    uint64_t *live, *area;    /* by site: now; the sum over all stretches */
    uint32_t shown[SITES_MOST];
    size_t shown_count;
    uint64_t *curve; /* STRETCHES for each shown site, and for the rest */
};

static unsigned memory_of(const struct gs_replay_op *op)
{
    return op->kind == GS_TRACE_KIND_PINNED ? MEMORIES - 1 : op->device;
}

static bool is_of(const struct curves *curves, const struct gs_replay_op *op)
{
    return op->op != GS_TRACE_SYNC && memory_of(op) == curves->memory;
}

static size_t stretch_of(const struct curves *curves, const struct gs_replay_op *op)
{
    size_t stretch = (size_t)(op->time_ns / curves->stretch_ns);

    return stretch < STRETCHES ? stretch : STRETCHES - 1;
}

static size_t site_of(const struct curves *curves, const struct gs_replay_op *op)
{
    size_t stack = curves->timeline->stack_of[op->id];

    return stack < curves->site_count ? stack : curves->site_count - 1;
}

/* Chooses the moment of each stretch. */
static void find_moments(struct curves *curves)
{
    const struct gs_replay_trace *trace = curves->timeline->trace;
    uint64_t live = 0;
    size_t stretch = 0, last = BEFORE;

    curves->at[0] = BEFORE;
    curves->most[0] = 0;
    for (size_t i = 0; i < trace->count; i++) {
        const struct gs_replay_op *op = &trace->ops[i];

        if (!is_of(curves, op))
            continue;
        for (; stretch < stretch_of(curves, op); stretch++) {
            curves->at[stretch + 1] = last;
            curves->most[stretch + 1] = live;
        }
        live += op->op == GS_TRACE_ALLOC ? op->bytes : -op->bytes;
        last = i;
        if (live >= curves->most[stretch]) {
            curves->most[stretch] = live;
            curves->at[stretch] = i;
        }
    }
    for (; stretch + 1 < STRETCHES; stretch++) {
        curves->at[stretch + 1] = last;
        curves->most[stretch + 1] = live;
    }
}

/* Calls `see` for each stretch, with curves->live as of its moment. */
static void visit_moments(struct curves *curves,
                          void (*see)(struct curves *curves, size_t stretch))
{
    const struct gs_replay_trace *trace = curves->timeline->trace;
    size_t stretch = 0;

    memset(curves->live, 0, curves->site_count * sizeof *curves->live);
    for (; stretch < STRETCHES && curves->at[stretch] == BEFORE; stretch++)
        see(curves, stretch);
    for (size_t i = 0; i < trace->count && stretch < STRETCHES; i++) {
        const struct gs_replay_op *op = &trace->ops[i];

        if (!is_of(curves, op))
            continue;
        curves->live[site_of(curves, op)] +=
            op->op == GS_TRACE_ALLOC ? op->bytes : -op->bytes;
        for (; stretch < STRETCHES && curves->at[stretch] == i; stretch++)
            see(curves, stretch);
    }
}

static void add_areas(struct curves *curves, size_t stretch)
{
    (void)stretch;
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

static void fill_curves(struct curves *curves, size_t stretch)
{
    uint64_t rest = curves->most[stretch];

    for (size_t i = 0; i < curves->shown_count; i++) {
        uint64_t live = curves->live[curves->shown[i]];

        curves->curve[i * STRETCHES + stretch] = live;
        rest -= live;
    }
    curves->curve[curves->shown_count * STRETCHES + stretch] = rest;
}

static void put_numbers(struct gs_json *json, const char *key, const uint64_t *numbers)
{
    gs_json_member_open(json, key, '[');
    for (size_t i = 0; i < STRETCHES; i++)
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
    put_numbers(json, "live", &curves->curve[number * STRETCHES]);
    gs_json_close(json, '}');
}

static void put_memory(struct gs_json *json, struct curves *curves)
{
    bool pinned = curves->memory == MEMORIES - 1;

    find_moments(curves);
    memset(curves->area, 0, curves->site_count * sizeof *curves->area);
    visit_moments(curves, add_areas);
    choose_sites(curves);
    visit_moments(curves, fill_curves);
    gs_json_open(json, '{');
    gs_json_member_or_null(json, "device", !pinned, curves->memory);
    put_numbers(json, "live", curves->most);
    gs_json_member_open(json, "sites", '[');
    for (size_t i = 0; i < curves->shown_count; i++)
        put_site(json, curves, i);
    gs_json_close(json, ']');
    put_numbers(json, "others", &curves->curve[curves->shown_count * STRETCHES]);
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
                             .stretch_ns = (duration + STRETCHES - 1) / STRETCHES,
                             .site_count = timeline->stack_count + 1};
    curves.live = gs_replay_alloc(curves.site_count, sizeof *curves.live);
    curves.area = gs_replay_alloc(curves.site_count, sizeof *curves.area);
    curves.curve =
        gs_replay_alloc((size_t)(SITES_MOST + 1) * STRETCHES, sizeof *curves.curve);
    memset(used, 0, sizeof used);
    for (size_t i = 0; i < trace->count; i++)
        if (trace->ops[i].op != GS_TRACE_SYNC)
            used[memory_of(&trace->ops[i])] = true;
    gs_out_begin(&json.out, sink);
    gs_json_open(&json, '{');
    gs_json_member(&json, "stretch_ns", curves.stretch_ns);
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
