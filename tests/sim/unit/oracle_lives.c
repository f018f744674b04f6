/*
 * oracle_lives.c - proves the rules where more than one life is concerned: lives inside
 * others, lives over others, accesses that reach over several, ranges at the limits.
 */
#include "oracle_helpers.h"
#include "oracle_state.h"

/* ---- lives inside others ---------------------------------------------------------- */

Test(oracle_lives, a_block_the_program_freed_is_nobodys_though_its_segment_lives)
{
    begin();
    struct oracle_line *x = stream_new();

    give();
    take(give_inner(MEMORY + 512, 512));
    run_at(put(x, NULL), WRITES, MEMORY + 512, 512);
    expect(ORACLE_NO_ALLOCATION, 1);
}

Test(oracle_lives, a_layer_may_use_what_it_took_back)
{
    begin();
    struct oracle_line *x = stream_new();

    give();
    take(give_inner(MEMORY + 512, 512));
    run_at(put_own(x, NULL), WRITES, MEMORY + 512, 512);
    expect_nothing();
}

Test(oracle_lives, a_layer_may_not_use_what_it_gave_back)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_allocation *segment = give();

    take(segment);
    run_in(put_own(x, NULL), WRITES, segment, MEMORY, BYTES);
    expect(ORACLE_NO_ALLOCATION, 1);
}

Test(oracle_lives, a_block_may_lie_in_two_mappings)
{
    begin();
    const struct oracle_range left = {MEMORY, BYTES}, right = {MEMORY + BYTES, BYTES};
    struct oracle_line *x = stream_new(), *y = stream_new();

    oracle_allocation_begin(&left, "cuMemMap", host(), NULL, false);
    struct oracle_allocation *second =
        oracle_allocation_begin(&right, "cuMemMap", host(), NULL, false);
    struct oracle_allocation *block = give_inner(MEMORY + 2048, BYTES);
    struct oracle_op *use = put(x, NULL);
    run_in(use, WRITES, block, MEMORY + 2048, BYTES);
    saw(use);
    take(block);
    cr_assert_eq(oracle_allocation_find(MEMORY + BYTES), second);
    run_at(put(y, NULL), WRITES, MEMORY + BYTES + 2047, 1);
    expect(ORACLE_NO_ALLOCATION, 1);
    run_at(put(y, NULL), WRITES, MEMORY + BYTES + 2048, 1);
    expect(ORACLE_NO_ALLOCATION, 1);
}

Test(oracle_lives, a_block_of_a_block_over_two_mappings_ends_in_neither)
{
    begin();
    const struct oracle_range left = {MEMORY, BYTES}, right = {MEMORY + BYTES, BYTES};

    struct oracle_allocation *first =
        oracle_allocation_begin(&left, "cuMemMap", host(), NULL, false);
    oracle_allocation_begin(&right, "cuMemMap", host(), NULL, false);
    struct oracle_allocation *block = give_inner(MEMORY, 2 * BYTES);
    struct oracle_allocation *part = give_inner(MEMORY + BYTES, 512);
    cr_assert_eq(oracle_allocation_find(MEMORY + BYTES), part);
    take(part);
    cr_assert_eq(oracle_allocation_find(MEMORY + BYTES), block);
    part = give_inner(MEMORY + BYTES, 512);
    take(block);
    take(part);
    cr_assert_null(oracle_allocation_find(MEMORY + BYTES));
    oracle_allocation_begin(&right, "cuMemMap", host(), NULL, false);
    cr_assert_eq(oracle_allocation_find(MEMORY), first); /* which that did not end */
}

Test(oracle_lives, a_segment_given_back_takes_its_blocks_with_it)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_allocation *segment = give(), *block = give_inner(MEMORY, 512);

    run_at(put(x, NULL), WRITES, MEMORY, 512);
    take_waiting(block, x);
    take(segment); /* and the layer has waited for nothing */
    give();
    run(put(y, NULL), WRITES);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_lives, a_use_of_the_segment_is_remembered_beside_a_block_inside)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *use = put(x, NULL);

    give();
    run_at(use, WRITES, MEMORY, 512);
    give_inner(MEMORY, 512); /* not behind that */
    saw(use);
    oracle_shadow_clean();
    run_at(put(y, NULL), WRITES, MEMORY, 512);
    expect(ORACLE_MASKED, 1);
}

/* ---- accesses over more than one life --------------------------------------------- */

Test(oracle_lives, an_access_may_reach_into_the_next_mapping)
{
    begin();
    const struct oracle_range left = {MEMORY, BYTES}, right = {MEMORY + BYTES, BYTES};
    struct oracle_line *x = stream_new(), *y = stream_new();

    oracle_allocation_begin(&left, "cuMemMap", host(), NULL, false);
    struct oracle_allocation *second =
        oracle_allocation_begin(&right, "cuMemMap", host(), NULL, false);
    run_at(put(x, NULL), WRITES, MEMORY + 2048, BYTES);
    expect_nothing();
    run_in(put(y, NULL), READS, second, MEMORY + BYTES, 16);
    expect(ORACLE_RACE, 1);
}

Test(oracle_lives, an_access_may_not_reach_into_what_was_freed)
{
    begin();
    const struct oracle_range left = {MEMORY, BYTES}, right = {MEMORY + BYTES, BYTES};
    struct oracle_line *x = stream_new();

    oracle_allocation_begin(&left, "cuMemMap", host(), NULL, false);
    take(oracle_allocation_begin(&right, "cuMemMap", host(), NULL, false));
    run_at(put(x, NULL), WRITES, MEMORY + 2048, BYTES);
    expect(ORACLE_NO_ALLOCATION, 1);
}

Test(oracle_lives, an_access_out_of_bounds_is_nobodys_there)
{
    begin();
    const struct oracle_range small = {MEMORY, 512}, next = {MEMORY + 512, 512};
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_allocation *a =
        oracle_allocation_begin(&small, "cuMemAlloc", host(), NULL, false);
    struct oracle_op *late = put(x, NULL), *beyond = put(y, NULL);

    take(oracle_allocation_begin(&next, "cuMemAlloc", host(), NULL, false));
    run_in(put(y, NULL), WRITES, a, MEMORY + 512, 512);
    expect(ORACLE_NO_ALLOCATION, 1);
    take_waiting(a, x);
    run_in(late, WRITES, a, MEMORY, 512);
    expect(ORACLE_NO_ALLOCATION, 1);
    run_in(beyond, WRITES, a, MEMORY + 1024, 512); /* which nobody ever had */
    expect(ORACLE_NO_ALLOCATION, 1);
}

Test(oracle_lives, an_access_keeps_its_life_where_a_new_one_has_part_of_it)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    const struct oracle_range part = {MEMORY + 512, 512};
    struct oracle_allocation *a = give();
    struct oracle_op *late = put(x, NULL);

    take_waiting(a, x);
    oracle_allocation_begin(&part, "cuMemAlloc_v2", host(), NULL, false);
    run_at(put(y, NULL), WRITES, MEMORY + 600, 1);
    run_in(late, WRITES, a, MEMORY, 600);
    expect_nothing();
    run_in(late, WRITES, a, MEMORY + 600, 1);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_lives, a_life_that_begins_over_another_ends_that)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *use = put(x, NULL);

    give();
    run(use, WRITES);
    saw(use);
    give();
    run(put(y, NULL), WRITES);
    expect_nothing();
}

Test(oracle_lives, empty_ranges_are_nothing)
{
    begin();
    const struct oracle_range none = {MEMORY, 0};
    struct oracle_allocation *a =
        oracle_allocation_begin(&none, "cuMemAlloc", host(), NULL, false);

    cr_assert_null(oracle_allocation_find(MEMORY));
    run_in(put(stream_new(), NULL), WRITES, a, MEMORY, 0);
    take(a);
    oracle_forget(&none);
    oracle_allocation_unref(a);
    expect_nothing();
}

Test(oracle_lives, ranges_up_to_the_last_address_are_bounded)
{
    begin();
    const struct oracle_range last = {UINTPTR_MAX - 100, 1000};
    struct oracle_allocation *a =
        oracle_allocation_begin(&last, "cuMemAlloc", host(), NULL, false);

    run_in(put(stream_new(), NULL), WRITES, a, UINTPTR_MAX - 50, SIZE_MAX);
    run_in(put(stream_new(), NULL), WRITES, a, UINTPTR_MAX - 1, 1);
    expect(ORACLE_RACE, 1);
    oracle_forget(&last);
}
