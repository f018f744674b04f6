/*
 * tracker_report_pool.c - proves the report's lines about the pool, compared whole: each
 * level, calls saved and lost, what went back, what frees waited for, and what is left
 * out where there is nothing to say.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_helpers.h"

/* A clean run on a device of which these figures are known, shown if `asked`. */
static void expect_lines(const struct gs_report_device *device, bool asked,
                         const char *expected)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    char *text, *body, *end;

    config.devices = device;
    config.device_count = 1;
    config.show_devices = config.show_pool = asked;
    gs_tracker_remove(tracker, test_add(tracker, &allocation, true), NULL);
    text = test_report_text(tracker, &config, NULL);
    body = strchr(text, '\n') + 1;
    end = strstr(body, "SUMMARY: ");
    cr_assert_not_null(end);
    *end = '\0';
    cr_expect_str_eq(body, expected);
    free(text);
}

#define HEAD                                                                             \
    "GPU 0 A: peak 512 B at 1.00 s\n"                                                    \
    "  traffic        1 alloc  1 free\n"

Test(report_pool, a_clean_run_says_nothing_unless_asked)
{
    struct gs_report_device device = {
        .name = "A", .pooled = true, .pool_allocs = 10, .pool_hits = 9};

    expect_lines(&device, false, "");
}

Test(report_pool, every_level_and_every_reason)
{
    struct gs_report_device device = {.name = "A",
                                      .pooled = true,
                                      .reserved_bytes = 40 * GS_MIB,
                                      .reserved_peak_bytes = 64 * GS_MIB,
                                      .idle_bytes = 10 * GS_MIB,
                                      .pool_allocs = 2000,
                                      .pool_hits = 1996,
                                      .thread_hits = 1500,
                                      .stream_hits = 300,
                                      .global_hits = 100,
                                      .requested_bytes = 75,
                                      .rounded_bytes = 100,
                                      .driver_calls = 7,
                                      .driver_ns = 2345678,
                                      .native_calls = 4000,
                                      .aged_bytes = 16 * GS_MIB,
                                      .pressed_bytes = 8 * GS_MIB,
                                      .retried = 1,
                                      .frees_waited = 5,
                                      .frees_waited_ns = 12345,
                                      .frees_idle = 15,
                                      .lazy_saves_waits = true};

    expect_lines(
        &device, true,
        HEAD
        "Pool of GPU 0: reserved 40.0 MiB (peak 64.0 MiB), idle 10.0 MiB, hit rate 99.8 "
        "%, "
        "rounding waste 25.0 %\n"
        "  served by      thread 1,500  stream 300  global 100  segments 96  driver 4\n"
        "  driver         7 calls took 2.34 ms, 3,993 saved\n"
        "  returned       16.0 MiB by age  8.00 MiB under pressure  1 call repeated\n"
        "  frees          5 waited 12 us in all, 75.0 % found the device idle\n");
    device.frees_waited_ns = SECONDS(30); /* a twentieth of the run */
    device.retried = device.aged_bytes = 0;
    expect_lines(
        &device, true,
        HEAD
        "Pool of GPU 0: reserved 40.0 MiB (peak 64.0 MiB), idle 10.0 MiB, hit rate 99.8 "
        "%, "
        "rounding waste 25.0 %\n"
        "  served by      thread 1,500  stream 300  global 100  segments 96  driver 4\n"
        "  driver         7 calls took 2.34 ms, 3,993 saved\n"
        "  returned       8.00 MiB under pressure\n"
        "  frees          5 waited 30.0 s in all, 75.0 % found the device idle "
        "(GPUSHIM_FREE_SYNC=lazy saves the waits)\n");
}

Test(report_pool, memory_pressure_that_has_changed)
{
    struct gs_report_device device = {
        .name = "A", .pressure = "warning", .pressure_changes = 1};

    expect_lines(
        &device, true,
        "GPU 0 A: peak 512 B at 1.00 s, memory pressure up to warning (1 change)\n"
        "  traffic        1 alloc  1 free\n");
    device.pressure_changes = 1234;
    expect_lines(
        &device, true,
        "GPU 0 A: peak 512 B at 1.00 s, memory pressure up to warning (1,234 changes)\n"
        "  traffic        1 alloc  1 free\n");
    device.pressure = "normal";
    device.pressure_changes = 0;
    expect_lines(&device, true, HEAD);
}

Test(report_pool, no_line_about_what_did_not_happen)
{
    struct gs_report_device device = {.name = "A",
                                      .pooled = true,
                                      .reserved_bytes = 2 * GS_MIB,
                                      .reserved_peak_bytes = 2 * GS_MIB,
                                      .pool_allocs = 1,
                                      .driver_calls = 1,
                                      .driver_ns = 999,
                                      .native_calls = 2};

    expect_lines(&device, true,
                 HEAD "Pool of GPU 0: reserved 2.00 MiB, hit rate 0.0 %\n"
                      "  served by      driver 1\n"
                      "  driver         1 call took 0 s, 1 saved\n");
}

Test(report_pool, more_calls_than_natively_are_said)
{
    struct gs_report_device device = {.name = "A",
                                      .pooled = true,
                                      .reserved_peak_bytes = 2 * GS_MIB,
                                      .driver_calls = 1500,
                                      .driver_ns = 12000000000,
                                      .native_calls = 300};

    expect_lines(&device, true,
                 HEAD
                 "Pool of GPU 0: reserved 0 B (peak 2.00 MiB)\n"
                 "  driver         1,500 calls took 12.0 s, 1,200 more than without the "
                 "pool\n");
}

/* Counters that were read one after the other, while another thread went on. */
Test(report_pool, tiers_that_exceed_the_hits)
{
    struct gs_report_device device = {.name = "A",
                                      .pooled = true,
                                      .pool_allocs = 10,
                                      .pool_hits = 10,
                                      .thread_hits = 11};

    expect_lines(&device, true,
                 HEAD "Pool of GPU 0: reserved 0 B, hit rate 100 %\n"
                      "  served by      thread 11\n");
}

/* Of a program that was killed: what they were at last. */
Test(report_pool, figures_of_an_earlier_moment)
{
    struct gs_report_device device = {.name = "A",
                                      .pooled = true,
                                      .reserved_bytes = 2 * GS_MIB,
                                      .reserved_peak_bytes = 2 * GS_MIB,
                                      .as_of_ns = SECONDS(590)};

    expect_lines(&device, true, HEAD "Pool of GPU 0: reserved 2.00 MiB, as of 9m50s\n");
}

/* ---- by size ------------------------------------------------------------------------
 */

#define BY_SIZE                                                                          \
    HEAD "Pool of GPU 0: reserved 2.00 MiB\n"                                            \
         "  by size        live                   kept for reuse               served "  \
         "by driver\n"

static struct gs_report_device sized(const struct gs_report_class *classes, size_t count)
{
    return (struct gs_report_device){.name = "A",
                                     .pooled = true,
                                     .reserved_bytes = 2 * GS_MIB,
                                     .reserved_peak_bytes = 2 * GS_MIB,
                                     .classes = classes,
                                     .class_count = count};
}

Test(report_pool, sizes_that_were_never_asked_for_are_left_out)
{
    const struct gs_report_class classes[] = {
        {.bytes = 512, .hits = 1234, .misses = 1, .cached = 2, .cached_bytes = 1024},
        {.bytes = 1024},
        {.bytes = 2 * GS_MIB,
         .live = 3,
         .live_bytes = 6 * GS_MIB,
         .misses = 3,
         .pending = 1,
         .pending_bytes = 2 * GS_MIB},
    };
    struct gs_report_device device = sized(classes, GS_ARRAY_LEN(classes));

    expect_lines(&device, true,
                 BY_SIZE
                 "    512 B        0 B in 0               1.00 KiB in 2                 "
                 "1,234         1\n"
                 "    2.00 MiB     6.00 MiB in 3          2.00 MiB in 1                 "
                 "    0         3\n");
}

/* Twelve, the most often asked for; the others together. */
Test(report_pool, many_sizes_are_told_of_together)
{
    struct gs_report_class classes[14] = {{0}};
    struct gs_report_device device = sized(classes, 14);
    char expected[4096] = BY_SIZE;

    for (size_t i = 0; i < 14; i++) {
        classes[i] = (struct gs_report_class){.bytes = 512 * (i + 1), .hits = 50 + i};
        if (i >= 2)
            sprintf(expected + strlen(expected),
                    "    %zu.%s0 KiB     0 B in 0               0 B in 0               "
                    "          %2zu         0\n",
                    (i + 1) / 2, (i + 1) % 2 ? "5" : "0", 50 + i);
    }
    strcat(expected, "    2 others     0 B in 0               0 B in 0               "
                     "         101         0\n");
    expect_lines(&device, true, expected);
}

Test(report_pool, how_free_memory_is_divided)
{
    const struct gs_report_class classes[] = {{.bytes = 512}};
    struct gs_report_device device = sized(classes, 1);

    device.holes = (struct gs_report_holes){.count = 3,
                                            .bytes = 4 * GS_MIB,
                                            .largest_bytes = 3 * GS_MIB,
                                            .stranded_bytes = GS_MIB};
    expect_lines(&device, true,
                 HEAD
                 "Pool of GPU 0: reserved 2.00 MiB\n"
                 "  free space     4.00 MiB in 3, the largest 3.00 MiB: fragmentation "
                 "25.0 %, 1.00 MiB next to blocks\n"
                 "  by size        live                   kept for reuse               "
                 "served by driver\n");
}
