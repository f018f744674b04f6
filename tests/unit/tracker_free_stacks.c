/*
 * tracker_free_stacks.c - proves which frees have a call stack: by time and by thread in
 * the default mode, all or none in the others.
 */
#include <criterion/criterion.h>
#include <pthread.h>

#include "tracker_helpers.h"

static uint64_t clock_ns = SECONDS(1000);

static int read_clock(clockid_t clock, struct timespec *out)
{
    (void)clock;
    out->tv_sec = (time_t)(clock_ns / 1000000000u);
    out->tv_nsec = (long)(clock_ns % 1000000000u);
    return 0;
}

static struct gs_tracker *make(enum gs_free_stacks which)
{
    static const char *const api_names[API_COUNT];
    struct gs_stacks_config config = {.unwinder = GS_UNWIND_CFI, .depth = 32};
    struct gs_tracker_config tracker = {.api_names = api_names,
                                        .api_count = API_COUNT,
                                        .free_history = 4096,
                                        .clock = read_clock,
                                        .free_stacks = which};
    struct gs_tracker *out = NULL;

    cr_assert_eq(gs_stacks_create(&config, &tracker.stacks), GS_OK);
    cr_assert_eq(gs_tracker_create(&tracker, &out), GS_OK);
    return out;
}

/* The number of `count` frees of a block that have a stack, and that come before any
 * that has none. */
static unsigned with_stacks(struct gs_tracker *tracker, unsigned count)
{
    struct gs_allocation allocation = test_allocation(0x7f0000001000, 512);
    unsigned with = 0;

    for (unsigned i = 0; i < count; i++) {
        struct gs_former former;
        uint32_t id = test_add(tracker, &allocation, true);

        gs_tracker_remove_block(tracker, id, 100, API_MEM_FREE);
        cr_assert_eq(gs_tracker_former(tracker, allocation.addr, &former), GS_OK);
        cr_expect_eq(former.site.thread, 100);
        cr_expect_eq(former.site.api, API_MEM_FREE);
        with += former.site.stack != 0 && with == i;
    }
    return with;
}

/* The stack of a free that is described before it is recorded. */
static uint32_t of_a_site(struct gs_tracker *tracker)
{
    struct gs_free_site site = {.thread = 7};

    gs_tracker_free_now(tracker, &site);
    cr_expect_eq(site.thread, 7);
    cr_expect_eq(site.time_ns, gs_tracker_now(tracker));
    return site.stack;
}

static void *in_thread(void *tracker)
{
    return (void *)(uintptr_t)with_stacks(tracker, 2 * GS_FREE_STACKS_MOST);
}

Test(free_stacks, a_thread_has_a_budget_that_time_refills)
{
    struct gs_tracker *tracker = make(GS_FREE_STACKS_SOME);
    void *other;
    pthread_t thread;

    cr_expect_eq(with_stacks(tracker, 2 * GS_FREE_STACKS_MOST), GS_FREE_STACKS_MOST);
    cr_expect_eq(with_stacks(tracker, 1), 0);
    cr_expect_eq(of_a_site(tracker), 0);
    clock_ns += 10 * (uint64_t)GS_FREE_STACK_NS;
    cr_expect_eq(with_stacks(tracker, 20), 10);
    clock_ns += SECONDS(1);
    cr_expect_neq(of_a_site(tracker), 0);
    cr_expect_eq(with_stacks(tracker, 2 * GS_FREE_STACKS_MOST), GS_FREE_STACKS_MOST - 1,
                 "a long pause earns no more than the most");
    cr_assert_eq(pthread_create(&thread, NULL, in_thread, tracker), 0);
    cr_assert_eq(pthread_join(thread, &other), 0);
    cr_expect_eq((uintptr_t)other, GS_FREE_STACKS_MOST, "another thread has its own");
}

Test(free_stacks, all_frees_have_one_or_none)
{
    cr_expect_eq(with_stacks(make(GS_FREE_STACKS_ALL), 4 * GS_FREE_STACKS_MOST),
                 4 * GS_FREE_STACKS_MOST);
    cr_expect_eq(of_a_site(make(GS_FREE_STACKS_NONE)), 0);
    cr_expect_eq(with_stacks(make(GS_FREE_STACKS_NONE), 10), 0);
}

/* A stack that the caller has given is kept. */
Test(free_stacks, a_given_stack_is_kept)
{
    struct gs_tracker *tracker = make(GS_FREE_STACKS_NONE);
    struct gs_allocation allocation = test_allocation(0x7f0000002000, 512);
    struct gs_free_site site = {.thread = 7, .stack = 9, .api = API_MEM_FREE};
    struct gs_former former;

    gs_tracker_remove(tracker, test_add(tracker, &allocation, true), &site);
    cr_assert_eq(gs_tracker_former(tracker, allocation.addr, &former), GS_OK);
    cr_expect_eq(former.site.stack, 9);
}
