/*
 * replay_run.h - carries a trace out on an allocator.
 *
 * Owns: nothing.   Lock: none; a run with threads has atomics of its own.
 */
#ifndef GS_REPLAY_RUN_H
#define GS_REPLAY_RUN_H

#include "shim/tools/replay/replay_trace.h"

/* When freed memory may be handed out again. */
enum gs_ready_when { GS_READY_AT_ONCE, GS_READY_AFTER, GS_READY_SYNC };

struct gs_replay_ready {
    enum gs_ready_when when;
    uint64_t after; /* GS_READY_AFTER: this many further allocations of the whole run */
};

struct gs_replay_pool;
struct gs_replay_segments;

/* An allocator. Functions may be called by several threads at once. */
struct gs_replay_target {
    void *self;
    /* Some number that is not 0, or 0: out of memory. */
    uint64_t (*allocate)(void *self, const struct gs_replay_op *op);
    void (*release)(void *self, const struct gs_replay_op *op, uint64_t handle);
    /* All work is done. May be NULL. */
    void (*synchronize)(void *self, const struct gs_replay_op *op);
    /* A thread begins; may be NULL. */
    void (*enter_thread)(void *self);
};

struct gs_replay_config {
    bool threads;      /* each thread's operations on a thread of its own */
    uint32_t window;   /* no thread runs further ahead of the slowest; operations */
    size_t limit;      /* stop after this many operations; 0: all; not with threads */
    uint64_t *handles; /* room for trace->allocations, zero; NULL: the run's own */
    const struct gs_replay_pool *pool; /* through the pool: NULL: the default settings */
    struct gs_replay_segments *segments; /* through the pool, without threads: gets what
                                          * the driver was asked for; NULL: unwanted */
};

struct gs_replay_result {
    bool fits;
    size_t failed_at;      /* if not: the operation that found no memory */
    uint64_t failed_bytes; /* likewise: what it asked for */
    uint64_t ops;          /* carried out: allocations and frees */
    uint64_t ns;           /* from the first to the last */
};

/* Carry it out; what the trace never frees stays allocated. */
void gs_replay_run(const struct gs_replay_trace *trace,
                   const struct gs_replay_target *target,
                   const struct gs_replay_config *config,
                   struct gs_replay_result *result);

#endif
