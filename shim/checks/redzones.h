/*
 * redzones.h - GPUSHIM_CHECK=redzone and fill: device memory that must not
 * be written holds a pattern, which is checked later.
 *
 * The pattern is after an allocation while it lives, and in all of its memory from its
 * free to its reuse. A changed pattern is an error in the report. A check that would have
 * to wait, or would invalidate a capture, is skipped and counted. While both options are
 * off, only a few paths test gs_redzones_on, and nothing else is called.
 *
 * Lock: all functions may be called from any thread; a mutex inside, never held across a
 * call of the driver or the pool.   Design: docs/checks.md
 */
#ifndef GS_REDZONES_H
#define GS_REDZONES_H

#include "shim/heaps/releasable.h"
#include "shim/state/state.h"

extern bool gs_redzones_on; /* written at start, before any call is served */

/* Called at start: logs a line for options that exclude each other, and corrects
 * *options. */
void gs_redzones_adjust(struct gs_options *options);
void gs_redzones_start(const struct gs_options *options);
void gs_redzones_reset(void); /* in a forked child */

/* gs_heap_alloc with the checks on. The memory was checked and filled, and has a red
 * zone. */
enum gs_status gs_redzones_alloc_checked(struct gs_state *state,
                                         const struct gs_context *context, size_t bytes,
                                         struct gs_block **out, int *native) GS_MUST_USE;

/* Further, a block of the scopes of GPUSHIM_RELEASABLE gets pages of its own. */
static inline GS_MUST_USE enum gs_status
gs_redzones_alloc(struct gs_state *state, const struct gs_context *context, size_t bytes,
                  struct gs_block **out, int *native)
{
    if (GS_UNLIKELY(__atomic_load_n(&gs_alloc_detours, __ATOMIC_RELAXED))) {
        if (gs_redzones_on) {
            return gs_redzones_alloc_checked(state, context, bytes, out, native);
        }
        if (gs_releasable_alloc(state, context, bytes, out)) {
            return GS_OK;
        }
    }
    return gs_heap_alloc(context->heap, bytes, out, native);
}

/*
 * Called before a claimed block is freed, while its record still exists. `answer`:
 * GS_CHECK_DONE, if all work that may write to the block has been waited for; else the
 * reason.
 * Out: *was  the block's record, addr 0 if none
 */
void gs_redzones_check_before_free(struct gs_state *state, struct gs_block *block,
                                   enum gs_api api, enum gs_check_outcome answer,
                                   struct gs_allocation *was);
/* Called after the free, when no work uses the block: fills it, then quarantines or frees
 * it. */
void gs_redzones_free(struct gs_state *state, struct gs_block *block, enum gs_api api,
                      const struct gs_allocation *was);

/* Counts an allocation that the driver itself has served: it is not checked. */
void gs_redzones_count_unchecked(const struct gs_state *state);

/* Called before memory of the context is returned to the driver. */
void gs_redzones_unmap(const struct gs_context *context, uint64_t addr, size_t bytes);

/* Called when the context may be about to end: checks all its zones. */
void gs_redzones_context_ends(struct gs_state *state, CUcontext handle);
/* Called before a use of a primary context is released. Checks all zones if this is the
 * `last` known use; else at most once a second for each device, since a program may
 * retain and release all the time. */
void gs_redzones_use_ends(struct gs_state *state, CUcontext handle, int device,
                          bool last);
/* Called when the context and its heap have ended. */
void gs_redzones_context_ended(const struct gs_context *context);

/* Called when the process ends: counts the unchecked zones. `again`: the process may go
 * on (gs_finish_report); the counts stay until gs_redzones_resume. */
void gs_redzones_finish(struct gs_state *state, bool again);
/* Called before a further report: the process has continued after the last one. */
void gs_redzones_resume(struct gs_state *state);

#endif
