/*
 * oracle_going.c - proves what becomes of bytes that go to the host, or back to the
 * driver, while an access to them may not be over.
 */
#include "oracle_helpers.h"

static struct oracle_line *x; /* a stream; each test is a process */

static void set_up(void)
{
    begin();
    x = stream_new();
}

static struct oracle_allocation *block(void)
{
    return give_inner(MEMORY, BYTES);
}

/* A segment with a block that a stream uses; the free of the block waits for it in N. */
static struct oracle_allocation *freed_block(struct oracle_allocation **segment)
{
    const struct oracle_range range = {MEMORY, 4 * BYTES};

    *segment = oracle_allocation_begin(&range, "cuMemAlloc_v2", host(), NULL, false);
    struct oracle_allocation *a = block();
    run(put(x, NULL), WRITES);
    take_waiting(a, x);
    return a;
}

Test(oracle_going, memory_goes_with_a_user_that_has_run)
{
    set_up();
    struct oracle_allocation *segment;

    freed_block(&segment);
    take(segment);
    oracle_allocation_gone(segment);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_going, memory_goes_before_a_user_runs)
{
    set_up();
    struct oracle_allocation *segment, *a;
    const struct oracle_range range = {MEMORY, 4 * BYTES};
    struct oracle_op *use;

    segment = oracle_allocation_begin(&range, "cuMemAlloc_v2", host(), NULL, false);
    a = block();
    use = put(x, NULL);
    take_waiting(a, x);
    take(segment);
    oracle_allocation_gone(segment);
    run_in(use, READS, a, MEMORY, BYTES);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_going, memory_goes_when_all_is_over)
{
    set_up();
    struct oracle_allocation *segment;

    freed_block(&segment);
    oracle_host_saw_line(host(), x, true, false);
    take(segment);
    oracle_allocation_gone(segment);
    expect_nothing();
}

Test(oracle_going, memory_goes_when_its_blocks_are_retired)
{
    set_up();
    struct oracle_allocation *segment, *a;
    struct oracle_op *fence;

    a = freed_block(&segment);
    fence = put_own(x, NULL);
    oracle_op_done(fence);
    oracle_allocation_retire(a, host(), fence);
    take(segment);
    oracle_allocation_gone(segment);
    expect_nothing();
}

Test(oracle_going, memory_goes_beside_the_programs_own_race)
{
    set_up();
    const struct oracle_range range = {MEMORY, 4 * BYTES};
    struct oracle_allocation *segment =
        oracle_allocation_begin(&range, "cuMemAlloc_v2", host(), NULL, false);
    struct oracle_allocation *a = block();

    run(put(x, NULL), WRITES);
    take(a); /* which natively waits for nothing */
    take(segment);
    oracle_allocation_gone(segment);
    expect(ORACLE_RACE, 1);
}

Test(oracle_going, the_host_has_what_a_stream_has_used)
{
    set_up();
    struct oracle_allocation *segment;

    freed_block(&segment);
    oracle_allocation_for_host(block());
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_going, the_host_has_what_a_stream_will_use)
{
    set_up();
    struct oracle_allocation *a = block();
    struct oracle_op *use = put(x, NULL);

    take_waiting(a, x);
    oracle_allocation_for_host(block());
    run_in(use, READS, a, MEMORY, BYTES);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_going, the_host_has_what_is_over)
{
    set_up();
    struct oracle_allocation *segment;

    freed_block(&segment);
    oracle_host_saw_line(host(), x, true, false);
    oracle_allocation_for_host(block());
    expect_nothing();
}

Test(oracle_going, the_host_has_other_bytes)
{
    set_up();
    struct oracle_allocation *segment;

    freed_block(&segment);
    oracle_allocation_for_host(give_inner(MEMORY + BYTES, BYTES));
    expect_nothing();
}
