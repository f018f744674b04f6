/*
 * report_merge.c - joins leaks from call sites that read the same.
 *
 * An unrolled loop, or a function inlined twice, allocates from several addresses of one
 * line. A reader of function, file and line cannot distinguish them. Resolving the lines
 * of all stacks would take too long. So stacks are first compared by their function
 * names, looked up here once per address; only stacks with equal names have their lines
 * resolved.
 *
 * Owns: the names of addresses, during the comparison.   Lock: none.
 * Design: docs/tracker.md
 */
#include "gs_compare.h"
#include "tracker/names/frame_kinds.h"
#include "tracker/report/report_internal.h"

#include <stdlib.h>

#include "gs_hash.h"

/* Limit of the stacks whose lines are looked up; those of the largest leaks come
 * first. */
#define CANDIDATES_MAX 1024u

#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/* The properties of a frame that are known without lines. */
struct known_frame {
    UT_hash_handle hh; /* in merge->known */
    uintptr_t frame;
    uint64_t name;   /* equal for frames that may read the same */
    bool is_call;    /* a runtime function: the frames inside it are hidden */
    bool is_carrier; /* not compared: a framework, a library, the runtime */
};

struct merge {
    const struct gs_tracker *tracker;
    const struct gs_report_config *config;
    const struct gs_report_source *source;
    struct gs_report_data *data;
    struct known_frame *known;
};

/* A leak, by number, and its key of comparison. */
struct candidate {
    uint64_t hash;
    size_t number;
    bool alike; /* another candidate has the same hash */
    struct gs_shown_stack shown;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * HASH_FACTOR;
    return hash ^ hash >> 29;
}

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 1;

    for (; *text; text++) {
        hash = hash * HASH_FACTOR + (unsigned char)*text;
    }
    return mix(0, hash);
}

/* ---- one frame -------------------------------------------------------------------- */

/* The facts of a frame by which call sites are compared. */
static struct known_frame examine_frame(const struct merge *merge, uint32_t stack,
                                        uintptr_t frame)
{
    struct known_frame known = {.frame = frame, .name = mix(0, frame)};
    struct gs_python_location place;
    struct gs_module module;

    if (gs_frame_is_python(frame)) {
        known.is_carrier =
            gs_stacks_python(merge->tracker->config.stacks, frame, &place) == GS_OK &&
            gs_frame_is_carrier(gs_frame_class_of_file(place.file));
        return known;
    }
    if (merge->source->module(merge->source->self, stack, frame, &module) != GS_OK) {
        return known;
    }
    const char *base_name = gs_module_base_name(module.path);
    const char *name = merge->source->linkage(merge->source->self, frame, &module);
    const struct gs_symbol_request by_name = {
        .frame = frame, .module = &module, .result = {.linkage = name}};
    known.is_carrier = gs_module_is_runtime(base_name) ||
                       gs_frame_is_carrier(gs_frame_class(&by_name, base_name));
    if (name) {
        known.name = hash_text(name);
        known.is_call = gs_report_is_runtime_call(name, merge->config);
    }
    return known;
}

/* NULL: no memory. */
static const struct known_frame *known_frame_of(struct merge *merge, uint32_t stack,
                                                uintptr_t frame)
{
    struct known_frame *known = GS_HASH_FIND(merge->known, &frame);

    if (!known && (known = malloc(sizeof(*known)))) {
        *known = examine_frame(merge, stack, frame);
        if (!GS_HASH_ADD(merge->known, frame, known)) {
            free(known);
            known = NULL;
        }
    }
    return known;
}

/* ---- leaks that may read the same ------------------------------------------------- */

/* Computes a hash that is equal for groups that may read the same. False: no memory. */
static bool hash_group(struct merge *merge, const struct gs_group *group, uint64_t *out)
{
    uint64_t key =
        mix((uint64_t)group->api << 48 | (uint64_t)(uint16_t)group->device << 32 |
                (uint64_t)group->kind << 8 | (uint64_t)group->holds << 1 | group->lost,
            group->beyond_rule);
    uintptr_t frames[GS_STACK_MAX_DEPTH];
    unsigned count =
        gs_report_stack_frames(merge->tracker->config.stacks, group->stack, frames);
    uint64_t hash = key;

    for (unsigned i = 0; i < count; i++) {
        const struct known_frame *known = known_frame_of(merge, group->stack, frames[i]);
        if (!known) {
            return false;
        }
        if (known->is_call) {
            hash = key;
        } else if (!known->is_carrier) {
            hash = mix(hash, known->name);
        }
    }
    *out = hash;
    return true;
}

static int compare_hashes(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;

    return GS_RISING(a->hash, b->hash) ?: GS_RISING(a->number, b->number);
}

/* Sorts the candidates by hash, and drops those whose hash is unique. Returns how many
 * remain. */
static size_t find_candidates(struct merge *merge, struct candidate *candidates)
{
    const struct gs_report_data *data = merge->data;
    size_t count = 0, kept = 0;

    for (size_t i = 0; i < data->leak_groups; i++) {
        const struct gs_group *group = &data->groups.items[i];
        if (group->stack == 0 || gs_stack_left_out(group->stack)) {
            continue;
        }
        if (!hash_group(merge, group, &candidates[count].hash)) {
            return 0;
        }
        candidates[count++].number = i;
    }
    qsort(candidates, count, sizeof(*candidates), compare_hashes);
    for (size_t i = 0; i < count; i++) {
        candidates[i].alike =
            (i > 0 && candidates[i - 1].hash == candidates[i].hash) ||
            (i + 1 < count && candidates[i + 1].hash == candidates[i].hash);
    }
    for (size_t i = 0; i < count; i++) {
        if (candidates[i].alike) {
            candidates[kept++] = candidates[i];
        }
    }
    return kept;
}

/* ---- leaks that read the same ----------------------------------------------------- */

static int compare_shown(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;

    if (a->hash != b->hash) {
        return a->hash < b->hash ? -1 : 1;
    }
    int order = gs_report_compare_stacks(&a->shown, &b->shown);
    if (order != 0) {
        return order;
    }
    return GS_RISING(a->number, b->number);
}

/* Joins equal neighbours with the first of them, which is the largest. Returns how many
 * leaks disappeared. */
static size_t join(struct gs_group *groups, const struct candidate *candidates,
                   size_t count)
{
    size_t joined = 0;

    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1;
             end < count && candidates[end].hash == candidates[i].hash &&
             candidates[i].shown.count != 0 &&
             gs_report_compare_stacks(&candidates[end].shown, &candidates[i].shown) == 0;
             end++) {
            struct gs_group *part = &groups[candidates[end].number];
            gs_group_sum(&groups[candidates[i].number], part);
            part->count = 0;
            joined++;
        }
    }
    return joined;
}

/* Removes empty groups, and restores the order of the leaks. */
static void close_up(struct gs_report_data *data)
{
    struct gs_group *items = data->groups.items;
    size_t kept = 0;

    for (size_t i = 0; i < data->leak_groups; i++) {
        if (items[i].count != 0) {
            items[kept++] = items[i];
        }
    }
    memmove(items + kept, items + data->leak_groups,
            (data->groups.count - data->leak_groups) * sizeof(*items));
    data->groups.count -= data->leak_groups - kept;
    data->leak_groups = kept;
    gs_report_sort(items, kept);
}

/* Names the candidates' stacks that have no names yet. */
static void name_all(const struct merge *merge, const struct gs_frame_table *known,
                     const struct candidate *candidates, size_t count,
                     struct gs_frame_table *frames)
{
    struct gs_stack_ids ids = {0};

    for (size_t i = 0; i < count; i++) {
        uint32_t stack = merge->data->groups.items[candidates[i].number].stack;
        if (gs_frame_table_show(known, merge->config, stack).count == 0) {
            gs_stack_ids_add(&ids, stack);
        }
    }
    gs_frame_table_take(frames, merge->config, merge->tracker->config.stacks,
                        merge->source, &ids);
}

static int compare_numbers(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;

    return GS_RISING(a->number, b->number);
}

bool gs_report_merge(const struct gs_tracker *tracker,
                     const struct gs_report_config *config,
                     const struct gs_report_source *source,
                     const struct gs_frame_table *known, struct gs_frame_table *frames,
                     struct gs_report_data *data)
{
    struct merge merge = {
        .tracker = tracker, .config = config, .source = source, .data = data};
    struct candidate *candidates;
    size_t count = data->leak_groups, joined = 0;

    if (!source->linkage || !tracker->config.stacks || count < 2) {
        return false;
    }
    candidates = calloc(count, sizeof(*candidates));
    count = candidates ? find_candidates(&merge, candidates) : 0;
    GS_HASH_FREE(merge.known);
    if (count > CANDIDATES_MAX) {
        qsort(candidates, count, sizeof(*candidates), compare_numbers);
        count = CANDIDATES_MAX;
    }
    if (count != 0) {
        name_all(&merge, known, candidates, count, frames);
        for (size_t i = 0; i < count; i++) {
            candidates[i].shown = gs_frame_table_show(
                known, config, data->groups.items[candidates[i].number].stack);
        }
        qsort(candidates, count, sizeof(*candidates), compare_shown);
        joined = join(data->groups.items, candidates, count);
    }
    free(candidates);
    if (joined != 0) {
        close_up(data);
    }
    return joined != 0;
}
