/*
 * graph_node.c - what the calls on single nodes share.
 * Owns:  nothing.   Lock: graph_lock, taken inside; an executable graph's (exec.c).
 * Source: Driver API, "Graph Management".
 */
#include "graph_node.h"

#include "exec.h"

/* Needs graph_lock. */
static CUresult add_to(struct sim_graph *graph, const struct sim_node_set *after,
                       const struct sim_node_parts *parts, CUgraphNode *out)
{
    const struct sim_graph_memory *memory = sim_work_memory(parts->work);
    struct sim_node *node;

    for (size_t i = 0; i < after->count; i++) {
        if (after->nodes[i]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (memory && graph->owner)
        return CUDA_ERROR_INVALID_VALUE; /* not in a child graph */
    if (parts->work->type == CU_GRAPH_NODE_TYPE_MEM_FREE &&
        !sim_graph_may_free(graph, memory))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = sim_graph_add(graph, parts, after, &node);
    if (res == CUDA_SUCCESS) {
        *out = node->object.handle;
        sim_node_put(node);
    }
    return res;
}

CUresult sim_node_add(const struct sim_node_place *place,
                      const struct sim_node_parts *parts)
{
    struct sim_node_set after;
    struct sim_graph *graph = place->out ? sim_graph_get(place->graph) : NULL;
    CUresult res = graph
                       ? sim_nodes_read(place->after, place->edges, place->count, &after)
                       : CUDA_ERROR_INVALID_VALUE;

    if (res == CUDA_SUCCESS) {
        pthread_mutex_lock(&sim_graph_lock);
        res = add_to(graph, &after, parts, place->out);
        pthread_mutex_unlock(&sim_graph_lock);
        sim_nodes_clear(&after);
    }
    if (graph)
        sim_graph_put(graph);
    return res;
}

CUresult sim_node_make(enum sim_api api, sim_work_maker *make,
                       const struct sim_node_place *place, const void *params)
{
    struct sim_work *work;

    SIM_TRY(make(api, params, &work));
    CUresult res = sim_node_add(place, &(const struct sim_node_parts){.work = work});
    sim_work_unref(work);
    return res;
}

CUresult sim_node_set(enum sim_api api, sim_work_maker *make, CUgraphNode handle,
                      const void *params)
{
    struct sim_work *work;

    SIM_TRY(make(api, params, &work));
    struct sim_node *node = sim_node_get(handle);
    CUresult res = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    if (node && node->type == work->type) {
        struct sim_work *before = node->work;
        node->work = work;
        work = before;
        res = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    sim_work_unref(work);
    if (node)
        sim_node_put(node);
    return res;
}

CUresult sim_node_set_exec(enum sim_api api, sim_work_maker *make,
                           CUgraphExec exec_handle, CUgraphNode handle,
                           const void *params)
{
    struct sim_work *work;

    SIM_TRY(make(api, params, &work));
    struct sim_exec *exec = sim_exec_get(exec_handle);
    struct sim_node *node = sim_node_get(handle);
    CUresult res =
        exec && node ? sim_exec_set_work(exec, node, work) : CUDA_ERROR_INVALID_VALUE;
    if (node)
        sim_node_put(node);
    if (exec)
        sim_exec_put(exec);
    sim_work_unref(work);
    return res;
}

CUresult sim_node_tell(enum sim_api api, CUgraphNodeType type, CUgraphNode handle,
                       void *out)
{
    SIM_TRY(sim_enter(api));
    struct sim_node *node = out ? sim_node_get(handle) : NULL;
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    if (node->type == type) {
        sim_work_tell(node->work, out);
        res = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    sim_node_put(node);
    return res;
}
