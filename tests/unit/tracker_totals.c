/*
 * tracker_totals.c - proves the counters of each device, the peak and its time.
 */
#include <criterion/criterion.h>
#include <pthread.h>

#include "tracker_helpers.h"

static uint32_t add_at(struct gs_tracker *tracker, uint64_t addr, uint64_t bytes,
                       uint64_t time_ns)
{
    struct gs_allocation allocation = test_allocation(addr, bytes);

    allocation.time_ns = time_ns;
    return test_add(tracker, &allocation, true);
}

Test(totals, an_unused_device_has_none)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_tracker_totals none = {0}, got = test_totals(tracker, 3);

    cr_assert_eq(memcmp(&none, &got, sizeof(got)), 0);
    gs_tracker_get_totals(tracker, 0, NULL);
    got.allocs = 1;
    gs_tracker_get_totals(NULL, 0, &got);
    cr_assert_eq(memcmp(&none, &got, sizeof(got)), 0);
}

Test(totals, follow_each_allocation_and_free)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    uint32_t a = add_at(tracker, 0x1000, 100, SECONDS(1));
    uint32_t b = add_at(tracker, 0x2000, 30, SECONDS(2));
    struct gs_free_site site = {.time_ns = SECONDS(3)};

    gs_tracker_remove(tracker, a, &site);
    struct gs_tracker_totals totals = test_totals(tracker, 0);
    cr_assert_eq(totals.allocs, 2);
    cr_assert_eq(totals.frees, 1);
    cr_assert_eq(totals.live_bytes, 30);
    cr_assert_eq(totals.live_count, 1);
    cr_assert_eq(totals.peak_bytes, 130);
    cr_assert_eq(totals.peak_time_ns, SECONDS(2));
    gs_tracker_remove(tracker, b, &site);
    totals = test_totals(tracker, 0);
    cr_assert_eq(totals.live_bytes, 0);
    cr_assert_eq(totals.frees, 2);
    cr_assert_eq(totals.peak_bytes, 130);
}

Test(totals, peak_is_exact_under_one_thread)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_free_site site = {.time_ns = SECONDS(1)};
    uint64_t live = 0, peak = 0, peak_time = 0, sizes[64] = {0};
    uint32_t ids[64] = {0};
    unsigned seed = 12345;

    for (unsigned i = 0; i < 100000; i++) {
        seed = seed * 1103515245u + 12345u;
        unsigned slot = (seed >> 16) % 64;
        /* Many operations in one step of the clock, as in life; now and then a new one.
         */
        site.time_ns = SECONDS(1) + i / 100;
        if (ids[slot] != 0) {
            gs_tracker_remove(tracker, ids[slot], &site);
            live -= sizes[slot];
            ids[slot] = 0;
            continue;
        }
        sizes[slot] = seed % 100000;
        ids[slot] = add_at(tracker, 0x1000 + slot * 512, sizes[slot], site.time_ns);
        live += sizes[slot];
        if (live > peak) {
            peak = live;
            peak_time = site.time_ns;
        }
        if (i % 1000 == 0)
            cr_assert_eq(test_totals(tracker, 0).peak_bytes, peak);
    }
    struct gs_tracker_totals totals = test_totals(tracker, 0);
    cr_assert_eq(totals.live_bytes, live);
    cr_assert_eq(totals.peak_bytes, peak);
    cr_assert_eq(totals.peak_time_ns, peak_time);
}

Test(totals, peak_time_is_the_first_time)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_free_site site = {.time_ns = SECONDS(2)};
    uint32_t id = add_at(tracker, 0x1000, 100, SECONDS(1));

    gs_tracker_remove(tracker, id, &site);
    add_at(tracker, 0x1000, 100, SECONDS(3));
    cr_assert_eq(test_totals(tracker, 0).peak_time_ns, SECONDS(1));
}

Test(totals, devices_are_counted_apart)
{
    OWNED_TRACKER tracker = test_tracker(NULL);

    for (int device = 0; device < 4; device++) {
        struct gs_allocation allocation =
            test_allocation(0x1000 * (1 + (uint64_t)device), 10u + (unsigned)device);
        allocation.device = (int16_t)device;
        test_add(tracker, &allocation, true);
    }
    for (int device = 0; device < 4; device++) {
        cr_assert_eq(test_totals(tracker, device).live_bytes, 10u + (unsigned)device);
        cr_assert_eq(test_totals(tracker, device).peak_bytes, 10u + (unsigned)device);
    }
}

Test(totals, pinned_memory_is_no_device_memory)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x1000, 77);

    allocation.kind = GS_MEMORY_PINNED;
    test_add(tracker, &allocation, false);
    cr_assert_eq(test_totals(tracker, 0).live_bytes, 0);
    cr_assert_eq(test_totals(tracker, -1).live_bytes, 77);
    allocation = test_allocation(0x2000, 5);
    allocation.kind = GS_MEMORY_MANAGED;
    test_add(tracker, &allocation, false);
    allocation = test_allocation(0x3000, 6);
    allocation.kind = GS_MEMORY_ASYNC;
    test_add(tracker, &allocation, false);
    cr_assert_eq(test_totals(tracker, 0).live_bytes, 11);
}

Test(totals, device_ordinals_out_of_range_share_the_last_row)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    static const int16_t ordinals[] = {GS_MAX_DEVICES - 1, GS_MAX_DEVICES, 32767, -5};

    for (unsigned i = 0; i < GS_ARRAY_LEN(ordinals); i++) {
        struct gs_allocation allocation = test_allocation(0x1000 + i * 512, 1);
        allocation.device = ordinals[i];
        test_add(tracker, &allocation, true);
    }
    gs_tracker_add_failed(tracker, 1000000, GS_MEMORY_DEVICE);
    cr_assert_eq(test_totals(tracker, GS_MAX_DEVICES - 1).live_bytes, 4);
    cr_assert_eq(test_totals(tracker, GS_MAX_DEVICES + 9).live_bytes, 4);
    cr_assert_eq(test_totals(tracker, GS_MAX_DEVICES).failed, 1);
    cr_assert_eq(test_totals(tracker, -1).live_bytes, 0);
}

Test(totals, failures_are_counted_by_kind)
{
    OWNED_TRACKER tracker = test_tracker(NULL);

    gs_tracker_add_failed(tracker, 2, GS_MEMORY_DEVICE);
    gs_tracker_add_failed(tracker, 2, GS_MEMORY_MANAGED);
    gs_tracker_add_failed(tracker, 2, GS_MEMORY_PINNED);
    cr_assert_eq(test_totals(tracker, 2).failed, 2);
    cr_assert_eq(test_totals(tracker, 2).allocs, 0);
    cr_assert_eq(test_totals(tracker, -1).failed, 1);
}

/* --- several threads ------------------------------------------------------------------
 */

struct turn {
    struct gs_tracker *tracker;
    uint64_t time_ns;
};

static void *take_turn(void *arg)
{
    struct turn *turn = arg;
    struct gs_free_site site = {.time_ns = turn->time_ns};

    for (int i = 0; i < 2; i++) { /* from the second on it has credit to spare */
        uint32_t id = add_at(turn->tracker, 0x1000, 1000, turn->time_ns);
        gs_tracker_remove(turn->tracker, id, &site);
    }
    return NULL;
}

static void run_turns(struct gs_tracker *tracker, unsigned count, uint64_t step_ns)
{
    struct turn turn = {.tracker = tracker};
    pthread_t thread;

    for (unsigned i = 0; i < count; i++) {
        turn.time_ns = SECONDS(1) + i * step_ns;
        cr_assert_eq(pthread_create(&thread, NULL, take_turn, &turn), 0);
        cr_assert_eq(pthread_join(thread, NULL), 0);
    }
}

Test(totals, threads_that_take_turns_have_the_peak_of_one)
{
    OWNED_TRACKER tracker = test_tracker(NULL);

    run_turns(tracker, 16, 0); /* all within one step of the clock */
    cr_assert_eq(test_totals(tracker, 0).peak_bytes, 1000);
}

Test(totals, credit_of_idle_threads_expires)
{
    OWNED_TRACKER tracker = test_tracker(NULL);

    run_turns(tracker, 16, SECONDS(1));
    cr_assert_eq(test_totals(tracker, 0).peak_bytes, 1000);
}

Test(totals, a_new_step_of_the_clock_gives_credit_back)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_free_site site = {.time_ns = SECONDS(1)};

    for (int i = 0; i < 2; i++)
        gs_tracker_remove(tracker, add_at(tracker, 0x1000, 1000, SECONDS(1)), &site);
    cr_assert_eq(tracker->shared[0].credit, 1000, "a pair within a step is not shared");
    add_at(tracker, 0x1000, 10, SECONDS(2));
    cr_assert_eq(tracker->shared[0].credit, 10);
    cr_assert_eq(test_totals(tracker, 0).peak_bytes, 1000);
}

static void *free_it(void *arg)
{
    struct turn *turn = arg;
    struct gs_free_site site = {.time_ns = turn->time_ns};

    cr_assert_eq(gs_tracker_remove_address(turn->tracker, 0x1000, &site, NULL), GS_OK);
    return NULL;
}

Test(totals, another_thread_may_free)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct turn turn = {.tracker = tracker, .time_ns = SECONDS(1)};
    pthread_t thread;

    for (unsigned i = 0; i < 200; i++) {
        struct gs_allocation allocation = test_allocation(0x1000, 1000);
        allocation.time_ns = turn.time_ns;
        test_add(tracker, &allocation, false);
        cr_assert_eq(test_totals(tracker, 0).live_bytes, 1000);
        cr_assert_eq(pthread_create(&thread, NULL, free_it, &turn), 0);
        cr_assert_eq(pthread_join(thread, NULL), 0);
        cr_assert_eq(test_totals(tracker, 0).live_bytes, 0);
    }
    cr_assert_eq(test_totals(tracker, 0).peak_bytes, 1000);
}
