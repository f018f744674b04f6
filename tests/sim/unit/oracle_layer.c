/*
 * oracle_layer.c - proves the four outcomes when a layer stands between the program and
 * the driver: what it does on its own account counts in S alone, what the program's calls
 * natively wait for in N alone. MEMORY lies in a segment of the layer.
 */
#include "oracle_helpers.h"

static struct oracle_line *x, *y; /* streams; each test is a process */

/* The segment, and the two streams. */
static void set_up(void (*begin_it)(void))
{
    const struct oracle_range segment = {MEMORY - BYTES, 4 * BYTES};

    begin_it();
    oracle_allocation_begin(&segment, "cuMemAlloc_v2", host(), NULL, false);
    x = stream_new();
    y = stream_new();
}

static struct oracle_allocation *block(void)
{
    return give_inner(MEMORY, BYTES);
}

/* ---- the four outcomes ------------------------------------------------------------ */

Test(oracle_layer, right_is_ordered_in_both)
{
    set_up(begin);
    struct oracle_allocation *a = block();

    run(put(x, NULL), WRITES);
    take_waiting(a, x);
    oracle_host_saw_line(host(), x, true, false); /* the layer really waits */
    oracle_allocation_retire(a, host(), NULL);
    block();
    run(put(y, NULL), WRITES);
    expect_nothing();
}

Test(oracle_layer, lost_order_is_ordered_in_n_alone)
{
    set_up(begin);
    struct oracle_allocation *a = block();

    run(put(x, NULL), WRITES);
    take_waiting(a, x); /* and does not wait, nor look before it reuses */
    block();
    run(put(y, NULL), WRITES);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_layer, a_race_is_ordered_in_neither)
{
    set_up(begin);
    block();

    run(put(x, NULL), WRITES);
    run(put(y, NULL), WRITES);
    expect(ORACLE_RACE, 1);
}

Test(oracle_layer, masked_is_ordered_in_s_alone)
{
    set_up(begin);
    block();

    run(put(x, NULL), WRITES);
    oracle_host_saw_line(host(), x, true, false); /* on the layer's own account */
    run(put(y, NULL), WRITES);
    expect(ORACLE_MASKED, 1);
}

/* ---- what a free waits for -------------------------------------------------------- */

/* kernel(out); cudaFree(other); copy out to the host: natively right. */
Test(oracle_layer, the_wait_of_a_free_is_leaned_on)
{
    set_up(begin);
    struct oracle_allocation *other = give_inner(MEMORY + BYTES, BYTES), *out = block();
    const struct oracle_access access = {.range = {MEMORY, BYTES}, .allocation = out};

    run(put(x, NULL), WRITES);
    take_waiting(other, x);
    oracle_host_access(host(), &access);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_layer, the_wait_of_a_free_made_good_is_right)
{
    set_up(begin);
    struct oracle_allocation *other = give_inner(MEMORY + BYTES, BYTES), *out = block();
    const struct oracle_access access = {.range = {MEMORY, BYTES}, .allocation = out};

    run(put(x, NULL), WRITES);
    oracle_host_saw_line(host(), x, true, false);
    take_waiting(other, x);
    oracle_host_access(host(), &access);
    expect_nothing();
}

Test(oracle_layer, a_free_that_waits_for_nothing_leaves_a_race)
{
    set_up(begin);
    struct oracle_allocation *a = block();

    run(put(stream_new(), NULL), WRITES);
    take(a);
    expect(ORACLE_RACE, 1); /* with the free itself */
}

/* ---- own operations --------------------------------------------------------------- */

Test(oracle_layer, its_events_in_a_stream_order_nothing_in_n)
{
    set_up(begin);
    struct oracle_op *a = put(x, NULL);
    block();

    run(a, WRITES);
    put_own(y, a); /* a wait in the program's stream */
    run(put(y, NULL), WRITES);
    expect(ORACLE_MASKED, 1);
}

Test(oracle_layer, the_program_behind_its_operation_is_in_its_stream)
{
    set_up(begin);
    block();

    run(put(x, NULL), WRITES);
    struct oracle_op *record = put_own(x, NULL);
    run(put(y, record), WRITES); /* what is before the record is ordered, in both */
    expect_nothing();
}

Test(oracle_layer, who_waits_for_its_operation_is_not_behind_what_that_waits_for_in_n)
{
    set_up(begin);
    struct oracle_line *z = stream_new();
    struct oracle_op *a = put(x, NULL);
    block();

    run(a, WRITES);
    run(put(z, put_own(y, a)), WRITES);
    expect(ORACLE_MASKED, 1);
}

Test(oracle_layer, its_operation_passes_on_a_host_in_s_alone)
{
    set_up(begin_separate);
    struct oracle_line *other = host_new(2);
    struct oracle_op *a = put(x, NULL);
    const struct oracle_work work = {
        .call = "cuEventRecord", .host = host(), .stream = y, .own = true};

    run(a, WRITES);
    saw(a);
    oracle_op_submit(oracle_op_new(), &work);
    run(put_by(other, y), WRITES);
    expect(ORACLE_MASKED, 1);
}

Test(oracle_layer, its_work_is_by_right_in_order)
{
    set_up(begin);

    run(put_own(x, NULL), WRITES); /* it clears the segment, and does not wait */
    block();
    run(put(y, NULL), READS);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_layer, its_work_that_the_program_is_behind_is_right)
{
    set_up(begin);
    struct oracle_op *clear = put_own(x, NULL);

    run(clear, WRITES);
    oracle_host_saw(host(), clear, true, false);
    block();
    run(put(y, NULL), READS);
    expect_nothing();
}

Test(oracle_layer, its_work_on_memory_taken_back_comes_behind_the_program)
{
    set_up(begin);
    struct oracle_allocation *a = block();
    struct oracle_op *use = put(x, NULL);

    run(use, WRITES);
    take_waiting(a, x);
    run(put_own(y, NULL), WRITES); /* clears it while the kernel may still run */
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_layer, its_work_on_memory_retired_is_right)
{
    set_up(begin);
    struct oracle_allocation *a = block();
    struct oracle_op *use = put(x, NULL);

    run(use, WRITES);
    take_waiting(a, x);
    oracle_allocation_retire(a, host(), use);
    run(put_own(y, NULL), WRITES);
    expect_nothing();
}

Test(oracle_layer, its_work_submitted_before_the_retirement_is_not_behind_it)
{
    set_up(begin);
    struct oracle_allocation *a = block();
    struct oracle_op *use = put(x, NULL), *clear;

    run(use, WRITES);
    take_waiting(a, x);
    clear = put_own(y, NULL);
    oracle_allocation_retire(a, host(), use);
    run(clear, WRITES);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_layer, its_wait_inside_the_program_counts_if_it_reads_n)
{
    set_up(begin);
    struct oracle_op *a = put(x, NULL);
    block();

    run(a, WRITES);
    oracle_host_saw(host(), a, false, false); /* forwarded: the program's own wait */
    run(put(y, NULL), WRITES);
    expect_nothing();
}

/* ---- own questions and retirement ------------------------------------------------- */

Test(oracle_layer, a_lucky_poll_orders_nothing)
{
    set_up(begin);
    struct oracle_allocation *a = block();
    struct oracle_op *use = put(x, NULL), *fence = put_own(x, NULL);

    run(use, WRITES);
    oracle_op_done(fence);
    take_waiting(a, x);
    oracle_host_saw(host(), fence, true, true); /* yes, but nobody retires by it */
    block();
    run(put(y, NULL), WRITES);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_layer, a_poll_that_retires_orders)
{
    set_up(begin);
    struct oracle_allocation *a = block();
    struct oracle_op *use = put(x, NULL);

    run(use, WRITES);
    take_waiting(a, x);
    struct oracle_op *fence = put_own(x, NULL);
    oracle_op_done(fence);
    oracle_host_saw(host(), fence, true, true);
    oracle_allocation_retire(a, host(), fence);
    block();
    run(put(y, NULL), WRITES);
    expect_nothing();
}

Test(oracle_layer, a_fence_before_the_use_proves_nothing)
{
    set_up(begin);
    struct oracle_allocation *a = block();
    struct oracle_op *fence = put_own(x, NULL), *use = put(x, NULL);

    oracle_op_done(fence);
    run(use, WRITES);
    take_waiting(a, x);
    oracle_allocation_retire(a, host(), fence);
    block();
    run(put(y, NULL), WRITES);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_layer, what_retires_one_block_says_nothing_of_another)
{
    set_up(begin);
    struct oracle_allocation *a = block(), *b = give_inner(MEMORY + BYTES, BYTES);
    struct oracle_op *use = put(x, NULL);

    run_at(use, WRITES, MEMORY, 2 * BYTES);
    take_waiting(a, x);
    take_waiting(b, x);
    oracle_allocation_retire(b, host(), use);
    give_inner(MEMORY + BYTES, BYTES);
    run_at(put(y, NULL), WRITES, MEMORY + BYTES, BYTES);
    expect_nothing();
    block();
    run(put(y, NULL), WRITES);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_layer, a_retirement_after_the_hand_out_is_too_late)
{
    set_up(begin);
    struct oracle_allocation *a = block();
    struct oracle_op *use = put(x, NULL);

    run(use, WRITES);
    take_waiting(a, x);
    block();
    oracle_allocation_retire(a, host(), use);
    run(put(y, NULL), WRITES);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_layer, retiring_by_what_is_not_done_is_found)
{
    set_up(begin);
    struct oracle_allocation *a = block();
    struct oracle_op *fence = put_own(x, NULL);

    take_waiting(a, x);
    oracle_allocation_retire(a, host(), fence);
    expect(ORACLE_EARLY_RETIRE, 1);
    oracle_op_done(fence);
    oracle_allocation_retire(a, host(), fence);
    expect(ORACLE_EARLY_RETIRE, 1);
}

Test(oracle_layer, reuse_in_the_same_stream_needs_no_proof)
{
    set_up(begin);
    struct oracle_allocation *a = block();

    run(put(x, NULL), WRITES);
    take_waiting(a, x);
    block();
    run(put(x, NULL), WRITES);
    expect_nothing();
}

Test(oracle_layer, what_was_over_before_stays_over)
{
    set_up(begin);
    struct oracle_line *z = stream_new();
    struct oracle_allocation *a = block();
    struct oracle_op *use = put(x, NULL);

    run_at(use, WRITES, MEMORY, BYTES);
    take_waiting(a, x);
    oracle_allocation_retire(a, host(), use);
    struct oracle_allocation *b = block(); /* never used */
    take_waiting(b, y);
    block(); /* behind the first, through the second */
    run(put(z, NULL), WRITES);
    expect_nothing();
}

/* ---- hand-outs between host threads -------------------------------------------------
 */

Test(oracle_layer, a_hand_out_orders_the_two_threads)
{
    set_up(begin_separate);
    struct oracle_line *other = host_new(2);
    struct oracle_allocation *a = block();
    const struct oracle_range range = {MEMORY, BYTES};
    struct oracle_op *use = put(x, NULL);

    run(use, WRITES);
    saw(use);
    take(a);
    oracle_allocation_begin(&range, "cuMemAlloc_v2", other, NULL, true);
    run(put_by(other, y), WRITES);
    expect_nothing();
}

Test(oracle_layer, a_hand_out_of_other_bytes_does_not)
{
    set_up(begin_separate);
    struct oracle_line *other = host_new(2);
    struct oracle_allocation *a = block();
    const struct oracle_range range = {MEMORY + BYTES, BYTES};
    struct oracle_op *use = put(x, NULL);

    run(use, WRITES);
    saw(use);
    take(a);
    oracle_allocation_begin(&range, "cuMemAlloc_v2", other, NULL, true);
    block();
    run(put_by(other, y), WRITES);
    expect(ORACLE_MASKED,
           1); /* not behind the block's beginning; yet all was over then */
}

Test(oracle_layer, a_hand_out_passes_on_in_s_what_was_waited_for_alone)
{
    set_up(begin_separate);
    struct oracle_line *other = host_new(2);
    struct oracle_allocation *a = block();
    const struct oracle_range range = {MEMORY, BYTES};

    run(put(x, NULL), WRITES);
    take_waiting(a, x);
    oracle_allocation_begin(&range, "cuMemAlloc_v2", other, NULL, true);
    run(put_by(other, y), WRITES);
    expect(ORACLE_LOST_ORDER, 1);
}
