/*
 * oracle_graph.c - nodes, edges, walks. See oracle_graph.h.
 */
#include "oracle_graph.h"

#include <criterion/criterion.h>
#include <string.h>

#define REF_NODES   8000
#define REF_EDGES   40000
#define REF_CIRCLES 400

static struct edge {
    int to, next;
} edges[REF_EDGES];
static int edge_count, node_count;
static long edges_ever;              /* in all histories */
static int first_edge[2][REF_NODES]; /* towards what a node is behind */

static struct circle {
    int behind, before;
} circles[REF_CIRCLES]; /* edges of N that count where `behind` is known in S */
static int circle_count;

void graph_clear(void)
{
    edge_count = node_count = circle_count = 0;
}

int node(void)
{
    cr_assert_lt(node_count, REF_NODES);
    first_edge[REF_N][node_count] = first_edge[REF_S][node_count] = REF_NONE;
    return node_count++;
}

static void edge_in(int graph, int behind, int before)
{
    cr_assert_lt(edge_count, REF_EDGES);
    edges[edge_count] = (struct edge){before, first_edge[graph][behind]};
    first_edge[graph][behind] = edge_count++;
    edges_ever++;
}

void edge(enum ref_graph graph, int behind, int before)
{
    if (graph != REF_S)
        edge_in(REF_N, behind, before);
    if (graph != REF_N)
        edge_in(REF_S, behind, before);
}

void circular_edge(int behind, int before)
{
    cr_assert_lt(circle_count, REF_CIRCLES);
    edge_in(REF_S, behind, before);
    circles[circle_count++] = (struct circle){behind, before};
}

/* All that a node is behind, found once and kept until there are more edges. */
struct walk {
    int root;
    long edges;
    bool reached[REF_NODES];
};

static void reach(struct walk *walk, enum ref_graph graph, int from)
{
    static int stack[REF_NODES];
    int depth = 0;

    if (walk->reached[from])
        return;
    walk->reached[from] = true;
    stack[depth++] = from;
    while (depth > 0) {
        for (int i = first_edge[graph][stack[--depth]]; i != REF_NONE;
             i = edges[i].next) {
            if (!walk->reached[edges[i].to]) {
                walk->reached[edges[i].to] = true;
                stack[depth++] = edges[i].to;
            }
        }
    }
}

static void walk_from(struct walk *walk, enum ref_graph graph, int root)
{
    bool more = graph == REF_N;

    memset(walk->reached, 0, (size_t)node_count);
    walk->root = root;
    walk->edges = edges_ever;
    reach(walk, graph, root);
    while (more) {
        more = false;
        for (int i = 0; i < circle_count; i++) {
            if (!walk->reached[circles[i].behind] || walk->reached[circles[i].before] ||
                !is_behind(REF_S, root, circles[i].behind))
                continue;
            reach(walk, graph, circles[i].before);
            more = true;
        }
    }
}

bool is_behind(enum ref_graph graph, int behind, int before)
{
    static struct walk walks[2][512];
    struct walk *walk = &walks[graph][behind % 512];

    if (walk->root != behind || walk->edges != edges_ever)
        walk_from(walk, graph, behind);
    return walk->reached[before];
}
