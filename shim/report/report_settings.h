/*
 * report_settings.h - what every report takes from the options, and how it is composed.
 * Locks: none.
 */
#ifndef GS_REPORT_SETTINGS_H
#define GS_REPORT_SETTINGS_H

#include "shim/report/output_contents.h"
#include "shim/settings/options.h"
#include "tracker/report/report.h"

/* Whether a child process looks up files and lines, if GPUSHIM_SYMBOLIZE is on. */
struct gs_report_lines {
    bool wanted;
    unsigned most_ms;     /* of the child's time; 0: GPUSHIM_SYMBOLIZE=timeout alone */
    const char *why_none; /* not wanted: a sentence for the report, static; or NULL */
    const struct gs_line_server
        *server; /* answers in place of a child; NULL: none does */
};

/* The lines of a report of a program that goes on: none if it would notice the child.
 * `heard`: gs_child_is_heard. */
struct gs_report_lines gs_report_lines_unheard(bool heard);

/* Records whether GPUSHIM_PEAK_MAX is set, to whatever value. */
void gs_report_settings_start(void);
/* From now on reports have the stacks of peaks, also with leaks and errors: the program
 * has set GPUSHIM_PEAK_MAX. */
void gs_report_ask_peaks(void);

/* A report's configuration, without the data of a process. The caller owes
 * gs_symbolizer_destroy of its symbolizer. */
struct gs_report_config gs_report_settings(const struct gs_options *options,
                                           struct gs_report_lines lines);

/* Composes a report: as *text; in `files` (NULL: none), which are then freed; and, if the
 * process does not go on, for GPUSHIM_WRITE_SUPPRESSIONS. The configuration's `job` and
 * `rules` are set here. Returns true if there were errors, or leaks: what a process that
 * goes on has is none. */
bool gs_report_compose(struct gs_tracker *tracker, struct gs_report_config config,
                       struct gs_output_contents *files, struct gs_text *text);

/* Colours a report that is about to be written to `fd`, if GPUSHIM_COLOR says so; -1: to
 * a file. */
void gs_report_color(const struct gs_options *options, int fd, struct gs_text *text);
/* Writes a report to the log, coloured likewise. */
void gs_report_log(const struct gs_options *options, struct gs_text *text);

#endif
