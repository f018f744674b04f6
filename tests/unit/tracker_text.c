/*
 * tracker_text.c - proves that numbers in the report read as documented, at every border
 * where rounding could carry, and that the text buffer grows, ends and truncates cleanly.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tracker/report/text/text.h"

static void expect_bytes(uint64_t bytes, const char *expected)
{
    char out[24];

    cr_expect_str_eq(gs_text_bytes(bytes, out), expected);
}

static void expect_duration(uint64_t ns, const char *expected)
{
    char out[24];

    cr_expect_str_eq(gs_text_duration(ns, out), expected);
}

static void expect_count(uint64_t count, const char *expected)
{
    char out[32];

    cr_expect_str_eq(gs_text_count(count, out), expected);
}

Test(text, bytes_below_a_kib_are_exact)
{
    expect_bytes(0, "0 B");
    expect_bytes(17, "17 B");
    expect_bytes(1000, "1000 B");
    expect_bytes(1023, "1023 B");
}

Test(text, bytes_have_three_significant_digits)
{
    expect_bytes(1024, "1.00 KiB");
    expect_bytes(1536, "1.50 KiB");
    expect_bytes(12 * GS_MIB, "12.0 MiB");
    expect_bytes(272 * GS_MIB, "272 MiB");
    expect_bytes((uint64_t)(2.31 * (double)GS_GIB), "2.31 GiB");
    expect_bytes(GS_MIB + GS_MIB / 2, "1.50 MiB");
    expect_bytes(1010 * GS_MIB, "1010 MiB");
}

Test(text, bytes_carry_into_the_next_digit)
{
    expect_bytes(10234, "9.99 KiB");  /* 9.9941 */
    expect_bytes(10235, "10.0 KiB");  /* 9.9951 */
    expect_bytes(102348, "99.9 KiB"); /* 99.949 */
    expect_bytes(102349, "100 KiB");  /* 99.950 */
}

Test(text, bytes_carry_into_the_next_unit)
{
    expect_bytes(GS_MIB - 512 - 1, "1023 KiB");
    expect_bytes(GS_MIB - 512, "1.00 MiB");
    expect_bytes(GS_MIB - 11, "1.00 MiB"); /* 1023.99 KiB */
    expect_bytes(GS_MIB - 1, "1.00 MiB");
    expect_bytes(GS_GIB - 1, "1.00 GiB");
    expect_bytes(GS_GIB * 1024 - 1, "1.00 TiB");
}

Test(text, bytes_reach_the_end_of_the_range)
{
    expect_bytes((uint64_t)1 << 40, "1.00 TiB");
    expect_bytes((uint64_t)1 << 50, "1.00 PiB");
    expect_bytes((uint64_t)1 << 60, "1.00 EiB");
    expect_bytes(UINT64_MAX, "16.0 EiB");
}

Test(text, bytes_never_decrease)
{
    char out[24];
    double last = 0;
    const char units[] = "KMGTPE";

    for (uint64_t bytes = 1; bytes < (uint64_t)1 << 60; bytes += 1 + bytes / 97) {
        char unit = 'B';
        double value = 0, scale = 1;
        gs_text_bytes(bytes, out);
        cr_assert_eq(sscanf(out, "%lf %c", &value, &unit), 2);
        if (unit != 'B') {
            for (const char *u = units; u <= strchr(units, unit); u++)
                scale *= 1024;
        }
        cr_assert_geq(value * scale, last, "%s", out);
        cr_assert(value * scale >= (double)bytes * 0.994 &&
                      value * scale <= (double)bytes * 1.006,
                  "%s is not %llu", out, (unsigned long long)bytes);
        last = value * scale;
    }
}

Test(text, counts_are_grouped_by_thousands)
{
    expect_count(0, "0");
    expect_count(999, "999");
    expect_count(1000, "1,000");
    expect_count(184203, "184,203");
    expect_count(1234567, "1,234,567");
    expect_count(UINT64_MAX, "18,446,744,073,709,551,615");
}

Test(text, durations_are_rounded_down)
{
    expect_duration(0, "0 s");
    expect_duration(999, "0 s");
    expect_duration(1000, "1 us");
    expect_duration(999999, "999 us");
    expect_duration(3000000, "3.00 ms");
    expect_duration(12345678, "12.3 ms");
    expect_duration(999999999, "999 ms");
    expect_duration(1000000000, "1.00 s");
    expect_duration(4909000000, "4.90 s");
    expect_duration(9999999999, "9.99 s");
    expect_duration(10000000000, "10.0 s");
    expect_duration(59999999999, "59.9 s");
    expect_duration(60000000000, "1m00s");
    expect_duration(761000000000, "12m41s");
    expect_duration(3599000000000, "59m59s");
    expect_duration(3600000000000, "1h00m");
    expect_duration(7380000000000, "2h03m");
    expect_duration(360300000000000, "100h05m");
    expect_duration(UINT64_MAX, "5124095h34m");
}

Test(text, growth_has_a_sign_a_time_and_a_rate)
{
    char out[96];

    cr_expect_str_eq(gs_text_growth(154 * (int64_t)GS_MIB, 3000000000, out),
                     "+154 MiB in the last 3.00 s (51.3 MiB/s)");
    cr_expect_str_eq(gs_text_growth(-(int64_t)GS_MIB, 120000000000, out),
                     "-1.00 MiB in the last 2m00s (8.53 KiB/s)");
    cr_expect_str_eq(gs_text_growth(0, 299000000, out), "no change in the last 299 ms");
    cr_expect_str_eq(gs_text_growth(1, 0, out), "+1 B in the last 0 s (954 MiB/s)");
}

Test(text, grows_and_stays_terminated)
{
    struct gs_text text = {0};
    size_t expected = 0;

    for (int i = 0; i < 10000; i++) {
        gs_text_add(&text, "%d,", i);
        expected += i < 10 ? 2 : i < 100 ? 3 : i < 1000 ? 4 : 5;
    }
    cr_assert_eq(text.length, expected);
    cr_assert_eq(strlen(text.data), expected);
    cr_assert(text.capacity > expected);
    cr_assert_not(text.truncated);
    cr_assert_eq(strncmp(text.data, "0,1,2,3,", 8), 0);
    cr_assert_str_eq(text.data + expected - 10, "9998,9999,");
    gs_text_free(&text);
}

Test(text, takes_pieces_larger_than_its_buffer)
{
    struct gs_text text = {0};

    gs_text_add(&text, "[%*s]", 100000, "x");
    cr_assert_eq(text.length, 100002);
    cr_assert_str_eq(text.data + 100000, "x]");
    gs_text_add(&text, "%s", "");
    cr_assert_eq(text.length, 100002);
    gs_text_free(&text);
}

Test(text, an_empty_piece_makes_an_empty_string)
{
    struct gs_text text = {0};

    gs_text_add(&text, "%s", "");
    cr_assert_not_null(text.data);
    cr_assert_str_eq(text.data, "");
    gs_text_free(&text);
}

Test(text, every_length_around_a_capacity_fits)
{
    for (int length = 4090; length < 4100; length++) {
        struct gs_text text = {0};
        gs_text_add(&text, "%*s", length - 1, "a");
        gs_text_add(&text, "b");
        gs_text_add(&text, "c");
        cr_assert_eq(text.length, (size_t)length + 1);
        cr_assert_eq(strlen(text.data), (size_t)length + 1);
        cr_assert_str_eq(text.data + length - 2, "abc");
        gs_text_free(&text);
    }
}

Test(text, is_usable_after_free)
{
    struct gs_text text = {0};

    gs_text_add(&text, "first");
    gs_text_free(&text);
    cr_assert_null(text.data);
    cr_assert_eq(text.length, 0);
    gs_text_add(&text, "second");
    cr_assert_str_eq(text.data, "second");
    gs_text_free(&text);
    gs_text_free(&text);
}

Test(text, ignores_null)
{
    struct gs_text text = {0};

    gs_text_add(NULL, "x");
    gs_text_free(NULL);
    cr_assert_null(text.data);
}

/* A sanitizer's own memory does not fit under the limit that this test needs. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
Test(text, out_of_memory_truncates_and_is_remembered)
{
    struct gs_text text = {0};
    struct rlimit limit = {.rlim_cur = 256 * GS_MIB, .rlim_max = 256 * GS_MIB};
    size_t before = 0;

    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    for (int i = 0; i < 100000 && !text.truncated; i++) {
        before = text.length;
        gs_text_add(&text, "%-9999d\n", i);
    }
    cr_assert(text.truncated);
    cr_assert_eq(text.length, before);
    cr_assert_eq(text.data[before], '\0');
    cr_assert_eq(text.data[before - 1], '\n');
    gs_text_add(&text, "more");
    cr_assert_eq(text.length, before);
    gs_text_free(&text);
    cr_assert_not(text.truncated);
}
#endif

Test(text, has_no_control_characters_from_outside)
{
    struct gs_text text = {0};

    gs_text_add(&text, "%s\n", "a\x1b[31m\tb\x7f \xc2\x9b \x9b \xff \xc3\xa9");
    cr_expect_str_eq(text.data, "a?[31m\tb? ?\? ? ? \xc3\xa9\n");
    gs_text_free(&text);
}
