/*
 * write_rules.c - adds the rules of a report to the file of GPUSHIM_WRITE_SUPPRESSIONS.
 *
 * The first rule that matches decides, so that a rule of more callers goes before one of
 * the same function with fewer; and one that is there, with a smaller cap, gets the new
 * one: after it another rule would never count.
 *
 * Owns:  the file's name.   Lock: the pointer is atomic; one report is written at a time.
 */
#include "shim/report/write_rules.h"

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
#include "tracker/report/rules/suppress.h"

/* A larger file is not a file of rules. */
#define FILE_BYTES_MAX (64 * GS_MIB)
/* Tries, 10 ms apart, to be the one process that adds rules to a file. */
#define TURN_TRIES 500u

static const char *added_to; /* a pattern, absolute; NULL: no file; atomic */

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

bool gs_rules_wanted(void)
{
    return __atomic_load_n(&added_to, __ATOMIC_ACQUIRE) != NULL;
}

/* ---- what is there, and what is new -------------------------------------------------
 */

struct addition {
    struct gs_suppressions *there, *found;
    const char **lines; /* of each found rule; NULL: it is not to be written */
    uint32_t *before;   /* the rule that is there before which it goes, or whose cap it
                         * raises; GS_RULE_NONE: it goes to the end */
    bool *raises;
    unsigned added, raised;
};

static void ignore_problem(void *self, unsigned line, const char *what)
{
    (void)self, (void)line, (void)what;
}

/* The rules of a text; NULL: no memory. */
static struct gs_suppressions *rules_of(const char *text)
{
    struct gs_suppressions *rules = NULL;
    if (gs_suppressions_create(&rules) == GS_OK &&
        gs_suppressions_add(rules, "", text, strlen(text), ignore_problem, NULL) !=
            GS_OK) {
        gs_suppressions_destroy(rules);
        rules = NULL;
    }
    return rules;
}

/* Length of a rule's list of callers; out: their number. */
static size_t callers_of(const struct gs_rule *rule, unsigned *count)
{
    const char *at = rule->from;
    *count = 0;
    while (at && *at) {
        at += strlen(at) + 1;
        at += strlen(at) + 1;
        ++*count;
    }
    return at ? (size_t)(at - rule->from) : 0;
}

/* Sets before and raises of one found rule. */
static void find_place(struct addition *addition, uint32_t number)
{
    const struct gs_rule *rule = gs_suppressions_rule(addition->found, number);
    unsigned callers, others;
    size_t length = callers_of(rule, &callers);
    for (uint32_t i = 0; i < gs_suppressions_count(addition->there); i++) {
        const struct gs_rule *other = gs_suppressions_rule(addition->there, i);
        size_t other_length = callers_of(other, &others);
        if (other->kind != GS_RULE_LEAK || other->device >= 0 ||
            other->max_count != GS_RULE_ANY ||
            strcmp(other->pattern, rule->pattern) != 0 ||
            strcmp(other->file, rule->file) != 0) {
            continue;
        }
        if (length == other_length &&
            (length == 0 || memcmp(rule->from, other->from, length) == 0)) {
            addition->raises[number] = other->max_bytes < rule->max_bytes;
            addition->before[number] = i;
            if (!addition->raises[number]) {
                addition->lines[number] = NULL;
            }
            return;
        }
        if (others < callers && addition->before[number] == GS_RULE_NONE) {
            addition->before[number] = i;
        }
    }
}

/* Fills the lines of the found rules, and their places. */
static void find_places(struct addition *addition, const char *found)
{
    unsigned line = 1;
    for (uint32_t i = 0; i < gs_suppressions_count(addition->found); i++) {
        for (; line < gs_suppressions_rule(addition->found, i)->line; line++) {
            found += strcspn(found, "\n") + 1;
        }
        addition->lines[i] = found;
        addition->before[i] = GS_RULE_NONE;
        find_place(addition, i);
        addition->raised += addition->lines[i] && addition->raises[i];
        addition->added += addition->lines[i] && !addition->raises[i];
    }
}

static void add_line(struct gs_text *out, const char *line)
{
    gs_text_add_bytes(out, line, strcspn(line, "\n"));
    gs_text_add_bytes(out, "\n", 1);
}

/* Adds the found rules that go before a rule that is there, or to the end. Returns the
 * line that replaces that rule's; NULL: it stays. */
static const char *add_before(const struct addition *addition, uint32_t there,
                              struct gs_text *out)
{
    const char *raised = NULL;
    for (uint32_t i = 0; i < gs_suppressions_count(addition->found); i++) {
        if (addition->lines[i] && addition->before[i] == there) {
            if (addition->raises[i]) {
                raised = addition->lines[i];
            } else {
                add_line(out, addition->lines[i]);
            }
        }
    }
    return raised;
}

/* Writes the file's new text. */
static void make_text(const struct addition *addition, const char *text,
                      const char *command, struct gs_text *out)
{
    const uint32_t count = gs_suppressions_count(addition->there);
    struct gs_text end = {0};
    uint32_t rule = 0;
    unsigned number = 1;
    for (const char *line = text; *line; number++) {
        size_t length = strcspn(line, "\n");
        const char *raised = NULL;
        if (rule < count && gs_suppressions_rule(addition->there, rule)->line == number) {
            raised = add_before(addition, rule++, out);
        }
        if (raised) {
            add_line(out, raised);
        } else {
            gs_text_add_bytes(out, line, length);
            gs_text_add_bytes(out, "\n", 1);
        }
        line += length + (line[length] != '\0');
    }
    (void)add_before(addition, GS_RULE_NONE, &end);
    if (end.length != 0) {
        gs_text_add(out, "# %s\n", command);
        gs_text_add_bytes(out, end.data, end.length);
    } else if (!text[0]) {
        gs_text_add(out, "# %s: no rule\n", command);
    }
    out->truncated |= end.truncated;
    gs_text_free(&end);
}

/* Sets the additions and the new text. Returns an errno. */
static int merge(const char *text, const char *command, const char *found,
                 struct addition *addition, struct gs_text *out)
{
    int error = ENOMEM;
    addition->there = rules_of(text);
    addition->found = rules_of(found);
    uint32_t count = gs_suppressions_count(addition->found);
    addition->lines = calloc(count + 1u, sizeof(addition->lines[0]));
    addition->before = calloc(count + 1u, sizeof(addition->before[0]));
    addition->raises = calloc(count + 1u, sizeof(addition->raises[0]));
    if (addition->there && addition->found && addition->lines && addition->before &&
        addition->raises) {
        find_places(addition, found);
        if (addition->added + addition->raised > 0 || !text[0]) {
            make_text(addition, text, command, out);
        }
        error = out->truncated ? ENOMEM : 0;
    }
    gs_suppressions_destroy(addition->there);
    gs_suppressions_destroy(addition->found);
    free((void *)addition->lines);
    free(addition->before);
    free(addition->raises);
    return error;
}

/* ---- the file -----------------------------------------------------------------------
 */

/* Waits for its turn. False: another process keeps it. A file system without locks has no
 * turns. */
static bool take_turn(int fd)
{
    for (unsigned i = 0;
         flock(fd, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR);
         i++) {
        if (i == TURN_TRIES) {
            return false;
        }
        gs_nap(10000000u);
    }
    return true;
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

/* Writes what differs of the new text, and ends the file there. Returns an errno. */
static int write_text(int fd, const char *old, const char *new, size_t length)
{
    size_t same = 0, done;
    while (old[same] && old[same] == new[same]) {
        same++;
    }
    int error = lseek(fd, (off_t)same, SEEK_SET) < 0 ? errno : 0;
    error = error ? error : gs_output_write(fd, new + same, length - same, &done);
    return error ? error : ftruncate(fd, (off_t)length) != 0 ? errno : 0;
}

/* Reads a file of rules. Returns what is wrong; NULL: *out is the text, which the caller
 * frees. */
static const char *read_rules(int fd, char **out, size_t *length)
{
    struct stat info;
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
    if (text && !error &&
        (memchr(text, '\0', (size_t)info.st_size) || !are_rules(text))) {
        free(text);
        return "not a file of rules";
    }
    if (error || !text) {
        free(text);
        return gs_output_error_text(error ? error : ENOMEM);
    }
    *out = text;
    *length = (size_t)info.st_size;
    return NULL;
}

/* Returns what is wrong; NULL: nothing. */
static const char *add_to(int fd, const char *command, const char *found,
                          struct addition *addition)
{
    struct gs_text out = {0};
    size_t length = 0;
    char *text = NULL;
    const char *problem = read_rules(fd, &text, &length);
    if (!text) {
        return problem;
    }
    int error = merge(text, command, found, addition, &out);
    if (!error && out.length != 0) {
        error = write_text(fd, text, out.data, out.length);
        if (error) { /* no part of a rule stays */
            (void)!write_text(fd, "", text, length);
        }
    }
    gs_text_free(&out);
    free(text);
    return error ? gs_output_error_text(error) : NULL;
}

const char *gs_rules_refusal(const char *path)
{
    size_t length;
    char *text = NULL;
    int fd = gs_link_open(path, O_RDONLY | O_NONBLOCK, NULL);
    if (fd < 0) {
        bool missing = errno == ENOENT || errno == ENOTDIR; /* the file, or its folder */
        return missing ? NULL : gs_output_error_text(errno);
    }
    const char *problem = read_rules(fd, &text, &length);
    free(text);
    close(fd);
    return problem;
}

/* Logs the last line of the found ones if it is a remark. */
static void log_remark(const struct gs_text *found, const char *path)
{
    const char *remark = strstr(found->data, "# ");
    while (remark && remark != found->data && remark[-1] != '\n') {
        remark = strstr(remark + 1, "# ");
    }
    if (remark) {
        gs_log_line(GS_LOG_WARN, "%.800s: %.*s", path, (int)strcspn(remark + 2, "\n"),
                    remark + 2);
    }
}

static void log_count(const struct addition *addition, const char *path)
{
    char raised[64] = "";
    if (addition->raised != 0) {
        snprintf(raised, sizeof(raised), "%u rule%s raised", addition->raised,
                 addition->raised == 1 ? "" : "s");
    }
    if (addition->added != 0) {
        gs_log_line(GS_LOG_WARN, "%u rule%s added to %.800s%s%s", addition->added,
                    addition->added == 1 ? "" : "s", path, raised[0] ? ", " : "", raised);
    } else if (raised[0]) {
        gs_log_line(GS_LOG_WARN, "%s in %.800s", raised, path);
    }
}

void gs_rules_write(const struct gs_text *found, const char *command)
{
    static char path[PATH_MAX]; /* one report is written at a time */
    const char *pattern = __atomic_load_n(&added_to, __ATOMIC_ACQUIRE);
    struct addition addition = {0};
    if (!pattern) {
        return;
    }
    int before = gs_uncancelled_begin();
    int fd = -1;
    const char *problem = gs_output_error_text(ENAMETOOLONG);
    if (gs_log_pattern_expand(pattern, path, sizeof(path)) == GS_OK) {
        fd = gs_link_open(path, O_RDWR | O_CREAT, NULL);
        problem = fd < 0 ? gs_output_error_text(errno) : NULL;
    }
    if (fd >= 0) {
        problem = !take_turn(fd)
                      ? "another process has locked it"
                      : add_to(fd, command, found->data ? found->data : "", &addition);
        close(fd);
    }
    gs_uncancelled_end(before);
    if (problem) {
        gs_log_line(
            GS_LOG_ERROR,
            "GPUSHIM_WRITE_SUPPRESSIONS: cannot write %.800s: %s; no rule is added",
            path[0] ? path : pattern, problem);
        return;
    }
    log_count(&addition, path);
    if (found->data) {
        log_remark(found, path);
    }
}
