/*
 * tracker_errors.c - proves that a wrong free is told apart from the others, keeps what
 * the report needs, and never blames a former allocation of the address.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracker_helpers.h"

static const struct gs_free_site first_free = {
    .time_ns = SECONDS(2), .thread = 200, .stack = 7, .api = API_MEM_FREE};
static const struct gs_free_site wrong_free = {
    .time_ns = SECONDS(3), .thread = 300, .stack = 8, .api = API_MEM_FREE};

/* One from another place. */
static const struct gs_free_site *wrong_free_at(uint32_t stack)
{
    static struct gs_free_site site;

    site = wrong_free;
    site.stack = stack;
    return &site;
}

/* The last error made; there must be exactly `count`. */
static struct gs_error last_error(struct gs_tracker *tracker, size_t count)
{
    struct gs_error errors[GS_ERRORS_KEPT];

    cr_assert_eq(gs_tracker_error_count(tracker), count);
    cr_assert_eq(gs_errors_copy(tracker, errors), count);
    return errors[count - 1];
}

static void expect_site(const struct gs_free_site *a, const struct gs_free_site *b)
{
    cr_expect_eq(a->time_ns, b->time_ns);
    cr_expect_eq(a->thread, b->thread);
    cr_expect_eq(a->stack, b->stack);
    cr_expect_eq(a->api, b->api);
}

Test(errors, a_double_free_knows_both_sites)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x7f0000001000, 512);

    for (int indexed = 0; indexed < 2; indexed++) {
        allocation.addr += 512;
        allocation.stack = 9;
        uint32_t id = test_add(tracker, &allocation, indexed);
        if (indexed)
            gs_tracker_remove(tracker, id, &first_free);
        else
            cr_assert_eq(
                gs_tracker_remove_address(tracker, allocation.addr, &first_free, NULL),
                GS_OK);
        struct gs_free_site site = *wrong_free_at(8 + (uint32_t)indexed);
        gs_tracker_error_free(tracker, allocation.addr, 0, &site);
        struct gs_error error = last_error(tracker, (size_t)indexed + 1);
        cr_assert_eq(error.kind, GS_ERROR_DOUBLE_FREE);
        cr_assert_eq(error.addr, allocation.addr);
        cr_assert(error.has_allocation && error.has_first_free && !error.context_lost);
        cr_assert_eq(error.allocation.bytes, 512);
        cr_assert_eq(error.allocation.stack, 9);
        cr_assert_eq(error.allocation.time_ns, SECONDS(1));
        expect_site(&error.freed, &site);
        expect_site(&error.first_freed, &first_free);
        cr_assert_str_eq(error.thread_name, "", "a thread that is not this one");
    }
}

Test(errors, an_unknown_address_is_an_invalid_free)
{
    OWNED_TRACKER tracker = test_tracker(NULL);

    gs_tracker_error_free(tracker, 0xdead000, 5, &wrong_free);
    struct gs_error error = last_error(tracker, 1);
    cr_assert_eq(error.kind, GS_ERROR_INVALID_FREE);
    cr_assert_eq(error.device, 5);
    cr_assert_not(error.has_allocation);
    cr_assert_not(error.has_first_free);
    cr_assert_eq(error.offset, 0);
    gs_tracker_error_free(tracker, 0, -1, NULL);
    cr_assert_eq(last_error(tracker, 2).kind, GS_ERROR_INVALID_FREE);
}

Test(errors, an_interior_address_names_its_allocation)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x7f0000001000, 512);
    struct gs_error error;

    test_add(tracker, &allocation, true);
    allocation.addr += 4096;
    test_add(tracker, &allocation, false);
    gs_tracker_error_free(tracker, 0x7f0000001000 + 1, 0, wrong_free_at(1));
    error = last_error(tracker, 1);
    cr_assert_eq(error.kind, GS_ERROR_INVALID_FREE);
    cr_assert_eq(error.offset, 1);
    cr_assert_eq(error.allocation.addr, 0x7f0000001000);
    gs_tracker_error_free(tracker, 0x7f0000002000 + 511, 0, wrong_free_at(2));
    cr_assert_eq(last_error(tracker, 2).offset, 511);
    gs_tracker_error_free(tracker, 0x7f0000002000 + 512, 0, wrong_free_at(3));
    error = last_error(tracker, 3);
    cr_assert_eq(error.offset, 0);
    cr_assert_not(error.has_allocation);
    gs_tracker_error_free(tracker, 0x7f0000001000 - 1, 0, wrong_free_at(4));
    cr_assert_not(last_error(tracker, 4).has_allocation);
}

Test(errors, a_live_address_was_freed_by_the_wrong_call)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x7f0000001000, 512);

    allocation.kind = GS_MEMORY_PINNED;
    test_add(tracker, &allocation, false);
    gs_tracker_error_free(tracker, 0x7f0000001000, 0, &wrong_free);
    struct gs_error error = last_error(tracker, 1);
    cr_assert_eq(error.kind, GS_ERROR_MISMATCHED_FREE);
    cr_assert_eq(error.allocation.kind, GS_MEMORY_PINNED);
}

Test(errors, a_new_allocation_clears_the_history)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x7f0000001000, 512);

    uint32_t id = test_add(tracker, &allocation, true);
    gs_tracker_remove(tracker, id, &first_free);
    allocation.bytes = 1024;
    test_add(tracker, &allocation, true);
    gs_tracker_error_free(tracker, allocation.addr, 0, &wrong_free);
    struct gs_error error = last_error(tracker, 1);
    cr_assert_neq(error.kind, GS_ERROR_DOUBLE_FREE);
    cr_assert_eq(error.allocation.bytes, 1024);
    cr_assert_not(error.has_first_free);
}

Test(errors, a_restored_allocation_is_not_in_the_history)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x7f0000001000, 512);

    test_add(tracker, &allocation, false);
    cr_assert_eq(
        gs_tracker_remove_address(tracker, allocation.addr, &first_free, &allocation),
        GS_OK);
    cr_assert_eq(gs_tracker_restore(tracker, &allocation), GS_OK);
    gs_tracker_error_free(tracker, allocation.addr, 0, &wrong_free);
    cr_assert_eq(last_error(tracker, 1).kind, GS_ERROR_MISMATCHED_FREE);
}

Test(errors, the_history_remembers_the_last_free_of_an_address)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x7f0000001000, 512);
    struct gs_free_site site = first_free;

    for (unsigned i = 0; i < 3; i++) {
        allocation.bytes = 100 + i;
        site.thread = 500 + i;
        gs_tracker_remove(tracker, test_add(tracker, &allocation, true), &site);
    }
    gs_tracker_error_free(tracker, allocation.addr, 0, &wrong_free);
    struct gs_error error = last_error(tracker, 1);
    cr_assert_eq(error.allocation.bytes, 102);
    cr_assert_eq(error.first_freed.thread, 502);
}

Test(errors, a_full_history_forgets_but_never_confuses)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    unsigned remembered = 0;
    struct gs_former former;

    for (uint64_t i = 1; i <= 20000; i++) {
        struct gs_allocation allocation = test_allocation(i * 512, i);
        gs_tracker_remove(tracker, test_add(tracker, &allocation, true), &first_free);
    }
    for (uint64_t i = 1; i <= 20000; i++) {
        if (!gs_history_get(tracker, i * 512, &former))
            continue;
        remembered++;
        cr_assert_eq(former.allocation.addr, i * 512);
        cr_assert_eq(former.allocation.bytes, i);
    }
    cr_assert(remembered > 4096 / 2 && remembered <= 4096, "%u remembered", remembered);
}

Test(errors, without_a_history_a_double_free_is_invalid)
{
    struct gs_tracker_config config = {.free_history = 0};
    struct gs_tracker *tracker = NULL;
    struct gs_allocation allocation = test_allocation(0x7f0000001000, 512);

    cr_assert_eq(gs_tracker_create(&config, &tracker), GS_OK);
    gs_tracker_remove(tracker, test_add(tracker, &allocation, true), &first_free);
    gs_tracker_error_free(tracker, allocation.addr, 0, &wrong_free);
    cr_assert_eq(last_error(tracker, 1).kind, GS_ERROR_INVALID_FREE);
    gs_tracker_destroy(tracker);
}

Test(errors, only_the_first_are_kept_in_full)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_error errors[GS_ERRORS_KEPT];
    struct gs_free_site site = wrong_free;

    for (uint64_t i = 0; i < 1000; i++) {
        site.stack = (uint32_t)i + 1;
        gs_tracker_error_free(tracker, 0x1000 + i, 0, &site);
    }
    cr_assert_eq(gs_tracker_error_count(tracker), 1000);
    cr_assert_eq(gs_errors_copy(tracker, errors), GS_ERRORS_KEPT);
    for (uint64_t i = 0; i < GS_ERRORS_KEPT; i++)
        cr_assert_eq(errors[i].addr, 0x1000 + i);
}

/* A loop that frees wrongly is one error, and not one of each kind that follows. */
Test(errors, frees_of_one_place_are_one_error)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x7f0000001000, 512);

    for (uint64_t i = 0; i < 50; i++)
        gs_tracker_error_free(tracker, 0x1000 + i, 0, &wrong_free);
    struct gs_error error = last_error(tracker, 1);
    cr_assert_eq(error.addr, 0x1000);
    cr_assert_eq(error.repeats, 49);
    /* What is wrong is another thing; who was meant, too. */
    test_add(tracker, &allocation, true);
    gs_tracker_error_free(tracker, allocation.addr, 0, &wrong_free);
    cr_assert_eq(last_error(tracker, 2).kind, GS_ERROR_MISMATCHED_FREE);
    allocation.addr += 512;
    allocation.stack = 9;
    test_add(tracker, &allocation, true);
    gs_tracker_error_free(tracker, allocation.addr, 0, &wrong_free);
    cr_assert_eq(last_error(tracker, 3).allocation.stack, 9);
    for (uint64_t i = 0; i < 100000; i++)
        gs_tracker_error_free(tracker, 0x100000 + i, 0, &wrong_free);
    gs_tracker_error_free(tracker, 0x1000, 0, wrong_free_at(44));
    error = last_error(tracker, 4);
    cr_assert_eq(error.freed.stack, 44);
    cr_assert_eq(error.repeats, 0);
}

/* Without stacks a place is an address. */
Test(errors, frees_without_a_stack_are_told_apart_by_address)
{
    OWNED_TRACKER tracker = test_tracker(NULL);

    for (uint64_t i = 0; i < 30; i++)
        gs_tracker_error_free(tracker, 0x1000 + i % 3, 0, wrong_free_at(0));
    cr_assert_eq(last_error(tracker, 3).repeats, 9);
}

static int in_data = 1;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEAP_PLACE GS_HOST_UNKNOWN /* the sanitizer's own mappings */
#else
#define HEAP_PLACE GS_HOST_HEAP
#endif

Test(errors, an_address_of_the_hosts_is_told_by_its_mapping)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    void *volatile in_heap = malloc(64);
    int in_stack;
    const struct {
        const void *address;
        enum gs_host_region place;
    } all[] = {{&in_stack, GS_HOST_STACK},
               {in_heap, HEAP_PLACE},
               {&in_data, GS_HOST_DATA},
               {(void *)0x10, GS_HOST_UNKNOWN}};

    for (unsigned i = 0; i < GS_ARRAY_LEN(all); i++) {
        gs_tracker_error_free(tracker, (uintptr_t)all[i].address, 0,
                              wrong_free_at(i + 1));
        cr_expect_eq(last_error(tracker, i + 1).host, all[i].place, "%u", i);
    }
    free(in_heap);
}

Test(errors, the_callers_own_thread_has_a_name)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_free_site site = {.thread = (uint32_t)syscall(SYS_gettid)};

    cr_assert_eq(prctl(PR_SET_NAME, "loader"), 0);
    gs_tracker_error_free(tracker, 0x1000, 0, &site);
    struct gs_error error = last_error(tracker, 1);
    cr_assert_str_eq(error.thread_name, "loader");
    cr_assert_leq(error.freed.time_ns, gs_tracker_now(tracker));
}
