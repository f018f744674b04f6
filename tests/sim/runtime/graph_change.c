/*
 * graph_change.c - kernel, copy and set nodes: asked for their parameters, given new
 * ones; copies from and to variables of the program. Owns:  nothing.   Lock:
 * none.
 */
#include "graph_params.h"

/* ---- kernels --------------------------------------------------------------------- */

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
                                         struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params;
    cudaError_t error =
        RT_FORWARD(cuGraphKernelNodeGetParams_v12000, node, pNodeParams ? &params : NULL);

    if (error == cudaSuccess)
        gs_rt_told_kernel(&params, pNodeParams);
    return error;
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params;
    CUcontext context;

    RT_TRY(gs_rt_enter_in(&context));
    RT_TRY(gs_rt_leave(gs_rt_node_kernel(pNodeParams, context, &params)));
    return gs_rt_leave_cu(gs_rt_cu.cuGraphKernelNodeSetParams_v12000(node, &params));
}

/* ---- copies ---------------------------------------------------------------------- */

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
                                         struct cudaMemcpy3DParms *pNodeParams)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error =
        RT_FORWARD(cuGraphMemcpyNodeGetParams_v10000, node, pNodeParams ? &copy : NULL);

    return error == cudaSuccess ? gs_rt_leave(gs_rt_told_copy(&copy, pNodeParams))
                                : error;
}

/* Past the door. */
static cudaError_t set_copy(cudaGraphNode_t node, const struct cudaMemcpy3DParms *parms)
{
    CUDA_MEMCPY3D copy;

    RT_TRY(gs_rt_leave(gs_rt_copy3d(parms, &copy)));
    return gs_rt_leave_cu(gs_rt_cu.cuGraphMemcpyNodeSetParams_v10000(node, &copy));
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaMemcpy3DParms *pNodeParams)
{
    cudaError_t error = gs_rt_enter();

    return error == cudaSuccess ? set_copy(node, pNodeParams) : error;
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst,
                                           const void *src, size_t count,
                                           enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms parms = gs_rt_node_row(dst, src, count, kind);

    return cudaGraphMemcpyNodeSetParams(node, &parms);
}

/* ---- copies of variables --------------------------------------------------------- */

/* A variable is the destination, or else the source. */
struct variable_copy {
    const void *symbol;
    void *other;
    size_t count, offset;
    enum cudaMemcpyKind kind;
    bool to_symbol;
};

/* Enter, and the copy as a box. */
static cudaError_t enter_with(const struct variable_copy *copy,
                              struct cudaMemcpy3DParms *out)
{
    void *part;

    RT_TRY(gs_rt_enter());
    RT_TRY(
        gs_rt_leave(gs_rt_symbol_part(copy->symbol, copy->count, copy->offset, &part)));
    *out = gs_rt_node_row(copy->to_symbol ? part : copy->other,
                          copy->to_symbol ? copy->other : part, copy->count, copy->kind);
    return cudaSuccess;
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                           const cudaGraphNode_t *pDependencies,
                                           size_t numDependencies, const void *symbol,
                                           const void *src, size_t count, size_t offset,
                                           enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms parms;
    cudaError_t error = enter_with(&(struct variable_copy){symbol, (void *)(uintptr_t)src,
                                                           count, offset, kind, true},
                                   &parms);

    return error == cudaSuccess ? cudaGraphAddMemcpyNode(pGraphNode, graph, pDependencies,
                                                         numDependencies, &parms)
                                : error;
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *pGraphNode,
                                             cudaGraph_t graph,
                                             const cudaGraphNode_t *pDependencies,
                                             size_t numDependencies, void *dst,
                                             const void *symbol, size_t count,
                                             size_t offset, enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms parms;
    cudaError_t error = enter_with(
        &(struct variable_copy){symbol, dst, count, offset, kind, false}, &parms);

    return error == cudaSuccess ? cudaGraphAddMemcpyNode(pGraphNode, graph, pDependencies,
                                                         numDependencies, &parms)
                                : error;
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol,
                                                 const void *src, size_t count,
                                                 size_t offset, enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms parms;
    cudaError_t error = enter_with(&(struct variable_copy){symbol, (void *)(uintptr_t)src,
                                                           count, offset, kind, true},
                                   &parms);

    return error == cudaSuccess ? set_copy(node, &parms) : error;
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *dst,
                                                   const void *symbol, size_t count,
                                                   size_t offset,
                                                   enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms parms;
    cudaError_t error = enter_with(
        &(struct variable_copy){symbol, dst, count, offset, kind, false}, &parms);

    return error == cudaSuccess ? set_copy(node, &parms) : error;
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t hGraphExec,
                                                     cudaGraphNode_t node,
                                                     const void *symbol, const void *src,
                                                     size_t count, size_t offset,
                                                     enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms parms;
    cudaError_t error = enter_with(&(struct variable_copy){symbol, (void *)(uintptr_t)src,
                                                           count, offset, kind, true},
                                   &parms);

    return error == cudaSuccess
               ? cudaGraphExecMemcpyNodeSetParams(hGraphExec, node, &parms)
               : error;
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t hGraphExec,
                                                       cudaGraphNode_t node, void *dst,
                                                       const void *symbol, size_t count,
                                                       size_t offset,
                                                       enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms parms;
    cudaError_t error = enter_with(
        &(struct variable_copy){symbol, dst, count, offset, kind, false}, &parms);

    return error == cudaSuccess
               ? cudaGraphExecMemcpyNodeSetParams(hGraphExec, node, &parms)
               : error;
}

/* ---- sets ------------------------------------------------------------------------ */

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node,
                                         struct cudaMemsetParams *pNodeParams)
{
    CUDA_MEMSET_NODE_PARAMS params;
    cudaError_t error =
        RT_FORWARD(cuGraphMemsetNodeGetParams_v10000, node, pNodeParams ? &params : NULL);

    if (error == cudaSuccess)
        gs_rt_told_set(&params, pNodeParams);
    return error;
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaMemsetParams *pNodeParams)
{
    CUDA_MEMSET_NODE_PARAMS params;

    RT_TRY(gs_rt_enter());
    RT_TRY(gs_rt_leave(gs_rt_node_set(pNodeParams, &params)));
    return gs_rt_leave_cu(gs_rt_cu.cuGraphMemsetNodeSetParams_v10000(node, &params));
}
