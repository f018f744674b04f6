/*
 * options.c - reads the GPUSHIM_* variables and collects their errors.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/settings/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "shim/settings/log.h"
#include "shim/settings/options_table.h"

static const char name_prefix[] = "GPUSHIM_";

/* Bytes for a quoted value or name in a note; longer ones are cut. */
#define QUOTE_BYTES 48
/* Longer names are not compared with the known ones. */
#define NAME_BYTES 40
#define NOTE_BYTES 384

/* ---- Notes ------------------------------------------------------------------------ */

static void GS_PRINTF(2, 3)
    add_note(struct gs_options_messages *notes, const char *format, ...)
{
    char line[NOTE_BYTES];
    va_list arguments;
    size_t length;
    int wanted;

    va_start(arguments, format);
    wanted = vsnprintf(line, sizeof(line) - 1, format, arguments);
    va_end(arguments);
    if (wanted < 0) {
        return;
    }
    length = strlen(line);
    line[length++] = '\n';
    if (notes->lines == GS_OPTIONS_MESSAGE_LINES) {
        notes->dropped++;
        return;
    }
    memcpy(notes->text + notes->length, line, length);
    notes->length += length;
    notes->text[notes->length] = '\0';
    notes->lines++;
}

static_assert(sizeof(((struct gs_options_messages *)0)->text) >
                  (GS_OPTIONS_MESSAGE_LINES + 1) * NOTE_BYTES,
              "every note fits");

static void add_dropped_note(struct gs_options_messages *notes)
{
    if (notes->dropped > 0) {
        notes->length += (size_t)snprintf(
            notes->text + notes->length, NOTE_BYTES,
            "gpushim: %u more problems with GPUSHIM_ variables are not shown\n",
            notes->dropped);
    }
}

/* ---- One variable ----------------------------------------------------------------- */

static void store(struct gs_options *out, const struct gs_option *option, uint64_t value)
{
    void *field = (char *)out + option->offset;

    switch (option->type) {
    case GS_OPTION_BOOL:
        *(bool *)field = value != 0;
        break;
    case GS_OPTION_SIZE:
    case GS_OPTION_SHARE:
        *(uint64_t *)field = value;
        break;
    case GS_OPTION_UINT:
    case GS_OPTION_TIME:
        *(unsigned *)field = (unsigned)value;
        break;
    case GS_OPTION_ENUM:
        *(int *)field = (int)value;
        break;
    case GS_OPTION_PATH:
    case GS_OPTION_TEXT:
        break;
    }
}

static void store_default(struct gs_options *out, const struct gs_option *option)
{
    uint64_t value = 0;

    if (option->type == GS_OPTION_PATH || option->type == GS_OPTION_TEXT) {
        strcpy((char *)out + option->offset, option->fallback);
    } else if (gs_option_parse(option, option->fallback, &value) == GS_OK) {
        store(out, option, value);
    }
}

/* The form of values of this type: completes "not ...". */
static const char *expected(const struct gs_option *option, char out[160])
{
    char words[GS_OPTION_WORDS_BYTES];

    switch (option->type) {
    case GS_OPTION_BOOL:
        return "a switch (on or off)";
    case GS_OPTION_SIZE:
        return "a size (such as 20M)";
    case GS_OPTION_UINT:
        return "a whole number";
    case GS_OPTION_TIME:
        return "a time (such as 500ms, 5s or 1h)";
    case GS_OPTION_ENUM:
        snprintf(out, 160, "one of %s", gs_option_words(option, ", ", words));
        return out;
    case GS_OPTION_SHARE:
        return "a size or a percentage (such as 20M or 80%)";
    case GS_OPTION_PATH:
    case GS_OPTION_TEXT:
        break;
    }
    return "a file name";
}

const char *gs_option_wrong(const struct gs_option *option, const char *text,
                            char out[GS_OPTION_WRONG_BYTES])
{
    char words[160];
    uint64_t value;
    bool parsed;
    const char *problem;

    if (option->type == GS_OPTION_PATH || option->type == GS_OPTION_TEXT) {
        if (strlen(text) >= GS_OPTIONS_PATH_BYTES) {
            return "longer than 1023 bytes";
        }
        return option->type == GS_OPTION_PATH ? gs_log_pattern_problem(text) : NULL;
    }
    parsed = gs_option_parse(option, text, &value) == GS_OK;
    if (parsed && gs_option_in_range(option, value)) {
        return NULL;
    }
    problem = parsed ? NULL : gs_option_problem(option, text);
    if (parsed || (problem && *text == '-' && *option->max)) {
        snprintf(out, GS_OPTION_WRONG_BYTES, "not in %s to %s", option->min, option->max);
    } else if (problem) {
        return problem;
    } else {
        snprintf(out, GS_OPTION_WRONG_BYTES, "not %s", expected(option, words));
    }
    return out;
}

/* Reads a file name pattern, or any text. */
static void load_path(struct gs_options *out, const struct gs_option *option,
                      const char *text, struct gs_options_messages *notes)
{
    char quote[QUOTE_BYTES], wrong[GS_OPTION_WRONG_BYTES];
    const char *problem = gs_option_wrong(option, text, wrong);

    if (problem) {
        add_note(notes, "gpushim: %s=%s: %s; ignored", option->name,
                 gs_option_quote(text, strlen(text), quote, sizeof(quote)), problem);
    } else {
        memcpy((char *)out + option->offset, text, strlen(text) + 1);
    }
}

static_assert(GS_OPTIONS_PATH_BYTES == 1024, "gs_option_wrong names the limit");

/* Rounds up if the table asks for this, and adds a note. */
static uint64_t rounded(const struct gs_option *option, const char *text, uint64_t value,
                        struct gs_options_messages *notes)
{
    const struct gs_option size = {.type = GS_OPTION_SIZE};
    const char *multiple = gs_option_multiple(option);
    char quote[QUOTE_BYTES], exact[GS_OPTION_SIZE_BYTES];
    uint64_t step;

    if (!multiple || gs_option_parse(&size, multiple, &step) != GS_OK ||
        value % step == 0) {
        return value;
    }
    value += step - value % step;
    add_note(notes, "gpushim: %s=%s: not a multiple of %s; using %s", option->name,
             gs_option_quote(text, strlen(text), quote, sizeof(quote)), multiple,
             gs_option_size_text(value, exact));
    return value;
}

static void load_value(struct gs_options *out, const struct gs_option *option,
                       const char *text, struct gs_options_messages *notes)
{
    char quote[QUOTE_BYTES], wrong[GS_OPTION_WRONG_BYTES];
    const char *problem;
    uint64_t value;

    if (gs_option_parse(option, text, &value) == GS_OK &&
        gs_option_in_range(option, value)) {
        store(out, option, rounded(option, text, value, notes));
        return;
    }
    problem = gs_option_wrong(option, text, wrong);
    add_note(notes, "gpushim: %s=%s: %s; using %s", option->name,
             gs_option_quote(text, strlen(text), quote, sizeof(quote)),
             problem ? problem : "", option->fallback);
}

/* ---- Unknown names ---------------------------------------------------------------- */

static unsigned lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

/*
 * The number of insertions, deletions, replacements and swaps of neighbours between two
 * names (optimal string alignment). Both are at most NAME_BYTES long.
 */
static unsigned edit_distance(const char *a, size_t a_length, const char *b,
                              size_t b_length)
{
    unsigned char rows[3][NAME_BYTES + 1] = {{0}};
    unsigned char *before = rows[0], *above = rows[1], *row = rows[2];

    for (size_t j = 0; j <= b_length; j++) {
        above[j] = (unsigned char)j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        unsigned char *spare = before;

        row[0] = (unsigned char)i;
        for (size_t j = 1; j <= b_length; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            unsigned best = above[j - 1] + !same;

            if (best > above[j] + 1u) {
                best = above[j] + 1u;
            }
            if (best > row[j - 1] + 1u) {
                best = row[j - 1] + 1u;
            }
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]) && best > before[j - 2] + 1u) {
                best = before[j - 2] + 1u;
            }
            row[j] = (unsigned char)best;
        }
        before = above;
        above = row;
        row = spare;
    }
    return above[b_length];
}

/*
 * The distance of a word from a known name, in half edits: the least of the distances
 * from the whole name and, at half an edit more, from every tail after an underscore
 * (SEGMNET is close to POOL_SEGMENT).
 */
static unsigned name_distance(const char *word, size_t length, const char *name)
{
    unsigned best = UINT_MAX;

    for (const char *part = name; part; part = strchr(part, '_')) {
        unsigned distance;

        part += *part == '_';
        distance = 2 * edit_distance(word, length, part, strlen(part)) + (part != name);
        if (distance < best) {
            best = distance;
        }
    }
    return best;
}

/* Names at this distance, in half edits, and farther ones are not meant. */
static unsigned far_from(size_t length)
{
    return 2 * (length < 6 ? 1 : (unsigned)length / 3) + 2;
}

bool gs_options_is_near(const char *word, size_t length, const char *name)
{
    return length >= 3 && length <= NAME_BYTES &&
           name_distance(word, length, name) < far_from(length);
}

const char *gs_options_nearest(const char *word, size_t length)
{
    const char *nearest = NULL;
    unsigned best = far_from(length);

    if (length < 3 || length > NAME_BYTES) {
        return NULL;
    }
    for (size_t i = 0; i < GS_OPTIONS_COUNT + gs_launcher_options_count; i++) {
        const char *name = i < GS_OPTIONS_COUNT
                               ? gs_options_table[i].name
                               : gs_launcher_options[i - GS_OPTIONS_COUNT].name;
        unsigned distance = name_distance(word, length, name + sizeof(name_prefix) - 1);

        if (distance < best) {
            best = distance;
            nearest = name;
        }
    }
    return nearest;
}

static void add_unknown_note(const char *name, size_t length,
                             struct gs_options_messages *notes)
{
    char quote[QUOTE_BYTES];
    size_t prefix = sizeof(name_prefix) - 1;
    const char *nearest = gs_options_nearest(name + prefix, length - prefix);

    add_note(notes, "gpushim: %s is not a gpushim variable%s%s%s; ignored",
             gs_option_quote(name, length, quote, sizeof(quote)),
             nearest ? " (did you mean " : "", nearest ? nearest : "",
             nearest ? "?)" : "");
}

/* ---- The environment -------------------------------------------------------------- */

static bool is_named(const char *known, const char *name, size_t length)
{
    return strncmp(known, name, length) == 0 && known[length] == '\0';
}

static bool is_launcher_name(const char *name, size_t length)
{
    for (size_t i = 0; i < gs_launcher_options_count; i++) {
        if (is_named(gs_launcher_options[i].name, name, length)) {
            return true;
        }
    }
    return false;
}

/* Reads one entry, with a name up to `length`. `seen` counts the entries of each
 * option. */
static void load_entry(struct gs_options *out, const char *entry, size_t length,
                       unsigned char seen[], struct gs_options_messages *notes)
{
    const char *value = entry + length + 1;

    for (size_t i = 0; i < GS_OPTIONS_COUNT; i++) {
        if (!is_named(gs_options_table[i].name, entry, length)) {
            continue;
        }
        if (seen[i] == 1) {
            add_note(notes, "gpushim: %s is set more than once; the first counts",
                     gs_options_table[i].name);
        }
        if (seen[i] < 2) {
            seen[i]++;
        }
        if (seen[i] > 1 || !*value) {
            return;
        }
        if (gs_options_table[i].type == GS_OPTION_PATH ||
            gs_options_table[i].type == GS_OPTION_TEXT) {
            load_path(out, &gs_options_table[i], value, notes);
        } else {
            load_value(out, &gs_options_table[i], value, notes);
        }
        return;
    }
    if (!is_launcher_name(entry, length)) {
        add_unknown_note(entry, length, notes);
    }
}

void gs_options_load(struct gs_options *out, char *const *env, bool secure,
                     struct gs_options_messages *notes)
{
    unsigned char seen[GS_OPTIONS_COUNT] = {0};
    int saved_errno = errno;

    notes->text[0] = '\0';
    notes->length = 0;
    notes->lines = notes->dropped = 0;
    for (size_t i = 0; i < GS_OPTIONS_COUNT; i++) {
        store_default(out, &gs_options_table[i]);
    }
    if (secure) {
        out->symbolize = false;
    }
    for (; env && *env && !secure; env++) {
        const char *equals;

        if (strncmp(*env, name_prefix, sizeof(name_prefix) - 1) != 0) {
            continue;
        }
        equals = strchr(*env, '=');
        if (equals) {
            load_entry(out, *env, (size_t)(equals - *env), seen, notes);
        }
    }
    add_dropped_note(notes);
    errno = saved_errno;
}

unsigned gs_option_row_of(const char *name)
{
    size_t prefix = sizeof(name_prefix) - 1;

    name += strncasecmp(name, name_prefix, prefix) == 0 ? prefix : 0;
    for (unsigned i = 0; i < GS_OPTIONS_COUNT; i++) {
        if (strcasecmp(gs_options_table[i].name + prefix, name) == 0) {
            return i;
        }
    }
    return GS_OPTIONS_COUNT;
}

enum gs_status gs_options_read_one(const char *name, const char *value,
                                   struct gs_options *out, unsigned *row,
                                   struct gs_options_messages *notes)
{
    const struct gs_option *option;
    char entry[sizeof(option->name) + GS_OPTIONS_PATH_BYTES + 2], *env[] = {entry, NULL};

    *row = gs_option_row_of(name);
    if (*row == GS_OPTIONS_COUNT) {
        return GS_ERR_NOT_FOUND;
    }
    option = &gs_options_table[*row];
    snprintf(entry, sizeof(entry), "%s=%s", option->name, value);
    gs_options_load(out, env, false, notes);
    return notes->length == 0 ? GS_OK : GS_ERR_INVALID;
}

const char *gs_options_given_text(char *const *env, const char *name)
{
    size_t length = strlen(name);

    for (; env && *env; env++) {
        /* At the start of each program: most names have another first letter. */
        if ((*env)[0] == name[0] && strncmp(*env, name, length) == 0 &&
            (*env)[length] == '=') {
            return *env + length + 1;
        }
    }
    return "";
}

bool gs_options_given(char *const *env, const char *name)
{
    return *gs_options_given_text(env, name);
}
