/*
 * graph_memory.h - memory of a graph: what an allocation node allocates.
 *
 * The block is taken when the node is made and given back when nothing refers to it any
 * more: neither a node, nor an executable graph, nor the program, which owns it from a
 * launch to the free. Two flags follow it: `expected` in the order of calls, `mapped` in
 * the order of the streams.
 *
 * Owns: these records.   Lock: the flags and the count are atomic; changes_lock orders
 * changes (sim_graph_memory_lock).
 * Source: CUDA Programming Guide, "Graph Memory Nodes".
 */
#ifndef SIM_GRAPH_MEMORY_H
#define SIM_GRAPH_MEMORY_H

#include "sim.h"

#include "memory.h"

struct sim_op;
struct sim_pool;
struct sim_stream;

struct sim_graph_memory {
    atomic_uint refs;
    atomic_bool expected;    /* allocated, by the calls made so far; holds a reference */
    atomic_bool mapped;      /* allocated, by the work done so far */
    uint64_t owner;          /* graph_lock: id of the graph that allocates it */
    uint64_t freed_in;       /* graph_lock: id of a graph that frees it, 0: none yet */
    struct sim_alloc *alloc; /* immutable; with a reference, which the record ends with */
};

/*
 * Take a block on a device; it is not allocated yet.
 *
 * Out:     *out  with a reference for the caller
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_graph_memory_new(int device, size_t bytes, struct sim_context *context,
                              struct sim_graph_memory **out) GS_MUST_USE;

void sim_graph_memory_ref(struct sim_graph_memory *memory);
void sim_graph_memory_unref(struct sim_graph_memory *memory);

/* The graph memory that starts at an address, with a reference; NULL if none does. */
struct sim_graph_memory *sim_graph_memory_find(uintptr_t address) GS_MUST_USE;

/* An operation that allocates or frees it when it runs; NULL without memory. */
struct sim_op *sim_graph_memory_op(enum sim_api api, struct sim_graph_memory *memory,
                                   bool maps) GS_MUST_USE;

/*
 * Held from a change of what is expected until the operation that makes the change has
 * its place: the two orders agree. Outside a context's lock, inside an executable
 * graph's.
 */
void sim_graph_memory_lock(void);
void sim_graph_memory_unlock(void);

/* Free to allocated, or allocated to free, in the order of calls. False if it was. Needs
 * changes_lock. */
bool sim_graph_memory_expect(struct sim_graph_memory *memory, bool allocated) GS_MUST_USE;

/* The change of an operation that got no place is none. Needs changes_lock. */
void sim_graph_memory_unexpect(const struct sim_op *op);

/*
 * Free it in the order of a stream.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE  it is not allocated
 */
CUresult sim_graph_memory_free_async(enum sim_api api, struct sim_graph_memory *memory,
                                     struct sim_stream *stream) GS_MUST_USE;

/* Free it at once. False if it was not allocated. */
bool sim_graph_memory_free_now(struct sim_graph_memory *memory) GS_MUST_USE;

/* The pool a device's graphs take their memory from. */
struct sim_pool *sim_graph_memory_pool(int device) GS_MUST_USE;

/* False only for memory of a graph that is not allocated now. */
static inline bool sim_graph_memory_usable(const struct sim_alloc *alloc)
{
    return !alloc->graph ||
           atomic_load_explicit(&alloc->graph->mapped, memory_order_acquire);
}

#endif
