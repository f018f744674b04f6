/*
 * oracle_tenants.c - proves the rules of lives: uses after the end and without a tenant,
 * races with the beginning and the end, stream-ordered memory, lives inside others,
 * operations that run after their memory was handed on, accesses that reach over more
 * than one life.
 */
#include "oracle_helpers.h"
#include "oracle_state.h"

/* ---- nobody's memory -------------------------------------------------------------- */

Test(oracle_tenants, memory_that_never_was_anybodys_may_be_used)
{
    begin();
    run(put(stream_new(), NULL), WRITES);
    expect_nothing();
}

Test(oracle_tenants, a_use_after_free_is_found)
{
    begin();
    struct oracle_line *x = stream_new();

    take(give());
    run(put(x, NULL), READS);
    expect(ORACLE_NO_TENANT, 1);
}

Test(oracle_tenants, a_use_after_free_is_found_though_it_had_been_looked_up)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_tenant *a = give();

    take(a);
    run_in(put(x, NULL), READS, a, MEMORY, BYTES);
    expect(ORACLE_NO_TENANT, 1);
}

Test(oracle_tenants, a_use_that_is_submitted_before_the_free_and_waited_for_is_right)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_tenant *a = give();
    struct oracle_op *use = put(x, NULL);

    take_waiting(a, x);
    run_in(use, WRITES, a, MEMORY, BYTES);
    expect_nothing();
}

Test(oracle_tenants, what_is_nobodys_is_not_judged_further)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();

    take(give());
    run(put(x, NULL), WRITES);
    expect(ORACLE_NO_TENANT, 1);
    give();
    run(put(y, NULL), WRITES);
    expect(ORACLE_NO_TENANT, 1);
}

Test(oracle_tenants, what_is_forgotten_may_be_used)
{
    begin();
    const struct oracle_range range = {MEMORY, BYTES};
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_tenant *a = give();

    run(put(x, NULL), WRITES);
    saw(put(x, NULL));
    take(a);
    oracle_forget(&range);
    run(put(y, NULL), WRITES);
    expect_nothing();
}

Test(oracle_tenants, what_is_forgotten_in_part_is_known_in_the_others)
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

Test(oracle_tenants, finds_the_one_that_lives)
{
    begin();
    struct oracle_tenant *outer = give(), *inner = give_inner(MEMORY + 512, 512);

    cr_assert_eq(oracle_tenant_find(MEMORY), outer);
    cr_assert_eq(oracle_tenant_find(MEMORY + 512), inner);
    cr_assert_eq(oracle_tenant_find(MEMORY + 1023), inner);
    cr_assert_eq(oracle_tenant_find(MEMORY + 1024), outer);
    take(inner);
    cr_assert_eq(oracle_tenant_find(MEMORY + 512), outer);
    take(outer);
    cr_assert_null(oracle_tenant_find(MEMORY + 512));
    cr_assert_null(oracle_tenant_find(MEMORY + BYTES));
}

/* ---- the end ---------------------------------------------------------------------- */

Test(oracle_tenants, a_free_that_is_not_behind_a_use_races_with_it)
{
    begin();
    struct oracle_tenant *a = give();

    run(put(stream_new(), NULL), READS);
    take(a);
    expect(ORACLE_RACE, 1);
}

Test(oracle_tenants, a_free_that_is_behind_a_use_does_not)
{
    begin();
    struct oracle_tenant *a = give();
    struct oracle_op *use = put(stream_new(), NULL);

    run(use, READS);
    saw(use);
    take(a);
    expect_nothing();
}

Test(oracle_tenants, a_use_that_runs_after_a_free_that_is_not_behind_it_races)
{
    begin();
    struct oracle_tenant *a = give();
    struct oracle_op *use = put(stream_new(), NULL);

    take(a);
    run_in(use, READS, a, MEMORY, BYTES);
    expect(ORACLE_RACE, 1);
}

Test(oracle_tenants, a_free_behind_a_use_by_chance_is_masked)
{
    begin();
    struct oracle_tenant *a = give();
    struct oracle_op *use = put(stream_new(), NULL);

    run(use, READS);
    oracle_host_saw(host(), use, true, false);
    take(a);
    expect(ORACLE_MASKED, 1);
}

Test(oracle_tenants, a_race_with_the_free_is_one_finding)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_tenant *a = give();
    struct oracle_op *use = put(x, NULL);

    for (uintptr_t at = 0; at < BYTES; at += 512)
        run_at(use, WRITES, MEMORY + at, 256);
    take(a);
    expect(ORACLE_RACE, 1);
}

/* ---- stream-ordered memory -------------------------------------------------------- */

Test(oracle_tenants, stream_ordered_memory_is_there_behind_its_point)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_op *alloc = put(x, NULL);

    give_in(alloc);
    run(put(x, NULL), WRITES);
    run(put(stream_new(), alloc), ATOMIC_READS); /* races, but is behind the beginning */
    expect(ORACLE_RACE, 1);
}

Test(oracle_tenants, a_use_that_is_not_behind_the_beginning_races_with_it)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();

    give_in(put(x, NULL));
    run(put(y, NULL), WRITES);
    expect(ORACLE_RACE, 1);
}

Test(oracle_tenants, a_use_behind_the_beginning_by_chance_is_masked)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *alloc = put(x, NULL);

    give_in(alloc);
    oracle_host_saw(host(), alloc, true, false);
    run(put(y, NULL), WRITES);
    expect(ORACLE_MASKED, 1);
}

Test(oracle_tenants, a_use_behind_a_stream_ordered_free_is_found)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_tenant *a = give_in(put(x, NULL));

    take_in(a, put(x, NULL));
    run(put(x, NULL), WRITES);
    expect(ORACLE_NO_TENANT, 1);
}

Test(oracle_tenants, reuse_in_the_stream_of_the_free_is_right)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_tenant *a = give_in(put(x, NULL));

    run(put(x, NULL), WRITES);
    take_in(a, put(x, NULL));
    give_in(put(x, NULL));
    run(put(x, NULL), WRITES);
    expect_nothing();
}

Test(oracle_tenants, reuse_in_another_stream_loses_order)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_tenant *a = give_in(put(x, NULL));

    run(put(x, NULL), WRITES);
    take_in(a, put(x, NULL));
    give_in(put(y, NULL)); /* the allocator did not make it wait */
    run(put(y, NULL), WRITES);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_tenants, reuse_in_another_stream_that_was_made_to_wait_is_right)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_tenant *a = give_in(put(x, NULL));

    run(put(x, NULL), WRITES);
    struct oracle_op *end = put(x, NULL);
    take_in(a, end);
    put_own(y, end);
    give_in(put(y, NULL));
    run(put(y, NULL), WRITES);
    expect_nothing();
}

Test(oracle_tenants, reuse_of_what_was_seen_done_is_right)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_tenant *a = give_in(put(x, NULL));

    run(put(x, NULL), WRITES);
    struct oracle_op *end = put(x, NULL);
    take_in(a, end);
    oracle_op_done(end);
    oracle_tenant_retire(a, NULL, end);
    give_in(put(y, NULL));
    run(put(y, NULL), WRITES);
    expect_nothing();
}

Test(oracle_tenants, a_use_elsewhere_must_be_before_a_stream_ordered_free)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *alloc = put(x, NULL);
    struct oracle_tenant *a = give_in(alloc);
    struct oracle_op *use = put(y, alloc);

    run(use, WRITES);
    take_in(a, put(x, NULL));
    expect(ORACLE_RACE, 1);
}

Test(oracle_tenants, a_use_elsewhere_that_the_free_waits_for_is_right)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *alloc = put(x, NULL);
    struct oracle_tenant *a = give_in(alloc);
    struct oracle_op *use = put(y, alloc);

    run(use, WRITES);
    take_in(a, put(x, use));
    expect_nothing();
}

/* ---- late operations -------------------------------------------------------------- */

Test(oracle_tenants, running_after_the_memory_was_handed_on_loses_order)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_tenant *a = give();
    struct oracle_op *late = put(x, NULL);

    take_waiting(a, x);
    give();
    run(put(y, NULL), WRITES);
    expect_nothing();
    run_in(late, READS, a, MEMORY, BYTES);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_tenants, running_late_beside_the_free_is_a_race_alone)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_tenant *a = give();
    struct oracle_op *late = put(x, NULL);

    take(a);
    give();
    run(put(y, NULL), WRITES);
    run_in(late, READS, a, MEMORY, BYTES);
    expect(ORACLE_RACE, 2); /* with the free, and with who has the memory now */
}

Test(oracle_tenants, reads_may_meet_across_lives)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_tenant *a = give();
    struct oracle_op *late = put(x, NULL);

    take_waiting(a, x);
    give();
    run(put(y, NULL), READS);
    run_in(late, READS, a, MEMORY, BYTES);
    expect_nothing();
}

/* ---- lives inside others ---------------------------------------------------------- */

Test(oracle_tenants, a_block_the_program_freed_is_nobodys_though_its_segment_lives)
{
    begin();
    struct oracle_line *x = stream_new();

    give();
    take(give_inner(MEMORY + 512, 512));
    run_at(put(x, NULL), WRITES, MEMORY + 512, 512);
    expect(ORACLE_NO_TENANT, 1);
}

Test(oracle_tenants, a_layer_may_use_what_it_took_back)
{
    begin();
    struct oracle_line *x = stream_new();

    give();
    take(give_inner(MEMORY + 512, 512));
    run_at(put_own(x, NULL), WRITES, MEMORY + 512, 512);
    expect_nothing();
}

Test(oracle_tenants, a_layer_may_not_use_what_it_gave_back)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_tenant *segment = give();

    take(segment);
    run_in(put_own(x, NULL), WRITES, segment, MEMORY, BYTES);
    expect(ORACLE_NO_TENANT, 1);
}

Test(oracle_tenants, a_block_may_lie_in_two_mappings)
{
    begin();
    const struct oracle_range left = {MEMORY, BYTES}, right = {MEMORY + BYTES, BYTES};
    struct oracle_line *x = stream_new(), *y = stream_new();

    oracle_tenant_begin(&left, "cuMemMap", host(), NULL, false);
    struct oracle_tenant *second =
        oracle_tenant_begin(&right, "cuMemMap", host(), NULL, false);
    struct oracle_tenant *block = give_inner(MEMORY + 2048, BYTES);
    struct oracle_op *use = put(x, NULL);
    run_in(use, WRITES, block, MEMORY + 2048, BYTES);
    saw(use);
    take(block);
    cr_assert_eq(oracle_tenant_find(MEMORY + BYTES), second);
    run_at(put(y, NULL), WRITES, MEMORY + BYTES + 2047, 1);
    expect(ORACLE_NO_TENANT, 1);
    run_at(put(y, NULL), WRITES, MEMORY + BYTES + 2048, 1);
    expect(ORACLE_NO_TENANT, 1);
}

Test(oracle_tenants, a_block_of_a_block_over_two_mappings_ends_in_neither)
{
    begin();
    const struct oracle_range left = {MEMORY, BYTES}, right = {MEMORY + BYTES, BYTES};

    struct oracle_tenant *first =
        oracle_tenant_begin(&left, "cuMemMap", host(), NULL, false);
    oracle_tenant_begin(&right, "cuMemMap", host(), NULL, false);
    struct oracle_tenant *block = give_inner(MEMORY, 2 * BYTES);
    struct oracle_tenant *part = give_inner(MEMORY + BYTES, 512);
    cr_assert_eq(oracle_tenant_find(MEMORY + BYTES), part);
    take(part);
    cr_assert_eq(oracle_tenant_find(MEMORY + BYTES), block);
    part = give_inner(MEMORY + BYTES, 512);
    take(block);
    take(part);
    cr_assert_null(oracle_tenant_find(MEMORY + BYTES));
    oracle_tenant_begin(&right, "cuMemMap", host(), NULL, false);
    cr_assert_eq(oracle_tenant_find(MEMORY), first); /* which that did not end */
}

Test(oracle_tenants, a_segment_given_back_takes_its_blocks_with_it)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_tenant *segment = give(), *block = give_inner(MEMORY, 512);

    run_at(put(x, NULL), WRITES, MEMORY, 512);
    take_waiting(block, x);
    take(segment); /* and the layer has waited for nothing */
    give();
    run(put(y, NULL), WRITES);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_tenants, a_use_of_the_segment_is_remembered_beside_a_block_inside)
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

Test(oracle_tenants, an_access_may_reach_into_the_next_mapping)
{
    begin();
    const struct oracle_range left = {MEMORY, BYTES}, right = {MEMORY + BYTES, BYTES};
    struct oracle_line *x = stream_new(), *y = stream_new();

    oracle_tenant_begin(&left, "cuMemMap", host(), NULL, false);
    struct oracle_tenant *second =
        oracle_tenant_begin(&right, "cuMemMap", host(), NULL, false);
    run_at(put(x, NULL), WRITES, MEMORY + 2048, BYTES);
    expect_nothing();
    run_in(put(y, NULL), READS, second, MEMORY + BYTES, 16);
    expect(ORACLE_RACE, 1);
}

Test(oracle_tenants, an_access_may_not_reach_into_what_was_freed)
{
    begin();
    const struct oracle_range left = {MEMORY, BYTES}, right = {MEMORY + BYTES, BYTES};
    struct oracle_line *x = stream_new();

    oracle_tenant_begin(&left, "cuMemMap", host(), NULL, false);
    take(oracle_tenant_begin(&right, "cuMemMap", host(), NULL, false));
    run_at(put(x, NULL), WRITES, MEMORY + 2048, BYTES);
    expect(ORACLE_NO_TENANT, 1);
}

Test(oracle_tenants, an_access_out_of_bounds_is_nobodys_there)
{
    begin();
    const struct oracle_range small = {MEMORY, 512}, next = {MEMORY + 512, 512};
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_tenant *a =
        oracle_tenant_begin(&small, "cuMemAlloc", host(), NULL, false);
    struct oracle_op *late = put(x, NULL), *beyond = put(y, NULL);

    take(oracle_tenant_begin(&next, "cuMemAlloc", host(), NULL, false));
    run_in(put(y, NULL), WRITES, a, MEMORY + 512, 512);
    expect(ORACLE_NO_TENANT, 1);
    take_waiting(a, x);
    run_in(late, WRITES, a, MEMORY, 512);
    expect(ORACLE_NO_TENANT, 1);
    run_in(beyond, WRITES, a, MEMORY + 1024, 512); /* which nobody ever had */
    expect(ORACLE_NO_TENANT, 1);
}

Test(oracle_tenants, an_access_keeps_its_life_where_a_new_one_has_part_of_it)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    const struct oracle_range part = {MEMORY + 512, 512};
    struct oracle_tenant *a = give();
    struct oracle_op *late = put(x, NULL);

    take_waiting(a, x);
    oracle_tenant_begin(&part, "cuMemAlloc_v2", host(), NULL, false);
    run_at(put(y, NULL), WRITES, MEMORY + 600, 1);
    run_in(late, WRITES, a, MEMORY, 600);
    expect_nothing();
    run_in(late, WRITES, a, MEMORY + 600, 1);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_tenants, a_life_that_begins_over_another_ends_that)
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

Test(oracle_tenants, empty_ranges_are_nothing)
{
    begin();
    const struct oracle_range none = {MEMORY, 0};
    struct oracle_tenant *a =
        oracle_tenant_begin(&none, "cuMemAlloc", host(), NULL, false);

    cr_assert_null(oracle_tenant_find(MEMORY));
    run_in(put(stream_new(), NULL), WRITES, a, MEMORY, 0);
    take(a);
    oracle_forget(&none);
    oracle_tenant_unref(a);
    expect_nothing();
}

Test(oracle_tenants, ranges_up_to_the_last_address_are_bounded)
{
    begin();
    const struct oracle_range last = {UINTPTR_MAX - 100, 1000};
    struct oracle_tenant *a =
        oracle_tenant_begin(&last, "cuMemAlloc", host(), NULL, false);

    run_in(put(stream_new(), NULL), WRITES, a, UINTPTR_MAX - 50, SIZE_MAX);
    run_in(put(stream_new(), NULL), WRITES, a, UINTPTR_MAX - 1, 1);
    expect(ORACLE_RACE, 1);
    oracle_forget(&last);
}
