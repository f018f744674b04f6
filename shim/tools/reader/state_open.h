/*
 * state_open.h - opens a state file for the functions that report its contents.
 * Locks: none; one thread reads. Design: docs/state.md
 */
#ifndef GS_STATE_OPEN_H
#define GS_STATE_OPEN_H

#include "shim/report/statistics.h"
#include "shim/settings/options.h"
#include "tracker/statefile/state_read.h"

struct gs_state_open {
    char *bytes;
    struct gs_state_header header;
    struct gs_state_found found;
    bool running; /* its process still runs, and writes to it */
};

/* Reads the settings of the reading process: log, outputs, rules. Needed once. */
const struct gs_options *gs_state_settings(void);
/* Called before: the process whose settings these are has logged what is wrong in them.
 */
void gs_state_settings_were_read(void);
/* gs_report_settings, with a symbolizer that serves all files: names, and with `lines`
 * the lines of the frames that are shown, are looked up once. The symbolizer belongs to
 * this module. */
struct gs_report_config gs_state_report_settings(bool lines);

/* Returns true if the process exists and has written no report, and is not another one
 * with its id. */
bool gs_state_exists(const struct gs_state_process *process);
/* Returns true if the file is a copy that was made while the process ran: what became of
 * the process is not known from it. */
bool gs_state_is_copy(const struct gs_state_process *process);
/* Returns true if the process exists, and the file is its own. */
bool gs_state_runs(const struct gs_state_process *process);
/* How a process that does not run has ended, as far as is known. */
const char *gs_state_ending(const struct gs_state_process *process);

/* `stacks`: read, too; NULL: none.
 * True: gs_state_close must follow. False: *problem is the reason, as the end of a
 * sentence. */
bool gs_state_open(const char *path, const struct gs_state_stacks *stacks,
                   struct gs_state_open *out, const char **problem);
/* The same of bytes from malloc, which gs_state_close frees; also if this fails. NULL:
 * *problem is the reason already. */
bool gs_state_open_bytes(char *bytes, size_t length, const struct gs_state_stacks *stacks,
                         struct gs_state_open *out, const char **problem);
void gs_state_close(struct gs_state_open *state);

/* A file's statistics of a device; NULL: none. `file` is gs_state_found.annex. */
const struct gs_statistics *gs_statistics_of(const struct gs_statistics_file *file,
                                             size_t device);
/* Like gs_statistics_frees, from a file. */
void gs_statistics_report_frees(const struct gs_statistics_file *file,
                                struct gs_report_config *out);

/* Writes the report of one file to stdout. Returns the exit status: 1 if the file cannot
 * be read; GPUSHIM_ERROR_EXITCODE if there are leaks or errors. state_report.c. */
int gs_state_report(const char *state_file);
/* How a process ended that wrote no report itself. */
struct gs_state_end {
    const char *text;   /* "killed by SIGABRT", "exit_group 3"; NULL: not known */
    const char *signal; /* "SIGABRT"; NULL: none */
    uint64_t unix_ms;   /* when */
};

/*
 * Writes to the log, and to the files of GPUSHIM_OUTPUT, the report of a process that has
 * ended without one.
 * In:   bytes   the state, from malloc; freed
 *       end     how the process ended
 * Out:  *bad    leaks or errors
 * False: the bytes are no state; a line says why.
 */
bool gs_state_report_ended(char *bytes, size_t length, const struct gs_state_end *end,
                           bool *bad);
/* What to read of a state file other than a report. */
struct gs_state_visit {
    bool lines;   /* of the frames that are shown */
    uint32_t pid; /* with pid_start: of the process that the file must be of; 0: any */
    uint64_t pid_start;
    struct gs_state_stacks stacks; /* in the export as well */
    /* Called once; export NULL: no memory. */
    void (*write)(void *self, const struct gs_export *export);
    void *self;
};

/* Calls visit->write with the report's data. False: *problem, as above. */
bool gs_state_visit(const char *state_file, const struct gs_state_visit *visit,
                    const char **problem);
/* Writes its JSON to the sink. False: *problem, as above. */
bool gs_state_json(const char *state_file, bool lines, const struct gs_export_sink *sink,
                   const char **problem);

#endif
