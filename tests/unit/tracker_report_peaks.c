/*
 * tracker_report_peaks.c - proves what the report says of peaks: which are told of,
 * places that read the same, what was lost, what has no call stack, what is only about
 * right.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_fixture.h"

static struct gs_report_config config;

static void set_up(void)
{
    set_up_tracker();
    config = test_report_config();
    config.show_devices = true;
    config.peak_max = 2;
    config.peaks_asked = true;
}

TestSuite(report_peaks, .init = set_up, .fini = take_down_tracker);

/* Made now, not at the helper's fixed time. */
static uint32_t make(uint64_t addr, uint64_t bytes, uint32_t stack)
{
    struct gs_allocation allocation = test_allocation(addr, bytes);

    allocation.time_ns = 0;
    allocation.stack = stack;
    return test_add(tracker, &allocation, true);
}

/* How often the report has these words. */
static unsigned told(const char *words)
{
    char *text = test_report_text(tracker, &config, NULL);
    unsigned count = 0;

    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        count++;
    free(text);
    return count;
}

Test(report_peaks, places_that_read_the_same_are_one)
{
    uint32_t ids[] = {
        make(0x10000, 30 * GS_MIB, TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_MAIN)),
        make(0x20000, 20 * GS_MIB, TEST_STACK(stacks, AT_CUDART, AT_LOAD_TOO, AT_MAIN)),
        make(0x30000, 50 * GS_MIB, TEST_STACK(stacks, AT_CUDART, AT_LOAD_NEXT, AT_MAIN)),
        make(0x40000, 10 * GS_MIB, TEST_STACK(stacks, AT_TORCH, AT_MAIN)),
        make(0x50000, 10 * GS_MIB, TEST_STACK(stacks, AT_STRIPPED, AT_MAIN)),
    };

    gs_tracker_remove(tracker, ids[0], NULL);
    gs_tracker_remove(tracker, ids[2], NULL);
    cr_expect_eq(told("Peak of GPU 0: 120 MiB at "), 1);
    cr_expect_eq(told(", 80.0 MiB of it freed since\n"), 1);
    cr_expect_eq(told("PEAK 1 = LEAK 1: 50.0 MiB in 2 allocations (41.7 % of the peak), "
                      "20.0 MiB of it still live\n"),
                 1);
    cr_expect_eq(told("PEAK 2: 50.0 MiB in 1 allocation (41.7 % of the peak)\n"), 1);
    cr_expect_eq(told("cudaMalloc, GPU 0, all freed since\n"), 1);
    cr_expect_eq(
        told(
            "2 more call sites of this peak: 20.0 MiB (GPUSHIM_PEAK_MAX=N lists more)\n"),
        1);
    cr_expect_eq(told("PEAK 3"), 0);
}

Test(report_peaks, what_was_lost_was_not_freed)
{
    uint32_t load = TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_MAIN);
    uint32_t freed = make(0x10000, 10 * GS_MIB, TEST_STACK(stacks, AT_TORCH, AT_MAIN));

    (void)make(0x20000, 30 * GS_MIB, load);
    gs_tracker_remove(tracker, freed, NULL);
    gs_tracker_lose_context(tracker, 0xc0, UINT32_MAX);
    cr_expect_eq(told("Peak of GPU 0: 40.0 MiB at "), 1);
    cr_expect_eq(told(", 10.0 MiB of it freed since\n"), 1);
    cr_expect_eq(
        told("PEAK 1 = LEAK 1: 30.0 MiB in 1 allocation (75.0 % of the peak), live "
             "at reset\n"),
        1);
}

Test(report_peaks, memory_without_a_stack_is_no_place)
{
    uint32_t id = make(0x10000, 30 * GS_MIB, GS_STACK_TOO_SMALL);

    (void)make(0x20000, GS_MIB, TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_MAIN));
    gs_tracker_remove(tracker, id, NULL);
    cr_expect_eq(told("PEAK 1 = LEAK 1: 1.00 MiB in 1 allocation (3.2 % of the peak), "
                      "all still live\n"),
                 1);
    cr_expect_eq(told("30.0 MiB of this peak without a call stack\n"), 1);
    cr_expect_eq(told("more call site"), 0);
}

Test(report_peaks, are_told_of_where_that_is_asked_for_and_says_more)
{
    struct gs_allocation pinned = {
        .addr = 0x9000, .bytes = GS_MIB, .kind = GS_MEMORY_PINNED};
    uint32_t id = make(0x10000, GS_MIB, TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    uint32_t host = test_add(tracker, &pinned, true);

    cr_expect_eq(told("Peak of"), 0, "nothing is freed");
    gs_tracker_remove(tracker, id, NULL);
    gs_tracker_remove(tracker, host, NULL);
    cr_expect_eq(told("Peak of GPU 0"), 1);
    cr_expect_eq(told("Peak of pinned host memory"), 1);
    config.show_leaks = false;
    cr_expect_eq(told("Peak of"), 0);
    config.show_leaks = true;
    config.peak_max = 0;
    cr_expect_eq(told("Peak of"), 0);
    config.peak_max = 2;
    config.show_devices = false; /* a clean run has its two lines */
    cr_expect_eq(told("\n"), 2);
    (void)make(0x20000, 1, 0);
    cr_expect_eq(told("Peak of GPU 0"), 1);
    cr_expect_eq(told("Peak of pinned host memory"), 0);
}

/* Would see the stacks of a peak between the leaks and the SUMMARY, or no word of it. */
Test(report_peaks, beside_leaks_are_a_line_unless_asked_for)
{
    uint32_t id =
        make(0x10000, 3 * GS_MIB, TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_MAIN));

    (void)make(0x20000, GS_MIB, TEST_STACK(stacks, AT_CUDART, AT_RUN, AT_MAIN));
    gs_tracker_remove(tracker, id, NULL);
    config.peaks_asked = false;
    cr_expect_eq(told(", 3.00 MiB of it freed since; 3.00 MiB at load_batch loader.c:88 "
                      "(GPUSHIM_PEAK_MAX=N lists more)\nMemory by owner"),
                 1);
    cr_expect_eq(told("PEAK 1"), 0);
    config.running = true; /* out of memory: nothing has leaked */
    cr_expect_eq(told("PEAK 1: 3.00 MiB in "), 1);
    config.running = false;
    config.show_pool = true;
    cr_expect_eq(told("PEAK 1: 3.00 MiB in "), 1);
    config.show_pool = false;
    config.suppressions = test_rules("leak:run");
    cr_expect_eq(told("PEAK 1: 3.00 MiB in "), 1, "nothing leaked");
    gs_tracker_error_free(tracker, 0xbad, 0, NULL);
    cr_expect_eq(told("PEAK 1"), 0, "an error is what the reader came for");
    gs_suppressions_destroy(config.suppressions);
}

/* gs_report_source.resolve: another thread's allocation, while a report is written. */
static void allocate_now(void *self, struct gs_symbol_request *requests, size_t count)
{
    static uint64_t next = 0x100000;

    (void)self, (void)requests, (void)count;
    (void)make(next++ << 20, 50 * GS_MIB, 0);
}

/* Alone sees figures that are read while the text is written: another peak than the one
 * whose call sites follow, more live memory than there are call sites for, and a time
 * after that of the report. */
Test(report_peaks, are_of_the_same_moment_as_the_figures)
{
    struct gs_report_source source = test_source();
    struct gs_text text = {0};
    uint32_t id =
        make(0x10000, 3 * GS_MIB, TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_MAIN));

    (void)make(0x20000, GS_MIB, TEST_STACK(stacks, AT_CUDART, AT_RUN, AT_MAIN));
    gs_tracker_remove(tracker, id, NULL);
    config.running = true;
    source.resolve = allocate_now;
    source.is_live = true;
    gs_report_write_from(tracker, &config, &source, &text, NULL);
    test_take_prefix_off(text.data);
    cr_expect_not_null(
        strstr(text.data, "GPU 0: 1.00 MiB live at 1 call site, peak 4.00 MiB"), "%s",
        text.data);
    cr_expect_not_null(strstr(text.data, "Peak of GPU 0: 4.00 MiB at "));
    cr_expect_null(strstr(text.data, "10m00s"), "the time is read again");
    gs_text_free(&text);
}

/* Rules need the names of all leaks, before peaks are chosen. Alone sees peaks without
 * call stacks where there is any rule, in both forms. */
Test(report_peaks, have_call_stacks_beside_rules)
{
    uint32_t id =
        make(0x10000, 3 * GS_MIB, TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_MAIN));

    (void)make(0x20000, GS_MIB, TEST_STACK(stacks, AT_CUDART, AT_RUN, AT_MAIN));
    gs_tracker_remove(tracker, id, NULL);
    config.suppressions = test_rules("leak:^nobody$");
    cr_expect_eq(told("PEAK 1: 3.00 MiB in "), 1);
    cr_expect_eq(told("no call stack was recorded"), 0);
    cr_expect_eq(told("#0 load_batch "), 1);
    config.peaks_asked = false;
    cr_expect_eq(
        told("; 3.00 MiB at load_batch loader.c:88 (GPUSHIM_PEAK_MAX=N lists more)\n"),
        1);
    gs_suppressions_destroy(config.suppressions);
}

/* Peaks and frees by turns, faster than the clock can tell. */
Test(report_peaks, that_are_about_right_say_so)
{
    uint32_t stack = TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_MAIN);
    uint32_t held = make(0x10000, GS_MIB, stack);

    cr_expect_eq(told("by call site"), 0);
    for (uint32_t i = 1; i < 200000 && tracker->shared[0].peak_vague == 0; i++) {
        uint32_t next = make(0x10000 + i * 512, GS_MIB + i, stack);
        gs_tracker_remove(tracker, held, NULL);
        held = next;
    }
    if (tracker->shared[0].peak_vague == 0)
        cr_skip_test("the machine is slower than the clock");
    cr_expect_eq(told("; about "), 1);
    cr_expect_eq(told(" of it by call site\n"), 1);
}
