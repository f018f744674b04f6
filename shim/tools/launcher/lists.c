/*
 * lists.c - variables that are lists. The launcher keeps each of their items under the
 * name of its own option, as all other options, and the command gets the lists.
 *
 * Owns: nothing.   Lock: none; one thread.   Source: shim/settings/options.def
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/settings/options.h"
#include "shim/settings/options_lists.h"
#include "shim/tools/launcher/launcher.h"

#define SHOWN_BYTES 80

static char copy[GS_LIST_BYTES];
static bool warns; /* GPUSHIM_VERBOSE is not 0 */

/* ---- of the environment ------------------------------------------------------------ */

/* Warns of a value that is not one, which counts as not given. */
static bool warn_wrong(const struct gs_option *option, const char *label,
                       const char *value)
{
    char shown[SHOWN_BYTES], out[GS_OPTION_WRONG_BYTES];
    const char *wrong = value[0] ? gs_option_wrong(option, value, out) : NULL;
    if (wrong && warns) {
        gs_launcher_warn("%s%s: %s; %s%s", label,
                         gs_option_quote(value, strlen(value), shown, sizeof(shown)),
                         wrong, option->fallback[0] ? "using " : "ignored",
                         option->fallback);
    }
    return wrong != NULL;
}

static void keep_item(void *self, const struct gs_item *item, const char *value)
{
    const struct gs_option *option = &gs_options_table[item->row];
    char label[64];
    (void)snprintf(label, sizeof(label), "%s=%s%s", gs_lists[*(unsigned *)self].name,
                   item->word, item->word[0] ? ":" : "");
    if (warn_wrong(option, label, value) || !value[0] ||
        strcmp(value, option->fallback) == 0) {
        (void)unsetenv(option->name);
    } else {
        (void)setenv(option->name, value, 1);
    }
}

static void warn_item(void *self, const char *item, size_t length, const char *problem)
{
    char shown[SHOWN_BYTES];
    if (warns) {
        gs_launcher_warn("%s=%s: %s", gs_lists[*(unsigned *)self].name,
                         gs_option_quote(item, length, shown, sizeof(shown)), problem);
    }
}

static void see_item(void *self, const struct gs_item *item, const char *value)
{
    (void)item, (void)value;
    *(bool *)self = true;
}

static void see_problem(void *self, const char *item, size_t length, const char *problem)
{
    (void)self, (void)item, (void)length, (void)problem;
}

static bool has_items(unsigned list, const char *value)
{
    bool any = false;
    gs_list_read(list, value, copy, &(struct gs_list_sink){see_item, see_problem, &any});
    return any;
}

/* The list, if it has a valid item, replaces what its items have under their own names.
 */
static void split(unsigned list, const char *value)
{
    char *text = strdup(value);
    bool replaces = has_items(list, value);
    for (size_t i = 0; i < gs_items_count; i++) {
        const char *name = gs_options_table[gs_items[i].row].name;
        if (replaces && gs_items[i].list == list && getenv(name)) {
            if (warns && strcmp(name, gs_lists[list].name) != 0) {
                gs_launcher_warn("%s: %s is set, which replaces it; ignored", name,
                                 gs_lists[list].name);
            }
            (void)unsetenv(name);
        }
    }
    (void)unsetenv(gs_lists[list].name);
    if (text) {
        gs_list_read(list, text, copy,
                     &(struct gs_list_sink){keep_item, warn_item, &list});
    }
    free(text);
}

void gs_lists_split(void)
{
    static struct gs_options options;
    static struct gs_options_messages notes;
    gs_options_load(&options, environ, false, &notes);
    warns = options.verbose > 0;
    if (warns) {
        (void)fputs(notes.renamed, stderr);
    }
    for (unsigned list = 0; list < GS_LISTS; list++) {
        const char *value = getenv(gs_lists[list].name);
        if (value && value[0] && gs_list_is_meant(list, value)) {
            split(list, value);
        }
    }
    for (size_t i = 0; i < gs_items_count; i++) {
        const struct gs_option *option = &gs_options_table[gs_items[i].row];
        const char *value = getenv(option->name);
        char label[64];
        (void)snprintf(label, sizeof(label), "%s=", option->name);
        if (value && warn_wrong(option, label, value)) {
            (void)unsetenv(option->name);
        }
    }
}

/* ---- of the command line ----------------------------------------------------------- */

struct taking {
    bool checks; /* and takes nothing */
    char option[GS_OPTION_ARGUMENT_BYTES];
};

static void take_item(void *self, const struct gs_item *item, const char *value)
{
    const struct taking *taking = self;
    const struct gs_option *option = &gs_options_table[item->row];
    char label[GS_OPTION_ARGUMENT_BYTES + sizeof(item->word) + 2];
    (void)snprintf(label, sizeof(label), "%s=%s%s", taking->option, item->word,
                   item->word[0] ? ":" : "");
    if (value[0]) {
        gs_value_check(option, label, value);
    }
    if (!taking->checks) {
        gs_arguments_set(option->name, value);
    }
}

static void refuse_item(void *self, const char *item, size_t length, const char *problem)
{
    const struct taking *taking = self;
    char shown[SHOWN_BYTES];
    gs_launcher_fail(GS_EXIT_USAGE, "%s=%s: %.*s", taking->option,
                     gs_option_quote(item, length, shown, sizeof(shown)),
                     (int)strcspn(problem, ";"), problem);
}

void gs_lists_take(unsigned list, const char *value)
{
    struct taking taking = {.checks = false};
    gs_option_argument(gs_lists[list].name, taking.option);
    gs_list_read(list, value, copy,
                 &(struct gs_list_sink){take_item, refuse_item, &taking});
}

void gs_lists_check(unsigned list, const char *value)
{
    struct taking taking = {.checks = true};
    (void)strcpy(taking.option, gs_lists[list].name);
    gs_list_read(list, value, copy,
                 &(struct gs_list_sink){take_item, refuse_item, &taking});
}

/* ---- of the command ---------------------------------------------------------------- */

static void join(unsigned list)
{
    const char *values[GS_OPTIONS_COUNT] = {NULL}, *name = gs_lists[list].name;
    bool any = false, is_set = false;
    for (size_t i = 0; i < gs_items_count; i++) {
        const char *own = gs_options_table[gs_items[i].row].name;
        if (gs_items[i].list == list) {
            values[gs_items[i].row] = getenv(own);
            is_set |= gs_arguments_is_set(own);
            any |= values[gs_items[i].row] && strcmp(own, name) != 0;
        }
    }
    if (!any || !*gs_list_write(list, values, copy)) {
        return;
    }
    for (size_t i = 0; i < gs_items_count; i++) {
        if (gs_items[i].list == list) {
            (void)unsetenv(gs_options_table[gs_items[i].row].name);
        }
    }
    if (is_set) {
        gs_arguments_set(name, copy);
    } else {
        (void)setenv(name, copy, 1);
    }
}

void gs_lists_join(void)
{
    for (unsigned list = 0; list < GS_LISTS; list++) {
        join(list);
    }
}
