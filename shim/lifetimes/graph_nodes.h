/*
 * graph_nodes.h - reads a graph's memory nodes from the driver, for graph_memory.h.
 *
 * The driver is queried for the nodes of an executable graph after its instantiation:
 * this finds all nodes, whether they came into the graph by call, by capture or with a
 * child graph. Nothing is queried before the process has created its first memory node.
 *
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_GRAPH_NODES_H
#define GS_GRAPH_NODES_H

#include "shim/record.h"

/* Records an allocation node, created by call or by a stream capture. */
void gs_graph_record_alloc(struct gs_state *state, const struct gs_call *request,
                           CUgraph graph, uint64_t addr, size_t bytes);

/* Records the memory nodes of a graph that was instantiated. */
void gs_graph_record_exec(struct gs_state *state, CUgraphExec exec, CUgraph graph,
                          bool frees_first);

#endif
