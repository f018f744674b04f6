/*
 * export.c - builds the snapshot behind the exported files, and answers their writers.
 * Owns: a struct gs_export while a report is written.
 * Lock: none; parts of the tracker are read under theirs.   Design: docs/outputs.md
 */
#include "gs_compare.h"
#include "tracker/report/export_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- samples ---------------------------------------------------------------------- */

struct live_sum {
    struct gs_samples *samples;
    const struct gs_tracker *tracker;
    enum gs_status status;
};

static bool add_live(void *arg, const struct gs_allocation *allocation)
{
    struct live_sum *sum = arg;
    double weight = gs_tracker_weight(sum->tracker, allocation);
    struct gs_sample part = {.stream = allocation->stream,
                             .stack = allocation->stack,
                             .api = allocation->api,
                             .device = allocation->device,
                             .kind = allocation->kind,
                             .live_count = 1,
                             .live_bytes = allocation->bytes,
                             .likely_live = weight,
                             .likely_live_bytes = weight * (double)allocation->bytes};

    sum->status = gs_samples_add(sum->samples, &part);
    return sum->status == GS_OK;
}

/* Stack ids and handles differ from run to run if threads race, so they are compared
 * last. */
static int compare_samples(const void *left, const void *right)
{
    const struct gs_sample *a = left, *b = right;

    return GS_FALLING(a->live_bytes, b->live_bytes) ?:
        GS_FALLING(a->alloc_bytes, b->alloc_bytes) ?:
        GS_FALLING(a->alloc_count, b->alloc_count) ?: GS_RISING(a->stack, b->stack) ?:
        GS_RISING(a->api, b->api) ?: GS_RISING(a->device, b->device) ?:
        GS_RISING(a->kind, b->kind) ?: GS_RISING(a->stream, b->stream);
}

/* Lists the samples as an array. Allocations missing from the tally for lack of memory
 * count as allocated while they are live. */
static enum gs_status list_samples(struct gs_export *export,
                                   const struct gs_samples *samples)
{
    export->samples =
        calloc(samples->count ? samples->count : 1, sizeof(*export->samples));
    if (!export->samples) {
        return GS_ERR_HOST_NOMEM;
    }
    for (size_t i = 0; i < samples->capacity; i++) {
        struct gs_sample sample = samples->slots[i];
        if (!sample.used) {
            continue;
        }
        if (sample.alloc_count < sample.live_count) {
            sample.alloc_count = sample.live_count;
        }
        if (sample.alloc_bytes < sample.live_bytes) {
            sample.alloc_bytes = sample.live_bytes;
        }
        if (sample.likely_allocs < sample.likely_live) {
            sample.likely_allocs = sample.likely_live;
        }
        if (sample.likely_alloc_bytes < sample.likely_live_bytes) {
            sample.likely_alloc_bytes = sample.likely_live_bytes;
        }
        export->samples[export->sample_count++] = sample;
    }
    qsort(export->samples, export->sample_count, sizeof(*export->samples),
          compare_samples);
    return GS_OK;
}

static enum gs_status fill_samples(struct gs_export *export)
{
    struct gs_samples samples = {0};
    struct live_sum sum = {
        .samples = &samples, .tracker = export->tracker, .status = GS_OK};

    if (!export->job->samples) {
        return GS_OK;
    }
    gs_records_visit(export->tracker, add_live, &sum);
    if (sum.status == GS_OK && export->tracker->tally) {
        sum.status = gs_tally_copy(export->tracker->tally, false, &samples);
    }
    if (sum.status == GS_OK) {
        sum.status = list_samples(export, &samples);
    }
    gs_samples_free(&samples);
    return sum.status;
}

/* ---- the whole snapshot ----------------------------------------------------------- */

/* Names the stacks of everything that some format writes. */
static enum gs_status fill_stacks(struct gs_export *export)
{
    const struct gs_report_data *data = export->data;
    struct gs_stack_ids ids = {0};
    enum gs_status status = GS_ERR_HOST_NOMEM;

    gs_stack_ids_add_groups(&ids, &data->groups, 0, data->groups.count);
    gs_stack_ids_add_groups(&ids, &data->registered, 0, data->registered.count);
    gs_stack_ids_add_errors(&ids, data);
    for (size_t i = 0; i < export->config->refusal_count; i++) {
        gs_stack_ids_add(&ids, export->config->refusals[i].stack);
    }
    gs_stack_ids_add_slow(&ids, data, data->slow.count);
    gs_stack_ids_add_lifetimes(&ids, data, data->churn.count);
    gs_stack_ids_add_hints(&ids, data);
    for (size_t i = 0; i < GS_PEAK_ROWS; i++) {
        for (size_t k = 0; k < data->peaks[i].count; k++) {
            gs_stack_ids_add(&ids, data->peaks[i].places[k].held.stack);
        }
    }
    for (size_t i = 0; i < export->sample_count; i++) {
        gs_stack_ids_add(&ids, export->samples[i].stack);
    }
    for (size_t i = 0; i < export->job->more_stack_count; i++) {
        gs_stack_ids_add(&ids, export->job->more_stacks[i]);
    }
    if (!ids.failed) {
        status = gs_export_fill_stacks(export, ids.items, ids.count);
    }
    free(ids.items);
    return status;
}

static void free_export(struct gs_export *export)
{
    free(export->modules);
    free(export->locations);
    free(export->location_modules);
    free(export->stacks);
    free(export->frames);
    free(export->samples);
    gs_owners_free(&export->owners);
    memset(export, 0, sizeof(*export));
}

/* Errors: GS_ERR_HOST_NOMEM, with nothing allocated. */
static enum gs_status make_export(struct gs_export *export,
                                  const struct gs_report_writer *writer,
                                  const struct gs_report_summary *summary)
{
    enum gs_status status;

    *export = (struct gs_export){.tracker = writer->tracker,
                                 .config = writer->config,
                                 .job = writer->config->job,
                                 .source = writer->source,
                                 .data = writer->data,
                                 .summary = summary};
    status = fill_samples(export);
    if (status == GS_OK && export->job->stacks) {
        status = fill_stacks(export);
    }
    if (status != GS_OK) {
        free_export(export);
        return status;
    }
    gs_owners_gather(&export->owners, writer->tracker->config.stacks, writer->source,
                     writer->data, false);
    return GS_OK;
}

void gs_export_run(const struct gs_report_writer *writer,
                   const struct gs_report_summary *summary, struct gs_text *names)
{
    const struct gs_export_job *job = writer->config->job;
    struct gs_export export;

    if (make_export(&export, writer, summary) != GS_OK) {
        job->write(job->self, NULL, names);
        return;
    }
    job->write(job->self, &export, names);
    free_export(&export);
}

/* ---- queries of the writers ------------------------------------------------------- */

size_t gs_export_frames(const struct gs_export *export)
{
    return export->location_count;
}

size_t gs_export_shown(const struct gs_export *export, uint32_t id,
                       struct gs_export_frame *frames, size_t most)
{
    const struct gs_export_stack *stack = gs_export_stack(export, id);
    size_t count = 0;

    for (uint32_t i = stack ? stack->begin : 0; stack && i < stack->end && count < most;
         i++) {
        uint32_t number = export->frames[stack->first + i];
        const struct gs_symbol_request *request = &export->locations[number];
        const struct gs_symbol *symbol = &request->result;

        if (i != stack->begin && gs_report_frame_is_carrier(request)) {
            continue;
        }
        frames[count++] =
            (struct gs_export_frame){.function = symbol->function,
                                     .file = symbol->file,
                                     .module = gs_report_frame_module_path(request),
                                     .line = symbol->line,
                                     .number = number,
                                     .offset = gs_export_offset(request)};
    }
    return count;
}

const char *gs_export_owner(const struct gs_export *export, uint32_t stack)
{
    return gs_report_owner(export->tracker->config.stacks, export->source, stack);
}

const char *gs_export_call(const struct gs_export *export,
                           const struct gs_export_stack *stack, uint16_t api)
{
    return gs_report_call_name(export->tracker, stack ? stack->call : NULL, api);
}

const char *gs_export_call_of(const struct gs_export *export,
                              const struct gs_export_stack *stack,
                              const struct gs_group *group)
{
    return gs_group_is_parts(group) ? GS_REPORT_PART
                                    : gs_export_call(export, stack, group->api);
}

const struct gs_symbol_request *gs_export_frame(const struct gs_export *export,
                                                const struct gs_export_stack *stack,
                                                unsigned number)
{
    return stack && number < stack->end - stack->begin
               ? &export->locations[export->frames[stack->first + stack->begin + number]]
               : NULL;
}

const char *gs_export_kind(unsigned kind)
{
    static const char *const names[GS_MEMORY_KINDS] = {
#define GS_MEMORY_KIND(name, word, row, place, doc) [GS_MEMORY_##name] = (word),
#include "tracker/kinds.def"
#undef GS_MEMORY_KIND
    };

    return kind < GS_MEMORY_KINDS && names[kind] ? names[kind] : "other";
}

bool gs_export_on_host(unsigned kind, int device)
{
    unsigned row = gs_totals_row(device, kind);

    return device < 0 || row == GS_ROW_PINNED || row == GS_ROW_REGISTERED;
}

bool gs_export_exit_status(const struct gs_export *export, uint64_t *status)
{
    static const char ways[][12] = {"exit ", "_exit ", "quick_exit "};
    const char *ending = export->config->ending;

    for (size_t i = 0; ending && i < GS_ARRAY_LEN(ways); i++) {
        size_t length = strlen(ways[i]);
        if (strncmp(ending, ways[i], length) == 0) {
            *status = strtoull(ending + length, NULL, 10);
            return true;
        }
    }
    return false;
}

uint64_t gs_export_offset(const struct gs_symbol_request *location)
{
    if (location->result.offset != 0) {
        return location->result.offset;
    }
    return location->module ? location->frame - 1 - location->module->bias : 0;
}

const char *gs_export_build_id(const struct gs_module *module, char out[GS_BUILD_ID_TEXT])
{
    out[0] = '\0';
    for (unsigned i = 0; i < module->build_id_len && i < sizeof(module->build_id); i++) {
        snprintf(out + 2 * i, 3, "%02x", module->build_id[i]);
    }
    return out;
}
