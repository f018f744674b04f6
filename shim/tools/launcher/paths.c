/*
 * paths.c - files that words of the command line name. Those of options become absolute,
 * since the command and its children may change folders before they open them.
 *
 * Owns: nothing.   Lock: none; one thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/settings/log.h"
#include "shim/settings/log_pattern.h"
#include "shim/settings/options.h"
#include "shim/settings/options_table.h"
#include "shim/settings/output_map.h"
#include "shim/settings/start_folder.h"
#include "shim/tools/launcher/launcher.h"

/* A list of files: each that is there, since a rule in place of a file is the library's
 * to report. NULL: no memory. */
static char *absolute_list(const char *list)
{
    char name[GS_OPTIONS_PATH_BYTES], whole[PATH_MAX];
    char *out = calloc(1, 1);
    for (bool last = false; out && !last;) {
        size_t length = strcspn(list, ":");
        char *longer = NULL;
        (void)snprintf(name, sizeof(name), "%.*s", (int)length, list);
        gs_start_folder_absolute(name, whole);
        if (access(name, F_OK) != 0) {
            strcpy(whole, name);
        }
        last = list[length] == '\0';
        int printed =
            asprintf(&longer, "%s%s%s", out, length ? whole : "", last ? "" : ":");
        free(out);
        out = printed < 0 ? NULL : longer;
        list += length + 1;
    }
    return out;
}

char *gs_path_absolute(size_t row, const char *value)
{
    char whole[PATH_MAX + 1] = "@";
    if (!gs_start_folder_matters(&gs_options_table[row], value) ||
        row == GS_OPTION_ROW_output || strlen(value) >= GS_OPTIONS_PATH_BYTES) {
        return NULL;
    }
    if (row == GS_OPTION_ROW_suppressions) {
        return absolute_list(value);
    }
    if (row == GS_OPTION_ROW_warmup) {
        gs_start_folder_absolute(value + 1, whole + 1);
    } else if (row == GS_OPTION_ROW_mem_group) {
        gs_start_folder_absolute(value, whole);
    } else if (gs_log_pattern_problem(value)) {
        return NULL;
    } else {
        gs_log_pattern_keep(whole, value);
    }
    return strlen(whole) < GS_OPTIONS_PATH_BYTES ? strdup(whole) : NULL;
}

/* The library's line about a file that it cannot write comes hours later, maybe, and in
 * the log file. The folder may be one that the command makes. */
static void warn_of_no_folder(size_t row, const char *file)
{
    static const enum gs_option_row written[] = {
        GS_OPTION_ROW_output_file, GS_OPTION_ROW_metrics_file, GS_OPTION_ROW_state_file,
        GS_OPTION_ROW_trace_file, GS_OPTION_ROW_write_suppressions};
    char folder[PATH_MAX], option[GS_OPTION_ARGUMENT_BYTES];
    struct stat info;
    size_t i = 0;
    while (i < GS_ARRAY_LEN(written) && written[i] != row) {
        i++;
    }
    const char *slash = strrchr(file, '/');
    int length = slash ? (int)(slash - file) : 0;
    if (i == GS_ARRAY_LEN(written) || !slash || memchr(file, '%', (size_t)length) ||
        snprintf(folder, sizeof(folder), "%.*s/", length, file) >= (int)sizeof(folder) ||
        stat(folder, &info) == 0) {
        return;
    }
    gs_launcher_warn("%s: %.*s: %s; no file unless the command creates that folder",
                     gs_option_argument(gs_options_table[row].name, option), length, file,
                     gs_output_error_text(errno));
}

void gs_paths_make_absolute(void)
{
    for (size_t i = 0; i < GS_OPTIONS_COUNT; i++) {
        const char *name = gs_options_table[i].name, *value = getenv(name);
        char *whole = value ? gs_path_absolute(i, value) : NULL;
        if (whole) {
            (void)setenv(name, whole, 1);
        }
        if (value && gs_arguments_is_set(name)) {
            warn_of_no_folder(i, whole ? whole : value);
        }
        free(whole);
    }
}

/* Returns whether one of the files and folders exists; says of each that does not, why,
 * if none does. */
bool gs_paths_any_exists(char *const *paths)
{
    for (char *const *path = paths; *path; path++) {
        if (access(*path, F_OK) == 0) {
            return true;
        }
    }
    for (char *const *path = paths; *path; path++) {
        (void)access(*path, F_OK);
        gs_launcher_warn("%s: %s", *path, gs_output_error_text(errno));
    }
    return false;
}

static bool has_path(char *const *paths, const char *name, size_t length)
{
    while (*paths && (strncmp(*paths, name, length) != 0 || (*paths)[length] != '\0')) {
        paths++;
    }
    return *paths != NULL;
}

void gs_paths_leave_data(char **paths)
{
    size_t kept = 0;
    for (size_t i = 0; paths[i]; i++) {
        size_t length = gs_output_map_name_length(paths[i]);
        if (length == 0 || (!has_path(paths + i, paths[i], length) &&
                            !has_path(paths, paths[i], length))) {
            paths[kept++] = paths[i];
        }
    }
    paths[kept] = NULL;
}
