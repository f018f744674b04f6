/*
 * leak_rules.c - reads the files named in GPUSHIM_SUPPRESSIONS.
 *
 * Reads them at the first CUDA call, not at exit: their errors should be known before a
 * long run, and the program may change its folder meanwhile.
 *
 * Owns:  the rules.   Lock: written at start; only the report, written once, reads them.
 */
#include "leak_rules.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "read_file.h"

/* A larger file is not a file of rules. */
#define FILE_BYTES_MAX (64 * GS_MIB)
/* Malformed lines of a file that are logged one by one. */
#define PROBLEMS_LOGGED 20u

static struct gs_suppressions *rules;
static bool started;

/* The state of the log about one file. */
struct problem_log {
    const char *path;
    unsigned problems;
};

static void log_problem(void *self, unsigned line, const char *what)
{
    struct problem_log *telling = self;
    if (++telling->problems <= PROBLEMS_LOGGED) {
        gs_log_line(GS_LOG_WARN, "%.600s:%u: %s; ignored", telling->path, line, what);
    }
}

static void log_file(const char *path, const char *what)
{
    gs_log_line(GS_LOG_WARN, "GPUSHIM_SUPPRESSIONS: cannot read %.600s: %s; left out",
                path, what);
}

static void add_file(const char *path)
{
    struct problem_log telling = {.path = path};
    const char *problem;
    size_t length;
    char *text = gs_read_file(path, FILE_BYTES_MAX, &length, &problem);
    if (!text) {
        log_file(path, problem ? problem : "larger than 64 MiB");
        return;
    }
    if (gs_suppressions_add(rules, path, text, length, log_problem, &telling) != GS_OK) {
        log_file(path, gs_status_text(GS_ERR_HOST_NOMEM));
    }
    if (telling.problems > PROBLEMS_LOGGED) {
        gs_log_line(GS_LOG_WARN, "%.600s: %u more lines are ignored", path,
                    telling.problems - PROBLEMS_LOGGED);
    }
    free(text);
}

static void add_files(const char *list)
{
    static char path[GS_OPTIONS_PATH_BYTES]; /* under the start lock */
    while (*list) {
        size_t length = strcspn(list, ":");
        memcpy(path, list, length);
        path[length] = '\0';
        if (length > 0) {
            add_file(path);
        }
        list += length + (list[length] == ':');
    }
}

static void print_builtin(void)
{
    struct gs_text text = {0};
    gs_suppressions_print_builtin(&text);
    if (text.data) {
        gs_log_text(text.data, text.length);
    }
    gs_text_free(&text);
}

void gs_rules_start(const struct gs_options *options)
{
    if (started) {
        return;
    }
    started = true;
    if (options->suppressions_print) {
        print_builtin();
    }
    if (!options->track || gs_suppressions_create(&rules) != GS_OK) {
        return;
    }
    add_files(options->suppressions);
    if (options->suppressions_builtin && gs_suppressions_add_builtin(rules) != GS_OK) {
        gs_log_line(GS_LOG_WARN, "no memory for the built-in suppressions");
    }
}

struct gs_suppressions *gs_rules(void)
{
    return rules;
}
