/*
 * api_capture.c - stream capture: begin, end, questions.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Stream Management".
 */
#include "capture.h"
#include "context.h"
#include "version.h"

/* The door of a call on one stream: the stream with a reference. */
static CUresult enter(enum sim_api api, enum sim_variant variant, CUstream handle,
                      struct sim_stream **out)
{
    struct sim_context *context;
    CUresult res = sim_enter_context(api, &context);

    return res == CUDA_SUCCESS ? sim_stream_get(context, handle, variant, out) : res;
}

/* What a capture begins with: a graph (NULL: a new one) and its mode. */
struct beginning {
    struct sim_graph *graph;
    const CUgraphNode *nodes;
    const CUgraphEdgeData *edges;
    size_t count;
    CUstreamCaptureMode mode;
};

static CUresult begin(enum sim_api api, enum sim_variant variant, CUstream handle,
                      const struct beginning *beginning)
{
    struct sim_node_set after;
    struct sim_stream *stream;

    SIM_TRY(enter(api, variant, handle, &stream));
    if ((unsigned)beginning->mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        sim_stream_put(stream);
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult res =
        sim_nodes_read(beginning->nodes, beginning->edges, beginning->count, &after);
    if (res == CUDA_SUCCESS)
        res = sim_capture_begin(stream, beginning->graph, &after, beginning->mode);
    sim_nodes_clear(&after);
    sim_stream_put(stream);
    return res;
}

static CUresult begin_to_graph(enum sim_api api, enum sim_variant variant,
                               CUstream handle, CUgraph graph_handle,
                               struct beginning beginning)
{
    if (sim_version_check(api) != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_SUPPORTED;
    beginning.graph = sim_graph_get(graph_handle);
    if (!beginning.graph)
        return sim_unless_before_init(CUDA_ERROR_INVALID_VALUE);
    CUresult res = begin(api, variant, handle, &beginning);
    sim_graph_put(beginning.graph);
    return res;
}

static CUresult end(enum sim_api api, enum sim_variant variant, CUstream handle,
                    CUgraph *out)
{
    struct sim_stream *stream;
    struct sim_graph *graph;

    SIM_TRY(enter(api, variant, handle, &stream));
    if (out)
        *out = NULL;
    CUresult res = out ? sim_capture_end(stream, &graph) : CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS) {
        *out = graph->object.handle;
        sim_graph_put(graph);
    }
    sim_stream_put(stream);
    return res;
}

/* Where the caller wants the answers; each may be NULL but the status. */
struct answers {
    CUstreamCaptureStatus *status;
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **dependencies;
    const CUgraphEdgeData **edges;
    size_t *count;
};

static void tell(const struct sim_capture_info *info, const struct answers *answers)
{
    *answers->status = info->status;
    if (answers->id)
        *answers->id = info->id;
    if (answers->graph)
        *answers->graph = info->graph;
    if (answers->dependencies)
        *answers->dependencies = info->nodes;
    if (answers->edges)
        *answers->edges = info->edges;
    if (answers->count)
        *answers->count = info->count;
}

static CUresult get_info(enum sim_api api, enum sim_variant variant, CUstream handle,
                         const struct answers *answers)
{
    struct sim_capture_info info;
    struct sim_stream *stream;

    SIM_TRY(enter(api, variant, handle, &stream));
    CUresult res =
        answers->status ? sim_capture_check_asking(stream) : CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = sim_capture_read(stream, &info);
    if (res == CUDA_SUCCESS && info.lossy && answers->dependencies && !answers->edges)
        res = CUDA_ERROR_LOSSY_QUERY;
    if (res == CUDA_SUCCESS)
        tell(&info, answers);
    sim_stream_put(stream);
    return res;
}

static CUresult update(enum sim_api api, enum sim_variant variant, CUstream handle,
                       const CUgraphNode *nodes, const CUgraphEdgeData *edges,
                       size_t count, unsigned flags)
{
    struct sim_node_set set;
    struct sim_stream *stream;

    SIM_TRY(enter(api, variant, handle, &stream));
    CUresult res = flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES
                       ? sim_nodes_read(nodes, edges, count, &set)
                       : CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS) {
        res =
            sim_capture_depend(stream, &set, flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
        sim_nodes_clear(&set);
    }
    sim_stream_put(stream);
    return res;
}

SIM_API(cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode *mode)
{
    SIM_TRY(sim_enter(SIM_ID_cuThreadExchangeStreamCaptureMode));
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = sim_capture_exchange_mode(*mode);
    return CUDA_SUCCESS;
}

SIM_API_TWINS(cuStreamBeginCapture, ptsz, (CUstream stream),
              begin(api, variant, stream, &(const struct beginning){0}));

SIM_API_TWINS(cuStreamBeginCapture_v2, ptsz, (CUstream stream, CUstreamCaptureMode mode),
              begin(api, variant, stream, &(const struct beginning){.mode = mode}));

SIM_API_TWINS(cuStreamBeginCaptureToGraph, ptsz,
              (CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
               const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode),
              SIM_JUDGED_OR(!graph, CUDA_ERROR_INVALID_VALUE,
                            begin_to_graph(api, variant, stream, graph,
                                           (struct beginning){.nodes = dependencies,
                                                              .edges = edges,
                                                              .count = count,
                                                              .mode = mode})));

SIM_API_TWINS(cuStreamEndCapture, ptsz, (CUstream stream, CUgraph *graph),
              end(api, variant, stream, graph));

SIM_API_TWINS(cuStreamIsCapturing, ptsz, (CUstream stream, CUstreamCaptureStatus *status),
              SIM_JUDGED_OR(!status, CUDA_ERROR_INVALID_VALUE,
                            get_info(api, variant, stream,
                                     &(struct answers){.status = status})));

SIM_API_TWINS(cuStreamGetCaptureInfo, ptsz,
              (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
              SIM_JUDGED_OR(!status, CUDA_ERROR_INVALID_VALUE,
                            get_info(api, variant, stream,
                                     &(struct answers){.status = status, .id = id})));

SIM_API_TWINS(cuStreamGetCaptureInfo_v2, ptsz,
              (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
               CUgraph *graph, const CUgraphNode **dependencies, size_t *count),
              SIM_JUDGED_OR(!status, CUDA_ERROR_INVALID_VALUE,
                            get_info(api, variant, stream,
                                     &(struct answers){status, id, graph, dependencies,
                                                       NULL, count})));

SIM_API_TWINS(cuStreamGetCaptureInfo_v3, ptsz,
              (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
               CUgraph *graph, const CUgraphNode **dependencies,
               const CUgraphEdgeData **edges, size_t *count),
              SIM_JUDGED_OR(!status, CUDA_ERROR_INVALID_VALUE,
                            get_info(api, variant, stream,
                                     &(struct answers){status, id, graph, dependencies,
                                                       edges, count})));

SIM_API_TWINS(cuStreamUpdateCaptureDependencies, ptsz,
              (CUstream stream, CUgraphNode *dependencies, size_t count,
               unsigned int flags),
              update(api, variant, stream, dependencies, NULL, count, flags));

SIM_API_TWINS(cuStreamUpdateCaptureDependencies_v2, ptsz,
              (CUstream stream, CUgraphNode *dependencies, const CUgraphEdgeData *edges,
               size_t count, unsigned int flags),
              update(api, variant, stream, dependencies, edges, count, flags));
