/*
 * op.h - one operation enqueued on a stream: what it touches, what it waits for, what
 * runs. Every call that gives the device work ends in one of these, so that a scheduler
 * decides when it runs and an ordering check can see its byte ranges. Owns: operations,
 * reference counted.   Lock: written by the submitting thread, then by the one thread
 * that runs it; `done` is atomic.
 */
#ifndef SIM_OP_H
#define SIM_OP_H

#include "memory.h"
#include "oracle.h"

struct sim_event_share;
struct sim_frees;
struct sim_graph_memory;
struct sim_launch_record;
struct sim_object;
struct sim_op;
struct sim_stream;

enum sim_op_kind {
    SIM_OP_COPY,
    SIM_OP_SET,
    SIM_OP_KERNEL,
    SIM_OP_HOST,         /* a host function or callback */
    SIM_OP_EVENT,        /* an event record */
    SIM_OP_WAIT,         /* a wait for an event */
    SIM_OP_FREE,         /* a stream-ordered free */
    SIM_OP_MEMOP,        /* a wait for, or a write of, a value in memory */
    SIM_OP_GRAPH_MEMORY, /* a graph's memory becomes usable, or stops being it */
    SIM_OP_MARK,         /* nothing but its place in the order */
};

/*
 * A box of bytes an operation touches: rows of row_bytes, `pitch` apart, in slices
 * slice_pitch apart. alloc is NULL for ordinary host memory, or, with `device` set, for
 * an address that belonged to no allocation when the operation was enqueued.
 */
struct sim_access {
    uintptr_t address;
    size_t row_bytes, rows, slices;
    size_t pitch, slice_pitch;
    bool device;
    bool writes;
    bool atomic;                          /* does not conflict with another atomic one */
    bool awaited;                         /* the operation waits for a value there */
    bool hidden;                          /* memory no program has an address of */
    bool spreads;                         /* written through a multicast address */
    struct sim_alloc *alloc;              /* with a reference */
    struct oracle_allocation *allocation; /* likewise, from submission on */
};

/* A built-in kernel's arguments, as 64-bit values. */
#define SIM_KERNEL_ARGS 4

struct sim_set {
    unsigned element_bytes; /* 1, 2 or 4 */
    uint32_t value;
};

struct sim_kernel_call {
    CUresult (*body)(struct sim_op *op); /* NULL: a no-op */
    const char *name;                    /* of a no-op; static storage */
    uint64_t args[SIM_KERNEL_ARGS];
    bool waits_inside; /* for the kernel before it, when launched programmatically */
    struct sim_launch_record *record; /* a pattern's (launch.h), with a reference */
    CUcontext
        context; /* a node's: runs in it, whatever stream the graph is launched in */
};

struct sim_host_call {
    CUhostFn function; /* one of these two */
    CUstreamCallback callback;
    CUstream stream;
    void *data;
};

struct sim_memop {
    uint64_t value;
    unsigned bytes; /* 4 or 8 */
    unsigned flags;
    bool waits;
};

/* A record of, or a wait for, an event that other processes share (event_ipc.h). */
struct sim_mark {
    struct sim_event_share *share; /* with a reference, until it is done; or NULL */
    uint64_t record;               /* number of the record */
};

struct sim_graph_change {
    struct sim_graph_memory *memory; /* with a reference */
    bool maps;
};

#define SIM_OP_ACCESSES 3
#define SIM_OP_FEW_DEPS 4

struct sim_op {
    atomic_uint refs;
    atomic_bool done;
    enum sim_op_kind kind;
    enum sim_api api;          /* the call that enqueued it */
    struct sim_stream *stream; /* with a reference, from submission on */
    struct sim_op *next;       /* the scheduler's */
    bool started;              /* the scheduler's: somebody runs it */
    bool executed;             /* the scheduler's: it has run and is done in its turn */
    bool came; /* the scheduler's: ready() said yes; run() need not wait */
    CUresult (*run)(struct sim_op *op);
    bool (*ready)(struct sim_op *op); /* would run() end without waiting? NULL: yes */
    bool run_on_error;                /* runs although the context has a sticky error */
    bool never_ends;                  /* an injected fault: it is never done */
    bool own;   /* a layer's own, not the program's (cudasim_notify.h) */
    bool point; /* a layer's word about memory: behind other streams in N alone */
    enum oracle_overlap overlap; /* may it run beside the one before it? */
    struct sim_object *keeps;    /* lives until this is done; with a reference */
    void *staged;                /* a copy of its source, from malloc; or NULL */
    struct oracle_op *order;     /* its clocks; NULL without the oracle */
    struct sim_frees *frees; /* stream-ordered frees it is behind, and itself (frees.h) */
    uint64_t free_number;    /* SIM_OP_FREE: its number in its stream, from submission */
    uint64_t finished_ns;    /* valid once done */
    unsigned access_count;
    struct sim_access access[SIM_OP_ACCESSES];
    unsigned dep_count, dep_room;
    struct sim_op **deps; /* each with a reference; `few` or from malloc */
    struct sim_op *few[SIM_OP_FEW_DEPS];
    union {
        struct sim_set set;
        struct sim_kernel_call kernel;
        struct sim_host_call host;
        struct sim_memop memop;
        struct sim_alloc *free; /* with a reference */
        struct sim_graph_change graph;
        struct sim_mark mark; /* SIM_OP_EVENT, SIM_OP_WAIT */
    };
};

/* A new operation with one reference, or NULL without memory. run NULL: nothing happens.
 */
struct sim_op *sim_op_new(enum sim_op_kind kind, enum sim_api api,
                          CUresult (*run)(struct sim_op *op)) GS_MUST_USE;

/*
 * An operation that was never submitted, made into a pattern for sim_op_repeat: it holds
 * on to addresses, not to the allocations they lie in now.
 */
void sim_op_make_pattern(struct sim_op *op);

/*
 * A new operation like the pattern, on whatever lies at its addresses now.
 *
 * Errors:  NULL  no memory
 */
struct sim_op *sim_op_repeat(const struct sim_op *pattern) GS_MUST_USE;

void sim_op_ref(struct sim_op *op);
void sim_op_unref(struct sim_op *op); /* NULL is allowed */

/* Make `op` wait for `before` (NULL and finished ones are left out). False without
 * memory. */
bool sim_op_depend(struct sim_op *op, struct sim_op *before) GS_MUST_USE;

/* Drop what it waited for and the memory it held. By the thread that ran it. */
void sim_op_release(struct sim_op *op);

static inline bool sim_op_done(struct sim_op *op)
{
    return atomic_load_explicit(&op->done, memory_order_acquire);
}

/* Bytes from the first to behind the last of a box; false if that overflows. */
bool sim_access_span(const struct sim_access *access, size_t *out) GS_MUST_USE;

/*
 * Find the allocation a box lies in and hold it.
 *
 * In:      must_exist  memory of a live allocation is asked for
 * Errors:  CUDA_ERROR_INVALID_VALUE  it is in no live allocation, or leaves it
 */
CUresult sim_access_bind(struct sim_access *access, bool must_exist) GS_MUST_USE;

/*
 * Where the device finds the box, at the moment it runs.
 *
 * Errors:  CUDA_ERROR_ILLEGAL_ADDRESS  the memory has gone or does not cover the box
 */
CUresult sim_access_open(struct sim_access *access, void **out) GS_MUST_USE;

/* May any device touch the box? It has been bound. No only for memory of the host's pools
 * that no device was let in to. */
bool sim_access_is_open(const struct sim_access *access) GS_MUST_USE;

/* May code of the context touch the box? It has been opened. */
bool sim_access_allowed(const struct sim_access *access,
                        struct sim_context *context) GS_MUST_USE;

#endif
