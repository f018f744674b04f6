/*
 * bench_trace.c - the mode `trace`: a recorded program through an allocator.
 *
 *   trace ROUNDS    carries out the trace that BENCH_TRACE names, so often
 *
 * The line is that of a timed run, in nanoseconds for each allocation of the trace and
 * its free; the first of several rounds, which finds nothing cached, is not in it. What
 * the trace never frees is freed between two rounds, untimed, and is left at the end, so
 * that one round is the trace and nothing else to whoever counts calls of the driver.
 *
 * Operations are carried out by one thread in the trace's order, of memory of all kinds,
 * as this allocator's.
 *
 * Owns: nothing.   Lock: none; one thread.   Formats: docs/traces.md
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "shim/tools/replay/replay_trace.h"

#define MOST_ROUNDS 1000

/* What an allocation of the trace has become; 0: it is not live. */
struct live {
    uint64_t addr;
    size_t bytes;
};

static void load(struct gs_replay_trace *trace)
{
    const char *path = getenv("BENCH_TRACE");
    struct gs_replay_note note = {""};

    if (!path || !gs_replay_load(path, trace, &note) || note.text[0]) {
        fprintf(stderr, "bench: BENCH_TRACE=%s: %s\n", path ? path : "",
                note.text[0] ? note.text : "names no trace");
        exit(1);
    }
}

static void release(const struct bench_allocator *allocator, struct live *block)
{
    if (block->addr)
        bench_check(allocator->release(block->addr, block->bytes), "a free", allocator);
    block->addr = 0;
}

/* Returns the nanoseconds it took. */
static double carry_out(const struct bench_allocator *allocator,
                        const struct gs_replay_trace *trace, struct live *live)
{
    double begin = bench_now_ns();

    for (size_t i = 0; i < trace->count; i++) {
        const struct gs_replay_op *op = &trace->ops[i];
        struct live *block = &live[op->id];

        if (op->op == GS_TRACE_FREE)
            release(allocator, block);
        if (op->op != GS_TRACE_ALLOC || op->bytes == 0)
            continue;
        block->bytes = op->bytes;
        bench_check(allocator->alloc(&block->addr, op->bytes), "an allocation",
                    allocator);
    }
    return bench_now_ns() - begin;
}

int bench_run_trace(const struct bench_allocator *allocator, unsigned long rounds)
{
    static double took[MOST_ROUNDS];
    struct bench_humps humps;
    struct gs_replay_trace trace;
    struct live *live;
    uint32_t made;
    unsigned long timed = rounds > 1 ? rounds - 1 : 1;

    load(&trace);
    made = gs_replay_find_peaks(&trace).made;
    live = gs_replay_alloc(trace.allocations, sizeof(*live));
    bench_check(allocator->start(), "the start", allocator);
    for (unsigned long i = 0; i < rounds; i++) {
        for (uint32_t id = 0; id < trace.allocations; id++)
            release(allocator, &live[id]);
        took[i] = carry_out(allocator, &trace, live) / (made ? made : 1);
    }
    if (rounds > 1)
        took[0] = took[rounds - 1];
    humps = bench_find_humps(took, timed); /* sorts them */
    printf("trace %s %lu %.1f %.1f %.1f %lu 0 0 %.1f %.1f %.3f\n", allocator->name,
           rounds, took[timed / 2], took[0], took[timed - 1], timed, humps.low,
           humps.high, humps.share);
    free(live);
    gs_replay_free(&trace);
    return 0;
}
