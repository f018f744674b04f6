/*
 * exec.h - executable graphs: what a launch submits.
 * Owns: these.   Lock: exec->lock, held over a launch; outside graph_lock and a
 * context's.
 */
#ifndef SIM_EXEC_H
#define SIM_EXEC_H

#include "graph.h"

/* A node as it was when the graph was instantiated. */
struct sim_exec_node {
    uint64_t id; /* of the node */
    CUgraphNodeType type;
    bool disabled;
    struct sim_op *work;     /* a pattern, with a reference */
    struct sim_event *event; /* with a reference, or NULL */
};

struct sim_exec {
    struct sim_object object;
    struct sim_graph *graph; /* immutable; with a reference */
    uint64_t flags;          /* immutable */
    size_t count;            /* immutable */
    pthread_mutex_t lock;
    struct sim_exec_node *nodes; /* lock; each behind those it depends on */
    struct sim_op *last;         /* lock: the newest launch's last; with a reference */
};

/*
 * Make an executable graph, with the caller's reference and a handle. Takes graph_lock.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE  a circle, a capture under way, or memory nodes of
 * which an executable graph exists
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_exec_new(struct sim_graph *graph, uint64_t flags,
                      struct sim_exec **out) GS_MUST_USE;

struct sim_exec *sim_exec_get(CUgraphExec handle) GS_MUST_USE;
void sim_exec_put(struct sim_exec *exec);

/*
 * Submit its nodes to a stream, one behind the other, and behind its launch before.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE  memory it allocates is allocated, or memory it frees
 * is not
 *          CUDA_ERROR_OUT_OF_MEMORY, and those of sim_submit
 */
CUresult sim_exec_launch(struct sim_exec *exec, struct sim_stream *stream) GS_MUST_USE;

/*
 * Replace the work of one node.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE  it was not instantiated from that node, or the kind
 * of work differs
 */
CUresult sim_exec_set_work(struct sim_exec *exec, const struct sim_node *node,
                           struct sim_op *work) GS_MUST_USE;

/* Let launches leave a kernel, copy or set out; or tell whether they do. */
CUresult sim_exec_enable(struct sim_exec *exec, const struct sim_node *node,
                         bool enabled) GS_MUST_USE;
CUresult sim_exec_is_enabled(struct sim_exec *exec, const struct sim_node *node,
                             bool *enabled) GS_MUST_USE;

#endif
