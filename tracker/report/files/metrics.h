/*
 * metrics.h - families of metrics, and the syntax of their two formats: OpenMetrics 1.0,
 * and Prometheus' text format, which has a counter's type and help under the name of the
 * sample, and no units.
 * Locks: none.
 */
#ifndef GS_METRICS_H
#define GS_METRICS_H

#include "tracker/report/files/export_out.h"

/* The texts are in the row itself, so that a start relocates none. */
struct gs_metric_family {
    char name[36], unit[8], help[60];
    bool counter;
};

enum gs_metric_row {
#define GS_METRIC(row, unit, counter, help) GS_METRIC_##row,
#include "tracker/report/files/metrics.def"
    GS_METRICS
};
extern const struct gs_metric_family gs_metric_families[GS_METRICS];

/* Writes the lines before a family's first sample. In: text  Prometheus' text format */
void gs_metric_head(struct gs_export_out *out, const struct gs_metric_family *family,
                    bool text);

/* Writes a label after its separator, '{' or ','. The value may be any text. */
void gs_metric_label(struct gs_export_out *out, char separator, const char *name,
                     const char *value);

#endif
