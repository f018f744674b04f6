/*
 * refuse.c - options that the library or the verb could not do anything with: files that
 * cannot be written or read, and options without effect. What would be a line at the end
 * of a run of hours ends the command before it starts.
 *
 * Owns: nothing.   Lock: none; one thread.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/report/leak_rules.h"
#include "shim/report/write_rules.h"
#include "shim/settings/options.h"
#include "shim/settings/options_table.h"
#include "shim/settings/output.h"
#include "shim/settings/output_ours.h"
#include "shim/tools/launcher/launcher.h"

#define NAME_BYTES GS_OPTION_ARGUMENT_BYTES

static bool is_set_here(enum gs_option_row row)
{
    return gs_arguments_is_set(gs_options_table[row].name);
}

/* A run of hours would say at its end that the file is somebody else's. */
static void refuse_foreign_files(void)
{
    static const enum gs_option_row rows[] = {GS_OPTION_ROW_output_file,
                                              GS_OPTION_ROW_metrics_file};
    const char *formats = getenv(gs_options_table[GS_OPTION_ROW_output].name);
    char name[NAME_BYTES];
    struct stat there;
    gs_output_ours_force(gs_value_now(GS_OPTION_ROW_force) != 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        const char *path = getenv(gs_options_table[rows[i]].name);
        /* Several formats have names of their own, and a "%" stands for more. */
        bool exact =
            rows[i] == GS_OPTION_ROW_metrics_file || (formats && !strchr(formats, ','));
        if (is_set_here(rows[i]) && exact && path && !strchr(path, '%') &&
            lstat(path, &there) == 0 && S_ISREG(there.st_mode) &&
            !gs_output_is_ours(path)) {
            gs_launcher_fail(GS_EXIT_USAGE, "%s=%.400s: %s",
                             gs_option_argument(gs_options_table[rows[i]].name, name),
                             path, gs_output_error_text(ENOTUNIQ));
        }
    }
}

/* Whether a folder of the same name keeps this option's file from being written. */
static bool is_in_the_way(enum gs_option_row row, const char *path)
{
    const char *formats = getenv(gs_options_table[GS_OPTION_ROW_output].name);
    struct stat there;
    if (strchr(path, '%') || stat(path, &there) != 0 || !S_ISDIR(there.st_mode)) {
        return false;
    }
    return row == GS_OPTION_ROW_output_file ? formats && !strchr(formats, ',')
           : row == GS_OPTION_ROW_mem_group ? strchr(path, '/') != NULL
                                            : true;
}

/* As refuse_foreign_files, of a name that is a folder's. */
static void refuse_folders(void)
{
    static const enum gs_option_row rows[] = {
        GS_OPTION_ROW_log_file,   GS_OPTION_ROW_state_file, GS_OPTION_ROW_metrics_file,
        GS_OPTION_ROW_trace_file, GS_OPTION_ROW_lookup_log, GS_OPTION_ROW_output_file,
        GS_OPTION_ROW_mem_group};
    char name[NAME_BYTES];
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        const char *path = getenv(gs_options_table[rows[i]].name);
        if (path && is_set_here(rows[i]) && is_in_the_way(rows[i], path)) {
            gs_launcher_fail(GS_EXIT_USAGE, "%s=%.400s: %s",
                             gs_option_argument(gs_options_table[rows[i]].name, name),
                             path, gs_output_error_text(EISDIR));
        }
    }
}

/* The file that an option names, whole, for free(); NULL: none, not one file (with several
 * formats or a "%"), or no regular one: /dev/null may have several. */
static char *one_file(enum gs_option_row row)
{
    const char *path = getenv(gs_options_table[row].name);
    const char *formats = getenv(gs_options_table[GS_OPTION_ROW_output].name);
    struct stat there;
    if (!path || !path[0] || strchr(path, '%') ||
        (row == GS_OPTION_ROW_output_file && (!formats || strchr(formats, ','))) ||
        (stat(path, &there) == 0 && !S_ISREG(there.st_mode))) {
        return NULL;
    }
    char *whole = gs_path_absolute(row, path);
    return whole ? whole : strdup(path);
}

/* Whether two whole paths name one file, which may not be there yet. */
static bool is_same_file(const char *one, const char *two)
{
    const char *base_one = strrchr(one, '/'), *base_two = strrchr(two, '/');
    char folder[2][PATH_MAX];
    struct stat there[2];
    if (strcmp(one, two) == 0) {
        return true;
    }
    if (!base_one || !base_two || strcmp(base_one, base_two) != 0) {
        return false;
    }
    (void)snprintf(folder[0], PATH_MAX, "%.*s/", (int)(base_one - one), one);
    (void)snprintf(folder[1], PATH_MAX, "%.*s/", (int)(base_two - two), two);
    return stat(folder[0], &there[0]) == 0 && stat(folder[1], &there[1]) == 0 &&
           there[0].st_dev == there[1].st_dev && there[0].st_ino == there[1].st_ino;
}

/* Of two options with one file, one would replace the other's, or nothing would be
 * written. */
static void refuse_same_files(void)
{
    static const enum gs_option_row rows[] = {
        GS_OPTION_ROW_log_file,     GS_OPTION_ROW_state_file,
        GS_OPTION_ROW_metrics_file, GS_OPTION_ROW_trace_file,
        GS_OPTION_ROW_output_file,  GS_OPTION_ROW_write_suppressions};
    char name[NAME_BYTES], other[NAME_BYTES], *files[GS_ARRAY_LEN(rows)];
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        files[i] = one_file(rows[i]);
        for (size_t k = 0; files[i] && k < i; k++) {
            if (files[k] && is_same_file(files[i], files[k]) &&
                (is_set_here(rows[i]) || is_set_here(rows[k]))) {
                gs_launcher_fail(
                    GS_EXIT_USAGE, "%s=%.400s: %s names the same file",
                    gs_option_argument(gs_options_table[rows[i]].name, name),
                    getenv(gs_options_table[rows[i]].name),
                    gs_option_argument(gs_options_table[rows[k]].name, other));
            }
        }
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        free(files[i]);
    }
}

/* What the verb writes instead. */
static const char *written_by(enum gs_verb verb)
{
    switch (verb) {
    case GS_VERB_HTML:
    case GS_VERB_TIMELINE:
        return "the file of -o";
    case GS_VERB_EXPORT:
        return "the FORMAT behind the PID to standard output";
    case GS_VERB_SERVE:
        return "no files";
    default:
        return "text to standard output";
    }
}

/* Options that name a file to write have no effect where no process runs. A process that
 * is attached to writes them, but for a trace, which has an end of its own. */
static void refuse_outputs(const struct gs_arguments *arguments)
{
    static const enum gs_option_row rows[] = {
        GS_OPTION_ROW_output, GS_OPTION_ROW_output_file, GS_OPTION_ROW_output_interval_ms,
        GS_OPTION_ROW_metrics_file, GS_OPTION_ROW_trace_file};
    char name[NAME_BYTES];
    bool writes = arguments->verb == GS_VERB_CDI ||
                  (arguments->verb == GS_VERB_REPORT && !arguments->summary);
    if (arguments->verb == GS_VERB_REPORT) {
        refuse_folders();
    }
    if (arguments->verb == GS_VERB_ATTACH) {
        if (is_set_here(GS_OPTION_ROW_trace_file)) {
            gs_help_refuse(GS_VERB_ATTACH,
                           "attach: --trace-file: a trace of a running process is "
                           "recorded by gpushim trace PID FILE");
        }
        refuse_folders();
        refuse_foreign_files();
        refuse_same_files();
        return;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(rows) && !writes; i++) {
        if (is_set_here(rows[i])) {
            gs_help_refuse(arguments->verb, "%s has no effect: gpushim %s%s writes %s",
                           gs_option_argument(gs_options_table[rows[i]].name, name),
                           gs_arguments_word(arguments->verb),
                           arguments->summary ? " --summary" : "",
                           written_by(arguments->verb));
        }
    }
}

static bool is_of_run(const struct gs_option *option)
{
    static const char groups[][12] = {"Tracking", "Pool", "Checks", "Diagnostics"};
    for (size_t i = 0; i < GS_ARRAY_LEN(groups); i++) {
        if (strcmp(option->group, groups[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Options of a program's run have no effect where none runs, nor a status for its leaks
 * where the verb has one of its own: a check that no leak fails. */
static void refuse_options_of_run(const struct gs_arguments *arguments)
{
    const enum gs_verb verb = arguments->verb;
    char name[NAME_BYTES];
    if (verb == GS_VERB_ATTACH || verb == GS_VERB_CDI) {
        return;
    }
    if (is_set_here(GS_OPTION_ROW_error_exitcode) &&
        (verb != GS_VERB_REPORT || arguments->summary)) {
        gs_help_refuse(
            verb,
            "--error-exitcode has no effect: gpushim %s%s has exit statuses of "
            "its own",
            gs_arguments_word(verb), arguments->summary ? " --summary" : "");
    }
    for (size_t i = 0; i < GS_OPTIONS_COUNT; i++) {
        if (verb != GS_VERB_REPLAY && verb != GS_VERB_ADVISE && is_set_here(i) &&
            is_of_run(&gs_options_table[i])) {
            gs_help_refuse(verb, "%s has no effect: gpushim %s runs no program",
                           gs_option_argument(gs_options_table[i].name, name),
                           gs_arguments_word(verb));
        }
    }
}

/* Why the library would not read a file of rules, which has to be a regular one; NULL: it
 * reads it. In /dev/null there are no rules. */
static const char *why_no_rules(const char *path, bool written)
{
    struct stat there;
    if (access(path, R_OK) != 0) {
        return written && errno == ENOENT ? NULL : gs_output_error_text(errno);
    }
    if (stat(path, &there) != 0) {
        return gs_output_error_text(errno);
    }
    if (S_ISDIR(there.st_mode)) {
        return gs_output_error_text(EISDIR);
    }
    return S_ISREG(there.st_mode) || strcmp(path, "/dev/null") == 0
               ? NULL
               : "not a regular file";
}

/* Without their rules a run of hours would report known leaks as new ones, and a check
 * for CI would pass with a budget that is misspelt. A file that the run writes may be
 * missing. read: whether rules that are no rules are refused, too. */
static void refuse_missing_rules(bool read)
{
    const char *list = getenv(gs_options_table[GS_OPTION_ROW_suppressions].name);
    bool writes = getenv(gs_options_table[GS_OPTION_ROW_write_suppressions].name) != NULL;
    char path[GS_OPTIONS_PATH_BYTES];
    if (!list || !is_set_here(GS_OPTION_ROW_suppressions)) {
        return;
    }
    for (size_t length; *list; list += length + (list[length] == ':')) {
        length = strcspn(list, ":");
        (void)snprintf(path, sizeof(path), "%.*s", (int)length, list);
        const char *problem = length ? why_no_rules(path, writes) : NULL;
        if (problem) {
            gs_launcher_fail(GS_EXIT_USAGE, "--suppressions: cannot read %.400s: %s",
                             path, problem);
        }
        problem = read && length && access(path, F_OK) == 0 ? gs_rules_fault(path) : NULL;
        if (problem) {
            gs_launcher_fail(GS_EXIT_USAGE, "--suppressions: %.600s", problem);
        }
    }
}

/* As refuse_foreign_files, of the file to which rules are added. */
static void refuse_foreign_rules(void)
{
    const char *path = getenv(gs_options_table[GS_OPTION_ROW_write_suppressions].name);
    if (!path || !path[0] || strchr(path, '%') ||
        !is_set_here(GS_OPTION_ROW_write_suppressions)) {
        return;
    }
    const char *problem = gs_rules_refusal(path);
    if (problem) {
        gs_launcher_fail(GS_EXIT_USAGE, "--write-suppressions=%.400s: %s", path, problem);
    }
}

/* A variable of a script that is not set: no file and no process has that name. */
static void refuse_empty(const struct gs_arguments *arguments)
{
    for (char **word = arguments->command; *word; word++) {
        if (!**word) {
            gs_help_refuse(arguments->verb, "%s: a word is empty",
                           gs_arguments_word(arguments->verb));
        }
    }
}

void gs_arguments_refuse(const struct gs_arguments *arguments)
{
    if (arguments->verb == GS_VERB_RUN) {
        refuse_folders();
        refuse_foreign_files();
        refuse_same_files();
        refuse_missing_rules(true);
        refuse_foreign_rules();
    } else {
        refuse_empty(arguments);
        refuse_outputs(arguments);
        refuse_options_of_run(arguments);
        /* cdi reads the words of rules itself */
        refuse_missing_rules(arguments->verb != GS_VERB_CDI);
    }
}
