/*
 * tracker_growth.c - proves that a place is said to be growing once it became more three
 * times without having become less, no longer than that holds, and no other place.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker/growth.h"
#include "tracker_helpers.h"

static struct gs_tracker *tracker;
static struct gs_growth *growth;
static uint64_t next_addr = 0x100000;

static void make(void)
{
    tracker = test_tracker(test_stacks());
    growth = gs_growth_create();
    cr_assert_not_null(growth);
}

static void end(void)
{
    gs_growth_destroy(growth);
    gs_tracker_destroy(tracker);
}

TestSuite(growth, .init = make, .fini = end);

/* A block of the place with this stack. Returns its id. */
static uint32_t take(uint32_t stack, uint64_t bytes)
{
    struct gs_allocation allocation = test_allocation(next_addr, bytes);

    next_addr += 1 << 20;
    allocation.stack = stack;
    return test_add(tracker, &allocation, true);
}

static bool is_growing(uint32_t stack)
{
    struct gs_allocation like = test_allocation(0, 0);
    const struct gs_group place = {
        .stack = stack, .device = like.device, .kind = like.kind, .api = like.api};

    return gs_growth_has(growth, &place);
}

static void look(void)
{
    gs_growth_take_snapshot(growth, tracker);
}

Test(growth, three_times_more)
{
    for (int i = 0; i < 4; i++) {
        cr_expect_not(is_growing(1), "after %d looks", i);
        take(1, 100);
        look();
    }
    cr_expect(is_growing(1));
    cr_expect_not(is_growing(2));
}

Test(growth, not_what_stays)
{
    take(1, 1000);
    for (int i = 0; i < 10; i++)
        look();
    cr_expect_not(is_growing(1));
}

Test(growth, not_what_comes_and_goes)
{
    uint32_t held[8] = {0};

    for (int i = 0; i < 40; i++) {
        if (held[i % 8])
            gs_tracker_remove(tracker, held[i % 8], NULL);
        held[i % 8] = take(1, 100 + (uint64_t)(i % 3));
        if (i % 8 == 7)
            look();
    }
    cr_expect_not(is_growing(1));
}

Test(growth, no_longer_once_it_shrinks)
{
    uint32_t last = 0;

    for (int i = 0; i < 5; i++) {
        last = take(1, 100);
        look();
    }
    cr_expect(is_growing(1));
    gs_tracker_remove(tracker, last, NULL);
    look();
    cr_expect_not(is_growing(1));
    for (int i = 0; i < 3; i++) {
        take(1, 100);
        look();
    }
    cr_expect(is_growing(1), "again");
}

/* A cache that has filled up is none. */
Test(growth, no_longer_once_it_rests)
{
    for (int i = 0; i < 5; i++) {
        take(1, 100);
        look();
    }
    look();
    look();
    cr_expect(is_growing(1));
    look();
    cr_expect_not(is_growing(1));
    take(1, 100);
    look();
    cr_expect(is_growing(1), "it goes on");
}

Test(growth, a_slow_leak_beside_a_large_one)
{
    for (int i = 0; i < 9; i++) {
        take(1, 1 << 20);
        if (i % 2 == 0)
            take(2, 1);
        look();
    }
    cr_expect(is_growing(1));
    cr_expect(is_growing(2));
}

/* A cache that has filled up had grown by far more. */
Test(growth, a_leak_comes_before_a_cache_that_is_full)
{
    for (int i = 0; i < 10; i++) {
        if (i < 8)
            take(1, 1 << 18);
        take(2, 1 << 10);
        look();
        struct gs_growth_snapshot last = gs_growth_last(growth, 5);
        cr_assert_eq(last.count, i < 3 ? 0 : 2, "%zu after %d looks", last.count, i);
        if (i == 7)
            cr_expect_eq(last.growing[0].group.stack, 1, "it grows faster");
        if (i == 9)
            cr_expect_eq(last.growing[0].group.stack, 2, "it alone still grows");
        free(last.growing);
    }
}

Test(growth, is_written)
{
    struct gs_report_config config = {.pid = 7};
    struct gs_growth_names names = {0};
    struct gs_text text = {0};

    look();
    gs_growth_write(growth, tracker, &config, 3, &names, &text);
    cr_assert_not_null(strstr(text.data, "==7== "));
    cr_expect_not_null(strstr(text.data, ": 0 B live in 0 allocations\n"), "%s",
                       text.data);
    gs_text_free(&text);
    for (int i = 0; i < 4; i++) {
        take(1, 1024);
        take(2, 4096);
        take(3, 10);
        take(4, 1);
        look();
    }
    gs_growth_write(growth, tracker, &config, 3, &names, &text);
    cr_expect_not_null(
        strstr(text.data, "20.0 KiB live in 16 allocations, +5.01 KiB in the last "),
        "%s", text.data);
    const char *first = strstr(text.data, "==7== GROWING 1: +12.0 KiB in the last ");
    const char *second = strstr(text.data, "==7== GROWING 2: +3.00 KiB in the last ");
    cr_assert(first && second && first < second, "%s", text.data);
    cr_expect_not_null(
        strstr(first, ", in 3 of 3 samples; now 16.0 KiB in 4 allocations\n"));
    cr_expect_not_null(strstr(text.data, "GROWING 3: "));
    cr_expect_null(strstr(text.data, "GROWING 4: "));
    gs_text_free(&text);
    look();
    gs_growth_write(growth, tracker, &config, 0, &names, &text);
    cr_expect_not_null(strstr(text.data, ", no change in the last "), "%s", text.data);
    cr_expect_null(strstr(text.data, "GROWING"));
    cr_expect_null(strstr(text.data, "full in"));
    gs_text_free(&text);
    config.full_in_ns = UINT64_C(7380000000000);
    gs_growth_write(growth, tracker, &config, 0, &names, &text);
    cr_expect_not_null(strstr(text.data, ", full in 2h03m at this rate\n"), "%s",
                       text.data);
    gs_text_free(&text);
    config.start_unix_ns = UINT64_C(1767277991000000000); /* 14:33:11 */
    gs_growth_write(growth, tracker, &config, 0, &names, &text);
    cr_expect_not_null(strstr(text.data, "==7== at 14:33:1"), "%s", text.data);
    cr_expect_not_null(strstr(text.data, " UTC ("), "%s", text.data);
    gs_text_free(&text);
    cr_expect_eq(names.count, 3, "each stack that was written is kept once");
    gs_growth_names_free(&names);
}

/* The report says so of a leak. */
Test(growth, is_in_the_report)
{
    struct gs_report_config config = test_report_config();
    struct gs_report_summary summary;
    struct gs_text text = {0};

    take(1, 1 << 20);
    for (int i = 0; i < 4; i++) {
        take(2, 100);
        look();
    }
    config.growth = growth;
    gs_report_write(tracker, &config, &text, &summary);
    cr_expect_not_null(
        strstr(text.data, "LEAK 1: 1.00 MiB in 1 allocation (99.9 % of leaked)\n"), "%s",
        text.data);
    cr_expect_not_null(
        strstr(text.data,
               "LEAK 2: 400 B in 4 allocations (0.0 % of leaked), still growing\n"),
        "%s", text.data);
    gs_text_free(&text);
}

/* Alone sees call sites of a first recording that count as growing in the second. */
Test(growth, is_forgotten)
{
    for (int i = 0; i < 4; i++) {
        take(1, 100);
        look();
    }
    cr_assert(is_growing(1));
    gs_growth_forget(growth, tracker);
    cr_expect_not(is_growing(1));
    struct gs_growth_snapshot last = gs_growth_last(growth, 3);
    cr_expect_eq(last.sums.snapshots + last.sums.bytes + last.count, 0);
    free(last.growing);
    take(1, 100);
    look();
    cr_expect_not(is_growing(1), "one snapshot is no trend");
}
