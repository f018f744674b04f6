/*
 * graph.h - graphs: nodes with work and the edges between them; executable graphs.
 *
 * A node's work is an operation that is never submitted (sim_op_make_pattern). A launch
 * submits one like it for every node.
 *
 * Owns: graphs, nodes, executable graphs.
 * Lock: graph_lock, one for all of them and for captures; inside it only locks of handles
 * and of memory are taken. An object's last reference may be dropped with and without it.
 */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "handle.h"

struct sim_capture;
struct sim_event;
struct sim_graph;
struct sim_node;
struct sim_op;
struct sim_stream;

/* Nodes, each once and with a reference. */
struct sim_node_set {
    struct sim_node **nodes;
    size_t count, room;
};

struct sim_node {
    struct sim_object object;
    struct sim_graph *graph;   /* graph_lock; identity; NULL once it has left its graph */
    CUgraphNodeType type;      /* immutable */
    uint64_t id;               /* immutable; never reused in a process */
    uint64_t original;         /* immutable; of the node this one was cloned from, or 0 */
    struct sim_op *work;       /* graph_lock; a pattern, with a reference */
    struct sim_event *event;   /* immutable; event nodes: with a reference */
    struct sim_node_set after; /* graph_lock: what it depends on */
    size_t place;              /* graph_lock: scratch of an algorithm */
};

struct sim_graph {
    struct sim_object object;
    struct sim_node_set nodes; /* graph_lock: in the order they were added */
    unsigned captures;         /* graph_lock: under way */
    unsigned execs;            /* graph_lock: executable graphs made of it */
    uint64_t id;               /* immutable */
    uint64_t original;         /* immutable; of the graph this one was cloned from */
};

extern pthread_mutex_t sim_graph_lock;

/* Add a node unless it is there. False without memory. */
bool sim_nodes_add(struct sim_node_set *set, struct sim_node *node) GS_MUST_USE;
bool sim_nodes_add_all(struct sim_node_set *set,
                       const struct sim_node_set *more) GS_MUST_USE;
bool sim_nodes_remove(struct sim_node_set *set, const struct sim_node *node);
void sim_nodes_clear(struct sim_node_set *set);

/*
 * The nodes of an array of handles.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE  one is no node, or is there twice; *out is empty
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_nodes_read(const CUgraphNode *handles, size_t count,
                        struct sim_node_set *out) GS_MUST_USE;

/* An empty graph with the caller's reference and a handle; NULL without memory. */
struct sim_graph *sim_graph_new(uint64_t original) GS_MUST_USE;

/* The graph or node of a handle, with a reference; NULL if it is none. */
struct sim_graph *sim_graph_get(CUgraph handle) GS_MUST_USE;
struct sim_node *sim_node_get(CUgraphNode handle) GS_MUST_USE;
void sim_graph_put(struct sim_graph *graph);
void sim_node_put(struct sim_node *node);

/* What a new node is. */
struct sim_node_parts {
    CUgraphNodeType type;
    struct sim_op *work;     /* becomes a pattern; the node takes its own reference */
    struct sim_event *event; /* or NULL */
    uint64_t original;       /* or 0 */
};

/*
 * Add a node. Needs graph_lock.
 *
 * Out:     *out  with a reference for the caller
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_graph_add(struct sim_graph *graph, const struct sim_node_parts *parts,
                       const struct sim_node_set *after,
                       struct sim_node **out) GS_MUST_USE;

/* Take a node out of its graph and close its handle. Needs graph_lock. */
void sim_graph_remove(struct sim_node *node);

/* Does the graph hold memory nodes? Needs graph_lock. */
bool sim_graph_has_memory(const struct sim_graph *graph) GS_MUST_USE;

/* The kind of node an operation becomes. */
CUgraphNodeType sim_node_type(const struct sim_op *op) GS_MUST_USE;

/*
 * Every node of the graph, each behind those it depends on. Needs graph_lock.
 *
 * Out:     *out    an array from malloc without references; NULL if there are none
 * Errors:  CUDA_ERROR_INVALID_VALUE  the edges make a circle
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_graph_order(struct sim_graph *graph, struct sim_node ***out) GS_MUST_USE;

/* True if `node`, which is in a graph, is one of `from` or lies before one of them. Needs
 * graph_lock. */
bool sim_graph_precedes(const struct sim_node *node,
                        const struct sim_node_set *from) GS_MUST_USE;

#endif
