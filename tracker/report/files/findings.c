/*
 * findings.c - see findings.h.
 * Owns: struct gs_findings.   Lock: none.   Design: docs/outputs.md
 */
#include "tracker/report/files/findings.h"

#include <stdlib.h>

const struct gs_finding_rule_text gs_finding_rules[GS_FINDING_RULES] = {
#define GS_FINDING_RULE(name, id, level, text) {id, level, text},
#include "tracker/report/files/findings.def"
#undef GS_FINDING_RULE
};

static enum gs_finding_rule rule_of(enum gs_error_kind kind)
{
    static const unsigned char rules[GS_ERROR_KINDS] = {
        [GS_ERROR_DOUBLE_FREE] = GS_FINDING_DOUBLE_FREE,
        [GS_ERROR_INVALID_FREE] = GS_FINDING_INVALID_FREE,
        [GS_ERROR_MISMATCHED_FREE] = GS_FINDING_MISMATCHED_FREE,
        [GS_ERROR_DAMAGE_BEHIND] = GS_FINDING_OVERRUN,
        [GS_ERROR_WRITE_AFTER_FREE] = GS_FINDING_WRITE_AFTER_FREE,
        [GS_ERROR_USE_AFTER_FREE] = GS_FINDING_USE_AFTER_FREE,
        [GS_ERROR_OVERRUN] = GS_FINDING_OVERRUN,
        [GS_ERROR_UNDERRUN] = GS_FINDING_UNDERRUN,
        [GS_ERROR_STRAY_USE] = GS_FINDING_STRAY_USE,
        [GS_ERROR_NOT_IDLE] = GS_FINDING_NOT_IDLE,
        [GS_ERROR_STALE_HANDLE] = GS_FINDING_STALE_HANDLE,
        [GS_ERROR_RELEASED_USE] = GS_FINDING_RELEASED_USE,
        [GS_ERROR_OVER_BUDGET] = GS_FINDING_OVER_BUDGET,
        [GS_ERROR_DENIED_CALL] = GS_FINDING_DENIED_CALL,
    };

    return rules[kind];
}

/* ---- calls and stacks ------------------------------------------------------------- */

static bool has_allocation(const struct gs_error *error)
{
    return error->has_allocation || gs_error_is_damage(error);
}

unsigned gs_finding_calls(const struct gs_finding *finding,
                          struct gs_finding_call out[GS_FINDING_CALLS])
{
    const struct gs_error *error = finding->error;
    unsigned count = 0;

    if (!error) {
        out[0] = (struct gs_finding_call){"allocated", finding->stack};
        return finding->group ? 1 : 0;
    }
    if (gs_error_is_broken_rule(error)) {
        out[0] = (struct gs_finding_call){"allocated", error->freed.stack};
        return 1;
    }
    if (!gs_error_is_damage(error) || error->freed.api != 0) {
        out[count++] =
            (struct gs_finding_call){gs_error_is_damage(error)             ? "found"
                                     : gs_error_is_use(error)              ? "used"
                                     : error->kind == GS_ERROR_DOUBLE_FREE ? "freed again"
                                                                           : "freed",
                                     error->freed.stack};
    }
    if (error->has_first_free && !error->context_lost) {
        out[count++] = (struct gs_finding_call){"freed", error->first_freed.stack};
    }
    if (has_allocation(error)) {
        out[count++] = (struct gs_finding_call){"allocated", error->allocation.stack};
    }
    return count;
}

/* The first stack that names a frame of the program. */
static uint32_t own_stack(const struct gs_export *export,
                          const struct gs_finding *finding)
{
    struct gs_finding_call calls[GS_FINDING_CALLS];
    unsigned count = gs_finding_calls(finding, calls);

    for (unsigned i = 0; i < count; i++) {
        if (gs_export_frame(export, gs_export_stack(export, calls[i].stack), 0)) {
            return calls[i].stack;
        }
    }
    return count > 0 ? calls[0].stack : 0;
}

/* The stack as the report shows it, with frames from malloc, which the caller frees.
 * Without memory there are none. */
static struct gs_shown_stack show(const struct gs_export *export, uint32_t id,
                                  struct gs_symbol_request **frames)
{
    const struct gs_export_stack *stack = gs_export_stack(export, id);
    struct gs_shown_stack shown = {.id = id};

    *frames = NULL;
    if (!stack || stack->begin == stack->end) {
        return shown;
    }
    uint32_t first = stack->begin - stack->inner, count = stack->end - first;
    *frames = calloc(count, sizeof(**frames));
    if (!*frames) {
        return shown;
    }
    for (uint32_t i = 0; i < count; i++) {
        (*frames)[i] = export->locations[export->frames[stack->first + first + i]];
    }
    shown.frames = *frames + stack->inner;
    shown.count = stack->end - stack->begin;
    shown.inner = stack->inner;
    shown.cut = stack->cut;
    return shown;
}

void gs_finding_stack(const struct gs_export *export, uint32_t id, struct gs_text *text)
{
    struct gs_symbol_request *frames;
    struct gs_shown_stack shown = show(export, id, &frames);
    struct gs_shown_paths paths = {.whole = true};
    const struct gs_report_writer writer = {
        .config = export->config, .paths = &paths, .text = text};

    gs_report_stack(&writer, &shown);
    free(frames);
}

void gs_finding_where(const struct gs_export *export, const struct gs_finding *finding,
                      struct gs_text *text)
{
    struct gs_symbol_request *frames;
    struct gs_shown_stack shown = show(export, finding->stack, &frames);
    const struct gs_report_writer writer = {.text = text};

    if (finding->group || finding->error) {
        gs_text_add(text, ", ");
        gs_report_where(&writer, &shown);
        gs_report_caller(&writer, &shown);
    }
    free(frames);
}

/* ---- texts ------------------------------------------------------------------------ */

static const char *call_of(const struct gs_export *export,
                           const struct gs_finding *finding)
{
    const struct gs_error *error = finding->error;
    const struct gs_export_stack *stack =
        gs_export_stack(export, error ? error->freed.stack : finding->stack);

    if (!error) {
        return gs_export_call_of(export, stack, finding->group);
    }
    return error->call[0] && !(stack && stack->call)
               ? error->call
               : gs_export_call(export, stack, error->freed.api);
}

static void error_title(const struct gs_export *export, const struct gs_finding *finding,
                        struct gs_text *text)
{
    const struct gs_error *error = finding->error;
    bool known = has_allocation(error);
    char bytes[24], place[64], count[32];

    gs_text_add(text, "%s", gs_report_error_name(error->kind));
    if (known) {
        gs_text_add(text, " of %s, %s", gs_text_bytes(error->allocation.bytes, bytes),
                    gs_report_memory_name(error->allocation.kind,
                                          error->allocation.device, place));
    } else if (error->device >= 0) {
        gs_text_add(text, ", GPU %d", error->device);
    }
    if (error->freed.api != 0 || error->call[0]) {
        gs_text_add(text, ", %s", call_of(export, finding));
    }
    if (error->changed_bytes != 0) {
        gs_text_add(text, ", %s byte%s changed",
                    gs_text_count(error->changed_bytes, count),
                    gs_report_plural(error->changed_bytes));
    }
    if (error->repeats != 0) {
        gs_text_add(text, ", %s times", gs_text_count(error->repeats + 1, count));
    }
}

void gs_finding_title(const struct gs_export *export, const struct gs_finding *finding,
                      struct gs_text *text)
{
    const struct gs_group *group = finding->group;
    char bytes[24], count[32], place[64];

    if (finding->error && gs_error_is_broken_rule(finding->error)) {
        gs_report_broken_title(export->config, export->data, finding->error,
                               call_of(export, finding), text);
        return;
    }
    if (finding->error) {
        error_title(export, finding, text);
        return;
    }
    gs_text_count(finding->count, count);
    if (finding->rule == GS_FINDING_MORE_ERRORS) {
        gs_text_add(text, "%s more error%s, only counted", count,
                    gs_report_plural(finding->count));
        return;
    }
    gs_text_add(text, "%s%s in %s allocation%s",
                group && gs_group_is_estimate(group) ? "about " : "",
                gs_text_bytes(finding->bytes, bytes), count,
                gs_report_plural(finding->count));
    if (group) {
        gs_text_add(text, ", %s, %s", call_of(export, finding),
                    gs_report_memory_name(group->kind, group->device, place));
    } else {
        gs_text_add(text, " not grouped: out of memory");
    }
}

/* Adds the scope of a stack. */
static void add_scope(const struct gs_export *export, uint32_t id, struct gs_text *text)
{
    const struct gs_export_stack *stack = gs_export_stack(export, id);

    for (uint32_t i = stack ? stack->begin : 0; stack && i < stack->end; i++) {
        const struct gs_symbol_request *frame =
            &export->locations[export->frames[stack->first + i]];
        if (gs_frame_is_scope(frame->frame) && frame->result.function) {
            gs_text_add(text, " ");
            gs_text_add_foreign(text, frame->result.function);
        }
    }
}

void gs_finding_name(const struct gs_export *export, const struct gs_finding *finding,
                     struct gs_text *text)
{
    const struct gs_error *error = finding->error;

    gs_text_add(text, "%s",
                error ? gs_report_error_name(error->kind)
                      : gs_finding_rules[finding->rule].id);
    if (error && gs_error_is_broken_rule(error)) {
        const struct gs_rule *rule =
            gs_suppressions_rule(export->config->suppressions, error->beyond_rule - 1);
        gs_text_add(text, ", %s:", gs_rule_kind_name(rule->kind));
        gs_text_add_foreign(text, rule->pattern);
        if (error->kind == GS_ERROR_OVER_BUDGET) { /* its largest call site may change */
            gs_text_add(text, ", GPU %d", error->device);
            return;
        }
    }
    if (finding->group || (error && (error->freed.api != 0 || error->call[0]))) {
        gs_text_add(text, ", %s", call_of(export, finding));
    }
    gs_finding_where(export, finding, text);
    add_scope(export, finding->stack, text);
}

void gs_finding_excuse(const struct gs_export *export, const struct gs_finding *finding,
                       struct gs_text *text)
{
    const struct gs_group *group = finding->group;
    uint32_t number = group            ? group->suppressed_by
                      : finding->error ? finding->error->suppressed_by
                                       : 0;
    char fate[160];

    if (number != 0) {
        const struct gs_rule *rule =
            gs_suppressions_rule(export->config->suppressions, number - 1);
        gs_text_add(text, "suppressed by ");
        gs_text_add_foreign(text, rule->pattern);
        if (rule->source) {
            gs_text_add(text, " (");
            gs_text_add_foreign(text, rule->source);
            gs_text_add(text, ":%u)", rule->line);
        }
    } else if (group && gs_report_cached_by(group)) {
        gs_text_add(text, "cached by %s, not a leak", gs_report_cached_by(group));
    } else if (group && gs_report_is_kept(group)) {
        gs_text_add(text, "held by globals until Python ended, not a leak");
    } else {
        gs_text_add(text, "%s",
                    group ? gs_report_fate(export->config, group, fate) : "live");
    }
}

const char *gs_finding_owner(const struct gs_export *export,
                             const struct gs_finding *finding)
{
    const char *owner = finding->stack ? gs_export_owner(export, finding->stack) : NULL;

    if (!owner) {
        owner = export->job->program;
    }
    return owner && owner[0] ? gs_module_base_name(owner) : "gpushim";
}

/* ---- keys ------------------------------------------------------------------------- */

/* Adds what is the same of a frame in every run: function and file, or the place in the
 * module; and the line if it counts. */
static void add_frame(const struct gs_symbol_request *frame, bool lines,
                      struct gs_text *text)
{
    const struct gs_symbol *symbol = &frame->result;

    gs_text_add(text, "\n%s\n%s", symbol->function ? symbol->function : "",
                symbol->file ? gs_module_base_name(symbol->file)
                             : gs_report_frame_module(frame));
    if (!symbol->function && frame->module) {
        gs_text_add(text, "+%llx", (unsigned long long)gs_export_offset(frame));
    }
    if (lines) {
        gs_text_add(text, ":%u", symbol->line);
    }
}

static uint64_t key_of(const struct gs_export *export, const struct gs_finding *finding,
                       bool lines, struct gs_text *text)
{
    const struct gs_export_stack *stack = gs_export_stack(export, finding->stack);

    text->length = 0;
    gs_text_add(text, "%s\n%s", gs_finding_rules[finding->rule].id,
                finding->group || finding->error ? call_of(export, finding) : "");
    for (uint32_t i = stack ? stack->begin : 0; stack && i < stack->end; i++) {
        const struct gs_symbol_request *frame =
            &export->locations[export->frames[stack->first + i]];
        if (i == stack->begin || !gs_report_frame_is_carrier(frame)) {
            add_frame(frame, lines, text);
        }
    }
    return gs_fnv1a(text->data ? text->data : "", text->length);
}

/* ---- order ------------------------------------------------------------------------ */

static int compare_numbers(const uint64_t *a, const uint64_t *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (a[i] != b[i]) {
            return a[i] < b[i] ? -1 : 1;
        }
    }
    return 0;
}

/* Where the memory of a finding is. */
static uint64_t memory_of(const struct gs_finding *finding)
{
    const struct gs_group *group = finding->group;

    return group ? (uint64_t)group->kind << 32 | (uint16_t)group->device : 0;
}

/* Faults first; of these the errors, then the leaks, the largest first. What differs from
 * run to run, such as addresses, times and the numbers of stacks, has no part in it. */
static int compare_findings(const void *left, const void *right)
{
    const struct gs_finding *a = left, *b = right;
    const uint64_t of_a[] = {a->verdict,
                             a->rule == GS_FINDING_LEAK,
                             a->error ? 0 : ~a->bytes,
                             a->error ? 0 : ~a->count,
                             a->rule,
                             a->key,
                             a->line_key,
                             memory_of(a)},
                   of_b[] = {b->verdict,
                             b->rule == GS_FINDING_LEAK,
                             b->error ? 0 : ~b->bytes,
                             b->error ? 0 : ~b->count,
                             b->rule,
                             b->key,
                             b->line_key,
                             memory_of(b)};

    return compare_numbers(of_a, of_b, GS_ARRAY_LEN(of_a));
}

/* Sizes have no part in it: a call site that grows keeps its ordinal. */
static int compare_keys(const void *left, const void *right)
{
    const struct gs_finding *a = *(struct gs_finding *const *)left,
                            *b = *(struct gs_finding *const *)right;
    const uint64_t of_a[] = {a->key, a->line_key, memory_of(a), a->verdict, a->bytes},
                   of_b[] = {b->key, b->line_key, memory_of(b), b->verdict, b->bytes};

    return compare_numbers(of_a, of_b, GS_ARRAY_LEN(of_a));
}

static enum gs_status number(struct gs_findings *findings)
{
    struct gs_finding **order = calloc(findings->count + 1, sizeof(*order));

    if (!order) {
        return GS_ERR_HOST_NOMEM;
    }
    for (size_t i = 0; i < findings->count; i++) {
        order[i] = &findings->items[i];
    }
    qsort(order, findings->count, sizeof(*order), compare_keys);
    for (size_t i = 0; i < findings->count; i++) {
        order[i]->ordinal =
            i > 0 && order[i - 1]->key == order[i]->key ? order[i - 1]->ordinal + 1 : 1;
    }
    free(order);
    return GS_OK;
}

/* ---- gather ----------------------------------------------------------------------- */

static void add_groups(const struct gs_export *export, const struct gs_groups *groups,
                       size_t leaks, struct gs_findings *out)
{
    bool live = gs_report_is_live(export->config);

    for (size_t i = 0; i < groups->count; i++) {
        const struct gs_group *group = &groups->items[i];
        out->items[out->count++] =
            (struct gs_finding){.rule = GS_FINDING_LEAK,
                                .verdict = i >= leaks             ? GS_FINDING_EXCUSED
                                           : live && !group->lost ? GS_FINDING_LIVE
                                                                  : GS_FINDING_FAULT,
                                .group = group,
                                .bytes = gs_group_shown_bytes(group),
                                .count = gs_group_shown_count(group),
                                .stack = group->stack};
    }
}

static void add_errors(const struct gs_export *export, struct gs_findings *out)
{
    const struct gs_report_data *data = export->data;

    for (size_t i = 0; i < data->errors_kept; i++) {
        const struct gs_error *error = &data->errors[i];
        out->items[out->count++] = (struct gs_finding){
            .rule = rule_of(error->kind),
            .verdict = error->suppressed_by ? GS_FINDING_EXCUSED : GS_FINDING_FAULT,
            .error = error,
            .count = error->repeats + 1};
    }
    if (data->errors_more != 0) {
        out->items[out->count++] = (struct gs_finding){.rule = GS_FINDING_MORE_ERRORS,
                                                       .count = data->errors_more};
    }
}

static void add_not_grouped(const struct gs_export *export, struct gs_findings *out)
{
    const struct gs_report_data *data = export->data;
    uint64_t lacking = gs_report_not_grouped(data);

    if (lacking != 0) {
        out->items[out->count++] = (struct gs_finding){
            .rule = GS_FINDING_LEAK,
            .verdict =
                gs_report_is_live(export->config) ? GS_FINDING_LIVE : GS_FINDING_FAULT,
            .bytes = data->leaked_bytes - data->grouped_bytes - data->unplaced_bytes,
            .count = lacking};
    }
}

enum gs_status gs_findings_gather(const struct gs_export *export, struct gs_findings *out)
{
    const struct gs_report_data *data = export->data;
    size_t most =
        data->groups.count + data->unplaced.count + data->errors_kept + 2; /* sums */
    struct gs_text text = {0};
    enum gs_status status = GS_ERR_HOST_NOMEM;

    *out = (struct gs_findings){.items = calloc(most, sizeof(*out->items))};
    if (!out->items) {
        return status;
    }
    add_groups(export, &data->groups, data->leak_groups, out);
    add_groups(export, &data->unplaced, data->unplaced.count, out);
    add_errors(export, out);
    add_not_grouped(export, out);
    for (size_t i = 0; i < out->count; i++) {
        struct gs_finding *finding = &out->items[i];
        if (finding->error) {
            finding->stack = own_stack(export, finding);
        }
        finding->key = key_of(export, finding, false, &text);
        finding->line_key = key_of(export, finding, true, &text);
    }
    if (!text.truncated) {
        qsort(out->items, out->count, sizeof(*out->items), compare_findings);
        status = number(out);
    }
    gs_text_free(&text);
    if (status != GS_OK) {
        gs_findings_free(out);
    }
    return status;
}

void gs_findings_free(struct gs_findings *findings)
{
    free(findings->items);
    *findings = (struct gs_findings){.items = NULL};
}
