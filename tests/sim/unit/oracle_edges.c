/*
 * oracle_edges.c - proves order found at run time: a wait of the device for a value in
 * memory has ended, and who is behind the waiter is behind the writer, whenever it was
 * submitted; through several waits, and when there are very many.
 */
#include "oracle_helpers.h"

#define FLAG (MEMORY + 16 * BYTES)

static void write_flag(struct oracle_op *op)
{
    run_at(op, WRITES, FLAG, 4);
}

static void see_flag(struct oracle_op *op)
{
    oracle_op_saw(op, FLAG, 4, false);
    oracle_op_done(op);
}

Test(oracle_edges, a_wait_is_behind_the_writer)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL), *flag = put(x, NULL), *wait = put(y, NULL);

    run(a, WRITES);
    write_flag(flag);
    see_flag(wait);
    run(put(y, NULL), READS);
    expect_nothing();
}

Test(oracle_edges, what_was_submitted_before_the_wait_ended_is_behind_it)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new(), *z = stream_new();
    struct oracle_op *a = put(x, NULL), *flag = put(x, NULL), *wait = put(y, NULL);
    struct oracle_op *b = put(y, NULL), *c = put(z, b);

    run_at(a, WRITES, MEMORY, 20);
    write_flag(flag);
    see_flag(wait);
    run_at(b, READS, MEMORY, 10);
    run_at(c, WRITES, MEMORY + 10, 10);
    expect_nothing();
}

Test(oracle_edges, what_is_before_the_wait_is_not)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL), *flag = put(x, NULL);
    struct oracle_op *b = put(y, NULL), *wait = put(y, NULL);

    run(a, WRITES);
    write_flag(flag);
    see_flag(wait);
    run(b, READS);
    expect(ORACLE_RACE, 1);
}

Test(oracle_edges, what_the_writer_does_afterwards_is_not)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *flag = put(x, NULL), *a = put(x, NULL), *wait = put(y, NULL);

    write_flag(flag);
    run(a, WRITES);
    see_flag(wait);
    run(put(y, NULL), READS);
    expect(ORACLE_RACE, 1);
}

Test(oracle_edges, another_flag_is_another_writer)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL), *flag = put(x, NULL), *wait = put(y, NULL);

    run(a, WRITES);
    write_flag(flag);
    oracle_op_saw(wait, FLAG + 4, 4, false);
    run(put(y, NULL), READS);
    expect(ORACLE_RACE, 1);
}

Test(oracle_edges, goes_through_waits_in_a_row)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new(), *z = stream_new();
    struct oracle_op *a = put(x, NULL), *first = put(x, NULL);
    struct oracle_op *wait = put(y, NULL), *second = put(y, NULL);
    struct oracle_op *last = put(z, NULL), *b = put(z, NULL);

    run(a, WRITES);
    write_flag(first);
    see_flag(wait);
    run_at(second, WRITES, FLAG + 64, 4);
    oracle_op_saw(last, FLAG + 64, 4, false);
    run(b, READS);
    expect_nothing();
}

/* The later wait ends first: what it knows must grow when the earlier one ends. */
Test(oracle_edges, goes_through_waits_that_end_in_the_other_order)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new(), *z = stream_new();
    struct oracle_op *a = put(x, NULL), *flag = put(x, NULL);
    struct oracle_op *wait = put(y, NULL), *second = put(y, NULL);
    struct oracle_op *last = put(z, NULL), *b = put(z, NULL);

    run_at(second, WRITES, FLAG + 64, 4); /* by a schedule that runs it too early */
    oracle_op_saw(last, FLAG + 64, 4, false);
    run(a, WRITES);
    write_flag(flag);
    see_flag(wait);
    run(b, READS);
    expect_nothing();
}

Test(oracle_edges, a_host_behind_the_wait_is_behind_the_writer)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL), *flag = put(x, NULL), *wait = put(y, NULL);

    saw(wait); /* so it has been told; the wait ends as far as the clocks go */
    run(a, WRITES);
    write_flag(flag);
    see_flag(wait);
    run(put(stream_new(), NULL), READS);
    expect_nothing();
}

Test(oracle_edges, the_host_may_have_written_the_value)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL), *wait = put(y, NULL), *b = put(y, NULL);

    run(a, WRITES);
    saw(a);
    oracle_op_saw(wait, FLAG, 4, true);
    run(b, READS);
    expect_nothing();
}

Test(oracle_edges, the_host_may_not_write_device_memory)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL), *wait = put(y, NULL), *b = put(y, NULL);

    run(a, WRITES);
    saw(a);
    oracle_op_saw(wait, FLAG, 4, false);
    run(b, READS);
    expect(ORACLE_RACE, 1);
}

Test(oracle_edges, a_write_that_the_host_notified_is_the_one)
{
    begin();
    const struct oracle_access flag = {.range = {FLAG, 4}, .writes = true};
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL), *wait = put(y, NULL), *b = put(y, NULL);

    oracle_host_access(host(), &flag);
    run(a, WRITES);
    saw(a); /* after the host wrote */
    oracle_op_saw(wait, FLAG, 4, true);
    run(b, READS);
    expect(ORACLE_RACE, 1);
}

Test(oracle_edges, the_host_goes_on_behind_what_it_saw_in_memory)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *seen = oracle_op_new();

    run(put(x, NULL), WRITES);
    write_flag(put(x, NULL));
    oracle_op_saw(seen, FLAG, 4, false); /* never submitted */
    saw(seen);
    run(put(y, NULL), READS);
    expect_nothing();
}

Test(oracle_edges, a_layers_wait_counts_in_s_alone)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL), *flag = put(x, NULL), *wait = put_own(y, NULL);

    run(a, WRITES);
    write_flag(flag);
    see_flag(wait);
    run(put(y, NULL), READS);
    expect(ORACLE_MASKED, 1);
}

Test(oracle_edges, a_layers_write_counts_in_s_alone)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL), *flag = put_own(x, NULL), *wait = put(y, NULL);

    run(a, WRITES);
    write_flag(flag);
    see_flag(wait);
    run(put(y, NULL), READS);
    expect(ORACLE_MASKED, 1);
}

/* A free and a hand-out made from clocks behind a wait that had not ended. */
Test(oracle_edges, reaches_the_ends_of_allocations)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_allocation *t = give_in(put(y, NULL));
    struct oracle_op *use = oracle_op_new(), *flag, *wait, *end;
    const struct oracle_work work = {.call = "k", .host = host(), .stream = x};

    oracle_op_after_line(use, y);
    oracle_op_submit(use, &work);
    flag = put(x, NULL);
    wait = put(y, NULL);
    end = put(y, NULL);
    take_in(t, end);
    write_flag(flag);
    see_flag(wait);
    run_in(use, WRITES, t, MEMORY, BYTES);
    give_in(put(y, NULL));
    run(put(y, NULL), WRITES);
    expect_nothing();
}

/* A kernel waits for the host. A layer's free, which natively waits for the kernel, lets
 * the thread go on, and it lets the kernel end. */
struct persistent {
    struct oracle_line *x, *y;
    struct oracle_op *kernel, *behind, *use;
};

static struct persistent freed_beside_a_kernel(void)
{
    struct persistent p = {.x = stream_new(), .y = stream_new()};

    p.kernel = put(p.x, NULL);
    p.behind = put(p.x, NULL);
    take_waiting(give_inner(MEMORY + 4 * BYTES, BYTES), p.x);
    p.use = put(p.y, NULL);
    return p;
}

Test(oracle_edges, the_host_is_not_behind_its_own_future)
{
    begin();
    struct persistent p = freed_beside_a_kernel();
    struct oracle_allocation *t = give();

    p.use = put(p.y, NULL);
    take_waiting(t, p.y);
    oracle_op_saw(p.kernel, FLAG, 4, true);
    run_in(p.use, WRITES, t, MEMORY, BYTES);
    expect_nothing();
}

Test(oracle_edges, nor_where_there_are_many)
{
    begin();
    enum { KERNELS = 200 };
    struct oracle_allocation *t[KERNELS];
    struct oracle_op *kernels[KERNELS], *uses[KERNELS];
    struct oracle_line *y = stream_new();

    for (int i = 0; i < KERNELS; i++) {
        const struct oracle_range range = {MEMORY + (uintptr_t)i * BYTES, BYTES};
        struct oracle_line *x = stream_new();
        t[i] = oracle_allocation_begin(&range, "give", host(), NULL, false);
        kernels[i] = put(x, NULL);
        uses[i] = put(y, NULL);
        take_waiting(t[i], x);
    }
    for (int i = 0; i < KERNELS; i++)
        oracle_op_saw(kernels[i], FLAG, 4, true);
    for (int i = 0; i < KERNELS; i++)
        run_in(uses[i], READS, t[i], MEMORY + (uintptr_t)i * BYTES, BYTES);
    expect(ORACLE_RACE, KERNELS); /* with their ends, which wait for other streams */
}

/* What is behind the kernel in the run is behind all that its end was told of. */
Test(oracle_edges, who_was_told_is_behind_it_all)
{
    begin();
    struct persistent p = freed_beside_a_kernel();

    run(p.use, WRITES);
    saw(p.use);
    oracle_op_saw(p.kernel, FLAG, 4, true);
    run(p.behind, READS);
    run(put_after_line(stream_new(), p.x), WRITES);
    expect_nothing();
}

Test(oracle_edges, who_was_told_is_behind_it_all_where_there_are_many)
{
    begin();
    struct persistent p = freed_beside_a_kernel();

    run(p.use, WRITES);
    saw(p.use);
    oracle_op_saw(p.kernel, FLAG, 4, true);
    for (int i = 0; i < 200; i++)
        oracle_op_saw(put(stream_new(), NULL), FLAG + 64, 4, true);
    run(p.behind, READS);
    expect_nothing();
}

/* Through the kernel of one such thread to that of another. */
Test(oracle_edges, goes_through_kernels_that_wait_in_a_row)
{
    begin_separate();
    struct persistent p = freed_beside_a_kernel();
    struct oracle_line *z = stream_new(), *other = host_new(101);
    struct oracle_op *next, *last;

    run(p.use, WRITES);
    saw(p.use);
    oracle_op_saw(p.kernel, FLAG, 4, true);
    next = put_by(other, z);
    last = put_by(other, z);
    oracle_allocation_end(give_inner(MEMORY + 8 * BYTES, BYTES), "take", other, NULL, &z,
                          1);
    oracle_host_saw(other, p.behind, false, false);
    oracle_op_saw(next, FLAG, 4, true);
    run(last, READS);
    expect_nothing();
}

/* What it had not been told when it ended. */
Test(oracle_edges, nobody_was_told_of_what_came_after)
{
    begin();
    struct persistent p = freed_beside_a_kernel();

    oracle_op_was_told(p.kernel);
    run(p.use, WRITES);
    saw(p.use);
    oracle_op_saw(p.kernel, FLAG, 4, true);
    run(p.behind, READS);
    expect(ORACLE_LOST_ORDER, 1); /* natively the free stands between them */
}

/* What the free natively waits for is before the end, also where it is behind a kernel
 * that ends only because the thread goes on. */
Test(oracle_edges, what_a_free_waits_for_is_before_the_end)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_allocation *t = give();
    struct oracle_op *kernel = put(x, NULL), *use = put(x, NULL);

    take_waiting(t, x);
    oracle_op_saw(kernel, FLAG, 4, true);
    run_in(use, WRITES, t, MEMORY, BYTES);
    expect_nothing();
}

Test(oracle_edges, what_it_does_not_wait_for_is_behind_the_end)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_allocation *t = give();
    struct oracle_op *kernel = put(x, NULL), *use = put(stream_new(), kernel);

    take_waiting(t, x);
    oracle_op_saw(kernel, FLAG, 4, true);
    run_in(use, WRITES, t, MEMORY, BYTES);
    expect(ORACLE_NO_ALLOCATION, 1);
}

/* Many more than are kept as edges: they are put into the clocks, and nothing is lost. */
Test(oracle_edges, does_not_forget_when_there_are_many)
{
    begin();
    enum { STREAMS = 200 };
    struct oracle_line *x = stream_new();
    struct oracle_op *a = put(x, NULL), *flag = put(x, NULL);
    struct oracle_op *waits[STREAMS], *reads[STREAMS], *outside = put(stream_new(), NULL);

    for (int i = 0; i < STREAMS; i++) {
        struct oracle_line *y = stream_new();
        waits[i] = put(y, NULL);
        reads[i] = put(y, NULL);
    }
    run(a, WRITES);
    write_flag(flag);
    for (int i = 0; i < STREAMS; i++)
        see_flag(waits[i]);
    for (int i = 0; i < STREAMS; i++)
        run(reads[i], READS);
    expect_nothing();
    run(outside, READS);
    expect(ORACLE_RACE, 1);
}

/* Each behind the one before, and more of them than are kept. */
Test(oracle_edges, goes_through_very_many_waits_in_a_row)
{
    begin();
    enum { STREAMS = 200 };
    struct oracle_line *x = stream_new();
    struct oracle_op *a = put(x, NULL), *waits[STREAMS], *flags[STREAMS + 1];
    struct oracle_op *b = NULL;

    flags[0] = put(x, NULL);
    for (int i = 0; i < STREAMS; i++) {
        struct oracle_line *y = stream_new();
        waits[i] = put(y, NULL);
        flags[i + 1] = put(y, NULL);
        b = put(y, NULL);
    }
    run(a, WRITES);
    for (int i = 0; i < STREAMS; i++) {
        run_at(flags[i], WRITES, FLAG + (uintptr_t)i * 4, 4);
        oracle_op_saw(waits[i], FLAG + (uintptr_t)i * 4, 4, false);
    }
    run(b, READS);
    expect_nothing();
}

/* Not even what a programmatic launch starts from may learn what it must not. */
Test(oracle_edges, does_not_invent_when_there_are_many)
{
    begin();
    enum { STREAMS = 200 };
    struct oracle_line *x = stream_new(), *streams[STREAMS];
    struct oracle_op *a = put(x, NULL), *flag = put(x, NULL);
    unsigned found = 0;

    run(a, WRITES);
    write_flag(flag);
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = stream_new();
        see_flag(put(streams[i], NULL));
    }
    for (int i = 0; i < STREAMS; i++) {
        run(put_as(streams[i], ORACLE_OVERLAPS), READS); /* beside the wait */
        expect(ORACLE_RACE, ++found);
    }
}
