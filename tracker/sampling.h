/*
 * sampling.h - chooses the allocations that get a call stack, and their weights.
 *
 * Every allocation is recorded; only its stack is sampled. A thread takes a stack each
 * time it has allocated a number of bytes drawn from an exponential distribution. So an
 * allocation of s bytes has a stack with probability 1 - exp(-s / distance), whatever was
 * allocated before it, and represents 1 / that probability of its kind.
 *
 * Locks: none.   Design: docs/tracker.md, "Sampling"
 */
#ifndef GS_SAMPLING_H
#define GS_SAMPLING_H

#include "gs_base.h"

/* Values in place of a stack's id, where sampling left the stack out. */
#define GS_STACK_NOT_SAMPLED UINT32_MAX
#define GS_STACK_TOO_SMALL   (UINT32_MAX - 1)

static inline bool gs_stack_left_out(uint32_t stack)
{
    return stack >= GS_STACK_TOO_SMALL;
}

struct gs_sampling {
    uint64_t distance_bytes; /* average distance between two stacks; 0: each allocation
                              * has one */
    uint64_t always_bytes;   /* allocations of this size and more all have one; 0: no such
                              * size */
    uint64_t min_bytes;      /* smaller allocations have none */
};

/* Decides whether this thread's allocation of `bytes` gets a stack. 0: take a stack now;
 * else the value to store in place of one. `sampling` may change meanwhile, by atomic
 * words. */
uint32_t gs_sampling_choose(const struct gs_sampling *sampling, uint64_t bytes);

/* Returns the number of allocations that one of `bytes` with that stack represents: 1 or
 * more; 0 if it has no stack, and other allocations represent it. */
double gs_sampling_weight(const struct gs_sampling *sampling, uint32_t stack,
                          uint64_t bytes);

/* Rounds a sum of weights, and limits it to the largest number that a report shows. */
static inline uint64_t gs_likely(double sum)
{
    return sum < 1e18 ? (uint64_t)(sum + 0.5) : UINT64_C(1000000000000000000);
}

/* Sets the seed of this thread's distances; for tests. */
void gs_sampling_seed(uint64_t seed);

/* -ln(u / 2^53), for u of 1 to 2^53; 1 - exp(-x), for x > 0. The C library without libm
 * has neither. */
double gs_sampling_minus_log(uint64_t u);
double gs_sampling_hit(double x);

#endif
