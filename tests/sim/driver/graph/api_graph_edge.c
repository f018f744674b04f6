/*
 * api_graph_edge.c - lists of nodes and edges, edges added and removed.
 * Owns:  nothing.   Lock: graph_lock while a graph is looked at.
 * Source: Driver API, "Graph Management".
 */
#include <string.h>

#include "graph.h"

/* A list being given out: `room` entries fit, `count` there are. */
struct listing {
    CUgraphNode *first, *second; /* NULL: only count */
    CUgraphEdgeData *edges;      /* NULL: not asked for */
    size_t room, count;
    bool lossy; /* an edge says more than that it is there */
};

static bool lists(const struct listing *listing)
{
    return listing->first || listing->second;
}

static void list(struct listing *listing, const struct sim_node *first,
                 const struct sim_node *second, const CUgraphEdgeData *edge)
{
    if (edge && !sim_edge_is_full(edge))
        listing->lossy = true;
    if (listing->count < listing->room) {
        if (listing->first)
            listing->first[listing->count] = first->object.handle;
        if (listing->second)
            listing->second[listing->count] = second->object.handle;
        if (listing->edges)
            listing->edges[listing->count] = *edge;
    }
    listing->count++;
}

/*
 * The caller's count: how many there are, or how many were written. The rest is NULL.
 *
 * Errors:  CUDA_ERROR_LOSSY_QUERY  the edges say more than was asked for
 */
static CUresult finish_listing(const struct listing *listing, size_t *count)
{
    if (lists(listing) && listing->lossy && !listing->edges)
        return CUDA_ERROR_LOSSY_QUERY;
    for (size_t i = listing->count; i < listing->room; i++) {
        if (listing->first)
            listing->first[i] = NULL;
        if (listing->second)
            listing->second[i] = NULL;
        if (listing->edges)
            memset(&listing->edges[i], 0, sizeof(listing->edges[i]));
    }
    if (!lists(listing) || listing->count < *count)
        *count = listing->count;
    return CUDA_SUCCESS;
}

enum what { ALL_NODES, ROOT_NODES, EDGES };

static CUresult list_graph(enum sim_api api, enum what what, CUgraph handle,
                           CUgraphNode *first, CUgraphNode *second,
                           CUgraphEdgeData *edges, size_t *count)
{
    SIM_TRY(sim_enter(api));
    struct sim_graph *graph = count ? sim_graph_get(handle) : NULL;
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    struct listing listing = {.first = first, .second = second, .edges = edges};
    if (lists(&listing))
        listing.room = *count;
    if (what == EDGES && (!first != !second || (edges && !first))) {
        sim_graph_put(graph);
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&sim_graph_lock);
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct sim_node *node = graph->nodes.nodes[i];
        if (what == ALL_NODES || (what == ROOT_NODES && node->after.count == 0))
            list(&listing, node, NULL, NULL);
        for (size_t k = 0; what == EDGES && k < node->after.count; k++)
            list(&listing, node->after.nodes[k], node, &node->after.edges[k]);
    }
    pthread_mutex_unlock(&sim_graph_lock);
    sim_graph_put(graph);
    return finish_listing(&listing, count);
}

SIM_API_ONE(cuGraphGetNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count),
            list_graph(api, ALL_NODES, graph, nodes, NULL, NULL, count));

SIM_API_ONE(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count),
            list_graph(api, ROOT_NODES, graph, nodes, NULL, NULL, count));

SIM_API_ONE(cuGraphGetEdges,
            (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count),
            list_graph(api, EDGES, graph, from, to, NULL, count));

SIM_API_ONE(cuGraphGetEdges_v2,
            (CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges,
             size_t *count),
            list_graph(api, EDGES, graph, from, to, edges, count));

/* Those that depend on a node. */
static void list_dependents(struct listing *listing, const struct sim_node *node)
{
    for (size_t i = 0; node->graph && i < node->graph->nodes.count; i++) {
        const struct sim_node *other = node->graph->nodes.nodes[i];
        for (size_t k = 0; k < other->after.count; k++) {
            if (other->after.nodes[k] == node)
                list(listing, other, NULL, &other->after.edges[k]);
        }
    }
}

/* Those a node depends on, or those that depend on it. */
static CUresult list_neighbours(enum sim_api api, CUgraphNode handle, bool before,
                                CUgraphNode *out, CUgraphEdgeData *edges, size_t *count)
{
    SIM_TRY(sim_enter(api));
    struct sim_node *node = count && !(edges && !out) ? sim_node_get(handle) : NULL;
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    struct listing listing = {.first = out, .edges = edges, .room = out ? *count : 0};
    pthread_mutex_lock(&sim_graph_lock);
    for (size_t i = 0; before && i < node->after.count; i++)
        list(&listing, node->after.nodes[i], NULL, &node->after.edges[i]);
    if (!before)
        list_dependents(&listing, node);
    pthread_mutex_unlock(&sim_graph_lock);
    sim_node_put(node);
    return finish_listing(&listing, count);
}

SIM_API_ONE(cuGraphNodeGetDependencies,
            (CUgraphNode node, CUgraphNode *out, size_t *count),
            list_neighbours(api, node, true, out, NULL, count));

SIM_API_ONE(cuGraphNodeGetDependencies_v2,
            (CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *edges, size_t *count),
            list_neighbours(api, node, true, out, edges, count));

SIM_API_ONE(cuGraphNodeGetDependentNodes,
            (CUgraphNode node, CUgraphNode *out, size_t *count),
            list_neighbours(api, node, false, out, NULL, count));

SIM_API_ONE(cuGraphNodeGetDependentNodes_v2,
            (CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *edges, size_t *count),
            list_neighbours(api, node, false, out, edges, count));

/* ---- edges ----------------------------------------------------------------------- */

static const CUgraphEdgeData full_edge;

/* The edge between them, NULL if there is none. Needs graph_lock. */
static const CUgraphEdgeData *edge_between(const struct sim_node *from,
                                           const struct sim_node *to)
{
    for (size_t i = 0; i < to->after.count; i++) {
        if (to->after.nodes[i] == from)
            return &to->after.edges[i];
    }
    return NULL;
}

/* Needs graph_lock. */
static CUresult add_edge(struct sim_node *from, struct sim_node *to,
                         const CUgraphEdgeData *edge)
{
    if (from == to || edge_between(from, to) || !sim_edge_may_leave(edge, from->type) ||
        !sim_edge_may_enter(edge, to->type))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_nodes_add(&to->after, from, edge) ? CUDA_SUCCESS
                                                 : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Only the very edge that is there. Needs graph_lock. */
static CUresult remove_edge(struct sim_node *from, struct sim_node *to,
                            const CUgraphEdgeData *edge)
{
    const CUgraphEdgeData *found = edge_between(from, to);

    if (!found || memcmp(found, edge, sizeof(*edge)) != 0 ||
        sim_graph_has_memory(to->graph))
        return CUDA_ERROR_INVALID_VALUE;
    sim_nodes_remove(&to->after, from);
    return CUDA_SUCCESS;
}

/* Which edges are to be added or removed. */
struct edge_list {
    const CUgraphNode *from, *to;
    const CUgraphEdgeData *edges; /* NULL: full ones */
    size_t count;
};

static CUresult change_edge(const struct sim_graph *graph, const struct edge_list *list,
                            size_t index, bool adds)
{
    struct sim_node *from = sim_node_get(list->from[index]);
    struct sim_node *to = sim_node_get(list->to[index]);
    const CUgraphEdgeData *edge = list->edges ? &list->edges[index] : &full_edge;
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&sim_graph_lock);
    if (from && to && from->graph == graph && to->graph == graph)
        res = adds ? add_edge(from, to, edge) : remove_edge(from, to, edge);
    pthread_mutex_unlock(&sim_graph_lock);
    if (from)
        sim_node_put(from);
    if (to)
        sim_node_put(to);
    return res;
}

static CUresult change_edges(enum sim_api api, CUgraph handle,
                             const struct edge_list *list, bool adds)
{
    CUresult res = sim_enter(api);

    if (res != CUDA_SUCCESS)
        return res;
    if (list->count > 0 && (!list->from || !list->to))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *graph = sim_graph_get(handle);
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < list->count && res == CUDA_SUCCESS; i++)
        res = change_edge(graph, list, i, adds);
    sim_graph_put(graph);
    return res;
}

SIM_API_ONE(cuGraphAddDependencies,
            (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count),
            change_edges(api, graph, &(const struct edge_list){from, to, NULL, count},
                         true));

SIM_API_ONE(cuGraphAddDependencies_v2,
            (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
             const CUgraphEdgeData *edges, size_t count),
            change_edges(api, graph, &(const struct edge_list){from, to, edges, count},
                         true));

SIM_API_ONE(cuGraphRemoveDependencies,
            (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count),
            change_edges(api, graph, &(const struct edge_list){from, to, NULL, count},
                         false));

SIM_API_ONE(cuGraphRemoveDependencies_v2,
            (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
             const CUgraphEdgeData *edges, size_t count),
            change_edges(api, graph, &(const struct edge_list){from, to, edges, count},
                         false));
