/*
 * oracle_cost.c - proves that the oracle's memory does not grow with the length of a run,
 * and prints what an operation costs (which nobody asserts: machines differ).
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "oracle_helpers.h"
#include "oracle_state.h"

#define STREAMS 4
#define BUFFERS 8

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* Runs under a sanitizer or a checker take a tenth. */
static unsigned long rounds(unsigned long count)
{
    return getenv("ORACLE_QUICK") ? count / 10 : count;
}

static size_t heap_bytes(void)
{
    return mallinfo2().uordblks;
}

static void say_cost(const char *what, double begun, unsigned long count)
{
    fprintf(stderr, "%s: %.0f ns\n", what, (now_ns() - begun) / (double)count);
}

/* Submitted, run with two accesses, done, dropped. */
static void one_op(struct oracle_line *stream, struct oracle_allocation *allocation,
                   uintptr_t from, uintptr_t to, const struct oracle_op *after)
{
    struct oracle_op *op = oracle_op_new();
    const struct oracle_work work = {
        .call = "cuLaunchKernel", .host = host(), .stream = stream};
    const struct oracle_access accesses[] = {
        {.range = {from, BYTES}, .allocation = allocation},
        {.range = {to, BYTES}, .allocation = allocation, .writes = true},
    };

    if (after)
        oracle_op_after(op, after);
    oracle_op_submit(op, &work);
    oracle_op_runs(op, accesses, 2);
    oracle_op_done(op);
    oracle_op_unref(op);
}

static struct oracle_allocation *buffers(void)
{
    const struct oracle_range range = {MEMORY, 2 * BUFFERS * STREAMS * BYTES};
    return oracle_allocation_begin(&range, "cuMemAlloc_v2", host(), NULL, false);
}

static uintptr_t buffer(unsigned stream, unsigned long number)
{
    return MEMORY + (stream * BUFFERS + number % BUFFERS) * BYTES;
}

Test(oracle_cost, ten_million_operations_in_flat_memory, .timeout = 600)
{
    begin();
    unsigned long count = rounds(10000000), half = count / 2;
    struct oracle_allocation *allocation = buffers();
    struct oracle_line *streams[STREAMS];
    size_t before = 0;

    for (unsigned i = 0; i < STREAMS; i++)
        streams[i] = stream_new();
    double begun = now_ns();
    for (unsigned long i = 0; i < count; i++) {
        unsigned stream = (unsigned)(i / 1000 % STREAMS);
        if (i == half)
            before = heap_bytes();
        one_op(streams[stream], allocation, buffer(stream, i), buffer(stream, i + 3),
               NULL);
    }
    say_cost("an operation with a read and a write", begun, count);
    cr_assert_leq(heap_bytes(), before + 64 * GS_KIB);
    cr_assert_leq(oracle_shadow_marks(), 1000);
    expect_nothing();
}

/* Reads of ever new places by many streams; the host waits now and then. */
Test(oracle_cost, marks_that_all_are_behind_are_dropped, .timeout = 600)
{
    begin();
    unsigned long count = rounds(1000000), half = count / 2;
    const struct oracle_range range = {MEMORY, GS_GIB};
    struct oracle_allocation *allocation =
        oracle_allocation_begin(&range, "cuMemAlloc_v2", host(), NULL, false);
    struct oracle_line *streams[64];
    size_t before = 0;

    for (unsigned i = 0; i < 64; i++)
        streams[i] = stream_new();
    double begun = now_ns();
    for (unsigned long i = 0; i < count; i++) {
        struct oracle_op *op = put(streams[i % 64], NULL);
        run_in(op, READS, allocation, MEMORY + i * 128, 64);
        oracle_op_unref(op);
        if (i % 1000 == 999) {
            for (unsigned k = 0; k < 64; k++)
                oracle_host_saw_line(host(), streams[k], false, false);
        }
        if (i == half)
            before = heap_bytes();
    }
    say_cost("a small read in one of 64 streams", begun, count);
    cr_assert_leq(oracle_shadow_marks(), 10000);
    cr_assert_leq(heap_bytes(), before + 2 * GS_MIB);
    expect_nothing();
}

Test(oracle_cost, allocations_and_frees_in_flat_memory, .timeout = 600)
{
    begin();
    unsigned long count = rounds(1000000), half = count / 2;
    struct oracle_line *x = stream_new(), *y = stream_new();
    size_t before = 0;

    double begun = now_ns();
    for (unsigned long i = 0; i < count; i++) {
        const struct oracle_range range = {MEMORY + i % 100 * BYTES, BYTES};
        struct oracle_allocation *allocation =
            oracle_allocation_begin(&range, "cuMemAlloc_v2", host(), NULL, false);
        one_op(i % 2 ? x : y, allocation, range.address, range.address, NULL);
        oracle_host_saw_line(host(), i % 2 ? x : y, false, false);
        take(allocation);
        oracle_allocation_retire(allocation, host(), NULL);
        oracle_allocation_unref(allocation);
        if (i == half)
            before = heap_bytes();
    }
    say_cost("an allocation, an operation, a wait and a free", begun, count);
    cr_assert_leq(heap_bytes(), before + 64 * GS_KIB);
    expect_nothing();
}

/* Streams that wait for each other in turn. */
Test(oracle_cost, events_between_streams_in_flat_memory, .timeout = 600)
{
    begin();
    unsigned long count = rounds(1000000), half = count / 2;
    struct oracle_allocation *allocation = buffers();
    struct oracle_line *streams[STREAMS];
    struct oracle_op *last = NULL;
    size_t before = 0;

    for (unsigned i = 0; i < STREAMS; i++)
        streams[i] = stream_new();
    double begun = now_ns();
    for (unsigned long i = 0; i < count; i++) {
        struct oracle_op *op = put(streams[i % STREAMS], last);
        run_in(op, WRITES, allocation, MEMORY, 8 * BYTES);
        oracle_op_unref(last);
        last = op;
        if (i == half)
            before = heap_bytes();
    }
    say_cost("an operation behind an event", begun, count);
    cr_assert_leq(heap_bytes(), before + 64 * GS_KIB);
    expect_nothing();
}

/* Pieces of a buffer are written, then the whole: the pieces are one again. */
Test(oracle_cost, cells_grow_together_again)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_allocation *allocation = buffers();

    for (unsigned i = 0; i < 1000; i++)
        run_in(put(x, NULL), WRITES, allocation, MEMORY + i * 64, 64);
    cr_assert_eq(oracle_shadow_marks(), 1000);
    run_in(put(x, NULL), WRITES, allocation, MEMORY, 64000);
    cr_assert_eq(oracle_shadow_marks(), 1);
}

Test(oracle_cost, with_call_stacks, .timeout = 600)
{
    begin_with((struct oracle_options){.stacks = true});
    unsigned long count = rounds(200000), half = count / 2;
    struct oracle_allocation *allocation = buffers();
    struct oracle_line *x = stream_new();
    size_t before = 0;

    double begun = now_ns();
    for (unsigned long i = 0; i < count; i++) {
        one_op(x, allocation, buffer(0, i), buffer(0, i + 3), NULL);
        if (i == half)
            before = heap_bytes();
    }
    say_cost("an operation with its call stack", begun, count);
    cr_assert_leq(heap_bytes(), before + 64 * GS_KIB);
}
