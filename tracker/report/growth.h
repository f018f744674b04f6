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

#include "groups.h"
#include "text.h"

struct gs_growth;
struct gs_report_config;
struct gs_tracker;

/* NULL: no memory. */
struct gs_growth *gs_growth_create(void);
void gs_growth_destroy(struct gs_growth *growth);

/* Takes a snapshot of the live memory. Takes as long as a visit of every record. */
void gs_growth_look(struct gs_growth *growth, struct gs_tracker *tracker);

/* Writes a line on the last snapshot, and the `most` fastest growing call sites with
 * their growth and stacks; each line begins with "==PID== ". */
void gs_growth_write(struct gs_growth *growth, struct gs_tracker *tracker,
                     const struct gs_report_config *config, unsigned most,
                     struct gs_text *text);

/* Was the group's call site growing in the last snapshot? NULL: no. */
bool gs_growth_has(struct gs_growth *growth, const struct gs_group *group);

#endif
