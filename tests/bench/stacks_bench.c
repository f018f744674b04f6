/*
 * stacks_bench.c - what a call stack costs: ns a capture, for each way of unwinding.
 *
 *   stacks_bench [frames [captures]]       default 20 frames, 1000000 captures
 *   stacks_bench --one WAY frames captures only this way, no timing (for callgrind)
 *
 * same:  a chain of `frames` functions that cannot be inlined ends in the loop that
 *        captures: each capture walks at least that many frames, always the same ones.
 * mixed: 256 different chains of that depth in random order, one capture each; the cost
 * of going down and up without a capture is taken off. Every captured stack is known
 * already. The best of five rounds is printed; then the memory that many distinct stacks
 * take.
 */
#include "bench_time.h"
#include "tracker/stacks/stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS      5
#define MIXED_PATHS 256
#define TREE_STACKS 100000
#define TREE_DEPTH  24

struct way {
    const char *name;
    enum gs_unwinder unwinder;
};

static const struct way ways[] = {
    {"cfi", GS_UNWIND_CFI},
    {"libunwind", GS_UNWIND_LIBUNWIND},
    {"fp", GS_UNWIND_FP},
    {"gcc", GS_UNWIND_GCC},
};

struct job {
    struct gs_stacks *stacks;
    unsigned long captures;
    uint32_t id;
    double best_ns;
};

static __attribute__((noinline)) void innermost(struct job *job)
{
    for (int round = 0; round < ROUNDS; round++) {
        double start = bench_now_ns(), each;

        for (unsigned long i = 0; i < job->captures; i++)
            job->id = gs_stacks_capture(job->stacks);
        each = (bench_now_ns() - start) / (double)job->captures;
        if (round == 0 || each < job->best_ns)
            job->best_ns = each;
    }
}

static __attribute__((noinline)) int chain(struct job *job, unsigned frames)
{
    volatile int after = 1; /* keeps the call from being a jump */

    if (frames <= 1)
        innermost(job);
    else
        after += chain(job, frames - 1);
    return after;
}

/* Two places to call from at each level: `path` says which, so 2^frames chains. */
static __attribute__((noinline)) int branch(struct job *job, unsigned frames,
                                            unsigned path)
{
    volatile int after = 1;

    if (frames <= 1)
        job->id = job->stacks != NULL ? gs_stacks_capture(job->stacks) : 1;
    else if (path & 1)
        after += branch(job, frames - 1, path >> 1);
    else
        after -= branch(job, frames - 1, path >> 1);
    return after;
}

static double mixed_round(struct job *job, unsigned frames)
{
    unsigned seed = 5;
    double start = bench_now_ns();

    for (unsigned long i = 0; i < job->captures; i++)
        branch(job, frames, (unsigned)rand_r(&seed) % MIXED_PATHS);
    return (bench_now_ns() - start) / (double)job->captures;
}

/* ns of a capture among many stacks; never the same twice in a row, mostly. */
static double measure_mixed(const struct job *job, unsigned frames)
{
    struct job with = *job, without = *job;
    double best_with = 0, best_without = 0;

    without.stacks = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        double took = mixed_round(&with, frames);

        if (round == 0 || took < best_with)
            best_with = took;
        took = mixed_round(&without, frames);
        if (round == 0 || took < best_without)
            best_without = took;
    }
    return best_with - best_without;
}

static int run_way(const struct way *way, unsigned frames, unsigned long captures,
                   bool quiet)
{
    struct gs_stacks_config config = {.unwinder = way->unwinder,
                                      .depth = GS_STACK_MAX_DEPTH};
    struct job job = {.captures = captures};
    unsigned found;

    if (gs_stacks_create(&config, &job.stacks) != GS_OK)
        return 1;
    if (gs_stacks_unwinder(job.stacks) != way->unwinder) {
        printf("%-10s not to be had here\n", way->name);
    } else {
        chain(&job, frames);
        found = gs_stacks_frames(job.stacks, job.id, NULL, 0);
        if (!quiet)
            printf("%-10s same %7.1f ns, mixed %7.1f ns a capture of %u frames\n",
                   way->name, job.best_ns, measure_mixed(&job, frames), found);
    }
    gs_stacks_destroy(job.stacks);
    return 0;
}

/* Stacks as a program makes them: an outer part that few paths share, then branches. */
static int measure_memory(void)
{
    struct gs_stacks_config config = {.unwinder = GS_UNWIND_OFF,
                                      .depth = GS_STACK_MAX_DEPTH};
    struct gs_stacks *stacks;
    uintptr_t frames[TREE_DEPTH];
    unsigned seed = 1;

    if (gs_stacks_create(&config, &stacks) != GS_OK)
        return 1;
    for (unsigned i = 0; i < TREE_STACKS; i++) {
        uintptr_t path = 0;

        for (unsigned k = TREE_DEPTH; k-- > 0;) {
            /* every third frame branches three ways */
            path = path * 31 + (k % 3 == 0 ? (uintptr_t)(rand_r(&seed) % 3 + 1) : 0);
            frames[k] = 0x400000 + (path * 4096 + k * 16) % 0x7fffff;
        }
        gs_stacks_intern(stacks, frames, TREE_DEPTH);
    }
    printf("memory     %u stacks of %u frames: %.1f bytes a stack, flat would be %zu\n",
           gs_stacks_count(stacks), TREE_DEPTH,
           (double)gs_stacks_bytes(stacks) / gs_stacks_count(stacks),
           TREE_DEPTH * sizeof(uintptr_t));
    gs_stacks_destroy(stacks);
    return 0;
}

int main(int argc, char **argv)
{
    bool one = argc == 5 && strcmp(argv[1], "--one") == 0;
    char **numbers = one ? argv + 3 : argv + 1;
    unsigned frames = numbers[0] != NULL ? (unsigned)atoi(numbers[0]) : 20;
    unsigned long captures = numbers[0] != NULL && numbers[1] != NULL
                                 ? strtoul(numbers[1], NULL, 10)
                                 : 1000000;
    int failed = 0;

    if (frames == 0 || captures == 0) {
        fprintf(stderr, "usage: stacks_bench [--one WAY] [frames [captures]]\n");
        return 2;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(ways); i++) {
        if (!one || strcmp(argv[2], ways[i].name) == 0)
            failed |= run_way(&ways[i], frames, captures, one);
    }
    if (!one)
        failed |= measure_memory();
    return failed;
}
