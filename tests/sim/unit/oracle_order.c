/*
 * oracle_order.c - proves what makes order between accesses of one allocation: streams,
 * waits for events and for whole streams, host threads, programmatic launches; each with
 * its nearest neighbour that makes none. Here nobody stands between program and driver,
 * so what is found is the program's own.
 */
#include "oracle_helpers.h"

/* ---- in a stream ------------------------------------------------------------------ */

Test(oracle_order, orders_what_is_in_one_stream)
{
    begin();
    struct oracle_line *stream = stream_new();
    struct oracle_op *a = put(stream, NULL), *b = put(stream, NULL);

    give();
    run(a, WRITES);
    run(b, WRITES);
    expect_nothing();
}

Test(oracle_order, does_not_order_two_streams)
{
    begin();
    give();
    run(put(stream_new(), NULL), WRITES);
    run(put(stream_new(), NULL), WRITES);
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, counts_a_write_and_a_read)
{
    begin();
    give();
    run(put(stream_new(), NULL), WRITES);
    run(put(stream_new(), NULL), READS);
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, counts_a_read_and_a_later_write)
{
    begin();
    give();
    run(put(stream_new(), NULL), READS);
    run(put(stream_new(), NULL), WRITES);
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, lets_reads_meet)
{
    begin();
    give();
    run(put(stream_new(), NULL), READS);
    run(put(stream_new(), NULL), READS);
    expect_nothing();
}

Test(oracle_order, lets_atomic_accesses_meet)
{
    begin();
    give();
    run(put(stream_new(), NULL), ATOMIC_WRITES);
    run(put(stream_new(), NULL), ATOMIC_WRITES);
    run(put(stream_new(), NULL), ATOMIC_READS);
    expect_nothing();
}

Test(oracle_order, does_not_let_an_atomic_access_meet_another)
{
    begin();
    give();
    run(put(stream_new(), NULL), ATOMIC_WRITES);
    run(put(stream_new(), NULL), READS);
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, remembers_a_read_behind_an_atomic_write)
{
    begin();
    struct oracle_line *stream = stream_new();
    struct oracle_op *read = put(stream, NULL), *atomic = put(stream, NULL);

    run(read, READS);
    run(atomic, ATOMIC_WRITES);
    run(put(stream_new(), NULL), ATOMIC_WRITES); /* meets the read alone */
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, tells_neighbouring_bytes_apart)
{
    begin();
    give();
    run_at(put(stream_new(), NULL), WRITES, MEMORY, 100);
    run_at(put(stream_new(), NULL), WRITES, MEMORY + 100, 100);
    expect_nothing();
    run_at(put(stream_new(), NULL), READS, MEMORY + 199, 1);
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, finds_one_byte_in_common)
{
    begin();
    give();
    run_at(put(stream_new(), NULL), WRITES, MEMORY, 101);
    run_at(put(stream_new(), NULL), WRITES, MEMORY + 100, 100);
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, remembers_the_parts_around_a_part)
{
    begin();
    struct oracle_line *a = stream_new(), *b = stream_new();
    struct oracle_op *whole = put(a, NULL), *part = put(b, whole);

    give();
    run(whole, WRITES);
    run_at(part, WRITES, MEMORY + 1000, 100);
    run_at(put(stream_new(), part), READS, MEMORY, BYTES); /* behind both */
    expect_nothing();
    run_at(put(stream_new(), NULL), READS, MEMORY + 900, 100); /* behind neither */
    expect(ORACLE_RACE, 1);
    run_at(put(stream_new(), NULL), READS, MEMORY + 1100, 100);
    expect(ORACLE_RACE, 2);
}

Test(oracle_order, judges_an_operation_once_for_another)
{
    begin();
    struct oracle_line *a = stream_new(), *b = stream_new(), *c = stream_new();
    struct oracle_op *whole = put(a, NULL);

    give();
    run(whole, WRITES);
    for (uintptr_t at = 0; at < BYTES; at += 512)
        run_at(put(b, whole), READS, MEMORY + at, 256);
    run(put(c, NULL), WRITES); /* the write once, each of the reads once */
    expect(ORACLE_RACE, 1 + 8);
}

/* ---- waits of the device ---------------------------------------------------------- */

Test(oracle_order, orders_along_an_event)
{
    begin();
    struct oracle_op *a = put(stream_new(), NULL);
    struct oracle_op *b = put(stream_new(), a);

    give();
    run(a, WRITES);
    run(b, READS);
    expect_nothing();
}

Test(oracle_order, orders_along_a_chain_of_events)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new(), *z = stream_new();
    struct oracle_op *a = put(x, NULL);
    struct oracle_op *b = put(y, a);
    put(y, NULL);
    struct oracle_op *c = put(z, put(y, NULL));

    (void)b;
    give();
    run(a, WRITES);
    run(c, READS);
    expect_nothing();
}

Test(oracle_order, an_event_is_before_what_follows_it)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_op *event = put(x, NULL), *a = put(x, NULL);

    run(a, WRITES);
    run(put(stream_new(), event), READS);
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, an_event_long_past_still_orders)
{
    begin();
    struct oracle_op *a = put(stream_new(), NULL);

    run(a, WRITES);
    struct oracle_op *b = put(stream_new(), a);
    run(b, READS);
    expect_nothing();
}

Test(oracle_order, orders_behind_a_whole_stream)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL);

    run(a, WRITES);
    run(put_after_line(y, x), WRITES);
    expect_nothing();
}

Test(oracle_order, not_behind_what_a_stream_was_given_later)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *behind = put_after_line(y, x);

    run(put(x, NULL), WRITES);
    run(behind, WRITES);
    expect(ORACLE_RACE, 1);
}

/* As the legacy stream has it: it waits for the others, they wait for it. */
Test(oracle_order, orders_through_a_stream_all_wait_for)
{
    begin();
    struct oracle_line *legacy = stream_new(), *x = stream_new(), *y = stream_new();

    run(put_after_line(x, legacy), WRITES);
    put_after_line(legacy, x);
    run(put_after_line(y, legacy), WRITES);
    expect_nothing();
}

Test(oracle_order, nothing_in_the_stream_between_orders_nothing)
{
    begin();
    struct oracle_line *legacy = stream_new(), *x = stream_new(), *y = stream_new();

    run(put_after_line(x, legacy), WRITES);
    run(put_after_line(y, legacy), WRITES);
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, collects_what_was_never_submitted)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new(), *z = stream_new();
    struct oracle_op *all = oracle_op_new();

    run_at(put(x, NULL), WRITES, MEMORY, 10);
    run_at(put(y, NULL), WRITES, MEMORY + 10, 10);
    oracle_op_after_line(all, x);
    oracle_op_after_line(all, y);
    saw(all);
    run_at(put(z, NULL), READS, MEMORY, 20);
    expect_nothing();
}

/* ---- host threads ----------------------------------------------------------------- */

Test(oracle_order, orders_through_a_host_that_waited)
{
    begin();
    struct oracle_op *a = put(stream_new(), NULL);

    run(a, WRITES);
    saw(a);
    run(put(stream_new(), NULL), WRITES);
    expect_nothing();
}

Test(oracle_order, not_what_was_submitted_before_the_wait)
{
    begin();
    struct oracle_op *a = put(stream_new(), NULL), *b = put(stream_new(), NULL);

    run(a, WRITES);
    saw(a);
    run(b, WRITES);
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, a_yes_to_the_program_orders)
{
    begin();
    struct oracle_op *a = put(stream_new(), NULL);

    run(a, WRITES);
    oracle_host_saw(host(), a, false, true);
    run(put(stream_new(), NULL), WRITES);
    expect_nothing();
}

Test(oracle_order, orders_through_a_host_that_waited_for_a_stream)
{
    begin();
    struct oracle_line *x = stream_new();

    run(put(x, NULL), WRITES);
    put_as(x, ORACLE_OVERLAPS);
    oracle_host_saw_line(host(), x, false, false);
    run(put(stream_new(), NULL), WRITES);
    expect_nothing();
}

Test(oracle_order, takes_host_threads_as_ordered)
{
    begin();
    struct oracle_op *a = put(stream_new(), NULL);

    run(a, WRITES);
    saw(a);
    run(put_by(host_new(2), stream_new()), WRITES);
    expect_nothing();
}

Test(oracle_order, tells_host_threads_apart_if_asked_to)
{
    begin_separate();
    struct oracle_line *other = host_new(2), *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL);

    run(a, WRITES);
    saw(a);
    run(put_by(other, y), WRITES);
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, a_new_thread_knows_what_all_know)
{
    begin_separate();
    struct oracle_op *a = put(stream_new(), NULL);

    run(a, WRITES);
    saw(a);
    run(put_by(host_new(2), stream_new()), WRITES);
    expect_nothing();
}

Test(oracle_order, a_new_thread_knows_what_an_ended_one_knew)
{
    begin_separate();
    struct oracle_line *gone = host_new(2), *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL);

    run(a, WRITES);
    oracle_host_saw(gone, a, false, false);
    oracle_line_end(gone);
    run(put_by(host_new(3), y), WRITES);
    expect_nothing();
}

Test(oracle_order, a_stream_knows_what_its_maker_knows)
{
    begin_separate();
    struct oracle_line *other = host_new(2);
    struct oracle_op *a = put(stream_new(), NULL);

    run(a, WRITES);
    saw(a);
    run(put_by(other, oracle_line_new(ORACLE_STREAM, 9, host())), WRITES);
    expect_nothing();
}

Test(oracle_order, a_host_function_tells_all_threads)
{
    begin_separate();
    struct oracle_line *other = host_new(2), *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL), *function = put(x, NULL);

    run(a, WRITES);
    oracle_host_function(function);
    run(put_by(other, y), WRITES);
    expect_nothing();
}

Test(oracle_order, a_host_function_does_not_tell_what_follows_it)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_op *function = put(x, NULL), *a = put(x, NULL);

    oracle_host_function(function);
    run(a, WRITES);
    run(put(stream_new(), NULL), WRITES);
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, orders_what_the_host_writes)
{
    begin();
    struct oracle_allocation *allocation = give();
    const struct oracle_access access = {
        .range = {MEMORY, BYTES}, .allocation = allocation, .writes = true};
    struct oracle_op *early = put(stream_new(), NULL);

    oracle_host_access(host(), &access);
    run(put(stream_new(), NULL), READS); /* given to the device behind the write */
    expect_nothing();
    run(early, READS);
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, the_host_must_wait_before_it_reads)
{
    begin();
    struct oracle_allocation *allocation = give();
    const struct oracle_access access = {.range = {MEMORY, BYTES},
                                         .allocation = allocation};
    struct oracle_op *a = put(stream_new(), NULL);

    run(a, WRITES);
    oracle_host_access(host(), &access);
    expect(ORACLE_RACE, 1);
    saw(a);
    oracle_host_access(host(), &access);
    expect(ORACLE_RACE, 1);
}

/* ---- programmatic launches -------------------------------------------------------- */

Test(oracle_order, a_programmatic_launch_is_beside_the_one_before)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_op *a = put(x, NULL), *b = put_as(x, ORACLE_OVERLAPS);

    run(a, WRITES);
    run(b, READS);
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, a_programmatic_launch_is_behind_the_one_before_that)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_op *a = put(x, NULL);

    put(x, NULL);
    run(a, WRITES);
    run(put_as(x, ORACLE_OVERLAPS), READS);
    expect_nothing();
}

Test(oracle_order, what_follows_is_behind_all_programmatic_launches)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_op *a = put(x, NULL), *b = put_as(x, ORACLE_OVERLAPS);
    struct oracle_op *c = put_as(x, ORACLE_OVERLAPS), *d = put(x, NULL);

    run_at(a, WRITES, MEMORY, 10);
    run_at(b, WRITES, MEMORY + 10, 10);
    run_at(c, WRITES, MEMORY + 20, 10);
    run_at(d, READS, MEMORY, 30);
    expect_nothing();
}

Test(oracle_order, programmatic_launches_in_a_row_are_beside_each_other)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_op *a = put(x, NULL);

    run(a, READS);
    run_at(put_as(x, ORACLE_OVERLAPS), WRITES, MEMORY, 10); /* beside a */
    run_at(put_as(x, ORACLE_OVERLAPS), WRITES, MEMORY, 10); /* beside both */
    expect(ORACLE_RACE, 1 + 2);
}

Test(oracle_order, one_that_waits_is_behind_the_one_before)
{
    begin();
    struct oracle_line *x = stream_new();

    run_at(put(x, NULL), WRITES, MEMORY, 10);
    run_at(put_as(x, ORACLE_OVERLAPS), WRITES, MEMORY + 10, 10);
    run_at(put_as(x, ORACLE_OVERLAPS_WAITS), READS, MEMORY + 10, 10);
    expect_nothing();
}

Test(oracle_order, one_that_waits_is_beside_what_the_one_before_did_not_wait_for)
{
    begin();
    struct oracle_line *x = stream_new();

    run_at(put(x, NULL), WRITES, MEMORY, 10);
    run_at(put_as(x, ORACLE_OVERLAPS), WRITES, MEMORY + 10, 10);
    run_at(put_as(x, ORACLE_OVERLAPS_WAITS), READS, MEMORY, 10);
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, beside_one_that_waits_is_beside_the_one_before)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_op *a = put(x, NULL);

    put_as(x, ORACLE_OVERLAPS_WAITS);
    run(a, WRITES);
    run(put_as(x, ORACLE_OVERLAPS), READS); /* may have started with a */
    expect(ORACLE_RACE, 1);
}

Test(oracle_order, a_programmatic_launch_waits_for_its_events)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_op *a = put(x, NULL), *b = oracle_op_new();
    const struct oracle_work work = {.call = "cuLaunchKernelEx",
                                     .host = host(),
                                     .stream = x,
                                     .overlap = ORACLE_OVERLAPS};

    oracle_op_after(b, a);
    oracle_op_submit(b, &work);
    run(a, WRITES);
    run(b, READS);
    expect_nothing();
}

Test(oracle_order, programmatic_launches_reuse_their_places)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *last = NULL;

    for (int i = 0; i < 1000; i++) {
        run(put(x, NULL), WRITES);
        last = put_as(x, ORACLE_OVERLAPS);
        run_at(last, WRITES, MEMORY + BYTES, 10);
    }
    run_at(put(y, last), WRITES, MEMORY + BYTES, 10); /* behind that, not the kernel */
    expect_nothing();
    run(put(y, NULL), WRITES);
    expect(ORACLE_RACE, 1);
}
