/*
 * run.h - carries a trace out on an allocator.
 *
 * Owns: nothing.   Lock: none; a run with threads has atomics of its own.
 */
#ifndef REPLAY_RUN_H
#define REPLAY_RUN_H

#include "replay_trace.h"

/* When freed memory may be handed out again. */
enum ready_when { READY_AT_ONCE, READY_AFTER, READY_SYNC };

struct ready {
    enum ready_when when;
    uint64_t after; /* READY_AFTER: so many further allocations of the whole run */
};

/* An allocator. Functions may be called by several threads at once. */
struct target {
    void *self;
    /* Some number that is not 0, or 0: out of memory. */
    uint64_t (*allocate)(void *self, const struct trace_op *op);
    void (*release)(void *self, const struct trace_op *op, uint64_t handle);
    /* All work is done. May be NULL. */
    void (*synchronize)(void *self, const struct trace_op *op);
    /* A thread begins; may be NULL. */
    void (*enter_thread)(void *self);
};

struct run_config {
    bool threads;      /* each thread's operations on a thread of its own */
    uint32_t window;   /* no thread runs further ahead of the slowest; operations */
    size_t limit;      /* stop after so many operations; 0: all; not with threads */
    uint64_t *handles; /* room for trace->allocations, zero; NULL: the run's own */
};

struct run_result {
    bool fits;
    size_t failed_at;      /* if not: the operation that found no memory */
    uint64_t failed_bytes; /* likewise: what it asked for */
    uint64_t ops;          /* carried out: allocations and frees */
    uint64_t ns;           /* from the first to the last */
};

/* Carry it out; what the trace never frees stays allocated. */
void run_trace(const struct trace *trace, const struct target *target,
               const struct run_config *config, struct run_result *result);

#endif
