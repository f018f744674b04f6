/*
 * tracker_report_real.c - proves that the report works with the real stacks and
 * symbolizer, with parts missing, and fast enough for a hundred thousand live
 * allocations.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tracker_helpers.h"

Test(report, the_note_stands_before_the_summary)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_symbolizer_config symbols = {.lines = true,
                                           .helper = "/nonexistent/helper"};
    struct gs_report_config config = test_report_config();
    struct gs_text text = {0};

    cr_assert_eq(gs_symbolizer_create(&symbols, &config.symbolizer), GS_OK);
    test_leak(tracker, 0x1000, 512, 1, TEST_STACK(stacks, (uintptr_t)test_source));
    gs_report_write(tracker, &config, &text, NULL);
    test_take_prefix_off(text.data);
    const char *note = gs_symbolizer_note(config.symbolizer);
    if (note) {
        char expected[600];
        snprintf(expected, sizeof(expected),
                 "Note: %s\n"
                 "largest: ",
                 note);
        cr_assert_not_null(strstr(text.data, expected));
    }
    gs_text_free(&text);
    gs_symbolizer_destroy(config.symbolizer);
}

/* A function whose name the real symbolizer must find. */
__attribute__((noinline)) void gs_test_report_leaks_here(struct gs_stacks *stacks,
                                                         uint32_t *stack);
void gs_test_report_leaks_here(struct gs_stacks *stacks, uint32_t *stack)
{
    *stack = gs_stacks_capture(stacks);
    __asm__ volatile("" ::: "memory");
}

Test(report, names_come_from_the_real_symbolizer)
{
    struct gs_stacks_config capture = {.unwinder = GS_UNWIND_AUTO, .depth = 32};
    struct gs_symbolizer_config symbols = {.lines = false};
    struct gs_report_config config = test_report_config();
    struct gs_stacks *stacks = NULL;
    struct gs_text text = {0};
    uint32_t stack = 0;

    cr_assert_eq(gs_stacks_create(&capture, &stacks), GS_OK);
    cr_assert_eq(gs_symbolizer_create(&symbols, &config.symbolizer), GS_OK);
    struct gs_tracker *tracker = test_tracker(stacks);
    gs_test_report_leaks_here(stacks, &stack);
    cr_assert_neq(stack, 0);
    test_leak(tracker, 0x1000, 512, 1, stack);
    gs_report_write(tracker, &config, &text, NULL);
    cr_assert_not_null(strstr(text.data, " gs_test_report_leaks_here "), "%s", text.data);
    cr_assert_not_null(strstr(text.data, "Memory by owner, GPU 0"), "%s", text.data);
    char self[4096] = "", owner[4200];
    cr_assert_gt(readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
    snprintf(owner, sizeof(owner), "==41233==   %s ", gs_module_base_name(self));
    cr_assert_not_null(strstr(text.data, owner), "%s", text.data);
    cr_assert_null(strstr(text.data, "_start"), "%s", text.data);
    gs_text_free(&text);
    gs_symbolizer_destroy(config.symbolizer);
    gs_tracker_destroy(tracker);
    gs_stacks_destroy(stacks);
}

static void need_room(void *self, struct gs_symbol_request *requests, size_t count)
{
    const struct gs_text *text = self;

    (void)requests;
    cr_expect_gt(count, 0);
    cr_expect_geq(text->capacity, 8000);
}

/* Names may take what is left of the memory. */
Test(report, has_room_for_its_text_before_names_are_looked_up)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    struct gs_text text = {0};

    source.self = &text;
    source.resolve = need_room;
    test_leak(tracker, 0x1000, 512, 1, TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    gs_report_write_from(tracker, &config, &source, &text, NULL);
    cr_expect_not_null(strstr(text.data, "SUMMARY"));
    gs_text_free(&text);
}

Test(report, survives_missing_parts)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_report_summary summary = {9, 9, 9, 9, true};
    struct gs_text text = {0};
    struct gs_allocation allocation = test_allocation(0x1000, 512);

    gs_report_write(NULL, &config, &text, &summary);
    cr_assert_eq(summary.errors + summary.leaked_bytes + summary.leak_groups, 0);
    cr_assert_null(text.data);
    gs_report_write(tracker, NULL, &text, NULL);
    cr_assert_null(text.data);
    allocation.stack = 5;
    test_add(tracker, &allocation, true);
    gs_report_write(tracker, &config, NULL, &summary);
    cr_assert_eq(summary.leaked_count, 1);
    config = (struct gs_report_config){.show_leaks = true, .max_groups = 1};
    gs_report_write(tracker, &config, &text, &summary);
    cr_assert_not_null(strstr(text.data, "==0== LEAK 1: 512 B in 1 allocation"));
    gs_text_free(&text);
}

Test(report, a_hundred_thousand_live_allocations_take_less_than_a_second)
{
    enum { COUNT = 100000, PLACES = 5000 };
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_symbolizer_config symbols = {.lines = false};
    struct gs_report_config config = test_report_config();
    struct gs_report_summary summary;
    struct gs_text text = {0};
    struct timespec begin, end;
    static uint32_t ids[PLACES];

    for (uintptr_t i = 0; i < PLACES; i++)
        ids[i] = TEST_STACK(stacks, (uintptr_t)test_source + i % 16, 0x90000 + i,
                            (uintptr_t)test_add, (uintptr_t)test_totals,
                            (uintptr_t)gs_report_write);
    for (uint64_t i = 0; i < COUNT; i++)
        test_leak(tracker, 0x7f0000000000 + i * 512, 512 + i % 100, SECONDS(1),
                  ids[i % PLACES]);
    cr_assert_eq(gs_symbolizer_create(&symbols, &config.symbolizer), GS_OK);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    gs_report_write(tracker, &config, &text, &summary);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    double seconds =
        (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    cr_log_info("%.0f ms", seconds * 1e3);
    cr_assert_lt(seconds, 1.0);
    cr_assert_eq(summary.leaked_count, COUNT);
    cr_assert_eq(summary.leak_groups, PLACES);
    gs_text_free(&text);
    gs_symbolizer_destroy(config.symbolizer);
}
