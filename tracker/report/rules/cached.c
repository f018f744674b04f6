/*
 * cached.c - memory that a framework's caching allocator keeps until the process ends, by
 * the rows GS_CACHE of frame_kinds.def. It is no leak, unless the allocator says that a
 * part of it is in use.
 *
 * Owns: the known frames during a look-up.   Lock: none.
 * Design: docs/suppressions.md
 */
#include "tracker/names/frame_kinds.h"
#include "tracker/report/report_internal.h"

#include <stdlib.h>

/* The texts are in their rows: no program pays for relocating them at its start. */
static const struct {
    unsigned char family, most;
    char file[32], function[24], unseen[72];
} rows[] = {
#define GS_CACHE(family, file, function, most, unseen)                                   \
    {GS_FAMILY_##family, most, file, function, unseen},
#include "tracker/names/frame_kinds.def"
};

#define ROWS GS_ARRAY_LEN(rows)
/* gs_group.cached_by of what Python's objects held to the end. */
#define KEPT (ROWS + 1)

/* A frame that was looked up. */
#define FRAMES_KEPT 2048u
#define PLACES      8u /* in which a frame may be */
struct known {
    uintptr_t frame; /* 0: none */
    unsigned row;    /* + 1; 0: none */
};

struct search {
    const struct gs_stacks *stacks;
    const struct gs_report_source *source;
    struct known *known; /* FRAMES_KEPT, by address */
};

static unsigned row_of_file(const char *path, unsigned from)
{
    const char *base_name = gs_module_base_name(path), *package = gs_frame_package(path);

    for (unsigned i = from; i < ROWS; i++) {
        size_t length = strlen(rows[i].file);
        if (strncmp(base_name, rows[i].file, length) == 0 ||
            (package && strncmp(package, rows[i].file, length) == 0)) {
            return i + 1;
        }
    }
    return 0;
}

/* Returns the row of GS_CACHE that the frame matches, + 1; 0: none. */
static unsigned match_frame(const struct search *search, uint32_t stack, uintptr_t frame)
{
    struct gs_symbol_request request = {.frame = frame};
    struct gs_python_location place;
    struct gs_module module;
    const char *path;

    if (gs_frame_is_python(frame)) {
        if (gs_stacks_python(search->stacks, frame, &place) != GS_OK) {
            return 0;
        }
        path = place.file;
        request.result.function = place.function;
    } else {
        if (search->source->module(search->source->self, stack, frame, &module) !=
            GS_OK) {
            return 0;
        }
        path = module.path ? module.path : "";
        request.module = &module;
    }
    unsigned row = row_of_file(path, 0);
    if (row != 0 && rows[row - 1].function[0] && !request.result.function &&
        search->source->resolve) {
        search->source->resolve(search->source->self, &request, 1);
    }
    for (; row != 0; row = row_of_file(path, row)) {
        const char *function =
            request.result.linkage ? request.result.linkage : request.result.function;
        if (strstr(function ? function : "", rows[row - 1].function)) {
            return row;
        }
    }
    return 0;
}

/* The place of a frame that is not in its first one. Frames that share one would replace
 * each other at every stack. */
static GS_NOINLINE struct known *find_place(const struct search *search, size_t first,
                                            uintptr_t frame)
{
    for (unsigned i = 0; i < PLACES; i++) {
        struct known *known = &search->known[(first + i) % FRAMES_KEPT];
        if (known->frame == frame || known->frame == 0) {
            return known;
        }
    }
    return &search->known[first];
}

static unsigned row_of_frame(const struct search *search, uint32_t stack, uintptr_t frame)
{
    size_t first = (frame * UINT64_C(0x9e3779b97f4a7c15) >> 40) % FRAMES_KEPT;
    struct known *known = &search->known[first];

    if (GS_UNLIKELY(known->frame != frame)) {
        known = find_place(search, first, frame);
    }
    if (GS_UNLIKELY(known->frame != frame)) {
        *known = (struct known){frame, match_frame(search, stack, frame)};
    }
    return known->row;
}

static unsigned row_of_stack(const struct search *search, uint32_t stack)
{
    uintptr_t frames[GS_STACK_MAX_DEPTH];
    unsigned count = gs_report_stack_frames(search->stacks, stack, frames), row = 0;

    for (unsigned i = 0; i < count && row == 0; i++) {
        row = row_of_frame(search, stack, frames[i]);
    }
    return row;
}

/* Clears a row with more memory than its allocator keeps: some of it is in use, and it is
 * unknown which. */
static void drop_exceeded(struct gs_groups *groups, unsigned row)
{
    uint64_t counts[GS_MAX_DEVICES] = {0};

    for (size_t i = 0; i < groups->count; i++) {
        const struct gs_group *group = &groups->items[i];
        if (group->cached_by == row + 1) {
            counts[(unsigned)group->device % GS_MAX_DEVICES] +=
                gs_group_shown_count(group);
        }
    }
    for (size_t i = 0; i < groups->count; i++) {
        struct gs_group *group = &groups->items[i];
        if (group->cached_by == row + 1 &&
            counts[(unsigned)group->device % GS_MAX_DEVICES] > rows[row].most) {
            group->cached_by = 0;
        }
    }
}

/* Whether all memory is listed: of a program that runs or was killed, who has it is the
 * question. */
static bool lists_all(const struct gs_report_config *config)
{
    return config->running || config->killed_by;
}

/* Whether allocations that were owned when Python ended came one after the other over
 * nearly the whole run, as kept_parts.c has it for parts. Of allocations the time is
 * known, not the number. */
static bool has_grown(const struct gs_report_data *data, const struct gs_group *group)
{
    uint64_t first_ns = UINT64_MAX, last_ns = 0;

    for (size_t i = 0; i < data->groups.count; i++) {
        const struct gs_group *one = &data->groups.items[i];
        first_ns = one->oldest_ns < first_ns ? one->oldest_ns : first_ns;
        last_ns = one->newest_ns > last_ns ? one->newest_ns : last_ns;
    }
    return group->count >= GS_GREW_PARTS && (group->newest_ns - group->oldest_ns) * 8 >=
                                                (last_ns - first_ns) * GS_GREW_EIGHTHS;
}

void gs_report_find_cached(const struct gs_tracker *tracker,
                           const struct gs_report_config *config,
                           const struct gs_report_source *source, bool seen,
                           struct gs_report_data *data)
{
    struct search search = {.stacks = tracker->config.stacks, .source = source};

    if ((lists_all(config) && !data->parts.known) || config->caches_leak) {
        return;
    }
    if (!search.stacks || data->groups.count == 0 ||
        !(search.known = calloc(FRAMES_KEPT, sizeof(*search.known)))) {
        return;
    }
    for (size_t i = 0; i < data->groups.count; i++) {
        struct gs_group *group = &data->groups.items[i];
        if (group->suppressed_by != 0 || group->cached_by != 0 ||
            group->holds == GS_HOLDS_PARTS || group->holds == GS_HOLDS_ITSELF) {
            continue;
        }
        if (group->holds == GS_HOLDS_KEPT || group->holds == GS_HOLDS_OWNER) {
            bool grew = gs_growth_has(config->growth, group) ||
                        (group->holds == GS_HOLDS_OWNER && has_grown(data, group));
            group->cached_by = grew ? 0 : KEPT;
            continue;
        }
        unsigned row = row_of_stack(&search, group->stack);
        if (row == 0 || (group->lost && rows[row - 1].most == 0)) {
            continue;
        }
        group->cached_by = (uint8_t)row;
        if ((seen || lists_all(config)) && gs_report_cached_unseen(data, group)) {
            group->cached_by = 0;
        }
    }
    for (unsigned row = 0; !seen && row < ROWS; row++) {
        if (rows[row].most != 0) {
            drop_exceeded(&data->groups, row);
        }
    }
    free(search.known);
}

/* ---- growth ----------------------------------------------------------------------- */

/* Moves an item after those up to `end`. */
static void move_behind(struct gs_growing *growing, size_t from, size_t end)
{
    const struct gs_growing item = growing[from];

    memmove(&growing[from], &growing[from + 1], (end - from - 1) * sizeof(*growing));
    growing[end - 1] = item;
}

void gs_report_sort_growing(const struct gs_tracker *tracker,
                            const struct gs_report_config *config,
                            const struct gs_report_source *source,
                            struct gs_growing *growing, size_t count)
{
    struct search search = {.stacks = tracker->config.stacks, .source = source};

    if (config->caches_leak || count == 0 || !search.stacks ||
        !(search.known = calloc(FRAMES_KEPT, sizeof(*search.known)))) {
        return;
    }
    for (size_t i = 0, left = count; left > 0; left--) {
        struct gs_group *group = &growing[i].group;
        unsigned row = gs_group_is_parts(group) ? 0 : row_of_stack(&search, group->stack);
        group->cached_by = 0;
        if (row != 0 && rows[row - 1].most == 0) {
            group->cached_by = (uint8_t)row;
            move_behind(growing, i, count);
        } else {
            i++;
        }
    }
    free(search.known);
}

/* ---- a peak ----------------------------------------------------------------------- */

/* PyTorch reports the parts of its device memory. */
static bool is_reported(unsigned row)
{
    return row != 0 && strcmp(rows[row - 1].file, "libc10_cuda.so") == 0;
}

/* Joins the memory of the allocator that reports its parts: of a peak's places those that
 * stay are in front, and their number is returned. */
static size_t join_cached(const struct search *search, struct gs_peak *peak,
                          struct gs_peak_site *cached)
{
    size_t kept = 0;

    for (size_t i = 0; i < peak->count; i++) {
        const struct gs_peak_site *place = &peak->places[i];
        unsigned row = place->held.lost ? 0 : row_of_stack(search, place->held.stack);
        if (!is_reported(row)) {
            peak->places[kept++] = *place;
        } else if (cached->held.count == 0) {
            *cached = *place;
            cached->held.cached_by = (uint8_t)row;
            cached->held.stack = 0; /* of no line: the parts have those */
        } else {
            gs_group_sum(&cached->held, &place->held);
            cached->live_bytes += place->live_bytes;
            cached->live_count += place->live_count;
        }
    }
    return kept;
}

static uint64_t subtract_to_zero(uint64_t bytes, uint64_t by)
{
    return bytes > by ? bytes - by : 0;
}

/* Puts the parts of a peak into its places, which have room for them, and takes them from
 * the memory that had them. */
static void put_parts(struct gs_peak *peak, size_t kept, struct gs_peak_site cached)
{
    uint64_t held = 0, live = 0;

    for (size_t i = 0; i < peak->part_count; i++) {
        struct gs_peak_site part = peak->parts[i];
        held += part.held.bytes;
        live += part.live_bytes;
        part.held.api = cached.held.api;
        part.held.kind = cached.held.kind;
        peak->places[kept++] = part;
    }
    peak->about = peak->about || held > cached.held.bytes;
    cached.held.bytes = subtract_to_zero(cached.held.bytes, held);
    cached.live_bytes = subtract_to_zero(cached.live_bytes, live);
    if (cached.live_bytes > cached.held.bytes) {
        cached.live_bytes = cached.held.bytes;
    }
    cached.held.likely_bytes = (double)cached.held.bytes;
    cached.likely_live_bytes = (double)cached.live_bytes;
    if (cached.held.bytes > 0) {
        peak->places[kept++] = cached;
    }
    peak->count = kept;
}

/* Replaces memory that an allocator of a framework kept at a peak by the parts of it that
 * were handed out, and the rest. */
static void split_peak(const struct search *search, struct gs_peak *peak)
{
    struct gs_peak_site cached = {0};
    bool known = peak->part_count > 0;

    for (size_t i = 0; i < peak->part_count; i++) {
        known = known && peak->parts[i].held.stack != 0;
    }
    struct gs_peak_site *places =
        known ? calloc(peak->count + peak->part_count + 1, sizeof(*places)) : NULL;
    if (!places) {
        return;
    }
    memcpy(places, peak->places, peak->count * sizeof(*places));
    free(peak->places);
    peak->places = places;
    size_t kept = join_cached(search, peak, &cached);
    if (cached.held.count == 0) {
        return; /* parts of other memory, which has records of its own */
    }
    put_parts(peak, kept, cached);
    peak->freed_bytes = 0;
    for (size_t i = 0; i < peak->count; i++) {
        peak->freed_bytes += peak->places[i].held.lost ? 0
                                                       : peak->places[i].held.bytes -
                                                             peak->places[i].live_bytes;
    }
    gs_peak_sort(peak);
}

void gs_report_split_peaks(const struct gs_tracker *tracker,
                           const struct gs_report_source *source,
                           struct gs_report_data *data)
{
    struct search search = {.stacks = tracker->config.stacks, .source = source};

    if (!data->parts.known || !search.stacks ||
        !(search.known = calloc(FRAMES_KEPT, sizeof(*search.known)))) {
        return;
    }
    for (unsigned i = 0; i < GS_MAX_DEVICES; i++) {
        split_peak(&search, &data->peaks[i]);
    }
    free(search.known);
}

/* ---- queries ----------------------------------------------------------------------- */

const char *gs_report_cached_by(const struct gs_group *group)
{
    return group->cached_by && !gs_report_is_kept(group)
               ? gs_frame_family_name(rows[group->cached_by - 1].family)
               : NULL;
}

bool gs_report_is_kept(const struct gs_group *group)
{
    return group->cached_by == KEPT;
}

const char *gs_report_cached_unseen(const struct gs_report_data *data,
                                    const struct gs_group *group)
{
    unsigned row = group->cached_by - 1u;

    /* The parts are known by address. */
    if (data->parts.known && group->holds != GS_HOLDS_UNKNOWN && is_reported(row + 1)) {
        return NULL;
    }
    return rows[row].unseen;
}

unsigned gs_report_cache_rows(void)
{
    return ROWS;
}
