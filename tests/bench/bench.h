/*
 * bench.h - what the parts of a benchmark program agree on.
 *
 * A program is bench_main.c, bench_alone.c, bench_modes.c, bench_flight.c, bench_humps.c,
 * bench_trace.c, workload.c and one file of allocators: bench_runtime, bench_driver,
 * bench_cub, bench_rmm and bench_torch run the same workloads, written as lists of
 * operations, against the allocators of their file. scripts/bench runs them side by side.
 *
 * Owns: nothing.   Lock: none.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "bench_time.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_OUT_OF_MEMORY 2 /* CUDA_ERROR_OUT_OF_MEMORY, cudaErrorMemoryAllocation */

/* A way to get and return memory. Each function answers 0 or its API's code. */
struct bench_allocator {
    const char *name;
    int (*start)(void); /* leaves device 0 current to the calling thread */
    int (*alloc)(uint64_t *addr, size_t bytes);
    int (*release)(uint64_t addr, size_t bytes); /* those that were asked for */
};

/* The allocators of this program; the last has no name. Immutable. */
extern const struct bench_allocator bench_allocators[];

/* Get `bytes` for `slot`, or return what it holds if `bytes` is 0. */
struct bench_op {
    uint32_t slot;
    size_t bytes;
};

/* What a slot holds. */
struct bench_block {
    uint64_t addr;
    size_t bytes;
};

/* A list that grows; count <= room. */
struct bench_ops {
    struct bench_op *list;
    size_t count, room;
};

/* `setup` is run once, then `cycle` again and again: it must leave the slots that it
 * found empty empty, and those it found full full. */
struct bench_workload {
    struct bench_ops setup, cycle;
    uint32_t slots; /* all slots are below */
    size_t pairs;   /* allocations in a cycle */
};

/* A workload by name. */
struct bench_scenario {
    const char *name;
    void (*build)(struct bench_workload *workload);
};

/* All of them; the last has no name. Immutable. */
extern const struct bench_scenario bench_scenarios[];

/* Something that is not a workload; `run` is the program's end status, and `number` of
 * 1 to `most` is the user's. */
struct bench_mode {
    const char *name;
    int (*run)(const struct bench_allocator *allocator, unsigned long number);
    unsigned long most;
};

/* All of them; the last has no name. Immutable. */
extern const struct bench_mode bench_modes[];

/* The modes of bench_flight.c and bench_trace.c: see there. */
int bench_run_flight(const struct bench_allocator *allocator, unsigned long rounds);
int bench_run_trace(const struct bench_allocator *allocator, unsigned long rounds);

/* End the program, saying what failed, unless `code` is 0. */
void bench_check(int code, const char *what, const struct bench_allocator *allocator);

/* Two humps of a distribution: the median of each, and the share of the times that
 * belong to the higher one; 0: there is one hump. */
struct bench_humps {
    double low, high, share;
};

/* Sorts the times, and looks whether they have two humps. */
struct bench_humps bench_find_humps(double *times, size_t count);

/* What timing a cycle came to. */
struct bench_times {
    double median_ns, least_ns, most_ns;
    struct bench_humps humps; /* of a pair, in nanoseconds */
    double p99_ns;            /* of a pair */
    double timer_ns;          /* what reading the timer costs, which is not in the p99 */
    unsigned samples;
};

/* bench_alone.c: time the cycle, its slots as a set-up and whole cycles have left them.
 */
void bench_time_alone(const struct bench_allocator *allocator,
                      const struct bench_ops *cycle, struct bench_block *slots,
                      struct bench_times *times);

/* Do one; ends the program where it fails. */
void bench_run_op(const struct bench_allocator *allocator, const struct bench_op *op,
                  struct bench_block *slots);

/* Do them one after the other; ends the program where one fails. */
void bench_run_ops(const struct bench_allocator *allocator, const struct bench_ops *ops,
                   struct bench_block *slots);

/* Fill in a zeroed `workload`. Ends the program if there is no memory for it. */
void bench_workload_build(const struct bench_scenario *scenario,
                          struct bench_workload *workload);
void bench_workload_free(struct bench_workload *workload);

#ifdef __cplusplus
}
#endif

#endif
