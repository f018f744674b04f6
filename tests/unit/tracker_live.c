/*
 * tracker_live.c - proves that the live map holds exactly what was added and not removed,
 * by id and by address, over growth, reuse and misuse.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tracker/tracker_internal.h"
#include "tracker_helpers.h"

static void expect_same(const struct gs_allocation *a, const struct gs_allocation *b)
{
    cr_expect_eq(a->addr, b->addr);
    cr_expect_eq(a->bytes, b->bytes);
    cr_expect_eq(a->context, b->context);
    cr_expect_eq(a->stream, b->stream);
    cr_expect_eq(a->time_ns, b->time_ns);
    cr_expect_eq(a->thread, b->thread);
    cr_expect_eq(a->stack, b->stack);
    cr_expect_eq(a->device, b->device);
    cr_expect_eq(a->api, b->api);
    cr_expect_eq(a->kind, b->kind);
    cr_expect_eq(a->lost, b->lost);
}

static const struct gs_allocation every_field = {.addr = UINT64_C(0xfedcba9876543210),
                                                 .bytes = UINT64_C(0x456789abcdef),
                                                 .context = UINT64_C(0xa1a2a3a4a5a6a7a8),
                                                 .stream = UINT64_C(0xb1b2b3b4b5b6b7b8),
                                                 .time_ns = UINT64_C(0x123456789) *
                                                            GS_TIME_UNIT_NS,
                                                 .thread = 0xd1d2d3d4,
                                                 .stack = 0xe1e2e3e4,
                                                 .device = -2,
                                                 .api = 0xf1f2,
                                                 .kind = GS_MEMORY_PINNED};

Test(tracker, keeps_every_field)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation found;

    for (int indexed = 0; indexed < 2; indexed++) {
        uint32_t id = test_add(tracker, &every_field, indexed);
        cr_assert_eq(gs_tracker_find(tracker, every_field.addr, &found), GS_OK);
        expect_same(&found, &every_field);
        if (indexed) {
            gs_tracker_remove(tracker, id, NULL);
        } else {
            memset(&found, 0xff, sizeof(found));
            cr_assert_eq(
                gs_tracker_remove_address(tracker, every_field.addr, NULL, &found),
                GS_OK);
            expect_same(&found, &every_field);
        }
        cr_assert_eq(gs_tracker_find(tracker, every_field.addr, &found),
                     GS_ERR_NOT_FOUND);
    }
}

/* A clock that says what it is told. */
static time_t told_s = 1000;

static int told_clock(clockid_t clock, struct timespec *now)
{
    cr_expect_eq(clock, CLOCK_MONOTONIC_COARSE);
    *now = (struct timespec){.tv_sec = told_s};
    return 0;
}

/* The parts in registers come to the same record, totals and history as the whole. */
Test(tracker, keeps_what_a_block_is_told_by_parts)
{
    static const char *const names[] = {"unknown", "cuMemAlloc", "cuMemFree"};
    const struct gs_tracker_config config = {
        .api_names = names, .api_count = 3, .free_history = 64, .clock = told_clock};
    struct gs_tracked_who who = {.thread = 0xd1d2d3d4, .stack = 0xe1e2e3e4};
    struct gs_tracked_how how = {.device = -2, .api = 1, .kind = GS_MEMORY_MANAGED};
    struct gs_allocation expected = every_field, found;
    struct gs_tracker *tracker;
    struct gs_former former;

    cr_assert_eq(gs_tracker_create(&config, &tracker), GS_OK);
    told_s += 5;
    uint32_t id = gs_tracker_add_block(tracker, every_field.addr, every_field.bytes,
                                       every_field.context, who, how);
    cr_assert_neq(id, 0);
    expected.stream = 0;
    expected.time_ns = UINT64_C(5000000000);
    expected.api = 1;
    expected.kind = GS_MEMORY_MANAGED;
    cr_assert_eq(gs_tracker_find(tracker, every_field.addr, &found), GS_OK);
    expect_same(&found, &expected);
    cr_expect_eq(test_totals(tracker, GS_MAX_DEVICES - 1).live_bytes, every_field.bytes);

    told_s += 2;
    gs_tracker_remove_block(tracker, id, 77, 2);
    cr_assert_eq(gs_tracker_find(tracker, every_field.addr, &found), GS_ERR_NOT_FOUND);
    cr_expect_eq(test_totals(tracker, GS_MAX_DEVICES - 1).live_bytes, 0);
    cr_assert(gs_history_get(tracker, every_field.addr, &former));
    cr_expect_eq(former.site.thread, 77);
    cr_expect_eq(former.site.api, 2);
    cr_expect_eq(former.site.time_ns, UINT64_C(7000000000));
    cr_expect_eq(former.allocation.thread, who.thread);

    gs_tracker_remove_block(tracker, id, 77, 2); /* no record's any more */
    gs_tracker_remove_block(tracker, 0, 77, 2);
    cr_expect_eq(test_totals(tracker, GS_MAX_DEVICES - 1).frees, 1);
    gs_tracker_destroy(tracker);
}

/* What cannot be recorded is counted, and leaves nothing behind. */
Test(tracker, refuses_a_block_of_more_bytes_than_there_are)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_tracked_how how = {
        .device = 0, .api = API_MEM_ALLOC, .kind = GS_MEMORY_DEVICE};
    struct gs_allocation found;

    cr_expect_eq(gs_tracker_add_block(tracker, 4096, GS_TRACKED_BYTES_MAX + 1, 7,
                                      (struct gs_tracked_who){1, 0}, how),
                 0);
    cr_expect_eq(gs_tracker_find(tracker, 4096, &found), GS_ERR_NOT_FOUND);
    cr_expect_eq(test_totals(tracker, 0).live_bytes, 0);
    cr_expect_eq(test_totals(tracker, 0).allocs, 1);
}

Test(tracker, refuses_bad_configurations)
{
    struct gs_tracker *tracker = (struct gs_tracker *)1;
    struct gs_tracker_config config = {.free_history = 3};

    cr_assert_eq(gs_tracker_create(NULL, &tracker), GS_ERR_INVALID);
    cr_assert_eq(gs_tracker_create(&config, NULL), GS_ERR_INVALID);
    cr_assert_eq(gs_tracker_create(&config, &tracker), GS_ERR_INVALID);
    config.free_history = (size_t)1 << 63;
    cr_assert_eq(gs_tracker_create(&config, &tracker), GS_ERR_INVALID);
    config.free_history = 0;
    config.api_count = 2;
    cr_assert_eq(gs_tracker_create(&config, &tracker), GS_ERR_INVALID);
    cr_assert_eq(tracker, (struct gs_tracker *)1, "written on failure");
}

Test(tracker, refuses_bad_allocations)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    uint32_t id = 77;

    cr_assert_eq(gs_tracker_add(NULL, &allocation, true, &id), GS_ERR_INVALID);
    cr_assert_eq(gs_tracker_add(tracker, NULL, true, &id), GS_ERR_INVALID);
    cr_assert_eq(gs_tracker_add(tracker, &allocation, true, NULL), GS_ERR_INVALID);
    allocation.kind = GS_MEMORY_KINDS;
    cr_assert_eq(gs_tracker_add(tracker, &allocation, true, &id), GS_ERR_INVALID);
    allocation.kind = GS_MEMORY_DEVICE;
    allocation.bytes = UINT64_MAX;
    cr_assert_eq(gs_tracker_add(tracker, &allocation, true, &id), GS_ERR_INVALID);
    allocation.bytes = GS_TRACKED_BYTES_MAX + 1;
    cr_assert_eq(gs_tracker_add(tracker, &allocation, true, &id), GS_ERR_INVALID);
    cr_assert_eq(id, 77, "written on failure");
    cr_assert_eq(gs_tracker_restore(tracker, NULL), GS_ERR_INVALID);
    cr_assert_eq(test_totals(tracker, 0).allocs, 0);
}

Test(tracker, ignores_null_and_unknown_ids)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    uint32_t id = test_add(tracker, &allocation, true);

    gs_tracker_remove(tracker, 0, NULL);
    gs_tracker_remove(tracker, id + 1, NULL);
    gs_tracker_remove(tracker, UINT32_MAX, NULL);
    gs_tracker_remove(NULL, id, NULL);
    gs_tracker_add_failed(NULL, 0, GS_MEMORY_DEVICE);
    gs_tracker_lose_context(NULL, 0xc0, ~0u);
    gs_tracker_error_free(NULL, 0x1000, 0, NULL);
    gs_tracker_destroy(NULL);
    cr_assert_eq(gs_tracker_now(NULL), 0);
    cr_assert_eq(gs_tracker_error_count(NULL), 0);
    cr_assert_eq(gs_tracker_remove_address(NULL, 0x1000, NULL, NULL), GS_ERR_INVALID);
    cr_assert_eq(gs_tracker_find(NULL, 0x1000, &allocation), GS_ERR_INVALID);
    cr_assert_eq(gs_tracker_find(tracker, 0x1000, NULL), GS_ERR_INVALID);
    cr_assert_eq(test_totals(tracker, 0).live_count, 1);
    cr_assert_eq(test_totals(tracker, 0).frees, 0);
}

Test(tracker, an_id_removed_twice_is_removed_once)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    uint32_t id = test_add(tracker, &allocation, true);

    gs_tracker_remove(tracker, id, NULL);
    gs_tracker_remove(tracker, id, NULL);
    cr_assert_eq(test_totals(tracker, 0).frees, 1);
    uint32_t first = test_add(tracker, &allocation, true);
    uint32_t second = test_add(tracker, &allocation, true);
    cr_assert_neq(first, second, "an id was handed out twice");
}

Test(tracker, an_address_record_is_not_removed_by_id)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    uint32_t id = test_add(tracker, &allocation, false);

    gs_tracker_remove(tracker, id, NULL);
    cr_assert_eq(gs_tracker_find(tracker, 0x1000, &allocation), GS_OK);
    cr_assert_eq(gs_tracker_remove_address(tracker, 0x1000, NULL, NULL), GS_OK);
    cr_assert_eq(gs_tracker_remove_address(tracker, 0x1000, NULL, NULL),
                 GS_ERR_NOT_FOUND);
}

Test(tracker, an_indexed_record_is_not_removed_by_address)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x1000, 512);

    test_add(tracker, &allocation, true);
    cr_assert_eq(gs_tracker_remove_address(tracker, 0x1000, NULL, NULL),
                 GS_ERR_NOT_FOUND);
    cr_assert_eq(test_totals(tracker, 0).live_count, 1);
}

Test(tracker, a_second_record_of_an_address_replaces_the_first)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    struct gs_allocation found;

    test_add(tracker, &allocation, false);
    allocation.bytes = 1024;
    test_add(tracker, &allocation, false);
    cr_assert_eq(test_totals(tracker, 0).live_count, 1);
    cr_assert_eq(test_totals(tracker, 0).live_bytes, 1024);
    cr_assert_eq(test_totals(tracker, 0).allocs, 2);
    cr_assert_eq(test_totals(tracker, 0).frees, 1);
    cr_assert_eq(gs_tracker_remove_address(tracker, 0x1000, NULL, &found), GS_OK);
    cr_assert_eq(found.bytes, 1024);
}

Test(tracker, restore_undoes_a_removal)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    struct gs_allocation taken;

    test_add(tracker, &allocation, false);
    struct gs_tracker_totals before = test_totals(tracker, 0);
    cr_assert_eq(gs_tracker_remove_address(tracker, 0x1000, NULL, &taken), GS_OK);
    cr_assert_eq(gs_tracker_restore(tracker, &taken), GS_OK);
    struct gs_tracker_totals after = test_totals(tracker, 0);
    cr_assert_eq(memcmp(&before, &after, sizeof(before)), 0);
    cr_assert_eq(gs_tracker_find(tracker, 0x1000, &taken), GS_OK);
    expect_same(&taken, &allocation);
}

Test(tracker, ids_are_dense_and_reused)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    uint32_t ids[1000];

    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 1000; i++) {
            struct gs_allocation allocation = test_allocation(0x1000 + i * 512, 512);
            ids[i] = test_add(tracker, &allocation, true);
            cr_assert_leq(ids[i], 1100);
            for (unsigned k = 0; k < i; k++)
                cr_assert_neq(ids[k], ids[i]);
        }
        for (unsigned i = 0; i < 1000; i++)
            gs_tracker_remove(tracker, ids[i], NULL);
    }
}

Test(tracker, a_million_live_records_keep_apart)
{
    enum { COUNT = 1000000 };
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation found;

    for (uint64_t i = 0; i < COUNT; i++) {
        struct gs_allocation allocation =
            test_allocation(0x7f0000000000 + i * 512, i + 1);
        test_add(tracker, &allocation, false);
    }
    cr_assert_eq(test_totals(tracker, 0).live_count, COUNT);
    for (uint64_t i = 0; i < COUNT; i += 3) {
        cr_assert_eq(
            gs_tracker_remove_address(tracker, 0x7f0000000000 + i * 512, NULL, &found),
            GS_OK);
        cr_assert_eq(found.bytes, i + 1);
    }
    for (uint64_t i = 0; i < COUNT; i += 9973) {
        enum gs_status status =
            gs_tracker_find(tracker, 0x7f0000000000 + i * 512, &found);
        if (i % 3 != 0) {
            cr_assert_eq(status, GS_OK);
            cr_assert_eq(found.bytes, i + 1);
        }
    }
    cr_assert_eq(test_totals(tracker, 0).live_count, COUNT - (COUNT + 2) / 3);
}

/* Resident bytes of this process. */
static long resident_bytes(void)
{
    long pages = 0, all = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    cr_assert_not_null(file);
    cr_assert_eq(fscanf(file, "%ld %ld", &all, &pages), 2);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
Test(tracker, a_live_record_costs_at_most_48_bytes)
{
    enum { COUNT = 500000 };
    OWNED_TRACKER tracker = test_tracker(NULL);
    long before = resident_bytes();

    for (uint64_t i = 0; i < COUNT; i++) {
        struct gs_allocation allocation = test_allocation(0x7f0000000000 + i * 512, 512);
        test_add(tracker, &allocation, false);
    }
    double each = (double)(resident_bytes() - before) / COUNT;
    cr_log_info("%.1f bytes a record", each);
    cr_assert_leq(each, 48.0);
    cr_assert_geq(each, 32.0, "the measurement is not one: %.1f", each);
}
#endif

Test(tracker, ten_million_pairs_leave_memory_flat)
{
    enum { WINDOW = 1024, PAIRS = 10000000, SETTLED = 1000000 };
    OWNED_TRACKER tracker = test_tracker(NULL);
    uint32_t ids[WINDOW] = {0};
    long settled = 0;

    for (uint64_t i = 0; i < PAIRS; i++) {
        struct gs_allocation allocation =
            test_allocation(0x7f0000000000 + (i % 65536) * 512, 512);
        if (i % 8 == 0) { /* removed by address, a while later */
            test_add(tracker, &allocation, false);
            if (i >= 4096)
                (void)!gs_tracker_remove_address(
                    tracker, 0x7f0000000000 + ((i - 4096) % 65536) * 512, NULL, NULL);
        } else {
            gs_tracker_remove(tracker, ids[i % WINDOW], NULL);
            ids[i % WINDOW] = test_add(tracker, &allocation, true);
        }
        if (i == SETTLED)
            settled = resident_bytes();
    }
    cr_assert_leq(resident_bytes() - settled, 256 * 1024);
    cr_assert_leq(test_totals(tracker, 0).live_count, WINDOW + 512);
}

Test(tracker, time_is_monotonic_and_starts_at_zero)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    uint64_t first = gs_tracker_now(tracker);

    cr_assert_lt(first, SECONDS(120));
    usleep(20000);
    uint64_t second = gs_tracker_now(tracker);
    cr_assert_geq(second - first, 10000000u);
    cr_assert_lt(second - first, SECONDS(120));

    allocation.time_ns = 0;
    test_add(tracker, &allocation, true);
    cr_assert_eq(gs_tracker_find(tracker, 0x1000, &allocation), GS_OK);
    cr_assert_geq(allocation.time_ns, second - second % GS_TIME_UNIT_NS);
    cr_assert_lt(allocation.time_ns, second + SECONDS(120));
}
