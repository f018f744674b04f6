/*
 * tracker_windows.c - proves that a tracker which is stopped knows nothing of what it was
 * not told, blames nobody for it, and takes off what it knew; when its windows were; and
 * that threads lose no count while it is switched.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tracker/peaks.h"
#include "tracker_export_helpers.h"

static struct timespec the_time;

static int given_clock(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = the_time;
    return 0;
}

static struct gs_tracker *tracker_at(bool stopped)
{
    static const char *const names[] = {"unknown", "cuMemAlloc"};
    struct gs_tracker_config config = {.api_names = names,
                                       .api_count = GS_ARRAY_LEN(names),
                                       .free_history = 4096,
                                       .clock = given_clock,
                                       .stopped = stopped};
    struct gs_tracker *tracker = NULL;

    the_time = (struct timespec){.tv_sec = 1000};
    cr_assert_eq(gs_tracker_create(&config, &tracker), GS_OK);
    return tracker;
}

static void switch_at(struct gs_tracker *tracker, unsigned seconds)
{
    the_time.tv_sec = 1000 + seconds;
    gs_tracker_switch(tracker);
}

static void expect_windows(struct gs_tracker *tracker, uint32_t count, bool open,
                           unsigned first_s, unsigned from_s, unsigned to_s)
{
    struct gs_tracker_windows windows;

    gs_tracker_get_windows(tracker, &windows);
    cr_expect_eq(windows.count, count);
    cr_expect_eq(windows.open, open);
    cr_expect_eq(gs_tracker_records(tracker), open);
    cr_expect_eq(windows.first_ns, SECONDS(first_s));
    cr_expect_eq(windows.from_ns, SECONDS(from_s));
    cr_expect_eq(windows.to_ns, SECONDS(to_s));
}

Test(windows, of_a_tracker_that_starts_stopped)
{
    OWNED_TRACKER tracker = tracker_at(true);

    expect_windows(tracker, 0, false, 0, 0, 0);
    switch_at(tracker, 2);
    expect_windows(tracker, 1, true, 2, 2, 0);
    switch_at(tracker, 5);
    expect_windows(tracker, 1, false, 2, 2, 5);
    for (unsigned i = 0; i < 40; i++)
        switch_at(tracker, 10 + i);
    expect_windows(tracker, 21, false, 2, 48, 49);
}

Test(windows, of_a_tracker_that_starts_recording)
{
    OWNED_TRACKER tracker = tracker_at(false);
    struct gs_tracker_windows windows;

    expect_windows(tracker, 1, true, 0, 0, 0);
    gs_tracker_get_windows(tracker, &windows);
    cr_expect_not(windows.switched);
    switch_at(tracker, 3);
    expect_windows(tracker, 1, false, 0, 0, 3);
    gs_tracker_get_windows(tracker, &windows);
    cr_expect(windows.switched);
    switch_at(tracker, 4);
    expect_windows(tracker, 2, true, 0, 4, 0);
}

static char *report(struct gs_tracker *tracker)
{
    struct gs_report_config config = test_report_config();

    return test_report_text(tracker, &config, NULL);
}

Test(windows, a_report_says_which_part_of_the_run_it_is_of)
{
    OWNED_TRACKER tracker = tracker_at(true);

    char *text = report(tracker);
    cr_expect_str_eq(
        text, "gpushim 0.1.0: ./app --fast   host n07  10m00s  exit 0\n"
              "nothing was recorded: tracking was never started "
              "(GPUSHIM_TRACK=later)\n"
              "SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations, 0 call sites\n");
    free(text);
    switch_at(tracker, 2);
    text = report(tracker);
    cr_expect_not_null(strstr(text, "recorded from 2.00 s on: allocations at other "
                                    "times are not included\n"));
    free(text);
    switch_at(tracker, 5);
    switch_at(tracker, 7);
    switch_at(tracker, 9);
    text = report(tracker);
    cr_expect_not_null(strstr(text,
                              "recorded 2 times, first from 2.00 s, last from 7.00 s to "
                              "9.00 s: allocations at other times"));
    free(text);
    struct test_bytes bytes =
        test_export(tracker, test_report_config(), GS_EXPORT_json, 0);
    cr_expect_not_null(strstr(bytes.data, "\"windows\": 2"));
    cr_expect_not_null(strstr(bytes.data, "\"to_ns\": 9000000000"));
    free(bytes.data);
}

/* The address was freed, and has an allocation since that nobody told of. */
Test(windows, a_former_allocation_is_not_blamed)
{
    OWNED_TRACKER tracker = tracker_at(false);
    struct gs_allocation allocation = test_allocation(0x1000, 64);
    struct gs_error errors[GS_ERRORS_KEPT];

    gs_tracker_remove(tracker, test_add(tracker, &allocation, true), NULL);
    gs_tracker_pass(tracker, 0x1000, true);
    gs_tracker_error_free(tracker, 0x1000, 0, NULL);
    cr_assert_eq(gs_errors_copy(tracker, errors), 1);
    cr_expect_eq(errors[0].kind, GS_ERROR_INVALID_FREE);
    cr_expect_not(errors[0].has_allocation);
}

/* A record by address whose free nobody saw: its memory is another's now. */
Test(windows, a_stale_record_by_address_goes)
{
    OWNED_TRACKER tracker = tracker_at(false);
    struct gs_allocation allocation = test_allocation(0x1000, 64);

    test_add(tracker, &allocation, false);
    gs_tracker_pass(tracker, 0x1000, false);
    cr_expect_eq(test_totals(tracker, 0).live_count, 0);
    cr_expect_eq(test_totals(tracker, 0).live_bytes, 0);
    cr_expect_eq(gs_tracker_remove_address(tracker, 0x1000, NULL, NULL),
                 GS_ERR_NOT_FOUND);
    gs_tracker_pass(NULL, 0x1000, false);
}

/* --- threads ---------------------------------------------------------------------------
 */

enum { THREADS = 4, TURNS = 30000, HELD = 16 };

static atomic_bool done;

static void *work(void *argument)
{
    struct gs_tracker *tracker = argument;
    static _Atomic unsigned number;
    uint64_t base = (uint64_t)(atomic_fetch_add(&number, 1) + 1) << 32;
    uint32_t ids[HELD] = {0};

    for (unsigned i = 0; i < TURNS; i++) {
        unsigned at = i * 7 % HELD;
        bool indexed = at % 2 == 0;
        struct gs_allocation allocation = test_allocation(base + at * 4096, 100 + at);
        uint32_t id = 0;

        if (indexed)
            gs_tracker_remove(tracker, ids[at], NULL); /* 0: it has no record */
        else
            (void)!gs_tracker_remove_address(tracker, allocation.addr, NULL, NULL);
        if (gs_tracker_records(tracker))
            cr_assert_eq(gs_tracker_add(tracker, &allocation, indexed, &id), GS_OK);
        else
            gs_tracker_pass(tracker, allocation.addr, indexed);
        ids[at] = id;
    }
    for (unsigned at = 0; at < HELD; at++) {
        if (at % 2 == 0)
            gs_tracker_remove(tracker, ids[at], NULL);
        else
            (void)!gs_tracker_remove_address(tracker, base + at * 4096, NULL, NULL);
    }
    return NULL;
}

static void *switch_often(void *tracker)
{
    while (!atomic_load(&done))
        gs_tracker_switch(tracker);
    return NULL;
}

Test(windows, threads_lose_no_count_while_it_is_switched)
{
    OWNED_TRACKER tracker = tracker_at(true);
    pthread_t threads[THREADS], switcher;

    cr_assert_eq(pthread_create(&switcher, NULL, switch_often, tracker), 0);
    for (unsigned i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, work, tracker), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&done, true);
    pthread_join(switcher, NULL);
    struct gs_tracker_totals totals = test_totals(tracker, 0);
    cr_expect_eq(totals.live_count, 0);
    cr_expect_eq(totals.live_bytes, 0);
    cr_expect_eq(totals.allocs, totals.frees);
    cr_expect_leq(totals.allocs, THREADS * TURNS);
    cr_expect_eq(gs_tracker_error_count(tracker), 0);
}

static void restart_at(struct gs_tracker *tracker, unsigned seconds, unsigned ran_s)
{
    the_time.tv_sec = 1000 + seconds;
    gs_tracker_restart(tracker, SECONDS(ran_s));
}

/* What was recorded may be freed and allocated anew, unseen. Alone sees a record, a sum,
 * a peak or an error that a restart keeps, and an id that is used again too early. */
Test(windows, a_restart_forgets_what_was_recorded)
{
    OWNED_TRACKER tracker = tracker_at(false);
    struct gs_allocation by_id = test_allocation(0x1000, 1 << 20);
    struct gs_allocation by_address = test_allocation(0x400000, 4096);
    struct gs_tracker_totals totals;

    uint32_t id = test_add(tracker, &by_id, true);
    test_add(tracker, &by_address, false);
    gs_tracker_error_free(tracker, 0x9000, 0, NULL);
    restart_at(tracker, 2, 7);
    totals = test_totals(tracker, 0);
    cr_expect_eq(totals.live_count, 0);
    cr_expect_eq(totals.live_bytes, 0);
    cr_expect_eq(totals.allocs + totals.frees, 0);
    cr_expect_eq(totals.peak_bytes, 0);
    cr_expect_eq(gs_tracker_error_count(tracker), 0);
    expect_windows(tracker, 1, true, 7, 7, 0);
    cr_expect_eq(gs_tracker_remove_address(tracker, 0x400000, NULL, NULL),
                 GS_ERR_NOT_FOUND);
    for (unsigned i = 0; i < 1000; i++) {
        cr_assert_neq(test_add(tracker, &by_id, true), id);
    }
    gs_tracker_remove(tracker, id, NULL);
    totals = test_totals(tracker, 0);
    cr_expect_eq(totals.live_count, 1000);
    cr_expect_eq(totals.peak_bytes, UINT64_C(1000) << 20);
    char *text = report(tracker);
    cr_expect_not_null(strstr(text,
                              "recorded from 7.00 s on (attached): memory allocated "
                              "before is not counted\n"));
    free(text);
    restart_at(tracker, 4, 30);
    expect_windows(tracker, 1, true, 9, 9, 0); /* the first restart set the clock */
    cr_expect_eq(test_totals(tracker, 0).live_count, 0);
    struct test_bytes bytes =
        test_export(tracker, test_report_config(), GS_EXPORT_json, 0);
    cr_expect_not_null(strstr(bytes.data, "\"attached\": true"));
    free(bytes.data);
}

/* Alone sees a second recording whose peaks, its own and that of a stretch, count from
 * the higher peak of the first one. */
Test(windows, a_restart_forgets_a_higher_peak)
{
    OWNED_TRACKER tracker = tracker_at(false);
    struct gs_allocation large = test_allocation(0x400000, 8 << 20);
    struct gs_allocation small = test_allocation(0x1000, 1 << 20);
    struct gs_stretch stretch;
    struct gs_peak peaks[GS_PEAK_ROWS];

    small.time_ns = SECONDS(8);
    gs_tracker_stretch_begin(tracker, &stretch);
    test_add(tracker, &large, false);
    cr_expect_eq(test_totals(tracker, 0).peak_bytes, 8 << 20);
    restart_at(tracker, 2, 7);
    cr_expect_eq(gs_tracker_stretch_peak(tracker, &stretch, 0), 0);
    uint32_t id = test_add(tracker, &small, true);
    gs_tracker_remove(tracker, id, NULL);
    cr_expect_eq(test_totals(tracker, 0).peak_bytes, 1 << 20);
    cr_expect_eq(test_totals(tracker, 0).peak_time_ns, SECONDS(8));
    cr_expect_eq(gs_tracker_stretch_peak(tracker, &stretch, 0), 1 << 20);
    gs_peaks_gather(tracker, 0, peaks);
    cr_assert(peaks[0].known && peaks[0].count == 1);
    cr_expect_eq(peaks[0].places[0].held.bytes, 1 << 20);
    for (unsigned i = 0; i < GS_PEAK_ROWS; i++) {
        gs_peak_free(&peaks[i]);
    }
    gs_tracker_stretch_end(tracker, &stretch);
}
