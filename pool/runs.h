/*
 * runs.h - runs of idle segments of pages (remap.c): neighbours, from an address on that
 * follows no idle page to one that precedes none. By address and by size, so that no
 * request visits all idle segments.
 *
 * A run is named by its first segment, whose `run` has its size.   Lock: heap->lock is
 * held by each caller.
 */
#ifndef GS_POOL_RUNS_H
#define GS_POOL_RUNS_H

#include "pool/heap.h"

void gs_runs_init(struct gs_heap *heap);

/* The segment of pages has become idle; it is about to become active, and still in the
 * page map. */
void gs_runs_add(struct gs_heap *heap, struct gs_segment *segment);
void gs_runs_drop(struct gs_heap *heap, struct gs_segment *segment);

/* The smallest run of `bytes` or more, at equal size the lowest; else the largest. NULL:
 * no memory is idle. */
struct gs_segment *gs_runs_best(const struct gs_heap *heap, size_t bytes);
/* Bytes of the largest run; 0: there is none. */
size_t gs_runs_largest(const struct gs_heap *heap);
/* Why the runs are not what the idle segments say, or NULL: for tests. */
const char *gs_runs_check(const struct gs_heap *heap);

#endif
