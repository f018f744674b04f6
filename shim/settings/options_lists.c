/*
 * options_lists.c - reads and writes the variables that are lists.
 * Owns:  the tables; immutable.   Lock: none.
 */
#include "shim/settings/options_lists.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "shim/settings/options.h"
#include "shim/settings/signal_names.h"

#define PROBLEM_BYTES 256
/* Items of one list at most. */
#define ITEMS_MOST 16

enum { PARAMETERS, SET };

const struct gs_list gs_lists[GS_LISTS] = {
#define GS_OPT_LIST(list, name, kind, default_, group, doc)                              \
    {name, kind, default_, group, doc},
#include "shim/settings/options.def"
};

const struct gs_item gs_items[] = {
#define GS_OPT_ITEM(list, field, word, value)                                            \
    {GS_LIST_##list, GS_OPTION_ROW_##field, word, value},
#include "shim/settings/options.def"
};
const size_t gs_items_count = GS_ARRAY_LEN(gs_items);

static const struct gs_option *option_of(const struct gs_item *item)
{
    return &gs_options_table[item->row];
}

static bool is_text(const struct gs_option *option)
{
    return option->type == GS_OPTION_TEXT || option->type == GS_OPTION_PATH;
}

const struct gs_item *gs_item_of(unsigned row)
{
    for (size_t i = 0; i < gs_items_count; i++) {
        if (gs_items[i].row == row) {
            return &gs_items[i];
        }
    }
    return NULL;
}

unsigned gs_list_named(const char *name, size_t length)
{
    unsigned list = 0;
    while (list < GS_LISTS && (strncmp(gs_lists[list].name, name, length) != 0 ||
                               gs_lists[list].name[length] != '\0')) {
        list++;
    }
    return list;
}

unsigned gs_list_of(const char *name)
{
    const size_t prefix = sizeof("GPUSHIM_") - 1;
    unsigned list = 0;
    name += strncasecmp(name, "GPUSHIM_", prefix) == 0 ? prefix : 0;
    while (list < GS_LISTS && strcasecmp(gs_lists[list].name + prefix, name) != 0) {
        list++;
    }
    return list;
}

unsigned gs_list_own_row(unsigned list)
{
    return gs_option_row_of(gs_lists[list].name);
}

/* ---- reading ----------------------------------------------------------------------- */

/* Whether the text is a value of a row without a word. A text is a signal; 1 is rather a
 * switch than SIGHUP. */
static bool is_bare(const struct gs_item *item, const char *text)
{
    uint64_t value;
    return is_text(option_of(item))
               ? strcmp(text, "1") != 0 && gs_signal_named(text) != 0
               : gs_option_parse(option_of(item), text, &value) == GS_OK &&
                     gs_option_in_range(option_of(item), value);
}

static bool has_word(const struct gs_item *item, const char *text, size_t length)
{
    return item->word[0] && strlen(item->word) == length &&
           strncasecmp(item->word, text, length) == 0;
}

/* The item with this word; else the first one of which the text is a value; NULL: none.
 */
static const struct gs_item *item_named(unsigned list, const char *text, size_t length)
{
    const struct gs_item *bare = NULL;
    for (size_t i = 0; i < gs_items_count; i++) {
        if (gs_items[i].list != list) {
            continue;
        }
        if (has_word(&gs_items[i], text, length)) {
            return &gs_items[i];
        }
        bare = !bare && !gs_items[i].word[0] && is_bare(&gs_items[i], text) ? &gs_items[i]
                                                                            : bare;
    }
    return bare;
}

bool gs_list_is_meant(unsigned list, const char *value)
{
    unsigned row = gs_list_own_row(list);
    char unused[GS_OPTION_WRONG_BYTES];
    if (row == GS_OPTIONS_COUNT) {
        return true;
    }
    return gs_option_wrong(&gs_options_table[row], value, unused) != NULL &&
           (strpbrk(value, ",:") || item_named(list, value, strlen(value)));
}

/* Whether the text turns off all that a list is for. */
static bool is_off(unsigned list, const char *text)
{
    static const struct gs_option boolean = {.type = GS_OPTION_BOOL};
    uint64_t value;
    return gs_lists[list].is_set && gs_option_parse(&boolean, text, &value) == GS_OK &&
           value == 0;
}

/* The value of a row for which the list has no item. */
static const char *rest_value(const struct gs_item *item)
{
    const struct gs_option *option = option_of(item);
    uint64_t unused;
    return gs_lists[item->list].is_set && !is_text(option) &&
                   gs_option_parse(option, "off", &unused) == GS_OK
               ? "off"
               : option->fallback;
}

/* "args, transfers, redzone:..., or a signal". Returns `out`. */
static const char *known_items(unsigned list, char out[PROBLEM_BYTES])
{
    char words[GS_OPTION_WORDS_BYTES];
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < gs_items_count && used < PROBLEM_BYTES; i++) {
        const struct gs_item *item = &gs_items[i];
        if (item->list != list) {
            continue;
        }
        const char *word = item->word;
        if (!word[0]) {
            enum gs_option_type type = option_of(item)->type;
            word = type == GS_OPTION_BOOL   ? "on, off"
                   : type == GS_OPTION_TIME ? "a time"
                   : type == GS_OPTION_ENUM
                       ? gs_option_words(option_of(item), ", ", words)
                       : "a signal such as USR1";
        }
        if (!item->word[0] && strstr(out, word)) {
            continue; /* several rows take a time */
        }
        bool takes =
            item->word[0] && !item->value[0] && !gs_option_is_switch(option_of(item));
        used += (size_t)snprintf(out + used, PROBLEM_BYTES - used, "%s%s%s",
                                 used ? ", " : "", word, takes ? ":..." : "");
    }
    return out;
}

struct reading {
    unsigned list;
    const struct gs_list_sink *sink;
    const char *values[ITEMS_MOST]; /* of the items; NULL: not given */
    const struct gs_item *first;    /* of the list; its other rows follow */
    unsigned count;
};

static void report_problem(struct reading *reading, const char *item, const char *problem)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): no item's value is the sink */
    reading->sink->problem(reading->sink->self, item, strlen(item), problem);
}

/* Gives the text to every item that accepts it as a value without a word. */
static void take_bare(struct reading *reading, const struct gs_item *named,
                      const char *text)
{
    for (unsigned i = 0; i < reading->count; i++) {
        const struct gs_item *item = &reading->first[i];
        bool same = is_text(option_of(item)) == is_text(option_of(named));
        if (!item->word[0] && same && is_bare(item, text)) {
            reading->values[i] = text;
        }
    }
}

/* Why the text is no item: it would be a value without a word, but for its size; or it is
 * none of the words. Returns `out`. */
static const char *why_unknown(unsigned list, const char *text,
                               char out[PROBLEM_BYTES + 32])
{
    char known[PROBLEM_BYTES];
    uint64_t value;
    if (is_off(list, text)) {
        return "turns the whole list off, and is then its only item; left out";
    }
    for (size_t i = 0; i < gs_items_count; i++) {
        const struct gs_option *option = option_of(&gs_items[i]);
        if (gs_items[i].list == list && !gs_items[i].word[0] && !is_text(option) &&
            gs_option_parse(option, text, &value) == GS_OK) {
            (void)snprintf(out, PROBLEM_BYTES + 32, "not in %s to %s; left out",
                           option->min, option->max);
            return out;
        }
    }
    (void)snprintf(out, PROBLEM_BYTES + 32, "not one of %s; left out",
                   known_items(list, known));
    return text[0] ? out : "an item is empty; left out";
}

/* Takes an item WORD, WORD:VALUE or VALUE of a list. Of a repeated item the first one
 * counts. */
static void take_item(struct reading *reading, char *text)
{
    char problem[PROBLEM_BYTES + 32];
    char *value = strchr(text, ':');
    size_t length = strcspn(text, ":");
    const struct gs_item *item = item_named(reading->list, text, length);
    if (!item || (!item->word[0] && value)) {
        report_problem(reading, text, why_unknown(reading->list, text, problem));
        return;
    }
    const char **slot = &reading->values[item - reading->first];
    if (*slot) {
        report_problem(reading, text,
                       is_text(option_of(item)) ? "there is one signal; the first counts"
                                                : "given twice; the first counts");
    } else if (!item->word[0]) {
        take_bare(reading, item, text);
    } else if (item->value[0] && value) {
        report_problem(reading, text, "takes no value; left out");
    } else if (item->value[0]) {
        *slot = item->value;
    } else if (value && value[1]) {
        *slot = value + 1;
    } else if (!value && gs_option_is_switch(option_of(item))) {
        *slot = "on";
    } else {
        (void)snprintf(problem, sizeof(problem), "needs a value (%s:...); left out",
                       item->word);
        report_problem(reading, text, problem);
    }
}

/* Returns the text without the spaces around it. */
static char *trim_spaces(char *text)
{
    text += strspn(text, " ");
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == ' ') {
        text[--length] = '\0';
    }
    return text;
}

static void find_items(struct reading *reading)
{
    reading->first = gs_items;
    while (reading->first->list != reading->list) {
        reading->first++;
    }
    const struct gs_item *end = gs_items + gs_items_count;
    while (reading->count < ITEMS_MOST && reading->first + reading->count < end &&
           reading->first[reading->count].list == reading->list) {
        reading->count++;
    }
}

void gs_list_read(unsigned list, const char *text, char copy[GS_LIST_BYTES],
                  const struct gs_list_sink *sink)
{
    struct reading reading = {.list = list, .sink = sink};
    bool off = is_off(list, text), any = off;
    if (strlen(text) >= GS_LIST_BYTES) {
        sink->problem(sink->self, text, strlen(text), "longer than 2047 bytes; ignored");
        return;
    }
    find_items(&reading);
    strcpy(copy, text);
    for (char *item = copy, *next = copy; next && !off; item = next) {
        next = strchr(item, ',');
        if (next) {
            *next++ = '\0';
        }
        take_item(&reading, trim_spaces(item));
    }
    for (unsigned i = 0; i < reading.count; i++) {
        any |= reading.values[i] != NULL;
    }
    for (unsigned i = 0; i < reading.count && any; i++) {
        sink->value(sink->self, &reading.first[i], rest_value(&reading.first[i]));
    }
    for (unsigned i = 0; i < reading.count; i++) {
        if (reading.values[i]) {
            sink->value(sink->self, &reading.first[i], reading.values[i]);
        }
    }
}

static_assert(GS_LIST_BYTES == 2048, "gs_list_read names the limit");

/* ---- writing ----------------------------------------------------------------------- */

static bool same_value(const struct gs_option *option, const char *a, const char *b)
{
    uint64_t x, y;
    return is_text(option) ? strcmp(a, b) == 0
                           : gs_option_parse(option, a, &x) == GS_OK &&
                                 gs_option_parse(option, b, &y) == GS_OK && x == y;
}

/* Whether the word alone says the value. */
static bool is_word_alone(const struct gs_item *item, const char *value)
{
    return item->value[0] || (gs_option_is_switch(option_of(item)) &&
                              same_value(option_of(item), value, "on"));
}

/* The item's part of the list, in `word` and `value`; false: the list does without. */
static bool part_of(const struct gs_item *item, const char *given, char name[24],
                    const char **word, const char **value)
{
    const struct gs_option *option = option_of(item);
    const bool is_set = gs_lists[item->list].is_set;
    const char *now = given ? given : option->fallback;
    *word = item->word;
    *value = "";
    if (!is_set && !given) {
        return false;
    }
    if (item->value[0]) {
        return same_value(option, now, item->value);
    }
    if (!item->word[0] && isdigit((unsigned char)now[0]) && is_text(option)) {
        *word = gs_signal_name(gs_signal_named(now), name);
        return true;
    }
    if (!item->word[0]) {
        *word = now;
        return now[0] != '\0';
    }
    *value = is_word_alone(item, now) ? "" : now;
    return !is_set || !same_value(option, now, rest_value(item));
}

const char *gs_item_write(const struct gs_item *item, const char *value,
                          char out[GS_ITEM_BYTES])
{
    bool alone = item->word[0] && is_word_alone(item, value);
    (void)snprintf(out, GS_ITEM_BYTES, "%s%s%.60s", item->word,
                   item->word[0] && !alone ? ":" : "", alone ? "" : value);
    return out;
}

/* Whether the row has an item with a word, which then says what one without would. */
static bool is_worded(const struct gs_item *item)
{
    for (size_t i = 0; i < gs_items_count; i++) {
        if (gs_items[i].list == item->list && gs_items[i].row == item->row &&
            gs_items[i].word[0]) {
            return true;
        }
    }
    return false;
}

/* Whether the row of the list's own name turns all of it off. */
static bool is_all_off(unsigned list, const char *const values[GS_OPTIONS_COUNT])
{
    unsigned own = gs_list_own_row(list);
    return own < GS_OPTIONS_COUNT && values[own] && is_off(list, values[own]);
}

const char *gs_list_write(unsigned list, const char *const values[GS_OPTIONS_COUNT],
                          char out[GS_LIST_BYTES])
{
    char unused[GS_OPTION_WRONG_BYTES], signal[24];
    size_t used = 0;
    bool any = false;
    out[0] = '\0';
    if (is_all_off(list, values)) {
        return strcpy(out, "off");
    }
    for (size_t i = 0; i < gs_items_count; i++) {
        const struct gs_item *item = &gs_items[i];
        const char *given = values[item->row], *word, *value;
        if (item->list != list || (!item->word[0] && is_worded(item))) {
            continue;
        }
        given = given && given[0] && !gs_option_wrong(option_of(item), given, unused)
                    ? given
                    : NULL;
        any |= given != NULL;
        if (part_of(item, given, signal, &word, &value) && used < GS_LIST_BYTES) {
            used += (size_t)snprintf(out + used, GS_LIST_BYTES - used, "%s%s%s%s",
                                     used ? "," : "", word, value[0] ? ":" : "", value);
        }
    }
    if (!any || used >= GS_LIST_BYTES) {
        out[0] = '\0';
    } else if (!used) {
        (void)snprintf(out, GS_LIST_BYTES, "%s",
                       gs_lists[list].is_set ? "off" : gs_lists[list].fallback);
    }
    return out;
}

const char *gs_list_text(unsigned list, const struct gs_options *options,
                         char out[GS_LIST_BYTES])
{
    const char *values[GS_OPTIONS_COUNT] = {NULL};
    char texts[ITEMS_MOST][GS_OPTION_SIZE_BYTES];
    unsigned count = 0, own = gs_list_own_row(list);
    for (size_t i = 0; i < gs_items_count; i++) {
        unsigned row = gs_items[i].row;
        if (gs_items[i].list != list || values[row] || count == ITEMS_MOST) {
            continue;
        }
        const struct gs_option *option = &gs_options_table[row];
        const char *now = gs_option_value_text(option, options, false, texts[count]);
        if (!same_value(option, now, option->fallback)) {
            values[row] = now;
            count++;
        }
    }
    if (*gs_list_write(list, values, out)) {
        return out;
    }
    return strcpy(out, own < GS_OPTIONS_COUNT ? gs_options_table[own].fallback
                                              : gs_lists[list].fallback);
}
