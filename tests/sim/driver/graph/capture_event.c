/*
 * capture_event.c - events of captures: recorded in one, they stand for nodes, and the
 * stream that waits for them joins it.
 * Owns:  nothing.   Lock: graph_lock.
 * Source: CUDA Programming Guide, "Cross-stream Dependencies and Events".
 */
#include "capture_list.h"

void sim_capture_release_event(struct sim_event *event)
{
    struct sim_capture *capture = event->capture;

    sim_nodes_clear(&event->heads);
    event->capture = NULL;
    atomic_store(&event->captured, false);
    if (capture)
        sim_capture_unref(capture);
}

void sim_capture_forget_event(struct sim_event *event)
{
    if (!atomic_load(&event->captured))
        return;
    pthread_mutex_lock(&sim_graph_lock);
    sim_capture_release_event(event);
    pthread_mutex_unlock(&sim_graph_lock);
}

/* The event names the stream's nodes so far, left by such edges. Needs graph_lock. */
static CUresult name_tails(struct sim_stream *stream, struct sim_event *event,
                           const CUgraphEdgeData *edge)
{
    struct sim_capture *capture = stream->capture;
    bool fits = true;

    sim_capture_release_event(event);
    sim_capture_ref(capture);
    event->capture = capture;
    atomic_store(&event->captured, true);
    for (size_t i = 0; i < stream->tails.count && fits; i++)
        fits = sim_nodes_add(&event->heads, stream->tails.nodes[i],
                             edge ? edge : &stream->tails.edges[i]);
    if (fits)
        return CUDA_SUCCESS;
    capture->invalid = true;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event,
                            bool *captured)
{
    CUresult res = CUDA_SUCCESS;

    *captured = false;
    if (!sim_capture_any())
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim_graph_lock);
    struct sim_capture *capture = stream->capture;
    if (capture && capture->invalid) {
        res = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (capture) {
        res = name_tails(stream, event, NULL);
        *captured = true;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

CUresult sim_capture_record_kernel(struct sim_stream *stream, struct sim_event *event,
                                   struct sim_capture_edge edge)
{
    const CUgraphEdgeData data = {.from_port = edge.at_start ? 2 : 1,
                                  .type = edge.programmatic};
    CUresult res = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

    pthread_mutex_lock(&sim_graph_lock);
    if (stream->capture && !stream->capture->invalid)
        res = name_tails(stream, event, &data);
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

/* The event is recorded in a capture. Needs graph_lock. */
static CUresult follow(struct sim_stream *stream, struct sim_event *event)
{
    struct sim_capture *capture = event->capture;

    if (capture->ended && stream->capture) {
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (capture->ended)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (capture->invalid || (stream->capture && stream->capture->invalid))
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->kind == SIM_STREAM_LEGACY) {
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream->capture && stream->capture != capture) {
        stream->capture->invalid = true;
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!sim_nodes_add_all(&stream->tails, &event->heads)) {
        capture->invalid = true;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    stream->tails_joined = true;
    if (!stream->capture)
        sim_capture_join(stream, capture);
    return CUDA_SUCCESS;
}

CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event,
                          bool *captured)
{
    CUresult res = CUDA_SUCCESS;

    *captured = false;
    if (!sim_capture_any() && !atomic_load(&event->captured))
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim_graph_lock);
    if (event->capture) {
        res = follow(stream, event);
        *captured = true;
    } else if (stream->capture) {
        res = stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                       : CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        stream->capture->invalid = true;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}
