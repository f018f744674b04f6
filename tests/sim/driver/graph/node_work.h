/*
 * node_work.h - what a node of a graph does: operations that a launch repeats, and the
 * parameters a program gave, to be told again.
 *
 * Made once and never changed; a node, its clones and executable graphs share it.
 *
 * Owns: works.   Lock: none; a work is immutable, its count atomic.
 */
#ifndef SIM_NODE_WORK_H
#define SIM_NODE_WORK_H

#include "op.h"

struct sim_event;

/* Where an operand of a copy or set lies: an executable graph may not move it. */
struct sim_home {
    bool known;   /* in an allocation */
    bool on_host; /* pinned, registered, managed; or pageable if not known */
    int device;
    uint64_t context_id;
};

struct sim_batch {
    CUcontext context;
    unsigned count, flags;
    CUstreamBatchMemOpParams *items; /* from malloc */
};

/* External semaphores; of a captured signal or wait none is known. */
struct sim_semaphores {
    unsigned count;
    CUexternalSemaphore *handles; /* from malloc */
    void *params;                 /* likewise: those of signals or of waits */
};

struct sim_work {
    atomic_uint refs;
    CUgraphNodeType type;
    size_t op_count;
    struct sim_op **ops;     /* patterns, in this order, each with a reference */
    struct sim_event *event; /* of an event node, with a reference */
    struct sim_home homes[2];
    union { /* by type */
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS set;
        struct sim_batch batch;
        struct sim_semaphores semaphores;
    };
};

/*
 * Work of one operation, which becomes a pattern.
 *
 * In:      op     its reference is taken over; NULL: no memory
 *          event  of an event node, or NULL
 * Errors:  NULL  no memory
 */
struct sim_work *sim_work_new(struct sim_op *op, struct sim_event *event) GS_MUST_USE;

/* Work of a node that does nothing itself: an empty one, or one with bodies. */
struct sim_work *sim_work_empty(CUgraphNodeType type) GS_MUST_USE;

/* ---- from parameters; each passes the door of its call and checks ------------------ */

/* Errors: those of the call with these parameters (copy.h, launch.h). */
CUresult sim_work_kernel(enum sim_api api, const void *params,
                         struct sim_work **out) GS_MUST_USE;
CUresult sim_work_copy(enum sim_api api, const void *params,
                       struct sim_work **out) GS_MUST_USE;
CUresult sim_work_set(enum sim_api api, const void *params,
                      struct sim_work **out) GS_MUST_USE;
CUresult sim_work_host(enum sim_api api, const void *params,
                       struct sim_work **out) GS_MUST_USE;
CUresult sim_work_batch(enum sim_api api, const void *params,
                        struct sim_work **out) GS_MUST_USE;

CUresult sim_work_signal(enum sim_api api, const void *params,
                         struct sim_work **out) GS_MUST_USE;
CUresult sim_work_await(enum sim_api api, const void *params,
                        struct sim_work **out) GS_MUST_USE;

/* params: a CUevent. Errors: CUDA_ERROR_INVALID_VALUE  none */
CUresult sim_work_record(enum sim_api api, const void *params,
                         struct sim_work **out) GS_MUST_USE;
CUresult sim_work_wait(enum sim_api api, const void *params,
                       struct sim_work **out) GS_MUST_USE;

/* ---- back to parameters -------------------------------------------------------------
 */

/* Write them where the caller wants them; arrays stay the work's. */
void sim_work_tell(const struct sim_work *work, void *params);

void sim_work_ref(struct sim_work *work);
void sim_work_unref(struct sim_work *work); /* NULL is allowed */

/* The kind of node an operation becomes. */
CUgraphNodeType sim_node_type(const struct sim_op *op) GS_MUST_USE;

/* The graph's memory that a memory node allocates or frees; NULL: it is none. */
struct sim_graph_memory *sim_work_memory(const struct sim_work *work) GS_MUST_USE;

/* ---- new parameters for an executable graph -----------------------------------------
 */

/*
 * May an executable graph's node of that work be given the other? Source: Driver API,
 * cuGraphExecUpdate, "Limitations".
 *
 * Out:     what is wrong, as cuGraphExecUpdate tells it; CU_GRAPH_EXEC_UPDATE_SUCCESS
 */
CUgraphExecUpdateResult sim_work_compare(const struct sim_work *before,
                                         const struct sim_work *after) GS_MUST_USE;

/* A copy of one dimension, as both must be for cuGraphExecMemcpyNodeSetParams. */
bool sim_work_is_flat(const struct sim_work *work) GS_MUST_USE;

/* A memory operation of a batch; *out NULL for those that need nothing here
 * (api_memop.c). Errors: CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY */
CUresult sim_memop_prepare(enum sim_api api, const CUstreamBatchMemOpParams *params,
                           struct sim_op **out) GS_MUST_USE;

/* A host function as an operation (api_host_func.c); NULL without memory. */
struct sim_op *sim_host_function_op(enum sim_api api, CUhostFn function,
                                    void *data) GS_MUST_USE;

#endif
