/*
 * capture.c - the life of captures, and what becomes a node.
 * capture_event.c has events, capture_check.c what a capture forbids.
 * Owns:  captures and the list of those under way.   Lock: graph_lock.
 */
#include "capture.h"

#include <stdlib.h>

#include "capture_list.h"
#include "context.h"
#include "graph_memory.h"
#include "launch.h"
#include "node_work.h"

struct sim_capture *sim_capture_first; /* graph_lock */
atomic_uint sim_captures;

static atomic_ullong last_capture_id; /* atomic */

/* Not inlined: gcc 12 takes each of several in a row for the one that frees. */
__attribute__((noinline)) void sim_capture_unref(struct sim_capture *capture)
{
    if (atomic_fetch_sub_explicit(&capture->refs, 1, memory_order_acq_rel) != 1)
        return;
    sim_graph_put(capture->graph);
    free(capture);
}

void sim_capture_ref(struct sim_capture *capture)
{
    atomic_fetch_add_explicit(&capture->refs, 1, memory_order_relaxed);
}

void sim_capture_join(struct sim_stream *stream, struct sim_capture *capture)
{
    sim_capture_ref(capture);
    stream->capture = capture;
    stream->captured_next = capture->streams;
    capture->streams = stream;
    sim_object_ref(&stream->object);
}

/* Take all streams out and the capture off the list. */
static void finish(struct sim_capture *capture)
{
    struct sim_capture **link = &sim_capture_first;

    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    atomic_fetch_sub(&sim_captures, 1);
    capture->ended = true;
    capture->graph->captures--;
    while (capture->streams) {
        struct sim_stream *stream = capture->streams;
        capture->streams = stream->captured_next;
        stream->captured_next = NULL;
        stream->capture = NULL;
        sim_nodes_clear(&stream->tails);
        stream->tails_joined = false;
        sim_capture_unref(capture);
        sim_stream_put(stream);
    }
    sim_capture_unref(capture); /* the list's */
}

static CUresult begin(struct sim_stream *stream, struct sim_graph *graph,
                      const struct sim_node_set *after, CUstreamCaptureMode mode)
{
    struct sim_capture *capture;

    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    for (size_t i = 0; i < after->count; i++) {
        if (after->nodes[i]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
    }
    capture = calloc(1, sizeof(*capture));
    if (!capture || !sim_nodes_add_all(&stream->tails, after)) {
        sim_nodes_clear(&stream->tails);
        free(capture);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_init(&capture->refs, 1);
    capture->id = 1 + atomic_fetch_add(&last_capture_id, 1);
    capture->mode = mode;
    capture->thread = sim_capture_thread();
    capture->origin = stream;
    sim_object_ref(&graph->object);
    capture->graph = graph;
    graph->captures++;
    capture->next = sim_capture_first;
    sim_capture_first = capture;
    atomic_fetch_add(&sim_captures, 1);
    sim_capture_join(stream, capture);
    return CUDA_SUCCESS;
}

CUresult sim_capture_begin(struct sim_stream *stream, struct sim_graph *graph,
                           const struct sim_node_set *after, CUstreamCaptureMode mode)
{
    bool own = !graph;

    if (stream->kind == SIM_STREAM_LEGACY)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (own)
        graph = sim_graph_new(0);
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&sim_graph_lock);
    CUresult res = begin(stream, graph, after, mode);
    if (res == CUDA_SUCCESS)
        stream->capture->owns_graph = own;
    pthread_mutex_unlock(&sim_graph_lock);
    if (own) {
        if (res != CUDA_SUCCESS)
            sim_graph_close(graph);
        sim_graph_put(graph);
    }
    return res;
}

/* Is every node of a joined stream behind what the first stream has come to? */
static bool all_joined(const struct sim_capture *capture)
{
    for (const struct sim_stream *stream = capture->streams; stream;
         stream = stream->captured_next) {
        for (size_t i = 0; i < stream->tails.count; i++) {
            const struct sim_node *tail = stream->tails.nodes[i];
            if (tail->graph && !sim_graph_precedes(tail, &capture->origin->tails))
                return false;
        }
    }
    return true;
}

CUresult sim_capture_end(struct sim_stream *stream, struct sim_graph **out)
{
    CUresult res = CUDA_SUCCESS;

    pthread_mutex_lock(&sim_graph_lock);
    struct sim_capture *capture = stream->capture;
    if (!capture) {
        res = CUDA_ERROR_ILLEGAL_STATE;
        goto unlock;
    }
    bool wrong_thread = capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
                        capture->thread != sim_capture_thread();
    if (!wrong_thread && capture->origin != stream) {
        capture->invalid = true;
        res = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
        goto unlock;
    }
    if (wrong_thread) /* refused, and the capture is over (H200, driver 580) */
        res = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    else if (capture->invalid)
        res = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!all_joined(capture))
        res = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (res == CUDA_SUCCESS) {
        sim_object_ref(&capture->graph->object);
        *out = capture->graph;
    } else if (capture->owns_graph) {
        sim_graph_close(capture->graph);
    }
    finish(capture);
unlock:
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

/*
 * What the next node of the stream depends on. A programmatic launch does not wait for
 * the kernel before it to end, unless the stream waited for an event in between; what is
 * no kernel waits for all of what is before it.
 */
static void shape_edges(struct sim_stream *stream, CUgraphNodeType type, bool overlaps)
{
    static const CUgraphEdgeData full, programmatic = {.from_port = 1, .type = 1};

    for (size_t i = 0; i < stream->tails.count; i++) {
        CUgraphEdgeData *edge = &stream->tails.edges[i];
        if (!sim_edge_may_enter(edge, type))
            *edge = full;
        else if (overlaps && !stream->tails_joined && sim_edge_is_full(edge) &&
                 stream->tails.nodes[i]->type == CU_GRAPH_NODE_TYPE_KERNEL)
            *edge = programmatic;
    }
}

/* Add a node to a capturing stream's graph. Needs graph_lock. */
static CUresult add_node(struct sim_stream *stream, const struct sim_node_parts *parts,
                         bool overlaps)
{
    struct sim_node *node;

    shape_edges(stream, parts->work->type, overlaps);
    CUresult res = sim_graph_add(stream->capture->graph, parts, &stream->tails, &node);
    if (res != CUDA_SUCCESS) {
        stream->capture->invalid = true;
        return res;
    }
    sim_nodes_clear(&stream->tails);
    stream->tails_joined = false;
    if (!sim_nodes_add(&stream->tails, node, NULL)) {
        stream->capture->invalid = true;
        res = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_node_put(node);
    return res;
}

/* A kernel's node has its launch's attributes and its stream's, the priority among them.
 */
static const struct sim_attributes *attributes_of(const struct sim_stream *stream,
                                                  const struct sim_op *op,
                                                  struct sim_attributes *room)
{
    const struct sim_launch_record *record =
        op->kind == SIM_OP_KERNEL ? op->kernel.record : NULL;
    const CUlaunchAttributeValue priority = {.priority = stream->priority};

    if (!record)
        return NULL;
    *room = record->attributes;
    sim_stream_give_attributes(stream, room);
    if (!(room->set >> SIM_ATTRIBUTE_PRIORITY & 1u) && stream->priority != 0)
        sim_attribute_set(room, SIM_ATTRIBUTE_PRIORITY, &priority);
    return room;
}

/* Add work to a capturing stream. Needs graph_lock. */
static CUresult add(struct sim_stream *stream, struct sim_op *op, struct sim_event *event)
{
    struct sim_attributes attributes;

    sim_op_ref(op);
    struct sim_work *work = sim_work_new(op, event);
    if (!work) {
        stream->capture->invalid = true;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const struct sim_node_parts parts = {
        .work = work, .attributes = attributes_of(stream, op, &attributes)};
    CUresult res = add_node(stream, &parts,
                            op->kind == SIM_OP_KERNEL && op->overlap != ORACLE_IN_ORDER);
    sim_work_unref(work);
    return res;
}

/* Callbacks get the stream's status, prefetches and attachments are no nodes. */
static bool can_be_captured(const struct sim_op *op)
{
    return op->kind != SIM_OP_MARK && op->kind != SIM_OP_FREE &&
           !(op->kind == SIM_OP_HOST && op->host.callback);
}

CUresult sim_capture_submit(struct sim_stream *stream, struct sim_op *op, bool *captured)
{
    CUresult res = CUDA_SUCCESS;

    *captured = false;
    if (!sim_capture_any())
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim_graph_lock);
    struct sim_capture *capture = stream->capture;
    if (!capture) {
        res = sim_capture_forbid_legacy(stream);
    } else if (capture->invalid) {
        res = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (!can_be_captured(op)) {
        capture->invalid = true;
        res = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    } else {
        res = add(stream, op, NULL);
        *captured = true;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

CUresult sim_capture_submit_event(struct sim_stream *stream, struct sim_op *op,
                                  struct sim_event *event)
{
    CUresult res = CUDA_ERROR_INVALID_VALUE; /* external, and no capture */

    pthread_mutex_lock(&sim_graph_lock);
    if (stream->capture)
        res = stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                       : add(stream, op, event);
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

CUresult sim_capture_forbid(struct sim_stream *stream)
{
    CUresult res = CUDA_SUCCESS;

    if (!sim_capture_any())
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim_graph_lock);
    struct sim_capture *capture = stream->capture;
    if (!capture) {
        res = sim_capture_forbid_legacy(stream);
    } else {
        res = capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                               : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        capture->invalid = true;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

/* The capture of a stream, for work on memory; *capture NULL: none. Needs graph_lock. */
static CUresult enter_memory(struct sim_stream *stream, struct sim_capture **capture)
{
    *capture = stream->capture;
    if (!*capture)
        return sim_capture_forbid_legacy(stream);
    return (*capture)->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

static CUresult add_alloc(enum sim_api api, struct sim_stream *stream, size_t bytes,
                          CUdeviceptr *out)
{
    struct sim_graph_memory *memory;
    CUresult res =
        sim_graph_memory_new(stream->context->device, bytes, stream->context, &memory);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_op *op = sim_graph_memory_op(api, memory, true);
    res = op ? add(stream, op, NULL) : CUDA_ERROR_OUT_OF_MEMORY;
    sim_op_unref(op);
    if (res == CUDA_SUCCESS)
        *out = memory->alloc->base;
    sim_graph_memory_unref(memory);
    return res;
}

CUresult sim_capture_alloc(enum sim_api api, struct sim_stream *stream, size_t bytes,
                           CUdeviceptr *out, bool *captured)
{
    struct sim_capture *capture;

    *captured = false;
    if (!sim_capture_any())
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim_graph_lock);
    CUresult res = enter_memory(stream, &capture);
    if (res == CUDA_SUCCESS && capture) {
        res = add_alloc(api, stream, bytes, out);
        *captured = true;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

static CUresult add_free(enum sim_api api, struct sim_stream *stream, CUdeviceptr pointer)
{
    struct sim_graph_memory *memory = sim_graph_memory_find(pointer);
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    if (!memory)
        return res;
    if (sim_graph_may_free(stream->capture->graph, memory)) {
        struct sim_op *op = sim_graph_memory_op(api, memory, false);
        res = op ? add(stream, op, NULL) : CUDA_ERROR_OUT_OF_MEMORY;
        sim_op_unref(op);
    }
    sim_graph_memory_unref(memory);
    return res;
}

CUresult sim_capture_free(enum sim_api api, struct sim_stream *stream,
                          CUdeviceptr pointer, bool *captured)
{
    struct sim_capture *capture;

    *captured = false;
    if (!sim_capture_any())
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim_graph_lock);
    CUresult res = enter_memory(stream, &capture);
    if (res == CUDA_SUCCESS && capture) {
        res = add_free(api, stream, pointer);
        *captured = true;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

void sim_capture_drop_stream(struct sim_stream *stream)
{
    if (!sim_capture_any())
        return;
    pthread_mutex_lock(&sim_graph_lock);
    struct sim_capture *capture = stream->capture;
    if (capture && capture->origin == stream) {
        if (capture->owns_graph)
            sim_graph_close(capture->graph);
        finish(capture);
    } else if (capture) {
        capture->invalid = true;
    }
    pthread_mutex_unlock(&sim_graph_lock);
}
