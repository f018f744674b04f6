/*
 * oracle_crowd.c - proves that readers of the same bytes without an order between them
 * are remembered, however many there are; that those all are behind are dropped; and that
 * what is forgotten beyond the limit is counted and said.
 */
#include <string.h>

#include "oracle_helpers.h"
#include "oracle_state.h"

/* So many streams read the bytes, none behind another. */
static struct oracle_op *read_by(unsigned streams)
{
    struct oracle_op *first = NULL;

    for (unsigned i = 0; i < streams; i++) {
        struct oracle_op *op = put(stream_new(), NULL);
        first = first ? first : op;
        run(op, READS);
    }
    return first;
}

Test(oracle_crowd, every_reader_of_very_many_is_remembered)
{
    begin_with((struct oracle_options){.seed = 7});
    enum { READERS = 3000 };

    read_by(READERS);
    cr_assert_eq(oracle_shadow_marks(), READERS);
    run(put(stream_new(), NULL), WRITES);
    expect(ORACLE_RACE, READERS);
    cr_assert_eq(oracle_forgotten, 0);
}

Test(oracle_crowd, readers_of_one_stream_are_one_there)
{
    begin();
    struct oracle_line *x = stream_new();

    read_by(400);
    for (unsigned i = 0; i < 400; i++)
        run(put(x, NULL), READS);
    cr_assert_eq(oracle_shadow_marks(), 401);
}

Test(oracle_crowd, readers_behind_each_other_are_one_there)
{
    begin();
    struct oracle_op *last = read_by(400);

    for (unsigned i = 0; i < 100; i++)
        run(last = put(stream_new(), last), READS);
    cr_assert_eq(oracle_shadow_marks(), 401);
}

Test(oracle_crowd, what_all_are_behind_is_dropped_before_it_grows)
{
    begin();
    struct oracle_op *collected = oracle_op_new();

    for (unsigned i = 0; i < 1500; i++) {
        struct oracle_op *op = put(stream_new(), NULL);
        run(op, READS);
        oracle_op_after(collected, op);
        if (i % 100 == 99)
            saw(collected);
    }
    cr_assert_leq(oracle_shadow_marks(), 1000);
    run(put(stream_new(), NULL), WRITES);
    expect_nothing();
}

Test(oracle_crowd, beyond_the_limit_the_oldest_reader_is_forgotten_and_counted)
{
    begin();
    oracle_most_marks = 8;
    struct oracle_op *first = put(stream_new(), NULL);
    const struct oracle_access access = {
        .range = {MEMORY, BYTES}, .writes = true, .atomic = true};

    oracle_op_runs(first, &access, 1); /* it is none */
    for (unsigned i = 0; i < 10; i++) {
        struct oracle_op *op = put(stream_new(), NULL);
        run(op, ATOMIC_READS);
    }
    cr_assert_eq(oracle_shadow_marks(), 8);
    cr_assert_eq(oracle_forgotten, 3);
    int capture = stderr_capture();
    run(put(stream_new(), NULL), WRITES);
    oracle_summary(false);
    const char *said = stderr_text(capture);
    cr_assert_not_null(strstr(said, "cudasim: oracle: 4 readers forgotten\n"), "%s",
                       said);
    expect(ORACLE_RACE, 8);
}

Test(oracle_crowd, nothing_is_said_when_nothing_is_forgotten)
{
    begin();
    int capture = stderr_capture();

    oracle_summary(true);
    cr_assert_null(strstr(stderr_text(capture), "forgotten"));
}
