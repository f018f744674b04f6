/*
 * stream.h - streams, the order among them, and submission: the one place every operation
 * passes on its way to the scheduler.
 * Owns: streams.   Lock: the context's lock for `last` and the context's list of streams;
 * it is held across an enqueue, so that the legacy barrier sees one order.
 */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "graph.h"
#include "handle.h"
#include "rules.h"
#include "sched.h"

enum sim_stream_kind {
    SIM_STREAM_USER,
    SIM_STREAM_LEGACY,
    SIM_STREAM_THREAD,   /* a thread's default stream */
    SIM_STREAM_INTERNAL, /* context-wide events and barriers; never seen by a program */
};

struct sim_attributes;
struct sim_capture;
struct sim_green;

struct sim_stream {
    struct sim_object object;
    struct sim_context *context; /* with a reference */
    uint64_t context_id;
    uint64_t id;
    enum sim_stream_kind kind;
    unsigned flags; /* CU_STREAM_NON_BLOCKING */
    atomic_int priority;
    struct sim_attributes *attributes; /* api_stream_attribute.c; NULL: none was set */
    struct sim_green *green; /* context lock: whose it is, with a reference; or NULL */
    struct sim_op *last;     /* context lock; with a reference */
    uint64_t free_count;     /* context lock: stream-ordered frees submitted to it */
    struct sim_stream *next, *prev; /* context lock; the list has a reference */
    bool listed;                    /* context lock */
    struct sim_capture *capture;    /* graph_lock; with a reference; NULL: none */
    struct sim_node_set tails;      /* graph_lock: what the next captured node follows */
    bool tails_joined;              /* graph_lock: some of it by a wait for an event */
    CUgraphNode *tail_handles;      /* graph_lock: as cuStreamGetCaptureInfo gave them */
    CUgraphEdgeData *tail_edges;    /* graph_lock: likewise */
    struct sim_stream *captured_next; /* graph_lock: the capture's next stream */
    struct sim_queue queue;           /* the scheduler's */
    struct oracle_line *line;         /* NULL without the oracle */
};

/*
 * A stream of the context, entered in its list; one reference for the caller.
 *
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_stream_create(struct sim_context *context, enum sim_stream_kind kind,
                           unsigned flags, int priority,
                           struct sim_stream **out) GS_MUST_USE;

/*
 * The stream a handle names: 0 by the variant, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, or
 * one that cuStreamCreate gave. With a reference; end it by sim_stream_put.
 *
 * Errors:  CUDA_ERROR_INVALID_HANDLE  not a live stream
 *          CUDA_ERROR_CONTEXT_IS_DESTROYED  of a green context that has ended
 *          the sticky error of the stream's context, whichever is current: "any further
 *          CUDA work will return the same error" (CUDA_ERROR_ILLEGAL_ADDRESS)
 */
CUresult sim_stream_get(struct sim_context *context, CUstream handle,
                        enum sim_variant variant, struct sim_stream **out) GS_MUST_USE;

/* The priority a stream gets that asks for this one. */
int sim_stream_priority(int wanted) GS_MUST_USE;

/* Add to a kernel node's attributes those of the stream that it does not have. Any lock
 * may be held. */
void sim_stream_give_attributes(const struct sim_stream *stream,
                                struct sim_attributes *node);

/* As sim_stream_get, and the stream must be of this very context. */
CUresult sim_stream_get_own(struct sim_context *context, CUstream handle,
                            enum sim_variant variant,
                            struct sim_stream **out) GS_MUST_USE;

void sim_stream_put(struct sim_stream *stream);

/*
 * Submit: adds what the stream order asks for (legacy barrier, context barrier) and hands
 * the operation to the scheduler. On a capturing stream it becomes a node of the graph
 * instead and does not run. The caller keeps its reference.
 *
 * In:      op  with its accesses and extra dependencies filled in
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY; CUDA_ERROR_CONTEXT_IS_DESTROYED; those of
 * sim_capture_submit
 */
CUresult sim_submit(struct sim_stream *stream, struct sim_op *op) GS_MUST_USE;

/* The same, dropping the caller's reference, also on failure. op may be NULL: no memory.
 */
CUresult sim_submit_drop(struct sim_stream *stream, struct sim_op *op) GS_MUST_USE;

/*
 * The same, and wait until it is done; a captured one is not waited for.
 *
 * Errors:  also the context's sticky error
 */
CUresult sim_submit_wait(struct sim_stream *stream, struct sim_op *op) GS_MUST_USE;

/* The same where the documents say that the call might wait: a program that leans on it
 * is wrong, and only happens to be in order. */
CUresult sim_submit_may_wait(struct sim_stream *stream, struct sim_op *op) GS_MUST_USE;

/* One of several operations that take their places at once. */
struct sim_place {
    struct sim_stream *stream;
    struct sim_op *op;
    const size_t *after; /* it waits for these places, which come before it */
    size_t after_count;
    struct sim_op *before; /* scratch */
};

/*
 * Submit them to streams of one context, none of which captures, in this order and with
 * nothing of other threads in between.
 *
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY  only the first ones may have been submitted
 *          CUDA_ERROR_CONTEXT_IS_DESTROYED
 */
CUresult sim_submit_together(struct sim_context *context, struct sim_place *places,
                             size_t count) GS_MUST_USE;

/* Make `op` wait for everything submitted to the stream so far. Needs its context's lock.
 * False without memory. */
bool sim_op_depend_on_stream(struct sim_op *op,
                             const struct sim_stream *stream) GS_MUST_USE;

/* What an operation submitted to the stream now would be behind: an operation that never
 * is, with the caller's reference; NULL without memory. */
struct sim_op *sim_stream_past(struct sim_stream *stream) GS_MUST_USE;

/* Wait for everything submitted so far; returns the context's sticky error. */
CUresult sim_stream_wait(struct sim_stream *stream) GS_MUST_USE;

/* True if everything submitted so far is done. */
bool sim_stream_idle(struct sim_stream *stream) GS_MUST_USE;

/* Close it: what is queued still runs, then it leaves its context. */
void sim_stream_close(struct sim_stream *stream);

/* The scheduler says: closed, and nothing is left in the queue. */
void sim_stream_drained(struct sim_stream *stream);

/* True if work on the legacy stream orders with this one. */
static inline bool sim_stream_is_blocking(const struct sim_stream *stream)
{
    return (stream->kind == SIM_STREAM_THREAD && !sim_is_lax(SIM_RULE_per_thread)) ||
           (stream->kind == SIM_STREAM_USER && !stream->green &&
            !(stream->flags & CU_STREAM_NON_BLOCKING));
}

#endif
