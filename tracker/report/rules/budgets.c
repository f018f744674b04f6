/*
 * budgets.c - rules that a program has to keep: peak:, a budget of memory at the
 * process's peak, and deny:, calls that may not be made. What breaks one is an error of
 * the report, like a wrong free.
 *
 * Each rule is judged on its own. The calls are those of the tally, which sums up all
 * allocations by call site, and by the conditions that held (phases.h).
 *
 * Owns: nothing beyond the report's data.   Lock: none.
 * Design: docs/suppressions.md, "Budgets"
 */
#include "gs_compare.h"
#include "tracker/report/report_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct judge {
    const struct gs_tracker *tracker;
    const struct gs_report_config *config;
    const struct gs_frame_table *frames;
    struct gs_report_data *data;
};

bool gs_report_has_budgets(const struct gs_report_config *config)
{
    return gs_suppressions_has(config->suppressions, GS_RULE_PEAK);
}

void gs_report_gather_calls(struct gs_tracker *tracker,
                            const struct gs_report_config *config, const uint16_t *apis,
                            size_t api_count, struct gs_report_data *data)
{
    if (!tracker->tally || !gs_suppressions_has(config->suppressions, GS_RULE_DENY)) {
        return;
    }
    /* Without memory some call sites are missing. */
    (void)!gs_tally_copy(tracker->tally, true, &data->calls);
    for (size_t i = 0; i < data->calls.capacity; i++) {
        struct gs_sample *call = &data->calls.slots[i];
        call->api = call->api < api_count ? apis[call->api] : call->api;
    }
}

void gs_report_budget_stacks(const struct gs_report_config *config,
                             const struct gs_report_data *data, struct gs_stack_ids *ids)
{
    for (unsigned row = 0; gs_report_has_budgets(config) && row < GS_ROW_PINNED; row++) {
        for (size_t i = 0; i < data->peaks[row].count; i++) {
            gs_stack_ids_add(ids, data->peaks[row].places[i].held.stack);
        }
    }
    for (size_t i = 0; i < data->calls.capacity; i++) {
        if (data->calls.slots[i].used) {
            gs_stack_ids_add(ids, data->calls.slots[i].stack);
        }
    }
}

/* ---- stacks ----------------------------------------------------------------------- */

/* The frames of a stack that a rule may name: those that the report shows, and the
 * frameworks' before them. */
static struct gs_shown_stack frames_of(const struct judge *judge, uint32_t stack)
{
    struct gs_shown_stack shown =
        gs_frame_table_show(judge->frames, judge->config, stack);

    if (shown.count != 0) {
        shown.frames -= shown.inner;
        shown.count += shown.inner;
    }
    return shown;
}

static bool has_frame(const struct gs_shown_stack *shown, const char *pattern)
{
    for (unsigned i = 0; i < shown->count; i++) {
        if (gs_report_frame_matches(&shown->frames[i], pattern)) {
            return true;
        }
    }
    return false;
}

/* Returns true if the rule of a budget names the call site: a frame, its file, and
 * callers of it. */
static bool names_site(const struct judge *judge, const struct gs_rule *rule,
                       uint32_t stack)
{
    if (!rule->pattern[0]) {
        return true;
    }
    struct gs_shown_stack shown = frames_of(judge, stack);
    for (unsigned i = 0; i < shown.count; i++) {
        const struct gs_symbol_request *frame = &shown.frames[i];
        if (gs_report_frame_matches(frame, rule->pattern) &&
            gs_pattern_matches_file(rule->file, frame->result.file) &&
            (!rule->from || gs_report_callers_match(&shown, i, rule->from))) {
            return true;
        }
    }
    return false;
}

/* ---- errors ----------------------------------------------------------------------- */

/* Adds the error, or counts it where there is no room. */
static void add_error(struct gs_report_data *data, const struct gs_error *error)
{
    data->error_count += 1 + error->repeats;
    if (data->errors_kept < GS_ARRAY_LEN(data->errors)) {
        data->errors[data->errors_kept++] = *error;
    } else {
        data->errors_more += 1 + error->repeats;
    }
}

static void count_matched(const struct judge *judge, uint32_t number, uint64_t count)
{
    if (judge->data->uses) {
        judge->data->uses[number].matched += count;
    }
}

/* Judges a budget of a device. */
static void judge_peak(const struct judge *judge, uint32_t number, unsigned row)
{
    const struct gs_rule *rule =
        gs_suppressions_rule(judge->config->suppressions, number);
    const struct gs_peak *peak = &judge->data->peaks[row];
    struct gs_error error = {
        .kind = GS_ERROR_OVER_BUDGET, .device = (int)row, .beyond_rule = number + 1};
    uint64_t largest = 0, sum = 0, matched = 0;

    for (size_t i = 0; i < peak->count; i++) {
        const struct gs_group *held = &peak->places[i].held;
        if (!names_site(judge, rule, held->stack) ||
            (rule->pattern[0] && held->cached_by != 0)) {
            continue; /* a cache is in use by no call site */
        }
        matched++;
        sum += gs_group_shown_bytes(held);
        if (gs_peak_is_placed(held) && gs_group_shown_bytes(held) > largest) {
            largest = gs_group_shown_bytes(held);
            error.freed.stack = held->stack;
            error.freed.api = held->api;
            snprintf(error.call, sizeof(error.call), "%s",
                     gs_group_is_parts(held) ? GS_REPORT_PART : "");
        }
    }
    if (!rule->pattern[0]) {
        matched = judge->data->totals[row].allocs;
        sum = judge->data->totals[row].peak_bytes;
    }
    error.bytes = sum;
    error.freed.time_ns = judge->data->totals[row].peak_time_ns;
    count_matched(judge, number, matched);
    if (error.bytes > rule->max_bytes) {
        add_error(judge->data, &error);
    }
}

/* Whether a rule asks for the callers of a call. */
static bool asks_callers(const struct gs_rule *rule)
{
    return rule->from || rule->not_from;
}

/* Returns true if the rule denies a call, whoever has made it. */
static bool names_call(const struct judge *judge, const struct gs_rule *rule,
                       const struct gs_sample *call, const struct gs_shown_stack *shown)
{
    return call->used && (call->phase & rule->phase) == rule->phase &&
           (rule->device < 0 || rule->device == call->device) &&
           gs_pattern_matches(rule->pattern, gs_report_call_name(judge->tracker,
                                                                 shown->call, call->api));
}

/* Returns true if the callers of a call, which are known, do not excuse it. */
static bool denies_callers(const struct gs_rule *rule, const struct gs_shown_stack *shown)
{
    if (rule->from && !gs_report_callers_match(shown, UINT32_MAX, rule->from)) {
        return false;
    }
    for (const char *from = rule->not_from; from && *from; from += strlen(from) + 1) {
        if (has_frame(shown, from)) {
            return false;
        }
    }
    return true;
}

/* Whether the rule denies a call. One without a known stack has no callers: it is counted
 * as unjudged if the rule asks for them. */
static bool denies(const struct judge *judge, const struct gs_rule *rule,
                   const struct gs_sample *call, struct gs_rule_use *use)
{
    struct gs_shown_stack shown = frames_of(judge, call->stack);

    if (!names_call(judge, rule, call, &shown)) {
        return false;
    }
    use->matched += call->alloc_count;
    if (asks_callers(rule) && shown.count == 0) {
        use->unjudged += call->alloc_count;
        return false;
    }
    return denies_callers(rule, &shown);
}

static bool is_same_call(const struct judge *judge, const struct gs_error *a,
                         const struct gs_error *b)
{
    if (a->beyond_rule != b->beyond_rule || a->device != b->device ||
        a->freed.api != b->freed.api) {
        return false;
    }
    struct gs_shown_stack one = frames_of(judge, a->freed.stack),
                          other = frames_of(judge, b->freed.stack);
    return a->freed.stack == b->freed.stack ||
           (one.count != 0 && gs_report_compare_stacks(&one, &other) == 0);
}

/* The most call sites first. */
static int compare_calls(const void *left, const void *right)
{
    const struct gs_error *a = left, *b = right;

    return GS_FALLING(a->repeats, b->repeats) ?: GS_FALLING(a->bytes, b->bytes) ?:
        GS_RISING(a->freed.stack, b->freed.stack);
}

/* A call of a rule, as an error. Stacks that were left out are one call site. `likely`:
 * it stands for them. */
static struct gs_error denied_site(const struct gs_sample *call, uint32_t number,
                                   bool likely)
{
    bool on_device = gs_totals_row(call->device, call->kind) < GS_ROW_PINNED;

    return (struct gs_error){
        .kind = GS_ERROR_DENIED_CALL,
        .device = on_device ? call->device : -1,
        .freed = {.stack =
                      gs_stack_left_out(call->stack) ? GS_STACK_NOT_SAMPLED : call->stack,
                  .api = call->api},
        .bytes = likely ? gs_likely(call->likely_alloc_bytes) : call->alloc_bytes,
        .repeats = likely ? gs_likely(call->likely_allocs) : call->alloc_count,
        .beyond_rule = number + 1};
}

/* Lists the denied calls by call site: as they were counted, or, if callers decide, what
 * those with a stack stand for. Returns how many sites there are. */
static size_t list_denied(const struct judge *judge, uint32_t number,
                          struct gs_error *sites, struct gs_rule_use *use)
{
    const struct gs_rule *rule =
        gs_suppressions_rule(judge->config->suppressions, number);
    const struct gs_samples *all = &judge->data->calls;
    size_t count = 0, same;

    for (size_t i = 0; i < all->capacity; i++) {
        const struct gs_sample *call = &all->slots[i];
        if (!denies(judge, rule, call, use)) {
            continue;
        }
        struct gs_error site = denied_site(call, number, asks_callers(rule));
        use->calls += site.repeats;
        for (same = 0; same < count && !is_same_call(judge, &sites[same], &site);) {
            same++;
        }
        if (same < count) {
            sites[same].repeats += site.repeats;
            sites[same].bytes += site.bytes;
        } else {
            sites[count++] = site;
        }
    }
    return count;
}

static void judge_calls(const struct judge *judge, uint32_t number)
{
    const struct gs_rule *rule =
        gs_suppressions_rule(judge->config->suppressions, number);
    size_t most = judge->data->calls.count;
    struct gs_error *sites = most ? calloc(most, sizeof(*sites)) : NULL;
    struct gs_rule_use *uses = judge->data->uses;
    uint64_t allowed = rule->max_count != GS_RULE_ANY ? rule->max_count : 0;

    if (!sites || !uses) {
        free(sites);
        return;
    }
    size_t count = list_denied(judge, number, sites, &uses[number]);
    qsort(sites, count, sizeof(*sites), compare_calls);
    for (size_t i = 0; i < count && uses[number].calls > allowed; i++) {
        sites[i].repeats -= sites[i].repeats != 0; /* those after the first */
        add_error(judge->data, &sites[i]);
    }
    free(sites);
}

void gs_report_judge_budgets(const struct gs_tracker *tracker,
                             const struct gs_report_config *config,
                             const struct gs_frame_table *frames,
                             struct gs_report_data *data)
{
    const struct judge judge = {tracker, config, frames, data};
    const uint32_t count = gs_suppressions_count(config->suppressions);

    if (!data->uses && count != 0) { /* nothing could be suppressed */
        data->uses = calloc(count, sizeof(*data->uses));
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct gs_rule *rule = gs_suppressions_rule(config->suppressions, i);
        if (rule->kind == GS_RULE_DENY) {
            judge_calls(&judge, i);
        }
        for (unsigned row = 0; rule->kind == GS_RULE_PEAK && row < GS_ROW_PINNED; row++) {
            if (rule->device < 0 || rule->device == (int)row) {
                judge_peak(&judge, i, row);
            }
        }
    }
}

/* ---- output ----------------------------------------------------------------------- */

void gs_report_broken_title(const struct gs_report_config *config,
                            const struct gs_report_data *data,
                            const struct gs_error *error, const char *call,
                            struct gs_text *text)
{
    const struct gs_rule *rule =
        gs_suppressions_rule(config->suppressions, error->beyond_rule - 1);
    struct gs_rule plain = *rule;
    char bytes[24], most[24], count[32], of[512];

    gs_text_bytes(error->bytes, bytes);
    plain.max_count = GS_RULE_ANY; /* printed apart */
    gs_report_rule_text(&plain, of, sizeof(of));
    if (error->kind == GS_ERROR_OVER_BUDGET) {
        gs_text_add(text, "%s: %s at the peak of GPU %d, more than the %s of %s",
                    gs_report_error_name(error->kind), bytes, error->device,
                    gs_text_bytes(rule->max_bytes, most), of);
        return;
    }
    gs_text_add(text, "%s: %s, ", gs_report_error_name(error->kind), call);
    if (error->device >= 0) {
        gs_text_add(text, "GPU %d, ", error->device);
    }
    gs_text_add(text, "%s call%s, %s", gs_text_count(error->repeats + 1, count),
                gs_report_plural(error->repeats + 1), bytes);
    if (rule->max_count != GS_RULE_ANY && data->uses) {
        const uint64_t calls = data->uses[error->beyond_rule - 1].calls;
        gs_text_add(text, ", %s call%s in all, more than max_count=%llu of %s",
                    gs_text_count(calls, count), gs_report_plural(calls),
                    (unsigned long long)rule->max_count, of);
    } else {
        gs_text_add(text, ", denied by %s", of);
    }
}

void gs_report_broken(const struct gs_report_writer *writer, size_t number,
                      const struct gs_error *error)
{
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, writer->config, error->freed.stack);
    const char *call = error->call[0] && !stack.call
                           ? error->call
                           : gs_report_call(writer, &stack, error->freed.api);
    char time[24];

    gs_text_add(writer->text, "%sERROR %zu: ", writer->prefix, number);
    gs_report_broken_title(writer->config, writer->data, error, call, writer->text);
    gs_text_add(writer->text, "\n");
    if (error->kind == GS_ERROR_OVER_BUDGET) {
        gs_text_add(writer->text, "%s  peak at %s", writer->prefix,
                    gs_text_duration(error->freed.time_ns, time));
        gs_text_add(writer->text,
                    error->freed.stack ? ", the largest call site, %s\n" : "\n", call);
    }
    if (error->freed.stack || error->kind == GS_ERROR_DENIED_CALL) {
        gs_report_stack(writer, &stack);
    }
    gs_report_blank(writer);
}
