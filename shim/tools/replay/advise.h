/*
 * advise.h - the parts of gpushim advise.
 *
 * Owns: nothing.   Lock: none.   Design: docs/traces.md, "Advice"
 */
#ifndef GS_ADVISE_H
#define GS_ADVISE_H

#include "shim/tools/replay/replay.h"

/* The trace, and how it is replayed. */
struct gs_advise_case {
    const struct gs_replay_trace *trace;
    struct gs_replay_peaks peaks;
    struct gs_replay_ready ready;
    size_t capacity; /* of the device; GS_REPLAY_AMPLE: not given */
};

/* The words before the command: NAME=value, separated by spaces. */
#define GS_ADVISE_LINE_BYTES 160

/* Settings that were tried, and what came of them. */
struct gs_advise_try {
    char line[GS_ADVISE_LINE_BYTES]; /* "": the default settings */
    unsigned variables;              /* bits, by the table of advise_search.c */
    struct gs_replay_outcome out;
    uint64_t smallest; /* the smallest device, in bytes; 0: not searched */
    double ns_op;      /* the shortest of the times */
};

/* What the chosen settings are best in. */
enum gs_advise_goal {
    GS_ADVISE_BOTH,   /* less of both: driver calls and memory */
    GS_ADVISE_CALLS,  /* the fewest driver calls */
    GS_ADVISE_MEMORY, /* less memory, even for more driver calls */
    GS_ADVISE_GOALS
};

#define GS_ADVISE_TRIES 64u

struct gs_advice {
    struct gs_advise_try tries[GS_ADVISE_TRIES]; /* the first: the default settings */
    size_t count;
    uint32_t allocations; /* of the trace */
    /* By goal: what is best in it, and better than the default settings; NULL: none. */
    const struct gs_advise_try *best[GS_ADVISE_GOALS];
};

/* ---- advise_search.c --------------------------------------------------------------- */

/* Replays the trace under each of the settings, and chooses. */
void gs_advise_search(const struct gs_advise_case *wanted, struct gs_advice *out);
/* The settings of a line. */
void gs_advise_settings(const char *line, struct gs_replay_pool *out);
/* What a variable costs, in a sentence for each bit of `variables`; NULL after the last.
 * *next is 0 at first. */
const char *gs_advise_cost(unsigned variables, unsigned *next);

/* ---- advise_warmup.c --------------------------------------------------------------- */

/* What GPUSHIM_WARMUP makes of a run under the default settings. */
struct gs_advise_warmup {
    char text[960];            /* its value, shorter than an option may be; "": nothing */
    uint64_t calls, remaining; /* driver calls during the run: without it, with it */
};

void gs_advise_find_warmup(const struct gs_advise_case *wanted,
                           struct gs_advise_warmup *out);

/* ---- progress on a terminal (advise_progress.c) ------------------------------------ */

void gs_advise_progress_begin(void);
/* A replay is over. */
void gs_advise_progress(void);
void gs_advise_progress_end(void);

#endif
