/*
 * free_stacks.h - decides which frees have a call stack.
 *
 * A stack costs a free 25 ns if its walk is recognised, some 200 ns if not: too much for
 * each free of a loop, and nothing for a program that frees a thousand times a second. So
 * each thread has a budget that grows with time: frees at a moderate rate all have a
 * stack, and in a loop of frees a compare decides (docs/tracker.md, "A report with
 * errors").
 *
 * Owns:  the calling thread's budget.   Lock: none, thread-local.
 */
#ifndef GS_FREE_STACKS_H
#define GS_FREE_STACKS_H

#include "gs_base.h"

struct gs_tracker;

/* The stacks that a thread may capture at once, and the time that earns it one more. */
#define GS_FREE_STACKS_MOST 256u
#define GS_FREE_STACK_NS    16384u

struct gs_free_budget {
    uint64_t next_ns;   /* no stack before this time */
    uint64_t filled_ns; /* when `left` last grew */
    uint32_t left;
};

extern __thread struct gs_free_budget gs_free_budget
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The slow path of gs_free_stack. */
uint32_t gs_free_stack_due(const struct gs_tracker *tracker, uint64_t clock_ns)
    __attribute__((noinline));

/* Captures the stack of a free by the calling thread, if it is to have one; 0: none.
 * clock_ns: of gs_tracker_clock. No lock is held. */
static inline uint32_t gs_free_stack(const struct gs_tracker *tracker, uint64_t clock_ns)
{
    return GS_LIKELY(clock_ns < gs_free_budget.next_ns)
               ? 0
               : gs_free_stack_due(tracker, clock_ns);
}

#endif
