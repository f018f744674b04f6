/*
 * order.h - what the driver tells the oracle: the order that streams, events, waits and
 * frees make, in terms of lines, operations and allocations.
 *
 * Every function does nothing without the oracle (oracle_on), and may then be given
 * objects that carry nothing of it.
 *
 * Owns: nothing; the lines and allocations hang on streams, contexts and allocations.
 * Lock: none of its own; oracle.h has one inside. Where a context's lock is needed it
 * says so.
 */
#ifndef SIM_ORDER_H
#define SIM_ORDER_H

#include "config.h"
#include "oracle.h"

struct sim_alloc;
struct sim_context;
struct sim_event;
struct sim_op;
struct sim_stream;

/* Does the configuration ask for the oracle? */
bool sim_order_is_wanted(void);

/* Switch the oracle on if the configuration asks for it. Called once, by cuInit. */
void sim_order_start(void);

/*
 * The calling thread waits for `awaited` and nothing can end that: says so, and ends the
 * process.
 *
 * In:   culprit  the operation that does not end; NULL: not known
 */
void sim_liveness_hang(struct sim_op *awaited, struct sim_op *culprit)
    __attribute__((noreturn));

/* ---- streams ----------------------------------------------------------------------- */

/* A stream is made; it knows what the calling thread knows. */
void sim_order_stream_new(struct sim_stream *stream);

/* It leaves its context's list; what it did passes to the context. Needs the context's
 * lock. */
void sim_order_stream_gone(struct sim_stream *stream);

/* Its memory goes. */
void sim_order_stream_end(struct sim_stream *stream);

/* ---- operations -------------------------------------------------------------------- */

/* It also waits for all that was submitted to the stream. */
void sim_order_after_stream(struct sim_op *op, const struct sim_stream *stream);

/* It also waits for streams of the context that are gone: all, or the blocking ones.
 * Needs the context's lock. */
void sim_order_after_gone(struct sim_op *op, const struct sim_context *context,
                          bool blocking_only);

/* It takes its place in the stream. Needs the context's lock. */
void sim_order_submit(struct sim_stream *stream, struct sim_op *op);

/* A scheduler is about to run the operation (its `run`), or has just done so: called at
 * the moment its accesses happen, by the thread that runs it, once. */
void sim_order_runs(struct sim_op *op);

/*
 * What the operation waited for in memory was seen to be there, or its host function has
 * returned: it was told nothing that host threads learn later. Called as soon as that is
 * so; the first call counts.
 */
void sim_order_was_told(struct sim_op *op);

/* A scheduler is about to mark the operation done; or to run it, if it is a free. */
void sim_order_done(struct sim_op *op);

/* True if memory ends its life when the operation runs. */
bool sim_order_is_free(const struct sim_op *op);

/* ---- what host threads know -------------------------------------------------------- */

/*
 * What has been given to the device so far, to be shown to the calling thread when a call
 * has waited for it. NULL without the oracle; ended by sim_order_saw or sim_order_drop.
 */
struct oracle_op *sim_order_all_of_stream(const struct sim_stream *stream);

/* The calling thread has waited for that, or asked and been told that it is done. Drops
 * it. */
void sim_order_saw(struct oracle_op *all, bool asked);
void sim_order_drop(struct oracle_op *all);

/* The same for one operation, which is not dropped. NULL is allowed. */
void sim_order_saw_op(const struct sim_op *op, bool asked);

/* The calling thread has waited for it, as no document promises. */
void sim_order_happened_to_see(const struct sim_op *op);

/* ---- memory ------------------------------------------------------------------------ */

/* An allocation is handed out: at once, or from that operation on. */
void sim_order_handed_out(struct sim_alloc *alloc, const struct sim_op *op);

/* It ends: at once, if no stream-ordered free has ended it before. */
void sim_order_ended(struct sim_alloc *alloc);

/* Its record goes. */
void sim_order_forget(struct sim_alloc *alloc);

/* These addresses are of memory that may have others: `place` stands for it. 0: not any
 * more. */
void sim_order_place(uintptr_t address, size_t bytes, uintptr_t place);

#endif
