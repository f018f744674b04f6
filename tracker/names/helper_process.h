/*
 * helper_process.h - runs one child program: writes its input, reads its lines, until a
 * deadline.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_HELPER_PROCESS_H
#define GS_HELPER_PROCESS_H

#include "gs_base.h"

struct gs_helper_job {
    const char *const *argv; /* argv[0] is looked up on PATH; NULL at the end */
    const char *input;       /* for its standard input */
    size_t input_bytes;
    uint64_t deadline_ns; /* CLOCK_MONOTONIC */
    /* Called for each line of the child's standard output, without the newline,
     * NUL-terminated. Lines of 16 KiB or more are cut. Returns false to end the child
     * now. */
    bool (*take_line)(void *context, const char *line);
    void *context;
};

/*
 * Starts the child, writes its input, reads its output and ends it.
 * Errors: GS_ERR_NOT_FOUND  no such program
 *         GS_ERR_TIMEOUT    killed at the deadline; the lines until then count
 *         GS_ERR_BUSY       not started: a thread waits for any child to end
 *         GS_ERR_IO         not started for another reason
 */
enum gs_status gs_helper_run(const struct gs_helper_job *job) GS_MUST_USE;

#endif
