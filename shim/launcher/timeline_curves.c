/*
 * timeline_curves.c - the timeline of a page: how much memory was live, by call site and
 * by owner, in equal intervals of the trace's time.
 *
 * An interval shows its peak, so that no peak of the run is lost, and all call sites at
 * the time of that peak. The sites with the largest areas have a curve each, the others
 * one together; owners likewise.
 *
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include "export_json_values.h"
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

#define INTERVALS   GS_TIMELINE_INTERVALS_MOST
#define LAYERS_MOST 8

/* Live memory divided into layers: call sites, or owners. */
struct layers {
    size_t count;
    uint64_t *live, *area; /* by layer: now; the sum over all intervals */
    uint32_t shown[LAYERS_MOST];
    size_t shown_count;
    uint64_t *curve; /* INTERVALS for each shown layer, and for the rest */
};

/* A memory, while its curves are made. */
struct curves {
    struct gs_timeline_intervals intervals;
    struct layers sites, owners;
};

/* Who allocates at each site: a stack, or the last for no stack. */
struct owners {
    uint32_t *of_site;
    const char **names; /* NULL: unknown */
    size_t count;
};

/* All memories of a trace. */
struct memories {
    const struct gs_timeline *timeline;
    struct owners owners;
    struct curves *curves[GS_TIMELINE_MEMORIES]; /* NULL: the trace has none of it */
    gs_timeline_see *see; /* at each peak, with its memory's curves; NULL: find them */
    struct gs_timeline_pool *pool; /* NULL: the trace does not say what it held */
};

/* ---- layers ------------------------------------------------------------------------ */

static void make_layers(struct layers *layers, size_t count)
{
    layers->count = count;
    layers->live = gs_replay_alloc(count, sizeof *layers->live);
    layers->area = gs_replay_alloc(count, sizeof *layers->area);
    layers->curve =
        gs_replay_alloc((size_t)(LAYERS_MOST + 1) * INTERVALS, sizeof *layers->curve);
}

static void free_layers(struct layers *layers)
{
    free(layers->live);
    free(layers->area);
    free(layers->curve);
}

static void add_to_areas(struct layers *layers)
{
    for (size_t i = 0; i < layers->count; i++)
        layers->area[i] += layers->live[i];
}

/* Those with the largest areas, the largest first. */
static void choose_layers(struct layers *layers)
{
    layers->shown_count = 0;
    for (size_t i = 0; i < layers->count; i++) {
        size_t k = layers->shown_count;

        if (layers->area[i] == 0)
            continue;
        for (; k > 0 && layers->area[layers->shown[k - 1]] < layers->area[i]; k--)
            if (k < LAYERS_MOST)
                layers->shown[k] = layers->shown[k - 1];
        if (k < LAYERS_MOST)
            layers->shown[k] = (uint32_t)i;
        if (layers->shown_count < LAYERS_MOST)
            layers->shown_count++;
    }
}

/* `all`: live bytes of the memory then. */
static void fill_layers(struct layers *layers, size_t interval, uint64_t all)
{
    uint64_t rest = all;

    for (size_t i = 0; i < layers->shown_count; i++) {
        uint64_t live = layers->live[layers->shown[i]];

        layers->curve[i * INTERVALS + interval] = live;
        rest -= live;
    }
    layers->curve[layers->shown_count * INTERVALS + interval] = rest;
}

/* ---- memories ---------------------------------------------------------------------- */

static bool same_name(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static void find_owners(struct owners *owners, const struct gs_timeline *timeline)
{
    size_t sites = timeline->stack_count + 1;

    owners->of_site = gs_replay_alloc(sites, sizeof *owners->of_site);
    owners->names = gs_replay_alloc(sites, sizeof *owners->names);
    for (size_t i = 0; i < sites; i++) {
        const char *name = i < timeline->stack_count ? timeline->stacks[i].owner : NULL;
        size_t k = 0;

        while (k < owners->count && !same_name(owners->names[k], name))
            k++;
        if (k == owners->count)
            owners->names[owners->count++] = name;
        owners->of_site[i] = (uint32_t)k;
    }
}

static struct curves *curves_of(struct memories *memories, unsigned memory)
{
    const struct gs_timeline *timeline = memories->timeline;
    const struct owners *owners = &memories->owners;
    struct curves *curves = memories->curves[memory];

    if (curves)
        return curves;
    curves = memories->curves[memory] = gs_replay_alloc(1, sizeof *curves);
    make_layers(&curves->sites, timeline->stack_count + 1);
    make_layers(&curves->owners, owners->count);
    gs_timeline_divide(&curves->intervals, timeline->trace, INTERVALS);
    return curves;
}

static void free_curves(struct curves *curves)
{
    if (!curves)
        return;
    free_layers(&curves->sites);
    free_layers(&curves->owners);
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
    size_t site = gs_timeline_stack_number(memories->timeline, op);
    curves->sites.live[site] += gs_timeline_change(op);
    curves->owners.live[memories->owners.of_site[site]] += gs_timeline_change(op);
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

static void forget_live(struct layers *layers)
{
    memset(layers->live, 0, layers->count * sizeof *layers->live);
}

/* Calls `see` for each interval of each memory, with live bytes as of its peak. */
static void visit_peaks(struct memories *memories, gs_timeline_see *see)
{
    for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++) {
        struct curves *curves = memories->curves[i];

        if (!curves)
            continue;
        forget_live(&curves->sites);
        forget_live(&curves->owners);
        gs_timeline_repeat(&curves->intervals, see, curves);
    }
    memories->see = see;
    gs_replay_visit(memories->timeline->trace, see_operation, memories);
}

static void add_areas(void *self, size_t interval)
{
    struct curves *curves = self;

    (void)interval;
    add_to_areas(&curves->sites);
    add_to_areas(&curves->owners);
}

static void fill_curves(void *self, size_t interval)
{
    struct curves *curves = self;
    uint64_t all = curves->intervals.most[interval];

    fill_layers(&curves->sites, interval, all);
    fill_layers(&curves->owners, interval, all);
}

/* ---- JSON -------------------------------------------------------------------------- */

static void put_numbers(struct gs_json *json, const char *key, const uint64_t *numbers)
{
    gs_json_member_open(json, key, '[');
    for (size_t i = 0; i < INTERVALS; i++)
        gs_json_number(json, numbers[i]);
    gs_json_close(json, ']');
}

static void put_site(struct gs_json *json, const struct memories *memories, uint32_t site)
{
    const struct gs_timeline *timeline = memories->timeline;

    gs_json_member_open(json, "stack", '[');
    for (size_t i = 0; site < timeline->stack_count && i < timeline->stacks[site].count;
         i++)
        gs_json_number(json, timeline->stacks[site].frames[i].number);
    gs_json_close(json, ']');
}

static void put_owner(struct gs_json *json, const struct memories *memories,
                      uint32_t owner)
{
    gs_json_member_text(json, "name", memories->owners.names[owner]);
}

/* `put` writes what tells a layer apart. */
static void put_layers(struct gs_json *json, const struct memories *memories,
                       const char *key, const struct layers *layers,
                       void (*put)(struct gs_json *json, const struct memories *memories,
                                   uint32_t layer))
{
    gs_json_member_open(json, key, '[');
    for (size_t i = 0; i < layers->shown_count; i++) {
        gs_json_open(json, '{');
        put(json, memories, layers->shown[i]);
        put_numbers(json, "live", &layers->curve[i * INTERVALS]);
        gs_json_close(json, '}');
    }
    gs_json_close(json, ']');
}

static const uint64_t *rest_of(const struct layers *layers)
{
    return &layers->curve[layers->shown_count * INTERVALS];
}

static void put_memory(struct gs_json *json, const struct memories *memories,
                       unsigned memory)
{
    const struct curves *curves = memories->curves[memory];

    gs_json_open(json, '{');
    gs_json_member_or_null(json, "device", memory != GS_TIMELINE_PINNED, memory);
    put_numbers(json, "live", curves->intervals.most);
    put_layers(json, memories, "sites", &curves->sites, put_site);
    put_numbers(json, "others", rest_of(&curves->sites));
    put_layers(json, memories, "owners", &curves->owners, put_owner);
    put_numbers(json, "other_owners", rest_of(&curves->owners));
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
    find_owners(&memories.owners, timeline);
    find_peaks(&memories);
    visit_peaks(&memories, add_areas);
    for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++) {
        if (memories.curves[i]) {
            choose_layers(&memories.curves[i]->sites);
            choose_layers(&memories.curves[i]->owners);
        }
    }
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
    free(memories.owners.of_site);
    free(memories.owners.names);
    return gs_out_end(&json.out);
}
