/*
 * merge.h - the metrics of many processes as one page: all samples of a family together,
 * as both formats demand, each with the labels of its process.
 *
 * A process writes its own samples, and may be anybody's: what is no sample of a known
 * family, by the letter of the format, takes the whole process out, and never others.
 *
 * Locks: none.   Design: docs/clusters.md, "All processes of a machine"
 */
#ifndef GS_MERGE_H
#define GS_MERGE_H

#include "tracker/report/files/metrics.h"
#include "tracker/report/text/text.h"

/* The labels that a process gets, whatever it says itself. "": none */
struct gs_merge_labels {
    long pid;
    const char *program, *namespace, *pod, *container;
};

struct gs_merge {
    struct gs_text samples[GS_METRICS]; /* as lines */
};

/* Adds the metrics of a process, in Prometheus' text format. Returns false, and adds
 * nothing, if they are malformed. In: text  a NUL after its `length` bytes */
bool gs_merge_add(struct gs_merge *merge, const char *text, size_t length,
                  const struct gs_merge_labels *labels);

/* Writes the families that have samples. In: plain  Prometheus' text format */
void gs_merge_write(const struct gs_merge *merge, bool plain, struct gs_export_out *out);

/* Returns whether there was no memory for a part of them. */
bool gs_merge_failed(const struct gs_merge *merge);

void gs_merge_free(struct gs_merge *merge);

#endif
