/*
 * graph_any.c - nodes of any kind by one call, conditions, and batches of boxes. Kernel,
 * copy and set nodes differ from the driver's, which also names a context; the others are
 * the same in memory.
 * Owns:  nothing.   Lock: none.
 */
#include "graph_params.h"

#include <string.h>

static_assert(sizeof(struct cudaGraphNodeParams) == sizeof(CUgraphNodeParams),
              "same size of any node");
static_assert(offsetof(struct cudaGraphNodeParams, alloc) ==
                  offsetof(CUgraphNodeParams, alloc),
              "same place of the union");
static_assert(sizeof(struct cudaChildGraphNodeParams) ==
                  sizeof(CUDA_CHILD_GRAPH_NODE_PARAMS),
              "same child graph node");
static_assert(offsetof(struct cudaConditionalNodeParams, phGraph_out) ==
                  offsetof(CUDA_CONDITIONAL_NODE_PARAMS, phGraph_out),
              "same conditional node");
static_assert(sizeof(struct cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP),
              "same batched copy");

/* ---- nodes ----------------------------------------------------------------------- */

static cudaError_t describe_kernel(const struct cudaKernelNodeParamsV2 *params,
                                   CUcontext context, CUgraphNodeParams *out)
{
    const struct cudaKernelNodeParams plain = {
        .func = params->func,
        .gridDim = params->gridDim,
        .blockDim = params->blockDim,
        .sharedMemBytes = params->sharedMemBytes,
        .kernelParams = params->kernelParams,
        .extra = params->extra,
    };
    CUDA_KERNEL_NODE_PARAMS driver;
    cudaError_t error = gs_rt_node_kernel(&plain, context, &driver);

    if (error == cudaSuccess)
        memcpy(&out->kernel, &driver, sizeof(driver));
    return error;
}

static cudaError_t describe_set(const struct cudaMemsetParamsV2 *params,
                                CUcontext context, CUgraphNodeParams *out)
{
    const struct cudaMemsetParams plain = {
        .dst = params->dst,
        .pitch = params->pitch,
        .value = params->value,
        .elementSize = params->elementSize,
        .width = params->width,
        .height = params->height,
    };
    CUDA_MEMSET_NODE_PARAMS driver;

    RT_TRY(gs_rt_node_set(&plain, &driver));
    memcpy(&out->memset, &driver, sizeof(driver));
    out->memset.ctx = context;
    return cudaSuccess;
}

/* The driver's parameters for the runtime's. */
static cudaError_t describe(const struct cudaGraphNodeParams *params, CUcontext context,
                            CUgraphNodeParams *out)
{
    if (!params)
        return cudaErrorInvalidValue;
    memcpy(out, params, sizeof(*out));
    if (params->type != cudaGraphNodeTypeKernel &&
        params->type != cudaGraphNodeTypeMemcpy &&
        params->type != cudaGraphNodeTypeMemset) {
        if (params->type == cudaGraphNodeTypeConditional)
            out->conditional.ctx = context;
        return cudaSuccess;
    }
    memset(&out->kernel, 0, sizeof(out->reserved1));
    if (params->type == cudaGraphNodeTypeKernel)
        return describe_kernel(&params->kernel, context, out);
    if (params->type == cudaGraphNodeTypeMemset)
        return describe_set(&params->memset, context, out);
    out->memcpy.flags = params->memcpy.flags;
    out->memcpy.copyCtx = context;
    return gs_rt_copy3d(&params->memcpy.copyParams, &out->memcpy.copyParams);
}

/* What the driver has written into them. */
static void tell_back(const CUgraphNodeParams *driver, struct cudaGraphNodeParams *params)
{
    if (params->type == cudaGraphNodeTypeMemAlloc)
        params->alloc.dptr = (void *)(uintptr_t)driver->alloc.dptr;
    if (params->type == cudaGraphNodeTypeConditional)
        params->conditional.phGraph_out = driver->conditional.phGraph_out;
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                             const cudaGraphNode_t *pDependencies,
                             const cudaGraphEdgeData *dependencyData,
                             size_t numDependencies,
                             struct cudaGraphNodeParams *nodeParams)
{
    CUgraphNodeParams params;
    CUcontext context;

    RT_TRY(gs_rt_enter_in(&context));
    RT_TRY(gs_rt_leave(describe(nodeParams, context, &params)));
    cudaError_t error = gs_rt_leave_cu(gs_rt_cu.cuGraphAddNode_v12030(
        pGraphNode, graph, pDependencies, (const CUgraphEdgeData *)dependencyData,
        numDependencies, &params));
    if (error == cudaSuccess)
        tell_back(&params, nodeParams);
    return error;
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node,
                                   struct cudaGraphNodeParams *nodeParams)
{
    CUgraphNodeParams params;
    CUcontext context;

    RT_TRY(gs_rt_enter_in(&context));
    RT_TRY(gs_rt_leave(describe(nodeParams, context, &params)));
    return gs_rt_leave_cu(gs_rt_cu.cuGraphNodeSetParams_v12020(node, &params));
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
                                       struct cudaGraphNodeParams *nodeParams)
{
    CUgraphNodeParams params;
    CUcontext context;

    RT_TRY(gs_rt_enter_in(&context));
    RT_TRY(gs_rt_leave(describe(nodeParams, context, &params)));
    return gs_rt_leave_cu(
        gs_rt_cu.cuGraphExecNodeSetParams_v12020(graphExec, node, &params));
}

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *pHandle_out,
                                             cudaGraph_t graph,
                                             unsigned int defaultLaunchValue,
                                             unsigned int flags)
{
    CUcontext context;

    RT_TRY(gs_rt_enter_in(&context));
    return gs_rt_leave_cu(gs_rt_cu.cuGraphConditionalHandleCreate_v12030(
        (CUgraphConditionalHandle *)pHandle_out, graph, context, defaultLaunchValue,
        flags));
}

/* ---- batches --------------------------------------------------------------------- */

#if GS_RT_MAJOR >= 13

#endif
