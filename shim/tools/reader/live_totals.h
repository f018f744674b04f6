/*
 * live_totals.h - what a process has now, by its state file or its own answer: the totals
 * alone, for gpushim top. Locks: none; one thread.   Design: docs/state.md
 */
#ifndef GS_LIVE_TOTALS_H
#define GS_LIVE_TOTALS_H

#include "shim/tools/reader/container.h"
#include "tracker/stacks/scopes.h"
#include "tracker/statefile/state_read.h"

/* The memory of a device, or of the host. */
struct gs_live_totals_row {
    unsigned device; /* GS_LIVE_TOTALS_HOST: pinned host memory */
    uint64_t live_bytes, reserved_bytes, peak_bytes, allocs;
    bool has_counts;              /* else only reserved_bytes is known */
    bool has_reserved;            /* else no pool serves it, or that is not known */
    char bus[GS_STATE_BUS_BYTES]; /* "": unknown */
};

#define GS_LIVE_TOTALS_HOST GS_MAX_DEVICES

/* A scope whose memory gpushim release has given to the device. */
struct gs_live_totals_scope {
    char name[GS_SCOPE_NAME_MAX + 1];
    uint64_t device_bytes;
};

#define GS_LIVE_TOTALS_SCOPES 4 /* the first of them */

struct gs_live_totals {
    struct gs_state_process process; /* its texts have no control characters */
    bool running;
    char container[GS_CONTAINER_TEXT]; /* "": none, or it was not asked */
    const char *halted; /* why it does not go on: "stopped", "paused"; NULL: it does */
    uint64_t at_ns;     /* gs_now_ns when it was read */
    bool attached;      /* its memory from before gpushim attach is not counted */
    bool tracked;       /* else GPUSHIM_TRACK=off: no row has counts */
    bool pooled;        /* else no row has reserved memory */
    /* 0: recorded from the start; of the last time; 0: it goes on. */
    uint64_t recorded_from_ns, recorded_to_ns;
    /* Devices that had memory, and pinned host memory if there ever was any; at least one
     * row. */
    struct gs_live_totals_row rows[GS_MAX_DEVICES + 1];
    unsigned row_count;
    struct gs_live_totals_scope released[GS_LIVE_TOTALS_SCOPES];
    unsigned released_count; /* of all */
};

/* The process has just made the file: it is to be read again. */
extern const char gs_live_totals_too_early[];

/* The process answers, and has no figures, as after gpushim detach. */
extern const char gs_live_totals_refused[];

/* The bytes as reports write them, or "-" if they are not known. */
const char *gs_live_totals_bytes(bool known, uint64_t bytes, char out[24]);

/* Reads a file. False: *problem is the reason, as the end of a sentence. */
bool gs_live_totals_read(const char *path, struct gs_live_totals *out,
                         const char **problem);

/* Reads what a process answers to "stats"; the text changes. live_totals_ask.c. */
bool gs_live_totals_parse(char *text, struct gs_live_totals *out, const char **problem);
/* Asks the thread of a process, "@PID/TID" (ask.h). False: *problem is the reason, of
 * those of ask.h. live_totals_ask.c. */
bool gs_live_totals_ask(const char *name, struct gs_live_totals *out,
                        const char **problem);

#endif
