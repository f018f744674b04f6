/*
 * growth_copy.h - the result of a snapshot of live memory, and its copy in a file.
 *
 * A file has two copies and marks the valid one. A process that ends during a write
 * leaves the previous copy valid.
 *
 * Locks: one thread writes a copy (the lock of the comparison is held); growth.c.
 */
#ifndef GS_GROWTH_COPY_H
#define GS_GROWTH_COPY_H

#include "tracker/groups.h"

/* The history of a call site, in addition to its group. */
struct gs_trend {
    uint64_t base_bytes, base_count; /* at its last decrease, or first snapshot */
    uint64_t since_ns;               /* the time of that snapshot */
    uint64_t since_snapshot,
        last_snapshot;     /* that snapshot; the last one with an increase */
    uint64_t grown;        /* snapshots since with an increase */
    uint64_t recent_bytes; /* how fast it grows now: the last increases, each counts half
                            * of the next */
};

/* A growing call site. */
struct gs_growing {
    struct gs_group group;
    struct gs_trend trend;
};

/* Sums over all live memory. */
struct gs_growth_sums {
    uint64_t snapshots; /* snapshots so far, this one included */
    uint64_t time_ns, interval_ns;
    uint64_t bytes, count; /* live at the last snapshot */
    int64_t change;        /* in bytes, since the previous snapshot */
};

/* Call sites of a snapshot in a file, the fastest growing first. */
#define GS_GROWING_COPIED 32u

struct gs_growth_saved {
    struct gs_growth_sums sums;
    uint64_t count;
    struct gs_growing growing[GS_GROWING_COPIED];
};

struct gs_growth_copy {
    uint64_t current; /* 1 or 2: the valid one; 0: none yet; atomic */
    struct gs_growth_saved copies[2];
};

struct gs_growth;

/* Builds a comparison that holds one snapshot, for writing and queries. Trusts the groups
 * as they are. NULL: no memory. */
struct gs_growth *gs_growth_of(const struct gs_growth_sums *sums,
                               const struct gs_growing *growing, size_t count);

#endif
