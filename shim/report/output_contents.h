/*
 * output_contents.h - what the output files have beyond the report.
 * Locks: none.
 */
#ifndef GS_OUTPUT_CONTENTS_H
#define GS_OUTPUT_CONTENTS_H

#include "shim/settings/options.h"
#include "tracker/report/report.h"

struct gs_statistics;

struct gs_output_contents {
    struct gs_export_job job;
    void *memory; /* of all its tables */
};

/* Fills *out, but for what writes the job. `statistics` and `devices` are of the same
 * devices. gs_output_contents_free must follow. */
void gs_output_contents_make(const struct gs_options *options,
                             const struct gs_statistics *statistics,
                             const struct gs_report_device *devices, size_t device_count,
                             struct gs_output_contents *out);
void gs_output_contents_free(struct gs_output_contents *contents);

#endif
