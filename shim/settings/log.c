/*
 * log.c - the output of all text of the shim: stderr, or the file that the user named.
 *
 * Role:  formats lines, and names the files. output.c and stderr.c write, log_pattern.c
 *        resolves names.
 * Owns:  the main log's file and the verbosity.
 * Lock:  none. The settings from the start are published by one release store; the rest
 *        is atomic.
 *
 * vsnprintf is not on POSIX's list of async-signal-safe functions; glibc's neither
 * allocates nor locks for the plain conversions used here (no positional arguments, no
 * floating point, no wide characters).
 */
#include "shim/settings/log.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gs_printable.h"
#include "shim/settings/log_pattern.h"
#include "shim/settings/output.h"
#include "shim/settings/stderr.h"

static const char line_prefix[] = "gpushim: ";

/* Each field documents its own access. */
static struct gs_log_file main_file;
/* Atomic. */
static unsigned verbosity = GS_LOG_WARN;

/* ---- Files ------------------------------------------------------------------------ */

enum { NAME_UNRESOLVED, NAME_IN_WORK, NAME_RESOLVED };

/* Reports the first failure on stderr; all later text of this file goes there, too. */
static void file_failed(struct gs_log_file *file, const char *path, int error)
{
    char line[GS_LOG_LINE_BYTES];

    if (__atomic_exchange_n(&file->broken, 1, __ATOMIC_RELAXED)) {
        return;
    }
    snprintf(line, sizeof(line) - 1, "%s%s: cannot write %.800s: %s; writing to stderr",
             line_prefix, file->variable, path, gs_output_error_text(error));
    gs_make_printable(line, false);
    strcat(line, "\n");
    gs_stderr_write(line, strlen(line));
}

/*
 * The current name of the file. The first thread resolves the fixed parts once. A thread
 * that comes before that is done, or a signal handler, resolves them for itself.
 */
static enum gs_status file_path(struct gs_log_file *file, struct gs_log_names *names)
{
    int state = NAME_UNRESOLVED;
    enum gs_status status;

    if (__atomic_load_n(&file->state, __ATOMIC_ACQUIRE) == NAME_RESOLVED) {
        return gs_log_pattern_finish(file->resolved, names->second,
                                     sizeof(names->second));
    }
    status = gs_log_pattern_resolve(file->pattern, names->first, sizeof(names->first));
    if (status != GS_OK) {
        return status;
    }
    if (__atomic_compare_exchange_n(&file->state, &state, NAME_IN_WORK, false,
                                    __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        strcpy(file->resolved, names->first);
        __atomic_store_n(&file->state, NAME_RESOLVED, __ATOMIC_RELEASE);
    }
    return gs_log_pattern_finish(names->first, names->second, sizeof(names->second));
}

/* Appends to the file; returns the number of bytes written. */
static size_t file_append(struct gs_log_file *file, const char *data, size_t length)
{
    struct gs_log_names *names;
    const char *path = file->pattern;
    int error = ENAMETOOLONG;
    size_t done = 0;

    if (__atomic_load_n(&file->broken, __ATOMIC_RELAXED)) {
        return 0;
    }
    names = gs_log_names_take();
    if (!names) {
        return 0; /* no memory now; the next text may have some */
    }
    if (file_path(file, names) == GS_OK) {
        path = names->second;
        error = gs_output_append(path, data, length, &done);
    }
    if (error) {
        file_failed(file, path, error);
    }
    gs_log_names_give(names);
    return done;
}

void gs_log_file_open(struct gs_log_file *file, const char *variable, const char *pattern)
{
    int saved_errno = errno;

    if (pattern && *pattern && strlen(pattern) < PATH_MAX &&
        !gs_log_pattern_problem(pattern)) {
        gs_log_pattern_keep(file->pattern, pattern);
        __atomic_store_n(&file->variable, variable, __ATOMIC_RELEASE);
    }
    errno = saved_errno;
}

bool gs_log_file_used(const struct gs_log_file *file)
{
    return __atomic_load_n(&file->variable, __ATOMIC_ACQUIRE) != NULL;
}

void gs_log_file_write(struct gs_log_file *file, const char *data, size_t length)
{
    int saved_errno = errno;
    size_t done;

    if (!gs_log_file_used(file) || length == 0) {
        return;
    }
    done = file_append(file, data, length);
    gs_stderr_write(data + done, length - done);
    errno = saved_errno;
}

/* ---- The main log ----------------------------------------------------------------- */

void gs_log_open(const char *pattern, unsigned wanted_verbosity)
{
    __atomic_store_n(&verbosity, wanted_verbosity, __ATOMIC_RELAXED);
    gs_log_file_open(&main_file, "GPUSHIM_LOG_FILE", pattern);
}

void gs_log_set_verbosity(unsigned wanted)
{
    __atomic_store_n(&verbosity, wanted, __ATOMIC_RELAXED);
}

bool gs_log_enabled(enum gs_log_level level)
{
    return (unsigned)level <= __atomic_load_n(&verbosity, __ATOMIC_RELAXED);
}

void gs_log_text(const char *data, size_t length)
{
    if (gs_log_file_used(&main_file)) {
        gs_log_file_write(&main_file, data, length);
    } else {
        gs_stderr_write(data, length);
    }
}

/* Writes one line: prefix, text, ending; cuts it if it is too long. */
static void write_line(const char *format, va_list arguments, const char *ending)
{
    char line[GS_LOG_LINE_BYTES + 1];
    int saved_errno = errno;
    char *text = stpcpy(line, line_prefix);
    char *limit = line + GS_LOG_LINE_BYTES - strlen(ending) - 1; /* the newline */
    int wanted = vsnprintf(text, (size_t)(limit - text) + 1, format, arguments);

    if (wanted > limit - text) {
        text = stpcpy(limit - 3, "...");
    } else if (wanted > 0) {
        text += wanted;
    }
    gs_make_printable(line, false);
    text = stpcpy(stpcpy(text, ending), "\n");
    gs_log_text(line, (size_t)(text - line));
    errno = saved_errno;
}

void gs_log_line(enum gs_log_level level, const char *format, ...)
{
    va_list arguments;

    if (!gs_log_enabled(level)) {
        return;
    }
    va_start(arguments, format);
    write_line(format, arguments, "");
    va_end(arguments);
}

/* The number of this message, from 1 on. 0: over the limit. */
static unsigned limit_take(struct gs_log_limit *limit, unsigned most)
{
    unsigned before;

    /* Read first, so that a counter in a hot loop can never wrap around. */
    if (__atomic_load_n(&limit->count, __ATOMIC_RELAXED) >= most) {
        return 0;
    }
    before = __atomic_fetch_add(&limit->count, 1, __ATOMIC_RELAXED);
    return before < most ? before + 1 : 0;
}

void gs_log_once(struct gs_log_limit *limit, enum gs_log_level level, const char *format,
                 ...)
{
    va_list arguments;

    if (!gs_log_enabled(level) || limit_take(limit, 1) == 0) {
        return;
    }
    va_start(arguments, format);
    write_line(format, arguments, "");
    va_end(arguments);
}

void gs_log_limited(struct gs_log_limit *limit, unsigned most, enum gs_log_level level,
                    const char *format, ...)
{
    va_list arguments;
    unsigned turn = gs_log_enabled(level) ? limit_take(limit, most) : 0;

    if (turn == 0) {
        return;
    }
    va_start(arguments, format);
    write_line(format, arguments,
               turn == most ? " (further lines of this kind are not shown)" : "");
    va_end(arguments);
}
