/*
 * node_set.c - sets of nodes, and the edges that lead from them.
 * Owns:  nothing.   Lock: graph_lock, where the nodes are in a graph.
 * Source: Driver API, CUgraphEdgeData.
 */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

/* Of kernels: when all blocks have said so, or when all have started. */
#define PORT_PROGRAMMATIC 1
#define PORT_LAUNCH_ORDER 2
#define TYPE_PROGRAMMATIC 1

static bool grow(struct sim_node_set *set)
{
    size_t room = set->room ? set->room * 2 : 4;
    struct sim_node **nodes = realloc(set->nodes, room * sizeof(struct sim_node *));

    if (!nodes)
        return false;
    set->nodes = nodes;
    CUgraphEdgeData *edges = realloc(set->edges, room * sizeof(*edges));
    if (!edges)
        return false;
    set->edges = edges;
    set->room = room;
    return true;
}

bool sim_nodes_add(struct sim_node_set *set, struct sim_node *node,
                   const CUgraphEdgeData *edge)
{
    static const CUgraphEdgeData full;

    if (!edge)
        edge = &full;
    for (size_t i = 0; i < set->count; i++) {
        if (set->nodes[i] != node)
            continue;
        if (memcmp(&set->edges[i], edge, sizeof(*edge)) != 0)
            set->edges[i] = full;
        return true;
    }
    if (set->count == set->room && !grow(set))
        return false;
    sim_object_ref(&node->object);
    set->nodes[set->count] = node;
    set->edges[set->count++] = *edge;
    return true;
}

bool sim_nodes_add_all(struct sim_node_set *set, const struct sim_node_set *more)
{
    bool fits = true;

    for (size_t i = 0; i < more->count && fits; i++)
        fits = sim_nodes_add(set, more->nodes[i], &more->edges[i]);
    return fits;
}

bool sim_nodes_remove(struct sim_node_set *set, const struct sim_node *node)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->nodes[i] != node)
            continue;
        struct sim_node *removed = set->nodes[i];
        set->count--;
        memmove(&set->nodes[i], &set->nodes[i + 1],
                (set->count - i) * sizeof(struct sim_node *));
        memmove(&set->edges[i], &set->edges[i + 1],
                (set->count - i) * sizeof(*set->edges));
        sim_node_put(removed);
        return true;
    }
    return false;
}

void sim_nodes_clear(struct sim_node_set *set)
{
    while (set->count > 0)
        sim_node_put(set->nodes[--set->count]);
    free(set->nodes);
    free(set->edges);
    *set = (struct sim_node_set){0};
}

bool sim_edge_may_leave(const CUgraphEdgeData *edge, CUgraphNodeType type)
{
    static const unsigned char zeroes[sizeof(edge->reserved)];

    if (edge->to_port != 0 || edge->type > TYPE_PROGRAMMATIC ||
        edge->from_port > PORT_LAUNCH_ORDER ||
        memcmp(edge->reserved, zeroes, sizeof(zeroes)) != 0)
        return false;
    if (edge->from_port == PORT_PROGRAMMATIC && edge->type != TYPE_PROGRAMMATIC)
        return false;
    if (edge->type == TYPE_PROGRAMMATIC && edge->from_port == 0)
        return false;
    return edge->from_port == 0 || type == CU_GRAPH_NODE_TYPE_KERNEL;
}

bool sim_edge_may_enter(const CUgraphEdgeData *edge, CUgraphNodeType type)
{
    return edge->type != TYPE_PROGRAMMATIC || type == CU_GRAPH_NODE_TYPE_KERNEL;
}

CUresult sim_nodes_read(const CUgraphNode *handles, const CUgraphEdgeData *edges,
                        size_t count, struct sim_node_set *out)
{
    CUresult res = count > 0 && !handles ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

    *out = (struct sim_node_set){0};
    for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++) {
        struct sim_node *node = sim_node_get(handles[i]);
        const CUgraphEdgeData *edge = edges ? &edges[i] : NULL;
        if (!node || (edge && !sim_edge_may_leave(edge, node->type)))
            res = CUDA_ERROR_INVALID_VALUE;
        else if (!sim_nodes_add(out, node, edge))
            res = CUDA_ERROR_OUT_OF_MEMORY;
        else if (out->count != i + 1)
            res = CUDA_ERROR_INVALID_VALUE;
        if (node)
            sim_node_put(node);
    }
    if (res != CUDA_SUCCESS)
        sim_nodes_clear(out);
    return res;
}
