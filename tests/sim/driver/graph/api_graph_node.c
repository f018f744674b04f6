/*
 * api_graph_node.c - nodes: added with their parameters, or given new ones.
 * Owns:  nothing.   Lock: graph_lock while a node is added or changed.
 * Source: Driver API, "Graph Management".
 */
#include "context.h"
#include "copy.h"
#include "event.h"
#include "exec.h"
#include "graph_node.h"
#include "launch.h"

static CUresult add_to(struct sim_graph *graph, const struct sim_node_set *after,
                       const struct sim_node_parts *parts, CUgraphNode *out)
{
    struct sim_node *node;
    CUresult res = CUDA_SUCCESS;

    pthread_mutex_lock(&sim_graph_lock);
    for (size_t i = 0; i < after->count; i++) {
        if (after->nodes[i]->graph != graph)
            res = CUDA_ERROR_INVALID_VALUE;
    }
    if (res == CUDA_SUCCESS)
        res = sim_graph_add(graph, parts, after, &node);
    if (res == CUDA_SUCCESS) {
        *out = node->object.handle;
        sim_node_put(node);
    }
    pthread_mutex_unlock(&sim_graph_lock);
    return res;
}

CUresult sim_node_add(const struct sim_node_place *where, struct sim_op *work,
                      struct sim_event *event)
{
    struct sim_node_set after;

    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_graph *graph = where->out ? sim_graph_get(where->graph) : NULL;
    CUresult res = graph ? sim_nodes_read(where->after, where->count, &after)
                         : CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS) {
        const struct sim_node_parts parts = {sim_node_type(work), work, event, 0};
        res = add_to(graph, &after, &parts, where->out);
        sim_nodes_clear(&after);
    }
    if (graph)
        sim_graph_put(graph);
    sim_op_unref(work);
    return res;
}

/* Give a node new work of the same kind; the reference is taken over. */
static CUresult set_work(CUgraphNode handle, struct sim_op *work)
{
    struct sim_node *node = sim_node_get(handle);
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    if (!node) {
        sim_op_unref(work);
        return res;
    }
    pthread_mutex_lock(&sim_graph_lock);
    if (node->type == sim_node_type(work)) {
        struct sim_op *before = node->work;
        sim_op_make_pattern(work);
        node->work = work;
        work = before;
        res = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    sim_op_unref(work);
    sim_node_put(node);
    return res;
}

/* The same in an executable graph. */
static CUresult set_exec_work(CUgraphExec exec_handle, CUgraphNode handle,
                              struct sim_op *work)
{
    struct sim_exec *exec = sim_exec_get(exec_handle);
    struct sim_node *node = sim_node_get(handle);
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    if (exec && node)
        res = sim_exec_set_work(exec, node, work);
    if (node)
        sim_node_put(node);
    if (exec)
        sim_exec_put(exec);
    sim_op_unref(work);
    return res;
}

/* ---- kernels --------------------------------------------------------------------- */

static CUresult kernel_work(enum sim_api api, const CUDA_KERNEL_NODE_PARAMS *params,
                            struct sim_op **out)
{
    struct sim_context *context, *named = NULL;
    CUresult res = sim_enter_context(api, &context);

    if (res != CUDA_SUCCESS)
        return res;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    if (!params->func && params->ctx) {
        named = sim_context_get(params->ctx);
        if (!named)
            return CUDA_ERROR_INVALID_CONTEXT;
    }
    const struct sim_launch launch = {
        params->func ? params->func : (CUfunction)params->kern,
        {params->gridDimX, params->gridDimY, params->gridDimZ},
        {params->blockDimX, params->blockDimY, params->blockDimZ},
        params->sharedMemBytes,
        NULL,
        params->kernelParams,
        params->extra,
    };
    res = sim_launch_prepare(api, named ? named : context, &launch, out);
    if (named)
        sim_context_put(named);
    return res;
}

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

SIM_API(cuGraphAddKernelNode_v2, CUgraphNode *out, CUgraph graph,
        const CUgraphNode *after, size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_op *work;
    CUresult res = kernel_work(SIM_ID_cuGraphAddKernelNode_v2, params, &work);

    return res == CUDA_SUCCESS
               ? sim_node_add(&(struct sim_node_place){out, graph, after, count}, work,
                              NULL)
               : res;
}

SIM_API(cuGraphAddKernelNode, CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
        size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_KERNEL_NODE_PARAMS wide = widen(params);
    return cuGraphAddKernelNode_v2(out, graph, after, count, &wide);
}

SIM_API(cuGraphKernelNodeSetParams_v2, CUgraphNode node,
        const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_op *work;
    CUresult res = kernel_work(SIM_ID_cuGraphKernelNodeSetParams_v2, params, &work);

    return res == CUDA_SUCCESS ? set_work(node, work) : res;
}

SIM_API(cuGraphExecKernelNodeSetParams_v2, CUgraphExec exec, CUgraphNode node,
        const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_op *work;
    CUresult res = kernel_work(SIM_ID_cuGraphExecKernelNodeSetParams_v2, params, &work);

    return res == CUDA_SUCCESS ? set_exec_work(exec, node, work) : res;
}

/* ---- copies and sets ------------------------------------------------------------- */

/* Work that does nothing keeps the kind of its node. */
static CUresult or_nothing(enum sim_api api, enum sim_op_kind kind, struct sim_op **work)
{
    if (!*work)
        *work = sim_op_new(kind, api, NULL);
    return *work ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult copy_work(enum sim_api api, const CUDA_MEMCPY3D *params,
                          struct sim_op **out)
{
    CUresult res = sim_enter(api);

    if (res == CUDA_SUCCESS)
        res = sim_copy_prepare_3d(api, params, out);
    return res == CUDA_SUCCESS ? or_nothing(api, SIM_OP_COPY, out) : res;
}

static CUresult set_of_memory(enum sim_api api, const CUDA_MEMSET_NODE_PARAMS *params,
                              struct sim_op **out)
{
    CUresult res = sim_enter(api);

    if (res != CUDA_SUCCESS)
        return res;
    if (!params || (params->elementSize != 1 && params->elementSize != 2 &&
                    params->elementSize != 4))
        return CUDA_ERROR_INVALID_VALUE;
    res = sim_set_prepare(api, params->dst, params->height > 1 ? params->pitch : 0,
                          params->elementSize, params->value, params->width,
                          params->height, out);
    return res == CUDA_SUCCESS ? or_nothing(api, SIM_OP_SET, out) : res;
}

SIM_API(cuGraphAddMemcpyNode, CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
        size_t count, const CUDA_MEMCPY3D *params, CUcontext context)
{
    struct sim_op *work;
    CUresult res = copy_work(SIM_ID_cuGraphAddMemcpyNode, params, &work);

    (void)context; /* copies run in the context of the launching stream */
    return res == CUDA_SUCCESS
               ? sim_node_add(&(struct sim_node_place){out, graph, after, count}, work,
                              NULL)
               : res;
}

SIM_API(cuGraphMemcpyNodeSetParams, CUgraphNode node, const CUDA_MEMCPY3D *params)
{
    struct sim_op *work;
    CUresult res = copy_work(SIM_ID_cuGraphMemcpyNodeSetParams, params, &work);

    return res == CUDA_SUCCESS ? set_work(node, work) : res;
}

SIM_API(cuGraphExecMemcpyNodeSetParams, CUgraphExec exec, CUgraphNode node,
        const CUDA_MEMCPY3D *params, CUcontext context)
{
    struct sim_op *work;
    CUresult res = copy_work(SIM_ID_cuGraphExecMemcpyNodeSetParams, params, &work);

    (void)context;
    return res == CUDA_SUCCESS ? set_exec_work(exec, node, work) : res;
}

SIM_API(cuGraphAddMemsetNode, CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
        size_t count, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    struct sim_op *work;
    CUresult res = set_of_memory(SIM_ID_cuGraphAddMemsetNode, params, &work);

    (void)context;
    return res == CUDA_SUCCESS
               ? sim_node_add(&(struct sim_node_place){out, graph, after, count}, work,
                              NULL)
               : res;
}

SIM_API(cuGraphMemsetNodeSetParams, CUgraphNode node,
        const CUDA_MEMSET_NODE_PARAMS *params)
{
    struct sim_op *work;
    CUresult res = set_of_memory(SIM_ID_cuGraphMemsetNodeSetParams, params, &work);

    return res == CUDA_SUCCESS ? set_work(node, work) : res;
}

SIM_API(cuGraphExecMemsetNodeSetParams, CUgraphExec exec, CUgraphNode node,
        const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    struct sim_op *work;
    CUresult res = set_of_memory(SIM_ID_cuGraphExecMemsetNodeSetParams, params, &work);

    (void)context;
    return res == CUDA_SUCCESS ? set_exec_work(exec, node, work) : res;
}

/* ---- host functions, events, nothing --------------------------------------------- */

static CUresult host_work(enum sim_api api, const CUDA_HOST_NODE_PARAMS *params,
                          struct sim_op **out)
{
    CUresult res = sim_enter(api);

    if (res != CUDA_SUCCESS)
        return res;
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    *out = sim_host_function_op(api, params->fn, params->userData);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_API(cuGraphAddHostNode, CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
        size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
    struct sim_op *work;
    CUresult res = host_work(SIM_ID_cuGraphAddHostNode, params, &work);

    return res == CUDA_SUCCESS
               ? sim_node_add(&(struct sim_node_place){out, graph, after, count}, work,
                              NULL)
               : res;
}

SIM_API(cuGraphHostNodeSetParams, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params)
{
    struct sim_op *work;
    CUresult res = host_work(SIM_ID_cuGraphHostNodeSetParams, params, &work);

    return res == CUDA_SUCCESS ? set_work(node, work) : res;
}

SIM_API(cuGraphExecHostNodeSetParams, CUgraphExec exec, CUgraphNode node,
        const CUDA_HOST_NODE_PARAMS *params)
{
    struct sim_op *work;
    CUresult res = host_work(SIM_ID_cuGraphExecHostNodeSetParams, params, &work);

    return res == CUDA_SUCCESS ? set_exec_work(exec, node, work) : res;
}

SIM_API(cuGraphHostNodeGetParams, CUgraphNode handle, CUDA_HOST_NODE_PARAMS *out)
{
    CUresult res = sim_enter(SIM_ID_cuGraphHostNodeGetParams);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_node *node = out ? sim_node_get(handle) : NULL;
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    res = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    if (node->type == CU_GRAPH_NODE_TYPE_HOST) {
        out->fn = node->work->host.function;
        out->userData = node->work->host.data;
        res = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    sim_node_put(node);
    return res;
}

SIM_API(cuGraphAddEmptyNode, CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
        size_t count)
{
    CUresult res = sim_enter(SIM_ID_cuGraphAddEmptyNode);

    return res == CUDA_SUCCESS
               ? sim_node_add(&(struct sim_node_place){out, graph, after, count},
                              sim_op_new(SIM_OP_MARK, SIM_ID_cuGraphAddEmptyNode, NULL),
                              NULL)
               : res;
}

static CUresult add_event(enum sim_api api, enum sim_op_kind kind,
                          const struct sim_node_place *where, CUevent handle)
{
    CUresult res = sim_enter(api);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_event *event = sim_event_get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_VALUE;
    res = sim_node_add(where, sim_op_new(kind, api, NULL), event);
    sim_event_put(event);
    return res;
}

SIM_API(cuGraphAddEventRecordNode, CUgraphNode *out, CUgraph graph,
        const CUgraphNode *after, size_t count, CUevent event)
{
    return add_event(SIM_ID_cuGraphAddEventRecordNode, SIM_OP_EVENT,
                     &(struct sim_node_place){out, graph, after, count}, event);
}

SIM_API(cuGraphAddEventWaitNode, CUgraphNode *out, CUgraph graph,
        const CUgraphNode *after, size_t count, CUevent event)
{
    return add_event(SIM_ID_cuGraphAddEventWaitNode, SIM_OP_WAIT,
                     &(struct sim_node_place){out, graph, after, count}, event);
}

static CUresult get_event(enum sim_api api, CUgraphNodeType type, CUgraphNode handle,
                          CUevent *out)
{
    CUresult res = sim_enter(api);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_node *node = out ? sim_node_get(handle) : NULL;
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    bool right = node->type == type && node->event;
    if (right)
        *out = node->event->object.handle;
    sim_node_put(node);
    return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuGraphEventRecordNodeGetEvent, CUgraphNode node, CUevent *out)
{
    return get_event(SIM_ID_cuGraphEventRecordNodeGetEvent,
                     CU_GRAPH_NODE_TYPE_EVENT_RECORD, node, out);
}

SIM_API(cuGraphEventWaitNodeGetEvent, CUgraphNode node, CUevent *out)
{
    return get_event(SIM_ID_cuGraphEventWaitNodeGetEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                     node, out);
}
