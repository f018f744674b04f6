/*
 * tracker_uses.c - proves that wrong uses of memory are kept with what the report needs,
 * once for each place, and what the report says of them; and that the history finds the
 * allocation that was gone last of those that held an address.
 */
#include <criterion/criterion.h>

#include "tracker_helpers.h"

#define BASE 0x7f0000000000

static const struct gs_free_site gone = {
    .time_ns = SECONDS(2), .thread = 200, .api = API_MEM_FREE};

static struct gs_bad_use use_of(enum gs_error_kind kind, uint64_t addr, uint64_t bytes)
{
    return (struct gs_bad_use){.kind = kind,
                               .addr = addr,
                               .bytes = bytes,
                               .call = "cuMemcpyHtoD",
                               .thread = 300,
                               .time_ns = SECONDS(3),
                               .stack = 8,
                               .writes = true,
                               .extent_addr = BASE,
                               .extent_bytes = 4096};
}

static size_t errors_of(struct gs_tracker *tracker, struct gs_error *out)
{
    return gs_errors_copy(tracker, out);
}

static void add_and_remove(struct gs_tracker *tracker, uint64_t addr, uint64_t bytes,
                           uint64_t freed_s)
{
    struct gs_allocation allocation = test_allocation(addr, bytes);
    struct gs_free_site site = gone;

    site.time_ns = SECONDS(freed_s);
    gs_tracker_remove(tracker, test_add(tracker, &allocation, true), &site);
}

/* ---- the history --------------------------------------------------------------------
 */

Test(uses, the_history_finds_what_an_address_lay_in)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_former former;

    cr_expect_eq(gs_tracker_former(tracker, BASE, &former), GS_ERR_NOT_FOUND);
    add_and_remove(tracker, BASE, 4096, 2);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(gs_tracker_former(tracker, BASE + 4095 * i, &former), GS_OK);
        cr_expect_eq(former.allocation.addr, BASE);
        cr_expect_eq(former.allocation.bytes, 4096);
        cr_expect_eq(former.site.thread, 200);
        cr_expect_eq(former.site.api, API_MEM_FREE);
        cr_expect_not(former.lost);
    }
    cr_expect_eq(gs_tracker_former(tracker, BASE + 4096, &former), GS_ERR_NOT_FOUND);
    cr_expect_eq(gs_tracker_former(tracker, BASE - 1, &former), GS_ERR_NOT_FOUND);
    cr_expect_eq(gs_tracker_former(NULL, BASE, &former), GS_ERR_NOT_FOUND);
}

Test(uses, the_last_that_was_gone_is_meant)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_former former;

    add_and_remove(tracker, BASE, 65536, 5);
    add_and_remove(tracker, BASE + 1024, 1024, 4);
    cr_assert_eq(gs_tracker_former(tracker, BASE + 1024, &former), GS_OK);
    cr_expect_eq(former.allocation.bytes, 65536);
    add_and_remove(tracker, BASE + 512, 2048, 6);
    cr_assert_eq(gs_tracker_former(tracker, BASE + 1024, &former), GS_OK);
    cr_expect_eq(former.allocation.bytes, 2048);
    add_and_remove(tracker, BASE + 1024, 512, 6);
    cr_assert_eq(gs_tracker_former(tracker, BASE + 1100, &former), GS_OK);
    cr_expect_eq(former.allocation.bytes, 512, "of one time, the nearer");
}

Test(uses, a_new_allocation_ends_what_was_there)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(BASE, 512);
    struct gs_former former;

    add_and_remove(tracker, BASE, 4096, 2);
    test_add(tracker, &allocation, true);
    cr_expect_eq(gs_tracker_former(tracker, BASE, &former), GS_ERR_NOT_FOUND);
    cr_expect(gs_tracker_holds(tracker, BASE));
    cr_expect(gs_tracker_holds(tracker, BASE + 511));
    cr_expect_not(gs_tracker_holds(tracker, BASE + 512));
}

/* ---- errors -------------------------------------------------------------------------
 */

Test(uses, of_one_place_are_one_error)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_bad_use use = use_of(GS_ERROR_OVERRUN, BASE, 5000);
    struct gs_error errors[GS_ERRORS_KEPT];

    for (int i = 0; i < 100; i++) {
        use.addr++;
        gs_tracker_error_use(tracker, &use);
    }
    cr_assert_eq(gs_tracker_error_count(tracker), 1);
    use.stack = 9;
    gs_tracker_error_use(tracker, &use);
    use.call = "cuMemsetD8";
    gs_tracker_error_use(tracker, &use);
    use.writes = false;
    gs_tracker_error_use(tracker, &use);
    use.kind = GS_ERROR_UNDERRUN;
    gs_tracker_error_use(tracker, &use);
    cr_assert_eq(gs_tracker_error_count(tracker), 5);
    cr_assert_eq(errors_of(tracker, errors), 5);
    cr_expect_eq(errors[0].repeats, 99);
    cr_expect_eq(errors[0].addr, BASE + 1, "the first is kept");
    for (int i = 1; i < 5; i++)
        cr_expect_eq(errors[i].repeats, 0);
}

Test(uses, without_stacks_an_address_is_a_place)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_bad_use use = use_of(GS_ERROR_OVERRUN, BASE, 5000);

    use.stack = 0;
    for (int i = 0; i < 3; i++) {
        gs_tracker_error_use(tracker, &use);
        gs_tracker_error_use(tracker, &use);
        use.addr += 512;
    }
    cr_expect_eq(gs_tracker_error_count(tracker), 3);
}

Test(uses, behind_the_first_32_are_counted)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_bad_use use = use_of(GS_ERROR_STRAY_USE, BASE, 16);
    struct gs_error errors[GS_ERRORS_KEPT];

    for (use.stack = 1; use.stack <= 40; use.stack++)
        gs_tracker_error_use(tracker, &use);
    cr_expect_eq(gs_tracker_error_count(tracker), 40);
    cr_expect_eq(errors_of(tracker, errors), GS_ERRORS_KEPT);
    use.stack = 32;
    gs_tracker_error_use(tracker, &use);
    cr_expect_eq(gs_tracker_error_count(tracker), 40, "its place is kept");
}

Test(uses, a_long_name_is_cut)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_bad_use use = use_of(GS_ERROR_STRAY_USE, BASE, 16);
    struct gs_error errors[GS_ERRORS_KEPT];

    use.call = "a_name_of_more_than_forty_bytes_that_no_call_of_the_driver_has";
    gs_tracker_error_use(tracker, &use);
    gs_tracker_error_use(NULL, &use);
    cr_assert_eq(errors_of(tracker, errors), 1);
    cr_expect_eq(strlen(errors[0].call), GS_CALL_NAME_MAX - 1);
}

/* ---- the report ---------------------------------------------------------------------
 */

/* The report's errors with these uses, without the prefix. */
static void expect_errors(struct gs_tracker *tracker, const char *expected)
{
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    struct gs_report_summary summary;
    struct gs_text text = {0};

    config.show_leaks = false;
    gs_report_write_from(tracker, &config, &source, &text, &summary);
    cr_assert_not_null(text.data);
    test_take_prefix_off(text.data);
    char *begin = strstr(text.data, "ERROR 1"), *end = strstr(text.data, "SUMMARY");
    cr_assert(begin && end);
    *end = '\0';
    cr_expect_str_eq(begin, expected);
    struct gs_error errors[GS_ERRORS_KEPT];
    uint64_t uses = 0; /* the summary counts each, a listed error those of its site */
    for (size_t i = gs_errors_copy(tracker, errors); i-- > 0;)
        uses += 1 + errors[i].repeats;
    cr_expect_eq(summary.errors, uses);
    gs_text_free(&text);
    gs_tracker_destroy(tracker);
}

Test(uses, after_a_free_say_who_freed_and_who_made_it)
{
    OWNED_STACKS stacks = test_stacks();
    struct gs_tracker *tracker = test_tracker(stacks);
    struct gs_bad_use use = use_of(GS_ERROR_USE_AFTER_FREE, BASE + 1024, 512);
    struct gs_allocation allocation = test_allocation(BASE, 4096);

    use.stack = TEST_STACK(stacks, AT_RUN, AT_MAIN);
    allocation.stack = TEST_STACK(stacks, AT_STATIC_CUDA, AT_LOAD, AT_MAIN);
    gs_tracker_remove(tracker, test_add(tracker, &allocation, true), &gone);
    cr_assert_eq(gs_tracker_former(tracker, use.addr, &use.former), GS_OK);
    gs_tracker_error_use(tracker, &use);
    use.writes = false;
    use.addr = BASE;
    use.former.lost = true;
    gs_tracker_error_use(tracker, &use);
    gs_tracker_error_use(tracker, &use);
    expect_errors(tracker, "ERROR 1: use after free of 0x7f0000000400 (4.00 KiB, GPU 0, "
                           "cuMemcpyHtoD)\n"
                           "  1,024 bytes into what was 4.00 KiB at 0x7f0000000000\n"
                           "  to be written at 3.00 s by thread 300\n"
                           "    #0 run                           app+0x210\n"
                           "    #1 main                          app.c:12\n"
                           "  freed at 2.00 s by thread 200 (no call stack recorded: "
                           "GPUSHIM_STACK=free)\n"
                           "  allocated at 1.00 s by thread 100 with cudaMalloc\n"
                           "    #0 load_batch                    loader.c:88\n"
                           "    #1 main                          app.c:12\n"
                           "\n"
                           "ERROR 2: use after free of 0x7f0000000000 (4.00 KiB, GPU 0, "
                           "cuMemcpyHtoD)\n"
                           "  to be read at 3.00 s by thread 300\n"
                           "    #0 run                           app+0x210\n"
                           "    #1 main                          app.c:12\n"
                           "  and 1 more time from there\n"
                           "  its context was destroyed or reset at 2.00 s\n"
                           "  allocated at 1.00 s by thread 100 with cudaMalloc\n"
                           "    #0 load_batch                    loader.c:88\n"
                           "    #1 main                          app.c:12\n"
                           "\n");
}

Test(uses, out_of_bounds_say_by_how_much)
{
    OWNED_STACKS stacks = test_stacks();
    struct gs_tracker *tracker = test_tracker(stacks);
    struct gs_allocation allocation = test_allocation(BASE, 4096);
    struct gs_bad_use use = use_of(GS_ERROR_OVERRUN, BASE + 3072, 2048);

    use.stack = 0;
    test_add(tracker, &allocation, true);
    gs_tracker_error_use(tracker, &use);
    use.kind = GS_ERROR_UNDERRUN;
    use.addr = BASE - 64;
    gs_tracker_error_use(tracker, &use);
    use.kind = GS_ERROR_OVERRUN;
    use.extent_addr = use.addr = BASE + GS_MIB; /* whose record is gone meanwhile */
    use.bytes = 4097;
    gs_tracker_error_use(tracker, &use);
    use.kind = GS_ERROR_STRAY_USE;
    gs_tracker_error_use(tracker, &use);
    expect_errors(
        tracker, "ERROR 1: overrun of 0x7f0000000000 by 1.00 KiB (cuMemcpyHtoD of 2.00 "
                 "KiB at offset 3,072 of a live allocation of 4.00 KiB, GPU 0)\n"
                 "  to be written at 3.00 s by thread 300 (no call stack recorded)\n"
                 "  allocated at 1.00 s by thread 100 with cuMemAlloc\n"
                 "    no call stack was recorded\n"
                 "\n"
                 "ERROR 2: underrun of 0x7f0000000000 by 64 B (cuMemcpyHtoD of 2.00 KiB "
                 "that begins before a live allocation of 4.00 KiB, GPU 0)\n"
                 "  to be written at 3.00 s by thread 300 (no call stack recorded)\n"
                 "  allocated at 1.00 s by thread 100 with cuMemAlloc\n"
                 "    no call stack was recorded\n"
                 "\n"
                 "ERROR 3: overrun of 0x7f0000100000 by 1 B (cuMemcpyHtoD of 4.00 KiB at "
                 "offset 0 of a live allocation of 4.00 KiB, GPU 0)\n"
                 "  to be written at 3.00 s by thread 300 (no call stack recorded)\n"
                 "\n"
                 "ERROR 4: use of memory that is nobody's at 0x7f0000100000 (GPU 0, "
                 "cuMemcpyHtoD of 4.00 KiB)\n"
                 "  the pool holds this memory: it was never allocated, or freed too "
                 "long ago to be remembered\n"
                 "  to be written at 3.00 s by thread 300 (no call stack recorded)\n"
                 "\n");
}
