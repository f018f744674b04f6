/*
 * oracle_allocations.c - proves the rules of lives: uses after the end and without an
 * allocation, races with the beginning and the end, stream-ordered memory, operations
 * that run after their memory was handed on. Lives inside others: oracle_lives.c.
 */
#include "oracle_helpers.h"

/* ---- nobody's memory -------------------------------------------------------------- */

Test(oracle_allocations, memory_that_never_was_anybodys_may_be_used)
{
    begin();
    run(put(stream_new(), NULL), WRITES);
    expect_nothing();
}

Test(oracle_allocations, a_use_after_free_is_found)
{
    begin();
    struct oracle_line *x = stream_new();

    take(give());
    run(put(x, NULL), READS);
    expect(ORACLE_NO_ALLOCATION, 1);
}

Test(oracle_allocations, a_use_after_free_is_found_though_it_had_been_looked_up)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_allocation *a = give();

    take(a);
    run_in(put(x, NULL), READS, a, MEMORY, BYTES);
    expect(ORACLE_NO_ALLOCATION, 1);
}

Test(oracle_allocations, a_use_that_is_submitted_before_the_free_and_waited_for_is_right)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_allocation *a = give();
    struct oracle_op *use = put(x, NULL);

    take_waiting(a, x);
    run_in(use, WRITES, a, MEMORY, BYTES);
    expect_nothing();
}

Test(oracle_allocations, what_is_nobodys_is_not_judged_further)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();

    take(give());
    run(put(x, NULL), WRITES);
    expect(ORACLE_NO_ALLOCATION, 1);
    give();
    run(put(y, NULL), WRITES);
    expect(ORACLE_NO_ALLOCATION, 1);
}

Test(oracle_allocations, what_is_forgotten_may_be_used)
{
    begin();
    const struct oracle_range range = {MEMORY, BYTES};
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_allocation *a = give();

    run(put(x, NULL), WRITES);
    saw(put(x, NULL));
    take(a);
    oracle_forget(&range);
    run(put(y, NULL), WRITES);
    expect_nothing();
}

Test(oracle_allocations, what_is_forgotten_in_part_is_known_in_the_others)
{
    begin();
    const struct oracle_range range = {MEMORY + 1024, 1024};
    struct oracle_line *x = stream_new(), *y = stream_new();

    run(put(x, NULL), WRITES);
    oracle_forget(&range);
    run_at(put(y, NULL), WRITES, MEMORY + 1024, 1024);
    expect_nothing();
    run_at(put(y, NULL), WRITES, MEMORY + 1023, 1);
    expect(ORACLE_RACE, 1);
    run_at(put(stream_new(), NULL), WRITES, MEMORY + 2048, 1);
    expect(ORACLE_RACE, 2);
}

Test(oracle_allocations, finds_the_one_that_lives)
{
    begin();
    struct oracle_allocation *outer = give(), *inner = give_inner(MEMORY + 512, 512);

    cr_assert_eq(oracle_allocation_find(MEMORY), outer);
    cr_assert_eq(oracle_allocation_find(MEMORY + 512), inner);
    cr_assert_eq(oracle_allocation_find(MEMORY + 1023), inner);
    cr_assert_eq(oracle_allocation_find(MEMORY + 1024), outer);
    take(inner);
    cr_assert_eq(oracle_allocation_find(MEMORY + 512), outer);
    take(outer);
    cr_assert_null(oracle_allocation_find(MEMORY + 512));
    cr_assert_null(oracle_allocation_find(MEMORY + BYTES));
}

/* ---- the end ---------------------------------------------------------------------- */

Test(oracle_allocations, a_free_that_is_not_behind_a_use_races_with_it)
{
    begin();
    struct oracle_allocation *a = give();

    run(put(stream_new(), NULL), READS);
    take(a);
    expect(ORACLE_RACE, 1);
}

Test(oracle_allocations, a_free_that_is_behind_a_use_does_not)
{
    begin();
    struct oracle_allocation *a = give();
    struct oracle_op *use = put(stream_new(), NULL);

    run(use, READS);
    saw(use);
    take(a);
    expect_nothing();
}

Test(oracle_allocations, a_use_that_runs_after_a_free_that_is_not_behind_it_races)
{
    begin();
    struct oracle_allocation *a = give();
    struct oracle_op *use = put(stream_new(), NULL);

    take(a);
    run_in(use, READS, a, MEMORY, BYTES);
    expect(ORACLE_RACE, 1);
}

Test(oracle_allocations, a_free_behind_a_use_by_chance_is_masked)
{
    begin();
    struct oracle_allocation *a = give();
    struct oracle_op *use = put(stream_new(), NULL);

    run(use, READS);
    oracle_host_saw(host(), use, true, false);
    take(a);
    expect(ORACLE_MASKED, 1);
}

Test(oracle_allocations, a_race_with_the_free_is_one_finding)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_allocation *a = give();
    struct oracle_op *use = put(x, NULL);

    for (uintptr_t at = 0; at < BYTES; at += 512)
        run_at(use, WRITES, MEMORY + at, 256);
    take(a);
    expect(ORACLE_RACE, 1);
}

/* ---- stream-ordered memory -------------------------------------------------------- */

Test(oracle_allocations, stream_ordered_memory_is_there_behind_its_point)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_op *alloc = put(x, NULL);

    give_in(alloc);
    run(put(x, NULL), WRITES);
    run(put(stream_new(), alloc), ATOMIC_READS); /* races, but is behind the beginning */
    expect(ORACLE_RACE, 1);
}

Test(oracle_allocations, a_use_that_is_not_behind_the_beginning_races_with_it)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();

    give_in(put(x, NULL));
    run(put(y, NULL), WRITES);
    expect(ORACLE_RACE, 1);
}

Test(oracle_allocations, a_use_behind_the_beginning_by_chance_is_masked)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *alloc = put(x, NULL);

    give_in(alloc);
    oracle_host_saw(host(), alloc, true, false);
    run(put(y, NULL), WRITES);
    expect(ORACLE_MASKED, 1);
}

Test(oracle_allocations, a_use_behind_a_stream_ordered_free_is_found)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_allocation *a = give_in(put(x, NULL));

    take_in(a, put(x, NULL));
    run(put(x, NULL), WRITES);
    expect(ORACLE_NO_ALLOCATION, 1);
}

Test(oracle_allocations, reuse_in_the_stream_of_the_free_is_right)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_allocation *a = give_in(put(x, NULL));

    run(put(x, NULL), WRITES);
    take_in(a, put(x, NULL));
    give_in(put(x, NULL));
    run(put(x, NULL), WRITES);
    expect_nothing();
}

Test(oracle_allocations, reuse_in_another_stream_loses_order)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_allocation *a = give_in(put(x, NULL));

    run(put(x, NULL), WRITES);
    take_in(a, put(x, NULL));
    give_in(put(y, NULL)); /* the allocator did not make it wait */
    run(put(y, NULL), WRITES);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_allocations, reuse_in_another_stream_that_was_made_to_wait_is_right)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_allocation *a = give_in(put(x, NULL));

    run(put(x, NULL), WRITES);
    struct oracle_op *end = put(x, NULL);
    take_in(a, end);
    put_own(y, end);
    give_in(put(y, NULL));
    run(put(y, NULL), WRITES);
    expect_nothing();
}

Test(oracle_allocations, reuse_of_what_was_seen_done_is_right)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_allocation *a = give_in(put(x, NULL));

    run(put(x, NULL), WRITES);
    struct oracle_op *end = put(x, NULL);
    take_in(a, end);
    oracle_op_done(end);
    oracle_allocation_retire(a, NULL, end);
    give_in(put(y, NULL));
    run(put(y, NULL), WRITES);
    expect_nothing();
}

Test(oracle_allocations, a_use_elsewhere_must_be_before_a_stream_ordered_free)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *alloc = put(x, NULL);
    struct oracle_allocation *a = give_in(alloc);
    struct oracle_op *use = put(y, alloc);

    run(use, WRITES);
    take_in(a, put(x, NULL));
    expect(ORACLE_RACE, 1);
}

Test(oracle_allocations, a_use_elsewhere_that_the_free_waits_for_is_right)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *alloc = put(x, NULL);
    struct oracle_allocation *a = give_in(alloc);
    struct oracle_op *use = put(y, alloc);

    run(use, WRITES);
    take_in(a, put(x, use));
    expect_nothing();
}

/* ---- late operations -------------------------------------------------------------- */

Test(oracle_allocations, running_after_the_memory_was_handed_on_loses_order)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_allocation *a = give();
    struct oracle_op *late = put(x, NULL);

    take_waiting(a, x);
    give();
    run(put(y, NULL), WRITES);
    expect_nothing();
    run_in(late, READS, a, MEMORY, BYTES);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_allocations, running_late_beside_the_free_is_a_race_alone)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_allocation *a = give();
    struct oracle_op *late = put(x, NULL);

    take(a);
    give();
    run(put(y, NULL), WRITES);
    run_in(late, READS, a, MEMORY, BYTES);
    expect(ORACLE_RACE, 2); /* with the free, and with who has the memory now */
}

Test(oracle_allocations, reads_may_meet_across_lives)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_allocation *a = give();
    struct oracle_op *late = put(x, NULL);

    take_waiting(a, x);
    give();
    run(put(y, NULL), READS);
    run_in(late, READS, a, MEMORY, BYTES);
    expect_nothing();
}
