/*
 * log.h - the output of all text of the shim: stderr, or the file that the user named.
 *
 * A file is opened for each write and closed again (output.h). So the library keeps no
 * descriptor open that the program could close, inherit, or find under a number that it
 * expected to be free. stderr.h says when stderr gets nothing. A process that logs
 * nothing creates no file, and a forked child opens its own file.
 *
 * All functions may be called from any thread at any time, also in a signal handler and
 * in a vfork child: no lock, no malloc, no stdio. errno is preserved.
 *
 * File name patterns: %p process id, %h host, %e program, %t start time as
 * 20240131T235959Z, %r rank (first set of OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK,
 * SLURM_PROCID, RANK; "norank" if none is), %q{VAR} environment variable ("unset" if it
 * is), %% a percent sign. %p is the id of the writing process; all other ones are
 * resolved when the first line is written. A relative name is relative to the directory
 * at open time.
 */
#ifndef GS_LOG_H
#define GS_LOG_H

#include <limits.h>
#include "gs_base.h"

/* A line is written if its level is at most the verbosity. */
enum gs_log_level { GS_LOG_ERROR, GS_LOG_WARN, GS_LOG_INFO, GS_LOG_DEBUG };

/* A line is cut at this many bytes, prefix and newline included. */
#define GS_LOG_LINE_BYTES 1024

/*
 * Sets the output and the verbosity.
 * In:     pattern    checked by gs_log_pattern_problem; copied. NULL or "": stderr
 *         verbosity  highest enum gs_log_level that is written
 * Before this call: stderr, warnings and errors. Opens nothing. Called once, at start;
 * other threads may be writing.
 */
void gs_log_open(const char *pattern, unsigned verbosity);

/* Changes the verbosity. */
void gs_log_set_verbosity(unsigned verbosity);

/* Returns true if a line of this level is written. */
bool gs_log_enabled(enum gs_log_level level);

/* Writes "gpushim: " and the formatted text as one line; no newline in `format`. */
void gs_log_line(enum gs_log_level level, const char *format, ...) GS_PRINTF(2, 3);

/* Writes text unchanged (reports, help), whatever the verbosity. */
void gs_log_text(const char *data, size_t length);

/*
 * A limit for one kind of message: a zeroed static object per call site or kind. Atomic.
 */
struct gs_log_limit {
    unsigned count;
};

/* Like gs_log_line, but only the first time for `limit` in this process image. */
void gs_log_once(struct gs_log_limit *limit, enum gs_log_level level, const char *format,
                 ...) GS_PRINTF(3, 4);

/* Like gs_log_once for the first `most` times; the last message says that it is the
 * last. */
void gs_log_limited(struct gs_log_limit *limit, unsigned most, enum gs_log_level level,
                    const char *format, ...) GS_PRINTF(4, 5);

/*
 * A further text file, such as the look-up log: a zeroed static object.
 * If it cannot be written, one line on stderr says so and its text goes to stderr.
 */
struct gs_log_file {
    const char *variable;    /* set last, by release: the file is in use */
    char pattern[PATH_MAX];  /* absolute; immutable after gs_log_file_open */
    char resolved[PATH_MAX]; /* the pattern with all but %p resolved; see `state` */
    int state;  /* atomic: 0 not resolved, 1 a thread resolves it, 2 resolved */
    int broken; /* atomic: 1 once writing has failed */
};

/* In:  variable  named in the line about a failure; static storage
 *      pattern   as for gs_log_open; NULL or "": the file stays unused */
void gs_log_file_open(struct gs_log_file *file, const char *variable,
                      const char *pattern);
bool gs_log_file_used(const struct gs_log_file *file);
/* Appends; does nothing if the file is unused. */
void gs_log_file_write(struct gs_log_file *file, const char *data, size_t length);

/* The error in a pattern, as the end of a sentence (static); NULL: none. */
const char *gs_log_pattern_problem(const char *pattern);

/*
 * Resolves a pattern.
 * Out:    out  NUL-terminated, written on GS_OK only
 * Errors: GS_ERR_INVALID  the pattern is malformed, or the result longer than `capacity`
 */
enum gs_status gs_log_pattern_expand(const char *pattern, char *out,
                                     size_t capacity) GS_MUST_USE;

/* The rank of this process in its job, -1 if it has none. As %r. */
int gs_log_rank(void);

#endif
