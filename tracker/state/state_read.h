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

#include "growth.h"
#include "state_memory.h"
#include "tracker.h"

struct gs_state_read_config {
    const char *version; /* of this library, and its gs_state_layout */
    uint64_t layout;
    const char *const *api_names;
    size_t api_count;
    uint64_t now_ns;    /* CLOCK_MONOTONIC, if the process still runs; 0: it has ended */
    size_t annex_bytes; /* expected size of gs_state_annex */
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

/*
 * Reads all of it. `data` must not change; on GS_OK the caller owes gs_state_found_free.
 * Errors: as above, GS_ERR_HOST_NOMEM (with *problem)
 */
enum gs_status gs_state_read(const void *data, size_t bytes,
                             const struct gs_state_read_config *config,
                             struct gs_state_found *out,
                             const char **problem) GS_MUST_USE;
void gs_state_found_free(struct gs_state_found *found);

#endif
