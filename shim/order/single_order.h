/*
 * single_order.h - the proof that all memory use of a context is in one order, so that a
 * freed block may have a new owner at once.
 *
 * The legacy stream and one blocking stream wait for each other: the device executes the
 * work of both in the order of submission. As long as a process uses nothing else, a new
 * owner's work is ordered after the last owner's work, and no thread has to wait until
 * the old work is complete. The proof ends for good before the first call that could
 * submit work out of this order: the wrapper calls gs_single_order_end first, which waits
 * for the newest event after which blocks were reused. single_order.c has the argument.
 *
 * Lock: a mutex inside, never held across a driver call.
 * Source: rule L5 (docs/free.md, "Lazy")
 */
#ifndef GS_SINGLE_ORDER_H
#define GS_SINGLE_ORDER_H

#include "pool/backend.h"
#include "shim/cuda/cuda_names.h"
#include "shim/link/libraries.h"

struct gs_context;
struct gs_state;

/*
 * Called inside a free that has recorded the event of its epoch. Returns true if the
 * blocks that the event covers may be reused at once: this file has then taken over one
 * reference to the epoch.
 */
bool gs_single_order_accept(struct gs_state *state, const struct gs_context *context,
                            uint64_t epoch);

/* Called before a driver call that may break the order. Ends the order, and returns once
 * the call may be made. `call` is its driver name. Does nothing once the order has
 * ended. */
void gs_single_order_end(const char *call);

/* Like gs_single_order_end. `name`: the cause, if it differs from the call's name. */
void gs_single_order_end_by(const char *call, const char *name);

/* The cause of the end of the order: a call, a private table, a library, or a function
 * that was looked up; "" while the order holds. */
const char *gs_single_order_ended_by(void);

/* Returns true if a block was ever reused after an event. */
bool gs_single_order_was_used(void);

/* Once a process, with GPUSHIM_VERBOSE=2 and lazy frees: logs the cause of the end of the
 * order. For a safe point; no lock may be held. */
void gs_single_order_log_end(const struct gs_state *state);

/* Like gs_single_order_end, called before device memory becomes accessible past this
 * driver. */
void gs_single_order_share(const char *call);

/* Called before a stream is created with these flags. */
void gs_single_order_stream(const char *call, unsigned flags);
/* Called before the calling thread submits to a place that it has not used before: a
 * stream's handle and the bits of submissions.h. */
void gs_single_order_submits(uintptr_t tagged_stream);
/* Called before a context is created. `primary`: it is the primary context of the device,
 * which may exist already. */
void gs_single_order_context(const char *call, bool primary, CUdevice device);
/* Owned by single_order.c: not 0 while blocks have been reused after an event. Atomic.
 */
extern gs_fence gs_single_order_newest __attribute__((visibility("hidden")));

/* Called when the program looks up a symbol: checks the loaded libraries (libraries.h).
 * Ends the order if a library, or a function that was looked up, may submit GPU work out
 * of the order. */
void gs_single_order_look_up(void);

/* In a forked child, and for tests: restores the initial state. */
void gs_single_order_reset(void);

#endif
