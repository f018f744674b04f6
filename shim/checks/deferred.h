/*
 * deferred.h - claimed blocks that a late fill of the checks may still write to
 * (fill_stream.h): they are not handed out until the fill has ended.
 *
 * Lock: all functions may be called from any thread; a mutex inside, never held across a
 * call of the driver or the pool.
 */
#ifndef GS_DEFERRED_H
#define GS_DEFERRED_H

#include "shim/state/state.h"

void gs_deferred_reset(void); /* in a forked child */

void gs_deferred_put(const struct gs_context *context, struct gs_block *block);
/* Frees the deferred blocks of the context, if all fills there have ended. Returns
 * whether there was any. */
bool gs_deferred_settle(const struct gs_context *context);
/*
 * Called when memory has run out: like gs_deferred_settle, but waits for the fills as
 * long as an allocation on a full device may wait (GPUSHIM_POOL_WAIT), since the running
 * work may wait for this thread. Does not wait in a context that has failed.
 */
bool gs_deferred_await(const struct gs_state *state, const struct gs_context *context);
/* Called when the context and its heap have ended: frees its deferred blocks. */
void gs_deferred_context_ended(const struct gs_context *context);

#endif
