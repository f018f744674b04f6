/*
 * options_help.c - the help text: every variable, by group.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/settings/options.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shim/settings/options_lists.h"
#include "shim/settings/options_table.h"

#define HELP_COLUMNS 78

static void GS_PRINTF(3, 4)
    print_help(gs_options_sink sink, void *self, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    sink(self, text, strlen(text));
}

/* Writes `text`, broken into lines that begin with `indent` spaces. */
static void write_wrapped(gs_options_sink sink, void *self, int indent, const char *text)
{
    size_t columns = (size_t)(HELP_COLUMNS - indent);

    while (*text) {
        size_t length = strlen(text);

        if (length > columns) {
            for (length = columns; length > 0 && text[length] != ' '; length--) {
            }
            if (length == 0) {
                length = columns;
            }
        }
        print_help(sink, self, "%*s%.*s\n", indent, "", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

static const char *value_form(const struct gs_option *option,
                              char out[GS_OPTION_WORDS_BYTES])
{
    switch (option->type) {
    case GS_OPTION_BOOL:
        return "on|off";
    case GS_OPTION_SIZE:
        return "SIZE";
    case GS_OPTION_UINT:
        return "NUMBER";
    case GS_OPTION_TIME:
        return "TIME";
    case GS_OPTION_ENUM:
        return gs_option_words(option, "|", out);
    case GS_OPTION_SHARE:
        return "SIZE|PERCENT%";
    case GS_OPTION_TEXT:
        return "TEXT";
    case GS_OPTION_PATH:
        break;
    }
    return "FILE";
}

const char *gs_option_argument(const char *variable, char out[GS_OPTION_ARGUMENT_BYTES])
{
    size_t length = 2;

    memcpy(out, "--", 2);
    for (const char *c = variable + strlen("GPUSHIM_");
         *c && length < GS_OPTION_ARGUMENT_BYTES - 1; c++) {
        out[length++] = (char)(*c == '_' ? '-' : tolower((unsigned char)*c));
    }
    out[length] = '\0';
    return out;
}

/* Writes the line of an option: its form, then what stands in brackets. */
static void write_form(gs_options_sink sink, void *self, int indent, const char *form,
                       const char *brackets)
{
    bool fits = (size_t)indent + strlen(form) + strlen(brackets) + 4 <= HELP_COLUMNS;

    print_help(sink, self, "%*s%s%s", indent, "", form,
               *brackets ? fits ? "  " : "\n        " : "");
    print_help(sink, self, *brackets ? "(%s)\n" : "%s\n", brackets);
}

/* How an option is written: "GPUSHIM_LEAK_MAX=NUMBER", "--leak-max=NUMBER", or as an item
 * of a list "redzone:SIZE". Returns `out`. */
static const char *form_of(enum gs_options_form form, const struct gs_option *option,
                           const struct gs_item *item, char out[256])
{
    char value[GS_OPTION_WORDS_BYTES], name[GS_OPTION_ARGUMENT_BYTES];
    const char *text = value_form(option, value);

    if (form == GS_OPTIONS_AS_VARIABLES && item) {
        bool alone = item->value[0] || option->type == GS_OPTION_BOOL;

        snprintf(out, 256, "%s%s%s", item->word, item->word[0] && !alone ? ":" : "",
                 !item->word[0] || !alone ? text : "");
    } else if (form == GS_OPTIONS_AS_VARIABLES) {
        snprintf(out, 256, "%s=%s", option->name, text);
    } else if (option->type == GS_OPTION_BOOL) {
        gs_option_argument(option->name, name);
        snprintf(out, 256, "%s, --no-%s", name, name + 2);
    } else {
        snprintf(out, 256, "%s=%s", gs_option_argument(option->name, name), text);
    }
    return out;
}

static void write_option(enum gs_options_form form, gs_options_sink sink, void *self,
                         const struct gs_option *option)
{
    bool argument = form == GS_OPTIONS_AS_ARGUMENTS;
    const struct gs_item *item = gs_item_of((unsigned)(option - gs_options_table));
    const char *multiple = gs_option_multiple(option);
    const char *variable = item ? gs_lists[item->list].name : option->name;
    const int indent = item && !argument ? 8 : 6;
    char line[256], brackets[128] = "";

    if (argument || *option->fallback) {
        snprintf(brackets, sizeof(brackets), "%s%s%s%s%s%s%s%s", argument ? variable : "",
                 argument && *option->fallback ? ", " : "",
                 *option->fallback ? "default " : "", option->fallback,
                 *option->max ? "; " : "", *option->max ? option->min : "",
                 *option->max ? " to " : "", option->max);
    }
    write_form(sink, self, indent - 4, form_of(form, option, item, line), brackets);
    write_wrapped(sink, self, indent, option->doc);
    if (multiple) {
        snprintf(line, sizeof(line), "Rounded up to a multiple of %s.", multiple);
        write_wrapped(sink, self, indent, line);
    }
    for (size_t i = 0; i < gs_choices_count; i++) {
        if (gs_choices[i].offset != option->offset) {
            continue;
        }
        snprintf(line, sizeof(line), "%s: %s", gs_choices[i].word, gs_choices[i].doc);
        write_wrapped(sink, self, indent + 2, line);
    }
}

/* Writes a list and its items. An item may have the list's own option. */
static void write_list(enum gs_options_form form, gs_options_sink sink, void *self,
                       unsigned list)
{
    char name[GS_OPTION_ARGUMENT_BYTES], line[64], brackets[64];
    bool argument = form == GS_OPTIONS_AS_ARGUMENTS;

    snprintf(line, sizeof(line), "%s=LIST",
             argument ? gs_option_argument(gs_lists[list].name, name)
                      : gs_lists[list].name);
    snprintf(brackets, sizeof(brackets), "%s%s%s%s", argument ? gs_lists[list].name : "",
             argument && gs_lists[list].fallback[0] ? ", " : "",
             gs_lists[list].fallback[0] ? "default " : "", gs_lists[list].fallback);
    if (!argument || gs_list_own_row(list) == GS_OPTIONS_COUNT) {
        write_form(sink, self, 2, line, brackets);
        write_wrapped(sink, self, 6, gs_lists[list].doc);
    }
    for (size_t i = 0; i < gs_items_count; i++) {
        const struct gs_item *item = &gs_items[i];
        bool own_help = argument && item->row == GS_OPTION_ROW_help; /* the launcher's */
        if (item->list == list && item == gs_item_of(item->row) && !own_help) {
            write_option(form, sink, self, &gs_options_table[item->row]);
        }
    }
}

/* Writes the options that only the launcher has. */
static void write_launcher_options(gs_options_sink sink, void *self)
{
    char name[GS_OPTION_ARGUMENT_BYTES], line[GS_OPTION_ARGUMENT_BYTES + 8];

    print_help(sink, self, "\nLauncher\n");
    for (size_t i = 0; i < gs_launcher_options_count; i++) {
        const struct gs_launcher_option *option = &gs_launcher_options[i];

        snprintf(line, sizeof(line), "%s=FILE", gs_option_argument(option->name, name));
        write_form(sink, self, 2, line, option->name);
        write_wrapped(sink, self, 6, option->doc);
    }
}

void gs_options_help(enum gs_options_form form, gs_options_sink sink, void *self)
{
    const struct gs_item *item;
    const char *group = "";
    bool listed[GS_LISTS] = {false};

    write_wrapped(sink, self, 0,
                  form == GS_OPTIONS_AS_VARIABLES ? "Variables read by libgpushim.so."
                                                  : "Every option, and its variable.");
    write_wrapped(
        sink, self, 0,
        "A SIZE is a number of bytes, or one with K, M, G or T (powers of 1024), "
        "such as 1.5G; a TIME ends in ms, s, m, h or d and is in seconds "
        "otherwise; a switch also takes 1/0, yes/no, true/false.");
    for (size_t i = 0; i < GS_OPTIONS_COUNT; i++) {
        const struct gs_option *option = &gs_options_table[i];

        if (strcmp(group, option->group) != 0) {
            group = option->group;
            print_help(sink, self, "\n%s\n", group);
        }
        item = gs_item_of((unsigned)i);
        if (item) {
            if (!listed[item->list]) {
                listed[item->list] = true;
                write_list(form, sink, self, item->list);
            }
            continue;
        }
        write_option(form, sink, self, option);
    }
    if (form == GS_OPTIONS_AS_ARGUMENTS) {
        write_launcher_options(sink, self);
    }
}
