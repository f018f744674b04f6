/*
 * growth.h - call sites whose live memory grows from snapshot to snapshot.
 *
 * A leak grows and never shrinks; memory in normal use does both. So a call site counts
 * as growing once its live memory has grown in three snapshots since it last shrank, and
 * recently.
 *
 * Locks: any thread may call any function; locking is internal.
 * Design: docs/tracker.md, "Does it grow"
 */
#ifndef GS_GROWTH_H
#define GS_GROWTH_H

#include "tracker/growth_copy.h"

struct gs_tracker;

/* NULL: no memory. */
struct gs_growth *gs_growth_create(void);
void gs_growth_destroy(struct gs_growth *growth);

/* Takes a snapshot of the live memory: visits every record. */
void gs_growth_take_snapshot(struct gs_growth *growth, struct gs_tracker *tracker);

/* Forgets all snapshots, as gs_tracker_restart does the records. */
void gs_growth_forget(struct gs_growth *growth, struct gs_tracker *tracker);

/* The last snapshot, with the `most` fastest growing call sites. The caller frees
 * `growing`. */
struct gs_growth_snapshot {
    struct gs_growth_sums sums;
    struct gs_growing *growing;
    size_t count;
};
struct gs_growth_snapshot gs_growth_last(struct gs_growth *growth, unsigned most);

/* Returns true if the group's call site was growing in the last snapshot. growth NULL:
 * false. */
bool gs_growth_has(struct gs_growth *growth, const struct gs_group *group);

#endif
