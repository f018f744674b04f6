/*
 * options_table.c - what options.def expands to, and the parser of single values.
 *
 * Defaults and bounds stand in the table as a user would write them and are read by the
 * same parser as the environment, so that help, docs and behaviour cannot disagree.
 *
 * Owns:  the tables; immutable.   Lock: none.
 */
#include "options_table.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "options.h"

const struct gs_option gs_options_table[GS_OPTIONS_COUNT] = {
#define GS_OPT(field, name, type, default_, min, max, group, doc)                        \
    {name,                                                                               \
     GS_OPTION_##type,                                                                   \
     offsetof(struct gs_options, field),                                                 \
     default_,                                                                           \
     min,                                                                                \
     max,                                                                                \
     group,                                                                              \
     doc},
#include "options.def"
};

const struct gs_choice gs_choices[] = {
#define GS_OPT_CHOICE(field, word, constant, doc)                                        \
    {offsetof(struct gs_options, field), word, constant, doc},
#include "options.def"
};
const size_t gs_choices_count = GS_ARRAY_LEN(gs_choices);

const char *const gs_launcher_names[] = {
#define GS_OPT_LAUNCHER(launcher_name, doc) launcher_name,
#include "options.def"
};
const size_t gs_launcher_names_count = GS_ARRAY_LEN(gs_launcher_names);

static const struct {
    size_t offset;
    const char *size;
} multiples[] = {
#define GS_OPT_MULTIPLE(field, size) {offsetof(struct gs_options, field), size},
#include "options.def"
};

static enum gs_status parse_bool(const char *text, uint64_t *out)
{
    static const char *const words[][2] = {
        {"0", "1"}, {"off", "on"}, {"no", "yes"}, {"false", "true"}};

    for (size_t i = 0; i < GS_ARRAY_LEN(words); i++) {
        for (unsigned value = 0; value < 2; value++) {
            if (strcasecmp(text, words[i][value]) == 0) {
                *out = value;
                return GS_OK;
            }
        }
    }
    return GS_ERR_INVALID;
}

/* Digits; *end is what follows them. No sign, no space, no overflow. */
static enum gs_status parse_digits(const char *text, uint64_t *out, const char **end)
{
    uint64_t value = 0;

    if (*text < '0' || *text > '9')
        return GS_ERR_INVALID;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return GS_ERR_INVALID;
    }
    *out = value;
    *end = text;
    return GS_OK;
}

/* "20M", "20MiB", "20mb", "512", "512B". */
static enum gs_status parse_size(const char *text, uint64_t *out)
{
    static const char letters[] = "kmgt";
    const char *unit, *letter;
    uint64_t value, factor = 1;
    enum gs_status status = parse_digits(text, &value, &unit);

    if (status != GS_OK)
        return status;
    letter = *unit ? strchr(letters, *unit | 0x20) : NULL;
    if (letter) {
        factor = (uint64_t)1 << (10 * (letter - letters + 1));
        unit++;
        if (strcasecmp(unit, "ib") == 0)
            unit += 2;
    }
    if (strcasecmp(unit, "b") == 0)
        unit++;
    if (*unit || __builtin_mul_overflow(value, factor, &value))
        return GS_ERR_INVALID;
    *out = value;
    return GS_OK;
}

static enum gs_status parse_uint(const char *text, uint64_t *out)
{
    const char *end;
    uint64_t value;
    enum gs_status status = parse_digits(text, &value, &end);

    if (status != GS_OK)
        return status;
    if (*end)
        return GS_ERR_INVALID;
    *out = value;
    return GS_OK;
}

/* "80%", or a size. */
static enum gs_status parse_share(const char *text, uint64_t *out)
{
    const char *unit;
    uint64_t value;

    if (parse_digits(text, &value, &unit) == GS_OK && strcmp(unit, "%") == 0) {
        *out = GS_SHARE_PERCENT | value;
        return value <= 100 ? GS_OK : GS_ERR_INVALID;
    }
    if (parse_size(text, &value) != GS_OK || value >= GS_SHARE_PERCENT)
        return GS_ERR_INVALID;
    *out = value;
    return GS_OK;
}

uint64_t gs_share_bytes(uint64_t share, uint64_t total_bytes)
{
    if (!(share & GS_SHARE_PERCENT))
        return share;
    share &= ~GS_SHARE_PERCENT;
    return total_bytes / 100 * share + total_bytes % 100 * share / 100;
}

/* "500ms", "5s", "2m", "5"; in milliseconds. */
static enum gs_status parse_time(const char *text, uint64_t *out)
{
    const char *unit;
    uint64_t value, factor = 1000;
    enum gs_status status = parse_digits(text, &value, &unit);

    if (status != GS_OK)
        return status;
    if (strcasecmp(unit, "ms") == 0)
        factor = 1;
    else if (strcasecmp(unit, "m") == 0)
        factor = 60000;
    else if (*unit && strcasecmp(unit, "s") != 0)
        return GS_ERR_INVALID;
    if (__builtin_mul_overflow(value, factor, &value))
        return GS_ERR_INVALID;
    *out = value;
    return GS_OK;
}

static enum gs_status parse_choice(size_t offset, const char *text, uint64_t *out)
{
    for (size_t i = 0; i < gs_choices_count; i++) {
        if (gs_choices[i].offset == offset && strcasecmp(gs_choices[i].word, text) == 0) {
            *out = (uint64_t)gs_choices[i].value;
            return GS_OK;
        }
    }
    return GS_ERR_INVALID;
}

enum gs_status gs_option_parse(const struct gs_option *option, const char *text,
                               uint64_t *out)
{
    switch (option->type) {
    case GS_OPTION_BOOL:
        return parse_bool(text, out);
    case GS_OPTION_SIZE:
        return parse_size(text, out);
    case GS_OPTION_UINT:
        return parse_uint(text, out);
    case GS_OPTION_TIME:
        return parse_time(text, out);
    case GS_OPTION_ENUM:
        return parse_choice(option->offset, text, out);
    case GS_OPTION_SHARE:
        return parse_share(text, out);
    case GS_OPTION_PATH:
    case GS_OPTION_TEXT:
        break;
    }
    return GS_ERR_INVALID;
}

const char *gs_option_quote(const char *text, size_t length, char *out, size_t capacity)
{
    static const char hex[] = "0123456789abcdef";
    size_t used = 0;

    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];

        if (used + sizeof("\\xff...") > capacity) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        if (c >= 0x20 && c < 0x7f) {
            out[used++] = (char)c;
        } else {
            out[used++] = '\\';
            out[used++] = 'x';
            out[used++] = hex[c >> 4];
            out[used++] = hex[c & 15];
        }
    }
    out[used] = '\0';
    return out;
}

bool gs_option_in_range(const struct gs_option *option, uint64_t value)
{
    uint64_t bound;

    if (*option->min && gs_option_parse(option, option->min, &bound) == GS_OK &&
        value < bound)
        return false;
    return !*option->max || gs_option_parse(option, option->max, &bound) != GS_OK ||
           value <= bound;
}

const char *gs_option_words(const struct gs_option *option, const char *separator,
                            char out[GS_OPTION_WORDS_BYTES])
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < gs_choices_count && used < GS_OPTION_WORDS_BYTES; i++) {
        if (gs_choices[i].offset == option->offset)
            used += (size_t)snprintf(out + used, GS_OPTION_WORDS_BYTES - used, "%s%s",
                                     used ? separator : "", gs_choices[i].word);
    }
    return out;
}

const char *gs_option_multiple(const struct gs_option *option)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(multiples); i++) {
        if (multiples[i].offset == option->offset)
            return multiples[i].size;
    }
    return NULL;
}
