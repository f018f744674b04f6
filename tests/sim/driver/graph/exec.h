/*
 * exec.h - executable graphs: what a launch submits.
 *
 * A graph with all its child graphs and bodies lies flat in one array. What a node with
 * bodies becomes: a step that opens it, the steps of its bodies, one that closes it.
 * Steps are divided into chains, each step of a chain behind the one before it, so that
 * two steps without an order between them are never in the same one. A launch gives every
 * chain a stream of its own (exec_launch.c says where it does not).
 *
 * Owns: executable graphs.   Lock: exec->lock, held over a launch; outside graph_lock and
 * a context's.
 */
#ifndef SIM_EXEC_H
#define SIM_EXEC_H

#include "graph.h"
#include "node_work.h"

#define SIM_NO_STEP SIZE_MAX

enum sim_step_part { SIM_STEP_NODE, SIM_STEP_OPENS, SIM_STEP_CLOSES };

/* Steps by their indices. */
struct sim_step_list {
    size_t *steps; /* from malloc */
    size_t count;
};

/* A node, or one end of a node with bodies, as it was when the graph was instantiated. */
struct sim_step {
    uint64_t id;      /* of the node; of neither end that closes */
    CUgraphNode node; /* its handle: for update errors, may have gone */
    CUgraphNodeType type;
    enum sim_step_part part;
    bool disabled;
    struct sim_work *work;             /* with a reference */
    struct sim_attributes *attributes; /* a kernel's own copy, or NULL */
    struct sim_condition *condition;   /* of what opens a conditional node; reference */
    CUgraphConditionalNodeType cond_type;
    unsigned body_count;
    size_t outer;  /* the step that opens the innermost node it is in a body of */
    unsigned body; /* in which of its bodies */
    size_t *after; /* from malloc: earlier steps from which edges lead to it */
    CUgraphEdgeData *edges; /* likewise, as long */
    size_t after_count;
    struct sim_step_list behind; /* whose ends it starts behind, by all of its edges */
    struct sim_step_list inside; /* whose ends it waits for if it waits inside */
    struct sim_step_list beside; /* kernels it may run beside and ends behind */
    size_t chain;
    bool ends_chain; /* nothing is behind it there */
};

struct sim_steps {
    struct sim_step *steps; /* each behind those it depends on */
    size_t count, room;
    size_t chain_count;
};

struct sim_exec {
    struct sim_object object;
    struct sim_graph *graph; /* immutable; with a reference */
    uint64_t flags;          /* immutable */
    struct sim_held *held;   /* immutable: user objects */
    pthread_mutex_t lock;
    struct sim_steps steps; /* lock for works, attributes, conditions and `disabled` */
    struct sim_op *last;    /* lock: the newest launch's last; with a reference */
    struct sim_stream **branches; /* lock: a stream for each chain, made when needed */
    size_t branch_count;          /* lock */
};

/* Why a graph cannot be instantiated. */
struct sim_exec_fault {
    CUgraphInstantiateResult result;
    CUgraphNode node; /* or NULL */
};

/*
 * Make an executable graph, with the caller's reference and a handle. Takes graph_lock.
 *
 * Out:     *fault  what is wrong, if something is
 * Errors:  CUDA_ERROR_INVALID_VALUE  a circle, a capture under way, a condition that no
 * node uses, a body with nodes that are not allowed there, or memory or conditional nodes
 * of which an executable graph exists; a graph that belongs to another
 *          CUDA_ERROR_NOT_SUPPORTED  a loop that nothing could end
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_exec_new(struct sim_graph *graph, uint64_t flags,
                      struct sim_exec_fault *fault, struct sim_exec **out) GS_MUST_USE;

struct sim_exec *sim_exec_get(CUgraphExec handle) GS_MUST_USE;
void sim_exec_put(struct sim_exec *exec);

/*
 * Lay a graph flat. Needs graph_lock.
 *
 * Errors:  as sim_exec_new; *out is empty then
 */
CUresult sim_steps_make(struct sim_graph *graph, struct sim_exec_fault *fault,
                        struct sim_steps *out) GS_MUST_USE;
void sim_steps_clear(struct sim_steps *steps);

/* What each step is behind, and in which chain it is (exec_order.c). Needs graph_lock.
 * False without memory. */
bool sim_steps_order(struct sim_steps *steps) GS_MUST_USE;

/*
 * Submit its nodes: behind the stream's work so far and its launch before; the stream's
 * later work is behind all of them.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE  memory it allocates is allocated, or memory it frees
 * is not
 *          CUDA_ERROR_OUT_OF_MEMORY, and those of sim_submit
 */
CUresult sim_exec_launch(enum sim_api api, struct sim_exec *exec,
                         struct sim_stream *stream) GS_MUST_USE;

/* Its branch streams get no more work. By the one who drops the last reference. */
void sim_exec_close_branches(struct sim_exec *exec);

/*
 * Replace the work of one node.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE  it was not instantiated from that node, or the
 * executable graph cannot take such work (sim_work_compare)
 */
CUresult sim_exec_set_work(struct sim_exec *exec, const struct sim_node *node,
                           struct sim_work *work) GS_MUST_USE;

/*
 * Give the nodes the parameters of a graph of the same shape; all of them or none. Takes
 * graph_lock and exec->lock.
 *
 * In:      node  a child graph node whose steps are meant; NULL: all
 * Out:     *info  what is wrong, if something is
 * Errors:  CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_exec_update(struct sim_exec *exec, const struct sim_node *node,
                         struct sim_graph *graph,
                         CUgraphExecUpdateResultInfo *info) GS_MUST_USE;

/* Let launches leave a kernel, copy or set out; or tell whether they do. */
CUresult sim_exec_enable(struct sim_exec *exec, const struct sim_node *node,
                         bool enabled) GS_MUST_USE;
CUresult sim_exec_is_enabled(struct sim_exec *exec, const struct sim_node *node,
                             bool *enabled) GS_MUST_USE;

#endif
