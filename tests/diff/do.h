/*
 * do.h - what the operations share: who uses which memory on which stream.
 *
 * An operation on memory is left out (" skip=race") unless all use of it so far is
 * ordered before it: what a race leaves behind is the program's affair, and no
 * difference.
 */
#ifndef GS_DIFF_DO_H
#define GS_DIFF_DO_H

#include "world.h"

struct diff_use {
    CUstream stream;
    int line;
    bool captured;     /* becomes a node, does not run */
    bool empty;        /* of no bytes: it may not even take a place in the stream */
    diff_clock before; /* what the line was behind */
};

/* The stream an argument names, for work that uses a and b (each may be NULL). False,
 * with the reason said: nothing is to be called. */
bool diff_use_stream(struct diff_call *call, unsigned argument, struct diff_memory *a,
                     struct diff_memory *b, struct diff_use *use);
/* The same for a call without a stream: the default one of the current context. */
bool diff_use_default(struct diff_call *call, struct diff_memory *a,
                      struct diff_memory *b, struct diff_use *use);
/* It is not called after all. */
void diff_not_used(struct diff_call *call, const struct diff_use *use);
/* It was called. True: it runs, and the contents are its own. */
bool diff_used(struct diff_call *call, const struct diff_use *use, CUresult code,
               struct diff_memory *a, struct diff_memory *b);

/* Memory of that life is used by what is being captured. */
void diff_touch(struct diff_world *world, unsigned slot, uint32_t life);

/* Whose contents are known: for another process's memory those of its source. */
struct diff_memory *diff_contents(struct diff_world *world, struct diff_memory *memory);

/* A buffer of the thread, filled with bytes that the value gives. */
unsigned char *diff_bytes(uint64_t bytes, int64_t value);

/* A kernel of tests/sim/kernels in the current context; NULL: it cannot be had. */
CUfunction diff_kernel(struct diff_call *call, const char *name);

/* cuGraphInstantiate of argument 0 into 1. */
void diff_graph_ready(struct diff_call *call, unsigned long long flags);

/* May the memory be freed by a call that waits for its context, or for nothing? */
bool diff_unused(struct diff_call *call, const struct diff_memory *memory);
/* It was; host: by a call for page-locked memory. */
void diff_freed(struct diff_call *call, struct diff_memory *memory, CUresult code,
                bool host);
/* Stream-ordered memory was asked for, in that use of its stream. */
void diff_async_made(struct diff_call *call, struct diff_memory *memory,
                     const struct diff_use *use, CUresult code, CUdeviceptr at,
                     size_t bytes);

/* Loads the runtime into this process, which has no other thread: do_runtime.c. */
void diff_runtime_load(enum diff_way way);

/* Sizes in lists: a number below 64 is one of a table, any other is itself. */
size_t diff_size(int64_t argument);

/* Is the whole device memory of a context unused, but by its own streams? */
bool diff_context_free_to_end(struct diff_world *world, unsigned ctx);

#endif
