/*
 * free_wait.h - the wait of a free: made, or proven to be unnecessary.
 */
#ifndef GS_FREE_WAIT_H
#define GS_FREE_WAIT_H

#include "shim/order/verify.h"
#include "shim/state/state.h"

/* The row of the context's device in the per-device statistics. */
static inline unsigned gs_free_row(const struct gs_context *context)
{
    unsigned device = (unsigned)context->device;
    return device < GS_MAX_DEVICES ? device : GS_MAX_DEVICES - 1;
}

/* Counts a free that found its context idle; `own` is the calling thread's record. */
static inline void gs_free_count_idle(struct gs_submissions *own,
                                      const struct gs_context *context)
{
    uint64_t *found = &own->idle_frees[gs_free_row(context)];
    __atomic_store_n(found, __atomic_load_n(found, __ATOMIC_RELAXED) + 1,
                     __ATOMIC_RELAXED);
}

static inline void gs_free_found_idle(const struct gs_context *context)
{
    gs_free_count_idle(gs_submissions_own(), context);
}

/*
 * Waits as the native free of the block does, unless its context is idle.
 * Out:  *idle    whether there was nothing to wait for
 *       *in_use  work that was not waited for may still use the block: hold it back
 * Returns the driver's code; CUDA_SUCCESS if there was nothing to wait for.
 */
CUresult gs_free_wait(struct gs_state *state, const struct gs_block *block, bool *idle,
                      bool *in_use);

/* Waits for a free of memory of another kind by the program's `call`. Returns the
 * driver's code. */
CUresult gs_free_wait_other(struct gs_state *state, const struct gs_context *context,
                            const char *call, uint64_t addr, size_t bytes);

/* Frees a segment with the driver's own free, which waits by itself, for a program that
 * frees the segment's block. Counts a wait. Returns the driver's code. */
CUresult gs_free_in_driver(const struct gs_context *context, uint64_t addr, size_t bytes);

/* Returns true if the context is idle, so that a wait is unnecessary; if so, counts the
 * free as one that did not wait. */
static inline bool gs_free_finds_idle(struct gs_state *state,
                                      const struct gs_context *context)
{
    if (GS_UNLIKELY(!gs_context_is_idle(&state->contexts, context))) {
        return false;
    }
    gs_free_found_idle(context);
    return true;
}

/* Once a process, with GPUSHIM_VERBOSE=2: logs the reason for the end of the idle proof.
 * Called at a safe point after the end; no lock may be held. */
void gs_free_log_proof_end(const struct gs_state *state) __attribute__((cold, noinline));

/* Statistics of the frees of a device's pooled memory. */
struct gs_free_stats {
#define GS_FREE_STAT(name, unit, doc) uint64_t name;
#include "shim/entries/frees.def"
#undef GS_FREE_STAT
};

void gs_free_stats(unsigned device, struct gs_free_stats *out);

/* In a forked child: resets the statistics. */
void gs_free_stats_reset(void);

#endif
