/*
 * graph_event.c - nodes of events and external semaphores: handles only, which are the
 * driver's.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

static_assert(sizeof(struct cudaExternalSemaphoreSignalNodeParams) ==
                  sizeof(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS),
              "same signal node");
static_assert(sizeof(struct cudaExternalSemaphoreWaitNodeParams) ==
                  sizeof(CUDA_EXT_SEM_WAIT_NODE_PARAMS),
              "same wait node");
static_assert(sizeof(struct cudaExternalSemaphoreSignalParams) ==
                  sizeof(CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS),
              "same signal");
static_assert(sizeof(struct cudaExternalSemaphoreWaitParams) ==
                  sizeof(CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS),
              "same wait");

/* ---- events ---------------------------------------------------------------------- */

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out)
{
    return RT_FORWARD(cuGraphEventRecordNodeGetEvent_v11010, node, event_out);
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    return RT_FORWARD(cuGraphEventRecordNodeSetEvent_v11010, node, event);
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t hGraphExec,
                                                 cudaGraphNode_t hNode, cudaEvent_t event)
{
    return RT_FORWARD(cuGraphExecEventRecordNodeSetEvent_v11010, hGraphExec, hNode,
                      event);
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out)
{
    return RT_FORWARD(cuGraphEventWaitNodeGetEvent_v11010, node, event_out);
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    return RT_FORWARD(cuGraphEventWaitNodeSetEvent_v11010, node, event);
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t hGraphExec,
                                               cudaGraphNode_t hNode, cudaEvent_t event)
{
    return RT_FORWARD(cuGraphExecEventWaitNodeSetEvent_v11010, hGraphExec, hNode, event);
}

/* ---- external semaphores --------------------------------------------------------- */

cudaError_t cudaGraphAddExternalSemaphoresSignalNode(
    cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
    size_t numDependencies,
    const struct cudaExternalSemaphoreSignalNodeParams *nodeParams)
{
    return RT_FORWARD(cuGraphAddExternalSemaphoresSignalNode_v11020, pGraphNode, graph,
                      pDependencies, numDependencies,
                      (const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)nodeParams);
}

cudaError_t cudaGraphExternalSemaphoresSignalNodeGetParams(
    cudaGraphNode_t hNode, struct cudaExternalSemaphoreSignalNodeParams *params_out)
{
    return RT_FORWARD(cuGraphExternalSemaphoresSignalNodeGetParams_v11020, hNode,
                      (CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)params_out);
}

cudaError_t cudaGraphExternalSemaphoresSignalNodeSetParams(
    cudaGraphNode_t hNode, const struct cudaExternalSemaphoreSignalNodeParams *nodeParams)
{
    return RT_FORWARD(cuGraphExternalSemaphoresSignalNodeSetParams_v11020, hNode,
                      (const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)nodeParams);
}

cudaError_t cudaGraphExecExternalSemaphoresSignalNodeSetParams(
    cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
    const struct cudaExternalSemaphoreSignalNodeParams *nodeParams)
{
    return RT_FORWARD(cuGraphExecExternalSemaphoresSignalNodeSetParams_v11020, hGraphExec,
                      hNode, (const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)nodeParams);
}

cudaError_t cudaGraphAddExternalSemaphoresWaitNode(
    cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
    size_t numDependencies, const struct cudaExternalSemaphoreWaitNodeParams *nodeParams)
{
    return RT_FORWARD(cuGraphAddExternalSemaphoresWaitNode_v11020, pGraphNode, graph,
                      pDependencies, numDependencies,
                      (const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)nodeParams);
}

cudaError_t cudaGraphExternalSemaphoresWaitNodeGetParams(
    cudaGraphNode_t hNode, struct cudaExternalSemaphoreWaitNodeParams *params_out)
{
    return RT_FORWARD(cuGraphExternalSemaphoresWaitNodeGetParams_v11020, hNode,
                      (CUDA_EXT_SEM_WAIT_NODE_PARAMS *)params_out);
}

cudaError_t cudaGraphExternalSemaphoresWaitNodeSetParams(
    cudaGraphNode_t hNode, const struct cudaExternalSemaphoreWaitNodeParams *nodeParams)
{
    return RT_FORWARD(cuGraphExternalSemaphoresWaitNodeSetParams_v11020, hNode,
                      (const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)nodeParams);
}

cudaError_t cudaGraphExecExternalSemaphoresWaitNodeSetParams(
    cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
    const struct cudaExternalSemaphoreWaitNodeParams *nodeParams)
{
    return RT_FORWARD(cuGraphExecExternalSemaphoresWaitNodeSetParams_v11020, hGraphExec,
                      hNode, (const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)nodeParams);
}
