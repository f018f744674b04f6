/*
 * sampling.h - which allocations have a call stack, and what one that has stands for.
 *
 * Every allocation is recorded; what is sampled is its stack. One is taken each so many
 * bytes that a thread allocates, at distances drawn from an exponential distribution: so
 * an allocation of s bytes has one with probability 1 - exp(-s / distance), whatever was
 * allocated before it, and stands for 1 / that probability of its like.
 *
 * Locks: none.   Design: docs/tracker.md, "Less than everything"
 */
#ifndef GS_SAMPLING_H
#define GS_SAMPLING_H

#include "gs_base.h"

/* What stands in the place of a stack's id where none was taken on purpose. */
#define GS_STACK_NOT_SAMPLED UINT32_MAX
#define GS_STACK_TOO_SMALL   (UINT32_MAX - 1)

static inline bool gs_stack_left_out(uint32_t stack)
{
    return stack >= GS_STACK_TOO_SMALL;
}

struct gs_sampling {
    uint64_t distance_bytes; /* on average from one stack to the next; 0: each has one */
    uint64_t always_bytes;   /* from here on each has one; 0: no such size */
    uint64_t min_bytes;      /* below none has one */
};

/* What an allocation of `bytes` by this thread has: 0 a stack, to be taken now; else what
 * stands in its place. */
uint32_t gs_sampling_choose(const struct gs_sampling *sampling, uint64_t bytes);

/* How many allocations one of `bytes` and of that stack stands for: 1 or more; 0 where it
 * has none, and is stood for by others. */
double gs_sampling_weight(const struct gs_sampling *sampling, uint32_t stack,
                          uint64_t bytes);

/* A sum of weights as a number: rounded, and never more than a report could show. */
static inline uint64_t gs_likely(double sum)
{
    return sum < 1e18 ? (uint64_t)(sum + 0.5) : UINT64_C(1000000000000000000);
}

/* This thread's distances from now on; for tests. */
void gs_sampling_seed(uint64_t seed);

/* -ln(u / 2^53), for u of 1 to 2^53; 1 - exp(-x), for x > 0. The C library alone has
 * neither. */
double gs_sampling_minus_log(uint64_t u);
double gs_sampling_hit(double x);

#endif
