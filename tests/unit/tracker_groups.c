/*
 * tracker_groups.c - proves that groups are kept apart by every part of their key, over
 * growth, and that sums are right.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tracker/groups.h"

static struct gs_group part(uint32_t stack, uint64_t bytes)
{
    return (struct gs_group){
        .stack = stack, .bytes = bytes, .count = 1, .oldest_ns = 10, .newest_ns = 10};
}

Test(groups, each_part_of_the_key_counts)
{
    struct gs_groups groups = {0};
    struct gs_group parts[6];

    for (unsigned i = 0; i < 6; i++)
        parts[i] = part(1, 1u << i);
    parts[1].stack = 2;
    parts[2].api = 1;
    parts[3].device = -1;
    parts[4].kind = 1;
    parts[5].lost = 1;
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 6; i++)
            cr_assert_eq(gs_groups_add(&groups, &parts[i]), GS_OK);
    }
    cr_assert_eq(groups.count, 6);
    for (unsigned i = 0; i < 6; i++) {
        cr_assert_eq(groups.items[i].bytes, 2u << i);
        cr_assert_eq(groups.items[i].count, 2);
    }
    gs_groups_free(&groups);
}

Test(groups, keep_the_oldest_and_the_newest)
{
    struct gs_groups groups = {0};
    static const uint64_t times[] = {50, 20, 90, 40};

    for (unsigned i = 0; i < 4; i++) {
        struct gs_group one = part(1, 1);
        one.oldest_ns = one.newest_ns = times[i];
        cr_assert_eq(gs_groups_add(&groups, &one), GS_OK);
    }
    cr_assert_eq(groups.items[0].oldest_ns, 20);
    cr_assert_eq(groups.items[0].newest_ns, 90);
    gs_groups_free(&groups);
}

Test(groups, a_hundred_thousand_keep_apart)
{
    enum { COUNT = 100000 };
    struct gs_groups groups = {0};

    for (unsigned round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            struct gs_group one = part(i, i);
            cr_assert_eq(gs_groups_add(&groups, &one), GS_OK);
        }
    }
    cr_assert_eq(groups.count, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        cr_assert_eq(groups.items[i].stack, i);
        cr_assert_eq(groups.items[i].bytes, (uint64_t)i * 3);
        cr_assert_eq(groups.items[i].count, 3);
    }
    gs_groups_free(&groups);
    cr_assert_eq(groups.count, 0);
    cr_assert_null(groups.items);
}
