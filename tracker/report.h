/*
 * report.h - the text report: devices, traffic, pool, errors, leaks, owners, SUMMARY.
 *
 * The caller gives what the tracker cannot know (who the process is, what the pool did)
 * and writes the finished text wherever it belongs. Layout: docs/tracker.md.
 */
#ifndef GS_REPORT_H
#define GS_REPORT_H

#include "gs_base.h"
#include "symbolize.h"
#include "text.h"
#include "tracker.h"

/* A device's line of pool figures. */
struct gs_report_device {
    const char *name;        /* "NVIDIA H200" */
    uint64_t reserved_bytes; /* of the pool */
    uint64_t reserved_peak_bytes;
    uint64_t pool_allocs, pool_hits;
    uint64_t requested_bytes, rounded_bytes; /* over all pool allocations */
    /* Frees that waited for the device, how long in all; frees that found it idle. */
    uint64_t frees_waited, frees_waited_ns, frees_idle;
    bool pooled; /* false: the pool is off or was not used */
};

struct gs_report_config {
    const char *version;
    const char *command; /* the command line, shortened by the caller */
    const char *host;
    int rank; /* < 0: none */
    long pid;
    const char *ending; /* "exit 0", "_exit 3", "exec /bin/x", "signal 15" */
    const struct gs_report_device *devices;
    size_t device_count;
    unsigned max_groups;     /* leak groups written out */
    uint64_t min_leak_bytes; /* groups with less are only counted */
    unsigned stack_depth; /* frames kept of a stack, gs_stacks_config.depth: one that has
                             so many and ends before main is said to be cut; 0: none is */
    bool show_leaks;      /* false: GPUSHIM_LEAK_REPORT=off: header and totals only */
    /* Names of runtime entry points (cudaMalloc, ...): frames down to the outermost such
     * one are the runtime's own and are not shown; its name is the call the program made.
     */
    const char *const *runtime_names;
    size_t runtime_name_count;
    struct gs_symbolizer *symbolizer; /* NULL: addresses only */
};

struct gs_report_summary {
    uint64_t errors;
    uint64_t leaked_bytes, leaked_count, leak_groups;
};

/*
 * Write the report of `tracker` into `text`; each line begins with "==PID== ".
 * A clean run (no error, no leak) gives two lines: header and SUMMARY.
 * Out: *summary  what an exit code is decided by (may be NULL)
 */
void gs_report_write(struct gs_tracker *tracker, const struct gs_report_config *config,
                     struct gs_text *text, struct gs_report_summary *summary);

#endif
