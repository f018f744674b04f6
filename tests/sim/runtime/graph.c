/*
 * graph.c - graphs as a whole: create, connect, instantiate, launch, ask.
 * graph_node.c has the nodes. Handles are the driver's.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData), "same edge data");
static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS),
              "same instantiate parameters");
static_assert(sizeof(cudaGraphExecUpdateResultInfo) ==
                  sizeof(CUgraphExecUpdateResultInfo),
              "same update result");

cudaError_t cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags)
{
    return RT_FORWARD(cuGraphCreate_v10000, pGraph, flags);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    return RT_FORWARD(cuGraphDestroy_v10000, graph);
}

cudaError_t cudaGraphClone(cudaGraph_t *pGraphClone, cudaGraph_t originalGraph)
{
    return RT_FORWARD(cuGraphClone_v10000, pGraphClone, originalGraph);
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *pNode, cudaGraphNode_t originalNode,
                                     cudaGraph_t clonedGraph)
{
    return RT_FORWARD(cuGraphNodeFindInClone_v10000, pNode, originalNode, clonedGraph);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
    return RT_FORWARD(cuGraphGetNodes_v10000, graph, nodes, numNodes);
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *pRootNodes,
                                  size_t *pNumRootNodes)
{
    return RT_FORWARD(cuGraphGetRootNodes_v10000, graph, pRootNodes, pNumRootNodes);
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from,
                              cudaGraphNode_t *to, cudaGraphEdgeData *edgeData,
                              size_t *numEdges)
{
    return RT_FORWARD(cuGraphGetEdges_v12030, graph, from, to,
                      (CUgraphEdgeData *)edgeData, numEdges);
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node,
                                         cudaGraphNode_t *pDependencies,
                                         cudaGraphEdgeData *edgeData,
                                         size_t *pNumDependencies)
{
    return RT_FORWARD(cuGraphNodeGetDependencies_v12030, node, pDependencies,
                      (CUgraphEdgeData *)edgeData, pNumDependencies);
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node,
                                           cudaGraphNode_t *pDependentNodes,
                                           cudaGraphEdgeData *edgeData,
                                           size_t *pNumDependentNodes)
{
    return RT_FORWARD(cuGraphNodeGetDependentNodes_v12030, node, pDependentNodes,
                      (CUgraphEdgeData *)edgeData, pNumDependentNodes);
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                     const cudaGraphNode_t *to,
                                     const cudaGraphEdgeData *edgeData,
                                     size_t numDependencies)
{
    return RT_FORWARD(cuGraphAddDependencies_v12030, graph, from, to,
                      (const CUgraphEdgeData *)edgeData, numDependencies);
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                        const cudaGraphNode_t *to,
                                        const cudaGraphEdgeData *edgeData,
                                        size_t numDependencies)
{
    return RT_FORWARD(cuGraphRemoveDependencies_v12030, graph, from, to,
                      (const CUgraphEdgeData *)edgeData, numDependencies);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                          unsigned long long flags)
{
    return RT_FORWARD(cuGraphInstantiateWithFlags_v11040, pGraphExec, graph, flags);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                 unsigned long long flags)
{
    return cudaGraphInstantiateWithFlags(pGraphExec, graph, flags);
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams *instantiateParams)
{
    return RT_FORWARD(cuGraphInstantiateWithParams_v12000, pGraphExec, graph,
                      (CUDA_GRAPH_INSTANTIATE_PARAMS *)instantiateParams);
}

cudaError_t
cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                    cudaGraphInstantiateParams *instantiateParams)
{
    return RT_FORWARD(cuGraphInstantiateWithParams_v12000_ptsz, pGraphExec, graph,
                      (CUDA_GRAPH_INSTANTIATE_PARAMS *)instantiateParams);
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long *flags)
{
    return RT_FORWARD(cuGraphExecGetFlags_v12000, graphExec, (cuuint64_t *)flags);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                cudaGraphExecUpdateResultInfo *resultInfo)
{
    return RT_FORWARD(cuGraphExecUpdate_v12000, hGraphExec, hGraph,
                      (CUgraphExecUpdateResultInfo *)resultInfo);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    return RT_FORWARD(cuGraphUpload_v11010, graphExec, stream);
}

cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    return RT_FORWARD(cuGraphUpload_v11010_ptsz, graphExec, stream);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    return RT_FORWARD(cuGraphLaunch_v10000, graphExec, stream);
}

cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    return RT_FORWARD(cuGraphLaunch_v10000_ptsz, graphExec, stream);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
    return RT_FORWARD(cuGraphExecDestroy_v10000, graphExec);
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path,
                                   unsigned int flags)
{
    return RT_FORWARD(cuGraphDebugDotPrint_v11030, graph, path, flags);
}

/* ---- objects that live as long as a graph ---------------------------------------- */

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object_out, void *ptr,
                                 cudaHostFn_t destroy, unsigned int initialRefcount,
                                 unsigned int flags)
{
    return RT_FORWARD(cuUserObjectCreate_v11030, object_out, ptr, destroy,
                      initialRefcount, flags);
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)
{
    return RT_FORWARD(cuUserObjectRetain_v11030, object, count);
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)
{
    return RT_FORWARD(cuUserObjectRelease_v11030, object, count);
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                      unsigned int count, unsigned int flags)
{
    return RT_FORWARD(cuGraphRetainUserObject_v11030, graph, object, count, flags);
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                       unsigned int count)
{
    return RT_FORWARD(cuGraphReleaseUserObject_v11030, graph, object, count);
}

/* ---- memory that graphs hold ----------------------------------------------------- */

static cudaError_t enter_for_device(int ordinal, CUdevice *handle)
{
    cudaError_t error = gs_rt_enter_without_context();

    if (error != cudaSuccess)
        return error;
    return gs_rt_leave(gs_rt_device(ordinal, handle));
}

cudaError_t cudaDeviceGraphMemTrim(int device)
{
    CUdevice handle;
    cudaError_t error = enter_for_device(device, &handle);

    if (error != cudaSuccess)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuDeviceGraphMemTrim_v11040(handle));
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device,
                                           enum cudaGraphMemAttributeType attr,
                                           void *value)
{
    CUdevice handle;
    cudaError_t error = enter_for_device(device, &handle);

    if (error != cudaSuccess)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuDeviceGetGraphMemAttribute_v11040(
        handle, (CUgraphMem_attribute)attr, value));
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device,
                                           enum cudaGraphMemAttributeType attr,
                                           void *value)
{
    CUdevice handle;
    cudaError_t error = enter_for_device(device, &handle);

    if (error != cudaSuccess)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuDeviceSetGraphMemAttribute_v11040(
        handle, (CUgraphMem_attribute)attr, value));
}
