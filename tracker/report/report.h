/*
 * report.h - the text report: devices, pool, owners, errors, leaks, SUMMARY.
 *
 * The caller supplies the data that the tracker lacks (the process, the pool) and writes
 * the finished text to its destination. Layout: docs/tracker.md.
 */
#ifndef GS_REPORT_H
#define GS_REPORT_H

#include "gs_base.h"
#include "tracker/churn.h"
#include "tracker/growth.h"
#include "tracker/pinned_uses.h"
#include "tracker/names/shown_path.h"
#include "tracker/names/symbolize.h"
#include "tracker/report/export.h"
#include "tracker/report/rules/suppress.h"
#include "tracker/report/text/text.h"
#include "tracker/scan/leak_scan.h"
#include "tracker/tracker.h"
#include "tracker/transfers.h"

/* One size class of the pool: its content, and the requests it served. */
struct gs_report_class {
#define GS_REPORT_CLASS(name, unit, doc) uint64_t name;
#include "tracker/report/classes.def"
#undef GS_REPORT_CLASS
};

/* Free memory in more than one piece. */
struct gs_report_holes {
#define GS_REPORT_HOLE(name, unit, doc) uint64_t name;
#include "tracker/report/classes.def"
#undef GS_REPORT_HOLE
};

/* The pool's statistics for a device, filled in once by the pool's owner. */
struct gs_report_device {
    const char *name;        /* "NVIDIA H200" */
    const char *bus;         /* PCI bus id; NULL: unknown */
    const char *uuid;        /* likewise: "GPU-..." */
    uint64_t reserved_bytes; /* of the pool */
    uint64_t reserved_peak_bytes;
    uint64_t idle_bytes; /* reserved, and in no live block */
    uint64_t pool_allocs, pool_hits;
    uint64_t thread_hits, stream_hits, global_hits; /* of these, by cache tier */
    uint64_t requested_bytes, rounded_bytes;        /* over all pool allocations */
    /* Driver calls for segments, and their total time; the number of calls if each
     * allocation and free of the pool had been one. */
    uint64_t driver_calls, driver_ns, native_calls;
    /* Bytes returned to the driver by age, and because memory was short or a limit
     * was reached; and other driver calls that were repeated after they had found no
     * memory. */
    uint64_t aged_bytes, pressed_bytes, retried;
    /* Frees that waited for the device, and their total time; frees that found it
     * idle. */
    uint64_t frees_waited, frees_waited_ns, frees_idle;
    uint64_t spilled, spilled_peak_bytes; /* allocations served from host memory */
    const char *pressure; /* the highest level of memory pressure; NULL: no levels */
    uint64_t pressure_changes;
    uint64_t rest_bytes; /* held by the process beyond the live and idle memory here */
    /* The time of the pool's statistics, since the tracker's start, if earlier than the
     * report; 0: the report's time. */
    uint64_t as_of_ns;
    struct gs_report_holes holes;          /* valid if `classes` is */
    const struct gs_report_class *classes; /* rising sizes; NULL: not gathered */
    size_t class_count;
    bool lazy_saves_waits; /* GPUSHIM_FREE_SYNC=lazy would avoid them */
    bool pooled;           /* false: the pool is off or was not used */
    bool rest_known;       /* else `rest_bytes` is meaningless */
};

/* Results of GPUSHIM_FREE_SYNC=verify (docs/free.md, "Verify"). */
struct gs_report_proof {
    uint64_t checked;     /* times that the device was proven idle, and then checked */
    uint64_t violated;    /* of these, the device was not idle */
    uint64_t unchecked;   /* a stream captured, or the driver did not answer */
    uint64_t longest_ns;  /* the longest wait of all checks */
    const char *ended_by; /* the name that ended the proof; "": the proof holds */
    /* The last driver functions that were looked up before the first violation, the
     * newest first. */
    const char *const *look_ups;
    size_t look_up_count;
};

/* A refused allocation, and the device's memory at the time. */
#define GS_REPORT_OOM_ADVICE 3u
struct gs_report_refusal {
    uint64_t time_ns; /* since the tracker's start */
    uint64_t bytes;   /* as requested; 0: not known */
    uint32_t stack, thread;
    uint16_t api; /* as in api_names */
    int device;   /* < GS_MAX_DEVICES */
    /* The setting that refused, "GPUSHIM_MEM_LIMIT=8G"; "": the driver. What other
     * processes have of it. */
    char limit[96];
    uint64_t others_bytes;
    uint64_t limit_bytes, limit_free_bytes; /* of it */
    /* What the driver says. Both 0: nothing. */
    uint64_t device_bytes, free_bytes;
    uint64_t live_bytes;     /* as recorded, without the next */
    uint64_t released_bytes; /* live, but given to the device (gpushim_release) */
    uint64_t rounding_bytes; /* of the pool's live blocks */
    uint64_t idle_bytes;     /* of the pool, next to live blocks: cannot be returned */
    uint64_t pending_bytes;  /* freed, and running work may still use it */
    uint64_t returned_bytes; /* idle memory returned so far as memory was short */
    /* Neither free nor one of the above: of other processes, contexts, the driver; and
     * the part of it that is this process's. */
    uint64_t elsewhere_bytes, own_bytes;
    bool elsewhere_known, own_known;
    bool pooled;           /* else the pool has no memory of the device */
    bool may_move;         /* GPUSHIM_POOL_VMM=on may serve the request */
    bool carves;           /* GPUSHIM_POOL_CARVE=on: any segment may be shared */
    bool lazy;             /* GPUSHIM_FREE_SYNC=lazy: frees do not wait */
    bool capturing;        /* a stream captured: a synchronize would break the capture */
    uint64_t piece_bytes;  /* the pool's largest piece without an allocation; 0: none */
    const char *piece_bar; /* why it did not serve the request, static; NULL: not known */
    /* What to try, most promising first. The report adds it. */
    struct gs_report_oom_advice {
        char name[16], text[208];
    } advice[GS_REPORT_OOM_ADVICE];
    unsigned try_count;
};

struct gs_report_config {
    const char *version;
    const char *command; /* the command line, shortened by the caller */
    const char *hostname;
    int rank; /* < 0: none */
    long pid;
    const char *ending;    /* "exit 0", "_exit 3", "exec /bin/x", "SIGTERM" */
    bool running;          /* the program continues: nothing has leaked yet */
    bool is_copy;          /* it did when its state was copied, as `ending` says */
    bool killed;           /* the process ended without a report: its memory was live */
    bool exited;           /* yet it ended itself, by exit_group: its memory has leaked */
    const char *killed_by; /* the signal, "SIGABRT"; NULL: none, or not known */
    const char *note;      /* a line below the header; NULL: none */
    /* Name of a library that may give the GPU uncounted work, so that no free can rely on
     * an idle GPU; NULL: none. */
    const char *uncounted;
    /* Name of the library that ended the single order of lazy frees, so that freed memory
     * waits for the GPU again; NULL: none, or frees are not lazy. */
    const char *order_ended;
    /* The call that failed so that CUDA did not start, and its error; NULL or "": none. A
     * process with allocations has started. */
    const char *no_start;
    bool order_used;                   /* frees relied on the single order until then */
    bool host_pooled;                  /* the pool served pinned or managed memory */
    uint32_t stack;                    /* of the call that caused the report; 0: none */
    struct gs_report_refusal *refusal; /* that caused the report; NULL: none */
    /* Those reported so far, for files. */
    const struct gs_report_refusal *refusals;
    size_t refusal_count;
    const struct gs_report_device *devices;
    size_t device_count;
    unsigned max_groups;     /* leak groups to print */
    uint64_t min_leak_bytes; /* smaller groups are only counted */
    unsigned peak_max;       /* call sites to print for each peak; 0: no peaks */
    bool peaks_asked;        /* these with stacks, whatever else there is to print */
    unsigned stack_depth; /* gs_stacks_config.depth: a stack of this many frames that ends
                           * before main is marked as cut; 0: none is */
    bool show_leaks;      /* false: header and totals only */
    bool owners_alone;    /* neither call sites nor errors, only the sums by owner */
    bool show_devices;    /* devices and pool also of a clean run */
    bool ranges_asked;    /* NVTX ranges are recorded: the scopes also of a clean run */
    bool attached;        /* the process had allocated before recording began */
    bool show_hints;      /* what there was too much of, also in a clean run */
    bool caches_leak;     /* what caching allocators keep counts as leaked */
    bool all_frames;      /* GPUSHIM_STACK_FRAMES=all: no frames are folded */
    bool full_paths;      /* GPUSHIM_FULL_PATHS: files are shown with their whole path */
    bool show_pool;       /* GPUSHIM_VERBOSE=2: traffic, and all statistics of the pool */
    /* Names of runtime functions (cudaMalloc, ...). The report hides the frames down to
     * the outermost of them; its name is the call that the program made. */
    const char *const *runtime_names;
    size_t runtime_name_count;
    struct gs_symbolizer *symbolizer;     /* NULL: addresses only */
    struct gs_suppressions *suppressions; /* NULL: none */
    const struct gs_scan_config *scan;    /* NULL: host memory is not scanned */
    struct gs_growth *growth;             /* NULL: no snapshots */
    struct gs_transfers *transfers;       /* NULL: copies were not recorded */
    struct gs_churn *churn;               /* NULL: lifetimes were not recorded */
    struct gs_pinned_uses *pinned;        /* NULL: uses were not recorded */
    uint64_t start_unix_ns; /* the tracker's start, since 1970; 0: not known */
    uint64_t full_in_ns;    /* until a device is full as it grew last; 0: not known */
    unsigned growing; /* growing call sites to print with the last snapshot; 0: neither */
    uint16_t launch_api;   /* the call that frees by running a graph, as in api_names; 0:
                            * none */
    struct gs_text *rules; /* gets the proposed rules of all leaks, and the text has those
                            * of the printed ones; NULL: not wanted */
    const struct gs_export_job *job;     /* files to write as well; NULL: none */
    const struct gs_report_proof *proof; /* NULL: the idle proof was not verified */
};

/* Returns true if a hint may need the classes of the device, to tell. */
bool gs_report_may_be_fragmented(const struct gs_report_device *device);

/* Suppressed errors and leaks are not counted. */
struct gs_report_summary {
    uint64_t errors;
    uint64_t leaked_bytes, leaked_count, leak_groups;
    bool no_start; /* CUDA did not start: nothing was recorded */
};

/*
 * Writes the report of `tracker` into `text`; each line begins with "==PID== ". A clean
 * run (no error, no leak) gives two lines, header and SUMMARY; with show_devices also the
 * devices between them.
 * Out: *summary  the basis of an exit code (may be NULL)
 */
void gs_report_write(struct gs_tracker *tracker, const struct gs_report_config *config,
                     struct gs_text *text, struct gs_report_summary *summary);

/* Runs the job of a configuration without a report, for figures of a running program: the
 * job has no format that names call sites. */
void gs_report_figures(struct gs_tracker *tracker, const struct gs_report_config *config);

/* Writes resolved frames, the program's own first, as a stack of the report. `inner`:
 * what is folded before it, "23 frames of PyTorch"; NULL: nothing. `cut`: the stack goes
 * on. `paths`: of all files of the report; NULL: base names are written. */
void gs_report_write_stack(const struct gs_symbol_request *frames, unsigned count,
                           const char *inner, bool cut, struct gs_shown_paths *paths,
                           struct gs_text *text);
/* Adds the paths that gs_report_write_stack writes. */
void gs_report_add_paths(const struct gs_symbol_request *frames, unsigned count,
                         struct gs_shown_paths *paths);

/* The stacks of growing call sites as written, so that file and line are looked up once.
 * Zero at first. */
struct gs_growth_names {
    struct gs_growth_name *first;
    size_t count;
    unsigned missed;             /* snapshots in which the look-up failed */
    bool keep;                   /* the stacks of the last snapshot are final */
    struct gs_shown_paths paths; /* their files; copies */
};

/* Writes a line on the last snapshot of growth, and the `most` fastest growing call sites
 * with their growth and stacks; each line begins with "==PID== ". */
void gs_growth_write(struct gs_growth *growth, struct gs_tracker *tracker,
                     const struct gs_report_config *config, unsigned most,
                     struct gs_growth_names *names, struct gs_text *text);
void gs_growth_names_free(struct gs_growth_names *names);

#endif
