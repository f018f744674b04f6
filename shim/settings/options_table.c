/*
 * options_table.c - the tables from options.def, and the parser of single values.
 *
 * The table has defaults and bounds in the user's notation, and the same parser reads
 * them and the environment, so that help, docs and behaviour agree.
 *
 * Owns:  the tables; immutable.   Lock: none.
 */
#include "shim/settings/options_table.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "shim/settings/options.h"

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
#include "shim/settings/options.def"
};

const struct gs_choice gs_choices[] = {
#define GS_OPT_CHOICE(field, word, constant, doc)                                        \
    {offsetof(struct gs_options, field), word, constant, doc},
#include "shim/settings/options.def"
};
const size_t gs_choices_count = GS_ARRAY_LEN(gs_choices);

const struct gs_launcher_option gs_launcher_options[] = {
#define GS_OPT_LAUNCHER(launcher_name, doc) {launcher_name, doc},
#include "shim/settings/options.def"
};
const size_t gs_launcher_options_count = GS_ARRAY_LEN(gs_launcher_options);

static const size_t switches[] = {
#define GS_OPT_SWITCH(field) offsetof(struct gs_options, field),
#include "shim/settings/options.def"
};

static const struct {
    size_t offset;
    const char *size;
} multiples[] = {
#define GS_OPT_MULTIPLE(field, size) {offsetof(struct gs_options, field), size},
#include "shim/settings/options.def"
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

/* Parses digits; *end is the text after them. No sign, no space, no overflow. */
static enum gs_status parse_digits(const char *text, uint64_t *out, const char **end)
{
    uint64_t value = 0;

    if (*text < '0' || *text > '9') {
        return GS_ERR_INVALID;
    }
    for (; *text >= '0' && *text <= '9'; text++) {
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value)) {
            return GS_ERR_INVALID;
        }
    }
    *out = value;
    *end = text;
    return GS_OK;
}

/* Six digits after a decimal point count; further ones are ignored. */
#define FRACTION_ONE UINT64_C(1000000)

/* Parses digits, optionally with a decimal point and more digits, in millionths of the
 * unit. */
static enum gs_status parse_decimal(const char *text, uint64_t *whole, uint64_t *fraction,
                                    const char **end)
{
    uint64_t step = FRACTION_ONE / 10;
    enum gs_status status = parse_digits(text, whole, end);

    *fraction = 0;
    if (status != GS_OK || **end != '.') {
        return status;
    }
    text = *end + 1;
    if (*text < '0' || *text > '9') {
        return GS_ERR_INVALID;
    }
    for (; *text >= '0' && *text <= '9'; text++, step /= 10) {
        *fraction += step * (uint64_t)(*text - '0');
    }
    *end = text;
    return GS_OK;
}

/* Factors are 2^40 at most: the fraction's part does not overflow. */
static_assert(FRACTION_ONE < (UINT64_C(1) << 24), "a fraction of a T fits");

/* "20M", "20MiB", "20mb", "1.5G", "512", "512B". */
static enum gs_status parse_size(const char *text, uint64_t *out)
{
    static const char letters[] = "kmgt";
    const char *unit, *letter;
    uint64_t value, fraction, factor = 1;
    enum gs_status status = parse_decimal(text, &value, &fraction, &unit);

    if (status != GS_OK) {
        return status;
    }
    letter = *unit ? strchr(letters, *unit | 0x20) : NULL;
    if (letter) {
        factor = (uint64_t)1 << (10 * (letter - letters + 1));
        unit++;
        if (strcasecmp(unit, "ib") == 0) {
            unit += 2;
        }
    }
    if (strcasecmp(unit, "b") == 0) {
        unit++;
    }
    if (*unit || __builtin_mul_overflow(value, factor, &value) ||
        __builtin_add_overflow(value, fraction * factor / FRACTION_ONE, &value)) {
        return GS_ERR_INVALID;
    }
    *out = value;
    return GS_OK;
}

const char *gs_option_size_text(uint64_t share, char out[GS_OPTION_SIZE_BYTES])
{
    static const char letters[] = "KMGT";
    uint64_t value = share & ~GS_SHARE_PARTS;
    const uint64_t percent = GS_SHARE_WHOLE / 100;
    unsigned unit = 0;

    if (share & GS_SHARE_PARTS) {
        int length = snprintf(out, GS_OPTION_SIZE_BYTES, "%llu.%03llu",
                              (unsigned long long)(value / percent),
                              (unsigned long long)(value % percent));
        while (length > 0 && out[length - 1] == '0') {
            length--;
        }
        length -= length > 0 && out[length - 1] == '.';
        snprintf(out + length, GS_OPTION_SIZE_BYTES - (size_t)length, "%%");
        return out;
    }
    for (; value != 0 && value % 1024 == 0 && letters[unit]; unit++) {
        value /= 1024;
    }
    if (unit) {
        snprintf(out, GS_OPTION_SIZE_BYTES, "%llu%c", (unsigned long long)value,
                 letters[unit - 1]);
    } else {
        snprintf(out, GS_OPTION_SIZE_BYTES, "%llu", (unsigned long long)value);
    }
    return out;
}

static const char *choice_word(const struct gs_option *option, int value)
{
    for (size_t i = 0; i < gs_choices_count; i++) {
        if (gs_choices[i].offset == option->offset && gs_choices[i].value == value) {
            return gs_choices[i].word;
        }
    }
    return "";
}

const char *gs_option_value_text(const struct gs_option *option,
                                 const struct gs_options *options, bool plain,
                                 char out[GS_OPTION_SIZE_BYTES])
{
    const void *field = (const char *)options + option->offset;
    uint64_t size;
    unsigned number;
    bool seconds;

    switch (option->type) {
    case GS_OPTION_BOOL:
        return *(const bool *)field ? "on" : "off";
    case GS_OPTION_SIZE:
    case GS_OPTION_SHARE:
        size = *(const uint64_t *)field;
        if (!plain || (size & GS_SHARE_PARTS)) {
            return gs_option_size_text(size, out);
        }
        snprintf(out, GS_OPTION_SIZE_BYTES, "%llu", (unsigned long long)size);
        return out;
    case GS_OPTION_UINT:
        snprintf(out, GS_OPTION_SIZE_BYTES, "%u", *(const unsigned *)field);
        return out;
    case GS_OPTION_TIME:
        number = *(const unsigned *)field;
        seconds = !plain && number % 1000 == 0;
        snprintf(out, GS_OPTION_SIZE_BYTES, seconds ? "%us" : "%ums",
                 seconds ? number / 1000 : number);
        return out;
    case GS_OPTION_ENUM:
        return choice_word(option, *(const int *)field);
    case GS_OPTION_PATH:
    case GS_OPTION_TEXT:
        break;
    }
    return field;
}

static enum gs_status parse_uint(const char *text, uint64_t *out)
{
    const char *end;
    uint64_t value;
    enum gs_status status = parse_digits(text, &value, &end);

    if (status != GS_OK) {
        return status;
    }
    if (*end) {
        return GS_ERR_INVALID;
    }
    *out = value;
    return GS_OK;
}

/* "80%", "2.5%", or a size. */
static enum gs_status parse_share(const char *text, uint64_t *out)
{
    const char *unit;
    uint64_t value, fraction;

    if (parse_decimal(text, &value, &fraction, &unit) == GS_OK &&
        strcmp(unit, "%") == 0) {
        if (value > 100 || (value == 100 && fraction != 0)) {
            return GS_ERR_INVALID;
        }
        *out = GS_SHARE_PARTS | (value * (GS_SHARE_WHOLE / 100) +
                                 fraction * (GS_SHARE_WHOLE / 100) / FRACTION_ONE);
        return GS_OK;
    }
    if (parse_size(text, &value) != GS_OK || value >= GS_SHARE_PARTS) {
        return GS_ERR_INVALID;
    }
    *out = value;
    return GS_OK;
}

uint64_t gs_share_bytes(uint64_t share, uint64_t total_bytes)
{
    if (!(share & GS_SHARE_PARTS)) {
        return share;
    }
    share &= ~GS_SHARE_PARTS;
    return total_bytes / GS_SHARE_WHOLE * share +
           total_bytes % GS_SHARE_WHOLE * share / GS_SHARE_WHOLE;
}

/* "500ms", "5s", "2m", "1h", "2d", "5"; in milliseconds. */
static enum gs_status parse_time(const char *text, uint64_t *out)
{
    static const struct {
        char name[4];
        unsigned ms;
    } units[] = {{"ms", 1},    {"s", 1000},    {"", 1000},
                 {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    const char *unit;
    uint64_t value;
    enum gs_status status = parse_digits(text, &value, &unit);

    if (status != GS_OK) {
        return status;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(units); i++) {
        if (strcasecmp(unit, units[i].name) == 0) {
            if (__builtin_mul_overflow(value, (uint64_t)units[i].ms, &value)) {
                return GS_ERR_INVALID;
            }
            *out = value;
            return GS_OK;
        }
    }
    return GS_ERR_INVALID;
}

/* Parses a word of a choice. Another spelling of a switch also means `on` or `off`, if
 * the choice has these words. */
static enum gs_status parse_choice(size_t offset, const char *text, uint64_t *out)
{
    uint64_t on;

    if (parse_bool(text, &on) == GS_OK) {
        text = on ? "on" : "off";
    }
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

const char *gs_option_problem(const struct gs_option *option, const char *text)
{
    static const char digits[] = "0123456789";
    const bool share = option->type == GS_OPTION_SHARE;
    const bool fractions = share || option->type == GS_OPTION_SIZE;
    const char *unit = text + (*text == '-');
    char one[8] = "1"; /* parses the unit alone */
    size_t count = strspn(unit, digits);
    uint64_t value;

    if (count == 0 || (!fractions && option->type != GS_OPTION_UINT &&
                       option->type != GS_OPTION_TIME)) {
        return NULL;
    }
    unit += count;
    if (fractions && *unit == '.') {
        count = strspn(unit + 1, digits);
        if (count == 0) {
            return NULL;
        }
        unit += 1 + count;
    }
    if (*unit == '.' || strlen(unit) + 2 > sizeof(one)) {
        return NULL;
    }
    strcat(one, unit);
    if (gs_option_parse(option, one, &value) != GS_OK) {
        return NULL;
    }
    if (*text == '-') {
        return "less than 0";
    }
    return share && strcmp(unit, "%") == 0 ? "more than 100%" : "too large";
}

bool gs_option_in_range(const struct gs_option *option, uint64_t value)
{
    uint64_t bound;

    if (option->type == GS_OPTION_SHARE) {
        value &= ~GS_SHARE_PARTS; /* shares have no bound but 0 */
    }
    if (*option->min && gs_option_parse(option, option->min, &bound) == GS_OK &&
        value < bound) {
        return false;
    }
    return !*option->max || gs_option_parse(option, option->max, &bound) != GS_OK ||
           value <= bound;
}

const char *gs_option_words(const struct gs_option *option, const char *separator,
                            char out[GS_OPTION_WORDS_BYTES])
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < gs_choices_count && used < GS_OPTION_WORDS_BYTES; i++) {
        if (gs_choices[i].offset == option->offset) {
            used += (size_t)snprintf(out + used, GS_OPTION_WORDS_BYTES - used, "%s%s",
                                     used ? separator : "", gs_choices[i].word);
        }
    }
    return out;
}

bool gs_option_is_switch(const struct gs_option *option)
{
    if (option->type == GS_OPTION_BOOL) {
        return true;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(switches); i++) {
        if (switches[i] == option->offset) {
            return true;
        }
    }
    return false;
}

const char *gs_option_multiple(const struct gs_option *option)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(multiples); i++) {
        if (multiples[i].offset == option->offset) {
            return multiples[i].size;
        }
    }
    return NULL;
}
