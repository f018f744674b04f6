/*
 * refusals.h - allocations that were refused for lack of memory: which ones are reported,
 * and what the device had then.
 *
 * One of each size class is reported, so that a program that allocates until it is
 * refused pays once. A class spans a factor of 16.
 */
#ifndef GS_REFUSALS_H
#define GS_REFUSALS_H

#include "shim/record.h"
#include "tracker/report/report.h"

/* A refusal, from the refused thread to the one that reports it. */
struct gs_refusal {
    struct gs_report_refusal figures;
    const struct gs_heap *heap; /* of the call's context; only compared */
    bool from_pool;             /* the pool serves such memory */
    char note[160];             /* the report's line on the request */
};

/* Returns true if a refusal of that many bytes (0: not known) may have to be reported.
 * Takes no lock and makes no call. */
bool gs_refusals_wanted(int device, uint64_t bytes);
/*
 * Describes the refusal of a call of the calling thread, by the driver's figures. Returns
 * false if it is not to be reported: there was one of its size class, or it is beyond the
 * device's memory, which the owners of live memory do not explain.
 */
bool gs_refusals_begin(struct gs_state *state, const struct gs_call *call, int device,
                       uint64_t bytes, struct gs_refusal *out);
/* Adds the pool's figures, and keeps the refusal for the files. By the one thread that
 * writes a report, as the next. Not before the query of NVML. */
struct gs_report_refusal *gs_refusals_keep(struct gs_state *state,
                                           struct gs_refusal *refusal);
/* Those kept so far. */
const struct gs_report_refusal *gs_refusals_kept(size_t *count);

/* In a forked child. */
void gs_refusals_reset(void);

#endif
