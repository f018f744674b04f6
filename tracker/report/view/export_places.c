/*
 * export_places.c - the stacks of a snapshot, with each frame and each module once. A
 * function that is inlined in a frame is a location of its own, in front of the frame's.
 *
 * Stacks share most of their frames, so each frame is looked up and named once. This
 * keeps a report of thousands of call sites small and fast.
 *
 * Owns: arrays of struct gs_export while they are filled.   Lock: none.
 */
#include "gs_hash.h"
#include "tracker/report/export_internal.h"

#include <stdlib.h>

/* Stacks read from the stack table at a time; bounds the memory for their frames. */
#define STACKS_AT_A_TIME 1024

/* A location, by frame and module. */
struct seen {
    UT_hash_handle hh;
    struct seen_key {
        uintptr_t frame, module;
    } key;
    uint32_t location;
};

/* Makes space in an array for one more item. Returns false without memory. */
static bool make_room(void *array, size_t count, size_t *capacity, size_t size)
{
    void **items = array;
    size_t larger = *capacity ? *capacity * 2 : 64;

    if (count < *capacity) {
        return true;
    }
    void *moved = realloc(*items, larger * size);
    if (!moved) {
        return false;
    }
    *items = moved;
    *capacity = larger;
    return true;
}

static bool same_module(const struct gs_module *a, const struct gs_module *b)
{
    return a->begin == b->begin && a->bias == b->bias &&
           (a->path == b->path || strcmp(a->path, b->path) == 0);
}

/* Returns the number of a module, added if it is new. Neighbouring frames often share
 * one. */
static enum gs_status module_number(struct gs_export *export,
                                    const struct gs_module *module, uint32_t *number)
{
    if (*number < export->module_count &&
        same_module(&export->modules[*number], module)) {
        return GS_OK;
    }
    for (size_t i = 0; i < export->module_count; i++) {
        if (same_module(&export->modules[i], module)) {
            *number = (uint32_t)i;
            return GS_OK;
        }
    }
    if (!make_room(&export->modules, export->module_count, &export->module_capacity,
                   sizeof(*export->modules))) {
        return GS_ERR_HOST_NOMEM;
    }
    export->modules[export->module_count] = *module;
    *number = (uint32_t) export->module_count++;
    return GS_OK;
}

/* Makes space for one more location. */
static enum gs_status grow(struct gs_export *export)
{
    size_t capacity = export->location_capacity;

    if (export->location_count < capacity) {
        return GS_OK;
    }
    if (!make_room(&export->locations, export->location_count, &capacity,
                   sizeof(*export->locations))) {
        return GS_ERR_HOST_NOMEM;
    }
    uint32_t *modules = realloc(export->location_modules, capacity * sizeof(*modules));
    if (!modules) {
        return GS_ERR_HOST_NOMEM;
    }
    export->location_modules = modules;
    export->location_capacity = capacity;
    return GS_OK;
}

/* Returns the location of a frame, added if it is new. */
static enum gs_status location_number(struct gs_export *export, struct seen **seen,
                                      uintptr_t frame, uint32_t module, uint32_t *number)
{
    const struct seen_key key = {frame, module};
    struct seen *found = GS_HASH_FIND(*seen, &key);

    if (!found) {
        if (grow(export) != GS_OK || !(found = calloc(1, sizeof(*found)))) {
            return GS_ERR_HOST_NOMEM;
        }
        found->key = key;
        found->location = (uint32_t) export->location_count;
        if (!GS_HASH_ADD(*seen, key, found)) {
            free(found);
            return GS_ERR_HOST_NOMEM;
        }
        export->locations[export->location_count] =
            (struct gs_symbol_request){.frame = frame};
        export->location_modules[export->location_count++] = module;
    }
    *number = found->location;
    return GS_OK;
}

/* Takes the frames of one stack of a table that is not resolved. */
static enum gs_status take_stack(struct gs_export *export, struct seen **seen,
                                 const struct gs_frame_table *table, size_t number)
{
    struct gs_export_stack *stack = &export->stacks[export->stack_count];
    enum gs_status status = GS_OK;
    uint32_t last = GS_EXPORT_NONE;

    *stack = (struct gs_export_stack){.id = table->stacks[number],
                                      .first = (uint32_t) export->frame_count};
    for (size_t i = table->first[number]; i < table->first[number + 1]; i++) {
        const struct gs_symbol_request *request = &table->requests[i];
        uint32_t module = GS_EXPORT_NONE;

        if (request->module && request->module->path) {
            status = module_number(export, request->module, &last);
            module = last;
        }
        if (status == GS_OK && !make_room(&export->frames, export->frame_count,
                                          &export->frame_capacity, sizeof(uint32_t))) {
            status = GS_ERR_HOST_NOMEM;
        }
        if (status == GS_OK) {
            status = location_number(export, seen, request->frame, module,
                                     &export->frames[export->frame_count]);
        }
        if (status != GS_OK) {
            return status;
        }
        export->frame_count++;
        stack->count++;
    }
    export->stack_count++;
    return GS_OK;
}

/* Moves the program's module to the front: readers take the first module for the
 * program. */
static void put_program_first(struct gs_export *export)
{
    const char *program = export->job->program;
    size_t at = 0;

    while (program && at < export->module_count &&
           strcmp(export->modules[at].path, program) != 0) {
        at++;
    }
    if (!program || at == export->module_count || at == 0) {
        return;
    }
    struct gs_module first = export->modules[0];
    export->modules[0] = export->modules[at];
    export->modules[at] = first;
    for (size_t i = 0; i < export->location_count; i++) {
        if (export->location_modules[i] == 0) {
            export->location_modules[i] = (uint32_t)at;
        } else if (export->location_modules[i] == at) {
            export->location_modules[i] = 0;
        }
    }
}

/* Names all locations, each once; the modules do not move any more. */
static void resolve(struct gs_export *export)
{
    for (size_t i = 0; i < export->location_count; i++) {
        if (export->location_modules[i] != GS_EXPORT_NONE) {
            export->locations[i].module = &export->modules[export->location_modules[i]];
        }
    }
    gs_report_resolve(export->source, export->tracker->config.stacks, export->locations,
                      export->location_count);
}

/* Sets the range of frames that the report would show; `frames` has space for them. */
static void set_shown_range(const struct gs_export *export,
                            struct gs_symbol_request *frames,
                            struct gs_export_stack *stack, enum gs_inlined inlined)
{
    bool goes_on = gs_stacks_truncated(export->tracker->config.stacks, stack->id);
    uint32_t *numbers = &export->frames[stack->first];

    for (uint32_t i = 0; i < stack->count; i++) {
        frames[i] = export->locations[numbers[i]];
    }
    if (inlined == GS_INLINED_ADDED) {
        unsigned place =
            gs_report_place_scope(frames, stack->count, goes_on, export->config);
        if (place < stack->count) {
            uint32_t scope = numbers[stack->count - 1];
            memmove(&numbers[place + 1], &numbers[place],
                    (stack->count - 1 - place) * sizeof(*numbers));
            numbers[place] = scope;
        }
    }
    struct gs_shown_stack shown =
        gs_report_show_frames(frames, stack->count, goes_on, inlined, export->config);
    stack->begin = (uint32_t)(shown.frames - frames);
    stack->end = stack->begin + shown.count;
    stack->inner = shown.inner;
    stack->call = shown.call;
    stack->cut = shown.cut;
}

/* Sets the shown ranges of all stacks. */
static enum gs_status set_shown(struct gs_export *export, enum gs_inlined inlined)
{
    struct gs_symbol_request *frames;
    uint32_t longest = 1;

    for (size_t i = 0; i < export->stack_count; i++) {
        longest = export->stacks[i].count > longest ? export->stacks[i].count : longest;
    }
    frames = calloc(longest, sizeof(*frames));
    if (!frames) {
        return GS_ERR_HOST_NOMEM;
    }
    for (size_t i = 0; i < export->stack_count; i++) {
        set_shown_range(export, frames, &export->stacks[i], inlined);
    }
    free(frames);
    return GS_OK;
}

/* Looks up the lines, and with them the inlined functions, of the shown locations. What
 * is shown depends on names and modules alone. Debug files of the others, such as libc's,
 * may take longer to read than the program's own. */
static enum gs_status find_lines(struct gs_export *export)
{
    if (!export->source->find_lines) {
        return GS_OK;
    }
    if (set_shown(export, GS_INLINED_UNKNOWN) != GS_OK) {
        return GS_ERR_HOST_NOMEM;
    }
    for (size_t i = 0; i < export->location_count; i++) {
        export->locations[i].line_wanted = false;
    }
    for (size_t i = 0; i < export->stack_count; i++) {
        const struct gs_export_stack *stack = &export->stacks[i];
        for (uint32_t k = stack->begin; k < stack->end; k++) {
            export->locations[export->frames[stack->first + k]].line_wanted = true;
        }
    }
    export->source->find_lines(export->source->self, export->locations,
                               export->location_count);
    return GS_OK;
}

/* Puts inlined functions in front of the locations that contain them. `first` has space
 * for a number for each location, and one more. */
static enum gs_status add_locations(struct gs_export *export, uint32_t *first)
{
    size_t count = export->location_count;
    struct gs_symbol_request *locations;
    uint32_t *modules;

    first[0] = 0;
    for (size_t i = 0; i < count; i++) {
        first[i + 1] = first[i] + export->locations[i].result.inlined_count + 1;
    }
    if (first[count] == count) {
        return GS_OK;
    }
    locations = calloc(first[count], sizeof(*locations));
    modules = calloc(first[count], sizeof(*modules));
    if (!locations || !modules) {
        free(locations);
        free(modules);
        return GS_ERR_HOST_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        gs_report_put_inlined(&export->locations[i], &locations[first[i]]);
        for (uint32_t at = first[i]; at < first[i + 1]; at++) {
            modules[at] = export->location_modules[i];
        }
    }
    free(export->locations);
    free(export->location_modules);
    export->locations = locations;
    export->location_modules = modules;
    export->location_count = export->location_capacity = first[count];
    return GS_OK;
}

/* Replaces the frames of the stacks by the numbers that add_locations gave them. */
static enum gs_status add_frames(struct gs_export *export, const uint32_t *first)
{
    size_t count = 0, used = 0;
    uint32_t *frames;

    for (size_t i = 0; i < export->frame_count; i++) {
        count += first[export->frames[i] + 1] - first[export->frames[i]];
    }
    if (count == export->frame_count) {
        return GS_OK;
    }
    frames = calloc(count, sizeof(*frames));
    if (!frames) {
        return GS_ERR_HOST_NOMEM;
    }
    for (size_t i = 0; i < export->stack_count; i++) {
        struct gs_export_stack *stack = &export->stacks[i];
        const uint32_t *from = &export->frames[stack->first];
        uint32_t begin = (uint32_t)used;
        for (uint32_t k = 0; k < stack->count; k++) {
            for (uint32_t at = first[from[k]]; at < first[from[k] + 1]; at++) {
                frames[used++] = at;
            }
        }
        stack->first = begin;
        stack->count = (uint32_t)used - begin;
    }
    free(export->frames);
    export->frames = frames;
    export->frame_count = export->frame_capacity = used;
    return GS_OK;
}

static enum gs_status add_inlined(struct gs_export *export)
{
    uint32_t *first = calloc(export->location_count + 1, sizeof(*first));
    enum gs_status status = GS_ERR_HOST_NOMEM;

    if (first && (status = add_locations(export, first)) == GS_OK) {
        status = add_frames(export, first);
    }
    free(first);
    return status;
}

static void keep_classes(const struct gs_export *export)
{
    for (size_t i = 0; i < export->location_count; i++) {
        gs_report_keep_class(&export->locations[i]);
    }
}

enum gs_status gs_export_fill_stacks(struct gs_export *export, uint32_t *ids,
                                     size_t id_count)
{
    const struct gs_stacks *stacks = export->tracker->config.stacks;
    const struct gs_report_source unnamed = {.self = export->source->self,
                                             .module = export->source->module};
    enum gs_status status = GS_OK;
    struct seen *seen = NULL;
    size_t count = stacks ? gs_stack_ids_unique(ids, id_count) : 0;

    export->stacks = calloc(count ? count : 1, sizeof(*export->stacks));
    if (!export->stacks) {
        return GS_ERR_HOST_NOMEM;
    }
    for (size_t at = 0; at < count && status == GS_OK; at += STACKS_AT_A_TIME) {
        size_t part = count - at < STACKS_AT_A_TIME ? count - at : STACKS_AT_A_TIME;
        struct gs_frame_table table;

        gs_frame_table_fill(&table, export->config, stacks, &unnamed, ids + at, part);
        if (table.stack_count != part) {
            status = GS_ERR_HOST_NOMEM;
        }
        for (size_t i = 0; i < table.stack_count && status == GS_OK; i++) {
            status = take_stack(export, &seen, &table, i);
        }
        gs_frame_table_free(&table);
    }
    GS_HASH_FREE(seen);
    if (status != GS_OK) {
        return status;
    }
    put_program_first(export);
    resolve(export);
    keep_classes(export);
    status = find_lines(export);
    if (status == GS_OK) {
        status = add_inlined(export);
    }
    keep_classes(export);
    return status == GS_OK ? set_shown(export, GS_INLINED_ADDED) : status;
}

const struct gs_export_stack *gs_export_stack(const struct gs_export *export,
                                              uint32_t stack)
{
    size_t low = 0, high = export->stack_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (export->stacks[middle].id < stack) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < export->stack_count && export->stacks[low].id == stack
               ? &export->stacks[low]
               : NULL;
}
