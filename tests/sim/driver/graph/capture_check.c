/*
 * capture_check.c - what a capture forbids, and what it tells.
 *
 * Unsafe calls (those that act at once and would not be part of the graph) are forbidden
 * by mode: to a thread with a capture of its own that is not relaxed, and, unless the
 * thread has changed its own mode, to every other thread while a global capture runs.
 *
 * Owns:  each thread's interaction mode and number.   Lock: graph_lock for captures.
 */
#include <stdlib.h>

#include "capture_list.h"
#include "context.h"
#include "green.h"

static __thread CUstreamCaptureMode thread_mode; /* the thread's own; 0 is GLOBAL */
static __thread uint64_t thread_number;          /* the thread's own */
static atomic_ullong last_thread;                /* atomic */

uint64_t sim_capture_thread(void)
{
    if (!thread_number)
        thread_number = 1 + atomic_fetch_add(&last_thread, 1);
    return thread_number;
}

CUstreamCaptureMode sim_capture_exchange_mode(CUstreamCaptureMode mode)
{
    CUstreamCaptureMode before = thread_mode;

    thread_mode = mode;
    return before;
}

/* Does that capture forbid unsafe calls to the calling thread? Needs graph_lock. */
static bool forbids(const struct sim_capture *capture)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (capture->thread == sim_capture_thread())
        return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_check_unsafe(void)
{
    CUresult res = CUDA_SUCCESS;

    if (!sim_capture_any())
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim_graph_lock);
    for (struct sim_capture *it = sim_capture_first; it; it = it->next) {
        if (!forbids(it))
            continue;
        it->invalid = true;
        res = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

CUresult sim_capture_enter_unsafe(enum sim_api api, struct sim_context **out)
{
    CUresult res = sim_enter_context(api, out);

    return res == CUDA_SUCCESS ? sim_capture_check_unsafe() : res;
}

static bool has_blocking(const struct sim_capture *capture,
                         const struct sim_context *context)
{
    for (const struct sim_stream *it = capture->streams; it; it = it->captured_next) {
        if (it->context == context && sim_stream_is_blocking(it))
            return true;
    }
    return false;
}

CUresult sim_capture_forbid_legacy(const struct sim_stream *stream)
{
    CUresult res = CUDA_SUCCESS;

    if (stream->kind != SIM_STREAM_LEGACY)
        return CUDA_SUCCESS;
    for (struct sim_capture *it = sim_capture_first; it; it = it->next) {
        if (!has_blocking(it, stream->context))
            continue;
        it->invalid = true;
        res = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return res;
}

CUresult sim_capture_check_stream(struct sim_stream *stream)
{
    CUresult res;

    if (!sim_capture_any())
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim_graph_lock);
    struct sim_capture *capture = stream->capture;
    if (capture) {
        res = capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                               : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        capture->invalid = true;
    } else {
        res = sim_capture_forbid_legacy(stream);
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

CUresult sim_capture_check_sync(struct sim_stream *stream)
{
    CUresult res = sim_capture_check_stream(stream);

    return res == CUDA_SUCCESS ? sim_capture_check_unsafe() : res;
}

/* No stream of the context, or of the green context, may capture. */
static CUresult check_streams(const struct sim_context *context,
                              const struct sim_green *green)
{
    CUresult res = CUDA_SUCCESS;

    if (!sim_capture_any())
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim_graph_lock);
    for (struct sim_capture *it = sim_capture_first; it; it = it->next) {
        const struct sim_stream *stream = it->streams;
        while (stream &&
               (stream->context != context || (green && stream->green != green)))
            stream = stream->captured_next;
        if (!stream)
            continue;
        it->invalid = true;
        res = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

CUresult sim_capture_check_context(const struct sim_context *context)
{
    return check_streams(context, NULL);
}

CUresult sim_capture_check_green(const struct sim_green *green)
{
    return check_streams(green->primary, green);
}

CUresult sim_capture_check_event(struct sim_event *event)
{
    CUresult res = CUDA_SUCCESS;

    if (!atomic_load(&event->captured))
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim_graph_lock);
    if (event->capture) {
        event->capture->invalid = true;
        res =
            event->capture->ended ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_CAPTURED_EVENT;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

bool sim_capture_has(struct sim_stream *stream)
{
    if (!sim_capture_any())
        return false;
    pthread_mutex_lock(&sim_graph_lock);
    bool has = stream->capture != NULL;
    pthread_mutex_unlock(&sim_graph_lock);
    return has;
}

CUresult sim_capture_check_asking(struct sim_stream *stream)
{
    CUresult res = CUDA_SUCCESS;

    if (!sim_capture_any() || stream->kind != SIM_STREAM_LEGACY)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim_graph_lock);
    for (const struct sim_capture *it = sim_capture_first; it; it = it->next) {
        if (has_blocking(it, stream->context))
            res = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

/* Copies of the tails as the program may see them. Needs graph_lock. */
static CUresult show_tails(struct sim_stream *stream, struct sim_capture_info *out)
{
    size_t count = stream->tails.count;
    CUgraphNode *nodes = calloc(count + 1, sizeof(CUgraphNode));
    CUgraphEdgeData *edges = calloc(count + 1, sizeof(*edges));

    if (!nodes || !edges) {
        free(nodes);
        free(edges);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        nodes[i] = stream->tails.nodes[i]->object.handle;
        edges[i] = stream->tails.edges[i];
        out->lossy = out->lossy || !sim_edge_is_full(&edges[i]);
    }
    free(stream->tail_handles);
    free(stream->tail_edges);
    stream->tail_handles = nodes;
    stream->tail_edges = edges;
    out->nodes = nodes;
    out->edges = edges;
    out->count = count;
    return CUDA_SUCCESS;
}

CUresult sim_capture_read(struct sim_stream *stream, struct sim_capture_info *out)
{
    CUresult res = CUDA_SUCCESS;

    *out = (struct sim_capture_info){.status = CU_STREAM_CAPTURE_STATUS_NONE};
    pthread_mutex_lock(&sim_graph_lock);
    const struct sim_capture *capture = stream->capture;
    if (capture && capture->invalid) {
        out->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    } else if (capture) {
        out->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        out->id = capture->id;
        out->graph = capture->graph->object.handle;
        res = show_tails(stream, out);
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

CUresult sim_capture_depend(struct sim_stream *stream, const struct sim_node_set *nodes,
                            bool replace)
{
    CUresult res = CUDA_SUCCESS;

    pthread_mutex_lock(&sim_graph_lock);
    const struct sim_capture *capture = stream->capture;
    if (!capture)
        res = CUDA_ERROR_ILLEGAL_STATE;
    else if (capture->invalid)
        res = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (size_t i = 0; res == CUDA_SUCCESS && i < nodes->count; i++) {
        if (nodes->nodes[i]->graph != capture->graph)
            res = CUDA_ERROR_INVALID_VALUE;
    }
    if (res == CUDA_SUCCESS && replace)
        sim_nodes_clear(&stream->tails);
    if (res == CUDA_SUCCESS && !sim_nodes_add_all(&stream->tails, nodes))
        res = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}
