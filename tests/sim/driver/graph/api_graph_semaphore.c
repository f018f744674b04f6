/*
 * api_graph_semaphore.c - nodes that signal external semaphores or wait for them.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, cuGraphAddExternalSemaphoresSignalNode and its kin.
 */
#include <stdlib.h>
#include <string.h>

#include "external.h"
#include "graph_node.h"

/* What both kinds come down to. */
struct request {
    const CUexternalSemaphore *handles;
    const void *params;
    size_t param_bytes; /* of one */
    unsigned count;
};

static bool copy_request(const struct request *request, struct sim_work *work)
{
    size_t handles = request->count * sizeof(CUexternalSemaphore);
    size_t params = request->count * request->param_bytes;

    work->ops = calloc(request->count + 1, sizeof(struct sim_op *));
    work->semaphores.handles = malloc(handles + 1);
    work->semaphores.params = malloc(params + 1);
    if (!work->ops || !work->semaphores.handles || !work->semaphores.params)
        return false;
    if (request->count > 0) {
        memcpy(work->semaphores.handles, request->handles, handles);
        memcpy(work->semaphores.params, request->params, params);
    }
    work->semaphores.count = request->count;
    return true;
}

/* The next operation of the work. */
static CUresult add(enum sim_api api, struct sim_work *work, unsigned index,
                    uint64_t value, unsigned flags, bool waits)
{
    struct sim_op *op;

    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = sim_external_semaphore_op(api, work->semaphores.handles[index], value,
                                             waits, &op);
    if (res == CUDA_ERROR_INVALID_HANDLE)
        return CUDA_ERROR_INVALID_VALUE;
    if (res != CUDA_SUCCESS)
        return res;
    sim_op_make_pattern(op);
    work->ops[work->op_count++] = op;
    return CUDA_SUCCESS;
}

/* Empty work with a copy of the request, or why there is none. */
static CUresult begin(enum sim_api api, CUgraphNodeType type,
                      const struct request *request, struct sim_work **out)
{
    SIM_TRY(sim_enter(api));
    if (request->count > 0 && (!request->handles || !request->params))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_work *work = sim_work_empty(type);
    if (work && copy_request(request, work)) {
        *out = work;
        return CUDA_SUCCESS;
    }
    sim_work_unref(work);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult finish(struct sim_work *work, CUresult res, struct sim_work **out)
{
    if (res == CUDA_SUCCESS)
        *out = work;
    else
        sim_work_unref(work);
    return res;
}

CUresult sim_work_signal(enum sim_api api, const void *params, struct sim_work **out)
{
    static const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS wrong = {.numExtSems = 1};
    const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *wanted = params ? params : &wrong;
    const struct request request = {wanted->extSemArray, wanted->paramsArray,
                                    sizeof(*wanted->paramsArray), wanted->numExtSems};
    struct sim_work *work;
    CUresult res = begin(api, CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, &request, &work);

    if (res != CUDA_SUCCESS)
        return res;
    for (unsigned i = 0; i < request.count && res == CUDA_SUCCESS; i++)
        res = add(api, work, i, wanted->paramsArray[i].params.fence.value,
                  wanted->paramsArray[i].flags, false);
    return finish(work, res, out);
}

CUresult sim_work_await(enum sim_api api, const void *params, struct sim_work **out)
{
    static const CUDA_EXT_SEM_WAIT_NODE_PARAMS wrong = {.numExtSems = 1};
    const CUDA_EXT_SEM_WAIT_NODE_PARAMS *wanted = params ? params : &wrong;
    const struct request request = {wanted->extSemArray, wanted->paramsArray,
                                    sizeof(*wanted->paramsArray), wanted->numExtSems};
    struct sim_work *work;
    CUresult res = begin(api, CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, &request, &work);

    if (res != CUDA_SUCCESS)
        return res;
    for (unsigned i = 0; i < request.count && res == CUDA_SUCCESS; i++)
        res = add(api, work, i, wanted->paramsArray[i].params.fence.value,
                  wanted->paramsArray[i].flags, true);
    return finish(work, res, out);
}

SIM_API_ONE(cuGraphAddExternalSemaphoresSignalNode,
            (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t count,
             const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *params),
            sim_node_make(api, sim_work_signal,
                          &(struct sim_node_place){out, graph, after, NULL, count},
                          params));

SIM_API_ONE(cuGraphExternalSemaphoresSignalNodeGetParams,
            (CUgraphNode node, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *out),
            sim_node_tell(api, CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, node, out));

SIM_API_ONE(cuGraphExternalSemaphoresSignalNodeSetParams,
            (CUgraphNode node, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *params),
            sim_node_set(api, sim_work_signal, node, params));

SIM_API_ONE(cuGraphExecExternalSemaphoresSignalNodeSetParams,
            (CUgraphExec exec, CUgraphNode node,
             const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *params),
            sim_node_set_exec(api, sim_work_signal, exec, node, params));

SIM_API_ONE(cuGraphAddExternalSemaphoresWaitNode,
            (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t count,
             const CUDA_EXT_SEM_WAIT_NODE_PARAMS *params),
            sim_node_make(api, sim_work_await,
                          &(struct sim_node_place){out, graph, after, NULL, count},
                          params));

SIM_API_ONE(cuGraphExternalSemaphoresWaitNodeGetParams,
            (CUgraphNode node, CUDA_EXT_SEM_WAIT_NODE_PARAMS *out),
            sim_node_tell(api, CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, node, out));

SIM_API_ONE(cuGraphExternalSemaphoresWaitNodeSetParams,
            (CUgraphNode node, const CUDA_EXT_SEM_WAIT_NODE_PARAMS *params),
            sim_node_set(api, sim_work_await, node, params));

SIM_API_ONE(cuGraphExecExternalSemaphoresWaitNodeSetParams,
            (CUgraphExec exec, CUgraphNode node,
             const CUDA_EXT_SEM_WAIT_NODE_PARAMS *params),
            sim_node_set_exec(api, sim_work_await, exec, node, params));
