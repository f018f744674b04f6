/*
 * grown.h - what call sites kept one after the other until Python ended, which then frees
 * its objects: no leak, and gone before the report.
 *
 * A call site grew if it kept nearly all that it allocated, over nearly all captures of
 * Python's stacks, and in the second half of the run, while at least as many allocations
 * were freed. So a loop that keeps its latest buffers did not grow, nor did one that loads
 * a model, with which the program then computes.
 *
 * Locks: none of its own.   Design: docs/tracker.md, "Hints"
 */
#ifndef GS_GROWN_H
#define GS_GROWN_H

#include "gs_base.h"

struct gs_groups;
struct gs_tracker;

/* Call sites that are kept apart. */
#define GS_GROWN_SITES 16
/* Numba keeps ten freed arrays for later. */
#define GS_GREW_RECORDS 16

struct gs_grown_site {
    uint64_t count, bytes; /* 0: none */
    uint32_t stack;        /* 0: of several call sites */
    int16_t device;
};

/* From now on the call sites of allocations that grew are found when Python ends. The
 * tracker, which has stacks, lives as long as they do. */
void gs_grown_watch(struct gs_tracker *tracker);

/* Those of the call sites that have freed since: `left` is what they have not. Returns how
 * many there are. */
size_t gs_grown_freed(const struct gs_tracker *tracker, const struct gs_groups *left,
                      struct gs_grown_site out[GS_GROWN_SITES]);

#endif
