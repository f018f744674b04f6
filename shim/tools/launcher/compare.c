/*
 * compare.c - several reports side by side: gpushim diff, gpushim merge, and the lines of
 * --summary.
 *
 * Owns: nothing.   Lock: none; one thread.   Design: docs/outputs.md
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gs_hash.h"
#include "shim/report/report_settings.h"
#include "shim/settings/output.h"
#include "shim/settings/output_map.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/reader/diff.h"
#include "shim/tools/reader/place_table.h"
#include "shim/tools/reader/process_table.h"
#include "shim/tools/reader/scope_table.h"

#define CANNOT_READ 1

/* Reads --of. */
static enum gs_report_of read_of(const struct gs_arguments *arguments)
{
    if (!arguments->of || strcmp(arguments->of, "leaks") == 0) {
        return GS_REPORT_OF_LEAKS;
    }
    if (strcmp(arguments->of, "peak") != 0) {
        gs_launcher_fail(GS_EXIT_USAGE, "--of=%s: not leaks or peak", arguments->of);
    }
    return GS_REPORT_OF_PEAK;
}

/* Writes the text to standard output, in colours where they are wanted and the text is
 * for people, and frees it. */
static bool write_text(struct gs_text *text, bool plain)
{
    if (!plain) {
        gs_report_color(gs_state_settings(), STDOUT_FILENO, text);
    }
    bool written = text->data && !text->truncated &&
                   fwrite(text->data, 1, text->length, stdout) == text->length &&
                   fflush(stdout) == 0;
    gs_text_free(text);
    if (!written) {
        gs_launcher_warn("standard output cannot be written: %s",
                         gs_output_error_text(errno));
    }
    return written;
}

/* ---- JSON -------------------------------------------------------------------------- */

/* Begins an object of one of gpushim's schemas; members and end_json follow. */
static void begin_json(struct gs_json *json, const struct gs_export_sink *sink,
                       const char *schema, enum gs_report_of of)
{
    *json = (struct gs_json){.depth = 0};
    gs_out_begin(&json->out, sink);
    gs_json_open(json, '{');
    gs_json_member_text(json, "schema", schema);
    gs_json_member(json, "version", 1);
    gs_json_member_text(json, "of", of == GS_REPORT_OF_PEAK ? "peak" : "leaks");
}

static void end_json(struct gs_json *json, struct gs_text *text)
{
    gs_json_close(json, '}');
    gs_out_char(&json->out, '\n');
    if (gs_out_end(&json->out) != GS_OK) {
        text->truncated = true;
    }
}

/* ---- diff -------------------------------------------------------------------------- */

static void read_both(char *const paths[2], enum gs_report_of of,
                      struct gs_report_file files[2])
{
    bool read[2];
    for (unsigned i = 0; i < 2; i++) {
        const char *problem;
        read[i] = gs_report_file_read(paths[i], of, true, &files[i], &problem);
        if (!read[i]) {
            gs_launcher_warn("%s: %s; nothing is compared", paths[i], problem);
        }
    }
    if (!read[0] || !read[1]) {
        exit(CANNOT_READ);
    }
}

static void refuse_both_forms(const struct gs_arguments *arguments)
{
    if (arguments->json && arguments->markdown) {
        gs_launcher_fail(GS_EXIT_USAGE, "--markdown: cannot be used with --json");
    }
}

/* Reads the options and file names of diff. */
static void read_diff(const struct gs_arguments *arguments, struct gs_diff_limits *limits)
{
    char *const *paths = arguments->command;
    if (!paths[0] || !paths[1]) {
        gs_help_refuse(GS_VERB_DIFF, "diff: %s REPORT is given",
                       paths[0] ? "no second" : "no");
    }
    if (paths[2]) {
        gs_help_refuse(GS_VERB_DIFF, "diff: two REPORTs are compared; the third is %s",
                       paths[2]);
    }
    refuse_both_forms(arguments);
    if (arguments->fail_on && !gs_diff_limits_read(arguments->fail_on, limits)) {
        gs_launcher_fail(GS_EXIT_USAGE,
                         "--fail-on=%s: not new or grown, or both with a comma; each may "
                         "have a limit, such as new:1M or grown:10%% (at most 100%%)",
                         arguments->fail_on);
    }
}

/* Writes the comparison in the form that was asked for. */
static bool write_diff(const struct gs_diff *diff, const struct gs_report_file files[2],
                       const struct gs_arguments *arguments, size_t failures)
{
    const char *const *paths = (const char *const *)arguments->command;
    unsigned most = (unsigned)gs_state_settings()->leak_max;
    struct gs_text text = {0};
    struct gs_export_sink sink = gs_export_text_sink(&text);
    struct gs_json json;
    if (arguments->json) {
        begin_json(&json, &sink, "gpushim-diff", files[0].of);
        gs_diff_json(diff, files, paths, &json);
        gs_json_member_or_null(&json, "failures", arguments->fail_on != NULL, failures);
        end_json(&json, &text);
    } else if (arguments->markdown) {
        gs_diff_markdown(diff, files, paths, most, &text);
    } else {
        gs_diff_write(diff, files, paths, most, &text);
    }
    return write_text(&text, arguments->json || arguments->markdown);
}

int gs_diff_run(const struct gs_arguments *arguments)
{
    struct gs_diff_limits limits = {.fails = {false}};
    static struct gs_report_file files[2];
    struct gs_diff diff;
    read_diff(arguments, &limits);
    read_both(arguments->command, read_of(arguments), files);
    if (!gs_diff_make(files, &diff)) {
        gs_launcher_fail(CANNOT_READ, "%s", gs_status_text(GS_ERR_HOST_NOMEM));
    }
    size_t failures = gs_diff_failures(&diff, &limits);
    bool written = write_diff(&diff, files, arguments, failures);
    if (failures > 0) {
        gs_launcher_warn("--fail-on=%s: %zu call site%s failed", arguments->fail_on,
                         failures, failures == 1 ? "" : "s");
    }
    gs_diff_free(&diff);
    gs_report_file_free(&files[0]);
    gs_report_file_free(&files[1]);
    return failures > 0 ? GS_EXIT_FAILED_ON : written ? 0 : 1;
}

/* ---- merge ------------------------------------------------------------------------- */

static const char again[] = "its process is counted already";

/* A process whose report was read: it may have two, its JSON and its state file. */
struct seen {
    UT_hash_handle hh;
    struct seen_key {
        uint64_t names[2]; /* of hostname and command */
        uint64_t pid, start_s;
    } key;
};

/* The reports that are added up. */
struct merge {
    enum gs_report_of of;
    bool with_places, as_json, as_markdown;
    const struct gs_state_ended *ended;
    struct gs_process_table processes;
    struct gs_place_table places;
    struct gs_scope_table scopes;
    struct seen *seen;
    unsigned unread;
};

/* Returns whether another report of the process was read before. Its start is known to a
 * second or so. */
static bool is_again(struct merge *merge, const struct gs_report_file *file)
{
    struct gs_place_key names = gs_place_key_of_names(file->hostname, file->command);
    struct seen_key key = {
        {names.words[0], names.words[1]}, file->pid, file->start_unix_ms / 1000};
    for (unsigned i = 0; i < 3; i++) {
        struct seen_key near = key;
        near.start_s += i - 1u;
        if (GS_HASH_FIND(merge->seen, &near)) {
            return true;
        }
    }
    struct seen *seen = calloc(1, sizeof(*seen));
    if (seen) {
        seen->key = key;
        if (!GS_HASH_ADD(merge->seen, key, seen)) {
            free(seen);
        }
    }
    return false;
}

/* Adds a report. Returns NULL, or why not. */
static const char *add_report(struct merge *merge, const char *path)
{
    static struct gs_report_file file;
    const char *problem;
    /* Sums need them for the rules alone. */
    bool lines = merge->with_places || gs_state_settings()->suppressions[0];
    if (!gs_report_file_read(path, merge->of, lines, &file, &problem)) {
        return problem;
    }
    problem = is_again(merge, &file) ? again : NULL;
    if (!problem) {
        gs_process_table_add(&merge->processes, &file, merge->ended);
        if (merge->with_places) {
            gs_place_table_add(&merge->places, &file);
            gs_scope_table_add(&merge->scopes, &file);
        }
    }
    gs_report_file_free(&file);
    return problem;
}

/* The files of a folder. */
struct folder {
    unsigned found, others, texts, cut;
    char *first; /* of the others: its name and problem */
};

static void add_entry(struct merge *merge, struct folder *folder, const char *path)
{
    const char *problem = add_report(merge, path);
    folder->found += !problem;
    folder->texts += problem == gs_report_file_is_text;
    if (gs_report_file_is_cut(problem)) {
        gs_launcher_warn("%s: %s; left out", path, problem);
        folder->cut++;
        merge->unread++;
    } else if (problem && problem != again && problem != gs_report_file_is_text &&
               folder->others++ == 0 &&
               asprintf(&folder->first, "%s: %s", strrchr(path, '/') + 1, problem) < 0) {
        folder->first = NULL;
    }
}

/* Adds the reports of a folder. A report that is cut off is named; other files are
 * counted, but for reports as text: of the same processes, as a rule. */
static void add_folder(struct merge *merge, const char *name)
{
    struct dirent **entries = NULL;
    int count = scandir(name, &entries, NULL, versionsort);
    struct folder folder = {.found = 0};
    for (int i = 0; i < count; i++) {
        char *path = NULL;
        struct stat info;
        if (entries[i]->d_name[0] != '.' &&
            asprintf(&path, "%s/%s", name, entries[i]->d_name) >= 0 &&
            stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
            !gs_output_map_is_data(path)) {
            add_entry(merge, &folder, path);
        }
        free(path);
        free(entries[i]);
    }
    free(entries);
    if (folder.others > 0) {
        gs_launcher_warn("%s: %u of %u files left out; the first: %s", name,
                         folder.others, folder.others + folder.found,
                         folder.first ? folder.first : "?");
    }
    if (folder.found + folder.cut == 0) {
        gs_launcher_warn("%s: no reports%s%s", name, folder.texts ? ": " : "",
                         folder.texts ? gs_report_file_is_text : "");
        merge->unread++;
    }
    free(folder.first);
}

static void add_path(struct merge *merge, const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        add_folder(merge, path);
        return;
    }
    const char *problem = add_report(merge, path);
    if (problem) {
        gs_launcher_warn("%s: %s; left out", path, problem);
        merge->unread += problem != again;
    }
}

/* The columns of the terminal on standard output; 0: it is none. */
static unsigned columns_of_output(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* What the memory of the call sites is. */
static const char *what_of(const struct merge *merge)
{
    const struct gs_process_table *processes = &merge->processes;
    return merge->of == GS_REPORT_OF_PEAK            ? "peak"
           : processes->live == 0                    ? "leaked"
           : processes->live == processes->processes ? "live"
                                                     : "sum";
}

/* Ends a table with an empty line. `before`: the text's length before it. */
static void end_table(struct gs_text *text, size_t before)
{
    if (text->length > before) {
        gs_text_add(text, "\n");
    }
}

static void write_places(struct merge *merge, struct gs_text *text)
{
    const struct gs_options *options = gs_state_settings();
    gs_place_table_write(&merge->places, what_of(merge), options->leak_max,
                         columns_of_output(), options->full_paths, text);
    end_table(text, 0);
    size_t before = text->length;
    gs_scope_table_write(&merge->scopes, options->leak_max, columns_of_output(), text);
    end_table(text, before);
}

/* The processes are code, whatever their names contain. */
static void write_markdown(struct merge *merge, struct gs_text *text)
{
    const struct gs_options *options = gs_state_settings();
    gs_process_table_sum(&merge->processes);
    gs_place_table_markdown(&merge->places, what_of(merge), options->leak_max,
                            options->full_paths, text);
    gs_scope_table_markdown(&merge->scopes, options->leak_max, text);
    for (const char *at = merge->processes.text.data; at && *at;) {
        size_t length = strcspn(at, "\n");
        gs_text_add(text, "    %.*s\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
}

static void write_json(struct merge *merge, struct gs_text *text)
{
    struct gs_export_sink sink = gs_export_text_sink(text);
    struct gs_json json;
    begin_json(&json, &sink, "gpushim-merge", merge->of);
    gs_place_table_json(&merge->places, &json);
    gs_scope_table_json(&merge->scopes, &json);
    gs_process_table_json(&merge->processes, &json);
    end_json(&json, text);
}

static void write_tables(struct merge *merge, struct gs_text *text)
{
    gs_process_table_sum(&merge->processes);
    if (merge->with_places) {
        write_places(merge, text);
    }
    gs_text_add_bytes(text, merge->processes.text.data ? merge->processes.text.data : "",
                      merge->processes.text.length);
}

/* Adds up the reports at the paths and writes the tables. Returns the exit status. */
static int add_up(char *const *paths, struct merge *merge)
{
    struct gs_text text = {0};
    for (; *paths; paths++) {
        add_path(merge, *paths);
    }
    if (merge->as_json) {
        write_json(merge, &text);
    } else if (merge->as_markdown) {
        write_markdown(merge, &text);
    } else {
        write_tables(merge, &text);
    }
    bool written = (merge->processes.processes == 0 && !merge->as_json) ||
                   write_text(&text, merge->as_json || merge->as_markdown);
    gs_text_free(&text);
    gs_process_table_free(&merge->processes);
    gs_place_table_free(&merge->places);
    gs_scope_table_free(&merge->scopes);
    GS_HASH_FREE(merge->seen);
    return written && merge->unread == 0 ? 0 : CANNOT_READ;
}

int gs_summary_write(char *const *paths, const struct gs_state_ended *ended)
{
    struct merge merge = {.ended = ended};
    return add_up(paths, &merge);
}

int gs_merge_run(const struct gs_arguments *arguments)
{
    struct merge merge = {.of = read_of(arguments),
                          .with_places = true,
                          .as_json = arguments->json != NULL,
                          .as_markdown = arguments->markdown != NULL};
    refuse_both_forms(arguments);
    if (!arguments->command[0]) {
        gs_help_refuse(GS_VERB_MERGE, "merge: no REPORT or FOLDER is given");
    }
    return add_up(arguments->command, &merge);
}
