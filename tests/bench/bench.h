/*
 * bench.h - what the parts of a benchmark program agree on.
 *
 * A program is bench_main.c, workload.c and one file of allocators: bench_runtime,
 * bench_driver and bench_cub run the same workloads, written as lists of operations,
 * against the allocators of their file. scripts/bench runs them side by side.
 *
 * Owns: nothing.   Lock: none.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A way to get and return device memory. Each function answers 0 or its API's code. */
struct bench_allocator {
    const char *name;
    int (*start)(void); /* leaves device 0 current to the calling thread */
    int (*alloc)(uint64_t *addr, size_t bytes);
    int (*release)(uint64_t addr);
};

/* The allocators of this program; the last has no name. Immutable. */
extern const struct bench_allocator bench_allocators[];

/* Get `bytes` for `slot`, or return what it holds if `bytes` is 0. */
struct bench_op {
    uint32_t slot;
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

/* Fill in a zeroed `workload`. Ends the program if there is no memory for it. */
void bench_workload_build(const struct bench_scenario *scenario,
                          struct bench_workload *workload);
void bench_workload_free(struct bench_workload *workload);

#ifdef __cplusplus
}
#endif

#endif
