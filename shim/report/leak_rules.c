/*
 * leak_rules.c - reads the files named in GPUSHIM_SUPPRESSIONS.
 *
 * Reads them at the first CUDA call, not at exit: their errors should be known before a
 * long run, and the program may change its folder before its exit.
 *
 * Owns:  the rules.   Lock: the pointers are atomic; one report at a time reads the
 * rules. Those that were replaced stay, for a report that is being written.
 */
#include "shim/report/leak_rules.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/settings/log.h"
#include "shim/settings/output.h"
#include "shim/settings/read_file.h"
#include "shim/settings/start_folder.h"
#include "shim/report/write_rules.h"

/* A larger file is not a file of rules. */
#define FILE_BYTES_MAX (64 * GS_MIB)
/* Malformed lines of a file that are logged one by one. */
#define PROBLEMS_LOGGED 20u

static struct gs_suppressions *rules; /* atomic */
static bool started;
static bool denies;  /* constant after start */
static bool ignored; /* atomic: a part of the rules in use is missing */

/* Why a change of the rules is refused: the first problem. */
struct refusal {
    char text[GS_OPTIONS_PATH_BYTES + 256];
};

/* The state of the log about one file. */
struct problem_log {
    const char *path;
    struct refusal *refusal; /* NULL: problems are logged */
    bool quiet;              /* what is no fault is not logged either */
    unsigned problems;
};

/* Keeps the first problem. `line` 0: of the whole file */
static void refuse(struct refusal *refusal, const char *path, unsigned line,
                   const char *what)
{
    if (!refusal->text[0] && line != 0) {
        (void)snprintf(refusal->text, sizeof(refusal->text), "%.100s:%u: %s", path, line,
                       what);
    } else if (!refusal->text[0]) {
        (void)snprintf(refusal->text, sizeof(refusal->text), "cannot read %.100s: %s",
                       path, what);
    }
}

static void log_problem(void *self, unsigned line, const char *what)
{
    struct problem_log *telling = self;
    if (telling->refusal && what != gs_rule_foreign) {
        refuse(telling->refusal, telling->path, line, what);
        return;
    }
    if (what != gs_rule_foreign) {
        __atomic_store_n(&ignored, true, __ATOMIC_RELAXED);
    }
    if (!telling->quiet && ++telling->problems <= PROBLEMS_LOGGED) {
        gs_log_line(GS_LOG_WARN, "%.600s:%u: %s; ignored", telling->path, line, what);
    }
}

static void log_file(const struct problem_log *telling, const char *what)
{
    if (telling->refusal) {
        refuse(telling->refusal, telling->path, 0, what);
        return;
    }
    __atomic_store_n(&ignored, true, __ATOMIC_RELAXED);
    gs_log_line(GS_LOG_WARN, "GPUSHIM_SUPPRESSIONS: cannot read %.600s: %s; left out",
                telling->path, what);
}

static void add_file(struct gs_suppressions *to, const char *path,
                     struct refusal *refusal, bool quiet)
{
    static char whole[PATH_MAX]; /* under the start lock, or that of the options */
    struct problem_log telling = {.path = path, .refusal = refusal, .quiet = quiet};
    const char *problem;
    size_t length;
    gs_start_folder_absolute(path, whole);
    char *text = gs_read_file(whole, FILE_BYTES_MAX, &length, &problem);
    if (!text && strcmp(whole, "/dev/null") == 0) {
        return; /* no rules */
    }
    if (!text) {
        log_file(&telling, problem ? problem : "larger than 64 MiB");
        return;
    }
    if (gs_suppressions_add(to, path, text, length, log_problem, &telling) != GS_OK) {
        log_file(&telling, gs_status_text(GS_ERR_HOST_NOMEM));
    }
    if (telling.problems > PROBLEMS_LOGGED) {
        gs_log_line(GS_LOG_WARN, "%.600s: %u more lines are ignored", path,
                    telling.problems - PROBLEMS_LOGGED);
    }
    free(text);
}

/* Returns whether the list of files begins with a rule, as the report proposes them. */
bool gs_rules_is_rule(const char *list)
{
    size_t length = strcspn(list, ":");
    for (int kind = 0; kind < GS_RULE_KINDS && list[length]; kind++) {
        const char *name = gs_rule_kind_name((enum gs_rule_kind)kind);
        if (strlen(name) == length && memcmp(list, name, length) == 0) {
            return access(name, F_OK) != 0;
        }
    }
    return false;
}

static void add_files(struct gs_suppressions *to, const char *list,
                      struct refusal *refusal)
{
    static char path[GS_OPTIONS_PATH_BYTES]; /* as `whole` */
    if (gs_rules_is_rule(list)) {
        __atomic_store_n(&ignored, true, __ATOMIC_RELAXED);
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_SUPPRESSIONS=%.600s: " GS_RULES_WRONG "; left out", list);
        return;
    }
    while (*list) {
        size_t length = strcspn(list, ":");
        memcpy(path, list, length);
        path[length] = '\0';
        if (length > 0) {
            add_file(to, path, refusal, false);
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

/* Reads the rules of the options. NULL: no memory. refusal: NULL, or to keep the first
 * problem, which is not logged then */
static struct gs_suppressions *read_rules(const char *files, bool builtin,
                                          struct refusal *refusal)
{
    struct gs_suppressions *made;
    if (gs_suppressions_create(&made) != GS_OK) {
        return NULL;
    }
    add_files(made, files, refusal);
    if (builtin && gs_suppressions_add_builtin(made) != GS_OK) {
        gs_log_line(GS_LOG_WARN, "no memory for the built-in suppressions");
    }
    return made;
}

/* Makes these rules those of the next report. */
static void use_rules(struct gs_suppressions *made)
{
    __atomic_store_n(&rules, made, __ATOMIC_RELEASE);
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
    (void)gs_rules_change_file(options->write_suppressions);
    struct gs_suppressions *made =
        options->track
            ? read_rules(options->suppressions, options->suppressions_builtin, NULL)
            : NULL;
    if (made) {
        denies = gs_suppressions_has(made, GS_RULE_DENY);
        use_rules(made);
    }
}

const char *gs_rules_fault(const char *path)
{
    static struct refusal refusal; /* the command's one thread */
    struct gs_suppressions *made;
    refusal.text[0] = '\0';
    if (gs_suppressions_create(&made) != GS_OK) {
        return gs_status_text(GS_ERR_HOST_NOMEM);
    }
    add_file(made, path, &refusal, true);
    gs_suppressions_destroy(made);
    return refusal.text[0] ? refusal.text : NULL;
}

/* Returns the first file of the list that cannot be read; NULL: there is none. */
static const char *unreadable(const char *list)
{
    static char path[GS_OPTIONS_PATH_BYTES], whole[PATH_MAX]; /* as in add_files */
    while (*list) {
        size_t length = strcspn(list, ":");
        memcpy(path, list, length);
        path[length] = '\0';
        gs_start_folder_absolute(path, whole);
        if (length > 0 && access(whole, R_OK) != 0) {
            return path;
        }
        list += length + (list[length] == ':');
    }
    return NULL;
}

const char *gs_rules_change(const char *files, bool builtin)
{
    static struct refusal refusal; /* under the lock of the options */
    const char *path;
    refusal.text[0] = '\0';
    if (gs_rules_is_rule(files)) {
        return GS_RULES_WRONG;
    }
    if ((path = unreadable(files))) {
        refuse(&refusal, path, 0, gs_output_error_text(errno));
        return refusal.text;
    }
    struct gs_suppressions *made = read_rules(files, builtin, &refusal);
    if (!made) {
        return gs_status_text(GS_ERR_HOST_NOMEM);
    }
    if (refusal.text[0]) {
        gs_suppressions_destroy(made);
        return refusal.text;
    }
    if (gs_suppressions_has(made, GS_RULE_DENY)) {
        gs_suppressions_destroy(made);
        return "a file with deny: rules is read only at the start of a program";
    }
    __atomic_store_n(&ignored, false, __ATOMIC_RELAXED);
    use_rules(made);
    return NULL;
}

bool gs_rules_ignored(void)
{
    return __atomic_load_n(&ignored, __ATOMIC_RELAXED);
}

bool gs_rules_deny(void)
{
    return denies;
}

struct gs_suppressions *gs_rules(void)
{
    return __atomic_load_n(&rules, __ATOMIC_ACQUIRE);
}
