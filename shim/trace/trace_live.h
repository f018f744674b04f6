/*
 * trace_live.h - what the records that a full trace drops have left: the allocations that
 * are still live, so that the rest of the trace can be read without them.
 *
 * Records are added in the order of their slots. Times decide where two threads' batches
 * are out of order: a free whose allocation is in a later slot is kept, too.
 *
 * Locks: the caller's.   Design: docs/traces.md
 */
#ifndef GS_TRACE_LIVE_H
#define GS_TRACE_LIVE_H

#include "shim/trace/trace_format.h"

/* The frees that a refusal may take back. */
#define GS_TRACE_LIVE_RECENT 64u

/* Records by address, 0: none; a power of two of them. */
struct gs_trace_table {
    struct gs_trace_record *rows;
    size_t room, count;
};

struct gs_trace_live {
    struct gs_trace_table blocks; /* allocations; frees whose allocation is to come */
    struct gs_trace_table ranges; /* GS_TRACE_MAPPED */
    struct gs_trace_record recent[GS_TRACE_LIVE_RECENT]; /* freed last */
    unsigned next_recent;
    bool no_memory; /* the table is not complete */
};

/* Adds a record that was sealed. In: chunk  the index of its chunk. */
void gs_trace_live_add(struct gs_trace_live *live, const struct gs_trace_record *record,
                       uint64_t chunk);
/* Drops frees of chunks before this one: their allocations would be overwritten by
 * now. */
void gs_trace_live_expire(struct gs_trace_live *live, uint64_t chunk);
/* The number of records that say it all. */
size_t gs_trace_live_count(const struct gs_trace_live *live);
/* Visits them, unsealed. */
void gs_trace_live_visit(const struct gs_trace_live *live,
                         void (*visit)(void *arg, const struct gs_trace_record *record),
                         void *arg);
void gs_trace_live_free(struct gs_trace_live *live);

#endif
