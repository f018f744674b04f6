/*
 * oracle_slots.c - proves that lines may come and go: a slot is taken again when nothing
 * is invented by that, and only then; very many lines at once and in a row; counts that
 * run over.
 */
#include "oracle_helpers.h"
#include "oracle_state.h"

Test(oracle_slots, a_stream_after_another_that_was_waited_for_takes_its_slot)
{
    begin();
    struct oracle_line *x = stream_new();
    uint32_t slot = x->here.slot;

    saw(put(x, NULL));
    oracle_line_end(x);
    cr_assert_eq(stream_new()->here.slot, slot);
}

Test(oracle_slots, a_stream_after_another_that_was_not_takes_a_new_one)
{
    begin();
    struct oracle_line *x = stream_new(), *y;
    uint32_t slot = x->here.slot;
    struct oracle_op *a = put(x, NULL);

    oracle_line_end(x);
    y = stream_new();
    cr_assert_neq(y->here.slot, slot);
    run(a, WRITES);
    run(put(y, NULL), WRITES);
    expect(ORACLE_RACE, 1);
}

Test(oracle_slots, what_only_a_layer_waited_for_is_not_known)
{
    begin();
    struct oracle_line *x = stream_new();
    uint32_t slot = x->here.slot;

    oracle_host_saw(host(), put(x, NULL), true, false);
    oracle_line_end(x);
    cr_assert_neq(stream_new()->here.slot, slot);
}

Test(oracle_slots, another_threads_knowledge_does_not_do)
{
    begin_separate();
    struct oracle_line *x = stream_new(), *other = host_new(2);
    uint32_t slot = x->here.slot;

    saw(put(x, NULL));
    oracle_line_end(x);
    cr_assert_neq(oracle_line_new(ORACLE_STREAM, 9, other)->here.slot, slot);
    cr_assert_eq(oracle_line_new(ORACLE_STREAM, 9, host())->here.slot, slot);
}

Test(oracle_slots, what_a_stream_did_stays_known_when_it_is_gone)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL);

    oracle_line_end(x);
    run(a, WRITES);
    run(put(y, a), WRITES);
    expect_nothing();
    run(put(stream_new(), NULL), WRITES);
    expect(ORACLE_RACE, 1);
}

Test(oracle_slots, ten_thousand_streams_in_a_row_need_one_slot)
{
    begin();
    give();
    for (int i = 0; i < 10000; i++) {
        struct oracle_line *x = stream_new();
        struct oracle_op *a = put(x, NULL);
        run(a, WRITES);
        saw(a);
        oracle_op_unref(a);
        cr_assert_leq(x->here.slot, 3);
        oracle_line_end(x);
    }
    expect_nothing();
}

Test(oracle_slots, ten_thousand_streams_nobody_waits_for_are_all_told_apart)
{
    begin();
    struct oracle_line *z = stream_new();

    for (int i = 0; i < 10000; i++) {
        struct oracle_line *x = stream_new();
        struct oracle_op *a = put(x, NULL);
        run_at(a, WRITES, MEMORY + (uintptr_t)i * 64, 64);
        oracle_op_unref(a);
        oracle_line_end(x);
    }
    expect_nothing();
    run_at(put(z, NULL), READS, MEMORY, 10000 * 64);
    unsigned found = oracle_findings();
    cr_assert_geq(found, 1000, "%u", found);
}

Test(oracle_slots, ten_thousand_streams_at_once)
{
    begin();
    enum { STREAMS = 10000 };
    static struct oracle_line *streams[STREAMS];

    give();
    for (int i = 0; i < STREAMS; i++)
        streams[i] = stream_new();
    struct oracle_op *all = oracle_op_new();
    for (int i = 0; i < STREAMS; i++) {
        struct oracle_op *a = put(streams[i], NULL);
        run_at(a, WRITES, MEMORY + (uintptr_t)i * BYTES, BYTES);
        oracle_op_unref(a);
        oracle_op_after_line(all, streams[i]);
    }
    saw(all);
    for (int i = 0; i < STREAMS; i++) { /* each behind all of the others */
        struct oracle_op *a = put(streams[i], NULL);
        run_at(a, READS, MEMORY + (uintptr_t)(i * 7919 % STREAMS) * BYTES, BYTES);
        oracle_op_unref(a);
    }
    expect_nothing();
}

Test(oracle_slots, a_count_that_runs_over_goes_on_in_another_slot)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();

    x->here.index = UINT32_MAX - 3;
    for (int i = 0; i < 8; i++) {
        run(put(x, NULL), WRITES);
        expect_nothing();
    }
    cr_assert_lt(x->here.index, 8);
    struct oracle_op *event = put(x, NULL);
    run(put(y, event), WRITES);
    expect_nothing();
}

Test(oracle_slots, host_threads_come_and_go)
{
    begin_separate();
    for (int i = 0; i < 1000; i++) {
        struct oracle_line *thread = host_new(200), *x;
        struct oracle_op *a;

        x = oracle_line_new(ORACLE_STREAM, 1, thread);
        a = put_by(thread, x);
        run(a, WRITES);
        oracle_host_saw(thread, a, false, false);
        oracle_op_unref(a);
        oracle_line_end(x);
        oracle_line_end(thread);
        expect_nothing();
    }
}
