/*
 * api_graph.c - graphs as a whole; api_graph_edge.c has lists and edges.
 * Owns:  nothing.   Lock: graph_lock while a graph is looked at.
 * Source: Driver API, "Graph Management".
 */
#include "graph.h"

SIM_API(cuGraphCreate, CUgraph *out, unsigned int flags)
{
    SIM_TRY(sim_enter(SIM_ID_cuGraphCreate));
    if (!out || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *graph = sim_graph_new(0);
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = graph->object.handle;
    sim_graph_put(graph);
    return CUDA_SUCCESS;
}

/* What was instantiated from it stays; a child graph belongs to its node. */
SIM_API(cuGraphDestroy, CUgraph handle)
{
    SIM_TRY(sim_enter(SIM_ID_cuGraphDestroy));
    struct sim_graph *graph = sim_graph_get(handle);
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_object *closed = NULL;
    pthread_mutex_lock(&sim_graph_lock);
    if (!graph->owner)
        closed = sim_handle_close(handle, SIM_TYPE_GRAPH);
    if (closed)
        sim_graph_end(graph);
    pthread_mutex_unlock(&sim_graph_lock);
    if (closed)
        sim_object_unref(closed);
    sim_graph_put(graph);
    return closed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuGraphClone, CUgraph *out, CUgraph handle)
{
    struct sim_graph *copy;

    SIM_TRY(sim_enter(SIM_ID_cuGraphClone));
    struct sim_graph *from = out ? sim_graph_get(handle) : NULL;
    if (!from)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    CUresult res = sim_graph_clone(from, &copy);
    pthread_mutex_unlock(&sim_graph_lock);
    if (res == CUDA_SUCCESS) {
        *out = copy->object.handle;
        sim_graph_put(copy);
    }
    sim_graph_put(from);
    return res;
}

SIM_API(cuGraphNodeFindInClone, CUgraphNode *out, CUgraphNode original, CUgraph clone)
{
    SIM_TRY(sim_enter(SIM_ID_cuGraphNodeFindInClone));
    struct sim_node *node = out ? sim_node_get(original) : NULL;
    struct sim_graph *graph = sim_graph_get(clone);
    CUresult res = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    for (size_t i = 0; node && graph && i < graph->nodes.count; i++) {
        if (graph->nodes.nodes[i]->original == node->id) {
            *out = graph->nodes.nodes[i]->object.handle;
            res = CUDA_SUCCESS;
        }
    }
    pthread_mutex_unlock(&sim_graph_lock);
    if (graph)
        sim_graph_put(graph);
    if (node)
        sim_node_put(node);
    return res;
}

SIM_API(cuGraphNodeGetType, CUgraphNode handle, CUgraphNodeType *type)
{
    SIM_TRY(sim_enter(SIM_ID_cuGraphNodeGetType));
    struct sim_node *node = type ? sim_node_get(handle) : NULL;
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    sim_node_put(node);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphDestroyNode, CUgraphNode handle)
{
    CUresult res = sim_enter(SIM_ID_cuGraphDestroyNode);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_node *node = sim_node_get(handle);
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    if (!node->graph)
        res = CUDA_ERROR_INVALID_VALUE;
    else if (sim_graph_has_memory(node->graph))
        res = CUDA_ERROR_NOT_SUPPORTED;
    else
        sim_graph_remove(node);
    pthread_mutex_unlock(&sim_graph_lock);
    sim_node_put(node);
    return res;
}
