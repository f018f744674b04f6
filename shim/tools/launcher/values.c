/*
 * values.c - checks the value of an option by the library's own parsers, before anything
 * starts: what is a warning in a variable is an error on a command line.
 *
 * Owns: nothing.   Lock: none.   Source: shim/settings/options.def
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/limits/cache_sizes.h"
#include "shim/limits/group_name.h"
#include "shim/limits/pressure_levels.h"
#include "shim/limits/size_classes.h"
#include "shim/limits/warmup_list.h"
#include "shim/report/leak_rules.h"
#include "shim/report/outputs.h"
#include "shim/settings/options.h"
#include "shim/settings/options_table.h"
#include "shim/settings/signal_names.h"
#include "shim/tools/launcher/launcher.h"
#include "tracker/stacks/scopes.h"

#define WRONG_BYTES 512
#define SHOWN_BYTES 80

/* ---- options whose values have a grammar ------------------------------------------- */

static const char *wrong_signal(const char *text, char out[WRONG_BYTES])
{
    (void)out;
    return gs_signal_named(text) ? NULL : GS_SIGNAL_WRONG;
}

static const char *wrong_output(const char *text, char out[WRONG_BYTES])
{
    return gs_outputs_wrong(text, out);
}

static const char *wrong_classes(const char *text, char out[WRONG_BYTES])
{
    struct gs_size_classes unused;
    (void)out;
    return gs_size_classes_parse(text, &unused);
}

static const char *wrong_cache(const char *text, char out[WRONG_BYTES])
{
    struct gs_cache_sizes unused;
    (void)out;
    return gs_cache_sizes_parse(text, &unused);
}

static const char *wrong_pressure(const char *text, char out[WRONG_BYTES])
{
    struct gs_pressure_levels unused;
    (void)out;
    return gs_pressure_parse(text, &unused);
}

/* Keeps the first item that is wrong, in `self`. */
static void keep_item(void *self, const char *item, size_t length, const char *problem)
{
    char *out = self, shown[SHOWN_BYTES];
    if (!out[0]) {
        (void)snprintf(out, WRONG_BYTES, "'%s': %s",
                       gs_option_quote(item, length, shown, sizeof(shown)), problem);
    }
}

static const char *wrong_warmup(const char *text, char out[WRONG_BYTES])
{
    static struct gs_warmup_list unused;
    out[0] = '\0';
    gs_warmup_read(text, &unused, keep_item, out);
    return out[0] ? out : NULL;
}

static const char *wrong_group(const char *text, char out[WRONG_BYTES])
{
    (void)out;
    return strchr(text, '/') || gs_group_is_name(text) ? NULL : GS_GROUP_WRONG;
}

static const char *wrong_rules(const char *text, char out[WRONG_BYTES])
{
    (void)out;
    return gs_rules_is_rule(text) ? GS_RULES_WRONG : NULL;
}

static const char *wrong_log(const char *text, char out[WRONG_BYTES])
{
    (void)out;
    return strcmp(text, "-") == 0
               ? "not a file: without the option the report goes to standard error"
               : NULL;
}

static const char *wrong_scopes(const char *text, char out[WRONG_BYTES])
{
    (void)out;
    for (size_t length; *text; text += length + (text[length] == ',')) {
        length = strcspn(text, ",");
        if (length > GS_SCOPE_NAME_MAX || memchr(text, '/', length)) {
            return "not the names of scopes: each has at most 127 bytes and no /";
        }
    }
    return NULL;
}

static const struct {
    enum gs_option_row row;
    const char *(*wrong)(const char *text, char out[WRONG_BYTES]);
} texts[] = {{GS_OPTION_ROW_track_signal, wrong_signal},
             {GS_OPTION_ROW_dump_signal, wrong_signal},
             {GS_OPTION_ROW_log_file, wrong_log},
             {GS_OPTION_ROW_output, wrong_output},
             {GS_OPTION_ROW_pool_size_classes, wrong_classes},
             {GS_OPTION_ROW_pool_cache, wrong_cache},
             {GS_OPTION_ROW_pressure, wrong_pressure},
             {GS_OPTION_ROW_warmup, wrong_warmup},
             {GS_OPTION_ROW_mem_group, wrong_group},
             {GS_OPTION_ROW_releasable, wrong_scopes},
             {GS_OPTION_ROW_suppressions, wrong_rules}};

/* ---- every option ------------------------------------------------------------------ */

static const char *wrong_value(const struct gs_option *option, const char *value,
                               char out[WRONG_BYTES])
{
    static_assert(WRONG_BYTES >= GS_OPTION_WRONG_BYTES, "each description fits");
    static_assert(WRONG_BYTES >= GS_OUTPUTS_WRONG_BYTES, "each description fits");
    const char *wrong = gs_option_wrong(option, value, out);
    for (size_t i = 0; !wrong && value[0] && i < GS_ARRAY_LEN(texts); i++) {
        if (option == &gs_options_table[texts[i].row]) {
            wrong = texts[i].wrong(value, out);
        }
    }
    return wrong;
}

void gs_value_check(const struct gs_option *option, const char *label, const char *value)
{
    char out[WRONG_BYTES], shown[SHOWN_BYTES], name[GS_OPTION_ARGUMENT_BYTES];
    const char *wrong = wrong_value(option, value, out);
    if (!wrong) {
        return;
    }
    bool bounds = option->max[0] && !strstr(wrong, option->max);
    gs_launcher_fail(GS_EXIT_USAGE, "%s%s%s: %s%s%s%s%s",
                     label ? label : gs_option_argument(option->name, name),
                     label ? "" : "=",
                     gs_option_quote(value, strlen(value), shown, sizeof(shown)), wrong,
                     bounds ? "; accepted: " : "", bounds ? option->min : "",
                     bounds ? " to " : "", bounds ? option->max : "");
}

uint64_t gs_value_now(enum gs_option_row row)
{
    static struct gs_options options;
    static struct gs_options_messages notes;
    const struct gs_option *option = &gs_options_table[row];
    char text[GS_OPTION_SIZE_BYTES];
    uint64_t value = 0;
    gs_options_load(&options, environ, false, &notes);
    return gs_option_parse(option, gs_option_value_text(option, &options, true, text),
                           &value) == GS_OK
               ? value
               : 0;
}

unsigned long gs_value_number(const char *what, const char *word, unsigned long least,
                              unsigned long most)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(word, &end, 10);
    if (word[0] < '0' || word[0] > '9' || *end || errno || number < least ||
        number > most) {
        gs_launcher_fail(GS_EXIT_USAGE, "%s is a number from %lu to %lu, not %.100s",
                         what, least, most, word);
    }
    return number;
}
