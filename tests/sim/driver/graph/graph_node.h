/*
 * graph_node.h - what the calls on single nodes share, whatever their kind: add one to
 * the graph a program names, give it other work, tell of it.
 * Owns: nothing.   Lock: graph_lock and an executable graph's, taken inside.
 */
#ifndef SIM_GRAPH_NODE_H
#define SIM_GRAPH_NODE_H

#include "graph.h"
#include "node_work.h"

/* Where a node is to be added, as the program gave it. */
struct sim_node_place {
    CUgraphNode *out;
    CUgraph graph;
    const CUgraphNode *after;
    const CUgraphEdgeData *edges; /* NULL: full ones */
    size_t count;
};

/* From a kind's parameters to its work (node_work.h). */
typedef CUresult sim_work_maker(enum sim_api api, const void *params,
                                struct sim_work **out);

/*
 * Add a node.
 *
 * In:      parts  the references in it stay the caller's
 * Errors:  CUDA_ERROR_INVALID_VALUE  no such graph, or not its nodes, or an edge or
 * memory node that cannot be there CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_node_add(const struct sim_node_place *place,
                      const struct sim_node_parts *parts) GS_MUST_USE;

/* Add a node of a kind that has nothing but work. Errors: also the maker's. */
CUresult sim_node_make(enum sim_api api, sim_work_maker *make,
                       const struct sim_node_place *place,
                       const void *params) GS_MUST_USE;

/* Give a node, or that node of an executable graph, new work of its kind. Errors: the
 * maker's; CUDA_ERROR_INVALID_VALUE  no such node, or of another kind */
CUresult sim_node_set(enum sim_api api, sim_work_maker *make, CUgraphNode node,
                      const void *params) GS_MUST_USE;
CUresult sim_node_set_exec(enum sim_api api, sim_work_maker *make, CUgraphExec exec,
                           CUgraphNode node, const void *params) GS_MUST_USE;

/* Tell of a node of that kind. Errors: CUDA_ERROR_INVALID_VALUE  it is none, or no place
 * to write to */
CUresult sim_node_tell(enum sim_api api, CUgraphNodeType type, CUgraphNode node,
                       void *out) GS_MUST_USE;

/* Work of memory nodes (api_graph_memory.c). params: CUDA_MEM_ALLOC_NODE_PARAMS, whose
 * dptr is written; CUdeviceptr. */
sim_work_maker sim_work_alloc, sim_work_free;

/* Child graph and conditional nodes (api_graph_child.c), past the door of their call. */
CUresult sim_child_add(const struct sim_node_place *place, CUgraph child, bool moves);
CUresult sim_child_update(CUgraphExec exec, CUgraphNode node, CUgraph child);
CUresult sim_conditional_add(const struct sim_node_place *place, void *params);

#endif
