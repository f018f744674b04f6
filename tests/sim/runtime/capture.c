/*
 * capture.c - stream capture.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData), "same edge data");

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return RT_FORWARD(cuStreamBeginCapture_v10010, stream, (CUstreamCaptureMode)mode);
}

cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream,
                                        enum cudaStreamCaptureMode mode)
{
    return RT_FORWARD(cuStreamBeginCapture_v10010_ptsz, stream,
                      (CUstreamCaptureMode)mode);
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t *dependencies,
                                          const cudaGraphEdgeData *dependencyData,
                                          size_t numDependencies,
                                          enum cudaStreamCaptureMode mode)
{
    return RT_FORWARD(cuStreamBeginCaptureToGraph_v12030, stream, graph, dependencies,
                      (const CUgraphEdgeData *)dependencyData, numDependencies,
                      (CUstreamCaptureMode)mode);
}

cudaError_t cudaStreamBeginCaptureToGraph_ptsz(cudaStream_t stream, cudaGraph_t graph,
                                               const cudaGraphNode_t *dependencies,
                                               const cudaGraphEdgeData *dependencyData,
                                               size_t numDependencies,
                                               enum cudaStreamCaptureMode mode)
{
    return RT_FORWARD(cuStreamBeginCaptureToGraph_v12030_ptsz, stream, graph,
                      dependencies, (const CUgraphEdgeData *)dependencyData,
                      numDependencies, (CUstreamCaptureMode)mode);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
    return RT_FORWARD(cuStreamEndCapture_v10000, stream, pGraph);
}

cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t *pGraph)
{
    return RT_FORWARD(cuStreamEndCapture_v10000_ptsz, stream, pGraph);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  enum cudaStreamCaptureStatus *pCaptureStatus)
{
    return RT_FORWARD(cuStreamIsCapturing_v10000, stream,
                      (CUstreamCaptureStatus *)pCaptureStatus);
}

cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream,
                                       enum cudaStreamCaptureStatus *pCaptureStatus)
{
    return RT_FORWARD(cuStreamIsCapturing_v10000_ptsz, stream,
                      (CUstreamCaptureStatus *)pCaptureStatus);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     enum cudaStreamCaptureStatus *captureStatus_out,
                                     unsigned long long *id_out, cudaGraph_t *graph_out,
                                     const cudaGraphNode_t **dependencies_out,
                                     const cudaGraphEdgeData **edgeData_out,
                                     size_t *numDependencies_out)
{
    return RT_FORWARD(cuStreamGetCaptureInfo_v12030, stream,
                      (CUstreamCaptureStatus *)captureStatus_out, (cuuint64_t *)id_out,
                      graph_out, dependencies_out, (const CUgraphEdgeData **)edgeData_out,
                      numDependencies_out);
}

cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream,
                                          enum cudaStreamCaptureStatus *captureStatus_out,
                                          unsigned long long *id_out,
                                          cudaGraph_t *graph_out,
                                          const cudaGraphNode_t **dependencies_out,
                                          const cudaGraphEdgeData **edgeData_out,
                                          size_t *numDependencies_out)
{
    return RT_FORWARD(cuStreamGetCaptureInfo_v12030_ptsz, stream,
                      (CUstreamCaptureStatus *)captureStatus_out, (cuuint64_t *)id_out,
                      graph_out, dependencies_out, (const CUgraphEdgeData **)edgeData_out,
                      numDependencies_out);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                cudaGraphNode_t *dependencies,
                                                const cudaGraphEdgeData *dependencyData,
                                                size_t numDependencies,
                                                unsigned int flags)
{
    return RT_FORWARD(cuStreamUpdateCaptureDependencies_v12030, stream, dependencies,
                      (const CUgraphEdgeData *)dependencyData, numDependencies, flags);
}

cudaError_t cudaStreamUpdateCaptureDependencies_ptsz(
    cudaStream_t stream, cudaGraphNode_t *dependencies,
    const cudaGraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags)
{
    return RT_FORWARD(cuStreamUpdateCaptureDependencies_v12030_ptsz, stream, dependencies,
                      (const CUgraphEdgeData *)dependencyData, numDependencies, flags);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    return RT_FORWARD(cuThreadExchangeStreamCaptureMode_v10010,
                      (CUstreamCaptureMode *)mode);
}
