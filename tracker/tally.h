/*
 * tally.h - everything that was ever allocated, added up by place; on where asked for.
 *
 * The tracker's totals know how much was allocated, but not by whom once it is freed.
 *
 * Locks: internal; a stripe's, for a few dozen instructions.
 */
#ifndef GS_TALLY_H
#define GS_TALLY_H

#include "samples.h"
#include "tracker.h"

struct gs_tally;

/* NULL: no memory. */
struct gs_tally *gs_tally_create(void);
void gs_tally_destroy(struct gs_tally *tally);

/* An allocation was made that stands for `weight` of its like. Without memory for a new
 * place it is left out. */
void gs_tally_add(struct gs_tally *tally, const struct gs_allocation *allocation,
                  double weight);

/* Add all of it to `out`. Errors: GS_ERR_HOST_NOMEM  a part is missing. */
enum gs_status gs_tally_copy(struct gs_tally *tally, struct gs_samples *out) GS_MUST_USE;

#endif
