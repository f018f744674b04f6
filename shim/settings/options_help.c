/*
 * options_help.c - the help text: every variable, by group.
 * Owns:  nothing.   Lock: none.
 */
#include "options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "options_table.h"

#define HELP_COLUMNS 78

static void GS_PRINTF(3, 4) say(gs_options_sink sink, void *self, const char *format, ...)
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
            for (length = columns; length > 0 && text[length] != ' '; length--)
                continue;
            if (length == 0)
                length = columns;
        }
        say(sink, self, "%*s%.*s\n", indent, "", (int)length, text);
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

static void write_option(gs_options_sink sink, void *self, const struct gs_option *option)
{
    char form[GS_OPTION_WORDS_BYTES], line[256];

    say(sink, self, "  %s=%s", option->name, value_form(option, form));
    if (*option->fallback)
        say(sink, self, "  (default %s%s%s%s%s)", option->fallback,
            *option->min ? "; " : "", option->min, *option->max ? " to " : "",
            option->max);
    say(sink, self, "\n");
    write_wrapped(sink, self, 6, option->doc);
    for (size_t i = 0; i < gs_choices_count; i++) {
        if (gs_choices[i].offset != option->offset)
            continue;
        snprintf(line, sizeof(line), "%s: %s", gs_choices[i].word, gs_choices[i].doc);
        write_wrapped(sink, self, 8, line);
    }
}

void gs_options_help(gs_options_sink sink, void *self)
{
    const char *group = "";

    write_wrapped(
        sink, self, 0,
        "Variables read by libgpushim.so. A SIZE is a number of bytes, or one "
        "with K, M, G or T (powers of 1024), such as 1.5G; a TIME ends in ms, s, "
        "m, h or d and is in seconds otherwise; a switch also takes 1/0, yes/no, "
        "true/false.");
    for (size_t i = 0; i < GS_OPTIONS_COUNT; i++) {
        if (strcmp(group, gs_options_table[i].group) != 0) {
            group = gs_options_table[i].group;
            say(sink, self, "\n%s\n", group);
        }
        write_option(sink, self, &gs_options_table[i]);
    }
}
