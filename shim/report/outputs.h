/*
 * outputs.h - the files that the report is written to beside its text: GPUSHIM_OUTPUT.
 *
 * Locks: none; start-up reads the settings, and one thread writes the report.
 */
#ifndef GS_OUTPUTS_H
#define GS_OUTPUTS_H

#include "options.h"
#include "report.h"

struct gs_statistics;

/* Read GPUSHIM_OUTPUT and GPUSHIM_OUTPUT_FILE; says what is wrong with them. Start-up. */
void gs_outputs_open(const struct gs_options *options);

/* Whether any format is asked for. */
bool gs_outputs_wanted(void);
/* Whether a format is asked for that takes a tally of all allocations. */
bool gs_outputs_tallied(void);

/* What the report is told, from gs_outputs_begin to gs_outputs_end. */
struct gs_outputs {
    struct gs_export_job job;
    void *memory; /* of all its tables */
};

/* Is there anything to write? Fills *outputs then, which gs_outputs_end is due for.
 * `figures` and `devices` are of the same devices. */
bool gs_outputs_begin(const struct gs_options *options,
                      const struct gs_statistics *statistics,
                      const struct gs_report_device *devices, size_t device_count,
                      struct gs_outputs *outputs);
void gs_outputs_end(struct gs_outputs *outputs);

#endif
