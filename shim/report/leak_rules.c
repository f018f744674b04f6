/*
 * leak_rules.c - reads the files named in GPUSHIM_SUPPRESSIONS, and adds rules to the one
 * of GPUSHIM_WRITE_SUPPRESSIONS.
 *
 * Reads them at the first CUDA call, not at exit: their errors should be known before a
 * long run, and the program may change its folder before its exit.
 *
 * Owns:  the rules.   Lock: the pointers are atomic; one report at a time reads the
 * rules. Those that were replaced stay, for a report that is being written.
 */
#include "shim/report/leak_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gs_uncancelled.h"
#include "gs_wait.h"
#include "shim/settings/link_open.h"
#include "shim/settings/log.h"
#include "shim/settings/log_pattern.h"
#include "shim/settings/output.h"
#include "shim/settings/read_file.h"
#include "shim/settings/start_folder.h"

/* A larger file is not a file of rules. */
#define FILE_BYTES_MAX (64 * GS_MIB)
/* Malformed lines of a file that are logged one by one. */
#define PROBLEMS_LOGGED 20u

/* Tries, 10 ms apart, to be the one process that adds rules to a file. */
#define TURN_TRIES 200u

static struct gs_suppressions *rules; /* atomic */
static bool started;
static bool denies;          /* constant after start */
static const char *added_to; /* a pattern, absolute; NULL: no file; atomic */

/* Why a change of the rules is refused: the first problem. */
struct refusal {
    char text[GS_OPTIONS_PATH_BYTES + 256];
};

/* The state of the log about one file. */
struct problem_log {
    const char *path;
    struct refusal *refusal; /* NULL: problems are logged */
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
    if (telling->refusal) {
        refuse(telling->refusal, telling->path, line, what);
    } else if (++telling->problems <= PROBLEMS_LOGGED) {
        gs_log_line(GS_LOG_WARN, "%.600s:%u: %s; ignored", telling->path, line, what);
    }
}

static void log_file(const struct problem_log *telling, const char *what)
{
    if (telling->refusal) {
        refuse(telling->refusal, telling->path, 0, what);
        return;
    }
    gs_log_line(GS_LOG_WARN, "GPUSHIM_SUPPRESSIONS: cannot read %.600s: %s; left out",
                telling->path, what);
}

static void add_file(struct gs_suppressions *to, const char *path,
                     struct refusal *refusal)
{
    static char whole[PATH_MAX]; /* under the start lock, or that of the options */
    struct problem_log telling = {.path = path, .refusal = refusal};
    const char *problem;
    size_t length;
    gs_start_folder_absolute(path, whole);
    char *text = gs_read_file(whole, FILE_BYTES_MAX, &length, &problem);
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
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_SUPPRESSIONS=%.600s: " GS_RULES_WRONG "; left out", list);
        return;
    }
    while (*list) {
        size_t length = strcspn(list, ":");
        memcpy(path, list, length);
        path[length] = '\0';
        if (length > 0) {
            add_file(to, path, refusal);
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

const char *gs_rules_change_file(const char *path)
{
    char *kept = path[0] ? malloc(PATH_MAX) : NULL;
    if (path[0] && !kept) {
        return gs_status_text(GS_ERR_HOST_NOMEM);
    }
    if (kept) {
        gs_log_pattern_keep(kept, path);
    }
    __atomic_store_n(&added_to, kept, __ATOMIC_RELEASE);
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
    use_rules(made);
    return NULL;
}

bool gs_rules_deny(void)
{
    return denies;
}

struct gs_suppressions *gs_rules(void)
{
    return __atomic_load_n(&rules, __ATOMIC_ACQUIRE);
}

/* ---- a file of rules to add to ---------------------------------------------------- */

bool gs_rules_wanted(void)
{
    return __atomic_load_n(&added_to, __ATOMIC_ACQUIRE) != NULL;
}

/* Waits for its turn, unless another process keeps it. */
static void take_turn(int fd)
{
    for (unsigned i = 0; i < TURN_TRIES && flock(fd, LOCK_EX | LOCK_NB) != 0 &&
                         (errno == EWOULDBLOCK || errno == EINTR);
         i++) {
        gs_nap(10000000u);
    }
}

/* Whether the text has the line; `length` counts its newline. */
static bool has_line(const char *text, const char *line, size_t length)
{
    for (const char *at = text; (at = strstr(at, "leak:")) != NULL; at++) {
        if ((at == text || at[-1] == '\n') && strncmp(at, line, length - 1) == 0 &&
            (at[length - 1] == '\n' || at[length - 1] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Fills `out` with the rules that the text lacks, below a comment; returns how many. */
static unsigned add_missing_rules(const char *text, const char *command,
                                  const struct gs_text *found, struct gs_text *out)
{
    const char *end = strchr(text, '\0');
    unsigned count = 0;
    size_t length;
    for (const char *line = found->data; *line; line += length) {
        length = strcspn(line, "\n") + 1;
        if (has_line(text, line, length)) {
            continue;
        }
        if (count++ == 0) {
            gs_text_add(out, "%s# %s\n", end > text && end[-1] != '\n' ? "\n" : "",
                        command);
        }
        gs_text_add_bytes(out, line, length);
    }
    return count;
}

/* Returns whether a text may be one of rules: its first line that is no comment begins as
 * a rule does, "word:". */
static bool are_rules(const char *text)
{
    while (*text) {
        const char *line = text + strspn(text, " \t\r\n");
        if (*line && *line != '#') {
            size_t word = strspn(line, "abcdefghijklmnopqrstuvwxyz");
            return word > 0 && line[word] == ':';
        }
        text = line + strcspn(line, "\n");
    }
    return true;
}

/* Returns what is wrong; NULL: nothing. */
static const char *add_to(int fd, const char *command, const struct gs_text *found,
                          unsigned *count)
{
    struct stat info;
    struct gs_text more = {0};
    size_t done;
    int error = fstat(fd, &info) != 0 ? errno : 0;
    if (!error && !S_ISREG(info.st_mode)) {
        return "not a regular file";
    }
    if (!error && info.st_size > (off_t)FILE_BYTES_MAX) {
        return "larger than 64 MiB";
    }
    char *text = error ? NULL : calloc(1, (size_t)info.st_size + 1);
    if (text && pread(fd, text, (size_t)info.st_size, 0) < 0) {
        error = errno;
    }
    if (text && !error && !are_rules(text)) {
        free(text);
        return "not a file of rules";
    }
    if (text && !error) {
        *count = add_missing_rules(text, command, found, &more);
        error = more.truncated ? ENOMEM
                : *count == 0  ? 0
                               : gs_output_write(fd, more.data, more.length, &done);
        if (error && ftruncate(fd, info.st_size) != 0) {
            error = errno; /* the end of a rule that is cut off may be missing */
        }
    }
    error = text ? error : error ? error : ENOMEM;
    gs_text_free(&more);
    free(text);
    return error ? gs_output_error_text(error) : NULL;
}

void gs_rules_write(const struct gs_text *found, const char *command)
{
    static char path[PATH_MAX]; /* one report is written at a time */
    const char *pattern = __atomic_load_n(&added_to, __ATOMIC_ACQUIRE);
    unsigned count = 0;
    if (!found->data || !pattern) {
        return; /* no leak has a rule */
    }
    int before = gs_uncancelled_begin();
    int fd = -1;
    const char *problem = gs_output_error_text(ENAMETOOLONG);
    if (gs_log_pattern_expand(pattern, path, sizeof(path)) == GS_OK) {
        fd = gs_link_open(path, O_RDWR | O_APPEND | O_CREAT, NULL);
        problem = fd < 0 ? gs_output_error_text(errno) : NULL;
    }
    if (fd >= 0) {
        take_turn(fd);
        problem = add_to(fd, command, found, &count);
        close(fd);
    }
    gs_uncancelled_end(before);
    if (problem) {
        gs_log_line(
            GS_LOG_ERROR,
            "GPUSHIM_WRITE_SUPPRESSIONS: cannot write %.800s: %s; no rule is added",
            path[0] ? path : pattern, problem);
    } else if (count > 0) {
        gs_log_line(GS_LOG_WARN, "%u rule%s added to %.800s", count,
                    count == 1 ? "" : "s", path);
    }
}
