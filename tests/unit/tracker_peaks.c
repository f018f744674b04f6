/*
 * tracker_peaks.c - who held the memory when there was most of it: against a model that
 * copies everything at each new peak, under a clock that hardly moves.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_helpers.h"

static uint32_t add(struct gs_tracker *tracker, uint64_t addr, uint64_t bytes,
                    uint32_t stack, int device, bool indexed)
{
    struct gs_allocation allocation = {.addr = addr,
                                       .bytes = bytes,
                                       .context = 0xc0 + (uint64_t)device,
                                       .stack = stack,
                                       .device = (int16_t)device,
                                       .api = 1,
                                       .kind = GS_MEMORY_DEVICE};
    return test_add(tracker, &allocation, indexed);
}

static struct gs_peak peaks[GS_PEAK_ROWS];

static void gather(struct gs_tracker *tracker, unsigned part)
{
    for (unsigned i = 0; i < GS_PEAK_ROWS; i++)
        gs_peak_free(&peaks[i]);
    gs_peaks_gather(tracker, part, peaks);
}

/* Bytes of a place at the peak; *live: of these, now. */
static uint64_t held(const struct gs_peak *peak, uint32_t stack, uint64_t *live)
{
    uint64_t bytes = 0;

    *live = 0;
    for (size_t i = 0; i < peak->count; i++) {
        if (peak->places[i].held.stack != stack)
            continue;
        bytes += peak->places[i].held.bytes;
        *live += peak->places[i].live_bytes;
    }
    return bytes;
}

static void expect_held(struct gs_tracker *tracker, unsigned row, uint32_t stack,
                        uint64_t bytes, uint64_t live)
{
    uint64_t found_live, found;

    gather(tracker, 0);
    cr_assert(peaks[row].known);
    found = held(&peaks[row], stack, &found_live);
    cr_expect_eq(found, bytes, "stack %u: %llu, not %llu", stack,
                 (unsigned long long)found, (unsigned long long)bytes);
    cr_expect_eq(found_live, live);
    cr_expect_not(peaks[row].about);
}

Test(peaks, without_memory_there_is_none)
{
    OWNED_TRACKER tracker = test_slow_tracker();

    gather(tracker, 0);
    cr_expect_not(peaks[0].known);
    gs_tracker_add_failed(tracker, 0, GS_MEMORY_DEVICE);
    gather(tracker, 0);
    cr_expect_not(peaks[0].known);
}

Test(peaks, what_comes_after_it_was_not_there)
{
    OWNED_TRACKER tracker = test_slow_tracker();
    uint32_t first = add(tracker, 0x1000, 100, 1, 0, true);
    uint32_t second = add(tracker, 0x2000, 50, 2, 0, true);

    gs_tracker_remove(tracker, first, NULL);
    (void)add(tracker, 0x3000, 100, 3, 0, true); /* as much, and no more */
    expect_held(tracker, 0, 1, 100, 0);
    expect_held(tracker, 0, 2, 50, 50);
    expect_held(tracker, 0, 3, 0, 0);
    (void)add(tracker, 0x4000, 1, 4, 0, true); /* now there is more */
    expect_held(tracker, 0, 1, 0, 0);
    expect_held(tracker, 0, 2, 50, 50);
    expect_held(tracker, 0, 3, 100, 100);
    expect_held(tracker, 0, 4, 1, 1);
    gs_tracker_remove(tracker, second, NULL);
    expect_held(tracker, 0, 2, 50, 0);
}

Test(peaks, devices_and_pinned_memory_have_their_own)
{
    OWNED_TRACKER tracker = test_slow_tracker();
    struct gs_allocation pinned = {
        .addr = 0x9000, .bytes = 7, .stack = 9, .kind = GS_MEMORY_PINNED};
    uint32_t first = add(tracker, 0x1000, 100, 1, 0, true);
    uint32_t other = add(tracker, 0x2000, 10, 2, 3, true);

    (void)test_add(tracker, &pinned, true);
    gs_tracker_remove(tracker, first, NULL);
    (void)add(tracker, 0x3000, 20, 3, 3, true); /* on 3 there is more now */
    gs_tracker_remove(tracker, other, NULL);
    expect_held(tracker, 0, 1, 100, 0);
    expect_held(tracker, 0, 3, 0, 0);
    expect_held(tracker, 3, 2, 10, 0);
    expect_held(tracker, 3, 3, 20, 20);
    expect_held(tracker, GS_ROW_PINNED, 9, 7, 7);
}

Test(peaks, of_which_little_is_freed_are_left_out)
{
    OWNED_TRACKER tracker = test_slow_tracker();
    uint32_t id = add(tracker, 0x1000, 9, 1, 0, true);

    (void)add(tracker, 0x2000, 91, 2, 0, true);
    gather(tracker, 200); /* nothing is */
    cr_expect_not(peaks[0].known);
    gs_tracker_remove(tracker, id, NULL);
    gather(tracker, 10);
    cr_expect_not(peaks[0].known);
    gather(tracker, 12);
    cr_expect(peaks[0].known);
    cr_expect_eq(peaks[0].freed_bytes, 9);
}

Test(peaks, a_free_that_did_not_happen_is_taken_back)
{
    OWNED_TRACKER tracker = test_slow_tracker();
    struct gs_allocation was;

    (void)add(tracker, 0x1000, 100, 1, 0, false);
    (void)add(tracker, 0x2000, 100, 1, 0, false);
    cr_assert_eq(gs_tracker_remove_address(tracker, 0x1000, NULL, &was), GS_OK);
    expect_held(tracker, 0, 1, 200, 100);
    cr_assert_eq(gs_tracker_restore(tracker, &was), GS_OK);
    expect_held(tracker, 0, 1, 200, 200);
}

/* What was made behind the peak was not kept when it was freed: to take that back must
 * not take another one's. */
Test(peaks, of_what_came_later_nothing_is_taken_back)
{
    OWNED_TRACKER tracker = test_slow_tracker();
    struct gs_allocation was;

    (void)add(tracker, 0x1000, 100, 1, 0, false);
    (void)add(tracker, 0x2000, 100, 1, 0, false);
    cr_assert_eq(gs_tracker_remove_address(tracker, 0x1000, NULL, NULL), GS_OK);
    (void)add(tracker, 0x3000, 100, 1, 0, false);
    cr_assert_eq(gs_tracker_remove_address(tracker, 0x3000, NULL, &was), GS_OK);
    cr_assert_eq(gs_tracker_restore(tracker, &was), GS_OK);
    expect_held(tracker, 0, 1, 200, 100);
}

Test(peaks, what_dies_with_its_context_was_there)
{
    OWNED_TRACKER tracker = test_slow_tracker();

    (void)add(tracker, 0x1000, 100, 1, 0, true);
    (void)add(tracker, 0x2000, 30, 2, 0, false);
    gs_tracker_lose_context(tracker, 0xc0, UINT32_MAX);
    (void)add(tracker, 0x3000, 60, 3, 0, true);
    expect_held(tracker, 0, 1, 100, 0);
    expect_held(tracker, 0, 2, 30, 0);
    expect_held(tracker, 0, 3, 0, 0);
    cr_expect_eq(peaks[0].freed_bytes, 0, "it was lost");
    for (size_t i = 0; i < peaks[0].count; i++)
        cr_expect(peaks[0].places[i].held.lost);
}

/* More frees than a list holds, from more places than the table begins with. */
Test(peaks, all_of_many_frees_are_kept)
{
    enum { MANY = 30000, PLACES = 3000 };
    OWNED_TRACKER tracker = test_slow_tracker();
    uint32_t *ids = calloc(MANY, sizeof(*ids));

    for (int wave = 0; wave < 3; wave++) { /* each is a new peak */
        for (uint32_t i = 0; i < MANY; i++)
            ids[i] = add(tracker, 0x10000 + i * 512, (uint64_t)(512 + wave),
                         1 + i % PLACES + (uint32_t)wave, 0, true);
        for (uint32_t i = 0; i < MANY; i++)
            gs_tracker_remove(tracker, ids[i], NULL);
        test_now_ns += 4000000;
    }
    expect_held(tracker, 0, 1 + 2 + 7, (uint64_t)514 * MANY / PLACES, 0);
    expect_held(tracker, 0, 1, 0, 0);
    cr_expect_eq(peaks[0].bytes, 514 * (uint64_t)MANY);
    cr_expect_eq(peaks[0].freed_bytes, peaks[0].bytes);
    cr_expect_eq(peaks[0].count, PLACES);
    cr_expect_lt(tracker->since.count, 3 * PLACES, "peaks that are over stay");
    free(ids);
}

/* Peaks and frees by turns, faster than any clock: times do not run away, and the places
 * say that they are about right. */
Test(peaks, times_do_not_run_away)
{
    OWNED_TRACKER tracker = test_slow_tracker();
    struct gs_allocation last;
    uint32_t held_id = add(tracker, 0x1000, 1, 1, 0, true);

    for (uint32_t i = 2; i < 200000; i++) {
        uint32_t next = add(tracker, 0x1000 + i * 512, i, 1, 0, true);
        gs_tracker_remove(tracker, held_id, NULL);
        held_id = next;
    }
    cr_assert_eq(gs_tracker_find(tracker, 0x1000 + 199999u * 512, &last), GS_OK);
    cr_expect_leq(last.time_ns, gs_tracker_now(tracker) + 5000000);
    (void)add(tracker, 0x800, 7, 2, 0, true); /* behind the peak, and not told from it */
    gather(tracker, 0);
    cr_expect_eq(peaks[0].bytes, 199999 + 199998);
    cr_expect(peaks[0].about);
    cr_expect_leq(peaks[0].freed_bytes, peaks[0].bytes);
}

/* A device whose peaks are like that says nothing of another's. */
Test(peaks, of_one_device_do_not_spoil_anothers)
{
    OWNED_TRACKER tracker = test_slow_tracker();
    uint32_t held_id = add(tracker, 0x1000, 1, 1, 0, true), first;

    for (uint32_t i = 2; i < 1000; i++) {
        uint32_t next = add(tracker, 0x1000 + i * 512, i, 1, 0, true);
        gs_tracker_remove(tracker, held_id, NULL);
        held_id = next;
    }
    first = add(tracker, 0x800000, 1000, 2, 1, true);
    (void)add(tracker, 0x900000, 500, 3, 1, true);
    gs_tracker_remove(tracker, first, NULL);
    (void)add(tracker, 0xa00000, 400, 4, 1, true);
    expect_held(tracker, 1, 2, 1000, 0);
    expect_held(tracker, 1, 3, 500, 500);
    expect_held(tracker, 1, 4, 0, 0);
}

/* ---- against a model ------------------------------------------------------------------
 */

#define PLACES 6
#define LIVE   900

static uint64_t random_state;

static uint32_t next_random(uint32_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 20) % below;
}

static void against_model(uint64_t seed)
{
    static struct {
        uint32_t id, place;
        uint64_t addr, bytes;
        bool indexed;
    } live[LIVE];
    OWNED_TRACKER tracker = test_slow_tracker();
    uint64_t now_held[PLACES] = {0}, at_peak[PLACES] = {0}, all = 0, most = 0, live_now;
    uint32_t count = 0;

    random_state = seed * 0x9e3779b97f4a7c15u + 1;
    for (uint64_t step = 0; step < 8000; step++) {
        uint32_t aim = 50 + (uint32_t)(step / 1000) * 100 + next_random(100);

        if (next_random(50) == 0)
            test_now_ns += 4000000;
        if (count < LIVE && (count == 0 || count < aim)) {
            uint32_t place = next_random(PLACES);
            live[count].place = place;
            live[count].bytes = 1 + next_random(5000);
            live[count].addr = 0x100000 + step * 512;
            live[count].indexed = next_random(2) == 0;
            live[count].id = add(tracker, live[count].addr, live[count].bytes, place + 1,
                                 0, live[count].indexed);
            now_held[place] += live[count].bytes;
            all += live[count++].bytes;
        } else {
            uint32_t gone = next_random(count);
            if (live[gone].indexed)
                gs_tracker_remove(tracker, live[gone].id, NULL);
            else
                cr_assert_eq(
                    gs_tracker_remove_address(tracker, live[gone].addr, NULL, NULL),
                    GS_OK);
            now_held[live[gone].place] -= live[gone].bytes;
            all -= live[gone].bytes;
            live[gone] = live[--count];
        }
        if (all > most) {
            most = all;
            memcpy(at_peak, now_held, sizeof(at_peak));
        }
        if (step % 500 != 499)
            continue;
        gather(tracker, 0);
        cr_expect_eq(peaks[0].bytes, most);
        cr_expect_not(peaks[0].about, "seed %llu, step %llu", (unsigned long long)seed,
                      (unsigned long long)step);
        for (uint32_t i = 0; i < PLACES; i++)
            cr_expect_eq(held(&peaks[0], i + 1, &live_now), at_peak[i]);
    }
}

Test(peaks, as_a_model_says)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        against_model(seed);
}

/* ---- threads --------------------------------------------------------------------------
 */

static struct gs_tracker *shared_tracker;

static void *come_and_go(void *arg)
{
    uint32_t number = (uint32_t)(uintptr_t)arg, ids[1200];

    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < 1200; i++)
            ids[i] = add(shared_tracker, (uint64_t)number << 32 | i * 512, 512 + round,
                         number, 0, true);
        for (uint32_t i = 0; i < 1200; i++)
            gs_tracker_remove(shared_tracker, ids[i], NULL);
    }
    return NULL;
}

/* Reports while threads go on, whose lists go to the table meanwhile: no place holds more
 * than its thread ever did. */
Test(peaks, are_read_while_threads_go_on)
{
    pthread_t threads[4];
    uint64_t live;

    shared_tracker = test_slow_tracker();
    for (uintptr_t i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, come_and_go, (void *)(i + 1)), 0);
    for (int i = 0; i < 100; i++) {
        gather(shared_tracker, 0);
        cr_expect_leq(peaks[0].freed_bytes, peaks[0].bytes);
        for (uint32_t k = 1; k <= 4; k++)
            cr_expect_leq(held(&peaks[0], k, &live), (uint64_t)1200 * 551);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    gather(shared_tracker, 0);
    for (uint32_t k = 1; k <= 4; k++)
        cr_expect_leq(held(&peaks[0], k, &live), (uint64_t)1200 * 551);
    gs_tracker_destroy(shared_tracker);
}
