/*
 * helper_process.h - runs a child program: writes its input, reads its lines, until a
 * deadline.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_HELPER_PROCESS_H
#define GS_HELPER_PROCESS_H

#include "gs_base.h"

/* The variables of a child, without those of the library: `environ`, or what the shim's
 * function returns, which knows the library's threads. Set before the first child. */
extern char *const *(*gs_helper_variables)(void);

/* A child that runs; all zero: none. */
struct gs_helper {
    int pid;
    int to, from; /* its standard input and output; -1: closed */
};

struct gs_helper_job {
    const char *const *argv; /* argv[0] is looked up on PATH; NULL at the end */
    bool stays;              /* the child runs on, for the input of the next job */
    const char *input;       /* for its standard input */
    size_t input_bytes;
    uint64_t deadline_ns; /* CLOCK_MONOTONIC */
    /* Called for each line of the child's standard output, without the newline,
     * NUL-terminated. Longer lines are cut. Returns false to end the job now. */
    bool (*take_line)(void *context, const char *line);
    void *context;
    size_t line_bytes; /* of the longest line, with its NUL; 0: 16 KiB */
};

/*
 * Starts the child, unless it runs, writes its input and reads its output. Ends it after
 * an error, or if it does not stay.
 *
 * Errors: GS_ERR_NOT_FOUND  no such program
 *         GS_ERR_TIMEOUT    killed at the deadline; the lines until then count
 *         GS_ERR_BUSY       not started: a thread waits for any child to end
 *         GS_ERR_IO         not started for another reason
 */
enum gs_status gs_helper_run(struct gs_helper *child,
                             const struct gs_helper_job *job) GS_MUST_USE;
/* Ends the child, if there is one; by a signal, if it does not end by itself in time. */
void gs_helper_end(struct gs_helper *child, uint64_t deadline_ns);

#endif
