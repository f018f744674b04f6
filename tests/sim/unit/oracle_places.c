/*
 * oracle_places.c - proves that memory with several addresses is judged by its bytes: an
 * access by one address conflicts with one by the other, lives at two addresses share the
 * bytes while both last, and hand them on when they do not.
 */
#include <stdio.h>
#include <string.h>

#include "oracle_helpers.h"

#define LEFT  MEMORY
#define RIGHT (MEMORY + 64 * BYTES)
#define PLACE ((uintptr_t)1 << 63)

static struct oracle_allocation *map_at(uintptr_t address, uintptr_t place)
{
    const struct oracle_range range = {address, BYTES};

    oracle_place(&range, place);
    return oracle_allocation_begin(&range, "cuMemMap", host(), NULL, false);
}

static void unmap(struct oracle_allocation *allocation, uintptr_t address)
{
    const struct oracle_range range = {address, BYTES};

    oracle_allocation_end(allocation, "cuMemUnmap", host(), NULL, NULL, 0);
    oracle_place(&range, 0);
}

Test(oracle_places, two_addresses_of_the_same_bytes_conflict)
{
    begin();
    map_at(LEFT, PLACE);
    map_at(RIGHT, PLACE);
    run_at(put(stream_new(), NULL), WRITES, LEFT + 100, 4);
    run_at(put(stream_new(), NULL), READS, RIGHT + 100, 4);
    expect(ORACLE_RACE, 1);
}

Test(oracle_places, other_bytes_do_not)
{
    begin();
    map_at(LEFT, PLACE);
    map_at(RIGHT, PLACE);
    run_at(put(stream_new(), NULL), WRITES, LEFT + 100, 4);
    run_at(put(stream_new(), NULL), READS, RIGHT + 104, 4);
    expect_nothing();
}

Test(oracle_places, what_is_in_order_is_so_at_both)
{
    begin();
    struct oracle_op *a = put(stream_new(), NULL);

    map_at(LEFT, PLACE);
    map_at(RIGHT, PLACE);
    run_at(a, WRITES, LEFT, BYTES);
    run_at(put(stream_new(), a), WRITES, RIGHT, BYTES);
    expect_nothing();
}

Test(oracle_places, a_finding_names_the_address_that_was_used)
{
    begin();
    char text[64];
    int capture = stderr_capture();

    map_at(LEFT, PLACE);
    map_at(RIGHT, PLACE);
    run_at(put(stream_new(), NULL), WRITES, LEFT + 100, 4);
    run_at(put(stream_new(), NULL), READS, RIGHT + 100, 4);
    snprintf(text, sizeof(text), "address=0x%jx bytes=4", (uintmax_t)RIGHT + 100);
    const char *said = stderr_text(capture);
    cr_assert_not_null(strstr(said, text), "%s", said);
}

Test(oracle_places, an_access_may_reach_over_several)
{
    begin();
    const struct oracle_range second = {LEFT + BYTES, BYTES};
    struct oracle_op *wide = put(stream_new(), NULL);

    map_at(LEFT, PLACE);
    oracle_place(&second, PLACE + 16 * BYTES);
    map_at(RIGHT, PLACE + 16 * BYTES);
    run_in(wide, WRITES, NULL, LEFT, 3 * BYTES); /* the third is its own place */
    run_at(put(stream_new(), NULL), READS, RIGHT, 4);
    expect(ORACLE_RACE, 1);
    run_at(put(stream_new(), NULL), READS, LEFT + 2 * BYTES, 4);
    expect(ORACLE_RACE, 2);
}

Test(oracle_places, an_access_may_name_its_place)
{
    begin();
    const struct oracle_access spread = {
        .range = {LEFT, 4}, .writes = true, .place = PLACE + 100};

    map_at(RIGHT, PLACE);
    oracle_op_runs(put(stream_new(), NULL), &spread, 1);
    run_at(put(stream_new(), NULL), READS, RIGHT + 100, 4);
    expect(ORACLE_RACE, 1);
}

/* The one that ends is behind a wait, the other one's access is not. */
Test(oracle_places, the_end_of_one_hands_nothing_to_the_other)
{
    begin();
    struct oracle_op *a = put(stream_new(), NULL), *b = put(stream_new(), NULL);
    struct oracle_allocation *left = map_at(LEFT, PLACE), *right = map_at(RIGHT, PLACE);

    run_at(a, WRITES, LEFT, 4);
    saw(a);
    unmap(left, LEFT);
    run_in(b, WRITES, right, RIGHT, 4);
    expect(ORACLE_RACE, 1);
}

Test(oracle_places, an_end_is_judged_behind_an_access_by_the_other_address)
{
    begin();
    struct oracle_op *a = put(stream_new(), NULL);
    struct oracle_allocation *left = map_at(LEFT, PLACE);

    map_at(RIGHT, PLACE);
    run_at(a, WRITES, LEFT, 4);
    run_at(put(stream_new(), a), WRITES, RIGHT, 4);
    unmap(left, LEFT); /* and nobody has waited */
    expect(ORACLE_RACE, 1);
}

Test(oracle_places, one_after_the_other_hands_them_on)
{
    begin();
    struct oracle_op *a = put(stream_new(), NULL);
    struct oracle_allocation *left = map_at(LEFT, PLACE);

    run_at(a, WRITES, LEFT, 4);
    saw(a);
    unmap(left, LEFT);
    map_at(RIGHT, PLACE);
    run_at(put(stream_new(), NULL), WRITES, RIGHT, 4);
    expect_nothing();
}

/* A layer that moves memory to another address: by proof, or without. */
static void move(bool proves)
{
    struct oracle_line *x = stream_new();
    struct oracle_allocation *left = map_at(LEFT, PLACE);
    struct oracle_op *a = put(x, NULL);

    run_at(a, WRITES, LEFT, 4);
    take_waiting(left, x);
    if (proves)
        oracle_allocation_retire(left, host(), a);
    unmap(left, LEFT);
    map_at(RIGHT, PLACE);
    run_at(put(stream_new(), NULL), WRITES, RIGHT, 4);
}

Test(oracle_places, what_was_retired_is_over_at_another_address)
{
    begin();
    move(true);
    expect_nothing();
}

Test(oracle_places, what_was_not_is_lost_order_there)
{
    begin();
    move(false);
    expect(ORACLE_LOST_ORDER, 1);
}

Test(oracle_places, addresses_that_are_given_back_are_their_own)
{
    begin();
    const struct oracle_range middle = {LEFT + 1024, 1024};

    map_at(LEFT, PLACE);
    map_at(RIGHT, PLACE);
    oracle_place(&middle, 0);
    run_at(put(stream_new(), NULL), WRITES, LEFT, BYTES);
    run_at(put(stream_new(), NULL), READS, RIGHT + 1024, 1024);
    expect_nothing();
    run_at(put(stream_new(), NULL), READS, RIGHT + 2047, 2);
    expect(ORACLE_RACE, 1);
}

Test(oracle_places, a_wait_sees_who_wrote_by_the_other_address)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    struct oracle_op *a = put(x, NULL), *flag = put(x, NULL), *wait = put(y, NULL);

    map_at(LEFT, PLACE);
    map_at(RIGHT, PLACE);
    run_at(a, WRITES, LEFT, 4);
    run_at(flag, WRITES, LEFT + 64, 4);
    oracle_op_saw(wait, RIGHT + 64, 4, false);
    run_at(put(y, NULL), READS, RIGHT, 4);
    expect_nothing();
}
