/*
 * oracle_words.c - proves the manners in which a word is touched: a wait for its value
 * and a write of it at once are no race, and nothing else is excused by that; and that
 * who waited was told by the host what the host knew then, not later.
 */
#include "oracle_helpers.h"
#include "oracle_state.h"

#define FLAG (MEMORY + 16 * BYTES)

static const struct oracle_access manners[ORACLE_MANNERS] = {
    [ORACLE_READ] = {.writes = false},
    [ORACLE_ATOMIC_READ] = {.atomic = true},
    [ORACLE_AWAITING_READ] = {.atomic = true, .awaits = true},
    [ORACLE_WRITE] = {.writes = true},
    [ORACLE_SINGLE_WRITE] = {.writes = true, .single = true},
    [ORACLE_ATOMIC_WRITE] = {.writes = true, .atomic = true},
};

static void touch(struct oracle_op *op, enum oracle_manner manner, size_t bytes)
{
    struct oracle_access access = manners[manner];

    access.range = (struct oracle_range){FLAG, bytes};
    oracle_op_runs(op, &access, 1);
    oracle_op_done(op);
}

static void see_flag(struct oracle_op *op, bool host_may)
{
    oracle_op_saw(op, FLAG, 4, host_may);
}

/* ---- manners ---------------------------------------------------------------------- */

Test(oracle_words, a_wait_and_a_write_at_once_are_no_race)
{
    begin();
    touch(put(stream_new(), NULL), ORACLE_SINGLE_WRITE, 4);
    touch(put(stream_new(), NULL), ORACLE_AWAITING_READ, 4);
    touch(put(stream_new(), NULL), ORACLE_AWAITING_READ, 4);
    expect_nothing();
}

Test(oracle_words, nor_the_other_way_round)
{
    begin();
    touch(put(stream_new(), NULL), ORACLE_AWAITING_READ, 4);
    touch(put(stream_new(), NULL), ORACLE_SINGLE_WRITE, 4);
    expect_nothing();
}

Test(oracle_words, a_wide_write_races_with_a_wait)
{
    begin();
    touch(put(stream_new(), NULL), ORACLE_AWAITING_READ, 4);
    touch(put(stream_new(), NULL), ORACLE_WRITE, 64);
    expect(ORACLE_RACE, 1);
}

Test(oracle_words, two_writes_at_once_race)
{
    begin();
    touch(put(stream_new(), NULL), ORACLE_SINGLE_WRITE, 4);
    touch(put(stream_new(), NULL), ORACLE_SINGLE_WRITE, 4);
    expect(ORACLE_RACE, 1);
}

Test(oracle_words, another_read_races_with_a_write_at_once)
{
    begin();
    touch(put(stream_new(), NULL), ORACLE_SINGLE_WRITE, 4);
    touch(put(stream_new(), NULL), ORACLE_ATOMIC_READ, 4);
    expect(ORACLE_RACE, 1);
}

/* A mark gives way to one that conflicts with as much, in each pair of manners. */
Test(oracle_words, nothing_is_hidden_behind_a_later_access)
{
    begin();
    unsigned found = 0;

    for (unsigned third = 0; third < ORACLE_MANNERS; third++) {
        for (unsigned first = 0; first < ORACLE_MANNERS; first++) {
            for (unsigned second = 0; second < ORACLE_MANNERS; second++) {
                const struct oracle_range flag = {FLAG, 4};
                struct oracle_line *x = stream_new();
                unsigned before = oracle_findings();
                touch(put(x, NULL), (enum oracle_manner)first, 4);
                touch(put(x, NULL), (enum oracle_manner)second, 4);
                cr_assert_eq(oracle_findings(), before);
                touch(put(stream_new(), NULL), (enum oracle_manner)third, 4);
                bool wrong =
                    (oracle_conflicts[first] | oracle_conflicts[second]) >> third & 1;
                cr_assert_eq(oracle_findings() > before, wrong, "%u, %u, then %u", first,
                             second, third);
                found += wrong;
                oracle_forget(&flag);
            }
        }
    }
    cr_assert_gt(found, 100);
}

Test(oracle_words, conflicts_are_mutual)
{
    for (unsigned a = 0; a < ORACLE_MANNERS; a++) {
        for (unsigned b = 0; b < ORACLE_MANNERS; b++)
            cr_assert_eq(oracle_conflicts[a] >> b & 1, oracle_conflicts[b] >> a & 1,
                         "%u and %u", a, b);
    }
}

/* ---- what a wait was told --------------------------------------------------------- */

Test(oracle_words, who_waits_was_told_what_the_host_knew_then)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL), *wait = put(y, NULL), *b = put(y, NULL);

    run(a, WRITES);
    saw(a);
    oracle_op_was_told(wait);
    see_flag(wait, true);
    run(b, READS);
    expect_nothing();
}

Test(oracle_words, who_waits_was_not_told_what_the_host_learned_later)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL), *wait = put(y, NULL), *b = put(y, NULL);

    run(a, WRITES);
    oracle_op_was_told(wait);
    saw(a);
    oracle_op_was_told(wait); /* the first counts */
    see_flag(wait, true);
    run(b, READS);
    expect(ORACLE_RACE, 1);
}

Test(oracle_words, who_was_told_is_behind_who_wrote_whenever_that_is_known)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL), *flag = put(x, NULL);
    struct oracle_op *wait = put(y, NULL), *b = put(y, NULL);

    run(a, WRITES);
    oracle_op_was_told(wait);
    touch(flag, ORACLE_SINGLE_WRITE, 4);
    see_flag(wait, true);
    run(b, READS);
    expect_nothing();
}

/* What it was told is behind a wait that ends later, when there are very many. */
Test(oracle_words, what_was_told_grows_with_the_waits_it_is_behind)
{
    begin();
    enum { STREAMS = 100 };
    struct oracle_line *x = stream_new(), *y = stream_new(), *z = stream_new();
    struct oracle_op *a = put(x, NULL), *flag = put(x, NULL), *first = put(y, NULL);
    struct oracle_op *wait = put(z, NULL), *b = put(z, NULL);

    saw(first); /* the host knows of the wait that has not ended */
    oracle_op_was_told(wait);
    run(a, WRITES);
    touch(flag, ORACLE_SINGLE_WRITE, 4);
    see_flag(first, false);
    for (int i = 0; i < STREAMS; i++)
        see_flag(put(stream_new(), NULL), false);
    oracle_op_saw(wait, FLAG + 64, 4, true);
    run(b, READS);
    expect_nothing();
}
