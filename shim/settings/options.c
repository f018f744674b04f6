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
#include "shim/settings/options_lists.h"
#include "shim/settings/options_table.h"
#include "shim/settings/signal_names.h"

static const char name_prefix[] = "GPUSHIM_";

/* Bytes for a quoted value or name in a note; longer ones are cut. */
#define QUOTE_BYTES 48
#define NOTE_BYTES  384

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
static const char *expected_form(const struct gs_option *option, char out[160])
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
        /* The texts in lists are signals. */
        if (text[0] && option->type == GS_OPTION_TEXT && !gs_signal_named(text) &&
            gs_item_of((unsigned)(option - gs_options_table))) {
            return GS_SIGNAL_WRONG;
        }
        return option->type == GS_OPTION_PATH ? gs_log_pattern_problem(text) : NULL;
    }
    parsed = gs_option_parse(option, text, &value) == GS_OK;
    if (parsed && gs_option_in_range(option, value)) {
        return NULL;
    }
    problem = parsed ? NULL : gs_option_problem(option, text);
    if (parsed && option->type == GS_OPTION_SHARE) {
        snprintf(out, GS_OPTION_WRONG_BYTES, "less than %s (%s is no limit)", option->min,
                 option->fallback);
    } else if (parsed || (problem && *text == '-' && *option->max)) {
        snprintf(out, GS_OPTION_WRONG_BYTES, "not in %s to %s", option->min, option->max);
    } else if (problem) {
        return problem;
    } else {
        snprintf(out, GS_OPTION_WRONG_BYTES, "not %s", expected_form(option, words));
    }
    return out;
}

/* Reads a file name pattern, or any text. */
static void load_path(struct gs_options *out, const struct gs_option *option,
                      const char *label, const char *text,
                      struct gs_options_messages *notes)
{
    char quote[QUOTE_BYTES], wrong[GS_OPTION_WRONG_BYTES];
    const char *problem = gs_option_wrong(option, text, wrong);

    if (problem) {
        add_note(notes, "gpushim: %s%s: %s; ignored", label,
                 gs_option_quote(text, strlen(text), quote, sizeof(quote)), problem);
    } else {
        memcpy((char *)out + option->offset, text, strlen(text) + 1);
    }
}

static_assert(GS_OPTIONS_PATH_BYTES == 1024, "gs_option_wrong names the limit");

/* Rounds up if the table asks for this, and adds a note. */
static uint64_t rounded(const struct gs_option *option, const char *label,
                        const char *text, uint64_t value,
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
    add_note(notes, "gpushim: %s%s: not a multiple of %s; using %s", label,
             gs_option_quote(text, strlen(text), quote, sizeof(quote)), multiple,
             gs_option_size_text(value, exact));
    return value;
}

/* In place of a value that is wrong: the default, but for a check, which must not pass
 * for that. */
static const char *value_instead(const struct gs_option *option)
{
    return option == &gs_options_table[GS_OPTION_ROW_error_exitcode] ? "1"
                                                                     : option->fallback;
}

/* In:  label  what precedes the value in a note: "NAME=", or "LIST=item:" */
static void load_value(struct gs_options *out, const struct gs_option *option,
                       const char *label, const char *text,
                       struct gs_options_messages *notes)
{
    char quote[QUOTE_BYTES], wrong[GS_OPTION_WRONG_BYTES];
    const char *problem;
    uint64_t value;

    if (option->type == GS_OPTION_PATH || option->type == GS_OPTION_TEXT) {
        load_path(out, option, label, text, notes);
        return;
    }
    if (gs_option_parse(option, text, &value) == GS_OK &&
        gs_option_in_range(option, value)) {
        store(out, option, rounded(option, label, text, value, notes));
        return;
    }
    if (gs_option_parse(option, value_instead(option), &value) == GS_OK) {
        store(out, option, value); /* a list may have changed it */
    }
    problem = gs_option_wrong(option, text, wrong);
    add_note(notes, "gpushim: %s%s: %s; using %s", label,
             gs_option_quote(text, strlen(text), quote, sizeof(quote)),
             problem ? problem : "", value_instead(option));
}

/* ---- Unknown names ---------------------------------------------------------------- */

static void add_unknown_note(const char *name, size_t length,
                             struct gs_options_messages *notes)
{
    char quote[QUOTE_BYTES];
    size_t prefix = sizeof(name_prefix) - 1;
    const char *nearest = gs_options_nearest(name + prefix, length - prefix);
    const struct gs_item *item = nearest ? gs_item_of(gs_option_row_of(nearest)) : NULL;

    nearest = item ? gs_lists[item->list].name : nearest;
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

/* What the environment has: of each row the entries and the first one's value, of each
 * list the same, as far as it is to be read as one. */
struct entries {
    unsigned char seen[GS_OPTIONS_COUNT + GS_LISTS];
    const char *values[GS_OPTIONS_COUNT];
    const char *lists[GS_LISTS];
    bool has_items; /* a value of a list, or of a row that is in one */
};

/* Counts an entry; returns whether it is the first. */
static bool is_first(unsigned char *seen, const char *name,
                     struct gs_options_messages *notes)
{
    if (*seen == 1) {
        add_note(notes, "gpushim: %s is set more than once; the first counts", name);
    }
    *seen += *seen < 2;
    return *seen == 1;
}

/* Reads one entry, with a name up to `length`. Lists are read later. */
static void load_entry(struct gs_options *out, const char *entry, size_t length,
                       struct entries *all, struct gs_options_messages *notes)
{
    const char *value = entry + length + 1;
    char label[sizeof(gs_options_table->name) + 1];
    unsigned list = gs_list_named(entry, length);

    if (list < GS_LISTS && gs_list_is_meant(list, value)) {
        if (is_first(&all->seen[GS_OPTIONS_COUNT + list], gs_lists[list].name, notes) &&
            *value) {
            all->lists[list] = value;
            all->has_items = true;
        }
        return;
    }
    for (size_t i = 0; i < GS_OPTIONS_COUNT; i++) {
        if (!is_named(gs_options_table[i].name, entry, length)) {
            continue;
        }
        /* A list and its own row have one name. */
        size_t name = list < GS_LISTS ? GS_OPTIONS_COUNT + list : i;
        if (is_first(&all->seen[name], gs_options_table[i].name, notes) && *value) {
            all->values[i] = value;
            all->has_items |= gs_item_of((unsigned)i) != NULL;
            snprintf(label, sizeof(label), "%.31s=", gs_options_table[i].name);
            load_value(out, &gs_options_table[i], label, value, notes);
        }
        return;
    }
    if (!is_launcher_name(entry, length)) {
        add_unknown_note(entry, length, notes);
    }
}

/* ---- Lists ------------------------------------------------------------------------ */

struct list_reading {
    struct gs_options *out;
    struct gs_options_messages *notes;
    const char *name;
    bool any; /* item was valid */
};

static void load_item(void *self, const struct gs_item *item, const char *value)
{
    struct list_reading *reading = self;
    char label[sizeof(gs_lists->name) + sizeof(item->word) + 2];

    reading->any = true;
    snprintf(label, sizeof(label), "%.23s=%.11s%s", reading->name, item->word,
             item->word[0] ? ":" : "");
    if (*value) {
        load_value(reading->out, &gs_options_table[item->row], label, value,
                   reading->notes);
    } else {
        store_default(reading->out, &gs_options_table[item->row]);
    }
}

static void note_item(void *self, const char *item, size_t length, const char *problem)
{
    const struct list_reading *reading = self;
    char quote[QUOTE_BYTES];

    add_note(reading->notes, "gpushim: %s=%s: %s", reading->name,
             gs_option_quote(item, length, quote, sizeof(quote)), problem);
}

/* The variables of before with valid values, "A=1, B=2", of a list; returns their
 * number. */
static unsigned old_names(unsigned list, const struct entries *all, char out[NOTE_BYTES])
{
    char quote[QUOTE_BYTES], wrong[GS_OPTION_WRONG_BYTES];
    unsigned count = 0, own = gs_list_own_row(list);
    size_t used = 0;

    for (unsigned i = 0; i < GS_OPTIONS_COUNT && used < NOTE_BYTES; i++) {
        const struct gs_item *item = gs_item_of(i);

        if (item && item->list == list && i != own && all->values[i] &&
            !gs_option_wrong(&gs_options_table[i], all->values[i], wrong)) {
            used +=
                (size_t)snprintf(out + used, NOTE_BYTES - used, "%s%s=%s",
                                 count++ ? ", " : "", gs_options_table[i].name,
                                 gs_option_quote(all->values[i], strlen(all->values[i]),
                                                 quote, sizeof(quote)));
        }
    }
    return count;
}

/* Loads a list. A list with a valid item replaces its items' own variables; without one
 * these count, and a note says how to write the list. */
static void load_list(struct gs_options *out, unsigned list, const struct entries *all,
                      struct gs_options_messages *notes)
{
    struct list_reading reading = {out, notes, gs_lists[list].name, false};
    const struct gs_list_sink sink = {load_item, note_item, &reading};
    char old[NOTE_BYTES];
    unsigned count = old_names(list, all, old);

    if (all->lists[list]) {
        gs_list_read(list, all->lists[list], notes->scratch, &sink);
        if (count && reading.any) {
            add_note(notes, "gpushim: %.320s: %s is set, which replaces %s; ignored", old,
                     reading.name, count > 1 ? "them" : "it");
        }
    }
    if (reading.any) {
        return;
    }
    if (count && *gs_list_write(list, all->values, notes->scratch)) {
        size_t used = strlen(notes->renamed);

        snprintf(notes->renamed + used, sizeof(notes->renamed) - used,
                 "gpushim: %.320s %s now %s=%.400s\n", old, count > 1 ? "are" : "is",
                 reading.name, notes->scratch);
    }
}

static_assert(GS_OPTIONS_RENAMED_BYTES >= GS_LISTS * 800, "a line for each list");
static_assert(sizeof(((struct gs_options_messages *)0)->scratch) == GS_LIST_BYTES,
              "a list fits");

void gs_options_load(struct gs_options *out, char *const *env, bool secure,
                     struct gs_options_messages *notes)
{
    struct entries all = {0};
    int saved_errno = errno;

    notes->text[0] = notes->renamed[0] = '\0';
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
            load_entry(out, *env, (size_t)(equals - *env), &all, notes);
        }
    }
    for (unsigned list = 0; list < GS_LISTS && all.has_items; list++) {
        load_list(out, list, &all, notes);
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
                                   struct gs_options *out, unsigned *row, unsigned *list,
                                   struct gs_options_messages *notes)
{
    char entry[sizeof(gs_options_table->name) + GS_OPTIONS_PATH_BYTES + 2];
    char *env[] = {entry, NULL};

    *row = gs_option_row_of(name);
    *list = gs_list_of(name);
    if (*row == GS_OPTIONS_COUNT && *list == GS_LISTS) {
        return GS_ERR_NOT_FOUND;
    }
    if (*list < GS_LISTS && !gs_list_is_meant(*list, value)) {
        *list = GS_LISTS;
    }
    snprintf(entry, sizeof(entry), "%s=%s",
             *list < GS_LISTS ? gs_lists[*list].name : gs_options_table[*row].name,
             value);
    if (strlen(value) > GS_OPTIONS_PATH_BYTES) {
        notes->text[0] = notes->renamed[0] = '\0';
        notes->length = 0;
        add_note(notes, "gpushim: %s: the value is longer than 1024 bytes", name);
        return GS_ERR_INVALID;
    }
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
