/*
 * outputs.h - GPUSHIM_OUTPUT: the files to which the report is written besides its text;
 * and GPUSHIM_METRICS_FILE, which is also written while the program runs.
 *
 * Locks: none; read at start, then used by the one thread that writes the report.
 */
#ifndef GS_OUTPUTS_H
#define GS_OUTPUTS_H

#include "options.h"
#include "report.h"

struct gs_statistics;

/* Reads GPUSHIM_OUTPUT, GPUSHIM_OUTPUT_FILE and GPUSHIM_METRICS_FILE; logs their errors.
 * Called at start. */
void gs_outputs_open(const struct gs_options *options);

/* Returns true if any format is requested. */
bool gs_outputs_wanted(void);
/* Returns true if there is a GPUSHIM_METRICS_FILE to write. */
bool gs_outputs_metrics_wanted(void);
/* Returns true if a requested format needs sums of all allocations. */
bool gs_outputs_tallied(void);

/* The reports that have files. Where GPUSHIM_OUTPUT_FILE is a pipe, a device or a link,
 * only the report at the end has. */
enum gs_outputs_when {
    GS_OUTPUTS_END,
    GS_OUTPUTS_OUT_OF_MEMORY, /* run.oom.json */
    GS_OUTPUTS_REQUESTED,     /* run.1.json, run.2.json and so on */
    GS_OUTPUTS_INTERVAL,      /* run.json, which the next one replaces */
};

/* The data for the report, from gs_outputs_begin to gs_outputs_end. */
struct gs_outputs {
    struct gs_export_job job;
    enum gs_outputs_when when;
    void *memory; /* of all its tables */
};

/* Returns true if there is anything to write. If so, fills *outputs, and gs_outputs_end
 * must follow. `statistics` and `devices` are of the same devices. */
bool gs_outputs_begin(const struct gs_options *options,
                      const struct gs_statistics *statistics,
                      const struct gs_report_device *devices, size_t device_count,
                      enum gs_outputs_when when, struct gs_outputs *outputs);
/* The same without GPUSHIM_OUTPUT: the caller sets what writes the job, and its lines. */
void gs_outputs_describe(const struct gs_options *options,
                         const struct gs_statistics *statistics,
                         const struct gs_report_device *devices, size_t device_count,
                         struct gs_outputs *outputs);
/* The same for GPUSHIM_METRICS_FILE alone, while the program runs. */
bool gs_outputs_begin_metrics(const struct gs_options *options,
                              const struct gs_statistics *statistics,
                              const struct gs_report_device *devices, size_t device_count,
                              struct gs_outputs *outputs);
void gs_outputs_end(struct gs_outputs *outputs);

#endif
