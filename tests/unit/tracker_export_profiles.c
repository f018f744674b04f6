/*
 * tracker_export_profiles.c - proves the collapsed stacks, compared whole; the sums that
 * a profile takes; and that all formats of a large report are there soon. That pprof and
 * flamegraph.pl read what is written, tests/e2e/cases/outputs.sh asks them.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tracker_export_helpers.h"

Test(export_collapsed, one_line_a_place)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_allocation pinned = test_allocation(0x9000, 50);
    struct gs_allocation managed = test_allocation(0xa000, 40);

    config.stack_depth = 2;
    test_leak(tracker, 0x1000, 4000, SECONDS(1),
              TEST_STACK(stacks, AT_SHIM, AT_CUDART, AT_TORCH, AT_RUN, AT_MAIN, AT_LIBC));
    test_leak(tracker, 0x2000, 300, SECONDS(1), TEST_STACK(stacks, AT_STRIPPED, AT_MAIN));
    test_leak(tracker, 0x3000, 200, SECONDS(1), TEST_STACK(stacks, AT_NOWHERE, AT_RUN));
    test_leak(tracker, 0x4000, 100, SECONDS(1), 0);
    test_leak(tracker, 0x5000, 0, SECONDS(1), TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    pinned.kind = GS_MEMORY_PINNED;
    managed.kind = GS_MEMORY_MANAGED;
    managed.device = 1;
    test_add(tracker, &pinned, true);
    test_add(tracker, &managed, true);
    struct test_bytes bytes = test_export(tracker, config, GS_EXPORT_collapsed, 0);
    cr_assert_eq(bytes.status, GS_OK);
    cr_expect_str_eq(bytes.data, "GPU 0;main;run 4000\n"
                                 "GPU 0;main;app+0x310 300\n"
                                 "GPU 0;[more frames];run;0x90010 200\n"
                                 "GPU 0;[no call stack] 100\n"
                                 "pinned host memory;[no call stack] 50\n"
                                 "managed memory, GPU 1;[no call stack] 40\n");
    free(bytes.data);
}

static void count_wanted(void *self, struct gs_symbol_request *requests, size_t count)
{
    size_t *wanted = self;

    for (size_t i = 0; i < count; i++)
        *wanted += requests[i].line_wanted;
}

/* Or a format reads the debug files of libc and the runtime for nothing. */
Test(export, lines_are_looked_up_of_shown_frames_alone)
{
    for (unsigned row = 0; row < GS_EXPORT_FORMATS; row++) {
        if (!gs_export_formats[row].stacks)
            continue;
        struct gs_stacks *stacks = test_stacks();
        struct gs_tracker *tracker = test_tracker(stacks);
        struct gs_report_source source = test_source();
        size_t wanted = 0;

        source.self = &wanted;
        source.find_lines = count_wanted;
        test_leak(tracker, 0x1000, 4000, SECONDS(1),
                  TEST_STACK(stacks, AT_SHIM, AT_CUDART, AT_LOAD, AT_MAIN, AT_LIBC));
        struct test_bytes bytes =
            test_export_from(tracker, test_report_config(), &source, test_job(), row, 0);
        cr_assert_eq(bytes.status, GS_OK);
        /* Two of the text, two of the file. */
        cr_expect_eq(wanted, 4, "%s: %zu", gs_export_formats[row].name, wanted);
        free(bytes.data);
        gs_tracker_destroy(tracker);
        gs_stacks_destroy(stacks);
    }
}

static void awkward_names(void *self, struct gs_symbol_request *requests, size_t count)
{
    (void)self;
    for (size_t i = 0; i < count; i++)
        requests[i].result.function = "f(char = ';')\n\x80 2";
}

Test(export_collapsed, a_name_ends_neither_frame_nor_line)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_source source = test_source();

    source.resolve = awkward_names;
    test_leak(tracker, 0x1000, 1, 0, TEST_STACK(stacks, AT_RUN));
    struct test_bytes bytes = test_export_from(tracker, test_report_config(), &source,
                                               test_job(), GS_EXPORT_collapsed, 0);
    cr_expect_str_eq(bytes.data, "GPU 0;f(char = ':')?\xef\xbf\xbd 2 1\n");
    free(bytes.data);
}

Test(export_collapsed, a_clean_run_is_an_empty_file)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct test_bytes bytes =
        test_export(tracker, test_report_config(), GS_EXPORT_collapsed, 0);

    cr_assert_eq(bytes.status, GS_OK);
    cr_assert_eq(bytes.length, 0);
}

/* What is freed is in the peak's file and in that of all allocations. */
Test(export_collapsed, the_peak_and_all_that_was_allocated)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tally_tracker(stacks);
    struct gs_allocation allocation = test_allocation(0x1000, 4000);
    static const struct {
        enum gs_export_row row;
        const char *lines;
    } files[] = {
        {GS_EXPORT_collapsed, "GPU 0;main;run 300\n"},
        {GS_EXPORT_collapsed_peak, "GPU 0;main;load_batch 8000\nGPU 0;main;run 300\n"},
        {GS_EXPORT_collapsed_total, "GPU 0;main;run 600\nGPU 0;main;load_batch 8000\n"}};
    uint64_t handles[2];

    allocation.stack = TEST_STACK(stacks, AT_RUN, AT_MAIN);
    allocation.bytes = 300;
    for (unsigned i = 0; i < 2; i++) {
        handles[0] = test_add(tracker, &allocation, true);
        gs_tracker_tally(tracker, &allocation);
        if (i == 0)
            gs_tracker_remove(tracker, handles[0], NULL);
    }
    allocation.stack = TEST_STACK(stacks, AT_LOAD, AT_MAIN);
    allocation.bytes = 4000;
    for (unsigned i = 0; i < 2; i++) {
        allocation.addr += 0x1000;
        handles[i] = test_add(tracker, &allocation, true);
        gs_tracker_tally(tracker, &allocation);
    }
    for (unsigned i = 0; i < 2; i++)
        gs_tracker_remove(tracker, handles[i], NULL);
    for (unsigned i = 0; i < GS_ARRAY_LEN(files); i++) {
        struct test_bytes bytes =
            test_export(tracker, test_report_config(), files[i].row, 0);
        cr_assert_eq(bytes.status, GS_OK);
        cr_expect_str_eq(bytes.data, files[i].lines);
        free(bytes.data);
    }
}

/* --- samples --------------------------------------------------------------------------
 */

Test(export_samples, keys_stay_apart_and_sums_add_up)
{
    enum { KEYS = 2000 };
    struct gs_samples samples = {0};
    uint64_t seen = 0, bytes = 0;

    for (unsigned turn = 0; turn < 3; turn++) {
        for (unsigned i = 0; i < KEYS; i++) {
            struct gs_sample part = {.stack = i / 32,
                                     .api = (uint16_t)(i % 2),
                                     .device = (int16_t)(i / 2 % 2),
                                     .kind = (uint8_t)(i / 4 % 2),
                                     .stream = i / 8 % 4,
                                     .alloc_count = 1,
                                     .alloc_bytes = i,
                                     .live_count = turn,
                                     .live_bytes = turn * i};
            cr_assert_eq(gs_samples_add(&samples, &part), GS_OK);
        }
    }
    cr_assert_eq(samples.count, KEYS);
    for (size_t i = 0; i < samples.capacity; i++) {
        if (!samples.slots[i].used)
            continue;
        cr_assert_eq(samples.slots[i].alloc_count, 3);
        cr_assert_eq(samples.slots[i].live_count, 3);
        cr_assert_eq(samples.slots[i].alloc_bytes, samples.slots[i].live_bytes);
        bytes += samples.slots[i].alloc_bytes;
        seen++;
    }
    cr_assert_eq(seen, KEYS);
    cr_assert_eq(bytes, (uint64_t)3 * KEYS * (KEYS - 1) / 2);
    gs_samples_free(&samples);
    cr_assert_eq(samples.count, 0);
}

enum { TALLY_THREADS = 4, TALLY_EACH = 20000 };

static void *tally_many(void *tracker)
{
    struct gs_allocation allocation = test_allocation(0x1000, 10);

    for (unsigned i = 0; i < TALLY_EACH; i++) {
        allocation.stack = i % 100;
        gs_tracker_tally(tracker, &allocation);
    }
    return NULL;
}

Test(export_samples, threads_tally_at_once)
{
    OWNED_TRACKER tracker = test_tally_tracker(NULL);
    struct gs_samples samples = {0};
    pthread_t threads[TALLY_THREADS];

    for (unsigned i = 0; i < TALLY_THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, tally_many, tracker), 0);
    for (unsigned i = 0; i < TALLY_THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(gs_tally_copy(tracker->tally, false, &samples), GS_OK);
    cr_assert_eq(samples.count, 100);
    for (size_t i = 0; i < samples.capacity; i++) {
        if (samples.slots[i].used)
            cr_assert_eq(samples.slots[i].alloc_count, TALLY_THREADS * TALLY_EACH / 100);
    }
    gs_samples_free(&samples);
}

Test(export_samples, a_tracker_without_a_tally_ignores_it)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x1000, 10);

    gs_tracker_tally(tracker, &allocation);
    cr_assert_null(tracker->tally);
}

/* What the snapshot of a job says; the test's own. */
static struct gs_sample samples_seen[8];
static size_t samples_count;

static void keep_samples(void *self, const struct gs_export *export,
                         struct gs_text *names)
{
    (void)self;
    (void)names;
    samples_count = export->sample_count;
    cr_assert_leq(samples_count, GS_ARRAY_LEN(samples_seen));
    memcpy(samples_seen, export->samples, samples_count * sizeof(*export->samples));
}

Test(export_samples, what_is_freed_stays_allocated)
{
    OWNED_TRACKER tracker = test_tally_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    struct gs_export_job job = test_job();
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    struct gs_allocation ordered = test_allocation(0x8000, 64);
    struct gs_text text = {0};

    job.write = keep_samples;
    config.job = &job;
    gs_tracker_tally(tracker, &allocation);
    gs_tracker_remove(tracker, test_add(tracker, &allocation, true), NULL);
    allocation.bytes = 100;
    gs_tracker_tally(tracker, &allocation);
    test_add(tracker, &allocation, true);
    ordered.kind = GS_MEMORY_ASYNC;
    ordered.stream = 0xabc;
    test_add(tracker, &ordered, false); /* as if there had been no memory to tally it */
    gs_report_write_from(tracker, &config, &source, &text, NULL);
    cr_assert_eq(samples_count, 2);
    cr_expect_eq(samples_seen[0].alloc_count, 2);
    cr_expect_eq(samples_seen[0].alloc_bytes, 612);
    cr_expect_eq(samples_seen[0].live_count, 1);
    cr_expect_eq(samples_seen[0].live_bytes, 100);
    cr_expect_eq(samples_seen[1].stream, 0xabc);
    cr_expect_eq(samples_seen[1].alloc_count, 1);
    cr_expect_eq(samples_seen[1].alloc_bytes, 64);
    cr_expect_eq(samples_seen[1].live_bytes, 64);
    cr_expect_null(strstr(text.data, "files written"), "no file was");
    gs_text_free(&text);
}

/* --- speed ----------------------------------------------------------------------------
 */

struct all_formats {
    struct test_bytes bytes[GS_EXPORT_FORMATS];
};

static void write_formats(void *self, const struct gs_export *export,
                          struct gs_text *names)
{
    struct all_formats *all = self;

    (void)names;
    for (unsigned row = 0; row < GS_EXPORT_FORMATS; row++) {
        struct gs_export_sink sink = {.write = test_bytes_write,
                                      .self = &all->bytes[row]};
        cr_assert_eq(gs_export_write(export, row, &sink), GS_OK);
    }
}

Test(export, a_hundred_thousand_live_allocations_take_less_than_a_second)
{
    enum { COUNT = 100000, PLACES = 5000 };
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tally_tracker(stacks);
    struct gs_symbolizer_config symbols = {.lines = false};
    struct gs_report_config config = test_report_config();
    struct gs_export_job job = test_job();
    struct all_formats all = {0};
    struct gs_text text = {0};
    struct timespec begin, end;
    static uint32_t ids[PLACES];

    for (uintptr_t i = 0; i < PLACES; i++)
        ids[i] = TEST_STACK(stacks, (uintptr_t)test_source + i % 16, 0x90000 + i,
                            (uintptr_t)test_add, (uintptr_t)test_totals,
                            (uintptr_t)gs_report_write);
    for (uint64_t i = 0; i < COUNT; i++) {
        struct gs_allocation allocation =
            test_allocation(0x7f0000000000 + i * 512, 512 + i % 100);
        allocation.stack = ids[i % PLACES];
        test_add(tracker, &allocation, true);
        gs_tracker_tally(tracker, &allocation);
    }
    cr_assert_eq(gs_symbolizer_create(&symbols, &config.symbolizer), GS_OK);
    job.write = write_formats;
    job.self = &all;
    config.job = &job;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    gs_report_write(tracker, &config, &text, NULL);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    double seconds =
        (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    cr_log_info("%.0f ms; %zu, %zu, %zu and %zu bytes", seconds * 1e3,
                all.bytes[0].length, all.bytes[1].length, all.bytes[2].length,
                all.bytes[3].length);
#ifdef __SANITIZE_ADDRESS__
    seconds /= 10; /* it takes ten times as long; what is quadratic, a thousand times */
#endif
    cr_assert_lt(seconds, 1.0);
    for (unsigned row = 0; row < GS_EXPORT_FORMATS; row++) {
        /* Records have as many leaks as the text. */
        bool has_all = gs_export_formats[row].stacks && !gs_export_formats[row].socket[0];

        cr_assert_gt(all.bytes[row].length, has_all ? 10 * PLACES : 0);
        free(all.bytes[row].data);
    }
    gs_text_free(&text);
    gs_symbolizer_destroy(config.symbolizer);
}
