/*
 * deferred.h - claimed blocks whose memory may yet be written, by a fill of the checks
 * that was not done in its time (fill_stream.h): nobody gets them until that has ended.
 *
 * Lock: all functions may be called from any thread; a mutex inside, never held over a
 * call of the driver or the pool.
 */
#ifndef GS_DEFERRED_H
#define GS_DEFERRED_H

#include "state.h"

void gs_deferred_reset(void); /* in a forked child */

void gs_deferred_put(const struct gs_context *context, struct gs_block *block);
/* Free what is set aside of the context, if all fills there have ended. Returns whether
 * there was any. */
bool gs_deferred_settle(const struct gs_context *context);
/*
 * Memory has run out, and what is set aside would help: the same, as long as an
 * allocation on a full device may be kept waiting (GPUSHIM_POOL_WAIT), but not in a
 * context that has failed. What runs may be waiting for this thread.
 */
bool gs_deferred_await(const struct gs_state *state, const struct gs_context *context);
/* The context is gone, its heap dead: free what is set aside of it. */
void gs_deferred_context_ended(const struct gs_context *context);

#endif
