/*
 * tracker_lost.c - proves that a context's death takes its live allocations, of the kinds
 * named and no others, that they are remembered in groups, and that ids stay safe.
 */
#include <criterion/criterion.h>

#include "tracker_helpers.h"

#define DEVICE_KINDS (1u << GS_MEMORY_DEVICE)
#define ALL_KINDS    ((1u << GS_MEMORY_KINDS) - 1)

static uint32_t add_in(struct gs_tracker *tracker, uint64_t context, uint64_t addr,
                       unsigned kind, bool indexed)
{
    struct gs_allocation allocation = test_allocation(addr, 512);

    allocation.context = context;
    allocation.kind = (uint8_t)kind;
    return test_add(tracker, &allocation, indexed);
}

Test(lost, only_the_context_and_its_kinds)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation found;

    add_in(tracker, 1, 0x1000, GS_MEMORY_DEVICE, true);
    add_in(tracker, 1, 0x2000, GS_MEMORY_DEVICE, false);
    add_in(tracker, 1, 0x3000, GS_MEMORY_ASYNC, false);
    add_in(tracker, 1, 0x4000, GS_MEMORY_PINNED, false);
    add_in(tracker, 2, 0x5000, GS_MEMORY_DEVICE, true);
    gs_tracker_lose_context(tracker, 1, DEVICE_KINDS | 1u << GS_MEMORY_PINNED);

    cr_assert_eq(gs_tracker_find(tracker, 0x1000, &found), GS_ERR_NOT_FOUND);
    cr_assert_eq(gs_tracker_find(tracker, 0x2000, &found), GS_ERR_NOT_FOUND);
    cr_assert_eq(gs_tracker_find(tracker, 0x3000, &found), GS_OK);
    cr_assert_eq(gs_tracker_find(tracker, 0x4000, &found), GS_ERR_NOT_FOUND);
    cr_assert_eq(gs_tracker_find(tracker, 0x5000, &found), GS_OK);
    struct gs_tracker_totals totals = test_totals(tracker, 0);
    cr_assert_eq(totals.lost_bytes, 1024);
    cr_assert_eq(totals.lost_count, 2);
    cr_assert_eq(totals.live_bytes, 1024);
    cr_assert_eq(totals.live_count, 2);
    cr_assert_eq(totals.frees, 0);
    cr_assert_eq(test_totals(tracker, -1).lost_count, 1);
    cr_assert_eq(test_totals(tracker, -1).live_count, 0);
}

Test(lost, an_unknown_context_loses_nothing)
{
    OWNED_TRACKER tracker = test_tracker(NULL);

    gs_tracker_lose_context(tracker, 9, ALL_KINDS);
    add_in(tracker, 1, 0x1000, GS_MEMORY_DEVICE, true);
    gs_tracker_lose_context(tracker, 9, ALL_KINDS);
    gs_tracker_lose_context(tracker, 1, 0);
    cr_assert_eq(test_totals(tracker, 0).live_count, 1);
    cr_assert_eq(test_totals(tracker, 0).lost_count, 0);
}

Test(lost, a_late_remove_by_id_hits_nobody)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    uint32_t late = add_in(tracker, 1, 0x1000, GS_MEMORY_DEVICE, true);

    gs_tracker_lose_context(tracker, 1, ALL_KINDS);
    for (unsigned i = 0; i < 1000; i++)
        cr_assert_neq(add_in(tracker, 2, 0x2000 + i * 512, GS_MEMORY_DEVICE, true), late,
                      "the id has a new allocation too early");
    gs_tracker_remove(tracker, late, NULL);
    cr_assert_eq(test_totals(tracker, 0).live_count, 1000);
    cr_assert_eq(test_totals(tracker, 0).frees, 0);
    cr_assert_eq(test_totals(tracker, 0).lost_count, 1);
}

Test(lost, groups_add_up)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x1000, 100);

    allocation.stack = 5;
    for (unsigned i = 0; i < 10; i++) {
        allocation.addr += 512;
        allocation.time_ns = SECONDS(20 - i);
        test_add(tracker, &allocation, i % 2 == 0);
    }
    gs_tracker_lose_context(tracker, 0xc0, ALL_KINDS);
    cr_assert_eq(tracker->lost.count, 1);
    const struct gs_group *group = &tracker->lost.items[0];
    cr_assert_eq(group->stack, 5);
    cr_assert_eq(group->lost, 1);
    cr_assert_eq(group->bytes, 1000);
    cr_assert_eq(group->count, 10);
    cr_assert_eq(group->oldest_ns, SECONDS(11));
    cr_assert_eq(group->newest_ns, SECONDS(20));
}

Test(lost, a_free_afterwards_is_explained)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_error errors[GS_ERRORS_KEPT];

    add_in(tracker, 1, 0x7f0000001000, GS_MEMORY_DEVICE, true);
    gs_tracker_lose_context(tracker, 1, ALL_KINDS);
    gs_tracker_error_free(tracker, 0x7f0000001000, 0, NULL);
    cr_assert_eq(gs_errors_copy(tracker, errors), 1);
    cr_assert_eq(errors[0].kind, GS_ERROR_INVALID_FREE);
    cr_assert(errors[0].context_lost);
    cr_assert_eq(errors[0].allocation.bytes, 512);
}

Test(lost, resets_in_a_loop_need_no_more_records)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    uint32_t highest = 0;

    for (uint64_t context = 1; context <= 1000; context++) {
        for (unsigned i = 0; i < 100; i++) {
            uint32_t id =
                add_in(tracker, context, 0x1000 + i * 512, GS_MEMORY_DEVICE, i % 2 == 0);
            highest = id > highest ? id : highest;
        }
        gs_tracker_lose_context(tracker, context, ALL_KINDS);
    }
    cr_assert_leq(highest, 1000);
    cr_assert_eq(tracker->lost.count, 1);
    cr_assert_eq(test_totals(tracker, 0).lost_count, 100000);
    cr_assert_eq(test_totals(tracker, 0).live_count, 0);
}
