/*
 * log.h - where every text of the shim goes: stderr, or the file the user named.
 *
 * A file is opened for each write and closed again. Nothing of ours is left open that the
 * program could close, inherit, or meet under a number it counted on; a process that logs
 * nothing creates no file, and a forked child finds its own file by itself.
 *
 * All functions may be called from any thread at any time, in a signal handler and in a
 * vfork child too: no lock, no malloc, no stdio. errno is preserved. The host is never
 * ended or stopped: SIGPIPE, SIGXFSZ and SIGTTOU are held back while we write, and
 * cancellation is deferred.
 *
 * File name patterns: %p process id, %h host, %e program, %t start time as
 * 20240131T235959Z, %r rank (first set of OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK,
 * SLURM_PROCID, RANK; "norank" if none is), %q{VAR} environment variable ("unset" if it
 * is), %% a percent sign. %p is that of the writing process; all others are resolved when
 * the first line is written. A relative name is relative to the directory at open time.
 */
#ifndef GS_LOG_H
#define GS_LOG_H

#include <limits.h>
#include "gs_base.h"

/*
 * What is standard error. Descriptor 2 may be closed by the program, and its number be
 * the next file's or socket's that it opens, which the library must never write to. The
 * kernel does not tell such a number from one that dup2 or freopen has put there. So text
 * goes to descriptor 2 only
 *   - while it is the file that it was when the library was loaded, or
 *   - if it is the writing end of a pipe that neither stdin nor stdout reads from, or a
 *     file opened for writing only that stdout goes to as well, or that is appended to:
 *     numbers that are given out in their order come out so only if somebody means them
 *     to, and what is appended to is a log.
 * Else it is dropped. No copy of the first descriptor is kept: it would keep the reader
 * of a pipe waiting that the program has let go of.
 */

/* Remember what descriptor 2 is now. Called by the library's constructor. */
void gs_log_know_stderr(void);

/* A line is written if its level is at most the verbosity. */
enum gs_log_level { GS_LOG_ERROR, GS_LOG_WARN, GS_LOG_INFO, GS_LOG_DEBUG };

/* How long a text may wait for a reader who takes nothing of it. */
#define GS_LOG_PATIENCE_MS 10000

/* A line is cut at this many bytes, prefix and newline included. */
#define GS_LOG_LINE_BYTES 1024

/*
 * Choose where to write and how much.
 * In:     pattern    checked by gs_log_pattern_problem; copied. NULL or "": stderr
 *         verbosity  highest enum gs_log_level that is written
 * Before this call: stderr, warnings and errors. Opens nothing. Called once, by start-up;
 * other threads may be writing.
 */
void gs_log_open(const char *pattern, unsigned verbosity);

/* Would a line of this level be written? */
bool gs_log_enabled(enum gs_log_level level);

/* Write "gpushim: " and the formatted text as one line; no newline in `format`. */
void gs_log_line(enum gs_log_level level, const char *format, ...) GS_PRINTF(2, 3);

/* Write text as it is (reports, help), whatever the verbosity. */
void gs_log_text(const char *data, size_t length);

/*
 * One kind of message that must not flood: a zeroed static object per call site or kind.
 * Atomic.
 */
struct gs_log_limit {
    unsigned count;
};

/* As gs_log_line, but only the first time for `limit` in this process image. */
void gs_log_once(struct gs_log_limit *limit, enum gs_log_level level, const char *format,
                 ...) GS_PRINTF(3, 4);

/* As gs_log_once for the first `most` times; the last of them says that it is the last.
 */
void gs_log_limited(struct gs_log_limit *limit, unsigned most, enum gs_log_level level,
                    const char *format, ...) GS_PRINTF(4, 5);

/*
 * A further file of text, such as the look-up log: a zeroed static object.
 * If it cannot be written, one line on stderr says so and its text goes to stderr.
 */
struct gs_log_file {
    const char *variable;    /* set last, by release: the file is in use */
    char pattern[PATH_MAX];  /* absolute; immutable after gs_log_file_open */
    char resolved[PATH_MAX]; /* the pattern with all but %p resolved; see `state` */
    int state;               /* atomic: 0 not resolved, 1 somebody is at it, 2 resolved */
    int broken;              /* atomic: 1 once writing has failed */
};

/* In:  variable  named in the line about a failure; static storage
 *      pattern   as for gs_log_open; NULL or "": the file stays unused */
void gs_log_file_open(struct gs_log_file *file, const char *variable,
                      const char *pattern);
bool gs_log_file_used(const struct gs_log_file *file);
/* Append; nothing happens if the file is unused. */
void gs_log_file_write(struct gs_log_file *file, const char *data, size_t length);

/* What an errno of opening or writing a file means (static); no locale is asked. */
const char *gs_log_error_text(int error);

/* What is wrong with a pattern, as the end of a sentence (static); NULL: nothing. */
const char *gs_log_pattern_problem(const char *pattern);

/*
 * Resolve a pattern.
 * Out:    out  NUL-terminated, written on GS_OK only
 * Errors: GS_ERR_INVALID  the pattern is malformed, or the result longer than `capacity`
 */
enum gs_status gs_log_pattern_expand(const char *pattern, char *out,
                                     size_t capacity) GS_MUST_USE;

/* Rank of this process among its job's, -1 if it has none. As %r. */
int gs_log_rank(void);

#endif
