/*
 * suppress.c - reads rules: a file's lines, and the built-in ones.
 * Owns: a struct gs_suppressions.   Lock: none.   Design: docs/suppressions.md
 */
#include "tracker/report/rules/suppress_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX 4096u

static const struct {
    const char *pattern;
    uint64_t max_count;
    const char *why;
} builtin[] = {
#define GS_SUPPRESSION(pattern, max_count, why) {pattern, max_count, why},
#include "tracker/report/rules/suppressions.def"
};

static const char *const kind_names[] = {
    [GS_RULE_LEAK] = "leak", [GS_RULE_FREE] = "free", [GS_RULE_OVERRUN] = "overrun",
    [GS_RULE_ARG] = "arg",   [GS_RULE_PEAK] = "peak", [GS_RULE_DENY] = "deny"};
static_assert(GS_ARRAY_LEN(kind_names) == GS_RULE_KINDS, "a name for each");

const char *gs_rule_kind_name(enum gs_rule_kind kind)
{
    return kind_names[kind];
}

/* ---- the table -------------------------------------------------------------------- */

enum gs_status gs_suppressions_create(struct gs_suppressions **out)
{
    struct gs_suppressions *rules = calloc(1, sizeof(*rules));

    if (!rules) {
        return GS_ERR_HOST_NOMEM;
    }
    *out = rules;
    return GS_OK;
}

void gs_suppressions_destroy(struct gs_suppressions *rules)
{
    if (!rules) {
        return;
    }
    gs_suppressions_drop_index(rules);
    while (rules->strings) {
        struct gs_rule_string *next = rules->strings->next;
        free(rules->strings);
        rules->strings = next;
    }
    free(rules->entries);
    free(rules);
}

uint32_t gs_suppressions_count(const struct gs_suppressions *rules)
{
    return rules ? rules->count : 0;
}

bool gs_suppressions_need_names(const struct gs_suppressions *rules)
{
    return rules && rules->of_files > 0;
}

bool gs_suppressions_has(const struct gs_suppressions *rules, enum gs_rule_kind kind)
{
    return rules && rules->of_kind[kind] > 0;
}

struct gs_phases *gs_suppressions_phases(struct gs_suppressions *rules)
{
    return &rules->phases;
}

const struct gs_rule *gs_suppressions_rule(const struct gs_suppressions *rules,
                                           uint32_t number)
{
    return &rules->entries[number].rule;
}

/* Copies `length` bytes and adds a NUL; the copy lives as long as the rules. NULL: no
 * memory. */
static char *keep(struct gs_suppressions *rules, const char *text, size_t length)
{
    struct gs_rule_string *string = malloc(sizeof(*string) + length + 1);

    if (!string) {
        return NULL;
    }
    memcpy(string->text, text, length);
    string->text[length] = '\0';
    string->next = rules->strings;
    rules->strings = string;
    return string->text;
}

static enum gs_status append(struct gs_suppressions *rules, const struct gs_rule *rule)
{
    if (rules->count == rules->capacity) {
        uint32_t capacity = rules->capacity ? rules->capacity * 2 : 32;
        struct gs_rule_entry *entries =
            realloc(rules->entries, capacity * sizeof(*entries));
        if (!entries) {
            return GS_ERR_HOST_NOMEM;
        }
        rules->entries = entries;
        rules->capacity = capacity;
    }
    gs_suppressions_drop_index(rules);
    rules->entries[rules->count++] = (struct gs_rule_entry){.rule = *rule};
    rules->of_files += rule->source != NULL;
    rules->of_kind[rule->kind]++;
    return GS_OK;
}

/* ---- one line --------------------------------------------------------------------- */

/* Kinds of rules of ThreadSanitizer and AddressSanitizer, which share files with
 * LeakSanitizer's. */
static const char foreign_kinds[][20] = {"race",
                                         "race_top",
                                         "thread",
                                         "mutex",
                                         "signal",
                                         "deadlock",
                                         "called_from_lib",
                                         "odr_violation",
                                         "interceptor_name",
                                         "interceptor_via_fun",
                                         "interceptor_via_lib"};

const char gs_rule_foreign[] = "a rule of another tool";

/* Returns NULL if the line is a rule, else the fault. */
static const char *parse_rule(struct gs_rule_span line, struct gs_rule_parsed *parsed)
{
    struct gs_rule *rule = &parsed->rule;
    const char *colon = memchr(line.begin, ':', gs_rule_length(line));
    struct gs_rule_span kind = {line.begin, colon ? colon : line.begin};
    struct gs_rule_span first, name, value;

    if (gs_rule_length(line) > LINE_BYTES_MAX) {
        return "longer than 4096 bytes";
    }
    if (memchr(line.begin, '\0', gs_rule_length(line))) {
        return "a NUL byte";
    }
    for (rule->kind = GS_RULE_LEAK; rule->kind < GS_RULE_KINDS; rule->kind++) {
        if (gs_rule_equals(kind, kind_names[rule->kind])) {
            break;
        }
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(foreign_kinds); i++) {
        if (rule->kind == GS_RULE_KINDS && gs_rule_equals(kind, foreign_kinds[i])) {
            return gs_rule_foreign;
        }
    }
    if (rule->kind == GS_RULE_KINDS) {
        return "not one of leak:, free:, overrun:, arg:, peak: and deny:";
    }
    parsed->pattern = gs_rule_trim((struct gs_rule_span){colon + 1, line.end});
    const char *wrong = gs_rule_take_settings(parsed);
    if (wrong) {
        return wrong;
    }
    if (rule->kind == GS_RULE_PEAK) {
        return rule->max_bytes != GS_RULE_ANY
                   ? NULL
                   : "a peak: rule needs max_bytes (such as max_bytes=2G)";
    }
    first = parsed->pattern;
    if (first.begin == first.end || gs_rule_is_setting(first, &name, &value)) {
        return "no pattern";
    }
    if (rule->kind == GS_RULE_DENY && memchr(first.begin, ' ', gs_rule_length(first))) {
        return "the pattern of a call has a space (callers are from= and not_from=)";
    }
    return NULL;
}
static_assert(LINE_BYTES_MAX == 4096 && GS_RULE_FROM_MAX == 8, "the messages name them");

static char *put_span(char *to, struct gs_rule_span span)
{
    if (span.begin) {
        memcpy(to, span.begin, gs_rule_length(span));
    }
    to += gs_rule_length(span);
    *to = '\0';
    return to + 1;
}

/* Copies the patterns of callers, the innermost first. NULL: no memory. */
static const char *keep_from(struct gs_suppressions *rules,
                             const struct gs_rule_parsed *parsed)
{
    size_t length = 1;

    for (unsigned i = 0; i < parsed->from_count; i++) {
        length +=
            gs_rule_length(parsed->from[i]) + gs_rule_length(parsed->from_files[i]) + 2;
    }
    char *text = malloc(length), *at = text;
    if (!text) {
        return NULL;
    }
    for (unsigned i = parsed->from_count; i-- > 0;) {
        at = put_span(put_span(at, parsed->from[i]), parsed->from_files[i]);
    }
    *at = '\0';
    const char *kept = keep(rules, text, length);
    free(text);
    return kept;
}

/* Copies the patterns that excuse a call. NULL: no memory. */
static const char *keep_not_from(struct gs_suppressions *rules,
                                 const struct gs_rule_parsed *parsed)
{
    size_t length = 1;

    for (unsigned i = 0; i < parsed->not_from_count; i++) {
        length += gs_rule_length(parsed->not_from[i]) + 1;
    }
    char *text = malloc(length), *at = text;
    if (!text) {
        return NULL;
    }
    for (unsigned i = parsed->not_from_count; i-- > 0;) {
        at = put_span(at, parsed->not_from[i]);
    }
    *at = '\0';
    const char *kept = keep(rules, text, length);
    free(text);
    return kept;
}

/* Adds the condition of a deny: rule; *wrong: the fault. */
static enum gs_status keep_after(struct gs_suppressions *rules,
                                 struct gs_rule_parsed *parsed, const char **wrong)
{
    if (!parsed->after.begin) {
        return GS_OK;
    }
    const char *after = keep(rules, parsed->after.begin, gs_rule_length(parsed->after));
    if (!after) {
        return GS_ERR_HOST_NOMEM;
    }
    rules->phases.matches = gs_pattern_matches;
    parsed->rule.after = after;
    parsed->rule.phase = gs_phases_add(
        &rules->phases, parsed->after_is_time ? NULL : after, parsed->after_ns);
    if (parsed->rule.phase == 0) {
        parsed->wrong = parsed->after;
        *wrong = "more than 8 different after= in all rules";
    }
    return GS_OK;
}

/* Reports the fault of a line, with the setting that has it. */
static void tell_wrong(const struct gs_rule_parsed *parsed, unsigned number,
                       const char *wrong, gs_rule_problem problem, void *self)
{
    char text[256];

    if (parsed->wrong.begin) {
        (void)snprintf(text, sizeof(text), "%s: %.*s", wrong,
                       (int)gs_rule_length(parsed->wrong), parsed->wrong.begin);
        wrong = text;
    }
    problem(self, number, wrong);
}

/* Parses a line of a file and adds its rule. Reports a malformed line to `problem`. */
static enum gs_status add_line(struct gs_suppressions *rules, const char *source,
                               struct gs_rule_span line, unsigned number,
                               gs_rule_problem problem, void *self)
{
    struct gs_rule_parsed parsed = {.rule = {.file = "",
                                             .device = -1,
                                             .max_count = GS_RULE_ANY,
                                             .max_bytes = GS_RULE_ANY,
                                             .source = source,
                                             .line = number}};
    struct gs_rule *rule = &parsed.rule;

    line = gs_rule_trim(line);
    if (line.begin == line.end || *line.begin == '#') {
        return GS_OK;
    }
    const char *wrong = parse_rule(line, &parsed);
    if (!wrong && keep_after(rules, &parsed, &wrong) != GS_OK) {
        return GS_ERR_HOST_NOMEM;
    }
    if (wrong) {
        tell_wrong(&parsed, number, wrong, problem, self);
        return GS_OK;
    }
    rule->pattern = keep(rules, parsed.pattern.begin, gs_rule_length(parsed.pattern));
    if (parsed.file.begin) {
        rule->file = keep(rules, parsed.file.begin, gs_rule_length(parsed.file));
    }
    if (parsed.from_count > 0) {
        rule->from = keep_from(rules, &parsed);
    }
    if (parsed.not_from_count > 0) {
        rule->not_from = keep_not_from(rules, &parsed);
    }
    if (!rule->pattern || !rule->file || (parsed.from_count > 0 && !rule->from) ||
        (parsed.not_from_count > 0 && !rule->not_from)) {
        return GS_ERR_HOST_NOMEM;
    }
    return append(rules, rule);
}

enum gs_status gs_suppressions_add(struct gs_suppressions *rules, const char *source,
                                   const char *text, size_t length,
                                   gs_rule_problem problem, void *self)
{
    static const char mark[] = "\xef\xbb\xbf"; /* some editors begin a file with it */
    const char *end = text + length;
    unsigned number = 0;

    source = keep(rules, source, strlen(source));
    if (!source) {
        return GS_ERR_HOST_NOMEM;
    }
    if (length >= 3 && memcmp(text, mark, 3) == 0) {
        text += 3;
    }
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        struct gs_rule_span line = {text, newline ? newline : end};
        enum gs_status status = add_line(rules, source, line, ++number, problem, self);
        if (status != GS_OK) {
            return status;
        }
        text = newline ? newline + 1 : end;
    }
    return GS_OK;
}

/* ---- the built-in rules ----------------------------------------------------------- */

enum gs_status gs_suppressions_add_builtin(struct gs_suppressions *rules)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(builtin); i++) {
        struct gs_rule rule = {.kind = GS_RULE_LEAK,
                               .pattern = builtin[i].pattern,
                               .file = "",
                               .device = -1,
                               .max_count = builtin[i].max_count,
                               .max_bytes = GS_RULE_ANY};
        enum gs_status status = append(rules, &rule);
        if (status != GS_OK) {
            return status;
        }
    }
    return GS_OK;
}

void gs_suppressions_print_builtin(struct gs_text *text)
{
    gs_text_add(text, "# built-in rules of gpushim (GPUSHIM_SUPPRESSIONS_BUILTIN)\n");
    for (size_t i = 0; i < GS_ARRAY_LEN(builtin); i++) {
        gs_text_add(text, "# %s\nleak:%s max_count=%llu\n", builtin[i].why,
                    builtin[i].pattern, (unsigned long long)builtin[i].max_count);
    }
}
