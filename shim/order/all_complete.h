/*
 * all_complete.h - whether every context of the process has been seen complete since a
 * point.
 *
 * Pinned and managed memory may be used from any context, so a block of it is free for a
 * new owner only once no context can still be using it. A point is a number of calls
 * begun (submissions.h). A context is complete since a point if a wait for all its work
 * has succeeded whose snapshot counted as many calls or more:
 *
 *   A free reads the counts of all threads, one after the other; so does the snapshot. If
 *   the snapshot's sum is not the smaller one, then either it counted in each thread at
 *   least what the free counted, or in some thread more. In the first case the wait,
 *   entered after the snapshot, covers whatever was submitted before the free. In the
 *   second that thread's count was read after it had grown, so after the free had read
 *   it: the wait was entered later than the free, and covers everything before it.
 *
 * Lock: none held over a call of the driver.
 * Source: reuse safety, L1 (docs/host-memory.md)
 */
#ifndef GS_ALL_COMPLETE_H
#define GS_ALL_COMPLETE_H

#include "all_contexts.h"

/* Where all threads are now. Never 0. */
static inline uint64_t gs_all_complete_point(void)
{
    return gs_submissions_begun(GS_COUNT_ALL) + 1;
}

/* Out of line part of the function below. */
bool gs_all_complete_search(struct gs_state *state, uint64_t point,
                            const struct gs_context *but);

/* Whether every context but `but` (NULL: every one) has been complete since the point. */
static inline bool gs_all_complete(struct gs_state *state, uint64_t point,
                                   const struct gs_context *but)
{
    if (GS_LIKELY(but && gs_all_contexts_are_one())) {
        return true;
    }
    return gs_all_complete_search(state, point, but);
}

#endif
