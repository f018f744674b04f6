/*
 * capture.h - stream capture: while a stream captures, what is submitted to it becomes
 * nodes of a graph and does not run.
 *
 * The stream a capture begins on and every stream that waits for an event recorded in it
 * belong to the capture. A call that does not go with a capture fails and invalidates it;
 * its streams then refuse everything until the capture is ended.
 *
 * Owns: captures.   Lock: graph_lock; taken inside.
 * Source: CUDA Programming Guide, "Creating a Graph Using Stream Capture"; Driver API,
 * cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode.
 */
#ifndef SIM_CAPTURE_H
#define SIM_CAPTURE_H

#include "event.h"
#include "stream.h"

extern atomic_uint sim_captures; /* captures that have begun and not ended */

static inline bool sim_capture_any(void)
{
    return GS_UNLIKELY(atomic_load_explicit(&sim_captures, memory_order_acquire) > 0);
}

/*
 * Begin.
 *
 * In:      graph  to add to; NULL: a new one
 *          after  what the first node depends on
 * Errors:  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED  the legacy stream
 *          CUDA_ERROR_ILLEGAL_STATE  the stream captures already
 *          CUDA_ERROR_INVALID_VALUE  a node of another graph
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_capture_begin(struct sim_stream *stream, struct sim_graph *graph,
                           const struct sim_node_set *after,
                           CUstreamCaptureMode mode) GS_MUST_USE;

/*
 * End; its streams capture no longer, unless the error is one of the first two.
 *
 * Out:     *out  the graph, with a reference
 * Errors:  CUDA_ERROR_ILLEGAL_STATE                 the stream does not capture
 *          CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD   not the thread that began it
 *          CUDA_ERROR_STREAM_CAPTURE_UNMATCHED      it began on another stream
 *          CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
 *          CUDA_ERROR_STREAM_CAPTURE_UNJOINED
 */
CUresult sim_capture_end(struct sim_stream *stream, struct sim_graph **out) GS_MUST_USE;

/*
 * Submission's first question.
 *
 * Out:     *captured  it became a node: nothing is to be run
 * Errors:  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
 *          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED  such work cannot be captured
 *          CUDA_ERROR_STREAM_CAPTURE_IMPLICIT     the legacy stream, while a blocking one
 *          of its context captures
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_capture_submit(struct sim_stream *stream, struct sim_op *op,
                            bool *captured) GS_MUST_USE;

/* As sim_capture_submit, for an event record or wait that becomes a node. */
CUresult sim_capture_submit_event(struct sim_stream *stream, struct sim_op *op,
                                  struct sim_event *event) GS_MUST_USE;

/* For work that cannot be captured: refuse it on a capturing stream, and on the legacy
 * stream as sim_capture_submit does. */
CUresult sim_capture_forbid(struct sim_stream *stream) GS_MUST_USE;

/*
 * Allocate or free stream-ordered memory on a capturing stream.
 *
 * Out:     *captured  a node was added
 * Errors:  those of sim_capture_submit; CUDA_ERROR_INVALID_VALUE  not a graph's memory
 */
CUresult sim_capture_alloc(enum sim_api api, struct sim_stream *stream, size_t bytes,
                           CUdeviceptr *out, bool *captured) GS_MUST_USE;
CUresult sim_capture_free(enum sim_api api, struct sim_stream *stream,
                          CUdeviceptr pointer, bool *captured) GS_MUST_USE;

/*
 * Record an event: on a capturing stream it names the stream's nodes so far.
 *
 * Out:     *captured  that is done
 */
CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event,
                            bool *captured) GS_MUST_USE;

/* How the edges from a kernel that triggers an event begin (CUgraphEdgeData). */
struct sim_capture_edge {
    bool programmatic; /* the node behind it may wait inside */
    bool at_start;     /* when its blocks have started, not when they say so */
};

/* Record an event that the stream's newest node, a kernel, triggers by itself. Errors:
 * CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_OUT_OF_MEMORY */
CUresult sim_capture_record_kernel(struct sim_stream *stream, struct sim_event *event,
                                   struct sim_capture_edge edge) GS_MUST_USE;

/*
 * Wait for an event: one of a capture makes the stream part of it.
 *
 * Out:     *captured  that is done
 * Errors:  CUDA_ERROR_STREAM_CAPTURE_MERGE      stream and event are of two captures
 *          CUDA_ERROR_STREAM_CAPTURE_ISOLATION  the event is of none
 *          CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_CAPTURED_EVENT
 */
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event,
                          bool *captured) GS_MUST_USE;

/* An event recorded in a capture cannot be asked: CUDA_ERROR_CAPTURED_EVENT, once the
 * capture has ended CUDA_ERROR_INVALID_VALUE. */
CUresult sim_capture_check_event(struct sim_event *event) GS_MUST_USE;

/* The event is recorded anew, outside a capture. */
void sim_capture_forget_event(struct sim_event *event);

/* The same with graph_lock held, or for an event that nobody else has any more. */
void sim_capture_release_event(struct sim_event *event);

/* A stream cannot be synchronized or asked while it captures. */
CUresult sim_capture_check_stream(struct sim_stream *stream) GS_MUST_USE;

/* A context cannot while one of its streams captures. */
CUresult sim_capture_check_context(const struct sim_context *context) GS_MUST_USE;

/* The same of a green context. */
CUresult sim_capture_check_green(const struct sim_green *green) GS_MUST_USE;

/* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if the calling thread may make no unsafe call. */
CUresult sim_capture_check_unsafe(void) GS_MUST_USE;

/* The door (sim_enter_context) of an unsafe call. */
CUresult sim_capture_enter_unsafe(enum sim_api api, struct sim_context **out) GS_MUST_USE;

/* What a synchronous copy or set and cuStreamQuery ask: both of the above that concern
 * the stream. */
CUresult sim_capture_check_sync(struct sim_stream *stream) GS_MUST_USE;

/* Does the stream capture, validly or not? */
bool sim_capture_has(struct sim_stream *stream) GS_MUST_USE;

/* The legacy stream cannot be asked about captures either: CUDA_ERROR_STREAM_CAPTURE_
 * IMPLICIT, which invalidates nothing here. */
CUresult sim_capture_check_asking(struct sim_stream *stream) GS_MUST_USE;

/* What cuStreamGetCaptureInfo tells; arrays stay the stream's. */
struct sim_capture_info {
    CUstreamCaptureStatus status;
    uint64_t id;
    CUgraph graph;
    const CUgraphNode *nodes;
    const CUgraphEdgeData *edges;
    size_t count;
    bool lossy; /* without the edges' data */
};
CUresult sim_capture_read(struct sim_stream *stream,
                          struct sim_capture_info *out) GS_MUST_USE;

/* Change what the next node depends on; the nodes must be of the capture's graph. */
CUresult sim_capture_depend(struct sim_stream *stream, const struct sim_node_set *nodes,
                            bool replace) GS_MUST_USE;

/* The stream is closed: the capture it began ends, one it joined is invalidated. */
void sim_capture_drop_stream(struct sim_stream *stream);

/* Exchange the calling thread's interaction mode. */
CUstreamCaptureMode sim_capture_exchange_mode(CUstreamCaptureMode mode);

#endif
