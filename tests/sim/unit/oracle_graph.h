/*
 * oracle_graph.h - two graphs over the same nodes, N and S: what is behind what. For
 * oracle_reference.c alone.
 */
#ifndef ORACLE_GRAPH_H
#define ORACLE_GRAPH_H

#include "oracle_reference.h"

enum ref_graph { REF_N, REF_S, REF_BOTH };

void graph_clear(void);
int node(void);

/* In the graph, or in both: the one is behind the other. */
void edge(enum ref_graph graph, int behind, int before);

/* In both; but in N it counts only for who is behind `behind` in S, too. */
void circular_edge(int behind, int before);

/* By any number of edges of that graph? A node is behind itself. */
bool is_behind(enum ref_graph graph, int behind, int before);

#endif
