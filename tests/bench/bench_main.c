/*
 * bench_main.c - one scenario against one allocator, one line of result.
 *
 *   PROGRAM ALLOCATOR SCENARIO [THREADS]   time it
 *   PROGRAM ALLOCATOR MODE NUMBER          measure something else: bench_modes.c
 *   PROGRAM list                           the scenarios, one a line
 *
 * The line of a timed run:
 *   scenario allocator threads median least most samples p99 timer low high share
 * in nanoseconds a pair, as one of the threads sees it. The last three are the humps of
 * bench.h: share is 0 where the median does not stand between two. One thread is timed by
 * bench_alone.c, which says how; several by samples of many cycles, with p99 and timer 0.
 * Ends with 0, with 1 where a call failed, with 3 where the allocator was out of memory,
 * with 2 for bad usage.
 *
 * Owns: everything here.   Lock: threads share what is written before they start.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define SAMPLE_NS   1.5e6 /* a sample lasts at least this long */
#define TOTAL_NS    120e6 /* and all of them together */
#define MIN_SAMPLES 15
#define MAX_SAMPLES 400
#define MAX_THREADS 64

void bench_check(int code, const char *what, const struct bench_allocator *allocator)
{
    if (code == 0)
        return;
    fprintf(stderr, "bench: %s by %s failed with code %d\n", what, allocator->name, code);
    exit(code == BENCH_OUT_OF_MEMORY ? 3 : 1);
}

void bench_run_op(const struct bench_allocator *allocator, const struct bench_op *op,
                  struct bench_block *slots)
{
    struct bench_block *block = &slots[op->slot];

    if (op->bytes) {
        bench_check(allocator->alloc(&block->addr, op->bytes), "an allocation",
                    allocator);
        block->bytes = op->bytes;
    } else {
        bench_check(allocator->release(block->addr, block->bytes), "a free", allocator);
    }
}

void bench_run_ops(const struct bench_allocator *allocator, const struct bench_ops *ops,
                   struct bench_block *slots)
{
    for (size_t i = 0; i < ops->count; i++)
        bench_run_op(allocator, &ops->list[i], slots);
}

/* ---- samples -------------------------------------------------------------------------
 */

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
    struct bench_times times; /* of one thread; of several, from the samples */
};

/* All threads do one sample; the time it took all of them. */
static double one_sample(struct run *run, struct bench_block *slots)
{
    double begin;

    pthread_barrier_wait(&run->barrier);
    begin = bench_now_ns();
    for (size_t i = 0; i < run->cycles; i++)
        bench_run_ops(run->allocator, &run->workload->cycle, slots);
    pthread_barrier_wait(&run->barrier);
    return bench_now_ns() - begin;
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

/* On lines of their own: a thread writes its slots all the time, and what lies beside
 * them (the operations) is read by all. */
static struct bench_block *make_slots(size_t count)
{
    const size_t line = 128,
                 bytes = (count * sizeof(struct bench_block) + line - 1) / line * line;
    struct bench_block *slots = aligned_alloc(line, bytes);

    if (!slots) {
        fprintf(stderr, "bench: no memory\n");
        exit(1);
    }
    return memset(slots, 0, bytes);
}

static void measure(struct run *run, bool first)
{
    struct bench_block *slots = make_slots(run->workload->slots);
    double total_ns = 0;

    bench_check(run->allocator->start(), "the start", run->allocator);
    bench_run_ops(run->allocator, &run->workload->setup, slots);
    bench_run_ops(run->allocator, &run->workload->cycle, slots);
    if (run->threads == 1)
        bench_time_alone(run->allocator, &run->workload->cycle, slots, &run->times);
    while (run->threads > 1 && !run->over) {
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

/* One thread's times are of a cycle, those of several of a pair. */
static void print_times(const struct bench_scenario *scenario,
                        const struct bench_allocator *allocator, unsigned threads,
                        const struct bench_times *times, size_t pairs)
{
    double scale = threads == 1 ? 1.0 / (double)pairs : 1.0;

    printf("%s %s %u %.1f %.1f %.1f %u %.1f %.1f %.1f %.1f %.3f\n", scenario->name,
           allocator->name, threads, times->median_ns * scale, times->least_ns * scale,
           times->most_ns * scale, times->samples, times->p99_ns, times->timer_ns,
           times->humps.low, times->humps.high, times->humps.share);
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
    bench_check(allocator->start(), "the start", allocator);
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
    if (threads > 1) {
        struct bench_humps humps = bench_find_humps(run.samples, run.count);

        run.times = (struct bench_times){
            .humps = humps,
            .median_ns = run.samples[run.count / 2],
            .least_ns = run.samples[0],
            .most_ns = run.samples[run.count - 1],
            .samples = run.count,
        };
    }
    print_times(scenario, allocator, threads, &run.times, workload.pairs);
    bench_workload_free(&workload);
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
            "ALLOCATOR MODE NUMBER | list\nallocators:",
            MAX_THREADS);
    for (size_t i = 0; bench_allocators[i].name; i++)
        fprintf(stderr, " %s", bench_allocators[i].name);
    fprintf(stderr, "\nmodes:");
    for (size_t i = 0; bench_modes[i].name; i++)
        fprintf(stderr, " %s", bench_modes[i].name);
    fprintf(stderr, "\n");
    return 2;
}

static int run_list(void)
{
    for (size_t i = 0; bench_scenarios[i].name; i++)
        puts(bench_scenarios[i].name);
    return 0;
}

static const struct bench_mode *find_mode(const char *name)
{
    for (size_t i = 0; bench_modes[i].name; i++) {
        if (!strcmp(bench_modes[i].name, name))
            return &bench_modes[i];
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const struct bench_allocator *allocator;
    const struct bench_scenario *scenario;
    const struct bench_mode *mode;
    unsigned long number = 1;

    if (argc == 2 && !strcmp(argv[1], "list"))
        return run_list();
    if (argc < 3 || argc > 4)
        return usage();
    allocator = find_allocator(argv[1]);
    scenario = find_scenario(argv[2]);
    mode = find_mode(argv[2]);
    if (argc == 4)
        number = parse_number(argv[3], mode ? mode->most : MAX_THREADS);
    if (!allocator || (!scenario && !mode) || number == 0 || (mode && argc < 4))
        return usage();
    return scenario ? run_timed(allocator, scenario, (unsigned)number)
                    : mode->run(allocator, number);
}
