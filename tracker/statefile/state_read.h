/*
 * state_read.h - reads a process's state from the file that held its tracker's memory.
 *
 * The bytes may come from anywhere, so invalid data is rejected. Data that was being
 * written when the process ended is left out.
 *
 * Locks: none; one thread reads.
 * Design: docs/state.md
 */
#ifndef GS_STATE_READ_H
#define GS_STATE_READ_H

#include "tracker/growth.h"
#include "tracker/statefile/state_memory.h"
#include "tracker/tracker.h"

/* Stacks that something else refers to: ids in the file, replaced by those in
 * gs_state_found.stacks; by 0 where the file has none. */
struct gs_state_stacks {
    uint32_t *ids;
    size_t count;
};

struct gs_state_read_config {
    const char *version; /* of this library, and its gs_state_layout */
    uint64_t layout;
    const char *const *api_names;
    size_t api_count;
    uint64_t now_ns;    /* CLOCK_MONOTONIC, if the process still runs; 0: it has ended */
    size_t annex_bytes; /* expected size of gs_state_annex */
    struct gs_state_stacks stacks;
};

struct gs_state_found {
    struct gs_tracker *tracker; /* for gs_report_write only */
    struct gs_stacks *stacks;
    struct gs_growth *growth;       /* the last snapshot; NULL: none */
    struct gs_state_header *header; /* a copy; device_count is at most GS_MAX_DEVICES */
    const void *annex;              /* in `data`; NULL: missing, or incomplete */
    uint64_t last_ns;               /* time of the last recorded event */
    uint64_t left_out;              /* allocations that could not be read */
};

/*
 * Reads the header: the process and its description; *header is a copy.
 * Errors: GS_ERR_INVALID  *problem is the reason, as the end of a sentence
 */
enum gs_status gs_state_read_header(const void *data, size_t bytes,
                                    const struct gs_state_read_config *config,
                                    struct gs_state_header *header,
                                    const char **problem) GS_MUST_USE;

/* The problems of a file that ends before its data, and of one that is something else. */
extern const char gs_state_cut_short[], gs_state_is_none[];

/* Returns whether a file of `bytes` bytes lacks data that its header counts. Of a growing
 * file the size must be read after the header. */
static inline bool gs_state_is_cut(const struct gs_state_header *header, uint64_t bytes)
{
    return bytes < header->used;
}

/*
 * Reads all of it. `data` must not change; on GS_OK the caller owes gs_state_found_free.
 * Errors: as above, GS_ERR_HOST_NOMEM (with *problem)
 */
enum gs_status gs_state_read(const void *data, size_t bytes,
                             const struct gs_state_read_config *config,
                             struct gs_state_found *out,
                             const char **problem) GS_MUST_USE;
void gs_state_found_free(struct gs_state_found *found);

/* ---- state_read_now.c ------------------------------------------------------------- */

/* Reads bytes of a file; false: not all are there. */
typedef bool (*gs_state_fetch)(void *self, uint64_t offset, void *out, size_t bytes);

/* Rows of totals: the devices, then pinned host memory. */
#define GS_STATE_NOW_ROWS (GS_MAX_DEVICES + 1)

/* The totals as they are now, of the header's devices and of pinned host memory; the
 * other rows are 0. Reads half a megabyte at most. The process may run during the
 * reading. False: the file is cut short. */
bool gs_state_read_now(const struct gs_state_header *header, gs_state_fetch fetch,
                       void *self, struct gs_tracker_totals out[GS_STATE_NOW_ROWS]);

#endif
