/*
 * scope_totals.h - what was allocated in each scope: live now, at most, and in all.
 *
 * A scope is the path of names that a thread was in, such as step/forward; its number is
 * that of its frame (stacks/scopes.h). What is counted for a scope is counted for each
 * scope around it as well, so a peak is that of the scope with all scopes within. Each
 * counts by itself: two threads' events at one moment may have another order there.
 *
 * An allocation's scope is found by its stack, which belongs to one scope alone, and
 * mostly allocates in one row. One that sampling left without a stack has the scope's
 * number in its place (gs_stack_with_scope). So a record needs no further word, and a
 * free finds the scope. A free is led here by the comparison that it makes for the peaks
 * (peaks.h): from the first allocation in a scope on, all frees of the row are taken for
 * frees of memory that was live at its peak, and gs_peak_keep decides. Without scopes
 * nothing here runs.
 *
 * Of memory that an allocator of a framework hands out in parts, and reports them, each
 * part counts as an allocation, and the memory does not (part_reports.c).
 *
 * Owns:  struct gs_scope_table, which ends with its tracker.
 * Locks: a scope's own lock, one at a time, inside a shard. Readers take it as well.
 * Design: docs/tracker.md
 */
#ifndef GS_SCOPE_TOTALS_H
#define GS_SCOPE_TOTALS_H

#include "tracker/tracker_internal.h"

#define GS_SCOPE_CHUNK_BITS 8u  /* scopes, and rows of scopes, in a chunk */
#define GS_SCOPE_STACK_BITS 12u /* stacks in a chunk */
#define GS_SCOPE_CHUNKS     4096u
#define GS_SCOPE_NUMBERS    (GS_SCOPE_CHUNKS << GS_SCOPE_CHUNK_BITS) /* but the last */
static_assert(GS_SCOPE_NUMBERS == -GS_STACK_SCOPED / 2, "gs_stack_with_scope has each");
/* For as many stacks as a table has (stack_table.h). */
#define GS_SCOPE_STACK_CHUNKS 16384u

/* The peak is that of before the last free: readers compare it with what is live. */
struct gs_scope_live {
    int64_t bytes, peak_bytes;
};

/* A scope's memory in one row of the totals. */
struct gs_scope_row {
    struct gs_scope_live live;
    uint64_t alloc_bytes, allocs, frees;
    uint64_t lost_bytes, lost_count; /* with their context */
    /* Immutable: what each event needs next. Pointers of this process. */
    struct gs_scope *scope;
    struct gs_scope_row *around; /* the same row of the scope around; NULL: none */
    uint32_t row, next;          /* of the same scope; 0: none */
};

struct gs_scope {
    struct gs_tracker_lock lock; /* of all but the atomic members, and of the rows */
    uint32_t around;             /* atomic; 0: none */
    uint32_t first_row;
    uint32_t summed; /* rows but the views; `live` is that of one row alone, too */
    uint64_t begun;  /* atomic; 0: there is no such scope */
    uint64_t missed; /* atomic: gs_tracker_scope_missed */
    struct gs_scope_live live; /* of two rows and more: their sum */
};

struct gs_scope_table {
    uint32_t limit;     /* numbers below it may exist; atomic, grows */
    uint32_t row_count; /* rows handed out; atomic */
    /* Atomic, each written once. The state file holds the first two kinds. */
    struct gs_scope *scopes[GS_SCOPE_CHUNKS];
    struct gs_scope_row *rows[GS_SCOPE_CHUNKS];
    /* By stack: the row that counted it last; before, its scope (scope_totals.c). */
    uintptr_t *stacks[GS_SCOPE_STACK_CHUNKS];
};

/* Count a record in the scope of its stack, if it has one, and in the scopes around it:
 * one that was made; its free; its loss; a free that was undone; its growth. Inside
 * the shard. */
void gs_scopes_count_alloc(struct gs_tracker *tracker, unsigned row, uint32_t stack,
                           uint64_t bytes);
void gs_scopes_count_free(struct gs_tracker *tracker, unsigned row,
                          const struct gs_record *words);
void gs_scopes_count_loss(struct gs_tracker *tracker, unsigned row,
                          const struct gs_record *words);
void gs_scopes_count_undo(struct gs_tracker *tracker, unsigned row, uint32_t stack,
                          uint64_t bytes);
void gs_scopes_count_growth(struct gs_tracker *tracker, unsigned row, uint32_t stack,
                            uint64_t bytes);
/* A part of memory that was handed out; negative: it came back. And memory that was
 * counted, and has parts: takes its allocation back, without a trace in the peaks if none
 * of the scope's memory was freed since. */
void gs_scopes_count_part(struct gs_tracker *tracker, unsigned row, uint32_t stack,
                          int64_t bytes);
void gs_scopes_count_division(struct gs_tracker *tracker, unsigned row, uint32_t stack,
                              uint64_t bytes);

/* Stores a scope of another tracker, without the scopes around it: its counters include
 * what is in it. Then its rows. Errors: without memory it is missing. */
void gs_scopes_put(struct gs_tracker *tracker, uint32_t scope,
                   const struct gs_scope *from);
void gs_scopes_put_row(struct gs_tracker *tracker, uint32_t scope,
                       const struct gs_scope_row *from);

/* Sets all counters to 0. All gates are closed. */
void gs_scopes_restart(struct gs_tracker *tracker);
void gs_scopes_free(struct gs_tracker *tracker);

#endif
