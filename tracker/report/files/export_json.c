/*
 * export_json.c - the whole report as JSON, by docs/schema/report-1.json.
 *
 * Frames and modules are in tables, once each; a stack is a list of frame numbers.
 * Version 1 only ever gains members.
 *
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include "tracker/report/files/export_json_devices.h"

#include <stdlib.h>

#define VERSION 1

/* ---- stacks ----------------------------------------------------------------------- */

static void put_frames(const struct gs_export *export, struct gs_json *json,
                       const char *key, const struct gs_export_stack *stack,
                       uint32_t begin, uint32_t end)
{
    gs_json_member_open(json, key, '[');
    for (uint32_t i = begin; i < end; i++) {
        gs_json_number(json, export->frames[stack->first + i]);
    }
    gs_json_close(json, ']');
}

/* Writes what the report folds before the first frame. */
static void put_inner(const struct gs_export *export, struct gs_json *json,
                      const struct gs_export_stack *stack)
{
    const uint32_t *numbers = &export->frames[stack->first + stack->begin - stack->inner];
    struct gs_symbol_request *frames = calloc(stack->inner, sizeof(*frames));
    char families[160];

    for (uint32_t i = 0; frames && i < stack->inner; i++) {
        frames[i] = export->locations[numbers[i]];
    }
    gs_json_member_text(json, "inner",
                        frames ? gs_report_families(frames, stack->inner, families)
                               : NULL);
    free(frames);
}

/* Writes the stack of an error or call site: as the report shows it, and all of it. */
static void put_stack(const struct gs_export *export, struct gs_json *json,
                      const struct gs_export_stack *stack)
{
    if (!stack) {
        gs_json_member_null(json, "stack");
        gs_json_member_null(json, "full_stack");
        gs_json_member_bool(json, "truncated", false);
        return;
    }
    put_frames(export, json, "stack", stack, stack->begin, stack->end);
    if (stack->inner != 0) {
        put_inner(export, json, stack);
    }
    put_frames(export, json, "full_stack", stack, 0, stack->count);
    gs_json_member_bool(json, "truncated",
                        gs_stacks_truncated(export->tracker->config.stacks, stack->id));
}

static void put_frame(const struct gs_export *export, struct gs_json *json, size_t number)
{
    const struct gs_symbol_request *location = &export->locations[number];
    const struct gs_symbol *symbol = &location->result;

    gs_json_open(json, '{');
    if (gs_frame_is_python(location->frame)) {
        gs_json_member_null(json, "address");
    } else {
        gs_json_member_hex(json, "address", location->frame);
    }
    if (location->module) {
        gs_json_member(json, "module", export->location_modules[number]);
        gs_json_member_hex(json, "offset", gs_export_offset(location));
    } else {
        gs_json_member_null(json, "module");
        gs_json_member_null(json, "offset");
    }
    gs_json_member_text(json, "function", symbol->function);
    gs_json_member_text(json, "linkage", symbol->linkage);
    gs_json_member_text(json, "file", symbol->file);
    if (symbol->line != 0) {
        gs_json_member(json, "line", symbol->line);
    } else {
        gs_json_member_null(json, "line");
    }
    if (location->inlined) {
        gs_json_member_bool(json, "inlined", true);
    }
    if (gs_report_frame_family(location)) {
        gs_json_member_text(json, "family", gs_report_frame_family(location));
    }
    gs_json_close(json, '}');
}

static void put_module(struct gs_json *json, const struct gs_module *module)
{
    char id[GS_BUILD_ID_TEXT];

    gs_json_open(json, '{');
    gs_json_member_text(json, "path", module->path);
    gs_export_build_id(module, id);
    gs_json_member_text(json, "build_id", id[0] ? id : NULL);
    gs_json_member_hex(json, "begin", module->begin);
    gs_json_member_hex(json, "end", module->end);
    gs_json_member_hex(json, "bias", module->bias);
    gs_json_close(json, '}');
}

static void put_code(const struct gs_export *export, struct gs_json *json)
{
    gs_json_member_open(json, "frames", '[');
    for (size_t i = 0; i < export->location_count; i++) {
        put_frame(export, json, i);
    }
    gs_json_close(json, ']');
    gs_json_member_open(json, "modules", '[');
    for (size_t i = 0; i < export->module_count; i++) {
        put_module(json, &export->modules[i]);
    }
    gs_json_close(json, ']');
}

/* ---- the process ------------------------------------------------------------------ */

static void put_process(const struct gs_export *export, struct gs_json *json)
{
    const struct gs_report_config *config = export->config;
    uint64_t status = 0;
    bool has_status = gs_export_exit_status(export, &status);

    gs_json_member_open(json, "process", '{');
    gs_json_member(json, "pid", (uint64_t)config->pid);
    gs_json_member_text(json, "command", config->command);
    gs_json_member_text(json, "program", export->job->program);
    gs_json_member_text(json, "host", config->hostname);
    if (config->rank >= 0) {
        gs_json_member(json, "rank", (uint64_t)config->rank);
    } else {
        gs_json_member_null(json, "rank");
    }
    gs_json_member_text(json, "ending", config->ending);
    gs_json_member_bool(json, "running", config->running);
    if (config->killed) {
        gs_json_member_bool(json, "killed", true);
    }
    if (config->killed_by) {
        gs_json_member_text(json, "killed_by", config->killed_by);
    }
    gs_json_member_or_null(json, "exit_status", has_status, status);
    if (config->uncounted && config->uncounted[0]) {
        gs_json_member_text(json, "uncounted", config->uncounted);
    }
    if (config->order_ended && config->order_ended[0]) {
        gs_json_member_text(json, "order_ended", config->order_ended);
    }
    if (export->summary->no_start) {
        gs_json_member_text(json, "no_start", config->no_start);
    }
    gs_json_close(json, '}');
}

static void put_time(const struct gs_export *export, struct gs_json *json)
{
    uint64_t duration_ms = export->source->now_ns / 1000000;
    uint64_t end_ms = export->job->end_unix_ms;

    gs_json_member_open(json, "time", '{');
    gs_json_member(json, "start_unix_ms",
                   end_ms > duration_ms ? end_ms - duration_ms : 0);
    gs_json_member(json, "end_unix_ms", end_ms);
    if (export->job->killed_unix_ms) {
        gs_json_member(json, "killed_unix_ms", export->job->killed_unix_ms);
    }
    gs_json_member(json, "duration_ns", export->source->now_ns);
    gs_json_close(json, '}');
}

static void put_options(const struct gs_export *export, struct gs_json *json)
{
    gs_json_member_open(json, "options", '{');
    for (size_t i = 0; i < export->job->option_count; i++) {
        gs_json_member_text(json, export->job->options[i].name,
                            export->job->options[i].value);
    }
    gs_json_close(json, '}');
}

/* ---- leaks and owners ------------------------------------------------------------- */

static void put_device_of(struct gs_json *json, unsigned kind, int device)
{
    if (gs_export_on_host(kind, device)) {
        gs_json_member_null(json, "device");
    } else {
        gs_json_member(json, "device", (uint64_t)device);
    }
}

/* Writes the memory of a device, or of a row apart from the devices. */
static void put_row(struct gs_json *json, unsigned row)
{
    bool on_device = row < GS_ROW_PINNED;

    gs_json_member_or_null(json, "device", on_device, row);
    gs_json_member_text(json, "memory",
                        on_device ? "device"
                                  : gs_report_rows[row - GS_ROW_PINNED].member);
}

static void put_call(const struct gs_export *export, struct gs_json *json,
                     const struct gs_export_stack *stack, const struct gs_group *group)
{
    gs_json_member_text(json, "call", gs_export_call_of(export, stack, group));
    gs_json_member_text(json, "kind", gs_export_kind(group->kind));
    put_device_of(json, group->kind, group->device);
}

/* Writes the estimate, if stacks are sampled. */
static void put_likely(const struct gs_export *export, struct gs_json *json,
                       const struct gs_group *group)
{
    if (!gs_tracker_is_sampled(export->tracker)) {
        return;
    }
    gs_json_member(json, "likely_bytes", gs_likely(group->likely_bytes));
    gs_json_member(json, "likely_count", gs_group_likely_count(group));
}

/* Writes the reason why a group has no stack on purpose. */
static void put_no_stack(struct gs_json *json, const struct gs_group *group)
{
    if (gs_stack_left_out(group->stack)) {
        gs_json_member_text(json, "no_stack",
                            group->stack == GS_STACK_TOO_SMALL ? "too small"
                                                               : "not sampled");
    }
}

static void put_place(const struct gs_export *export, struct gs_json *json,
                      const struct gs_group *group, const char *fate)
{
    const struct gs_export_stack *stack = gs_export_stack(export, group->stack);

    gs_json_open(json, '{');
    gs_json_member(json, "bytes", group->bytes);
    gs_json_member(json, "count", group->count);
    put_call(export, json, stack, group);
    gs_json_member_text(json, "fate", fate);
    gs_json_member(json, "oldest_ns", group->oldest_ns);
    gs_json_member(json, "newest_ns", group->newest_ns);
    put_stack(export, json, stack);
    if (group->suppressed_by != 0) {
        gs_json_member_text(
            json, "rule",
            gs_suppressions_rule(export->config->suppressions, group->suppressed_by - 1)
                ->pattern);
    }
    if (gs_report_cached_by(group)) {
        gs_json_member_text(json, "cached_by", gs_report_cached_by(group));
    }
    if (gs_report_is_kept(group)) {
        gs_json_member_text(json, "held_by", "Python");
    }
    put_likely(export, json, group);
    if (export->config->growth) {
        gs_json_member_bool(json, "growing",
                            gs_growth_has(export->config->growth, group));
    }
    put_no_stack(json, group);
    gs_json_close(json, '}');
}

static void put_groups(const struct gs_export *export, struct gs_json *json,
                       const char *key, size_t begin, size_t end)
{
    char fate[160];

    gs_json_member_open(json, key, '[');
    for (size_t i = begin; i < end; i++) {
        const struct gs_group *group = &export->data->groups.items[i];
        put_place(export, json, group, gs_scan_fate(group, fate));
    }
    gs_json_close(json, ']');
}

static void put_leaks(const struct gs_export *export, struct gs_json *json)
{
    const struct gs_report_data *data = export->data;

    put_groups(export, json, "leaks", 0, data->leak_groups);
    put_groups(export, json, "suppressed", data->leak_groups, data->groups.count);
    gs_json_member_open(json, "registered", '[');
    for (size_t i = 0; i < data->registered.count; i++) {
        put_place(export, json, &data->registered.items[i], "still registered at exit");
    }
    gs_json_close(json, ']');
    gs_json_member_open(json, "not_grouped", '{');
    gs_json_member(json, "bytes",
                   data->leaked_bytes - data->grouped_bytes - data->unplaced_bytes);
    gs_json_member(json, "count", gs_report_not_grouped(data));
    gs_json_close(json, '}');
}

/* Writes the limits of a partial record, and the leaks without a call site. */
static void put_recorded(const struct gs_export *export, struct gs_json *json)
{
    const struct gs_sampling sampling = gs_tracker_sampling(export->tracker);
    const struct gs_groups *unplaced = &export->data->unplaced;
    struct gs_tracker_windows windows;
    uint64_t changed_ns = 0;
    const uint32_t changes = gs_tracker_resampled(export->tracker, &changed_ns);
    char fate[160];

    gs_tracker_get_windows(export->tracker, &windows);
    if (sampling.distance_bytes == 0 && sampling.min_bytes == 0 && changes == 0 &&
        !windows.switched) {
        return;
    }
    gs_json_member_open(json, "recorded", '{');
    gs_json_member(json, "sample_bytes", sampling.distance_bytes);
    gs_json_member(json, "always_bytes", sampling.always_bytes);
    gs_json_member(json, "min_bytes", sampling.min_bytes);
    if (changes != 0) {
        gs_json_member(json, "sample_changes", changes);
        gs_json_member(json, "sample_changed_ns", changed_ns);
    }
    gs_json_member_bool(json, "attached", windows.attached);
    gs_json_member(json, "windows", windows.count);
    gs_json_member_or_null(json, "first_from_ns", windows.count > 0, windows.first_ns);
    gs_json_member_or_null(json, "from_ns", windows.count > 0, windows.from_ns);
    gs_json_member_or_null(json, "to_ns", windows.count > 0 && !windows.open,
                           windows.to_ns);
    gs_json_member(json, "suppressed_bytes", export->data->shared_bytes);
    gs_json_member(json, "suppressed_count", export->data->shared_count);
    gs_json_close(json, '}');
    gs_json_member_open(json, "unplaced", '[');
    for (size_t i = 0; i < unplaced->count; i++) {
        put_place(export, json, &unplaced->items[i],
                  gs_scan_fate(&unplaced->items[i], fate));
    }
    gs_json_close(json, ']');
}

static void put_owners(const struct gs_export *export, struct gs_json *json)
{
    gs_json_member_open(json, "owners", '[');
    for (size_t i = 0; i < export->owners.count; i++) {
        const struct gs_owner *owner = &export->owners.items[i];
        gs_json_open(json, '{');
        gs_json_member_text(json, "module",
                            owner->path ? gs_module_base_name(owner->path) : NULL);
        put_row(json, owner->row);
        gs_json_member(json, "bytes", owner->bytes);
        gs_json_member(json, "count", owner->count);
        gs_json_member_text(json, "path", owner->path);
        gs_json_close(json, '}');
    }
    gs_json_close(json, ']');
}

/* The owners of a device's memory, or of pinned memory, at the peak. */
static void put_peak_place(const struct gs_export *export, struct gs_json *json,
                           const struct gs_peak_site *place)
{
    const struct gs_group *held = &place->held;
    const struct gs_export_stack *stack = gs_export_stack(export, held->stack);

    gs_json_open(json, '{');
    gs_json_member(json, "bytes", held->bytes);
    gs_json_member(json, "count", held->count);
    gs_json_member(json, "live_bytes", place->live_bytes);
    gs_json_member(json, "live_count", place->live_count);
    gs_json_member_bool(json, "lost_with_context", held->lost);
    put_call(export, json, stack, held);
    put_stack(export, json, stack);
    if (gs_report_cached_by(held)) {
        gs_json_member_text(json, "cached_by", gs_report_cached_by(held));
    }
    put_likely(export, json, held);
    put_no_stack(json, held);
    gs_json_close(json, '}');
}

/* ---- scopes ----------------------------------------------------------------------- */

static void put_scope_totals(struct gs_json *json, const struct gs_scope_totals *totals)
{
    gs_json_member(json, "allocs", totals->allocs);
    gs_json_member(json, "alloc_bytes", totals->alloc_bytes);
    gs_json_member(json, "frees", totals->frees);
    gs_json_member(json, "free_bytes", totals->free_bytes);
    gs_json_member(json, "live_count", totals->live_count);
    gs_json_member(json, "live_bytes", totals->live_bytes);
    gs_json_member(json, "peak_bytes", totals->peak_bytes);
    gs_json_member(json, "lost_count", totals->lost_count);
    gs_json_member(json, "lost_bytes", totals->lost_bytes);
}

static void put_scope(const struct gs_export *export, struct gs_json *json,
                      const struct gs_report_scope *scope)
{
    gs_json_open(json, '{');
    gs_json_member_text(json, "path", scope->path);
    gs_json_member(json, "begun", scope->totals.begun);
    put_scope_totals(json, &scope->totals);
    if (scope->totals.missed != 0) {
        gs_json_member(json, "missed", scope->totals.missed);
    }
    gs_json_member_open(json, "memory", '[');
    for (unsigned row = 0; row < GS_ROWS; row++) {
        struct gs_scope_totals of_row;

        if (!gs_tracker_scope_totals(export->tracker, scope->number,
                                     gs_totals_device(row), &of_row) ||
            of_row.allocs == 0) {
            continue;
        }
        gs_json_open(json, '{');
        put_row(json, row);
        put_scope_totals(json, &of_row);
        gs_json_close(json, '}');
    }
    gs_json_close(json, ']');
    gs_json_close(json, '}');
}

/* Writes nothing in a program without scopes. */
static void put_scopes(const struct gs_export *export, struct gs_json *json)
{
    const struct gs_report_scopes *scopes = &export->data->scopes;

    if (scopes->count == 0) {
        return;
    }
    gs_json_member_open(json, "scopes", '[');
    for (size_t i = 0; i < scopes->count; i++) {
        put_scope(export, json, &scopes->items[i]);
    }
    gs_json_close(json, ']');
}

static void put_peaks(const struct gs_export *export, struct gs_json *json)
{
    gs_json_member_open(json, "peaks", '[');
    for (unsigned row = 0; row < GS_PEAK_ROWS; row++) {
        const struct gs_peak *peak = &export->data->peaks[row];

        if (!peak->known) {
            continue;
        }
        gs_json_open(json, '{');
        put_row(json, row);
        gs_json_member(json, "bytes", peak->bytes);
        gs_json_member(json, "time_ns", peak->time_ns);
        gs_json_member(json, "freed_bytes", peak->freed_bytes);
        gs_json_member_bool(json, "places_are_exact", !peak->about);
        gs_json_member_open(json, "places", '[');
        for (size_t k = 0; k < peak->count; k++) {
            put_peak_place(export, json, &peak->places[k]);
        }
        gs_json_close(json, ']');
        gs_json_close(json, '}');
    }
    gs_json_close(json, ']');
}

/* ---- errors ----------------------------------------------------------------------- */

static void put_thread(struct gs_json *json, uint32_t thread)
{
    if (thread != 0) {
        gs_json_member(json, "thread", thread);
    } else {
        gs_json_member_null(json, "thread");
    }
}

/* `call`: the name of a call that has no number; "": the call has one. */
static void put_site(const struct gs_export *export, struct gs_json *json,
                     const struct gs_free_site *site, const char *call)
{
    const struct gs_export_stack *stack = gs_export_stack(export, site->stack);

    if (call[0] == '\0' || (stack && stack->call)) {
        call = gs_export_call(export, stack, site->api);
    }
    gs_json_member(json, "time_ns", site->time_ns);
    put_thread(json, site->thread);
    gs_json_member_text(json, "call", call);
    put_stack(export, json, stack);
}

static void put_allocation(const struct gs_export *export, struct gs_json *json,
                           const struct gs_allocation *allocation)
{
    const struct gs_export_stack *stack = gs_export_stack(export, allocation->stack);

    gs_json_member_open(json, "allocation", '{');
    gs_json_member_hex(json, "address", allocation->addr);
    gs_json_member(json, "bytes", allocation->bytes);
    gs_json_member_text(json, "kind", gs_export_kind(allocation->kind));
    put_device_of(json, allocation->kind, allocation->device);
    gs_json_member(json, "time_ns", allocation->time_ns);
    put_thread(json, allocation->thread);
    gs_json_member_text(json, "call", gs_export_call(export, stack, allocation->api));
    put_stack(export, json, stack);
    gs_json_close(json, '}');
}

static void put_use(struct gs_json *json, const struct gs_error *error)
{
    if (!gs_error_is_use(error)) {
        gs_json_member_null(json, "use");
        return;
    }
    gs_json_member_open(json, "use", '{');
    gs_json_member_bool(json, "writes", error->writes);
    gs_json_member(json, "bytes", error->bytes);
    gs_json_member(json, "repeats", error->repeats);
    gs_json_close(json, '}');
}

/* The rule that was broken, and the figures that it is compared with. */
static void put_broken_rule(const struct gs_export *export, struct gs_json *json,
                            const struct gs_error *error)
{
    if (!gs_error_is_broken_rule(error)) {
        gs_json_member_null(json, "broken_rule");
        return;
    }
    const struct gs_rule *rule =
        gs_suppressions_rule(export->config->suppressions, error->beyond_rule - 1);
    char text[512];

    gs_json_member_open(json, "broken_rule", '{');
    gs_json_member_text(json, "rule", gs_report_rule_text(rule, text, sizeof(text)));
    gs_json_member(json, "bytes", error->bytes);
    if (error->kind == GS_ERROR_OVER_BUDGET) {
        gs_json_member(json, "max_bytes", rule->max_bytes);
    } else {
        gs_json_member_null(json, "max_bytes");
    }
    gs_json_close(json, '}');
}

static void put_error(const struct gs_export *export, struct gs_json *json,
                      const struct gs_error *error)
{
    gs_json_open(json, '{');
    gs_json_member_text(json, "error", gs_report_error_name(error->kind));
    gs_json_member_hex(json, "address", error->addr);
    put_device_of(json, GS_MEMORY_DEVICE, error->device);
    put_site(export, json, &error->freed, error->call);
    gs_json_member_text(json, "thread_name",
                        error->thread_name[0] ? error->thread_name : NULL);
    gs_json_member(json, "offset_bytes", error->offset);
    gs_json_member(json, "changed_bytes", error->changed_bytes);
    gs_json_member(json, "first_changed", error->first_changed);
    gs_json_member_bool(json, "lost_with_context", error->context_lost);
    gs_json_member(json, "repeats", error->repeats);
    gs_json_member(json, "waited_ns", error->waited_ns);
    put_use(json, error);
    put_broken_rule(export, json, error);
    if (error->has_first_free) {
        gs_json_member_open(json, "first_freed", '{');
        put_site(export, json, &error->first_freed, "");
        gs_json_close(json, '}');
    } else {
        gs_json_member_null(json, "first_freed");
    }
    if (error->has_allocation) {
        put_allocation(export, json, &error->allocation);
    } else {
        gs_json_member_null(json, "allocation");
    }
    gs_json_close(json, '}');
}

static void put_errors(const struct gs_export *export, struct gs_json *json)
{
    gs_json_member_open(json, "errors", '[');
    for (size_t i = 0; i < export->data->errors_kept; i++) {
        put_error(export, json, &export->data->errors[i]);
    }
    gs_json_close(json, ']');
}

/* ---- out of memory ---------------------------------------------------------------- */

/* What the driver said of the device, the limit that refused, and the pool's part. */
static void put_device_then(struct gs_json *json, const struct gs_report_refusal *refusal)
{
    bool known = refusal->device_bytes != 0, limited = refusal->limit[0] != '\0';

    gs_json_member_or_null(json, "device_bytes", known, refusal->device_bytes);
    gs_json_member_or_null(json, "free_bytes", known, refusal->free_bytes);
    gs_json_member_text(json, "limit", limited ? refusal->limit : NULL);
    gs_json_member_or_null(json, "limit_bytes", limited, refusal->limit_bytes);
    gs_json_member_or_null(json, "limit_free_bytes", limited, refusal->limit_free_bytes);
    gs_json_member(json, "live_bytes", refusal->live_bytes);
    gs_json_member(json, "rounding_bytes", refusal->rounding_bytes);
    gs_json_member(json, "pending_bytes", refusal->pending_bytes);
    gs_json_member(json, "idle_bytes", refusal->idle_bytes);
    gs_json_member(json, "returned_bytes", refusal->returned_bytes);
    gs_json_member_or_null(json, "elsewhere_bytes", refusal->elsewhere_known,
                           refusal->elsewhere_bytes);
    gs_json_member_or_null(json, "not_allocated_via_api_bytes", refusal->own_known,
                           refusal->own_bytes);
    gs_json_member(json, "largest_piece_bytes", refusal->piece_bytes);
    gs_json_member_text(json, "largest_piece", refusal->piece_bar);
}

static void put_refusal(const struct gs_export *export, struct gs_json *json,
                        const struct gs_report_refusal *refusal)
{
    const struct gs_export_stack *stack = gs_export_stack(export, refusal->stack);

    gs_json_open(json, '{');
    gs_json_member(json, "time_ns", refusal->time_ns);
    put_thread(json, refusal->thread);
    gs_json_member_text(json, "call", gs_export_call(export, stack, refusal->api));
    gs_json_member_or_null(json, "bytes", refusal->bytes != 0, refusal->bytes);
    gs_json_member(json, "device", (uint64_t)refusal->device);
    put_device_then(json, refusal);
    gs_json_member_open(json, "tries", '[');
    for (unsigned i = 0; i < refusal->try_count; i++) {
        gs_json_open(json, '{');
        gs_json_member_text(json, "try", refusal->advice[i].name);
        gs_json_member_text(json, "text", refusal->advice[i].text);
        gs_json_close(json, '}');
    }
    gs_json_close(json, ']');
    put_stack(export, json, stack);
    gs_json_close(json, '}');
}

static void put_refusals(const struct gs_export *export, struct gs_json *json)
{
    gs_json_member_open(json, "out_of_memory", '[');
    for (size_t i = 0; i < export->config->refusal_count; i++) {
        put_refusal(export, json, &export->config->refusals[i]);
    }
    gs_json_close(json, ']');
}

/* ---- checks ----------------------------------------------------------------------- */

/* The numbers of checks made, and omitted. */
static void put_checks(const struct gs_export *export, struct gs_json *json)
{
    static const char *const keys[] = {
#define GS_CHECK(name, key, text) key,
#include "tracker/checks.def"
    };
    const uint64_t *checks = export->tracker->checks;

    gs_json_member_open(json, "checks", '{');
    gs_json_member(json, "looked_at",
                   __atomic_load_n(&checks[GS_CHECK_DONE], __ATOMIC_RELAXED));
    gs_json_member_open(json, "not_looked_at", '{');
    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++) {
        gs_json_member(json, keys[i], __atomic_load_n(&checks[i], __ATOMIC_RELAXED));
    }
    gs_json_close(json, '}');
    gs_json_close(json, '}');
}

/* The results of GPUSHIM_FREE_SYNC=verify. */
static void put_proof(const struct gs_export *export, struct gs_json *json)
{
    const struct gs_report_proof *proof = export->config->proof;

    if (!proof) {
        gs_json_member_null(json, "idle_proof");
        return;
    }
    gs_json_member_open(json, "idle_proof", '{');
    gs_json_member(json, "checked", proof->checked);
    gs_json_member(json, "violated", proof->violated);
    gs_json_member(json, "not_checked", proof->unchecked);
    gs_json_member(json, "longest_wait_ns", proof->longest_ns);
    gs_json_member_text(json, "ended_by", proof->ended_by[0] ? proof->ended_by : NULL);
    gs_json_member_open(json, "look_ups", '[');
    for (size_t i = 0; i < proof->look_up_count; i++) {
        gs_json_text(json, proof->look_ups[i]);
    }
    gs_json_close(json, ']');
    gs_json_close(json, '}');
}

static struct gs_hint_place find_place(const void *self, uint32_t id)
{
    const struct gs_export_stack *stack = gs_export_stack(self, id);

    return (struct gs_hint_place){.call = stack ? stack->call : NULL,
                                  .frame = gs_export_frame(self, stack, 0)};
}

static const struct gs_symbol_request *find_frame(const void *self, uint32_t id,
                                                  unsigned number)
{
    return gs_export_frame(self, gs_export_stack(self, id), number);
}

/* What there was too much of. */
static void put_hints(const struct gs_export *export, struct gs_json *json)
{
    const struct gs_hint_source source = {.tracker = export->tracker,
                                          .config = export->config,
                                          .data = export->data,
                                          .leaks = export->data->leak_groups,
                                          .self = export,
                                          .find = find_place,
                                          .frame = find_frame};
    struct gs_report_hint hint;
    unsigned at = 0;

    gs_json_member_open(json, "hints", '[');
    while (gs_report_next_hint(&source, &at, &hint)) {
        gs_json_open(json, '{');
        gs_json_member_text(json, "hint", hint.name);
        gs_json_member_or_null(json, "device", hint.device >= 0, (uint64_t)hint.device);
        gs_json_member_text(json, "text", hint.text);
        if (hint.stack != 0) {
            put_stack(export, json, gs_export_stack(export, hint.stack));
        }
        gs_json_close(json, '}');
    }
    gs_json_close(json, ']');
}

/* ---- rules ------------------------------------------------------------------------ */

static void put_rule(const struct gs_export *export, struct gs_json *json,
                     uint32_t number)
{
    const struct gs_rule *rule =
        gs_suppressions_rule(export->config->suppressions, number);
    struct gs_rule_note note;
    char text[512];

    gs_json_open(json, '{');
    gs_json_member_text(json, "rule", gs_report_rule_text(rule, text, sizeof(text)));
    gs_json_member(json, "matched", export->data->uses[number].matched);
    gs_json_member(json, "not_judged", export->data->uses[number].unjudged);
    if (gs_report_rule_note(export->tracker, export->config, export->data, number,
                            &note)) {
        gs_json_member_open(json, "note", '{');
        gs_json_member_text(json, "note", note.name);
        gs_json_member_text(json, "why", note.why);
        gs_json_member_bool(json, "expected", note.expected);
        gs_json_close(json, '}');
    } else {
        gs_json_member_null(json, "note");
    }
    gs_json_close(json, '}');
}

/* The peak: and deny: rules. Writes nothing without rules. */
static void put_rules(const struct gs_export *export, struct gs_json *json)
{
    const struct gs_suppressions *rules = export->config->suppressions;

    if (!export->data->uses || !(gs_suppressions_has(rules, GS_RULE_PEAK) ||
                                 gs_suppressions_has(rules, GS_RULE_DENY))) {
        return;
    }
    gs_json_member_open(json, "rules", '[');
    for (uint32_t i = 0; i < gs_suppressions_count(rules); i++) {
        if (gs_report_is_budget(gs_suppressions_rule(rules, i))) {
            put_rule(export, json, i);
        }
    }
    gs_json_close(json, ']');
}

/* ---- slow copies ------------------------------------------------------------------ */

static void put_slow_copy(const struct gs_export *export, struct gs_json *json,
                          const struct gs_transfer_site *site)
{
    static const char *const names[] = {"pageable", "small", "waited", "slow",
                                        "returned"};
    const struct gs_export_stack *stack = gs_export_stack(export, site->stack);
    unsigned hints = gs_transfer_hints(site);

    gs_json_open(json, '{');
    gs_json_member_text(json, "call", stack && stack->call ? stack->call : site->call);
    gs_json_member_text(json, "to", site->to_host ? "host" : "device");
    gs_json_member_open(json, "hints", '[');
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (hints >> i & 1u) {
            gs_json_text(json, names[i]);
        }
    }
    gs_json_close(json, ']');
    gs_json_member(json, "count", site->count);
    gs_json_member(json, "bytes", site->bytes);
    gs_json_member(json, "least_bytes", site->least_bytes);
    gs_json_member(json, "most_bytes", site->most_bytes);
    gs_json_member(json, "pageable_count", site->pageable_count);
    gs_json_member(json, "pageable_bytes", site->pageable_bytes);
    gs_json_member(json, "small_count", site->small_count);
    gs_json_member(json, "in_a_row_count", site->in_a_row_count);
    gs_json_member(json, "waited_count", site->waited_count);
    gs_json_member(json, "timed_count", site->timed_count);
    gs_json_member(json, "fastest_bytes_per_s", site->fastest_rate);
    gs_json_member(json, "unaligned_count", site->unaligned_count);
    gs_json_member(json, "returned_count", site->returned_count);
    gs_json_member(json, "returned_bytes", site->returned_bytes);
    put_stack(export, json, stack);
    gs_json_close(json, '}');
}

static void put_copies(struct gs_json *json, const struct gs_transfer_way *way)
{
    gs_json_open(json, '{');
    gs_json_member_text(json, "to", way->to_host ? "host" : "device");
    gs_json_member_text(json, "memory", gs_report_transfer_memory(way->memory));
    gs_json_key(json, "asynchronous");
    gs_json_bool(json, way->asynchronous);
    gs_json_member(json, "count", way->count);
    gs_json_member(json, "bytes", way->bytes);
    gs_json_member(json, "fastest_bytes_per_s", way->fastest_rate);
    gs_json_close(json, '}');
}

/* Writes nothing if copies were not recorded. */
static void put_slow_copies(const struct gs_export *export, struct gs_json *json)
{
    const struct gs_transfer_list *slow = &export->data->slow;

    if (!export->config->transfers) {
        return;
    }
    gs_json_member_open(json, "copies", '[');
    for (unsigned i = 0; i < slow->way_count; i++) {
        put_copies(json, &slow->ways[i]);
    }
    gs_json_close(json, ']');
    gs_json_member_open(json, "slow_copies", '[');
    for (size_t i = 0; i < slow->count; i++) {
        put_slow_copy(export, json, &slow->sites[i]);
    }
    gs_json_close(json, ']');
    gs_json_member_open(json, "other_copies", '{');
    gs_json_member(json, "count", slow->rest_count);
    gs_json_member(json, "bytes", slow->rest_bytes);
    gs_json_close(json, '}');
}

/* ---- lifetimes -------------------------------------------------------------------- */

static void put_lifetime(const struct gs_export *export, struct gs_json *json,
                         const struct gs_churn_site *site)
{
    const struct gs_export_stack *stack = gs_export_stack(export, site->stack);
    const struct gs_group as_group = {.stack = site->stack,
                                      .api = site->api,
                                      .device = site->device,
                                      .kind = site->kind};

    gs_json_open(json, '{');
    put_call(export, json, stack, &as_group);
    gs_json_member(json, "allocs", site->count);
    gs_json_member(json, "alloc_bytes", site->bytes);
    gs_json_member(json, "most_bytes", site->most_bytes);
    gs_json_member(json, "live_count", site->live_count);
    gs_json_member(json, "most_live_count", site->most_live);
    gs_json_member(json, "short_count", site->short_count);
    gs_json_member(json, "freed_count", site->ended_count);
    gs_json_member(json, "freed_life_ns", site->ended_ns);
    gs_json_member(json, "longest_life_ns", site->longest_ns);
    put_stack(export, json, stack);
    gs_json_close(json, '}');
}

/* Writes nothing if they were not recorded. */
static void put_lifetimes(const struct gs_export *export, struct gs_json *json)
{
    const struct gs_churn_list *churn = &export->data->churn;

    if (!export->config->churn) {
        return;
    }
    gs_json_member_open(json, "lifetimes", '[');
    for (size_t i = 0; i < churn->count; i++) {
        put_lifetime(export, json, &churn->sites[i]);
    }
    gs_json_close(json, ']');
}

/* ---- the whole report ------------------------------------------------------------- */

static void put_summary(const struct gs_export *export, struct gs_json *json)
{
    const struct gs_report_summary *summary = export->summary;
    struct gs_tracker_totals sum;

    gs_totals_sum(export->data->totals, &sum);
    gs_json_member_open(json, "summary", '{');
    gs_json_member(json, "errors", summary->errors);
    gs_json_member(json, "leaked_bytes", summary->leaked_bytes);
    gs_json_member(json, "leaked_count", summary->leaked_count);
    gs_json_member(json, "places", summary->leak_groups);
    gs_json_member(json, "peak_bytes", sum.peak_bytes);
    gs_json_member(json, "allocs", sum.allocs);
    gs_json_close(json, '}');
}

enum gs_status gs_export_write_json(const struct gs_export *export,
                                    const struct gs_export_sink *sink)
{
    const struct gs_report_source *source = export->source;
    struct gs_json json = {.depth = 0};

    gs_out_begin(&json.out, sink);
    gs_json_open(&json, '{');
    gs_json_member_text(&json, "schema", "gpushim-report");
    gs_json_member(&json, "version", VERSION);
    gs_json_member_text(&json, "gpushim", export->config->version);
    put_process(export, &json);
    put_time(export, &json);
    put_summary(export, &json);
    gs_json_devices(export, &json);
    put_errors(export, &json);
    put_refusals(export, &json);
    put_checks(export, &json);
    put_proof(export, &json);
    put_hints(export, &json);
    put_rules(export, &json);
    put_leaks(export, &json);
    put_recorded(export, &json);
    put_owners(export, &json);
    put_scopes(export, &json);
    put_peaks(export, &json);
    put_slow_copies(export, &json);
    put_lifetimes(export, &json);
    put_code(export, &json);
    gs_json_member_text(&json, "note", source->note ? source->note(source->self) : NULL);
    put_options(export, &json);
    gs_json_units(export, &json);
    gs_json_close(&json, '}');
    gs_out_char(&json.out, '\n');
    return gs_out_end(&json.out);
}
