/*
 * tracker_sampling.c - proves that an allocation has a call stack with the probability it
 * should have, whatever comes before it and in however many threads; that what those with
 * a stack stand for adds up to all there is; and what report and files say of it.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_export_helpers.h"

#define DISTANCE ((uint64_t)64 << 10)

static const struct gs_sampling sampled = {.distance_bytes = DISTANCE};

/* The programs are linked without libm. */
static double root(double x)
{
    double r = 1;

    for (unsigned i = 0; i < 60; i++)
        r = (r + x / r) / 2;
    return r;
}

static void expect_near(double found, double wanted, double within, const char *what)
{
    double off = found < wanted ? wanted - found : found - wanted;

    cr_expect(off <= within, "%s: %.12g, not %.12g", what, found, wanted);
}

/* The numbers are a table's. */
Test(sampling, logarithm_and_probability_are_exact)
{
    const uint64_t one = (uint64_t)1 << 53;

    expect_near(gs_sampling_minus_log(one), 0, 0, "1");
    expect_near(gs_sampling_minus_log(one / 2), 0.693147180559945, 1e-12, "1/2");
    expect_near(gs_sampling_minus_log(one / 4 * 3), 0.287682072451781, 1e-9, "3/4");
    expect_near(gs_sampling_minus_log(one - 1), 1.11e-16, 1e-9, "nearly 1");
    expect_near(gs_sampling_minus_log(1), 36.7368005696771, 1e-12, "2^-53");
    expect_near(gs_sampling_hit(1e-9) * 1e9, 1, 1e-8, "hit 1e-9");
    expect_near(gs_sampling_hit(0.01), 0.00995016625083195, 1e-14, "hit 0.01");
    expect_near(gs_sampling_hit(0.5), 0.393469340287367, 1e-12, "hit 0.5");
    expect_near(gs_sampling_hit(1), 0.632120558828558, 1e-12, "hit 1");
    expect_near(gs_sampling_hit(10), 0.999954600070238, 1e-12, "hit 10");
    cr_expect_eq(gs_sampling_hit(1000), 1);
}

/* How many of `count` allocations of one size have a stack. */
static unsigned taken(const struct gs_sampling *sampling, uint64_t bytes, unsigned count)
{
    unsigned hits = 0;

    for (unsigned i = 0; i < count; i++)
        hits += gs_sampling_choose(sampling, bytes) == 0;
    return hits;
}

Test(sampling, the_share_with_a_stack_is_that_of_a_poisson_process)
{
    static const uint64_t sizes[] = {DISTANCE / 64, DISTANCE / 4, DISTANCE, 3 * DISTANCE};
    enum { COUNT = 200000 };

    gs_sampling_seed(42);
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        double p = gs_sampling_hit((double)sizes[i] / DISTANCE);
        double spread = root(p * (1 - p) / COUNT);

        expect_near((double)taken(&sampled, sizes[i], COUNT) / COUNT, p, 5 * spread,
                    "share");
    }
}

/* Many threads that allocate once: each has its own distance from the start. */
Test(sampling, a_thread_that_allocates_once_is_sampled_like_any_other)
{
    enum { THREADS = 20000 };
    double p = gs_sampling_hit(0.25), spread = root(p * (1 - p) / THREADS);
    unsigned hits = 0;

    for (unsigned i = 0; i < THREADS; i++) {
        gs_sampling_seed(1000 + i);
        hits += taken(&sampled, DISTANCE / 4, 1);
    }
    expect_near((double)hits / THREADS, p, 5 * spread, "share");
}

Test(sampling, what_has_a_stack_stands_for_all_there_is)
{
    double bytes = 0, count = 0, all = 0;
    uint64_t random = 7;
    enum { COUNT = 100000 };

    gs_sampling_seed(7);
    for (unsigned i = 0; i < COUNT; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t size = (uint64_t)1 << (8 + (random >> 33) % 12);
        uint32_t stack = gs_sampling_choose(&sampled, size);
        double weight = gs_sampling_weight(&sampled, stack, size);

        cr_assert(stack == 0 ? weight >= 1 : weight == 0);
        all += (double)size;
        bytes += weight * (double)size;
        count += weight;
    }
    expect_near(bytes / all, 1, 0.02, "bytes");
    expect_near(count / COUNT, 1, 0.2, "count");
}

Test(sampling, large_ones_always_have_a_stack_and_small_ones_never)
{
    const struct gs_sampling sampling = {
        .distance_bytes = DISTANCE, .always_bytes = 8192, .min_bytes = 512};
    const struct gs_sampling off = {0}, least = {.min_bytes = 512};

    gs_sampling_seed(1);
    cr_expect_eq(taken(&sampling, 8192, 1000), 1000);
    cr_expect_eq(taken(&sampling, 511, 100000), 0);
    cr_expect_lt(taken(&sampling, 8191, 1000), 400);
    cr_expect_eq(gs_sampling_choose(&sampling, 511), GS_STACK_TOO_SMALL);
    cr_expect_eq(gs_sampling_weight(&sampling, 5, 8192), 1);
    cr_expect_eq(gs_sampling_weight(&sampling, GS_STACK_TOO_SMALL, 511), 1);
    cr_expect_gt(gs_sampling_weight(&sampling, 5, 8191), 1);
    cr_expect_eq(gs_sampling_choose(&off, 1), 0);
    cr_expect_eq(gs_sampling_weight(&off, 5, 1), 1);
    cr_expect_eq(gs_sampling_choose(&least, 512), 0);
    cr_expect_eq(gs_sampling_choose(&least, 511), GS_STACK_TOO_SMALL);
}

static void *hits_of_a_thread(void *out)
{
    *(unsigned *)out = taken(&sampled, DISTANCE / 8, 10000);
    return NULL;
}

Test(sampling, threads_do_not_share_their_distances)
{
    unsigned hits[8];
    pthread_t threads[8];
    double p = gs_sampling_hit(0.125), spread = root(p * (1 - p) / 10000);

    for (unsigned i = 0; i < 8; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, hits_of_a_thread, &hits[i]), 0);
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        expect_near(hits[i] / 10000.0, p, 6 * spread, "share");
    }
}

/* --- in the tracker and its report -----------------------------------------------------
 */

static struct gs_tracker *sampling_tracker(struct gs_stacks *stacks, bool tally)
{
    static const char *const names[] = {"unknown", "cuMemAlloc"};
    struct gs_tracker_config config = {
        .api_names = names,
        .api_count = GS_ARRAY_LEN(names),
        .stacks = stacks,
        .free_history = 4096,
        .tally = tally,
        .sampling = {.distance_bytes = 4096, .always_bytes = GS_MIB, .min_bytes = 256}};
    struct gs_tracker *tracker = NULL;

    cr_assert_eq(gs_tracker_create(&config, &tracker), GS_OK);
    return tracker;
}

/* Two of 4 KiB that were sampled, three that were not, a large one, five small ones. The
 * two have a weight of 1.58 each, and stand for all five: what has no stack is known. */
static void play(struct gs_tracker *tracker, struct gs_stacks *stacks)
{
    uint32_t load = TEST_STACK(stacks, AT_LOAD, AT_MAIN);
    uint32_t run = TEST_STACK(stacks, AT_RUN, AT_MAIN);

    for (unsigned i = 0; i < 11; i++) {
        struct gs_allocation allocation = test_allocation(0x10000 * (i + 1), 4096);
        bool small = i >= 6;

        allocation.stack = i < 2 ? load : i < 5 ? GS_STACK_NOT_SAMPLED : run;
        if (i == 5)
            allocation.bytes = 2 * GS_MIB;
        if (small) {
            allocation.bytes = 100;
            allocation.stack = GS_STACK_TOO_SMALL;
        }
        gs_tracker_tally(tracker, &allocation);
        test_add(tracker, &allocation, i % 2 == 0);
    }
}

Test(sampling, a_report_says_what_the_stacks_stand_for)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = sampling_tracker(stacks, false);
    struct gs_report_config config = test_report_config();
    struct gs_report_summary summary;

    play(tracker, stacks);
    char *text = test_report_text(tracker, &config, &summary);
    cr_expect_str_eq(
        text,
        "gpushim 0.1.0: ./app --fast   host n07  10m00s  exit 0\n"
        "GPU 0: 2.02 MiB leaked at 2 call sites, peak 2.02 MiB at 1.00 s\n"
        "Memory by owner, GPU 0 (about)     live     allocs\n"
        "  app                        2.02 MiB          6\n"
        "  unknown                       500 B          5\n"
        "\n"
        "12.0 KiB in 3 allocations without a call stack (GPUSHIM_STACK=sample): "
        "those with one stand for them\n"
        "500 B in 5 allocations of less than 256 B (GPUSHIM_STACK=min)\n"
        "\n"
        "LEAK 2: about 20.0 KiB in 5 allocations (1.0 % of leaked), by 2 sampled\n"
        "  cuMemAlloc, GPU 0, age 9m59s, live at exit\n"
        "    #0 load_batch                    loader.c:88\n"
        "    #1 main                          app.c:12\n"
        "\n"
        "LEAK 1: 2.00 MiB in 1 allocation (99.0 % of leaked)\n"
        "  cuMemAlloc, GPU 0, age 9m59s, live at exit\n"
        "    #0 run                           app+0x210\n"
        "    #1 main                          app.c:12\n"
        "\n"
        "To suppress known leaks: GPUSHIM_WRITE_SUPPRESSIONS=FILE writes their rules\n"
        "Note: one call stack in 4.00 KiB was recorded (GPUSHIM_STACK=sample): "
        "2.01 MiB of 2.02 MiB and 3 of 11 allocations have one\n"
        "largest: 2.00 MiB leaked at run app+0x210\n"
        "SUMMARY: gpushim: 0 errors, 2.02 MiB leaked in 11 allocations, 2 call sites\n");
    cr_expect_eq(summary.leaked_bytes, 2 * GS_MIB + 5 * 4096 + 500);
    cr_expect_eq(summary.leaked_count, 11);
    free(text);
}

Test(sampling, files_have_what_the_stacks_stand_for)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = sampling_tracker(stacks, true);

    play(tracker, stacks);
    struct test_bytes bytes =
        test_export(tracker, test_report_config(), GS_EXPORT_collapsed, 0);
    cr_expect_str_eq(bytes.data, "GPU 0;main;run 2097152\n"
                                 "GPU 0;main;load_batch 20480\n"
                                 "GPU 0;[smaller than GPUSHIM_STACK=min] 500\n");
    free(bytes.data);
    bytes = test_export(tracker, test_report_config(), GS_EXPORT_json, 0);
    cr_expect_not_null(
        strstr(bytes.data, "\"likely_bytes\": 20480, \"likely_count\": 5"));
    cr_expect_not_null(strstr(bytes.data, "\"sample_bytes\": 4096"));
    cr_expect_not_null(strstr(bytes.data, "\"no_stack\": \"too small\""));
    cr_expect_not_null(strstr(bytes.data, "\"no_stack\": \"not sampled\""));
    free(bytes.data);
    bytes = test_export(tracker, test_report_config(), GS_EXPORT_pprof, 0);
    cr_expect_eq(bytes.status, GS_OK);
    cr_expect_not_null(memmem(bytes.data, bytes.length, "[smaller than", 13));
    cr_expect_null(memmem(bytes.data, bytes.length, "[not sampled]", 13));
    free(bytes.data);
}

/* --- rules, which match stacks
 * ----------------------------------------------------------
 */

/* The report under these rules; the caller frees it. */
static char *suppressed_text(struct gs_tracker *tracker, const char *text,
                             struct gs_report_summary *summary)
{
    struct gs_report_config config = test_report_config();

    config.suppressions = test_rules(text);
    char *report = test_report_text(tracker, &config, summary);
    gs_suppressions_destroy(config.suppressions);
    return report;
}

/* `load` of 4 KiB each, one in two with a stack; `run` likewise; as many without. */
static void play_both(struct gs_tracker *tracker, struct gs_stacks *stacks, unsigned load,
                      unsigned run, unsigned without)
{
    for (unsigned i = 0; i < load + run + without; i++) {
        struct gs_allocation allocation = test_allocation(0x10000 * (i + 1), 2839);

        allocation.stack = i < load         ? TEST_STACK(stacks, AT_LOAD, AT_MAIN)
                           : i < load + run ? TEST_STACK(stacks, AT_RUN, AT_MAIN)
                                            : GS_STACK_NOT_SAMPLED;
        test_add(tracker, &allocation, true);
    }
}

/* What has no stack is taken in proportion; all of it where all stacks are known. */
Test(sampling, rules_take_a_share_of_what_has_no_stack)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = sampling_tracker(stacks, false);
    struct gs_report_summary summary;

    play_both(tracker, stacks, 30, 10, 40);
    char *text = suppressed_text(tracker, "leak:nobody", &summary);
    cr_expect_eq(summary.leaked_count, 80);
    cr_expect_null(strstr(text, "Suppressed"), "%s", text);
    free(text);
    text = suppressed_text(tracker, "leak:load_batch", &summary);
    cr_expect_eq(summary.leaked_count, 20, "%s", text);
    cr_expect_eq(summary.leaked_bytes, 20 * 2839);
    cr_expect_eq(summary.leak_groups, 1);
    cr_expect_not_null(strstr(text, "Suppressed: 60 allocations, 166 KiB by 1 rule (of "
                                    "these 30 without a call stack, in proportion to "
                                    "those with one)\n"),
                       "%s", text);
    cr_expect_not_null(strstr(text, "in 10 allocations without a call stack"), "%s",
                       text);
    cr_expect_not_null(strstr(text, "of 80 allocations have one"), "%s", text);
    free(text);
    text = suppressed_text(tracker, "leak:load_batch\nleak:^run$", &summary);
    cr_expect_eq(summary.leaked_count, 0, "%s", text);
    cr_expect_eq(summary.leaked_bytes, 0);
    cr_expect_not_null(strstr(text, "Suppressed: 80 allocations, "));
    free(text);
}

/* Caps are on what the stacks stand for: 20 of a weight of 2. */
Test(sampling, caps_are_on_what_the_stacks_stand_for)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = sampling_tracker(stacks, false);
    struct gs_report_summary summary;

    play_both(tracker, stacks, 20, 0, 20);
    char *text = suppressed_text(tracker, "leak:load_batch max_count=41", &summary);
    cr_expect_eq(summary.leaked_count, 0, "%s", text);
    free(text);
    text = suppressed_text(tracker, "leak:load_batch max_count=38", &summary);
    cr_expect_eq(summary.leaked_count, 40);
    cr_expect_not_null(strstr(text,
                              "  not suppressed: about 40 allocations of 111 KiB in "
                              "all, more than leak:load_batch max_count=38 (r:1) "
                              "allows\n"),
                       "%s", text);
    free(text);
}

/* Another device's stacks say nothing of this one's, nor do too small ones. */
Test(sampling, shares_are_of_one_device_and_kind)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = sampling_tracker(stacks, false);
    struct gs_allocation other = test_allocation(0x9000000, 4096);
    struct gs_report_summary summary;

    play_both(tracker, stacks, 20, 0, 20);
    other.stack = GS_STACK_NOT_SAMPLED;
    other.device = 1;
    test_add(tracker, &other, true);
    other = test_allocation(0x9100000, 100);
    other.stack = GS_STACK_TOO_SMALL;
    test_add(tracker, &other, true);
    char *text = suppressed_text(tracker, "leak:load_batch", &summary);
    cr_expect_eq(summary.leaked_count, 2, "%s", text);
    cr_expect_eq(summary.leaked_bytes, 4196);
    free(text);
}

/* What ends with its context keeps what it stands for. */
Test(sampling, lost_memory_is_weighed_as_well)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = sampling_tracker(stacks, false);
    struct gs_report_config config = test_report_config();

    play(tracker, stacks);
    gs_tracker_lose_context(tracker, 0xc0, 1u << GS_MEMORY_DEVICE);
    char *text = test_report_text(tracker, &config, NULL);
    cr_expect_not_null(strstr(text, "LEAK 2: about 20.0 KiB in 5 allocations"));
    cr_expect_not_null(strstr(text, "12.0 KiB in 3 allocations without a call stack"));
    cr_expect_not_null(strstr(text, "2.02 MiB leaked in 11 allocations, 2 call sites"));
    free(text);
}

/* Imports and mappings are few, and of unknown size at first. */
Test(sampling, imported_memory_is_never_left_out)
{
    OWNED_TRACKER tracker = sampling_tracker(NULL, false);

    gs_sampling_seed(3);
    for (unsigned i = 0; i < 100; i++) {
        cr_expect_eq(gs_tracker_choose_stack(tracker, GS_MEMORY_IMPORTED, 0), 0);
        cr_expect_eq(gs_tracker_choose_stack(tracker, GS_MEMORY_MAPPED, 4096), 0);
        cr_expect_eq(gs_tracker_choose_stack(tracker, GS_MEMORY_DEVICE, 0),
                     GS_STACK_TOO_SMALL);
    }
}

/* A table that has all the memory it may have. */
Test(sampling, a_full_table_of_stacks_keeps_those_it_has)
{
    struct gs_stacks_config config = {
        .unwinder = GS_UNWIND_OFF, .depth = 8, .most_bytes = GS_MIB};
    struct gs_stacks *stacks = NULL;
    uint32_t kept = 0, first;

    cr_assert_eq(gs_stacks_create(&config, &stacks), GS_OK);
    first = TEST_STACK(stacks, AT_LOAD, AT_MAIN);
    for (uintptr_t i = 1; i < 200000; i++) {
        const uintptr_t frames[] = {0x1000000 + i, AT_MAIN};
        kept += gs_stacks_intern(stacks, frames, 2) != 0;
    }
    cr_expect_gt(kept, 1000);
    cr_expect_eq(gs_stacks_refused(stacks), 199999 - kept);
    cr_expect_leq(gs_stacks_bytes(stacks), 2 * GS_MIB);
    cr_expect_eq(TEST_STACK(stacks, AT_LOAD, AT_MAIN), first);
    cr_expect_eq(gs_stacks_refused(stacks), 199999 - kept, "a known one is no new one");

    struct gs_tracker *tracker = test_tracker(stacks);
    struct gs_report_config report = test_report_config();
    test_leak(tracker, 0x1000, 512, SECONDS(1), 0);
    char *text = test_report_text(tracker, &report, NULL);
    cr_expect_not_null(strstr(text, "Note: the table of call stacks is full"));
    free(text);
    gs_tracker_destroy(tracker);
    gs_stacks_destroy(stacks);
}

/* ---- changes while the program runs ------------------------------------------------- */

static time_t now_s;

static int own_clock(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = now_s};
    return 0;
}

static void add_some(struct gs_tracker *tracker, unsigned count, uint32_t stack)
{
    static uint64_t address;

    for (unsigned i = 0; i < count; i++) {
        struct gs_allocation allocation = test_allocation(address += 0x10000, 4096);

        allocation.stack = stack;
        allocation.time_ns = SECONDS(now_s - 100);
        gs_tracker_tally(tracker, &allocation);
        test_add(tracker, &allocation, i % 2 == 0);
    }
}

/* Ten with a stack for certain, and sixteen of which ten have one by chance. sampled_first:
 * in this order, else the other. */
static struct gs_tracker *changed_tracker(struct gs_stacks *stacks, bool sampled_first)
{
    static const char *const names[] = {"unknown", "cuMemAlloc"};
    const struct gs_sampling some = {.distance_bytes = 4096}, all = {0};
    struct gs_tracker_config config = {.api_names = names,
                                       .api_count = GS_ARRAY_LEN(names),
                                       .stacks = stacks,
                                       .clock = own_clock,
                                       .tally = true,
                                       .sampling = sampled_first ? some : all};
    struct gs_tracker *tracker = NULL;

    now_s = 100;
    cr_assert_eq(gs_tracker_create(&config, &tracker), GS_OK);
    for (unsigned i = 0; i < 2; i++) {
        now_s++;
        if ((i == 0) == sampled_first) {
            add_some(tracker, 10, TEST_STACK(stacks, AT_LOAD, AT_MAIN));
            add_some(tracker, 6, GS_STACK_NOT_SAMPLED);
        } else {
            add_some(tracker, 10, TEST_STACK(stacks, AT_RUN, AT_MAIN));
        }
        now_s++;
        if (i == 0)
            gs_tracker_sample(tracker, sampled_first ? &all : &some);
    }
    return tracker;
}

/* Would alone see: all stacks weighed by the last setting. Then the ten that have a stack
 * for certain stand for three more, or nothing stands for the six. */
Test(sampling, a_stack_stands_for_as_many_as_when_it_was_taken)
{
    for (unsigned i = 0; i < 2; i++) {
        struct gs_stacks *stacks = test_stacks();
        struct gs_tracker *tracker = changed_tracker(stacks, i == 0);
        struct gs_report_config config = test_report_config();
        struct gs_report_summary summary;
        struct test_bytes bytes = test_export(tracker, config, GS_EXPORT_collapsed, 0);

        cr_expect_str_eq(bytes.data, "GPU 0;main;load_batch 65536\n"
                                     "GPU 0;main;run 40960\n");
        free(bytes.data);
        char *text = test_report_text(tracker, &config, &summary);
        cr_expect_not_null(strstr(text, "LEAK 1: about 64.0 KiB in 16 allocations"), "%s",
                           text);
        cr_expect_not_null(strstr(text, "LEAK 2: 40.0 KiB in 10 allocations"), "%s",
                           text);
        cr_expect_not_null(
            strstr(text, i == 0 ? "Note: the share of call stacks was changed, from 2.00 "
                                  "s on all were recorded (GPUSHIM_STACK=sample): "
                                : "Note: the share of call stacks was changed, from 2.00 "
                                  "s on one in 4.00 KiB (GPUSHIM_STACK=sample): "),
            "%s", text);
        free(text);
        bytes = test_export(tracker, config, GS_EXPORT_json, 0);
        cr_expect_not_null(strstr(bytes.data, "\"sample_changes\": 1,"));
        cr_expect_not_null(strstr(bytes.data, "\"sample_changed_ns\": 2000000128,"));
        free(bytes.data);
        gs_tracker_destroy(tracker);
        gs_stacks_destroy(stacks);
    }
}

/* What has no stack because it is small stands for itself, whatever was set since. */
Test(sampling, small_ones_of_before_keep_their_weight)
{
    const struct gs_sampling some = {.distance_bytes = 1 << 20};

    cr_expect_eq(gs_sampling_weight(&some, GS_STACK_TOO_SMALL, 4096), 1);
}

Test(sampling, many_changes)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = changed_tracker(stacks, true);
    uint64_t last_ns = 0;

    for (unsigned i = 1; i <= 1000; i++) {
        const struct gs_sampling next = {.min_bytes = i};
        gs_tracker_sample(tracker, &next);
        cr_assert_eq(gs_tracker_sampling(tracker).min_bytes, i);
        cr_assert_eq(gs_tracker_sampling_at(tracker, UINT64_MAX).min_bytes, i);
        cr_assert_eq(gs_tracker_choose_stack(tracker, GS_MEMORY_DEVICE, i), 0);
        cr_assert_eq(gs_tracker_choose_stack(tracker, GS_MEMORY_DEVICE, i - 1),
                     GS_STACK_TOO_SMALL);
    }
    cr_expect_eq(gs_tracker_resampled(tracker, &last_ns), 1001);
    cr_expect_eq(gs_tracker_sampling_at(tracker, 0).min_bytes, 1000 - GS_SAMPLINGS_KEPT,
                 "the oldest that is kept");
    gs_tracker_sample(NULL, &sampled);
}
