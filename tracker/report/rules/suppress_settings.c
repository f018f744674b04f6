/*
 * suppress_settings.c - reads the settings after a rule's pattern: "max_bytes=20M".
 * Owns: nothing.   Lock: none.   Design: docs/suppressions.md
 */
#include "tracker/report/rules/suppress_internal.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct gs_rule_span gs_rule_trim(struct gs_rule_span span)
{
    while (span.begin < span.end && is_space(*span.begin)) {
        span.begin++;
    }
    while (span.end > span.begin && is_space(span.end[-1])) {
        span.end--;
    }
    return span;
}

bool gs_rule_equals(struct gs_rule_span span, const char *text)
{
    return gs_rule_length(span) == strlen(text) &&
           memcmp(span.begin, text, gs_rule_length(span)) == 0;
}

bool gs_rule_is_setting(struct gs_rule_span word, struct gs_rule_span *name,
                        struct gs_rule_span *value)
{
    const char *at = word.begin;

    while (at < word.end && ((*at >= 'a' && *at <= 'z') || *at == '_')) {
        at++;
    }
    if (at == word.begin || at == word.end || *at != '=' ||
        (at + 1 < word.end && at[1] == '=')) {
        return false;
    }
    *name = (struct gs_rule_span){word.begin, at};
    *value = (struct gs_rule_span){at + 1, word.end};
    return true;
}

/* ---- values ----------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool parse_digits(struct gs_rule_span span, uint64_t *out)
{
    uint64_t value = 0;

    for (const char *at = span.begin; at < span.end; at++) {
        unsigned digit = (unsigned)(unsigned char)*at - '0';
        if (digit > 9 || value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return span.begin < span.end && value != GS_RULE_ANY;
}

/* Takes K, M, G or T off the end. Returns how often the number is to be doubled; 0: there
 * is no unit. */
static unsigned take_unit(struct gs_rule_span *span)
{
    static const char units[] = "KMGT";
    char last = span->begin < span->end ? span->end[-1] : '\0';
    char upper = last >= 'a' && last <= 'z' ? (char)(last & ~0x20) : last;
    const char *unit = upper ? strchr(units, upper) : NULL;

    span->end -= unit != NULL;
    return unit ? 10u * (unsigned)(unit - units + 1) : 0;
}

/* ---- settings: each returns NULL, or the fault ------------------------------------- */

static const char *take_from(struct gs_rule_parsed *parsed, struct gs_rule_span value)
{
    if (value.begin == value.end) {
        return "from has no pattern";
    }
    if (parsed->from_count == GS_RULE_FROM_MAX) {
        return "from is given more than 8 times";
    }
    parsed->from_files[parsed->from_count] = parsed->file;
    parsed->from[parsed->from_count++] = value;
    parsed->file = (struct gs_rule_span){NULL, NULL};
    return NULL;
}

/* Of the pattern, or from, in front of it. */
static const char *take_file(struct gs_rule_parsed *parsed, struct gs_rule_span value)
{
    if (value.begin == value.end) {
        return "file has no pattern";
    }
    if (parsed->file.begin) {
        return "file is given twice";
    }
    parsed->file = value;
    return NULL;
}

static const char *take_max_count(struct gs_rule_parsed *parsed,
                                  struct gs_rule_span value)
{
    struct gs_rule *rule = &parsed->rule;

    if (rule->max_count != GS_RULE_ANY) {
        return "max_count is given twice";
    }
    return parse_digits(value, &rule->max_count) ? NULL
                                                 : "max_count is not a whole number";
}

static const char *take_max_bytes(struct gs_rule_parsed *parsed,
                                  struct gs_rule_span value)
{
    struct gs_rule *rule = &parsed->rule;
    unsigned shift = take_unit(&value);
    uint64_t number;

    if (rule->max_bytes != GS_RULE_ANY) {
        return "max_bytes is given twice";
    }
    if (!parse_digits(value, &number) || number > UINT64_MAX >> shift ||
        number << shift == GS_RULE_ANY) {
        return "max_bytes is not a size (such as 20M)";
    }
    rule->max_bytes = number << shift;
    return NULL;
}

static const char *take_device(struct gs_rule_parsed *parsed, struct gs_rule_span value)
{
    uint64_t number;

    if (parsed->rule.device >= 0) {
        return "device is given twice";
    }
    if (!parse_digits(value, &number) || number > INT16_MAX) {
        return "device is not a device number";
    }
    parsed->rule.device = (int)number;
    return NULL;
}

static const char *take_not_from(struct gs_rule_parsed *parsed, struct gs_rule_span value)
{
    if (value.begin == value.end) {
        return "not_from has no pattern";
    }
    if (parsed->file.begin) {
        return "not_from takes no file";
    }
    if (parsed->not_from_count == GS_RULE_FROM_MAX) {
        return "not_from is given more than 8 times";
    }
    parsed->not_from[parsed->not_from_count++] = value;
    return NULL;
}

/* A time, which begins with a digit, or else the pattern of a scope. */
static const char *take_after(struct gs_rule_parsed *parsed, struct gs_rule_span value)
{
    static const struct {
        char unit[3];
        uint64_t ns;
    } units[] = {{"ms", 1000000},
                 {"s", UINT64_C(1000000000)},
                 {"m", UINT64_C(60000000000)},
                 {"h", UINT64_C(3600000000000)}};
    struct gs_rule_span digits = {value.begin, value.begin}, unit;
    uint64_t number;

    if (value.begin == value.end) {
        return "after has neither a time (such as 30s) nor the pattern of a scope";
    }
    if (parsed->after.begin) {
        return "after is given twice";
    }
    parsed->after = value;
    if (*value.begin == '-' && value.begin + 1 < value.end && is_digit(value.begin[1])) {
        return "after is a negative time";
    }
    while (digits.end < value.end && is_digit(*digits.end)) {
        digits.end++;
    }
    unit = (struct gs_rule_span){digits.end, value.end};
    if (unit.begin == unit.end) {
        return "after is a time without a unit (ms, s, m or h)";
    }
    for (size_t i = 0; digits.begin < digits.end && i < GS_ARRAY_LEN(units); i++) {
        if (gs_rule_equals(unit, units[i].unit)) {
            parsed->after_is_time = true;
            if (!parse_digits(digits, &number) || number > UINT64_MAX / units[i].ns) {
                return "after is too long a time";
            }
            parsed->after_ns = number * units[i].ns;
            return NULL;
        }
    }
    return digits.begin < digits.end
               ? "after is not a time (such as 30s; a scope with such a name: after=^5x)"
               : NULL;
}

#define ALL      (~0u)
#define OF(kind) (1u << GS_RULE_##kind)

static const struct setting {
    char name[10];
    char only[40]; /* the fault of a rule of another kind */
    unsigned kinds;
    const char *(*take)(struct gs_rule_parsed *parsed, struct gs_rule_span value);
} settings[] = {
    {"from", "", ALL, take_from},
    {"file", "file is not for deny: rules", ALL & ~OF(DENY), take_file},
    {"max_count", "max_count is not for peak: rules", ALL & ~OF(PEAK), take_max_count},
    {"max_bytes", "max_bytes is for leak: and peak: rules", OF(LEAK) | OF(PEAK),
     take_max_bytes},
    {"device", "", ALL, take_device},
    {"not_from", "not_from is for deny: rules only", OF(DENY), take_not_from},
    {"after", "after is for deny: rules only", OF(DENY), take_after},
};

static const char *take_setting(struct gs_rule_parsed *parsed, struct gs_rule_span name,
                                struct gs_rule_span value)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(settings); i++) {
        if (gs_rule_equals(name, settings[i].name)) {
            return settings[i].kinds >> parsed->rule.kind & 1u
                       ? settings[i].take(parsed, value)
                       : settings[i].only;
        }
    }
    return "unknown setting (file, from, max_count, max_bytes, device, not_from and "
           "after "
           "are known)";
}

const char *gs_rule_take_settings(struct gs_rule_parsed *parsed)
{
    struct gs_rule_span *pattern = &parsed->pattern;
    /* The peak of a whole device has no pattern. */
    bool all = parsed->rule.kind == GS_RULE_PEAK;

    for (;;) {
        struct gs_rule_span word = {pattern->end, pattern->end}, name, value;
        while (word.begin > pattern->begin && !is_space(word.begin[-1])) {
            word.begin--;
        }
        if ((word.begin == pattern->begin && !all) ||
            !gs_rule_is_setting(word, &name, &value)) {
            return NULL;
        }
        parsed->wrong = word;
        const char *wrong = take_setting(parsed, name, value);
        if (wrong) {
            return wrong;
        }
        parsed->wrong = (struct gs_rule_span){NULL, NULL};
        *pattern = gs_rule_trim((struct gs_rule_span){pattern->begin, word.begin});
    }
}
