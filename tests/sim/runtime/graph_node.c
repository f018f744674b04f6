/*
 * graph_node.c - the nodes of a graph, added by kind. Kernel, copy and set nodes name no
 * context in the runtime's API; the current one is given to the driver. Owns:  nothing.
 * Lock: none.
 */
#include "graph_params.h"

/* ---- kernels --------------------------------------------------------------------- */

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t *pDependencies,
                                   size_t numDependencies,
                                   const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params;
    CUcontext context;

    RT_TRY(gs_rt_enter_in(&context));
    RT_TRY(gs_rt_leave(gs_rt_node_kernel(pNodeParams, context, &params)));
    return gs_rt_leave_cu(gs_rt_cu.cuGraphAddKernelNode_v12000(
        pGraphNode, graph, pDependencies, numDependencies, &params));
}

cudaError_t
cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                 const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params;
    CUcontext context;

    RT_TRY(gs_rt_enter_in(&context));
    RT_TRY(gs_rt_leave(gs_rt_node_kernel(pNodeParams, context, &params)));
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

    RT_TRY(gs_rt_enter_in(&context));
    RT_TRY(gs_rt_leave(gs_rt_copy3d(parms, &copy)));
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

    RT_TRY(gs_rt_enter_in(&context));
    RT_TRY(gs_rt_leave(gs_rt_copy3d(parms, &copy)));
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

    RT_TRY(gs_rt_enter_in(&context));
    RT_TRY(gs_rt_leave(gs_rt_node_set(pMemsetParams, &params)));
    return gs_rt_leave_cu(gs_rt_cu.cuGraphAddMemsetNode_v10000(
        pGraphNode, graph, pDependencies, numDependencies, &params, context));
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec,
                                             cudaGraphNode_t node,
                                             const struct cudaMemsetParams *pNodeParams)
{
    CUDA_MEMSET_NODE_PARAMS params;
    CUcontext context;

    RT_TRY(gs_rt_enter_in(&context));
    RT_TRY(gs_rt_leave(gs_rt_node_set(pNodeParams, &params)));
    return gs_rt_leave_cu(gs_rt_cu.cuGraphExecMemsetNodeSetParams_v10020(
        hGraphExec, node, &params, context));
}

/* ---- the rest -------------------------------------------------------------------- */
