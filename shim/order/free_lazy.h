/*
 * free_lazy.h - GPUSHIM_FREE_SYNC=lazy: a free that waits for nothing.
 *
 * The user vouches that the program does not lean on the wait of a free. That its memory
 * is not given to others too early stays the library's business: epochs.h.
 *
 * Lock: none; what it uses locks itself.   Design: docs/free.md, "Lazy"
 */
#ifndef GS_FREE_LAZY_H
#define GS_FREE_LAZY_H

#include "state.h"

/* At start, before any free. */
void gs_lazy_start(const struct gs_options *options);

/*
 * Free a claimed block without a wait: in the lazy mode, or where the native free of such
 * a block waits for nothing (free_scope.h).
 * Returns false, and nothing is done, where the free has to wait: another
 * mode, a context whose work cannot be marked, one that is broken.
 */
bool gs_free_lazily(struct gs_state *state, struct gs_block *block, uint64_t addr);

/*
 * In any mode, for a free that must not wait: the books of the free are the caller's.
 * Returns false, and nothing is done, where work cannot be marked.
 */
bool gs_free_into_epoch(struct gs_state *state, struct gs_block *block);

/* In any mode: a capture may have ended. If none runs any more, what was freed meanwhile,
 * in any context, waits for no work that is submitted from now on: it could not be
 * marked, and is now, as what this thread submits next may wait for an allocation of its
 * own. */
void gs_lazy_captures_end(struct gs_state *state);

/*
 * Around a wait of the program's for all work of a context: what was freed before the
 * first of the two is ready after the second.
 * Returns a token for the second; 0: such a wait proves nothing (no epochs, several
 * contexts that may access the memory).
 */
uint64_t gs_lazy_wait_begin(struct gs_state *state, const struct gs_context *context);
void gs_lazy_wait_end(const struct gs_context *context, uint64_t token);

/* The context's device was asked for a segment: GS_OK, and `taken_bytes` are gone, or
 * GS_ERR_NOMEM. */
void gs_lazy_mapped(const struct gs_context *context, enum gs_status status,
                    size_t taken_bytes);

/* In a forked child: nothing is known of any device. */
void gs_lazy_reset(void);

#endif
