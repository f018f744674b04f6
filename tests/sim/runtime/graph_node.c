/*
 * graph_node.c - the nodes of a graph, added by kind. Kernel, copy and set nodes name no
 * context in the runtime's API; the current one is given to the driver. Owns:  nothing.
 * Lock: none.
 */
#include "graph_params.h"

static_assert(sizeof(struct cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS), "same");
static_assert(sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS),
              "same memory allocation node");

/* ---- kernels --------------------------------------------------------------------- */

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t *pDependencies,
                                   size_t numDependencies,
                                   const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params;
    CUcontext context;
    cudaError_t error = gs_rt_enter_in(&context);

    if (error != cudaSuccess)
        return error;
    error = gs_rt_node_kernel(pNodeParams, context, &params);
    if (error != cudaSuccess)
        return gs_rt_leave(error);
    return gs_rt_leave_cu(gs_rt_cu.cuGraphAddKernelNode_v12000(
        pGraphNode, graph, pDependencies, numDependencies, &params));
}

cudaError_t
cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                 const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params;
    CUcontext context;
    cudaError_t error = gs_rt_enter_in(&context);

    if (error != cudaSuccess)
        return error;
    error = gs_rt_node_kernel(pNodeParams, context, &params);
    if (error != cudaSuccess)
        return gs_rt_leave(error);
    return gs_rt_leave_cu(
        gs_rt_cu.cuGraphExecKernelNodeSetParams_v12000(hGraphExec, node, &params));
}

/* ---- copies ---------------------------------------------------------------------- */

static cudaError_t add_copy(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                            const cudaGraphNode_t *pDependencies, size_t numDependencies,
                            const struct cudaMemcpy3DParms *parms)
{
    CUDA_MEMCPY3D copy;
    CUcontext context;
    cudaError_t error = gs_rt_enter_in(&context);

    if (error != cudaSuccess)
        return error;
    error = gs_rt_copy3d(parms, &copy);
    if (error != cudaSuccess)
        return gs_rt_leave(error);
    return gs_rt_leave_cu(gs_rt_cu.cuGraphAddMemcpyNode_v10000(
        pGraphNode, graph, pDependencies, numDependencies, &copy, context));
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t *pDependencies,
                                   size_t numDependencies,
                                   const struct cudaMemcpy3DParms *pCopyParams)
{
    return add_copy(pGraphNode, graph, pDependencies, numDependencies, pCopyParams);
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                     const cudaGraphNode_t *pDependencies,
                                     size_t numDependencies, void *dst, const void *src,
                                     size_t count, enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms parms = gs_rt_node_row(dst, src, count, kind);

    return add_copy(pGraphNode, graph, pDependencies, numDependencies, &parms);
}

static cudaError_t set_exec_copy(cudaGraphExec_t exec, cudaGraphNode_t node,
                                 const struct cudaMemcpy3DParms *parms)
{
    CUDA_MEMCPY3D copy;
    CUcontext context;
    cudaError_t error = gs_rt_enter_in(&context);

    if (error != cudaSuccess)
        return error;
    error = gs_rt_copy3d(parms, &copy);
    if (error != cudaSuccess)
        return gs_rt_leave(error);
    return gs_rt_leave_cu(
        gs_rt_cu.cuGraphExecMemcpyNodeSetParams_v10020(exec, node, &copy, context));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec,
                                             cudaGraphNode_t node,
                                             const struct cudaMemcpy3DParms *pNodeParams)
{
    return set_exec_copy(hGraphExec, node, pNodeParams);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec,
                                               cudaGraphNode_t node, void *dst,
                                               const void *src, size_t count,
                                               enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms parms = gs_rt_node_row(dst, src, count, kind);

    return set_exec_copy(hGraphExec, node, &parms);
}

/* ---- sets ------------------------------------------------------------------------ */

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t *pDependencies,
                                   size_t numDependencies,
                                   const struct cudaMemsetParams *pMemsetParams)
{
    CUDA_MEMSET_NODE_PARAMS params;
    CUcontext context;
    cudaError_t error = gs_rt_enter_in(&context);

    if (error != cudaSuccess)
        return error;
    error = gs_rt_node_set(pMemsetParams, &params);
    if (error != cudaSuccess)
        return gs_rt_leave(error);
    return gs_rt_leave_cu(gs_rt_cu.cuGraphAddMemsetNode_v10000(
        pGraphNode, graph, pDependencies, numDependencies, &params, context));
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec,
                                             cudaGraphNode_t node,
                                             const struct cudaMemsetParams *pNodeParams)
{
    CUDA_MEMSET_NODE_PARAMS params;
    CUcontext context;
    cudaError_t error = gs_rt_enter_in(&context);

    if (error != cudaSuccess)
        return error;
    error = gs_rt_node_set(pNodeParams, &params);
    if (error != cudaSuccess)
        return gs_rt_leave(error);
    return gs_rt_leave_cu(gs_rt_cu.cuGraphExecMemsetNodeSetParams_v10020(
        hGraphExec, node, &params, context));
}

/* ---- memory ---------------------------------------------------------------------- */

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                     const cudaGraphNode_t *pDependencies,
                                     size_t numDependencies,
                                     struct cudaMemAllocNodeParams *nodeParams)
{
    return RT_FORWARD(cuGraphAddMemAllocNode_v11040, pGraphNode, graph, pDependencies,
                      numDependencies, (CUDA_MEM_ALLOC_NODE_PARAMS *)nodeParams);
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                           struct cudaMemAllocNodeParams *params_out)
{
    return RT_FORWARD(cuGraphMemAllocNodeGetParams_v11040, node,
                      (CUDA_MEM_ALLOC_NODE_PARAMS *)params_out);
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                    const cudaGraphNode_t *pDependencies,
                                    size_t numDependencies, void *dptr)
{
    return RT_FORWARD(cuGraphAddMemFreeNode_v11040, pGraphNode, graph, pDependencies,
                      numDependencies, gs_rt_address(dptr));
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *dptr_out)
{
    return RT_FORWARD(cuGraphMemFreeNodeGetParams_v11040, node, (CUdeviceptr *)dptr_out);
}

/* ---- the rest -------------------------------------------------------------------- */

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                 const cudaGraphNode_t *pDependencies,
                                 size_t numDependencies,
                                 const struct cudaHostNodeParams *pNodeParams)
{
    return RT_FORWARD(cuGraphAddHostNode_v10000, pGraphNode, graph, pDependencies,
                      numDependencies, (const CUDA_HOST_NODE_PARAMS *)pNodeParams);
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node,
                                       struct cudaHostNodeParams *pNodeParams)
{
    return RT_FORWARD(cuGraphHostNodeGetParams_v10000, node,
                      (CUDA_HOST_NODE_PARAMS *)pNodeParams);
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node,
                                       const struct cudaHostNodeParams *pNodeParams)
{
    return RT_FORWARD(cuGraphHostNodeSetParams_v10000, node,
                      (const CUDA_HOST_NODE_PARAMS *)pNodeParams);
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t hGraphExec,
                                           cudaGraphNode_t node,
                                           const struct cudaHostNodeParams *pNodeParams)
{
    return RT_FORWARD(cuGraphExecHostNodeSetParams_v10020, hGraphExec, node,
                      (const CUDA_HOST_NODE_PARAMS *)pNodeParams);
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t *pDependencies,
                                       size_t numDependencies, cudaGraph_t childGraph)
{
    return RT_FORWARD(cuGraphAddChildGraphNode_v10000, pGraphNode, graph, pDependencies,
                      numDependencies, childGraph);
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *pGraph)
{
    return RT_FORWARD(cuGraphChildGraphNodeGetGraph_v10000, node, pGraph);
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                  const cudaGraphNode_t *pDependencies,
                                  size_t numDependencies)
{
    return RT_FORWARD(cuGraphAddEmptyNode_v10000, pGraphNode, graph, pDependencies,
                      numDependencies);
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                        const cudaGraphNode_t *pDependencies,
                                        size_t numDependencies, cudaEvent_t event)
{
    return RT_FORWARD(cuGraphAddEventRecordNode_v11010, pGraphNode, graph, pDependencies,
                      numDependencies, event);
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                      const cudaGraphNode_t *pDependencies,
                                      size_t numDependencies, cudaEvent_t event)
{
    return RT_FORWARD(cuGraphAddEventWaitNode_v11010, pGraphNode, graph, pDependencies,
                      numDependencies, event);
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node)
{
    return RT_FORWARD(cuGraphDestroyNode_v10000, node);
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *pType)
{
    return RT_FORWARD(cuGraphNodeGetType_v10000, node, (CUgraphNodeType *)pType);
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                    unsigned int isEnabled)
{
    return RT_FORWARD(cuGraphNodeSetEnabled_v11060, hGraphExec, hNode, isEnabled);
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                    unsigned int *isEnabled)
{
    return RT_FORWARD(cuGraphNodeGetEnabled_v11060, hGraphExec, hNode, isEnabled);
}
