/*
 * bench_alone.c - one thread's time in a cycle, on a machine that others use too.
 *
 * A cycle is timed in stretches of some hundred operations, which are over long before
 * the scheduler takes the processor away: most are left alone even under load. The
 * median of each stretch over all cycles is taken, and their sum is the cycle's. Reading
 * the timer costs some 20 ns a stretch, which is not taken off.
 *
 * The 99th percentile, and whether the times have two humps, is of pairs timed one by one
 * (two operations that follow each other), less what the timer itself costs.
 *
 * Owns: the figures of the last run.   Lock: none; one thread.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define STRETCH    512 /* operations */
#define MIN_CYCLES 15
#define MAX_CYCLES 2000
#define TOTAL_NS   120e6 /* after which MIN_CYCLES are enough */
#define SINGLES    20000 /* pairs timed one by one */
#define MOST_NS    2e9 /* for the cycles, and for the pairs: a GPU's own may take 1 ms */

/* A clock that is cheap to read: the processor's where that is a steady one. */
static uint64_t ticks(void)
{
#if defined(__x86_64__)
    unsigned processor;

    return __builtin_ia32_rdtscp(&processor);
#else
    return (uint64_t)bench_now_ns();
#endif
}

/* Nanoseconds a tick, from ten milliseconds of both clocks. */
static double tick_ns(void)
{
    double begin_ns = bench_now_ns(), now = begin_ns;
    uint64_t begin = ticks();

    while (now - begin_ns < 10e6)
        now = bench_now_ns();
    return (now - begin_ns) / (double)(ticks() - begin);
}

static int compare_ticks(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/*
 * Pairs, each timed for itself: SINGLES, or as many as end in MOST_NS.
 *
 * In:   slots    as the workload's set-up and whole cycles of it have left them
 * Out:  times    p99 and humps, in nanoseconds less the timer's own; what that costs
 */
static void time_singles(const struct bench_allocator *allocator,
                         const struct bench_ops *cycle, struct bench_block *slots,
                         struct bench_times *times)
{
    static uint64_t took[SINGLES]; /* large */
    static double took_ns[SINGLES];
    const double scale = tick_ns(), begin_ns = bench_now_ns();
    uint64_t none;
    size_t done = 0;

    for (size_t i = 0; i < SINGLES; i++) {
        took[i] = ticks();
        took[i] = ticks() - took[i];
    }
    qsort(took, SINGLES, sizeof(*took), compare_ticks);
    none = took[SINGLES / 2];
    while (done < SINGLES && (done == 0 || bench_now_ns() - begin_ns < MOST_NS)) {
        for (size_t i = 0; i + 1 < cycle->count; i += 2) {
            uint64_t begin = ticks();

            bench_run_op(allocator, &cycle->list[i], slots);
            bench_run_op(allocator, &cycle->list[i + 1], slots);
            if (done < SINGLES)
                took[done++] = ticks() - begin;
        }
        if (cycle->count % 2)
            bench_run_op(allocator, &cycle->list[cycle->count - 1], slots);
    }
    for (size_t i = 0; i < done; i++)
        took_ns[i] = took[i] > none ? (double)(took[i] - none) * scale : 0;
    times->humps = bench_find_humps(took_ns, done); /* sorts them */
    times->timer_ns = (double)none * scale;
    times->p99_ns = took_ns[done * 99 / 100];
}

/* ---- stretches -----------------------------------------------------------------------
 */

static uint64_t time_stretch(const struct bench_allocator *allocator,
                             const struct bench_op *list, size_t count,
                             struct bench_block *slots)
{
    uint64_t begin = ticks();

    for (size_t i = 0; i < count; i++)
        bench_run_op(allocator, &list[i], slots);
    return ticks() - begin;
}

/* Whether there is another cycle, after `cycles` that took so long. */
static bool one_more(unsigned cycles, double took_ns)
{
    if (cycles < MIN_CYCLES)
        return cycles == 0 || took_ns < MOST_NS;
    return cycles < MAX_CYCLES && took_ns < TOTAL_NS;
}

/* MAX_CYCLES figures of each stretch, in ticks; those of the cycles that were run are
 * filled in. Returns the number of these. */
static unsigned time_cycles(const struct bench_allocator *allocator,
                            const struct bench_ops *cycle, struct bench_block *slots,
                            uint64_t *took)
{
    double begin = bench_now_ns();
    unsigned cycles = 0;

    while (one_more(cycles, bench_now_ns() - begin)) {
        uint64_t *row = took + cycles;

        for (size_t i = 0; i < cycle->count; i += STRETCH) {
            size_t left = cycle->count - i;

            *row = time_stretch(allocator, &cycle->list[i],
                                left < STRETCH ? left : STRETCH, slots);
            row += MAX_CYCLES;
        }
        cycles++;
    }
    return cycles;
}

void bench_time_alone(const struct bench_allocator *allocator,
                      const struct bench_ops *cycle, struct bench_block *slots,
                      struct bench_times *times)
{
    const size_t stretches = (cycle->count + STRETCH - 1) / STRETCH;
    const double scale = tick_ns();
    uint64_t *took = calloc(stretches, MAX_CYCLES * sizeof(*took));

    if (!took) {
        fprintf(stderr, "bench: no memory\n");
        exit(1);
    }
    *times = (struct bench_times){0};
    times->samples = time_cycles(allocator, cycle, slots, took);
    for (size_t i = 0; i < stretches; i++) {
        uint64_t *row = took + i * MAX_CYCLES;

        qsort(row, times->samples, sizeof(*row), compare_ticks);
        times->median_ns += (double)row[times->samples / 2] * scale;
        times->least_ns += (double)row[0] * scale;
        times->most_ns += (double)row[times->samples - 1] * scale;
    }
    free(took);
    time_singles(allocator, cycle, slots, times);
}
