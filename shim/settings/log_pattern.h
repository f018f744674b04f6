/*
 * log_pattern.h - the two passes over a log file's name; for log.c. Patterns: see log.h.
 * Locks: none needed; no malloc, may run in a signal handler.
 */
#ifndef GS_LOG_PATTERN_H
#define GS_LOG_PATTERN_H

#include <limits.h>
#include <sys/types.h>

#include "gs_base.h"

/* Records the time for %t, in seconds since the epoch; only the first call has an
 * effect. */
void gs_log_pattern_start(int64_t seconds);

/* %p becomes the id of this process, not of the one that writes: for a report that the
 * command gpushim writes in its place. */
void gs_log_pattern_of_process(pid_t pid);

/* Copies a pattern of less than PATH_MAX bytes, to be resolved later: records the time
 * for %t, and makes a relative pattern absolute where possible. */
void gs_log_pattern_keep(char out[PATH_MAX], const char *pattern);

/*
 * First pass: resolves all but %p and %%, which stay in the text; a percent sign in a
 * value is doubled. `pattern` has no problem (gs_log_pattern_problem).
 * Errors: GS_ERR_INVALID  longer than `capacity`; *out is cut
 */
enum gs_status gs_log_pattern_resolve(const char *pattern, char *out,
                                      size_t capacity) GS_MUST_USE;

/* Second pass: resolves %p and %%. Errors: as the first. */
enum gs_status gs_log_pattern_finish(const char *resolved, char *out,
                                     size_t capacity) GS_MUST_USE;

/* Buffers for two names, since the writing thread may have a small stack. */
struct gs_log_names {
    char first[PATH_MAX], second[PATH_MAX];
};

/* NULL: the buffers are taken, and there is no memory for new ones. Async-signal-safe;
 * may change errno. */
struct gs_log_names *gs_log_names_take(void);
void gs_log_names_give(struct gs_log_names *names);

#endif
