/*
 * all_complete.h - reports whether every context of the process has completed the work
 * that was submitted before a given point.
 *
 * Any context may use pinned and managed memory. A block of such memory can go to a new
 * owner only when no context can still be using it. A point is a total of calls begun
 * (submissions.h). A context is complete since a point if a wait for all its work has
 * succeeded and the snapshot taken before this wait counted at least as many calls:
 *
 *   A free reads the counts of all threads, one after the other; the snapshot does the
 *   same. If the snapshot's sum is not smaller than the free's sum, one of two cases
 *   holds.
 *   1. The snapshot counted at least as many calls as the free in every thread. The wait
 *      began after the snapshot and covers all work submitted before the free.
 *   2. The snapshot counted more calls than the free in some thread. The snapshot read
 *      this thread's count after the count had grown, hence after the free had read it.
 *      The wait began after the free and covers all work submitted before it.
 *
 * Lock: none held across a driver call.
 * Source: rule L1 (docs/free.md); docs/host-memory.md
 */
#ifndef GS_ALL_COMPLETE_H
#define GS_ALL_COMPLETE_H

#include "shim/state/all_contexts.h"

/* The current point of the process: the calls begun in all threads. Never 0. */
static inline uint64_t gs_all_complete_point(void)
{
    return gs_submissions_begun(GS_COUNT_ALL) + 1;
}

/* The slow path of gs_all_complete. */
bool gs_all_complete_search(struct gs_state *state, uint64_t point,
                            const struct gs_context *but);

/* Returns true if every context except `but` (NULL: no exception) is complete since the
 * point. */
static inline bool gs_all_complete(struct gs_state *state, uint64_t point,
                                   const struct gs_context *but)
{
    if (GS_LIKELY(but && gs_all_contexts_are_one())) {
        return true;
    }
    return gs_all_complete_search(state, point, but);
}

#endif
