/*
 * rule_notes.c - what peak: and deny: rules leave open: calls that a rule could not be
 * compared with, and rules that matched nothing, which may be a misspelt pattern.
 *
 * A program that keeps a rule may have nothing that the rule matches: it never makes a
 * call that is denied. Such a rule is expected to match nothing; one is not if its
 * pattern names nothing that the process has, or that gpushim knows.
 *
 * Owns: nothing beyond the report's data.   Lock: none.
 * Design: docs/suppressions.md, "Budgets"
 */
#include "tracker/report/report_internal.h"

#include <stdio.h>
#include <string.h>

/* Returns true if there is an allocation function that the pattern matches. */
static bool names_function(const struct gs_tracker *tracker,
                           const struct gs_report_config *config, const char *pattern)
{
    for (size_t i = 0; i < tracker->config.api_count; i++) {
        const char *name = tracker->config.api_names[i];
        if (name && gs_pattern_matches(pattern, name)) {
            return true;
        }
    }
    for (size_t i = 0; i < config->runtime_name_count; i++) {
        const char *name = config->runtime_names[i];
        if (name && gs_pattern_matches(pattern, name)) {
            return true;
        }
    }
    return false;
}

/* Returns true if the pattern matches the name of a scope that was begun. */
static bool names_scope(const struct gs_report_scopes *scopes, const char *pattern)
{
    for (size_t i = 0; i < scopes->count; i++) {
        const char *path = scopes->items[i].path;
        if (gs_report_scope_matches(path, strlen(path), pattern)) {
            return true;
        }
    }
    return false;
}

/* The scope that a deny: rule waits for; NULL: none. */
static const char *scope_of(const struct gs_report_config *config,
                            const struct gs_rule *rule)
{
    const struct gs_phases *phases = gs_suppressions_phases(config->suppressions);

    for (unsigned i = 0; i < phases->count; i++) {
        if (rule->phase == 1u << i) {
            return phases->items[i].scope;
        }
    }
    return NULL;
}

/* Fills in why a deny: rule matched no call. */
static void explain_deny(const struct gs_tracker *tracker,
                         const struct gs_report_config *config,
                         const struct gs_report_data *data, struct gs_rule_note *note)
{
    const char *scope = scope_of(config, note->rule);

    if (!names_function(tracker, config, note->rule->pattern)) {
        snprintf(note->why, sizeof(note->why), "no allocating function has this name");
    } else if (scope && !names_scope(&data->scopes, scope)) {
        snprintf(note->why, sizeof(note->why), "no such scope was begun");
    } else {
        snprintf(note->why, sizeof(note->why), "no such call was made");
        note->expected = true;
    }
}

/* Fills in why a peak: rule matched no memory. */
static void explain_peak(const struct gs_report_data *data, struct gs_rule_note *note)
{
    if (note->rule->pattern[0]) {
        snprintf(note->why, sizeof(note->why),
                 "the peak has no memory of such a call site");
        note->expected = names_scope(&data->scopes, note->rule->pattern);
    } else {
        snprintf(note->why, sizeof(note->why), "nothing was allocated there");
    }
}

/* Returns true if the rule is only compared with what a process has at its own end. */
static bool needs_own_end(const struct gs_rule *rule)
{
    return rule->kind == GS_RULE_DENY || rule->pattern[0];
}

/* Returns false if the rule leaves nothing open. */
static bool fill_note(const struct gs_tracker *tracker,
                      const struct gs_report_config *config,
                      const struct gs_report_data *data, const struct gs_rule_use *use,
                      struct gs_rule_note *note)
{
    char count[32];

    if (use->unjudged != 0) {
        note->name = "not judged";
        snprintf(note->why, sizeof(note->why), "%s call%s without a call stack",
                 gs_text_count(use->unjudged, count), gs_report_plural(use->unjudged));
        return true;
    }
    if (config->running || use->matched != 0) {
        return false; /* of a running program it may still match */
    }
    if (config->killed && needs_own_end(note->rule)) {
        note->name = "not judged";
        snprintf(note->why, sizeof(note->why), "the process ended without a report");
        return true;
    }
    struct gs_tracker_totals sum;
    gs_totals_sum(data->totals, &sum);
    if (sum.allocs == 0) {
        return false; /* the rules may be those of other processes */
    }
    note->name = "never matched";
    if (note->rule->kind == GS_RULE_DENY) {
        explain_deny(tracker, config, data, note);
    } else {
        explain_peak(data, note);
    }
    return true;
}

bool gs_report_is_budget(const struct gs_rule *rule)
{
    return rule->kind == GS_RULE_PEAK || rule->kind == GS_RULE_DENY;
}

bool gs_report_rule_note(const struct gs_tracker *tracker,
                         const struct gs_report_config *config,
                         const struct gs_report_data *data, uint32_t number,
                         struct gs_rule_note *out)
{
    const struct gs_rule *rule = gs_suppressions_rule(config->suppressions, number);

    *out = (struct gs_rule_note){.rule = rule};
    return data->uses && gs_report_is_budget(rule) &&
           fill_note(tracker, config, data, &data->uses[number], out);
}

bool gs_report_next_rule_note(const struct gs_tracker *tracker,
                              const struct gs_report_config *config,
                              const struct gs_report_data *data, bool all, uint32_t *at,
                              struct gs_rule_note *out)
{
    while (*at < gs_suppressions_count(config->suppressions)) {
        if (gs_report_rule_note(tracker, config, data, (*at)++, out) &&
            (!out->expected || all)) {
            return true;
        }
    }
    return false;
}

void gs_report_rule_notes(const struct gs_report_writer *writer)
{
    struct gs_rule_note note;
    uint32_t at = 0;
    char text[512];

    while (gs_report_next_rule_note(writer->tracker, writer->config, writer->data,
                                    writer->config->show_devices, &at, &note)) {
        gs_text_add(writer->text, "%s%c%s: %s, by %s\n", writer->prefix,
                    note.name[0] + 'A' - 'a', note.name + 1, note.why,
                    gs_report_rule_text(note.rule, text, sizeof(text)));
    }
}
