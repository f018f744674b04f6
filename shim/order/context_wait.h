/*
 * context_wait.h - the wait of a free for all work of a context, and what a wait proves.
 *
 * Lock: none across a driver call.   Design: docs/free.md
 */
#ifndef GS_CONTEXT_WAIT_H
#define GS_CONTEXT_WAIT_H

#include "shim/state/state.h"

/*
 * Waits as a native free of the context's memory does: for all work of the context,
 * which is known to be idle afterwards.
 * Out:  *in_use  work that was not waited for may still use blocks freed before the call.
 *                On false, all these blocks are ready
 * Returns the driver's code.
 */
CUresult gs_context_wait(struct gs_state *state, const struct gs_context *context,
                         bool *in_use);

/* Called before a wait for the whole context: the snapshot for the mark of this wait. */
static inline struct gs_snapshot gs_context_snapshot(const struct gs_context *context,
                                                     unsigned own_calls,
                                                     struct gs_sync_proof_before *before)
{
    return gs_sync_proof_begin(&((struct gs_context *)(uintptr_t)context)->seen, 0,
                               own_calls, before);
}

/* Called after this wait has succeeded: all work submitted before the snapshot is
 * complete. `before`: the counts taken with the snapshot; NULL: they are another
 * context's. */
void gs_context_record_idle(const struct gs_context *context,
                            const struct gs_snapshot *snapshot,
                            const struct gs_sync_proof_before *before);

/* Called after a wait of the program for one stream has succeeded; `snapshot` and
 * `before` come from gs_sync_proof_begin. */
void gs_context_record_stream(const struct gs_context *context,
                              const struct gs_snapshot *snapshot,
                              const struct gs_sync_proof_before *before);

/* Called when the context has failed: each free calls the driver until a wait
 * succeeds. */
void gs_context_never_idle(const struct gs_context *context);

/* Returns true if blocks were freed without a fence since the last call. */
bool gs_context_take_unfenced(const struct gs_context *context);

#endif
