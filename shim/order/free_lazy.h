/*
 * free_lazy.h - GPUSHIM_FREE_SYNC=lazy: frees that do not wait.
 *
 * By choosing this mode the user states that the program does not rely on the wait of a
 * free. The library still ensures that freed memory gets no new owner too early
 * (epochs.h).
 *
 * Lock: none; the functions it calls lock internally.   Design: docs/free.md, "Lazy"
 */
#ifndef GS_FREE_LAZY_H
#define GS_FREE_LAZY_H

#include "shim/state/state.h"

/* Called at start, before any free. */
void gs_lazy_start(const struct gs_options *options);

/*
 * Frees a claimed block without a wait, in the lazy mode.
 * Returns false, with the block unchanged, if the free has to wait: in another mode, or
 * if the context has failed or no event can cover its work.
 */
bool gs_free_lazily(struct gs_state *state, struct gs_block *block, uint64_t addr);

/*
 * Frees a claimed block without a wait in any mode; the caller records the free. Returns
 * false, with the block unchanged, if no event can cover the work.
 */
bool gs_free_into_epoch(struct gs_state *state, struct gs_block *block);

/* Called in any mode after a capture may have ended. If no capture remains, records the
 * events of the epochs of blocks that were freed during the capture, in all contexts,
 * before further work is submitted: the captures prevented the event, and the work that
 * this thread submits next may wait for an allocation of its own. */
void gs_lazy_captures_end(struct gs_state *state);

/*
 * Bracket a wait of the program for all work of a context: a block freed before
 * gs_lazy_wait_begin is ready after gs_lazy_wait_end.
 * Returns a token for gs_lazy_wait_end; 0: the wait proves nothing (no epochs in use, or
 * several contexts may access the memory).
 */
uint64_t gs_lazy_wait_begin(struct gs_state *state, const struct gs_context *context);
void gs_lazy_wait_end(const struct gs_context *context, uint64_t token);

/* Called after a request for a segment on the context's device. GS_OK: `taken_bytes` were
 * taken; GS_ERR_NOMEM: the device is full. */
void gs_lazy_mapped(const struct gs_context *context, enum gs_status status,
                    size_t taken_bytes);

/* In a forked child: forgets the free memory of all devices. */
void gs_lazy_reset(void);

#endif
