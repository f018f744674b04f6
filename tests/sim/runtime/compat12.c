/*
 * compat12.c - the functions that libcudart.so.12 has under names which 13 gave to others
 * or dropped. Their C names here are gs_rt_12_..., because the headers of 13 declare most
 * of the exported ones with other parameters. See compat12.h.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

#if GS_RT_MAJOR < 13

#ifdef GS_RT_SHARED
#define RT_EXPORT __attribute__((visibility("default")))
#else
#define RT_EXPORT
#endif

/* The head of the function exported as "cuda" name. */
#define RT_OLD(name, parameters)                                                         \
    RT_EXPORT cudaError_t gs_rt_12_##name parameters __asm__("cuda" #name);              \
    cudaError_t gs_rt_12_##name parameters

/* cudaCpuDeviceId is CU_DEVICE_CPU; the driver refuses a device that is not there. */
static CUdevice device_of(int ordinal)
{
    CUdevice handle;

    if (ordinal == cudaCpuDeviceId)
        return CU_DEVICE_CPU;
    return gs_rt_device(ordinal, &handle) == cudaSuccess ? handle : CU_DEVICE_INVALID;
}

RT_OLD(MemAdvise,
       (const void *ptr, size_t count, enum cudaMemoryAdvise advice, int device))
{
    return RT_FORWARD(cuMemAdvise_v8000, gs_rt_address(ptr), count, (CUmem_advise)advice,
                      device_of(device));
}

RT_OLD(MemPrefetchAsync, (const void *ptr, size_t count, int device, cudaStream_t stream))
{
    return RT_FORWARD(cuMemPrefetchAsync_v8000, gs_rt_address(ptr), count,
                      device_of(device), stream);
}

RT_OLD(MemPrefetchAsync_ptsz,
       (const void *ptr, size_t count, int device, cudaStream_t stream))
{
    return RT_FORWARD(cuMemPrefetchAsync_v8000_ptsz, gs_rt_address(ptr), count,
                      device_of(device), stream);
}

RT_OLD(MemcpyBatchAsync, (void **dsts, void **srcs, size_t *sizes, size_t count,
                          struct cudaMemcpyAttributes *attrs, size_t *attrs_idxs,
                          size_t num_attrs, size_t *fail_idx, cudaStream_t stream))
{
    return RT_FORWARD(cuMemcpyBatchAsync_v12080, (CUdeviceptr *)dsts, (CUdeviceptr *)srcs,
                      sizes, count, (CUmemcpyAttributes *)attrs, attrs_idxs, num_attrs,
                      fail_idx, stream);
}

RT_OLD(MemcpyBatchAsync_ptsz, (void **dsts, void **srcs, size_t *sizes, size_t count,
                               struct cudaMemcpyAttributes *attrs, size_t *attrs_idxs,
                               size_t num_attrs, size_t *fail_idx, cudaStream_t stream))
{
    return RT_FORWARD(cuMemcpyBatchAsync_v12080_ptsz, (CUdeviceptr *)dsts,
                      (CUdeviceptr *)srcs, sizes, count, (CUmemcpyAttributes *)attrs,
                      attrs_idxs, num_attrs, fail_idx, stream);
}

RT_OLD(Memcpy3DBatchAsync,
       (size_t count, struct cudaMemcpy3DBatchOp *copies, size_t *fail_idx,
        unsigned long long flags, cudaStream_t stream))
{
    return RT_FORWARD(cuMemcpy3DBatchAsync_v12080, count,
                      (CUDA_MEMCPY3D_BATCH_OP *)copies, fail_idx, flags, stream);
}

RT_OLD(Memcpy3DBatchAsync_ptsz,
       (size_t count, struct cudaMemcpy3DBatchOp *copies, size_t *fail_idx,
        unsigned long long flags, cudaStream_t stream))
{
    return RT_FORWARD(cuMemcpy3DBatchAsync_v12080_ptsz, count,
                      (CUDA_MEMCPY3D_BATCH_OP *)copies, fail_idx, flags, stream);
}

RT_OLD(EventElapsedTime_v2, (float *ms, cudaEvent_t start, cudaEvent_t end))
{
    return RT_FORWARD(cuEventElapsedTime_v12080, ms, start, end);
}

/* ---- graphs and capture, without edge data --------------------------------------- */

RT_OLD(GraphGetEdges,
       (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count))
{
    return RT_FORWARD(cuGraphGetEdges_v10000, graph, from, to, count);
}

RT_OLD(GraphNodeGetDependencies,
       (cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count))
{
    return RT_FORWARD(cuGraphNodeGetDependencies_v10000, node, nodes, count);
}

RT_OLD(GraphNodeGetDependentNodes,
       (cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count))
{
    return RT_FORWARD(cuGraphNodeGetDependentNodes_v10000, node, nodes, count);
}

RT_OLD(GraphAddDependencies, (cudaGraph_t graph, const cudaGraphNode_t *from,
                              const cudaGraphNode_t *to, size_t count))
{
    return RT_FORWARD(cuGraphAddDependencies_v10000, graph, from, to, count);
}

RT_OLD(GraphRemoveDependencies, (cudaGraph_t graph, const cudaGraphNode_t *from,
                                 const cudaGraphNode_t *to, size_t count))
{
    return RT_FORWARD(cuGraphRemoveDependencies_v10000, graph, from, to, count);
}

RT_OLD(GraphAddNode,
       (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *after,
        size_t count, struct cudaGraphNodeParams *params))
{
    return cudaGraphAddNode(node, graph, after, NULL, count, params);
}

RT_OLD(StreamGetCaptureInfo, (cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                              unsigned long long *id))
{
    return RT_FORWARD(cuStreamGetCaptureInfo_v10010, stream,
                      (CUstreamCaptureStatus *)status, (cuuint64_t *)id);
}

RT_OLD(StreamGetCaptureInfo_v2,
       (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
        cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *count))
{
    return RT_FORWARD(cuStreamGetCaptureInfo_v11030, stream,
                      (CUstreamCaptureStatus *)status, (cuuint64_t *)id, graph, nodes,
                      count);
}

RT_OLD(StreamUpdateCaptureDependencies,
       (cudaStream_t stream, cudaGraphNode_t *nodes, size_t count, unsigned int flags))
{
    return RT_FORWARD(cuStreamUpdateCaptureDependencies_v11030, stream, nodes, count,
                      flags);
}

RT_OLD(StreamGetCaptureInfo_ptsz,
       (cudaStream_t stream, enum cudaStreamCaptureStatus *status,
        unsigned long long *id))
{
    return RT_FORWARD(cuStreamGetCaptureInfo_v10010_ptsz, stream,
                      (CUstreamCaptureStatus *)status, (cuuint64_t *)id);
}

RT_OLD(StreamGetCaptureInfo_v2_ptsz,
       (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
        cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *count))
{
    return RT_FORWARD(cuStreamGetCaptureInfo_v11030_ptsz, stream,
                      (CUstreamCaptureStatus *)status, (cuuint64_t *)id, graph, nodes,
                      count);
}

RT_OLD(StreamUpdateCaptureDependencies_ptsz,
       (cudaStream_t stream, cudaGraphNode_t *nodes, size_t count, unsigned int flags))
{
    return RT_FORWARD(cuStreamUpdateCaptureDependencies_v11030_ptsz, stream, nodes, count,
                      flags);
}

/* ---- names of before 4.0 --------------------------------------------------------- */

RT_OLD(ThreadExit, (void))
{
    return cudaDeviceReset();
}

RT_OLD(ThreadSynchronize, (void))
{
    return cudaDeviceSynchronize();
}

RT_OLD(ThreadGetLimit, (size_t * value, enum cudaLimit limit))
{
    return cudaDeviceGetLimit(value, limit);
}

RT_OLD(ThreadSetLimit, (enum cudaLimit limit, size_t value))
{
    return cudaDeviceSetLimit(limit, value);
}

RT_OLD(ThreadGetCacheConfig, (enum cudaFuncCache * config))
{
    return cudaDeviceGetCacheConfig(config);
}

RT_OLD(ThreadSetCacheConfig, (enum cudaFuncCache config))
{
    return cudaDeviceSetCacheConfig(config);
}

#endif
