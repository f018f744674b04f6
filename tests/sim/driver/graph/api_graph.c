/*
 * api_graph.c - graphs as a whole, and their edges.
 * Owns:  nothing.   Lock: graph_lock while a graph is looked at.
 * Source: Driver API, "Graph Management".
 */
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "op.h"

SIM_API(cuGraphCreate, CUgraph *out, unsigned int flags)
{
    CUresult res = sim_enter(SIM_ID_cuGraphCreate);

    if (res != CUDA_SUCCESS)
        return res;
    if (!out || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *graph = sim_graph_new(0);
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = graph->object.handle;
    sim_graph_put(graph);
    return CUDA_SUCCESS;
}

/* What was instantiated from it stays. */
SIM_API(cuGraphDestroy, CUgraph handle)
{
    CUresult res = sim_enter(SIM_ID_cuGraphDestroy);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_object *closed = sim_handle_close(handle, SIM_TYPE_GRAPH);
    if (!closed)
        return CUDA_ERROR_INVALID_VALUE;
    sim_object_unref(closed);
    return CUDA_SUCCESS;
}

/* Add copies of all nodes; order gives each its place among them. Needs graph_lock. */
static CUresult clone_nodes(struct sim_graph *from, struct sim_graph *to)
{
    struct sim_node **order;
    CUresult res = sim_graph_order(from, &order);

    for (size_t i = 0; i < from->nodes.count && res == CUDA_SUCCESS; i++) {
        const struct sim_node *node = order[i];
        struct sim_node *copy;
        struct sim_node_set after = {0};
        for (size_t k = 0; k < node->after.count && res == CUDA_SUCCESS; k++) {
            if (!sim_nodes_add(&after, to->nodes.nodes[node->after.nodes[k]->place - 1]))
                res = CUDA_ERROR_OUT_OF_MEMORY;
        }
        const struct sim_node_parts parts = {node->type, node->work, node->event,
                                             node->id};
        if (res == CUDA_SUCCESS)
            res = sim_graph_add(to, &parts, &after, &copy);
        if (res == CUDA_SUCCESS)
            sim_node_put(copy);
        sim_nodes_clear(&after);
    }
    free(order);
    return res;
}

SIM_API(cuGraphClone, CUgraph *out, CUgraph handle)
{
    CUresult res = sim_enter(SIM_ID_cuGraphClone);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_graph *from = out ? sim_graph_get(handle) : NULL;
    if (!from)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *to = sim_graph_new(from->id);
    if (!to) {
        sim_graph_put(from);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&sim_graph_lock);
    res = sim_graph_has_memory(from) ? CUDA_ERROR_NOT_SUPPORTED : clone_nodes(from, to);
    pthread_mutex_unlock(&sim_graph_lock);
    if (res == CUDA_SUCCESS)
        *out = to->object.handle;
    else
        sim_object_unref(sim_handle_close(to->object.handle, SIM_TYPE_GRAPH));
    sim_graph_put(to);
    sim_graph_put(from);
    return res;
}

SIM_API(cuGraphNodeFindInClone, CUgraphNode *out, CUgraphNode original, CUgraph clone)
{
    CUresult res = sim_enter(SIM_ID_cuGraphNodeFindInClone);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_node *node = out ? sim_node_get(original) : NULL;
    struct sim_graph *graph = sim_graph_get(clone);
    res = CUDA_ERROR_INVALID_VALUE;
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
    CUresult res = sim_enter(SIM_ID_cuGraphNodeGetType);

    if (res != CUDA_SUCCESS)
        return res;
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
    else if (node->work->kind == SIM_OP_GRAPH_MEMORY)
        res = CUDA_ERROR_NOT_SUPPORTED;
    else
        sim_graph_remove(node);
    pthread_mutex_unlock(&sim_graph_lock);
    sim_node_put(node);
    return res;
}

/* ---- lists ----------------------------------------------------------------------- */

/* A list being given out: `room` entries fit, `count` there are. */
struct listing {
    CUgraphNode *first, *second; /* NULL: only count */
    size_t room, count;
};

static void list(struct listing *listing, const struct sim_node *first,
                 const struct sim_node *second)
{
    if (listing->count < listing->room) {
        if (listing->first)
            listing->first[listing->count] = first->object.handle;
        if (listing->second)
            listing->second[listing->count] = second->object.handle;
    }
    listing->count++;
}

/* The caller's count: how many there are, or how many were written. Rest is NULL. */
static void finish_listing(const struct listing *listing, CUgraphEdgeData *edges,
                           size_t *count)
{
    bool wanted = listing->first || listing->second;

    for (size_t i = listing->count; i < listing->room; i++) {
        if (listing->first)
            listing->first[i] = NULL;
        if (listing->second)
            listing->second[i] = NULL;
    }
    if (edges && wanted)
        memset(edges, 0, listing->room * sizeof(*edges));
    if (!wanted || listing->count < *count)
        *count = listing->count;
}

enum what { ALL_NODES, ROOT_NODES, EDGES };

static CUresult list_graph(enum sim_api api, enum what what, CUgraph handle,
                           CUgraphNode *first, CUgraphNode *second,
                           CUgraphEdgeData *edges, size_t *count)
{
    CUresult res = sim_enter(api);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_graph *graph = count ? sim_graph_get(handle) : NULL;
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    struct listing listing = {first, second, first || second ? *count : 0, 0};
    pthread_mutex_lock(&sim_graph_lock);
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct sim_node *node = graph->nodes.nodes[i];
        if (what == ALL_NODES || (what == ROOT_NODES && node->after.count == 0))
            list(&listing, node, NULL);
        for (size_t k = 0; what == EDGES && k < node->after.count; k++)
            list(&listing, node->after.nodes[k], node);
    }
    pthread_mutex_unlock(&sim_graph_lock);
    finish_listing(&listing, edges, count);
    sim_graph_put(graph);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphGetNodes, CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return list_graph(SIM_ID_cuGraphGetNodes, ALL_NODES, graph, nodes, NULL, NULL, count);
}

SIM_API(cuGraphGetRootNodes, CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return list_graph(SIM_ID_cuGraphGetRootNodes, ROOT_NODES, graph, nodes, NULL, NULL,
                      count);
}

SIM_API(cuGraphGetEdges, CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return list_graph(SIM_ID_cuGraphGetEdges, EDGES, graph, from, to, NULL, count);
}

SIM_API(cuGraphGetEdges_v2, CUgraph graph, CUgraphNode *from, CUgraphNode *to,
        CUgraphEdgeData *edges, size_t *count)
{
    return list_graph(SIM_ID_cuGraphGetEdges_v2, EDGES, graph, from, to, edges, count);
}

/* Those a node depends on, or those that depend on it. */
static CUresult list_neighbours(enum sim_api api, CUgraphNode handle, bool before,
                                CUgraphNode *out, CUgraphEdgeData *edges, size_t *count)
{
    CUresult res = sim_enter(api);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_node *node = count ? sim_node_get(handle) : NULL;
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    struct listing listing = {out, NULL, out ? *count : 0, 0};
    pthread_mutex_lock(&sim_graph_lock);
    for (size_t i = 0; before && i < node->after.count; i++)
        list(&listing, node->after.nodes[i], NULL);
    for (size_t i = 0; !before && node->graph && i < node->graph->nodes.count; i++) {
        const struct sim_node *other = node->graph->nodes.nodes[i];
        for (size_t k = 0; k < other->after.count; k++) {
            if (other->after.nodes[k] == node)
                list(&listing, other, NULL);
        }
    }
    pthread_mutex_unlock(&sim_graph_lock);
    finish_listing(&listing, edges, count);
    sim_node_put(node);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphNodeGetDependencies, CUgraphNode node, CUgraphNode *out, size_t *count)
{
    return list_neighbours(SIM_ID_cuGraphNodeGetDependencies, node, true, out, NULL,
                           count);
}

SIM_API(cuGraphNodeGetDependencies_v2, CUgraphNode node, CUgraphNode *out,
        CUgraphEdgeData *edges, size_t *count)
{
    return list_neighbours(SIM_ID_cuGraphNodeGetDependencies_v2, node, true, out, edges,
                           count);
}

SIM_API(cuGraphNodeGetDependentNodes, CUgraphNode node, CUgraphNode *out, size_t *count)
{
    return list_neighbours(SIM_ID_cuGraphNodeGetDependentNodes, node, false, out, NULL,
                           count);
}

SIM_API(cuGraphNodeGetDependentNodes_v2, CUgraphNode node, CUgraphNode *out,
        CUgraphEdgeData *edges, size_t *count)
{
    return list_neighbours(SIM_ID_cuGraphNodeGetDependentNodes_v2, node, false, out,
                           edges, count);
}

/* ---- edges ----------------------------------------------------------------------- */

/* Is there such an edge? Needs graph_lock. */
static bool connected(const struct sim_node *from, const struct sim_node *to)
{
    for (size_t i = 0; i < to->after.count; i++) {
        if (to->after.nodes[i] == from)
            return true;
    }
    return false;
}

/* Add or remove one edge. */
static CUresult change_edge(struct sim_graph *graph, CUgraphNode from_handle,
                            CUgraphNode to_handle, bool add)
{
    struct sim_node *from = sim_node_get(from_handle);
    struct sim_node *to = sim_node_get(to_handle);
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&sim_graph_lock);
    if (from && to && from != to && from->graph == graph && to->graph == graph &&
        connected(from, to) != add) {
        res = CUDA_SUCCESS;
        if (!add)
            sim_nodes_remove(&to->after, from);
        else if (!sim_nodes_add(&to->after, from))
            res = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&sim_graph_lock);
    if (from)
        sim_node_put(from);
    if (to)
        sim_node_put(to);
    return res;
}

static CUresult change_edges(enum sim_api api, CUgraph handle, const CUgraphNode *from,
                             const CUgraphNode *to, size_t count, bool add)
{
    CUresult res = sim_enter(api);

    if (res != CUDA_SUCCESS)
        return res;
    if (count > 0 && (!from || !to))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *graph = sim_graph_get(handle);
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++)
        res = change_edge(graph, from[i], to[i], add);
    sim_graph_put(graph);
    return res;
}

SIM_API(cuGraphAddDependencies, CUgraph graph, const CUgraphNode *from,
        const CUgraphNode *to, size_t count)
{
    return change_edges(SIM_ID_cuGraphAddDependencies, graph, from, to, count, true);
}

SIM_API(cuGraphAddDependencies_v2, CUgraph graph, const CUgraphNode *from,
        const CUgraphNode *to, const CUgraphEdgeData *edges, size_t count)
{
    (void)edges; /* all edges are full ones here */
    return change_edges(SIM_ID_cuGraphAddDependencies_v2, graph, from, to, count, true);
}

SIM_API(cuGraphRemoveDependencies, CUgraph graph, const CUgraphNode *from,
        const CUgraphNode *to, size_t count)
{
    return change_edges(SIM_ID_cuGraphRemoveDependencies, graph, from, to, count, false);
}

SIM_API(cuGraphRemoveDependencies_v2, CUgraph graph, const CUgraphNode *from,
        const CUgraphNode *to, const CUgraphEdgeData *edges, size_t count)
{
    (void)edges; /* all edges are full ones here */
    return change_edges(SIM_ID_cuGraphRemoveDependencies_v2, graph, from, to, count,
                        false);
}
