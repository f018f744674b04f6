/*
 * statistics.h - the pool's statistics by device: for the report, and at times for the
 * state file.
 *
 * The state file has statistics of an earlier time, together with this time. They are
 * copied to it during calls that are slow in any case (a request beyond the thread's own
 * blocks, a wait, each 64th free). The time between two copies is a sixteenth of the
 * process's running time, but at least 1 ms and at most 0.1 s. So a hit in the pool pays
 * nothing.
 *
 * Locks: all functions may be called from any thread; one thread at a time copies, and
 * other threads skip the copy.   Design: docs/state.md
 */
#ifndef GS_STATISTICS_H
#define GS_STATISTICS_H

#include "shim/link/known_functions.h"
#include "shim/order/free_wait.h"
#include "shim/state/state.h"
#include "tracker/report/report.h"

/* The statistics of one device. Stored in files as they are: 64-bit words only. */
struct gs_statistics {
    uint64_t at_ns; /* time since the tracker's start, plus 1 */
    struct gs_pool_stats pool;
    struct gs_free_stats frees;
    uint64_t retried;          /* other calls that were repeated after a reclaim */
    uint64_t lazy_saves_waits; /* 0 or 1, as in gs_report_device */
    uint64_t pressure; /* the highest level reached, plus 1; 0: GPUSHIM_PRESSURE unset */
    uint64_t pressure_changes;
    uint64_t spilled, spilled_peak_bytes;
    uint64_t rest_known, rest_bytes; /* the first is 0 or 1; only set for a report */
};

/* The statistics in a state file. */
struct gs_statistics_file {
    uint64_t current; /* 1 or 2: the complete set; 0: none yet; atomic */
    struct gs_statistics sets[2][GS_MAX_DEVICES];
    /* gs_known_ended_by and gs_single_order_ended_by; written once, last byte 0 */
    char uncounted[GS_KNOWN_NAME_BYTES];
    char order_ended[GS_KNOWN_NAME_BYTES];
    char no_start[GS_KNOWN_NAME_BYTES]; /* gs_cuda_start_failure, as in the report */
    uint64_t order_used, host_pooled;   /* 0 or 1, as in gs_report_config */
};
static_assert(sizeof(struct gs_statistics_file) % 8 == 0, "whole words");

/* A number that identifies the layout of this part of a file. */
static inline uint64_t gs_statistics_form(void)
{
    return sizeof(struct gs_statistics_file) << 16 |
           offsetof(struct gs_statistics, retried);
}

extern bool gs_statistics_kept __attribute__((visibility("hidden")));

/* Called at start: reserves their place in the state file, if there is one. */
void gs_statistics_start(const struct gs_state *state);
/* In a forked child: the file belongs to the parent. */
void gs_statistics_reset(void);

/* The current statistics of the first `count` devices. */
void gs_statistics_take(struct gs_state *state, struct gs_statistics *out, size_t count);
/* Converts the statistics of one device for the report; does not set the name.
 * statistics_report.c. */
void gs_statistics_report(const struct gs_statistics *statistics,
                          struct gs_report_device *out);

/* The pool's live and served blocks by size, and the places of free memory; visits each
 * block. *out refers to `classes` from then on. */
void gs_statistics_by_size(struct gs_state *state, int device,
                           struct gs_report_class classes[GS_POOL_CLASSES],
                           struct gs_report_device *out);

/* Saves the statistics in the state file, if there is one. */
void gs_statistics_keep(const struct gs_statistics *statistics, size_t count);
/* Collects and saves the statistics in the memory of a state file, whoever has it. */
void gs_statistics_keep_now(struct gs_state *state);
/* Collects and saves the statistics, if a copy is due. No lock is held. */
void gs_statistics_keep_late(struct gs_state *state) __attribute__((cold, noinline));

/* A safe point, whose caller does more work than a copy. */
static inline void gs_statistics_safe_point(struct gs_state *state)
{
    if (GS_UNLIKELY(__atomic_load_n(&gs_statistics_kept, __ATOMIC_RELAXED))) {
        gs_statistics_keep_late(state);
    }
}

/* The current statistics of all frees: the causes for the end of the idle proof and of
 * the single order, and whether host memory was pooled. Sets only these members of
 * *out. */
void gs_statistics_frees(const struct gs_state *state, struct gs_report_config *out);

#endif
