/*
 * outputs.h - GPUSHIM_OUTPUT: the files, and the sockets of services, to which the report
 * is written besides its text; and GPUSHIM_METRICS_FILE, which is also written while the
 * program runs.
 *
 * Locks: none; used by the one thread that writes the report.
 */
#ifndef GS_OUTPUTS_H
#define GS_OUTPUTS_H

#include "shim/report/output_contents.h"
#include "tracker/report/export.h"

/* Reads GPUSHIM_OUTPUT, GPUSHIM_OUTPUT_FILE and GPUSHIM_METRICS_FILE; logs their errors.
 * Called at start. */
void gs_outputs_open(const struct gs_options *options);

/* Changes the formats and the name of their files while the program runs, for reports
 * that begin later. Returns NULL, or why not, as the end of a sentence. One caller at a
 * time.
 * In:  tracks  false: GPUSHIM_TRACK=off */
const char *gs_outputs_change(const char *list, const char *file, bool tracks);

/* Describes the first word of a GPUSHIM_OUTPUT that is no format, in `out`; NULL: each
 * one is. */
#define GS_OUTPUTS_WRONG_BYTES 384
const char *gs_outputs_wrong(const char *list, char out[GS_OUTPUTS_WRONG_BYTES]);

/* The row of a format's name; GS_EXPORT_FORMATS: there is none. */
size_t gs_outputs_format(const char *word, size_t length);

/* Returns true if any format is requested. */
bool gs_outputs_wanted(void);
/* Returns true if there is a GPUSHIM_METRICS_FILE to write. */
bool gs_outputs_metrics_wanted(void);
/* Returns true if a format requested at start needs sums of all allocations. */
bool gs_outputs_tallied(void);

/* The reports that have files. Where GPUSHIM_OUTPUT_FILE is a pipe, a device or a link,
 * only the report at the end has. */
enum gs_outputs_when {
    GS_OUTPUTS_END,
    GS_OUTPUTS_OUT_OF_MEMORY, /* run.oom.json */
    GS_OUTPUTS_REQUESTED,     /* run.1.json, run.2.json and so on */
    GS_OUTPUTS_INTERVAL,      /* run.json, which the next one replaces */
};

/* Returns true if there is anything to write. If so, fills *out for the report that
 * writes it, and gs_output_contents_free must follow. `statistics` and `devices` are of
 * the same devices. */
bool gs_outputs_begin(const struct gs_options *options,
                      const struct gs_statistics *statistics,
                      const struct gs_report_device *devices, size_t device_count,
                      enum gs_outputs_when when, struct gs_output_contents *out);
/* The same for GPUSHIM_METRICS_FILE alone, while the program runs. */
bool gs_outputs_begin_metrics(const struct gs_options *options,
                              const struct gs_statistics *statistics,
                              const struct gs_report_device *devices, size_t device_count,
                              struct gs_output_contents *out);

/* A report in one format as a text, for the command: it needs no file. */
struct gs_outputs_text {
    enum gs_export_row row;
    struct gs_text *into; /* whole, or empty and `truncated`: no memory */
};
/* gs_outputs_begin for a text. *text must live until the report is written. */
void gs_outputs_begin_text(const struct gs_options *options,
                           const struct gs_statistics *statistics,
                           const struct gs_report_device *devices, size_t device_count,
                           struct gs_outputs_text *text, struct gs_output_contents *out);

#endif
