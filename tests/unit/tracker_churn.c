/*
 * tracker_churn.c - proves what is summed of lifetimes by call site, from where on they
 * are churn, and the hint in the report and in JSON. Faults that it alone would see: a
 * limit that is off by one, a call site that is taken for another, a table that
 * overflows, a refused free that counts.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_export_helpers.h"

static struct gs_churn *churn;

static void set_up(void)
{
    churn = gs_churn_create();
    cr_assert_not_null(churn);
}

static void take_down(void)
{
    free(churn);
}

TestSuite(churn, .init = set_up, .fini = take_down);

/* Allocations that live this long, `most` of them at once. */
static void live(struct gs_allocation allocation, unsigned count, uint64_t ns,
                 unsigned most)
{
    for (unsigned i = 0; i < count; i++) {
        gs_churn_add(churn, &allocation);
        if (i + 1 >= most)
            gs_churn_end(churn, &allocation, allocation.time_ns + ns);
    }
    for (unsigned i = 1; i < most; i++)
        gs_churn_end(churn, &allocation, allocation.time_ns + ns);
}

static size_t found(void)
{
    struct gs_churn_list list = gs_churn_copy(churn);

    free(list.sites);
    return list.much_count;
}

Test(churn, counts_from_a_thousand_on)
{
    live(test_allocation(0x1000, 512), 999, 0, 1);
    cr_expect_eq(found(), 0);
    live(test_allocation(0x1000, 512), 1, 0, 1);
    cr_expect_eq(found(), 1);
}

Test(churn, counts_if_the_lives_are_short)
{
    live(test_allocation(0x1000, 512), 2000, GS_CHURN_SHORT_NS, 1);
    cr_expect_eq(found(), 0);
    struct gs_allocation other = test_allocation(0x1000, 512);
    other.stack = 7;
    live(other, 2000, GS_CHURN_SHORT_NS - 1, 1);
    cr_expect_eq(found(), 1);
}

Test(churn, counts_if_nine_in_ten_lives_are_short)
{
    live(test_allocation(0x1000, 512), 1000, 0, 1);
    live(test_allocation(0x1000, 512), 111, SECONDS(1), 1);
    cr_expect_eq(found(), 1, "1,000 of 1,111");
    live(test_allocation(0x1000, 512), 1, SECONDS(1), 1);
    cr_expect_eq(found(), 0, "1,000 of 1,112");
}

/* What is live counts as long-lived; weights that end at once are not kept for reuse. */
Test(churn, counts_if_few_are_live_at_once)
{
    live(test_allocation(0x1000, 512), 2000, 0, 200);
    cr_expect_eq(found(), 1);
    struct gs_allocation other = test_allocation(0x1000, 512);
    other.stack = 7;
    live(other, 2000, 0, 201);
    cr_expect_eq(found(), 1);
}

Test(churn, a_call_site_is_a_stack_a_call_a_device_and_a_kind)
{
    struct gs_allocation all[5];
    struct gs_churn_list list;

    for (unsigned i = 0; i < GS_ARRAY_LEN(all); i++)
        all[i] = test_allocation(0x1000, 512);
    all[1].stack = 3;
    all[2].api = API_MEM_ALLOC_V2;
    all[3].device = 1;
    all[4].kind = GS_MEMORY_MANAGED;
    for (unsigned i = 0; i < GS_ARRAY_LEN(all); i++)
        live(all[i], 1000 + i, 0, 1);
    list = gs_churn_copy(churn);
    cr_assert_eq(list.count, GS_ARRAY_LEN(all));
    cr_expect_eq(list.allocs, 5010);
    for (unsigned i = 0; i < GS_ARRAY_LEN(all); i++)
        cr_expect_eq(list.sites[i].count, 1004 - i, "the most first");
    free(list.sites);
}

/* The pattern that the call exists for. */
Test(churn, stream_ordered_memory_is_none)
{
    struct gs_allocation async = test_allocation(0x1000, 512);
    struct gs_churn_list list;

    async.kind = GS_MEMORY_ASYNC;
    live(async, 5000, 0, 1);
    live(test_allocation(0x1000, 512), 1000, 0, 1);
    list = gs_churn_copy(churn);
    cr_expect_eq(list.much_count, 1);
    cr_assert_eq(list.count, 2);
    cr_expect_eq(list.sites[1].kind, GS_MEMORY_ASYNC, "those with a hint first");
    cr_expect_eq(list.sites[1].ended_count, 5000);
    cr_expect_eq(list.allocs, 6000);
    free(list.sites);
}

Test(churn, sums)
{
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    struct gs_churn_list list;

    live(allocation, 1000, 2000, 1);
    allocation.bytes = 1024;
    live(allocation, 1000, 4000, 3);
    allocation.bytes = 100;
    live(allocation, 10, SECONDS(1), 1);
    list = gs_churn_copy(churn);
    cr_assert_eq(list.count, 1);
    cr_expect_eq(list.sites[0].count, 2010);
    cr_expect_eq(list.sites[0].bytes, 1000 * 512 + 1000 * 1024 + 1000);
    cr_expect_eq(list.sites[0].most_bytes, 1024);
    cr_expect_eq(list.sites[0].short_count, 2000);
    cr_expect_eq(list.sites[0].short_ns, 6000000);
    cr_expect_eq(list.sites[0].ended_count, 2010);
    cr_expect_eq(list.sites[0].ended_ns, 6000000 + SECONDS(10));
    cr_expect_eq(list.sites[0].longest_ns, SECONDS(1));
    cr_expect_eq(list.sites[0].most_live, 3);
    cr_expect_eq(list.sites[0].live_count, 0);
    free(list.sites);
}

/* A record's time may be later than the clock. */
Test(churn, a_life_is_not_negative)
{
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    struct gs_churn_list list;

    for (unsigned i = 0; i < 1000; i++) {
        gs_churn_add(churn, &allocation);
        gs_churn_end(churn, &allocation, allocation.time_ns - 5);
    }
    list = gs_churn_copy(churn);
    cr_assert_eq(list.count, 1);
    cr_expect_eq(list.sites[0].short_ns, 0);
    free(list.sites);
}

Test(churn, a_refused_free_is_taken_back)
{
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    uint64_t now = allocation.time_ns + 1000;

    gs_churn_add(churn, &allocation);
    for (unsigned i = 0; i < 5000; i++) {
        gs_churn_end(churn, &allocation, now);
        gs_churn_take_back(churn, &allocation, now);
    }
    live(allocation, 998, 0, 1);
    gs_churn_end(churn, &allocation, now);
    cr_expect_eq(found(), 0, "999 lives have ended");
    live(allocation, 1, 0, 1);
    struct gs_churn_list list = gs_churn_copy(churn);
    cr_assert_eq(list.count, 1);
    cr_expect_eq(list.sites[0].short_ns, 1000);
    cr_expect_eq(list.sites[0].ended_ns, 1000);
    cr_expect_eq(list.sites[0].ended_count, 1000);
    cr_expect_eq(list.sites[0].live_count, 0);
    cr_expect_eq(list.sites[0].most_live, 2);
    free(list.sites);
}

/* Frees of memory from before are none of a call site's. */
Test(churn, a_free_alone_does_nothing)
{
    struct gs_allocation allocation = test_allocation(0x1000, 512);

    for (unsigned i = 0; i < 3000; i++)
        gs_churn_end(churn, &allocation, allocation.time_ns);
    live(allocation, 999, 0, 1);
    cr_expect_eq(found(), 0);
}

Test(churn, a_full_table_only_counts)
{
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    struct gs_churn_list list;

    for (uint32_t i = 0; i < GS_CHURN_SITES + 10; i++) {
        allocation.stack = i + 1;
        live(allocation, i == 0 || i >= GS_CHURN_SITES ? 1000 : 1, 0, 1);
    }
    list = gs_churn_copy(churn);
    cr_expect_eq(list.allocs, 1000 + GS_CHURN_SITES - 1 + 10 * 1000);
    cr_expect_eq(list.count, GS_CHURN_SITES);
    cr_assert_eq(list.much_count, 1);
    cr_expect_eq(list.sites[0].stack, 1);
    free(list.sites);
}

Test(churn, allocations_without_a_stack_by_sampling_are_no_call_site)
{
    struct gs_allocation allocation = test_allocation(0x1000, 512);

    allocation.stack = GS_STACK_NOT_SAMPLED;
    live(allocation, 2000, 0, 1);
    cr_expect_eq(found(), 0);
}

/* ---- the hints --------------------------------------------------------------------- */

/* The report's hints, a line each, of two call sites. */
static char *hints_of(struct gs_tracker *tracker, bool wanted)
{
    static char lines[2048];
    struct gs_report_config config = test_report_config();
    struct gs_report_summary summary;
    char *text;

    config.show_hints = true;
    config.churn = wanted ? churn : NULL;
    text = test_report_text(tracker, &config, &summary);
    lines[0] = '\0';
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (!strncmp(line, "Hint: ", 6))
            strcat(strcat(lines, line + 6), "\n");
    cr_expect_eq(summary.errors, 0, "a hint is no error");
    cr_expect_eq(summary.leaked_count, 0);
    free(text);
    return lines;
}

#define LOOP                                                                             \
    "GPU 0: 3,000 allocations by cudaMalloc at load_batch loader.c:88, 1.46 MiB in "     \
    "all, 75.0 % of the run's, freed within 10 ms (25 us on average), never two at "     \
    "once: one buffer of 512 B, allocated before the loop, serves them all"

Test(churn, hints_name_the_call_the_line_and_what_to_do)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_allocation allocation = test_allocation(0x1000, 512);

    allocation.stack = TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_MAIN);
    live(allocation, 3000, 25000, 1);
    allocation.stack = 0;
    allocation.kind = GS_MEMORY_PINNED;
    allocation.api = API_HOST_ALLOC;
    live(allocation, 1000, 999, 4);
    cr_expect_str_eq(
        hints_of(tracker, true),
        LOOP "\npinned host memory: 1,000 allocations by cuMemHostAlloc, 500 KiB in all, "
             "25.0 % of the run's, freed within 10 ms (less than 1 us on average), at "
             "most 4 at once: keep as many buffers, of up to 512 B, and reuse them\n");
    cr_expect_str_eq(hints_of(tracker, false), "");
}

Test(churn, hints_in_json_have_the_stack)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_allocation allocation = test_allocation(0x1000, 512);

    allocation.stack = TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_MAIN);
    live(allocation, 3000, 25000, 1);
    allocation.stack = TEST_STACK(stacks, AT_CUDART, AT_RUN, AT_MAIN);
    live(allocation, 1000, 0, 2);
    config.churn = churn;
    struct test_bytes bytes = test_export(tracker, config, GS_EXPORT_json, 0);
    cr_expect_not_null(strstr(bytes.data, "{\"hint\": \"loop\", \"device\": 0, \"text\": "
                                          "\"" LOOP "\", \"stack\": ["),
                       "%s", bytes.data);
    cr_expect_not_null(strstr(bytes.data, "{\"hint\": \"churn\", \"device\": 0, "), "%s",
                       bytes.data);
    free(bytes.data);
}

/* The worst are enough: a program with many is changed one by one. */
Test(churn, hints_are_five_at_most)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    unsigned lines = 0;

    for (unsigned i = 0; i < 9; i++) {
        allocation.stack = i + 1;
        live(allocation, 1000 + i, 0, 1);
    }
    char *text = hints_of(tracker, true);
    cr_expect(!strncmp(text, "GPU 0: 1,008 allocations", 24), "%s", text);
    for (char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    cr_expect_eq(lines, 5);
}

/* ---- the table ---------------------------------------------------------------------- */

/* Lifetimes of a loop, of memory that lives long, and of memory that is not freed. */
static struct gs_tracker *some_lifetimes(struct gs_stacks *stacks)
{
    struct gs_tracker *tracker = test_tracker(stacks);
    struct gs_allocation allocation = test_allocation(0x1000, 512);

    allocation.stack = TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_MAIN);
    live(allocation, 3000, 25000, 1);
    allocation.stack = TEST_STACK(stacks, AT_CUDART, AT_RUN, AT_MAIN);
    live(allocation, 3, SECONDS(2), 2);
    allocation.stack = 0;
    allocation.kind = GS_MEMORY_PINNED;
    allocation.api = API_HOST_ALLOC;
    live(allocation, 2, 1000, 1);
    gs_churn_add(churn, &allocation);
    return tracker;
}

/* From its heading to the empty line. */
static char *table_of(struct gs_tracker *tracker, bool wanted)
{
    static char table[4096];
    struct gs_report_config config = test_report_config();
    struct gs_report_summary summary;

    config.show_pool = wanted;
    config.churn = churn;
    char *text = test_report_text(tracker, &config, &summary);
    const char *begin = strstr(text, "Lifetimes by call site\n");
    const char *end = begin ? strstr(begin, "\n\n") : NULL;
    snprintf(table, sizeof(table), "%.*s", end ? (int)(end + 1 - begin) : 0,
             begin ? begin : "");
    free(text);
    return table;
}

/* Would alone see: a mean over what was not freed, a share of what was, a longest life
 * below the clock's steps. */
Test(churn, table_has_the_mean_the_longest_and_what_is_live)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = some_lifetimes(stacks);

    cr_expect_str_eq(
        table_of(tracker, true),
        "Lifetimes by call site\n"
        "      allocs  allocated  at once  < 10 ms       mean    longest\n"
        "       3,000   1.46 MiB        1    100 %      25 us     < 4 ms  GPU 0, "
        "cudaMalloc at load_batch loader.c:88 < main app.c:12\n"
        "           3   1.50 KiB        1   66.7 %     < 4 ms     < 4 ms  pinned host "
        "memory, cuMemHostAlloc (no call stack was recorded)\n"
        "           3   1.50 KiB        2    0.0 %     2.00 s     2.00 s  GPU 0, "
        "cudaMalloc at run app+0x210 < main app.c:12\n");
    cr_expect_str_eq(table_of(tracker, false), "", "GPUSHIM_VERBOSE=2 has it");
}

Test(churn, table_has_twelve_rows_and_files_have_all)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    unsigned lines = 0;

    for (unsigned i = 0; i < 20; i++) {
        allocation.stack = i + 1;
        live(allocation, 1 + i, 0, 1);
    }
    const char *text = table_of(tracker, true);
    cr_expect_not_null(strstr(text, "\n  8 others\n"), "%s", text);
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    cr_expect_eq(lines, 2 + 12 + 1);
    config.churn = churn;
    struct test_bytes bytes = test_export(tracker, config, GS_EXPORT_json, 0);
    const char *at = strstr(bytes.data, "\"lifetimes\": [");
    unsigned found = 0;
    for (; at && (at = strstr(at, "\"freed_life_ns\": 0")); at++)
        found++;
    cr_expect_eq(found, 20);
    free(bytes.data);
}

Test(churn, table_in_json_has_the_figures)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = some_lifetimes(stacks);
    struct gs_report_config config = test_report_config();

    config.churn = churn;
    struct test_bytes bytes = test_export(tracker, config, GS_EXPORT_json, 0);
    cr_expect_not_null(
        strstr(bytes.data,
               "{\"call\": \"cudaMalloc\", \"kind\": \"device\", \"device\": 0, "
               "\"allocs\": 3, \"alloc_bytes\": 1536, \"most_bytes\": 512, "
               "\"live_count\": 0, \"most_live_count\": 2, \"short_count\": 0, "
               "\"freed_count\": 3, \"freed_life_ns\": 6000000000, "
               "\"longest_life_ns\": 2000000000, \"stack\": ["),
        "%s", bytes.data);
    free(bytes.data);
    config.churn = NULL;
    bytes = test_export(tracker, config, GS_EXPORT_json, 0);
    cr_expect_null(strstr(bytes.data, "\"lifetimes\""), "they were not recorded");
    free(bytes.data);
}
