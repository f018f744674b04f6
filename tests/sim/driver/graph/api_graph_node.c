/*
 * api_graph_node.c - nodes by kind: added with their parameters, given new ones, asked.
 * The kinds differ in how parameters become work (node_work.h); graph_node.c has the
 * rest. Contexts named beside copies and sets are not looked at: these run in the context
 * of the launching stream. Owns:  nothing.   Lock: none of its own. Source: Driver API,
 * "Graph Management".
 */
#include "graph_node.h"

/* ---- kernels --------------------------------------------------------------------- */

/* The first form of the parameters as the second. */
static CUDA_KERNEL_NODE_PARAMS widen(const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    return (CUDA_KERNEL_NODE_PARAMS){
        .func = params->func,
        .gridDimX = params->gridDimX,
        .gridDimY = params->gridDimY,
        .gridDimZ = params->gridDimZ,
        .blockDimX = params->blockDimX,
        .blockDimY = params->blockDimY,
        .blockDimZ = params->blockDimZ,
        .sharedMemBytes = params->sharedMemBytes,
        .kernelParams = params->kernelParams,
        .extra = params->extra,
    };
}

SIM_API(cuGraphAddKernelNode, CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
        size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    const CUDA_KERNEL_NODE_PARAMS wide =
        params ? widen(params) : (CUDA_KERNEL_NODE_PARAMS){0};

    return sim_node_make(SIM_ID_cuGraphAddKernelNode, sim_work_kernel,
                         &(struct sim_node_place){out, graph, after, NULL, count},
                         params ? &wide : NULL);
}

SIM_API(cuGraphKernelNodeSetParams, CUgraphNode node,
        const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    SIM_JUDGED_FIRST(!node, CUDA_ERROR_INVALID_VALUE);

    const CUDA_KERNEL_NODE_PARAMS wide =
        params ? widen(params) : (CUDA_KERNEL_NODE_PARAMS){0};

    return sim_node_set(SIM_ID_cuGraphKernelNodeSetParams, sim_work_kernel, node,
                        params ? &wide : NULL);
}

SIM_API(cuGraphExecKernelNodeSetParams, CUgraphExec exec, CUgraphNode node,
        const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    const CUDA_KERNEL_NODE_PARAMS wide =
        params ? widen(params) : (CUDA_KERNEL_NODE_PARAMS){0};

    return sim_node_set_exec(SIM_ID_cuGraphExecKernelNodeSetParams, sim_work_kernel, exec,
                             node, params ? &wide : NULL);
}

SIM_API(cuGraphKernelNodeGetParams, CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *out)
{
    SIM_JUDGED_FIRST(!node || !out, CUDA_ERROR_INVALID_VALUE);

    CUDA_KERNEL_NODE_PARAMS wide;

    SIM_TRY(sim_node_tell(SIM_ID_cuGraphKernelNodeGetParams, CU_GRAPH_NODE_TYPE_KERNEL,
                          node, out ? &wide : NULL));
    *out = (CUDA_KERNEL_NODE_PARAMS_v1){
        .func = wide.func ? wide.func : (CUfunction)wide.kern,
        .gridDimX = wide.gridDimX,
        .gridDimY = wide.gridDimY,
        .gridDimZ = wide.gridDimZ,
        .blockDimX = wide.blockDimX,
        .blockDimY = wide.blockDimY,
        .blockDimZ = wide.blockDimZ,
        .sharedMemBytes = wide.sharedMemBytes,
        .kernelParams = wide.kernelParams,
        .extra = wide.extra,
    };
    return CUDA_SUCCESS;
}

SIM_API_ONE(cuGraphAddKernelNode_v2,
            (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t count,
             const CUDA_KERNEL_NODE_PARAMS *params),
            sim_node_make(api, sim_work_kernel,
                          &(struct sim_node_place){out, graph, after, NULL, count},
                          params));

SIM_API_ONE(cuGraphKernelNodeSetParams_v2,
            (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params),
            SIM_JUDGED_OR(!node, CUDA_ERROR_INVALID_VALUE,
                          sim_node_set(api, sim_work_kernel, node, params)));

SIM_API_ONE(cuGraphExecKernelNodeSetParams_v2,
            (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params),
            sim_node_set_exec(api, sim_work_kernel, exec, node, params));

SIM_API_ONE(cuGraphKernelNodeGetParams_v2,
            (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out),
            SIM_JUDGED_OR(!node || !out, CUDA_ERROR_INVALID_VALUE,
                          sim_node_tell(api, CU_GRAPH_NODE_TYPE_KERNEL, node, out)));

/* ---- copies and sets ------------------------------------------------------------- */

SIM_API(cuGraphAddMemcpyNode, CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
        size_t count, const CUDA_MEMCPY3D *params, CUcontext context)
{
    (void)context;
    return sim_node_make(SIM_ID_cuGraphAddMemcpyNode, sim_work_copy,
                         &(struct sim_node_place){out, graph, after, NULL, count},
                         params);
}

SIM_API_ONE(cuGraphMemcpyNodeSetParams, (CUgraphNode node, const CUDA_MEMCPY3D *params),
            sim_node_set(api, sim_work_copy, node, params));

SIM_API(cuGraphExecMemcpyNodeSetParams, CUgraphExec exec, CUgraphNode node,
        const CUDA_MEMCPY3D *params, CUcontext context)
{
    SIM_JUDGED_FIRST(!context, CUDA_ERROR_INVALID_VALUE);

    (void)context;
    return sim_node_set_exec(SIM_ID_cuGraphExecMemcpyNodeSetParams, sim_work_copy, exec,
                             node, params);
}

SIM_API_ONE(cuGraphMemcpyNodeGetParams, (CUgraphNode node, CUDA_MEMCPY3D *out),
            sim_node_tell(api, CU_GRAPH_NODE_TYPE_MEMCPY, node, out));

SIM_API(cuGraphAddMemsetNode, CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
        size_t count, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    (void)context;
    return sim_node_make(SIM_ID_cuGraphAddMemsetNode, sim_work_set,
                         &(struct sim_node_place){out, graph, after, NULL, count},
                         params);
}

SIM_API_ONE(cuGraphMemsetNodeSetParams,
            (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params),
            sim_node_set(api, sim_work_set, node, params));

SIM_API(cuGraphExecMemsetNodeSetParams, CUgraphExec exec, CUgraphNode node,
        const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    SIM_JUDGED_FIRST(!context, CUDA_ERROR_INVALID_VALUE);

    (void)context;
    return sim_node_set_exec(SIM_ID_cuGraphExecMemsetNodeSetParams, sim_work_set, exec,
                             node, params);
}

SIM_API_ONE(cuGraphMemsetNodeGetParams, (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *out),
            sim_node_tell(api, CU_GRAPH_NODE_TYPE_MEMSET, node, out));

/* ---- host functions, memory operations ------------------------------------------- */

SIM_API_ONE(cuGraphAddHostNode,
            (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t count,
             const CUDA_HOST_NODE_PARAMS *params),
            sim_node_make(api, sim_work_host,
                          &(struct sim_node_place){out, graph, after, NULL, count},
                          params));

SIM_API_ONE(cuGraphHostNodeSetParams,
            (CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params),
            sim_node_set(api, sim_work_host, node, params));

SIM_API_ONE(cuGraphExecHostNodeSetParams,
            (CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params),
            sim_node_set_exec(api, sim_work_host, exec, node, params));

SIM_API_ONE(cuGraphHostNodeGetParams, (CUgraphNode node, CUDA_HOST_NODE_PARAMS *out),
            sim_node_tell(api, CU_GRAPH_NODE_TYPE_HOST, node, out));

SIM_API_ONE(cuGraphAddBatchMemOpNode,
            (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t count,
             const CUDA_BATCH_MEM_OP_NODE_PARAMS *params),
            sim_node_make(api, sim_work_batch,
                          &(struct sim_node_place){out, graph, after, NULL, count},
                          params));

SIM_API_ONE(cuGraphBatchMemOpNodeSetParams,
            (CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params),
            sim_node_set(api, sim_work_batch, node, params));

SIM_API_ONE(cuGraphExecBatchMemOpNodeSetParams,
            (CUgraphExec exec, CUgraphNode node,
             const CUDA_BATCH_MEM_OP_NODE_PARAMS *params),
            sim_node_set_exec(api, sim_work_batch, exec, node, params));

SIM_API_ONE(cuGraphBatchMemOpNodeGetParams,
            (CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *out),
            sim_node_tell(api, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, node, out));

/* ---- events, nothing ------------------------------------------------------------- */

SIM_API_ONE(cuGraphAddEventRecordNode,
            (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t count,
             CUevent params),
            sim_node_make(api, sim_work_record,
                          &(struct sim_node_place){out, graph, after, NULL, count},
                          &params));

SIM_API_ONE(cuGraphEventRecordNodeSetEvent, (CUgraphNode node, CUevent params),
            sim_node_set(api, sim_work_record, node, &params));

SIM_API_ONE(cuGraphExecEventRecordNodeSetEvent,
            (CUgraphExec exec, CUgraphNode node, CUevent params),
            sim_node_set_exec(api, sim_work_record, exec, node, &params));

SIM_API_ONE(cuGraphEventRecordNodeGetEvent, (CUgraphNode node, CUevent *out),
            sim_node_tell(api, CU_GRAPH_NODE_TYPE_EVENT_RECORD, node, out));

SIM_API_ONE(cuGraphAddEventWaitNode,
            (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t count,
             CUevent params),
            sim_node_make(api, sim_work_wait,
                          &(struct sim_node_place){out, graph, after, NULL, count},
                          &params));

SIM_API_ONE(cuGraphEventWaitNodeSetEvent, (CUgraphNode node, CUevent params),
            sim_node_set(api, sim_work_wait, node, &params));

SIM_API_ONE(cuGraphExecEventWaitNodeSetEvent,
            (CUgraphExec exec, CUgraphNode node, CUevent params),
            sim_node_set_exec(api, sim_work_wait, exec, node, &params));

SIM_API_ONE(cuGraphEventWaitNodeGetEvent, (CUgraphNode node, CUevent *out),
            sim_node_tell(api, CU_GRAPH_NODE_TYPE_WAIT_EVENT, node, out));

static CUresult empty_work(enum sim_api api, const void *params, struct sim_work **out)
{
    CUresult res = sim_enter(api);

    (void)params;
    if (res != CUDA_SUCCESS)
        return res;
    *out = sim_work_empty(CU_GRAPH_NODE_TYPE_EMPTY);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_API_ONE(cuGraphAddEmptyNode,
            (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t count),
            sim_node_make(api, empty_work,
                          &(struct sim_node_place){out, graph, after, NULL, count},
                          NULL));
