/*
 * graph_nodes.h - what the driver says of a graph's memory nodes, for the books
 * (graph_memory.h).
 *
 * Which nodes an executable graph has is asked of the driver when it was instantiated:
 * however they came into the graph, by call, by capture or with a child graph, they are
 * there. Nothing is asked before the process has made its first memory node.
 *
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_GRAPH_NODES_H
#define GS_GRAPH_NODES_H

#include "record.h"

/* Whether the stream captures, so that what was just done in it is a node of a graph;
 * *graph is that, NULL where the driver cannot say. */
bool gs_graph_captures(CUstream stream, bool per_thread, CUgraph *graph);

/* An allocation node was made: by call, or by what a stream captured. */
void gs_graph_record_alloc(struct gs_state *state, const struct gs_call *request,
                           CUgraph graph, uint64_t addr, size_t bytes);

/* A graph became executable: its memory nodes are known from now on. */
void gs_graph_note_exec(struct gs_state *state, CUgraphExec exec, CUgraph graph,
                        bool frees_first);

#endif
