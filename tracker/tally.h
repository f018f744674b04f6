/*
 * tally.h - sums of all allocations ever made, by call site; off by default.
 *
 * The tracker's totals do not know the call sites of freed allocations.
 *
 * Locks: internal; a stripe's, for a few dozen instructions.
 */
#ifndef GS_TALLY_H
#define GS_TALLY_H

#include "tracker/samples.h"
#include "tracker/tracker.h"

struct gs_tally;

/* NULL: no memory. */
struct gs_tally *gs_tally_create(void);
void gs_tally_destroy(struct gs_tally *tally);
/* Drops all sums. */
void gs_tally_clear(struct gs_tally *tally);

/* Adds an allocation that represents `weight` of its kind. Without memory for a new call
 * site the allocation is left out.
 * In: phase  as in gs_sample */
void gs_tally_add(struct gs_tally *tally, const struct gs_allocation *allocation,
                  uint8_t phase, double weight);

/* Adds all sums to `out`. phases: those of each phase apart. Errors: GS_ERR_HOST_NOMEM  a
 * part is missing. */
enum gs_status gs_tally_copy(struct gs_tally *tally, bool phases,
                             struct gs_samples *out) GS_MUST_USE;

#endif
