/*
 * likely.h - scales the estimates of sampled call sites to the total that is known.
 *
 * Where call stacks are sampled, a call site represents memory without a stack. How much
 * is an estimate; how much memory has no stack is known, by device, kind and fate. The
 * estimates are scaled to that sum, so that call sites add up to the whole.
 *
 * Locks: none; one thread.   Design: docs/tracker.md, "Sampling"
 */
#ifndef GS_LIKELY_H
#define GS_LIKELY_H

#include "tracker/groups.h"

struct gs_likely_sums;

/* NULL: no memory; nothing is then scaled. */
struct gs_likely_sums *gs_likely_sums_create(void);
void gs_likely_sums_destroy(struct gs_likely_sums *sums);
/* Adds a group with a stack, or of memory without one by sampling. */
void gs_likely_sums_add(struct gs_likely_sums *sums, const struct gs_group *group);
/* Scales the estimates of a group with a stack, once all groups were added. */
void gs_likely_scale(const struct gs_likely_sums *sums, struct gs_group *group);

#endif
