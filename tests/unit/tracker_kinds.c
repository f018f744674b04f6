/*
 * tracker_kinds.c - proves what is counted apart from the devices, that handles are no
 * addresses, that a record can grow, and what the report makes of views and of registered
 * memory.
 */
#include <criterion/criterion.h>

#include "tracker_helpers.h"

static struct gs_allocation of_kind(uint64_t addr, uint64_t bytes,
                                    enum gs_memory_kind kind)
{
    struct gs_allocation allocation = test_allocation(addr, bytes);

    allocation.kind = (uint8_t)kind;
    return allocation;
}

static void add_kind(struct gs_tracker *tracker, uint64_t addr, uint64_t bytes,
                     enum gs_memory_kind kind)
{
    struct gs_allocation allocation = of_kind(addr, bytes, kind);

    test_add(tracker, &allocation, false);
}

static const struct {
    enum gs_memory_kind kind;
    int totals;
} counted[] = {
    {GS_MEMORY_DEVICE, 0},
    {GS_MEMORY_ASYNC, 0},
    {GS_MEMORY_MANAGED, 0},
    {GS_MEMORY_PHYSICAL, 0},
    {GS_MEMORY_ARRAY, 0},
    {GS_MEMORY_PINNED, GS_TOTALS_PINNED},
    {GS_MEMORY_PHYSICAL_HOST, GS_TOTALS_PINNED},
    {GS_MEMORY_REGISTERED, GS_TOTALS_REGISTERED},
    {GS_MEMORY_IMPORTED, GS_TOTALS_IMPORTED},
    {GS_MEMORY_MAPPED, GS_TOTALS_VIEWS},
    {GS_MEMORY_MULTICAST, GS_TOTALS_VIEWS},
};

Test(kinds, are_counted_with_the_device_or_apart)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(counted); i++) {
        struct gs_tracker *tracker = test_tracker(NULL);

        add_kind(tracker, 0x1000, 1000, counted[i].kind);
        for (int totals = GS_TOTALS_FIRST - 1; totals < 3; totals++)
            cr_expect_eq(test_totals(tracker, totals).live_bytes,
                         totals == counted[i].totals ? 1000 : 0, "kind %d, totals %d",
                         (int)counted[i].kind, totals);
        gs_tracker_destroy(tracker);
    }
}

Test(kinds, handles_are_no_addresses)
{
    static const enum gs_key_space spaces[] = {GS_KEY_ADDRESS, GS_KEY_ALLOCATION,
                                               GS_KEY_ARRAY, GS_KEY_EXTERNAL};
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation found;

    for (unsigned i = 0; i < 4; i++) {
        cr_expect_eq(gs_key_value(gs_key(spaces[i], 0x7f00aa00)), 0x7f00aa00);
        cr_expect_eq(gs_key_is_handle(gs_key(spaces[i], 0x7f00aa00)), i != 0);
        add_kind(tracker, gs_key(spaces[i], 0x7f00aa00), 100 + i, GS_MEMORY_DEVICE);
    }
    cr_expect_eq(test_totals(tracker, 0).live_count, 4);
    for (unsigned i = 0; i < 4; i++) {
        cr_assert_eq(gs_tracker_remove_address(tracker, gs_key(spaces[i], 0x7f00aa00),
                                               NULL, &found),
                     GS_OK);
        cr_expect_eq(found.bytes, 100 + i);
    }
}

static struct gs_error error_of(struct gs_tracker *tracker, uint64_t addr)
{
    struct gs_error errors[GS_ERRORS_KEPT];

    gs_tracker_error_free(tracker, addr, 0, NULL);
    size_t count = gs_errors_copy(tracker, errors);
    cr_assert_gt(count, 0);
    return errors[count - 1];
}

Test(kinds, nothing_lies_within_a_handle)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_error error;

    add_kind(tracker, gs_key(GS_KEY_ARRAY, 0x10000), GS_MIB, GS_MEMORY_ARRAY);
    error = error_of(tracker, gs_key(GS_KEY_ARRAY, 0x10040));
    cr_expect_eq(error.kind, GS_ERROR_INVALID_FREE);
    cr_expect_not(error.has_allocation);
    error = error_of(tracker, 0x10000);
    cr_expect_eq(error.kind, GS_ERROR_INVALID_FREE);
    cr_expect_not(error.has_allocation);
    error = error_of(tracker, gs_key(GS_KEY_ARRAY, 0x10000));
    cr_expect_eq(error.kind, GS_ERROR_DOUBLE_FREE, "it was given up, and is held");
    cr_expect(error.has_allocation);
}

Test(kinds, a_record_grows)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = of_kind(0x1000, 0, GS_MEMORY_IMPORTED), found;
    uint32_t id = test_add(tracker, &allocation, true);

    gs_tracker_grow(tracker, id, 3 * GS_MIB);
    gs_tracker_grow(tracker, id, GS_TRACKED_BYTES_MAX);
    cr_assert_eq(gs_tracker_find(tracker, 0x1000, &found), GS_OK);
    cr_expect_eq(found.bytes, 3 * GS_MIB, "what does not fit is dropped");
    cr_expect_eq(found.kind, GS_MEMORY_IMPORTED);
    cr_expect_eq(test_totals(tracker, GS_TOTALS_IMPORTED).live_bytes, 3 * GS_MIB);
    cr_expect_eq(test_totals(tracker, GS_TOTALS_IMPORTED).peak_bytes, 3 * GS_MIB);
    gs_tracker_remove(tracker, id, NULL);
    gs_tracker_grow(tracker, id, 1);
    gs_tracker_grow(tracker, 0, 1);
    gs_tracker_grow(NULL, id, 1);
    cr_expect_eq(test_totals(tracker, GS_TOTALS_IMPORTED).live_bytes, 0);
}

static char *report_of(struct gs_tracker *tracker, struct gs_report_summary *summary)
{
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    struct gs_text text = {0};

    gs_report_write_from(tracker, &config, &source, &text, summary);
    test_take_prefix_off(text.data);
    return text.data;
}

Test(kinds, views_leak_without_bytes_and_registered_memory_does_not)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_summary summary;

    add_kind(tracker, 0x1000, GS_MIB, GS_MEMORY_REGISTERED);
    add_kind(tracker, 0x2000, 2 * GS_MIB, GS_MEMORY_MAPPED);
    add_kind(tracker, 0x3000, 4 * GS_MIB, GS_MEMORY_IMPORTED);
    char *text = report_of(tracker, &summary);
    cr_expect_eq(summary.leaked_bytes, 4 * GS_MIB);
    cr_expect_eq(summary.leaked_count, 2);
    cr_expect_eq(summary.leak_groups, 2);
    cr_expect_str_eq(
        text,
        "gpushim 0.1.0: ./app --fast   host n07  10m00s  exit 0\n"
        "Registered host memory: 1.00 MiB still registered, peak 1.00 MiB at 1.00 s\n"
        "Imported memory: 4.00 MiB leaked at 1 call site, peak 4.00 MiB at 1.00 s\n"
        "Views of other memory: 0 B leaked at 1 call site, peak 2.00 MiB at 1.00 s\n"
        "\n"
        "REGISTERED 1: 1.00 MiB in 1 range\n"
        "  cuMemAlloc, registered host memory, age 9m59s, still registered at exit\n"
        "    no call stack was recorded\n"
        "\n"
        "LEAK 2: 2.00 MiB in 1 allocation (no memory of its own)\n"
        "  cuMemAlloc, mapping of imported memory, GPU 0, age 9m59s, live at exit\n"
        "    no call stack was recorded\n"
        "\n"
        "LEAK 1: 4.00 MiB in 1 allocation (100 % of leaked)\n"
        "  cuMemAlloc, imported memory, GPU 0, age 9m59s, live at exit\n"
        "    no call stack was recorded\n"
        "\n"
        "largest: 4.00 MiB leaked (no call stack was recorded)\n"
        "SUMMARY: gpushim: 0 errors, 4.00 MiB leaked in 2 allocations, 2 call sites\n");
    free(text);
}

Test(kinds, registered_memory_that_ends_with_its_context_is_not_told)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = of_kind(0x1000, GS_MIB, GS_MEMORY_REGISTERED);
    struct gs_report_summary summary;

    allocation.context = 7;
    test_add(tracker, &allocation, false);
    gs_tracker_lose_context(tracker, 7, 1u << GS_MEMORY_REGISTERED);
    char *text = report_of(tracker, &summary);
    cr_expect_eq(summary.leaked_count, 0);
    cr_expect_str_eq(text, "gpushim 0.1.0: ./app --fast   host n07  10m00s  exit 0\n"
                           "SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations, 0 "
                           "call sites\n");
    free(text);
}

Test(kinds, views_lost_with_their_context_have_no_bytes_either)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = of_kind(0x1000, GS_MIB, GS_MEMORY_MAPPED);
    struct gs_report_summary summary;

    allocation.context = 7;
    test_add(tracker, &allocation, false);
    gs_tracker_lose_context(tracker, 7, 1u << GS_MEMORY_MAPPED);
    char *text = report_of(tracker, &summary);
    cr_expect_eq(summary.leaked_bytes, 0);
    cr_expect_eq(summary.leaked_count, 1);
    cr_expect_null(strstr(text, "not grouped"));
    free(text);
}
