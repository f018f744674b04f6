/*
 * all_contexts.h - every context of the process, and whether all of them have been seen
 * complete since a point.
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
 * A context enters the roll when it is made (cuCtxCreate*, cuDevicePrimaryCtxRetain), or
 * when it is first seen to be current. One that is on the roll and has never allocated
 * has no entry among the contexts and can be proven complete by nothing: it counts as
 * busy.
 *
 * Owns:  the roll.   Lock: its own, over no call of the driver.
 * Source: reuse safety, L1 (docs/host-memory.md)
 */
#ifndef GS_ALL_CONTEXTS_H
#define GS_ALL_CONTEXTS_H

#include "contexts.h"

/* There is such a context from now on. Asking twice is once. NULL is none. */
void gs_all_contexts_add(CUcontext handle);
/* The same, and it is that device's primary one. */
void gs_all_contexts_add_primary(CUcontext handle, int device);
/* It has ended. */
void gs_all_contexts_remove(CUcontext handle);
/* A device's primary context, if it is on the roll, or NULL. */
CUcontext gs_all_contexts_primary(int device);
/* A use of a device's primary context has begun (cuDevicePrimaryCtxRetain) ... */
void gs_all_contexts_use_more(int device);
/* ... and is about to be given back. Returns how many are left of those that were seen: 0
 * does not mean that there is none. */
unsigned gs_all_contexts_use_less(int device);
unsigned gs_all_contexts_uses(int device);
/* In a forked child: there is none. */
void gs_all_contexts_reset(void);

/* Contexts on the roll; atomic. A roll that found no memory counts one that is never
 * complete. */
extern unsigned gs_all_contexts_count __attribute__((visibility("hidden")));

static inline bool gs_all_contexts_are_one(void)
{
    return __atomic_load_n(&gs_all_contexts_count, __ATOMIC_ACQUIRE) <= 1;
}

/* The `i`th on the roll. Returns false behind the last one. */
bool gs_all_contexts_at(unsigned i, CUcontext *handle);

/* Where all threads are now. Never 0. */
static inline uint64_t gs_all_contexts_point(void)
{
    return gs_submissions_begun(GS_COUNT_ALL) + 1;
}

/* Out of line part of the function below. */
bool gs_all_contexts_search(struct gs_state *state, uint64_t point,
                            const struct gs_context *but);

/* Whether every context but `but` (NULL: every one) has been complete since the point. */
static inline bool gs_all_contexts_done(struct gs_state *state, uint64_t point,
                                        const struct gs_context *but)
{
    if (GS_LIKELY(but && gs_all_contexts_are_one())) {
        return true;
    }
    return gs_all_contexts_search(state, point, but);
}

#endif
