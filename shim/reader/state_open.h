/*
 * state_open.h - opens a state file for the functions that report its contents.
 * Locks: none; one thread reads. Design: docs/state.md
 */
#ifndef GS_STATE_OPEN_H
#define GS_STATE_OPEN_H

#include "options.h"
#include "state_read.h"
#include "statistics.h"

struct gs_state_open {
    char *bytes;
    struct gs_state_header header;
    struct gs_state_found found;
    bool running; /* its process still runs */
};

/* Reads the settings of the reading process: log, outputs, rules. Needed once. */
const struct gs_options *gs_state_settings(void);

/* True: gs_state_close must follow. False: a line logs the file's error. */
bool gs_state_open(const char *path, struct gs_state_open *out);
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
/* Writes its JSON to the sink instead. False: a line has logged why not. */
bool gs_state_json(const char *state_file, const struct gs_export_sink *sink);
/* A process that a signal ended. */
struct gs_state_ended {
    int64_t pid;
    int signal;
};

/* Writes a line for each of several files, one for all, and one for each device. Returns
 * the exit status: 1 if one of them cannot be read. ended NULL: not known.
 * state_summary.c. */
int gs_state_summary(char *const files[], size_t count,
                     const struct gs_state_ended *ended);

#endif
