/*
 * tracker_merge.c - proves that leaks whose stacks read the same are one place, that all
 * others stay apart, and that only stacks that may be alike are asked for lines.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_helpers.h"

static size_t asked;

static void count_resolve(void *self, struct gs_symbol_request *requests, size_t count)
{
    asked += count;
    test_source().resolve(self, requests, count);
}

/* As a table of symbols has it, without lines. */
static const char *linkage(void *self, uintptr_t frame, const struct gs_module *module)
{
    struct gs_symbol_request request = {.frame = frame, .module = module};

    test_source().resolve(self, &request, 1);
    return request.result.function;
}

struct setting {
    struct gs_stacks *stacks;
    struct gs_tracker *tracker;
    struct gs_report_config config;
    struct gs_report_source source;
    struct gs_report_summary summary;
};

static struct setting begin(void)
{
    struct setting setting = {
        .stacks = test_stacks(), .config = test_report_config(), .source = test_source()};

    setting.tracker = test_tracker(setting.stacks);
    setting.source.linkage = linkage;
    setting.source.resolve = count_resolve;
    asked = 0;
    return setting;
}

/* The report; the caller frees it. */
static char *report(struct setting *setting)
{
    struct gs_text text = {0};

    gs_report_write_from(setting->tracker, &setting->config, &setting->source, &text,
                         &setting->summary);
    test_take_prefix_off(text.data);
    return text.data;
}

static void end(struct setting *setting, char *text)
{
    free(text);
    gs_suppressions_destroy(setting->config.suppressions);
    gs_tracker_destroy(setting->tracker);
    gs_stacks_destroy(setting->stacks);
}

static void expect_text(const char *text, const char *part)
{
    cr_expect(strstr(text, part) != NULL, "%s lacks %s", text, part);
}

Test(merge, leaks_that_read_the_same_are_one)
{
    struct setting setting = begin();

    test_leak(setting.tracker, 0x1000, 1024, SECONDS(10),
              TEST_STACK(setting.stacks, AT_CUDART, AT_LOAD, AT_MAIN));
    test_leak(setting.tracker, 0x2000, 2048, SECONDS(20),
              TEST_STACK(setting.stacks, AT_CUDART, AT_LOAD_TOO, AT_MAIN));
    test_leak(setting.tracker, 0x3000, 512, SECONDS(30),
              TEST_STACK(setting.stacks, AT_CUDART, AT_LOAD_NEXT, AT_MAIN));
    test_leak(setting.tracker, 0x4000, 2560, SECONDS(40),
              TEST_STACK(setting.stacks, AT_CUDART, AT_RUN, AT_MAIN));
    char *text = report(&setting);
    expect_text(text, "LEAK 1: 3.00 KiB in 2 allocations (50.0 % of leaked)\n"
                      "  cudaMalloc, GPU 0, oldest 9m50s, newest 9m40s, live at exit\n"
                      "    #0 load_batch                    loader.c:88\n"
                      "    #1 main                          app.c:12\n");
    expect_text(text, "LEAK 2: 2.50 KiB in 1 allocation ");
    expect_text(text, "LEAK 3: 512 B in 1 allocation ");
    expect_text(text, "leaked in 4 allocations, 3 call sites\n");
    cr_expect_eq(setting.summary.leak_groups, 3);
    cr_expect_eq(setting.summary.leaked_bytes, 6144);
    end(&setting, text);
}

/* Inside the runtime calls may differ: nobody sees it. */
Test(merge, what_is_not_shown_makes_no_difference)
{
    struct setting setting = begin();

    test_leak(
        setting.tracker, 0x1000, 1024, SECONDS(10),
        TEST_STACK(setting.stacks, AT_STATIC_INNER, AT_STATIC_CUDA, AT_LOAD, AT_MAIN));
    test_leak(setting.tracker, 0x2000, 1024, SECONDS(10),
              TEST_STACK(setting.stacks, AT_RUN, AT_STATIC_CUDA, AT_LOAD_TOO, AT_MAIN));
    test_leak(setting.tracker, 0x3000, 1024, SECONDS(10),
              TEST_STACK(setting.stacks, AT_DRIVER, AT_CUDART, AT_LOAD, AT_MAIN));
    char *text = report(&setting);
    cr_expect_eq(setting.summary.leak_groups, 1, "%s", text);
    end(&setting, text);
}

/* What a group is by is no part of its stack. */
Test(merge, other_memory_stays_apart)
{
    struct setting setting = begin();
    struct gs_allocation allocation = test_allocation(0x10000, 1024);

    allocation.stack = TEST_STACK(setting.stacks, AT_CUDART, AT_LOAD, AT_MAIN);
    test_add(setting.tracker, &allocation, true);
    allocation.stack = TEST_STACK(setting.stacks, AT_CUDART, AT_LOAD_TOO, AT_MAIN);
    allocation.addr += 4096;
    allocation.device = 1;
    test_add(setting.tracker, &allocation, true);
    allocation.addr += 4096;
    allocation.kind = GS_MEMORY_MANAGED;
    test_add(setting.tracker, &allocation, true);
    allocation.addr += 4096;
    allocation.api = API_MANAGED;
    test_add(setting.tracker, &allocation, true);
    char *text = report(&setting);
    cr_expect_eq(setting.summary.leak_groups, 4, "%s", text);
    end(&setting, text);
}

/* Where lines are not looked for, addresses tell places apart. */
Test(merge, without_lines_nothing_is_joined)
{
    struct setting setting = begin();

    setting.source.linkage = NULL;
    test_leak(setting.tracker, 0x1000, 1024, SECONDS(10),
              TEST_STACK(setting.stacks, AT_CUDART, AT_LOAD, AT_MAIN));
    test_leak(setting.tracker, 0x2000, 1024, SECONDS(10),
              TEST_STACK(setting.stacks, AT_CUDART, AT_LOAD_TOO, AT_MAIN));
    char *text = report(&setting);
    cr_expect_eq(setting.summary.leak_groups, 2);
    end(&setting, text);
}

/* Of a thousand places that are not alike, those that are written out are asked for. */
Test(merge, few_stacks_are_asked_for_lines)
{
    struct setting setting = begin();

    for (uintptr_t i = 0; i < 1000; i++)
        test_leak(setting.tracker, 0x1000 * (i + 1), 1000 + i, SECONDS(1),
                  TEST_STACK(setting.stacks, AT_CUDART, AT_NOWHERE + i, AT_MAIN));
    test_leak(setting.tracker, 0x8000000, 16, SECONDS(1),
              TEST_STACK(setting.stacks, AT_CUDART, AT_LOAD, AT_MAIN));
    test_leak(setting.tracker, 0x9000000, 16, SECONDS(1),
              TEST_STACK(setting.stacks, AT_CUDART, AT_LOAD_TOO, AT_MAIN));
    char *text = report(&setting);
    cr_expect_eq(setting.summary.leak_groups, 1001);
    cr_expect_eq(asked, (10 + 2) * 3, "%zu frames", asked);
    expect_text(text, "991 more call sites: ");
    end(&setting, text);
}

/* One that comes up because others are one has its names, too; with rules and without. */
Test(merge, all_that_is_written_out_has_names)
{
    for (unsigned rules = 0; rules < 2; rules++) {
        struct setting setting = begin();

        setting.config.max_groups = 2;
        if (rules) {
            cr_assert_eq(gs_suppressions_create(&setting.config.suppressions), GS_OK);
            cr_assert_eq(gs_suppressions_add(setting.config.suppressions, "r",
                                             "leak:empty_cuda", 15, NULL, NULL),
                         GS_OK);
        }
        test_leak(setting.tracker, 0x1000, 4096, SECONDS(10),
                  TEST_STACK(setting.stacks, AT_CUDART, AT_LOAD, AT_MAIN));
        test_leak(setting.tracker, 0x3000, 2048, SECONDS(10),
                  TEST_STACK(setting.stacks, AT_CUDART, AT_LOAD_TOO, AT_MAIN));
        test_leak(setting.tracker, 0x5000, 1024, SECONDS(10),
                  TEST_STACK(setting.stacks, AT_CUDART, AT_RUN, AT_MAIN));
        test_leak(setting.tracker, 0x7000, 1 << 20, SECONDS(10),
                  TEST_STACK(setting.stacks, AT_CUDART, AT_TORCH, AT_MAIN));
        char *text = report(&setting);
        expect_text(text, rules ? "LEAK 2: 1.00 KiB" : "LEAK 2: 6.00 KiB");
        expect_text(text, rules ? "#0 run " : "#0 load_batch ");
        cr_expect_eq(setting.summary.leak_groups, rules ? 2 : 3);
        cr_expect_eq(strstr(text, "Suppressed: 1 allocation, 1.00 MiB") != NULL, rules);
        end(&setting, text);
    }
}

/* A recursion is as many lines as it has different ones. */
Test(merge, frames_that_repeat_are_folded)
{
    struct setting setting = begin();
    uintptr_t frames[32] = {AT_CUDART};

    for (unsigned i = 1; i < 31; i++)
        frames[i] = i % 2 ? AT_LOAD : AT_LOAD_TOO;
    frames[31] = AT_MAIN;
    test_leak(setting.tracker, 0x1000, 1024, SECONDS(10),
              test_stack(setting.stacks, frames, 32));
    test_leak(setting.tracker, 0x3000, 512, SECONDS(10),
              TEST_STACK(setting.stacks, AT_CUDART, AT_LOAD, AT_LOAD, AT_MAIN));
    char *text = report(&setting);
    expect_text(text, "    #0  load_batch                    loader.c:88\n"
                      "       ... 29 times more\n"
                      "    #30 main                          app.c:12\n");
    expect_text(text, "    #0 load_batch                    loader.c:88\n"
                      "    #1 load_batch                    loader.c:88\n"
                      "    #2 main                          app.c:12\n");
    end(&setting, text);
}
