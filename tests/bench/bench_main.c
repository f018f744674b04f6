/*
 * bench_main.c - one scenario against one allocator, one line of result.
 *
 *   PROGRAM ALLOCATOR SCENARIO [THREADS]   time it
 *   PROGRAM ALLOCATOR count PAIRS          that many pairs of 1 KiB, for an instruction
 *                                          counter
 *   PROGRAM ALLOCATOR resident COUNT       what COUNT live blocks take of the host's
 * memory PROGRAM list                           the scenarios, one a line
 *
 * The line of a timed run:  scenario allocator threads median least most samples
 * in nanoseconds a pair, as one of the threads sees it. That of `resident`: bytes a
 * block. Ends with 0, with 1 where a call failed, with 2 for bad usage.
 *
 * Owns: everything here.   Lock: threads share what is written before they start.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "gs_base.h"

#define SAMPLE_NS   1.5e6 /* a sample lasts at least this long */
#define TOTAL_NS    120e6 /* and all of them together */
#define MIN_SAMPLES 15
#define LONG_NS     1200e6 /* after that, FEW_SAMPLES are enough */
#define FEW_SAMPLES 3
#define MAX_SAMPLES 400
#define MAX_THREADS 64

static void check(int code, const char *what, const struct bench_allocator *allocator)
{
    if (code == 0)
        return;
    fprintf(stderr, "bench: %s by %s failed with code %d\n", what, allocator->name, code);
    exit(1);
}

static double now_ns(void)
{
    struct timespec when;

    clock_gettime(CLOCK_MONOTONIC, &when);
    return (double)when.tv_sec * 1e9 + (double)when.tv_nsec;
}

static void run_ops(const struct bench_allocator *allocator, const struct bench_ops *ops,
                    uint64_t *slots)
{
    for (size_t i = 0; i < ops->count; i++) {
        const struct bench_op *op = &ops->list[i];

        if (op->bytes)
            check(allocator->alloc(&slots[op->slot], op->bytes), "an allocation",
                  allocator);
        else
            check(allocator->release(slots[op->slot]), "a free", allocator);
    }
}

/* What the threads of a run share. `cycles` and `over` are written by the first thread
 * between two barriers and read by all behind the second. */
struct run {
    const struct bench_allocator *allocator;
    const struct bench_workload *workload;
    pthread_barrier_t barrier;
    unsigned threads;
    size_t cycles; /* in a sample */
    bool over;
    double samples[MAX_SAMPLES];
    unsigned count;
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* All threads do one sample; the time it took all of them. */
static double one_sample(struct run *run, uint64_t *slots)
{
    double begin;

    pthread_barrier_wait(&run->barrier);
    begin = now_ns();
    for (size_t i = 0; i < run->cycles; i++)
        run_ops(run->allocator, &run->workload->cycle, slots);
    pthread_barrier_wait(&run->barrier);
    return now_ns() - begin;
}

/* Called by the first thread alone, after each sample. */
static void book_sample(struct run *run, double took_ns, double *total_ns)
{
    if (took_ns < SAMPLE_NS && *total_ns == 0) {
        run->cycles *= 2; /* too short to be timed: nothing is kept */
        return;
    }
    *total_ns += took_ns;
    run->samples[run->count++] =
        took_ns / ((double)run->cycles * (double)run->workload->pairs);
    run->over =
        run->count == MAX_SAMPLES || (run->count >= MIN_SAMPLES && *total_ns >= TOTAL_NS);
}

static void measure(struct run *run, bool first)
{
    uint64_t *slots = calloc(run->workload->slots, sizeof(*slots));
    double total_ns = 0;

    if (!slots) {
        fprintf(stderr, "bench: no memory\n");
        exit(1);
    }
    check(run->allocator->start(), "the start", run->allocator);
    run_ops(run->allocator, &run->workload->setup, slots);
    run_ops(run->allocator, &run->workload->cycle, slots);
    while (!run->over) {
        double took_ns = one_sample(run, slots);

        if (first)
            book_sample(run, took_ns, &total_ns);
        pthread_barrier_wait(&run->barrier);
    }
    free(slots);
}

static void *other_thread(void *argument)
{
    measure(argument, false);
    return NULL;
}

static int run_timed(const struct bench_allocator *allocator,
                     const struct bench_scenario *scenario, unsigned threads)
{
    static struct run run; /* large */
    struct bench_workload workload = {0};
    pthread_t others[MAX_THREADS];

    bench_workload_build(scenario, &workload);
    run.allocator = allocator;
    run.workload = &workload;
    run.threads = threads;
    run.cycles = 1;
    if (pthread_barrier_init(&run.barrier, NULL, threads)) {
        fprintf(stderr, "bench: no barrier\n");
        return 1;
    }
    check(allocator->start(), "the start", allocator);
    for (unsigned i = 1; i < threads; i++) {
        if (pthread_create(&others[i], NULL, other_thread, &run)) {
            fprintf(stderr, "bench: no thread\n");
            exit(1);
        }
    }
    measure(&run, true);
    for (unsigned i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
    pthread_barrier_destroy(&run.barrier);
    qsort(run.samples, run.count, sizeof(*run.samples), compare);
    printf("%s %s %u %.1f %.1f %.1f %u\n", scenario->name, allocator->name, threads,
           run.samples[run.count / 2], run.samples[0], run.samples[run.count - 1],
           run.count);
    bench_workload_free(&workload);
    return 0;
}

static int run_count(const struct bench_allocator *allocator, unsigned long pairs)
{
    uint64_t addr = 0;

    check(allocator->start(), "the start", allocator);
    for (unsigned long i = 0; i < pairs; i++) {
        check(allocator->alloc(&addr, GS_KIB), "an allocation", allocator);
        check(allocator->release(addr), "a free", allocator);
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
    check(allocator->start(), "the start", allocator);
    check(allocator->alloc(&addrs[0], GS_KIB), "an allocation", allocator);
    check(allocator->release(addrs[0]), "a free", allocator);
    before = resident_bytes();
    for (unsigned long i = 0; i < count; i++)
        check(allocator->alloc(&addrs[i], GS_KIB), "an allocation", allocator);
    printf("%.1f\n", ((double)resident_bytes() - (double)before) / (double)count);
    for (unsigned long i = 0; i < count; i++)
        check(allocator->release(addrs[i]), "a free", allocator);
    free(addrs);
    return 0;
}

static const struct bench_allocator *find_allocator(const char *name)
{
    for (size_t i = 0; bench_allocators[i].name; i++) {
        if (!strcmp(bench_allocators[i].name, name))
            return &bench_allocators[i];
    }
    return NULL;
}

static const struct bench_scenario *find_scenario(const char *name)
{
    for (size_t i = 0; bench_scenarios[i].name; i++) {
        if (!strcmp(bench_scenarios[i].name, name))
            return &bench_scenarios[i];
    }
    return NULL;
}

/* A whole number from 1 to `most`; 0 if it is none. */
static unsigned long parse_number(const char *text, unsigned long most)
{
    char *end;
    unsigned long value;

    if (text[0] < '0' || text[0] > '9')
        return 0;
    errno = 0;
    value = strtoul(text, &end, 10);
    return errno || *end || value > most ? 0 : value;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: bench_... ALLOCATOR SCENARIO [THREADS (1 to %d)] | "
            "ALLOCATOR count|resident NUMBER | list\nallocators:",
            MAX_THREADS);
    for (size_t i = 0; bench_allocators[i].name; i++)
        fprintf(stderr, " %s", bench_allocators[i].name);
    fprintf(stderr, "\n");
    return 2;
}

static int run_list(void)
{
    for (size_t i = 0; bench_scenarios[i].name; i++)
        puts(bench_scenarios[i].name);
    return 0;
}

int main(int argc, char **argv)
{
    const struct bench_allocator *allocator;
    const struct bench_scenario *scenario;
    bool counted;
    unsigned long number = 1;

    if (argc == 2 && !strcmp(argv[1], "list"))
        return run_list();
    if (argc < 3 || argc > 4)
        return usage();
    allocator = find_allocator(argv[1]);
    scenario = find_scenario(argv[2]);
    counted = !strcmp(argv[2], "count") || !strcmp(argv[2], "resident");
    if (argc == 4)
        number = parse_number(argv[3], counted ? 100000000 : MAX_THREADS);
    if (!allocator || (!scenario && !counted) || number == 0 || (counted && argc < 4))
        return usage();
    if (scenario)
        return run_timed(allocator, scenario, (unsigned)number);
    return !strcmp(argv[2], "count") ? run_count(allocator, number)
                                     : run_resident(allocator, number);
}
