/*
 * graph_node.h - adding a node to the graph a program names.
 * Owns: nothing.   Lock: graph_lock, taken inside.
 */
#ifndef SIM_GRAPH_NODE_H
#define SIM_GRAPH_NODE_H

#include "graph.h"
#include "op.h"

/* Where a node is to be added, as the program gave it. */
struct sim_node_place {
    CUgraphNode *out;
    CUgraph graph;
    const CUgraphNode *after;
    size_t count;
};

/*
 * Add a node.
 *
 * In:      work   its reference is taken over; NULL: no memory
 *          event  or NULL
 * Errors:  CUDA_ERROR_INVALID_VALUE  no such graph, or not its nodes
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_node_add(const struct sim_node_place *place, struct sim_op *work,
                      struct sim_event *event) GS_MUST_USE;

/* A host function as an operation (api_host_func.c); NULL without memory. */
struct sim_op *sim_host_function_op(enum sim_api api, CUhostFn function,
                                    void *data) GS_MUST_USE;

#endif
