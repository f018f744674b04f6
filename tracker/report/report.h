/*
 * report.h - the text report: devices, traffic, pool, errors, leaks, owners, SUMMARY.
 *
 * The caller gives what the tracker cannot know (who the process is, what the pool did)
 * and writes the finished text wherever it belongs. Layout: docs/tracker.md.
 */
#ifndef GS_REPORT_H
#define GS_REPORT_H

#include "export.h"
#include "gs_base.h"
#include "growth.h"
#include "leak_scan.h"
#include "suppress.h"
#include "symbolize.h"
#include "text.h"
#include "tracker.h"

/* One size of the pool's blocks: what it holds, what it served. */
struct gs_report_class {
#define GS_REPORT_CLASS(name, unit, doc) uint64_t name;
#include "classes.def"
#undef GS_REPORT_CLASS
};

/* Where free memory lies that is not one piece. */
struct gs_report_holes {
#define GS_REPORT_HOLE(name, unit, doc) uint64_t name;
#include "classes.def"
#undef GS_REPORT_HOLE
};

/* What the pool did for a device: filled once, by whoever has the pool. */
struct gs_report_device {
    const char *name;        /* "NVIDIA H200" */
    uint64_t reserved_bytes; /* of the pool */
    uint64_t reserved_peak_bytes;
    uint64_t idle_bytes; /* reserved, and in no live block */
    uint64_t pool_allocs, pool_hits;
    uint64_t thread_hits, stream_hits, global_hits; /* of these, by the level */
    uint64_t requested_bytes, rounded_bytes;        /* over all pool allocations */
    /* Calls of the driver for segments, how long in all; calls had each pool allocation
     * and each of its frees been one. */
    uint64_t driver_calls, driver_ns, native_calls;
    /* Given back after a while without use, and because memory was short or a limit was
     * reached; calls of others that were out of memory and were made again for it. */
    uint64_t aged_bytes, pressed_bytes, retried;
    /* Frees that waited for the device, how long in all; frees that found it idle. */
    uint64_t frees_waited, frees_waited_ns, frees_idle;
    uint64_t rest_bytes; /* that the process takes beyond all that is live or idle here */
    /* When the pool's figures are of, since the tracker's start, where that is an earlier
     * moment than the report's; 0: the report's. */
    uint64_t as_of_ns;
    struct gs_report_holes holes;          /* where `classes` are known */
    const struct gs_report_class *classes; /* rising sizes; NULL: not looked at */
    size_t class_count;
    bool lazy_saves_waits; /* GPUSHIM_FREE_SYNC=lazy would leave them out */
    bool pooled;           /* false: the pool is off or was not used */
    bool rest_known;       /* else `rest_bytes` means nothing */
};

/* What GPUSHIM_FREE_SYNC=verify looked at, and found (docs/free.md, "Verify"). */
struct gs_report_proof {
    uint64_t checked;     /* times that the device was proven idle, and was asked */
    uint64_t violated;    /* of these, the device was not idle */
    uint64_t unchecked;   /* a stream captured, or the driver did not answer */
    uint64_t longest_ns;  /* the longest wait of all that were checked */
    const char *ended_by; /* the name that ended the proof; "": the proof holds */
    /* Driver functions that were looked up last before the first violation, the newest
       first. */
    const char *const *look_ups;
    size_t look_up_count;
};

/* At start: the files of this library and of another copy of it in the process, whose
 * frames are no more the program's than ours are. */
void gs_report_set_copies(const char *own, const char *other);

struct gs_report_config {
    const char *version;
    const char *command; /* the command line, shortened by the caller */
    const char *host;
    int rank; /* < 0: none */
    long pid;
    const char *ending; /* "exit 0", "_exit 3", "exec /bin/x", "signal 15" */
    bool running;       /* the program goes on: nothing has leaked yet */
    bool killed;        /* it ended and could say nothing: there was no exit */
    const char *note;   /* a line below the header; NULL: none */
    /* What may give the GPU work that is not counted, by name, so that no free finds the
     * GPU idle; NULL: nothing. */
    const char *uncounted;
    /* What has ended the single order of lazy frees, by name, so that freed memory is
     * used again only once the GPU is done with it; NULL: nothing, or frees are not lazy.
     */
    const char *order_ended;
    bool order_used;  /* until then the order was relied on */
    bool host_pooled; /* pinned or managed memory was asked of the pool */
    uint32_t stack;   /* of the call it is about; 0: none */
    const struct gs_report_device *devices;
    size_t device_count;
    unsigned max_groups;     /* leak groups written out */
    uint64_t min_leak_bytes; /* groups with less are only counted */
    unsigned peak_max;    /* places of each peak written out; 0: peaks are not told of */
    unsigned stack_depth; /* frames kept of a stack, gs_stacks_config.depth: one that has
                             so many and ends before main is said to be cut; 0: none is */
    bool show_leaks;      /* false: GPUSHIM_LEAK_REPORT=off: header and totals only */
    bool show_devices;    /* GPUSHIM_VERBOSE=2: devices and pool of a clean run, too,
                             and the pool's sizes, where they are known */
    /* Names of runtime entry points (cudaMalloc, ...): frames down to the outermost such
     * one are the runtime's own and are not shown; its name is the call the program made.
     */
    const char *const *runtime_names;
    size_t runtime_name_count;
    struct gs_symbolizer *symbolizer;     /* NULL: addresses only */
    struct gs_suppressions *suppressions; /* NULL: none */
    const struct gs_scan_config *scan;    /* NULL: host memory is not looked at */
    struct gs_growth *growth;             /* NULL: nothing was compared */
    unsigned growing; /* places that grow, written out with the last look; 0: neither */
    uint16_t launch_api; /* of what frees by running a graph, as in api_names; 0: none */
    const struct gs_export_job *job;     /* files to write as well; NULL: none */
    const struct gs_report_proof *proof; /* NULL: the idle proof was not verified */
};

/* Without what is suppressed. */
struct gs_report_summary {
    uint64_t errors;
    uint64_t leaked_bytes, leaked_count, leak_groups;
};

/*
 * Write the report of `tracker` into `text`; each line begins with "==PID== ".
 * A clean run (no error, no leak) gives two lines, header and SUMMARY, and between them
 * the devices' where show_devices is set.
 * Out: *summary  what an exit code is decided by (may be NULL)
 */
void gs_report_write(struct gs_tracker *tracker, const struct gs_report_config *config,
                     struct gs_text *text, struct gs_report_summary *summary);

#endif
