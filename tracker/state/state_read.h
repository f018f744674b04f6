/*
 * state_read.h - what a process had, by the file that its tracker's memory was in.
 *
 * The bytes may come from anywhere: of what does not fit nothing is believed, and what
 * was being written when the process ended is left out.
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
    const char *version; /* of this library, and gs_state_layout of it */
    uint64_t layout;
    const char *const *api_names;
    size_t api_count;
    uint64_t now_ns; /* CLOCK_MONOTONIC, where the process runs still; 0: it has ended */
    size_t annex_bytes; /* that are wanted of gs_state_annex */
};

struct gs_state_found {
    struct gs_tracker *tracker; /* for gs_report_write and nothing else */
    struct gs_stacks *stacks;
    struct gs_growth *growth;       /* as it last looked; NULL: it did not */
    struct gs_state_header *header; /* a copy; device_count is at most GS_MAX_DEVICES */
    const void *annex;              /* in `data`; NULL: not there, or not all of it */
    uint64_t last_ns;               /* of the last thing that is known to have happened */
    uint64_t left_out;              /* allocations that could not be read */
};

/*
 * The process and who it was; *header is its own copy.
 * Errors: GS_ERR_INVALID  *problem says why it is not to be read, as the end of a
 * sentence
 */
enum gs_status gs_state_read_header(const void *data, size_t bytes,
                                    const struct gs_state_read_config *config,
                                    struct gs_state_header *header,
                                    const char **problem) GS_MUST_USE;

/*
 * All of it. `data` must not change; gs_state_found_free is due on GS_OK.
 * Errors: as above, GS_ERR_HOST_NOMEM (*problem says so)
 */
enum gs_status gs_state_read(const void *data, size_t bytes,
                             const struct gs_state_read_config *config,
                             struct gs_state_found *out,
                             const char **problem) GS_MUST_USE;
void gs_state_found_free(struct gs_state_found *found);

#endif
