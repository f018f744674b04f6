/*
 * api_capture.c - what programs ask about stream capture. Capture itself is not modelled:
 * beginning one is refused, so no stream is ever capturing.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Stream Management".
 */
#include "context.h"
#include "stream.h"

static __thread CUstreamCaptureMode capture_mode; /* the thread's own */

/* Where the caller wants the answers; each may be NULL but the status. */
struct answers {
    CUstreamCaptureStatus *status;
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **dependencies;
    const CUgraphEdgeData **edges;
    size_t *count;
};

static CUresult get_info(enum sim_api api, enum sim_variant variant, CUstream handle,
                         const struct answers *answers)
{
    struct sim_context *context;
    struct sim_stream *stream;
    CUresult res = sim_enter_context(api, &context);

    if (res != CUDA_SUCCESS)
        return res;
    if (!answers->status)
        return CUDA_ERROR_INVALID_VALUE;
    res = sim_stream_get(context, handle, variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    sim_stream_put(stream);
    *answers->status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (answers->id)
        *answers->id = 0;
    if (answers->graph)
        *answers->graph = NULL;
    if (answers->dependencies)
        *answers->dependencies = NULL;
    if (answers->edges)
        *answers->edges = NULL;
    if (answers->count)
        *answers->count = 0;
    return CUDA_SUCCESS;
}

SIM_API(cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode *mode)
{
    CUresult res = sim_enter(SIM_ID_cuThreadExchangeStreamCaptureMode);

    if (res != CUDA_SUCCESS)
        return res;
    if (!mode || (int)*mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

SIM_API(cuStreamIsCapturing, CUstream stream, CUstreamCaptureStatus *status)
{
    return get_info(SIM_ID_cuStreamIsCapturing, SIM_LEGACY, stream,
                    &(struct answers){.status = status});
}

SIM_API(cuStreamGetCaptureInfo, CUstream stream, CUstreamCaptureStatus *status,
        cuuint64_t *id)
{
    return get_info(SIM_ID_cuStreamGetCaptureInfo, SIM_LEGACY, stream,
                    &(struct answers){.status = status, .id = id});
}

SIM_API(cuStreamGetCaptureInfo_v2, CUstream stream, CUstreamCaptureStatus *status,
        cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, size_t *count)
{
    return get_info(SIM_ID_cuStreamGetCaptureInfo_v2, SIM_LEGACY, stream,
                    &(struct answers){status, id, graph, dependencies, NULL, count});
}

SIM_API(cuStreamGetCaptureInfo_v3, CUstream stream, CUstreamCaptureStatus *status,
        cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
        const CUgraphEdgeData **edges, size_t *count)
{
    return get_info(SIM_ID_cuStreamGetCaptureInfo_v3, SIM_LEGACY, stream,
                    &(struct answers){status, id, graph, dependencies, edges, count});
}

SIM_API(cuStreamIsCapturing_ptsz, CUstream stream, CUstreamCaptureStatus *status)
{
    return get_info(SIM_ID_cuStreamIsCapturing_ptsz, SIM_PER_THREAD, stream,
                    &(struct answers){.status = status});
}

SIM_API(cuStreamGetCaptureInfo_ptsz, CUstream stream, CUstreamCaptureStatus *status,
        cuuint64_t *id)
{
    return get_info(SIM_ID_cuStreamGetCaptureInfo_ptsz, SIM_PER_THREAD, stream,
                    &(struct answers){.status = status, .id = id});
}

SIM_API(cuStreamGetCaptureInfo_v2_ptsz, CUstream stream, CUstreamCaptureStatus *status,
        cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, size_t *count)
{
    return get_info(SIM_ID_cuStreamGetCaptureInfo_v2_ptsz, SIM_PER_THREAD, stream,
                    &(struct answers){status, id, graph, dependencies, NULL, count});
}

SIM_API(cuStreamGetCaptureInfo_v3_ptsz, CUstream stream, CUstreamCaptureStatus *status,
        cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
        const CUgraphEdgeData **edges, size_t *count)
{
    return get_info(SIM_ID_cuStreamGetCaptureInfo_v3_ptsz, SIM_PER_THREAD, stream,
                    &(struct answers){status, id, graph, dependencies, edges, count});
}
