/*
 * bench_modes.c - what is measured of an allocator beside the time of its pairs.
 *
 *   count PAIRS       that many pairs of 1 KiB, for a counter of instructions or calls
 *   resident COUNT    bytes of host memory for each of COUNT live blocks of 1 KiB
 *   miss COUNT        median nanoseconds of COUNT allocations of 32 MiB that nothing
 *                     cached can serve, and of their frees
 *   first COUNT       nanoseconds of each of the first COUNT allocations of 1 MiB, after
 * one of 512 B, none of which is freed pressure CYCLES   the scenario genesis-pressure so
 * often, for a counter of calls remote THREADS    nanoseconds a pair, each block freed by
 * the next thread flight ROUNDS     bench_flight.c trace ROUNDS      bench_trace.c
 *
 * Owns: nothing.   Lock: threads share what is written before they start.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "gs_base.h"

#define BATCH        2048 /* blocks a thread gets before the next thread frees them */
#define BATCHES      60
#define WARM_BATCHES 5
#define REMOTE_NS    2e9 /* after which no batch is begun, but the first */
#define REMOTE_BYTES (4 * GS_KIB)
#define MISS_BYTES   (32 * GS_MIB)
#define MOST_PAIRS   100000000
#define MOST_MISSES  10000
#define MOST_THREADS 64

static double *new_figures(unsigned long count)
{
    double *figures = calloc(count, sizeof(*figures));

    if (!figures) {
        fprintf(stderr, "bench: no memory\n");
        exit(1);
    }
    return figures;
}

/* The median; sorts the list. */
static double median(double *list, unsigned long count)
{
    qsort(list, count, sizeof(*list), bench_compare);
    return list[count / 2];
}

static int run_count(const struct bench_allocator *allocator, unsigned long pairs)
{
    uint64_t addr = 0;

    bench_check(allocator->start(), "the start", allocator);
    for (unsigned long i = 0; i < pairs; i++) {
        bench_check(allocator->alloc(&addr, GS_KIB), "an allocation", allocator);
        bench_check(allocator->release(addr, GS_KIB), "a free", allocator);
    }
    return 0;
}

/* Bytes of this process that are in memory; 0 if that cannot be told. */
static size_t resident_bytes(void)
{
    unsigned long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file)
        return 0;
    if (fscanf(file, "%lu %lu", &all, &resident) != 2)
        resident = 0;
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static int run_resident(const struct bench_allocator *allocator, unsigned long count)
{
    uint64_t *addrs = malloc(count * sizeof(*addrs));
    size_t before;

    if (!addrs) {
        fprintf(stderr, "bench: no memory\n");
        return 1;
    }
    memset(addrs, 0xff, count * sizeof(*addrs)); /* in memory before it is looked at */
    bench_check(allocator->start(), "the start", allocator);
    bench_check(allocator->alloc(&addrs[0], GS_KIB), "an allocation", allocator);
    bench_check(allocator->release(addrs[0], GS_KIB), "a free", allocator);
    before = resident_bytes();
    for (unsigned long i = 0; i < count; i++)
        bench_check(allocator->alloc(&addrs[i], GS_KIB), "an allocation", allocator);
    printf("%.1f\n", ((double)resident_bytes() - (double)before) / (double)count);
    for (unsigned long i = 0; i < count; i++)
        bench_check(allocator->release(addrs[i], GS_KIB), "a free", allocator);
    free(addrs);
    return 0;
}

static int run_miss(const struct bench_allocator *allocator, unsigned long count)
{
    uint64_t *addrs = calloc(count, sizeof(*addrs));
    double *allocs = new_figures(count), *frees = new_figures(count);

    if (!addrs) {
        fprintf(stderr, "bench: no memory\n");
        return 1;
    }
    bench_check(allocator->start(), "the start", allocator);
    bench_check(allocator->alloc(&addrs[0], GS_KIB), "an allocation", allocator);
    bench_check(allocator->release(addrs[0], GS_KIB), "a free", allocator);
    for (unsigned long i = 0; i < count; i++) {
        double begin = bench_now_ns();

        bench_check(allocator->alloc(&addrs[i], MISS_BYTES), "an allocation", allocator);
        allocs[i] = bench_now_ns() - begin;
    }
    for (unsigned long i = 0; i < count; i++) {
        double begin = bench_now_ns();

        bench_check(allocator->release(addrs[i], MISS_BYTES), "a free", allocator);
        frees[i] = bench_now_ns() - begin;
    }
    printf("miss %s %lu %.1f %.1f\n", allocator->name, count, median(allocs, count),
           median(frees, count));
    free(frees);
    free(allocs);
    free(addrs);
    return 0;
}

static int run_first(const struct bench_allocator *allocator, unsigned long count)
{
    uint64_t addr;
    double begin;

    bench_check(allocator->start(), "the start", allocator);
    bench_check(allocator->alloc(&addr, 512), "an allocation", allocator);
    begin = bench_now_ns();
    for (unsigned long i = 0; i < count; i++)
        bench_check(allocator->alloc(&addr, GS_MIB), "an allocation", allocator);
    printf("first %s %lu %.1f\n", allocator->name, count,
           (bench_now_ns() - begin) / (double)count);
    return 0;
}

static int run_pressure(const struct bench_allocator *allocator, unsigned long cycles)
{
    const struct bench_scenario *scenario = bench_scenarios;
    struct bench_workload workload = {0};
    struct bench_block *slots;

    while (strcmp(scenario->name, "genesis-pressure"))
        scenario++;
    bench_workload_build(scenario, &workload);
    slots = calloc(workload.slots, sizeof(*slots));
    if (!slots) {
        fprintf(stderr, "bench: no memory\n");
        return 1;
    }
    bench_check(allocator->start(), "the start", allocator);
    for (unsigned long i = 0; i < cycles; i++)
        bench_run_ops(allocator, &workload.cycle, slots);
    printf("%zu\n", workload.pairs);
    free(slots);
    bench_workload_free(&workload);
    return 0;
}

/* ---- blocks that another thread frees ------------------------------------------------
 */

/* What the threads share. Each writes its own row of `blocks` and its own places of
 * `took` between barriers; the next thread reads the blocks behind one. `over` and
 * `batches` are the first thread's, which writes `over` in front of a barrier that all
 * read it behind. */
struct remote {
    const struct bench_allocator *allocator;
    pthread_barrier_t barrier;
    unsigned long threads;
    uint64_t (*blocks)[BATCH];
    double *took; /* ns a pair, batch by batch one of each thread */
    unsigned long batches;
    bool over;
};

struct remote_thread {
    struct remote *remote;
    unsigned long index;
};

static void *remote_thread(void *argument)
{
    const struct remote_thread *self = argument;
    struct remote *remote = self->remote;
    const struct bench_allocator *allocator = remote->allocator;
    uint64_t *mine = remote->blocks[self->index];
    uint64_t *others = remote->blocks[(self->index + 1) % remote->threads];

    double began = bench_now_ns();

    bench_check(allocator->start(), "the start", allocator);
    for (int batch = -WARM_BATCHES; batch < BATCHES; batch++) {
        double begin, took_ns;

        if (self->index == 0)
            remote->over = batch > 0 && bench_now_ns() - began > REMOTE_NS;
        pthread_barrier_wait(&remote->barrier);
        if (remote->over)
            break;
        begin = bench_now_ns();
        for (size_t i = 0; i < BATCH; i++)
            bench_check(allocator->alloc(&mine[i], REMOTE_BYTES), "an allocation",
                        allocator);
        took_ns = bench_now_ns() - begin;
        pthread_barrier_wait(&remote->barrier);
        begin = bench_now_ns();
        for (size_t i = 0; i < BATCH; i++)
            bench_check(allocator->release(others[i], REMOTE_BYTES), "a free", allocator);
        took_ns += bench_now_ns() - begin;
        if (batch < 0)
            continue;
        remote->took[(unsigned long)batch * remote->threads + self->index] =
            took_ns / BATCH;
        if (self->index == 0)
            remote->batches++;
    }
    return NULL;
}

static int run_remote(const struct bench_allocator *allocator, unsigned long threads)
{
    struct remote remote = {.allocator = allocator, .threads = threads};
    struct remote_thread selves[MOST_THREADS];
    pthread_t others[MOST_THREADS];

    remote.blocks = calloc(threads, sizeof(*remote.blocks));
    remote.took = new_figures(threads * BATCHES);
    if (!remote.blocks ||
        pthread_barrier_init(&remote.barrier, NULL, (unsigned)threads)) {
        fprintf(stderr, "bench: no memory or no barrier\n");
        return 1;
    }
    bench_check(allocator->start(), "the start", allocator);
    for (unsigned long i = 0; i < threads; i++) {
        selves[i] = (struct remote_thread){&remote, i};
        if (i > 0 && pthread_create(&others[i], NULL, remote_thread, &selves[i])) {
            fprintf(stderr, "bench: no thread\n");
            exit(1);
        }
    }
    remote_thread(&selves[0]);
    for (unsigned long i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
    printf("remote %s %lu %.1f\n", allocator->name, threads,
           median(remote.took, threads * remote.batches));
    pthread_barrier_destroy(&remote.barrier);
    free(remote.took);
    free(remote.blocks);
    return 0;
}

const struct bench_mode bench_modes[] = {
    {"count", run_count, MOST_PAIRS},
    {"resident", run_resident, MOST_PAIRS},
    {"miss", run_miss, MOST_MISSES},
    {"first", run_first, MOST_MISSES},
    {"pressure", run_pressure, MOST_MISSES},
    {"remote", run_remote, MOST_THREADS},
    {"flight", bench_run_flight, MOST_MISSES},
    {"trace", bench_run_trace, 1000},
    {NULL, NULL, 0},
};
