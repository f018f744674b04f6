/*
 * single_order.h - a context whose every use of memory is in one order: there a freed
 * block may have a new owner at once.
 *
 * The legacy stream and one blocking stream wait for each other: all work of both is done
 * in the order in which it was submitted. As long as a process has used nothing else,
 * what a new owner does with a block is behind what the last one did, and nobody has to
 * see the old work complete first. The proof ends, for good, before the first call that
 * could do something out of that order: gs_single_order_end is called in front of it, and
 * waits for the newest mark that blocks were handed on behind. single_order.c has the
 * argument.
 *
 * Lock: a mutex inside, never held across a driver call.
 * Source: reuse safety, rule L5 (docs/free.md, "Lazy")
 */
#ifndef GS_SINGLE_ORDER_H
#define GS_SINGLE_ORDER_H

#include "backend.h"
#include "cuda_names.h"
#include "libraries.h"

struct gs_context;
struct gs_state;

/*
 * A free has had its epoch marked, inside the call: may what the mark covers be handed
 * out at once? On true one reference to the epoch, the fence, has become this file's.
 */
bool gs_single_order_accept(struct gs_state *state, const struct gs_context *context,
                            uint64_t epoch);

/* The call that is about to be made may break the order. Returns once it may be made.
 * `call` is the driver's name of it. Nothing, from the second call on. */
void gs_single_order_end(const char *call);

/* As the last. `name`: what ends the order, where the name of the call does not say so.
 */
void gs_single_order_end_by(const char *call, const char *name);

/* What ended the order: a call, a private table, a library, a function that was looked
 * up;
 * "" while the order holds. */
const char *gs_single_order_ended_by(void);

/* Whether blocks were ever handed on behind a mark. */
bool gs_single_order_was_used(void);

/* Once a process, with GPUSHIM_VERBOSE=2: logs what ended the order, where frees are
 * lazy. For a safe point; no lock is held. */
void gs_single_order_log_end(const struct gs_state *state);

/* As the last, before device memory is made known to others than this driver. */
void gs_single_order_share(const char *call);

/* A stream is about to be made, with these flags. */
void gs_single_order_stream(const char *call, unsigned flags);
/* The thread is about to submit where it never has: a stream's handle and the bits of
 * submissions.h. */
void gs_single_order_submits(uintptr_t where);
/* A context is about to be made; `primary`: it is the primary one of that device, which
 * may be there already. */
void gs_single_order_context(const char *call, bool primary, CUdevice device);
/* Of single_order.c: not 0 while blocks have been handed on behind a mark. Atomic. */
extern gs_fence gs_single_order_newest __attribute__((visibility("hidden")));

/* The program looks for a symbol: looks at the loaded libraries (libraries.h). Ends the
 * order if one of them, or a function that a look-up has found, may give the GPU work out
 * of the order. */
void gs_single_order_look_up(void);

/* Whether blocks have been handed on behind a mark that is not known to be complete. */
bool gs_single_order_is_leaned_on(void);

/* In a forked child, and for tests: nothing was used yet. */
void gs_single_order_reset(void);

#endif
