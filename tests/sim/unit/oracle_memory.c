/*
 * oracle_memory.c - proves that a shortage of memory makes the oracle forget, not invent:
 * whatever allocation fails, a program in order is found no fault with, nothing crashes,
 * and what comes afterwards is judged again. And that threads may call it at will.
 */
#include <pthread.h>
#include <string.h>

#include "oracle_helpers.h"
#include "oracle_state.h"

static unsigned until_failure; /* allocations that succeed; then `failures` fail */
static unsigned failures;
static unsigned failed;

static bool fails_now(void)
{
    if (until_failure > 0) {
        until_failure--;
        return false;
    }
    if (failures == 0)
        return false;
    failures--;
    failed++;
    return true;
}

/* All in order, by streams, events, waits, programmatic launches, frees. */
static void in_order(unsigned round)
{
    struct oracle_line *x = stream_new(), *y = stream_new();
    const struct oracle_range range = {MEMORY + round * BYTES, BYTES};
    struct oracle_op *ops[8] = {NULL}, *wait;
    struct oracle_allocation *a;

    if (!x || !y)
        return;
    a = oracle_allocation_begin(&range, "a", host(), NULL, false);
    ops[0] = put(x, NULL);
    run_in(ops[0], WRITES, a, range.address, BYTES);
    ops[1] = put(y, ops[0]);
    run_in(ops[1], READS, a, range.address + 100, 100);
    ops[2] = put(x, ops[1]);
    run_in(ops[2], WRITES, a, range.address + 50, 100);
    ops[3] = put_as(x, ORACLE_OVERLAPS_WAITS);
    run_in(ops[3], WRITES, a, range.address, 200);
    wait = put(y, NULL);
    ops[4] = put(y, NULL);
    oracle_op_saw(wait, range.address, 4, true);
    run_in(ops[4], READS, a, range.address, 200);
    saw(ops[3]);
    saw(ops[4]);
    oracle_allocation_end(a, "f", host(), NULL, NULL, 0);
    oracle_allocation_retire(a, host(), ops[4]);
    oracle_allocation_unref(a);
    ops[5] = put(x, NULL);
    a = oracle_allocation_begin(&range, "b", host(), ops[5], false);
    ops[6] = put(x, NULL);
    run_in(ops[6], WRITES, a, range.address, BYTES);
    ops[7] = put(x, NULL);
    oracle_allocation_end(a, "g", host(), ops[7], NULL, 0);
    oracle_allocation_unref(a);
    for (size_t i = 0; i < GS_ARRAY_LEN(ops); i++)
        oracle_op_unref(ops[i]);
    oracle_op_unref(wait);
    oracle_line_end(x);
    oracle_line_end(y);
}

Test(oracle_memory, whatever_fails_nothing_is_invented)
{
    begin();
    int capture = stderr_capture();

    oracle_fail_allocation = fails_now;
    for (unsigned first = 0; first < 200; first++) {
        until_failure = first % 40;
        failures = 1 + first / 40 * 7;
        for (unsigned round = 0; round < 12; round++)
            in_order(first * 12 + round);
    }
    const char *text = stderr_text(capture);
    expect_nothing();
    cr_assert_gt(failed, 100);
    const char *said = strstr(text, "cudasim: oracle: no memory");
    cr_assert_not_null(said);
    cr_assert_null(strstr(said + 1, "cudasim: oracle: no memory"));
}

Test(oracle_memory, what_comes_afterwards_is_judged)
{
    begin();
    struct oracle_op *early = put(stream_new(), NULL);

    oracle_fail_allocation = fails_now;
    failures = 1;
    run(put(stream_new(), NULL), WRITES); /* the first cell cannot be had */
    cr_assert_eq(failed, 1);
    run(early, WRITES);
    expect_nothing();
    run(put(stream_new(), NULL), WRITES);
    expect_nothing(); /* of the two before nothing is known */
    run(put(stream_new(), NULL), WRITES);
    expect(ORACLE_RACE, 1);
    int capture = stderr_capture();
    oracle_summary(false);
    cr_assert_not_null(strstr(stderr_text(capture), "not judged for want of memory"));
}

Test(oracle_memory, without_any_nothing_crashes)
{
    begin();
    oracle_fail_allocation = fails_now;
    failures = 1000000;
    for (unsigned round = 0; round < 50; round++)
        in_order(round);
    oracle_unchecked("kernel");
    expect_nothing();
}

/* ---- threads ---------------------------------------------------------------------- */

static void *work_alone(void *argument)
{
    uintptr_t at = MEMORY + (uintptr_t)argument * 16 * BYTES;
    struct oracle_line *self = host_new(1000 + (uintptr_t)argument), *x;
    const struct oracle_range range = {at, BYTES};

    x = oracle_line_new(ORACLE_STREAM, 50 + (uintptr_t)argument, self);
    for (int i = 0; i < 3000; i++) {
        struct oracle_allocation *t =
            oracle_allocation_begin(&range, "a", self, NULL, false);
        struct oracle_op *op = put_by(self, x);
        run_in(op, WRITES, t, at, BYTES);
        oracle_host_saw(self, op, false, false);
        oracle_allocation_end(t, "f", self, NULL, NULL, 0);
        oracle_allocation_unref(t);
        oracle_op_unref(op);
    }
    oracle_line_end(x);
    oracle_line_end(self);
    return NULL;
}

Test(oracle_memory, threads_may_call_at_will)
{
    pthread_t threads[4];

    begin_separate();
    for (uintptr_t i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, work_alone, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    expect_nothing();
}
