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

static const char *const kind_names[] = {[GS_RULE_LEAK] = "leak",
                                         [GS_RULE_FREE] = "free",
                                         [GS_RULE_OVERRUN] = "overrun",
                                         [GS_RULE_ARG] = "arg"};
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
    return GS_OK;
}

/* ---- one line --------------------------------------------------------------------- */

struct span {
    const char *begin, *end;
};

/* A line, as far as it is read. */
struct parsed {
    struct gs_rule rule;
    struct span pattern, file;
    struct span from[GS_RULE_FROM_MAX]; /* outermost first, as they are read */
    struct span from_files[GS_RULE_FROM_MAX];
    unsigned from_count;
};

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct span trim(struct span span)
{
    while (span.begin < span.end && is_space(*span.begin)) {
        span.begin++;
    }
    while (span.end > span.begin && is_space(span.end[-1])) {
        span.end--;
    }
    return span;
}

static size_t length_of(struct span span)
{
    return (size_t)(span.end - span.begin);
}

static bool equals(struct span span, const char *text)
{
    return length_of(span) == strlen(text) &&
           memcmp(span.begin, text, length_of(span)) == 0;
}

/* Parses digits, with an optional K, M, G or T if `sizes` is set. */
static bool parse_number(struct span span, bool sizes, uint64_t *out)
{
    static const char units[] = "KMGT";
    uint64_t value = 0;
    unsigned shift = 0;

    if (sizes && span.begin < span.end) {
        char last = span.end[-1];
        char upper = last >= 'a' && last <= 'z' ? (char)(last & ~0x20) : last;
        const char *unit = upper ? strchr(units, upper) : NULL;
        if (unit) {
            shift = 10u * (unsigned)(unit - units + 1);
            span.end--;
        }
    }
    if (span.begin == span.end) {
        return false;
    }
    for (const char *at = span.begin; at < span.end; at++) {
        unsigned digit = (unsigned)(unsigned char)*at - '0';
        if (digit > 9 || value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    if (value > UINT64_MAX >> shift || value << shift == GS_RULE_ANY) {
        return false;
    }
    *out = value << shift;
    return true;
}

/* Parses `word=value`, a form that no function's last word has. Sets *name and *value. */
static bool is_setting(struct span word, struct span *name, struct span *value)
{
    const char *at = word.begin;

    while (at < word.end && ((*at >= 'a' && *at <= 'z') || *at == '_')) {
        at++;
    }
    if (at == word.begin || at == word.end || *at != '=' ||
        (at + 1 < word.end && at[1] == '=')) {
        return false;
    }
    *name = (struct span){word.begin, at};
    *value = (struct span){at + 1, word.end};
    return true;
}

/* Returns NULL on success, else the fault. */
static const char *take_setting(struct parsed *parsed, struct span name,
                                struct span value)
{
    struct gs_rule *rule = &parsed->rule;
    uint64_t number;

    if (equals(name, "from")) {
        if (value.begin == value.end) {
            return "from has no pattern";
        }
        if (parsed->from_count == GS_RULE_FROM_MAX) {
            return "from is given more than 8 times";
        }
        parsed->from_files[parsed->from_count] = parsed->file;
        parsed->from[parsed->from_count++] = value;
        parsed->file = (struct span){NULL, NULL};
        return NULL;
    }
    if (equals(name, "file")) { /* of the pattern, or from, in front of it */
        if (value.begin == value.end) {
            return "file has no pattern";
        }
        if (parsed->file.begin) {
            return "file is given twice";
        }
        parsed->file = value;
        return NULL;
    }
    if (equals(name, "max_count")) {
        if (rule->max_count != GS_RULE_ANY) {
            return "max_count is given twice";
        }
        return parse_number(value, false, &rule->max_count)
                   ? NULL
                   : "max_count is not a whole number";
    }
    if (equals(name, "max_bytes")) {
        if (rule->kind != GS_RULE_LEAK) {
            return "max_bytes is for leak: rules only";
        }
        if (rule->max_bytes != GS_RULE_ANY) {
            return "max_bytes is given twice";
        }
        return parse_number(value, true, &rule->max_bytes)
                   ? NULL
                   : "max_bytes is not a size (such as 20M)";
    }
    if (equals(name, "device")) {
        if (rule->device >= 0) {
            return "device is given twice";
        }
        if (!parse_number(value, false, &number) || number > INT16_MAX) {
            return "device is not a device number";
        }
        rule->device = (int)number;
        return NULL;
    }
    return "unknown setting after the pattern (file, from, max_count, max_bytes and "
           "device are known)";
}

/* Takes the settings off the pattern's end. Returns NULL, or the fault. */
static const char *take_settings(struct parsed *parsed)
{
    struct span *pattern = &parsed->pattern;

    for (;;) {
        struct span word = {pattern->end, pattern->end}, name, value;
        while (word.begin > pattern->begin && !is_space(word.begin[-1])) {
            word.begin--;
        }
        if (word.begin == pattern->begin || !is_setting(word, &name, &value)) {
            return NULL;
        }
        const char *wrong = take_setting(parsed, name, value);
        if (wrong) {
            return wrong;
        }
        *pattern = trim((struct span){pattern->begin, word.begin});
    }
}

/* Returns NULL if the line is a rule, else the fault. */
static const char *parse_rule(struct span line, struct parsed *parsed)
{
    struct gs_rule *rule = &parsed->rule;
    const char *colon = memchr(line.begin, ':', length_of(line));
    struct span kind = {line.begin, colon ? colon : line.begin};
    struct span first, name, value;

    if (length_of(line) > LINE_BYTES_MAX) {
        return "longer than 4096 bytes";
    }
    if (memchr(line.begin, '\0', length_of(line))) {
        return "a NUL byte";
    }
    for (rule->kind = GS_RULE_LEAK; rule->kind < GS_RULE_KINDS; rule->kind++) {
        if (equals(kind, kind_names[rule->kind])) {
            break;
        }
    }
    if (rule->kind == GS_RULE_KINDS) {
        return "not one of leak:PATTERN, free:PATTERN, overrun:PATTERN and arg:PATTERN";
    }
    parsed->pattern = trim((struct span){colon + 1, line.end});
    const char *wrong = take_settings(parsed);
    if (wrong) {
        return wrong;
    }
    first = parsed->pattern;
    if (first.begin == first.end || is_setting(first, &name, &value)) {
        return "no pattern";
    }
    return NULL;
}
static_assert(LINE_BYTES_MAX == 4096 && GS_RULE_FROM_MAX == 8, "the messages name them");

static char *put_span(char *to, struct span span)
{
    if (span.begin) {
        memcpy(to, span.begin, length_of(span));
    }
    to += length_of(span);
    *to = '\0';
    return to + 1;
}

/* Copies the patterns of callers, the innermost first. NULL: no memory. */
static const char *keep_from(struct gs_suppressions *rules, const struct parsed *parsed)
{
    size_t length = 1;

    for (unsigned i = 0; i < parsed->from_count; i++) {
        length += length_of(parsed->from[i]) + length_of(parsed->from_files[i]) + 2;
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

/* Parses a line of a file and adds its rule. Reports a malformed line to `problem`. */
static enum gs_status add_line(struct gs_suppressions *rules, const char *source,
                               struct span line, unsigned number, gs_rule_problem problem,
                               void *self)
{
    struct parsed parsed = {.rule = {.file = "",
                                     .device = -1,
                                     .max_count = GS_RULE_ANY,
                                     .max_bytes = GS_RULE_ANY,
                                     .source = source,
                                     .line = number}};
    struct gs_rule *rule = &parsed.rule;

    line = trim(line);
    if (line.begin == line.end || *line.begin == '#') {
        return GS_OK;
    }
    const char *wrong = parse_rule(line, &parsed);
    if (wrong) {
        problem(self, number, wrong);
        return GS_OK;
    }
    rule->pattern = keep(rules, parsed.pattern.begin, length_of(parsed.pattern));
    if (parsed.file.begin) {
        rule->file = keep(rules, parsed.file.begin, length_of(parsed.file));
    }
    if (parsed.from_count > 0) {
        rule->from = keep_from(rules, &parsed);
    }
    if (!rule->pattern || !rule->file || (parsed.from_count > 0 && !rule->from)) {
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
        struct span line = {text, newline ? newline : end};
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
