/*
 * api_graph_any.c - nodes of any kind by one call, their parameters in a tagged union.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, cuGraphAddNode, cuGraphNodeSetParams, cuGraphExecNodeSetParams.
 */
#include "graph_node.h"

#if CUDA_VERSION >= 12030

/* How a kind's parameters become work; NULL: not by parameters alone. */
static sim_work_maker *maker_of(CUgraphNodeType type)
{
    switch ((int)type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return sim_work_kernel;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return sim_work_copy;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return sim_work_set;
    case CU_GRAPH_NODE_TYPE_HOST:
        return sim_work_host;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return sim_work_wait;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return sim_work_record;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return sim_work_batch;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
        return sim_work_signal;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        return sim_work_await;
    default:
        return NULL;
    }
}

/* Where in the union the maker finds what it reads. The members of the union begin like
 * the parameters of the kinds' own calls. */
static const void *params_of(const CUgraphNodeParams *params)
{
    return params->type == CU_GRAPH_NODE_TYPE_MEMCPY
               ? (const void *)&params->memcpy.copyParams
               : (const void *)&params->kernel;
}

static bool reserved_is_zero(const CUgraphNodeParams *params)
{
    return params->reserved0[0] == 0 && params->reserved0[1] == 0 &&
           params->reserved0[2] == 0 && params->reserved2 == 0;
}

static CUresult add_empty(const struct sim_node_place *place)
{
    struct sim_work *work = sim_work_empty(CU_GRAPH_NODE_TYPE_EMPTY);
    CUresult res = work ? sim_node_add(place, &(struct sim_node_parts){.work = work})
                        : CUDA_ERROR_OUT_OF_MEMORY;

    sim_work_unref(work);
    return res;
}

/* Is the child graph to be moved? The member is not in all headers. */
static bool moves_child(const CUgraphNodeParams *params)
{
#if CUDA_VERSION >= 12090
    return params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
#else
    (void)params;
    return false;
#endif
}

static CUresult add_alloc(enum sim_api api, const struct sim_node_place *place,
                          CUgraphNodeParams *params)
{
    struct sim_work *work;

    SIM_TRY(sim_work_alloc(api, &params->alloc, &work));
    CUresult res = sim_node_add(place, &(const struct sim_node_parts){.work = work});
    if (res == CUDA_SUCCESS) {
        CUDA_MEM_ALLOC_NODE_PARAMS told;
        sim_work_tell(work, &told);
        params->alloc.dptr = told.dptr;
    }
    sim_work_unref(work);
    return res;
}

/* Kinds that no maker makes. */
static CUresult add_other(enum sim_api api, const struct sim_node_place *place,
                          CUgraphNodeParams *params)
{
    SIM_TRY(sim_enter(api));
    if (!params || !reserved_is_zero(params))
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)params->type) {
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return add_empty(place);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return sim_child_add(place, params->graph.graph, moves_child(params));
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return sim_conditional_add(place, &params->conditional);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult add_any(enum sim_api api, const struct sim_node_place *place,
                        CUgraphNodeParams *params)
{
    if (!params || !reserved_is_zero(params))
        return add_other(api, place, params);
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return add_alloc(api, place, params);
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return sim_node_make(api, sim_work_free, place, &params->free.dptr);
    sim_work_maker *make = maker_of(params->type);
    return make ? sim_node_make(api, make, place, params_of(params))
                : add_other(api, place, params);
}

SIM_API_ONE(
    cuGraphAddNode,
    (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t count,
     CUgraphNodeParams *params),
    SIM_JUDGED_OR(!params, CUDA_ERROR_INVALID_VALUE,
                  add_any(api, &(struct sim_node_place){out, graph, after, NULL, count},
                          params)));

SIM_API_ONE(
    cuGraphAddNode_v2,
    (CUgraphNode * out, CUgraph graph, const CUgraphNode *after,
     const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params),
    SIM_JUDGED_OR(!params, CUDA_ERROR_INVALID_VALUE,
                  add_any(api, &(struct sim_node_place){out, graph, after, edges, count},
                          params)));

/* The maker of a kind whose parameters may be set by it; NULL: another kind, or nothing
 * right. */
static sim_work_maker *setter_of(const CUgraphNodeParams *params)
{
    return params && reserved_is_zero(params) ? maker_of(params->type) : NULL;
}

/* Why the parameters cannot be set by a maker; CUDA_SUCCESS: they are a child graph. */
static CUresult set_other(enum sim_api api, const CUgraphNodeParams *params)
{
    SIM_TRY(sim_enter(api));
    if (!params || !reserved_is_zero(params))
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)params->type) {
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* A child graph node's graph is changed itself, not exchanged. */
SIM_API(cuGraphNodeSetParams, CUgraphNode node, CUgraphNodeParams *params)
{
    SIM_JUDGED_FIRST(!node || !params, CUDA_ERROR_INVALID_VALUE);

    sim_work_maker *make = setter_of(params);

    if (make)
        return sim_node_set(SIM_ID_cuGraphNodeSetParams, make, node, params_of(params));
    CUresult res = set_other(SIM_ID_cuGraphNodeSetParams, params);
    return res == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : res;
}

SIM_API(cuGraphExecNodeSetParams, CUgraphExec exec, CUgraphNode node,
        CUgraphNodeParams *params)
{
    sim_work_maker *make = setter_of(params);

    if (make)
        return sim_node_set_exec(SIM_ID_cuGraphExecNodeSetParams, make, exec, node,
                                 params_of(params));
    CUresult res = set_other(SIM_ID_cuGraphExecNodeSetParams, params);
    return res == CUDA_SUCCESS ? sim_child_update(exec, node, params->graph.graph) : res;
}

#else

SIM_API_TOO_NEW(cuGraphAddNode)
SIM_API_TOO_NEW(cuGraphAddNode_v2)
SIM_API_TOO_NEW(cuGraphNodeSetParams)
SIM_API_TOO_NEW(cuGraphExecNodeSetParams)

#endif
