/*
 * graph.h - graphs: nodes with work and the edges between them.
 *
 * What a node does stands in its work (node_work.h), which is immutable: new parameters
 * are new work. A node of a child graph or a conditional node has graphs of its own, its
 * bodies.
 *
 * Owns: graphs, nodes, conditions.
 * Lock: graph_lock, one for all of them and for captures; inside it only locks of handles
 * and of memory are taken. An object's last reference may be dropped with and without it.
 */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "handle.h"

struct sim_attributes;
struct sim_capture;
struct sim_graph;
struct sim_graph_memory;
struct sim_node;
struct sim_stream;
struct sim_user_object;
struct sim_work;

/* Nodes, each once and with a reference, and what is said of the edge from each. */
struct sim_node_set {
    struct sim_node **nodes;
    CUgraphEdgeData *edges;
    size_t count, room;
};

/* The value a conditional node looks at. No kernel here can set it. */
struct sim_condition {
    struct sim_object object;
    struct sim_graph *graph;    /* graph_lock; identity; NULL once the graph has gone */
    struct sim_condition *next; /* graph_lock: the graph's next one */
    unsigned value;             /* immutable: the default one */
    bool assigns;               /* immutable: each launch starts with it, not with 0 */
    bool used;                  /* graph_lock: by a node */
};

struct sim_node {
    struct sim_object object;
    struct sim_graph *graph; /* graph_lock; identity; NULL once it has left its graph */
    CUgraphNodeType type;    /* immutable */
    uint64_t id;             /* immutable; never reused in a process */
    uint64_t original;       /* immutable; of the node this one was cloned from, or 0 */
    struct sim_work *work;   /* graph_lock; with a reference */
    struct sim_attributes *attributes;    /* graph_lock; a kernel's; NULL: none was set */
    struct sim_node_set after;            /* graph_lock: what it depends on */
    struct sim_graph **bodies;            /* immutable once it has a handle; references */
    CUgraph *body_handles;                /* likewise; as the program gets them */
    unsigned body_count;                  /* likewise */
    struct sim_condition *condition;      /* immutable; with a reference, or NULL */
    CUgraphConditionalNodeType cond_type; /* immutable */
    size_t place;                         /* graph_lock: scratch of an algorithm */
};

/* References a graph holds to a user object. */
struct sim_held {
    struct sim_held *next;
    struct sim_user_object *object;
    unsigned count;
};

struct sim_graph {
    struct sim_object object;
    struct sim_node_set nodes;        /* graph_lock: in the order they were added */
    struct sim_condition *conditions; /* graph_lock; each with a reference */
    struct sim_held *held;            /* graph_lock */
    struct sim_node *owner; /* graph_lock; identity: whose body it is, or NULL */
    unsigned captures;      /* graph_lock: under way */
    unsigned execs;         /* graph_lock: executable graphs made of it */
    uint64_t id;            /* immutable */
    uint64_t original;      /* immutable; of the graph this one was cloned from */
};

extern pthread_mutex_t sim_graph_lock;

/* ---- sets of nodes ---------------------------------------------------------------- */

/*
 * Add a node unless it is there. False without memory.
 *
 * In:  edge  NULL: a full one; of a node that is there and differs, a full one is kept
 */
bool sim_nodes_add(struct sim_node_set *set, struct sim_node *node,
                   const CUgraphEdgeData *edge) GS_MUST_USE;
bool sim_nodes_add_all(struct sim_node_set *set,
                       const struct sim_node_set *more) GS_MUST_USE;
bool sim_nodes_remove(struct sim_node_set *set, const struct sim_node *node);
void sim_nodes_clear(struct sim_node_set *set);

/*
 * The nodes of an array of handles.
 *
 * In:      edges  what is said of each; NULL: full edges
 * Errors:  CUDA_ERROR_INVALID_VALUE  one is no node, or is there twice, or cannot be left
 *          by such an edge; *out is empty
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_nodes_read(const CUgraphNode *handles, const CUgraphEdgeData *edges,
                        size_t count, struct sim_node_set *out) GS_MUST_USE;

/* Does the edge wait for all of the node before it? */
static inline bool sim_edge_is_full(const CUgraphEdgeData *edge)
{
    return edge->from_port == 0 && edge->type == 0;
}

/* May such an edge leave a node of that type, and enter one of that? Source: cuda.h,
 * CUgraphEdgeData. */
bool sim_edge_may_leave(const CUgraphEdgeData *edge, CUgraphNodeType type);
bool sim_edge_may_enter(const CUgraphEdgeData *edge, CUgraphNodeType type);

/* ---- graphs and nodes ------------------------------------------------------------- */

/* An empty graph with the caller's reference and a handle; NULL without memory. */
struct sim_graph *sim_graph_new(uint64_t original) GS_MUST_USE;

/* Close its handle: nobody will learn of it, or nobody is to use it any more. */
void sim_graph_close(struct sim_graph *graph);

/* Destroy all that is in it; executable graphs and captures keep the empty graph. Needs
 * graph_lock, unless nobody else has the graph. */
void sim_graph_end(struct sim_graph *graph);

/* The graph or node of a handle, with a reference; NULL if it is none. */
struct sim_graph *sim_graph_get(CUgraph handle) GS_MUST_USE;
struct sim_node *sim_node_get(CUgraphNode handle) GS_MUST_USE;
void sim_graph_put(struct sim_graph *graph);
void sim_node_put(struct sim_node *node);

/* What a new node is. */
struct sim_node_parts {
    struct sim_work *work;                   /* the node takes a reference of its own */
    const struct sim_attributes *attributes; /* copied; or NULL */
    uint64_t original;                       /* or 0 */
    struct sim_graph *const *bodies; /* without owner; the node takes references */
    unsigned body_count;
    struct sim_condition *condition; /* of a conditional node, or NULL */
    CUgraphConditionalNodeType cond_type;
};

/*
 * Add a node. Needs graph_lock.
 *
 * Out:     *out  with a reference for the caller
 * Errors:  CUDA_ERROR_INVALID_VALUE  an edge that such a node cannot have
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_graph_add(struct sim_graph *graph, const struct sim_node_parts *parts,
                       const struct sim_node_set *after,
                       struct sim_node **out) GS_MUST_USE;

/* Take a node out of its graph and close its handle. Needs graph_lock. */
void sim_graph_remove(struct sim_node *node);

/*
 * A copy of a graph, with the caller's reference and a handle. Needs graph_lock.
 *
 * Errors:  CUDA_ERROR_NOT_SUPPORTED  it has memory or conditional nodes, at any depth
 *          CUDA_ERROR_INVALID_VALUE  the edges make a circle
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_graph_clone(struct sim_graph *from, struct sim_graph **out) GS_MUST_USE;

/* Does the graph, at any depth, hold memory nodes or conditional ones? Needs graph_lock.
 */
bool sim_graph_has_memory(const struct sim_graph *graph) GS_MUST_USE;
bool sim_graph_has_conditions(const struct sim_graph *graph) GS_MUST_USE;

/* May the graph get a node that frees that memory: does it not have one, nor the owner
 * where it is another, nor another where it is the owner? Needs graph_lock. */
bool sim_graph_may_free(const struct sim_graph *graph,
                        const struct sim_graph_memory *memory) GS_MUST_USE;

/* Is it the body of a node, at any depth, of `other`, or `other` itself? Needs
 * graph_lock. */
bool sim_graph_is_within(const struct sim_graph *graph,
                         const struct sim_graph *other) GS_MUST_USE;

/*
 * Every node of the graph, each behind those it depends on. Needs graph_lock.
 *
 * Out:     *out    an array from malloc without references; NULL if there are none;
 *          each node's `place` is its index in it plus 1
 *          *wrong  one of the nodes of a circle, if there is one; NULL is allowed
 * Errors:  CUDA_ERROR_INVALID_VALUE  the edges make a circle
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_graph_order(struct sim_graph *graph, struct sim_node ***out,
                         struct sim_node **wrong) GS_MUST_USE;

/* True if `node`, which is in a graph, is one of `from` or lies before one of them. Needs
 * graph_lock. */
bool sim_graph_precedes(const struct sim_node *node,
                        const struct sim_node_set *from) GS_MUST_USE;

#endif
