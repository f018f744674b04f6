/*
 * tracker_transfers.c - proves what is summed of copies by call site, from where on they
 * are called slow, and what the report and JSON have of them. Faults that it alone would
 * see: a limit that is off by one, a call site that is taken for another, a table that
 * overflows.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_export_helpers.h"

#define LARGE (2 * GS_TRANSFER_SMALL_BYTES)

static struct gs_transfers *transfers;

static void set_up(void)
{
    transfers = gs_transfers_create();
    cr_assert_not_null(transfers);
}

static void take_down(void)
{
    free(transfers);
}

TestSuite(transfers, .init = set_up, .fini = take_down);

static const struct gs_transfer large = {
    .call = "cuMemcpyHtoD", .stack = 7, .bytes = LARGE};
static const struct gs_transfer small = {
    .call = "cuMemcpyHtoD", .stack = 7, .bytes = 100, .in_a_row = true};

static void add(struct gs_transfer copy, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        cr_assert_neq(gs_transfers_add(transfers, &copy), 0);
}

/* The hints of the only call site; 0: it is not listed. */
static unsigned hints(void)
{
    struct gs_transfer_list list = gs_transfers_slow(transfers);
    unsigned found = list.count ? gs_transfer_hints(&list.sites[0]) : 0;

    cr_assert_leq(list.count, 1);
    free(list.sites);
    return found;
}

/* Ten of the copies, beside a hundred others, have the hint; nine do not. */
static void expect_from_ten_on(struct gs_transfer copy, unsigned hint)
{
    add(large, 100);
    add(copy, 9);
    cr_expect_eq(hints(), 0);
    add(copy, 1);
    cr_expect_eq(hints(), hint);
}

Test(transfers, pageable_memory_counts_from_ten_copies_on)
{
    struct gs_transfer copy = large;

    copy.pageable = true;
    expect_from_ten_on(copy, GS_TRANSFER_PAGEABLE);
}

Test(transfers, small_copies_count_from_a_hundred_on)
{
    add(small, 99);
    cr_expect_eq(hints(), 0);
    add(small, 1);
    cr_expect_eq(hints(), GS_TRANSFER_SMALL);
}

Test(transfers, small_copies_count_if_half_of_them_are_in_a_row)
{
    struct gs_transfer alone = small;

    alone.in_a_row = false;
    add(alone, 100);
    cr_expect_eq(hints(), 0);
    add(small, 99);
    cr_expect_eq(hints(), GS_TRANSFER_SMALL);
    add(alone, 1);
    cr_expect_eq(hints(), 0);
}

Test(transfers, the_limit_of_small_is_small)
{
    struct gs_transfer copy = small;

    copy.bytes = GS_TRANSFER_SMALL_BYTES;
    add(copy, 100);
    cr_expect_eq(hints(), GS_TRANSFER_SMALL);
    copy.stack = 8;
    copy.bytes++;
    add(copy, 100);
    cr_expect_eq(hints(), GS_TRANSFER_SMALL, "still one call site");
}

Test(transfers, waits_count_if_nine_in_ten_copies_have_one)
{
    add(large, 110);
    for (int i = 0; i < 98; i++)
        gs_transfers_add_wait(transfers, 1);
    cr_expect_eq(hints(), 0);
    gs_transfers_add_wait(transfers, 1);
    cr_expect_eq(hints(), 0, "99 of 110");
    gs_transfers_add_wait(transfers, 1);
    cr_expect_eq(hints(), GS_TRANSFER_WAITED, "100 of 110");
    add(large, 2);
    cr_expect_eq(hints(), 0, "100 of 112");
}

Test(transfers, a_rate_counts_if_the_fastest_of_three_is_slow)
{
    struct gs_transfer copy = large;

    copy.bytes = 20000000;
    copy.took_ns = 10000001; /* less than 2 GB/s */
    add(copy, 2);
    cr_expect_eq(hints(), 0);
    add(copy, 1);
    cr_expect_eq(hints(), GS_TRANSFER_SLOW);
    copy.took_ns = 0; /* not measured */
    add(copy, 1);
    cr_expect_eq(hints(), GS_TRANSFER_SLOW);
    copy.took_ns = 10000000;
    add(copy, 1);
    cr_expect_eq(hints(), 0);
}

Test(transfers, bytes_that_return_count_from_ten_copies_on)
{
    struct gs_transfer copy = large;

    copy.returns = true;
    expect_from_ten_on(copy, GS_TRANSFER_RETURNED);
}

Test(transfers, a_call_site_is_a_stack_a_call_and_a_direction)
{
    struct gs_transfer copies[] = {small, small, small, small};
    char other[] = "cuMemcpyHtoD"; /* the same name elsewhere */

    copies[1].stack = 0;
    copies[2].call = "cuMemcpy";
    copies[3].to_host = true;
    for (uint32_t i = 0; i < GS_ARRAY_LEN(copies); i++)
        cr_expect_eq(gs_transfers_add(transfers, &copies[i]), i + 1);
    copies[0].call = other;
    cr_expect_eq(gs_transfers_add(transfers, &copies[0]), 1);
}

Test(transfers, sums_and_order)
{
    struct gs_transfer copy = large;

    copy.pageable = true;
    add(copy, 10);
    copy.bytes = LARGE + 1;
    add(copy, 1);
    copy = small; /* 101 of them cost more than those, though they have fewer bytes */
    copy.stack = 8;
    add(copy, 101);
    struct gs_transfer_list list = gs_transfers_slow(transfers);
    cr_assert_eq(list.count, 2);
    cr_expect_eq(list.sites[0].stack, 8);
    cr_expect_eq(list.sites[0].bytes, 10100);
    cr_expect_eq(list.sites[0].small_count, 101);
    cr_expect_eq(list.sites[1].count, 11);
    cr_expect_eq(list.sites[1].bytes, 11 * LARGE + 1);
    cr_expect_eq(list.sites[1].pageable_bytes, 11 * LARGE + 1);
    cr_expect_eq(list.sites[1].least_bytes, LARGE);
    cr_expect_eq(list.sites[1].most_bytes, LARGE + 1);
    free(list.sites);
}

Test(transfers, beyond_the_table_copies_are_counted)
{
    struct gs_transfer copy = small;

    for (copy.stack = 1; copy.stack <= GS_TRANSFER_SITES; copy.stack++)
        cr_assert_eq(gs_transfers_add(transfers, &copy), copy.stack);
    cr_expect_eq(gs_transfers_add(transfers, &copy), 0);
    copy.stack++;
    cr_expect_eq(gs_transfers_add(transfers, &copy), 0);
    copy.stack = GS_TRANSFER_SITES;
    cr_expect_eq(gs_transfers_add(transfers, &copy), GS_TRANSFER_SITES);
    struct gs_transfer_list list = gs_transfers_slow(transfers);
    cr_expect_eq(list.rest_count, 2);
    cr_expect_eq(list.rest_bytes, 200);
    free(list.sites);
}

/* ---- the report -------------------------------------------------------------------- */

/* One call site with all hints, one with less, and a run without leaks. */
static struct gs_tracker *make_report(struct gs_report_config *config)
{
    struct gs_stacks *stacks = test_stacks();
    struct gs_tracker *tracker = test_tracker(stacks);
    struct gs_transfer copy = {.call = "cuMemcpyHtoDAsync",
                               .asynchronous = true,
                               .stack = TEST_STACK(stacks, AT_LOAD, AT_MAIN),
                               .bytes = 2 * GS_MIB,
                               .pageable = true,
                               .took_ns = 10000000};

    add(copy, 1200 - 3 - 10);
    copy.returns = true;
    add(copy, 10);
    copy.returns = false;
    copy.unaligned = true;
    add(copy, 3);
    for (int i = 0; i < 1150; i++)
        gs_transfers_add_wait(transfers, 1);
    add(
        (struct gs_transfer){
            .call = "cuMemcpyDtoH", .to_host = true, .bytes = 4, .in_a_row = true},
        100);
    *config = test_report_config();
    config->transfers = transfers;
    return tracker;
}

static void expect_report(struct gs_tracker *tracker,
                          const struct gs_report_config *config, const char *wanted)
{
    char *text = test_report_text(tracker, config, NULL);

    cr_expect_str_eq(text, wanted, "%s", text);
    free(text);
}

#define HEAD    "gpushim 0.1.0: ./app --fast   host n07  10m00s  exit 0\n"
#define SUMMARY "SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations, 0 call sites\n"
#define ALL                                                                              \
    "Copies between host and GPU                     copies        bytes      fastest\n" \
    "  host to GPU, pageable, asynchronous            1,200     2.34 GiB      0.20 "     \
    "GB/s\n"                                                                             \
    "  GPU to host, at most 64 KiB, synchronous         100        400 B\n"              \
    "\n"
#define FIRST                                                                            \
    "SLOW COPIES 1: 1,200 from host to GPU by cuMemcpyHtoDAsync, 2.34 GiB in all, 2.00 " \
    "MiB each\n"                                                                         \
    "  1,200 from pageable memory, 2.34 GiB: pinned memory (cudaHostAlloc, "             \
    "cudaHostRegister) copies faster, and the call need not wait\n"                      \
    "  10 with bytes that a copy from the GPU had brought, unchanged, 20.0 MiB: if "     \
    "the GPU has room keep them there, or copy from GPU to GPU\n"                        \
    "  1,150 followed at once by a synchronize, with no other work before the next: "    \
    "synchronize once, after several\n"                                                  \
    "  0.20 GB/s at best, in 1,200 of 1 MiB and more that found the GPU idle: align "    \
    "the ends to 64 bytes, which 3 did not; pin the memory; check the GPU's PCIe "       \
    "link and the NUMA node of the memory\n"                                             \
    "    #0 load_batch                    loader.c:88\n"                                 \
    "    #1 main                          app.c:12\n"                                    \
    "\n"

Test(transfers, in_a_report)
{
    struct gs_report_config config;
    OWNED_TRACKER tracker = make_report(&config);

    expect_report(tracker, &config,
                  HEAD
                  "\n" ALL FIRST
                  "SLOW COPIES 2: 100 from GPU to host by cuMemcpyDtoH, 400 B in all, 4 "
                  "B each\n"
                  "  100 of at most 64 KiB, 100 of them right after another: one copy "
                  "of all, or cudaMemcpyBatchAsync, costs less\n"
                  "    no call stack was recorded\n"
                  "\n" SUMMARY);
    config.max_groups = 1;
    expect_report(tracker, &config,
                  HEAD
                  "\n" ALL FIRST
                  "1 more call site with slow copies (GPUSHIM_LEAK_MAX=N lists more)\n"
                  "\n" SUMMARY);
    config.transfers = NULL;
    expect_report(tracker, &config, HEAD SUMMARY);
}

Test(transfers, precede_the_leaks_of_a_report)
{
    struct gs_report_config config;
    OWNED_TRACKER tracker = make_report(&config);

    test_leak(tracker, 0x1000, 4096, SECONDS(1), 0);
    char *text = test_report_text(tracker, &config, NULL);
    char *leak = strstr(text, "\nLEAK 1: "), *slow = strstr(text, "\n\nSLOW COPIES 1: ");
    cr_expect(leak && slow && slow < leak, "%s", text);
    free(text);
}

Test(transfers, without_a_place_are_said_to_be)
{
    struct gs_report_config config;
    OWNED_TRACKER tracker = make_report(&config);
    struct gs_transfer copy = small;

    for (copy.stack = 1; copy.stack <= GS_TRANSFER_SITES; copy.stack++)
        (void)gs_transfers_add(transfers, &copy);
    char *text = test_report_text(tracker, &config, NULL);
    cr_expect(strstr(text, "\n2 copies, 200 B, at call sites beyond the first 4,096\n\n"),
              "%s", text);
    free(text);
}

Test(transfers, in_json)
{
    struct gs_report_config config;
    OWNED_TRACKER tracker = make_report(&config);
    struct test_bytes bytes = test_export(tracker, config, GS_EXPORT_json, 0);

    cr_assert_eq(bytes.status, GS_OK);
    cr_expect(
        strstr(bytes.data,
               "  \"slow_copies\": [\n"
               "    {\"call\": \"cuMemcpyHtoDAsync\", \"to\": \"device\", \"hints\": "
               "[\"pageable\", \"waited\", \"slow\", \"returned\"], \"count\": 1200, "
               "\"bytes\": "
               "2516582400, \"least_bytes\": 2097152, \"most_bytes\": 2097152, "
               "\"pageable_count\": 1200, \"pageable_bytes\": 2516582400, "
               "\"small_count\": 0, \"in_a_row_count\": 0, \"waited_count\": 1150, "
               "\"timed_count\": 1200, \"fastest_bytes_per_s\": 209715200, "
               "\"unaligned_count\": 3, \"returned_count\": 10, "
               "\"returned_bytes\": 20971520, "
               "\"stack\": [0, 1], \"full_stack\": [0, 1], \"truncated\": false},\n"
               "    {\"call\": \"cuMemcpyDtoH\", \"to\": \"host\", \"hints\": "
               "[\"small\"], \"count\": 100, \"bytes\": 400,"),
        "%s", bytes.data);
    cr_expect(strstr(bytes.data, "\"unaligned_count\": 0, \"returned_count\": 0, "
                                 "\"returned_bytes\": 0, \"stack\": null, "
                                 "\"full_stack\": null, \"truncated\": false}\n"
                                 "  ],\n"
                                 "  \"other_copies\": {\n"
                                 "    \"count\": 0,\n"
                                 "    \"bytes\": 0\n"
                                 "  },\n"),
              "%s", bytes.data);
    free(bytes.data);
}

Test(transfers, all_copies_are_summed_by_the_way_they_are_made)
{
    struct gs_transfer copy = large;

    add(copy, 3);
    copy.pageable = true;
    add(copy, 5);
    copy.asynchronous = true;
    copy.took_ns = 1000;
    add(copy, 1);
    add(small, 2);

    struct gs_transfer_list list = gs_transfers_slow(transfers);

    cr_assert_eq(list.way_count, 4);
    cr_expect_eq(list.ways[0].bytes, 5 * LARGE);
    cr_expect_eq(list.ways[0].memory, GS_TRANSFER_FROM_PAGEABLE);
    cr_expect_not(list.ways[0].asynchronous);
    cr_expect_eq(list.ways[0].fastest_rate, 0);
    cr_expect_eq(list.ways[1].count, 3);
    cr_expect_eq(list.ways[1].memory, GS_TRANSFER_FROM_PINNED);
    cr_expect(list.ways[2].asynchronous);
    cr_expect_eq(list.ways[2].fastest_rate, (uint64_t)LARGE * 1000000);
    cr_expect_eq(list.ways[3].bytes, 200);
    cr_expect_eq(list.ways[3].memory, GS_TRANSFER_OF_FEW);
    free(list.sites);
}
