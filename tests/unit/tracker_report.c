/*
 * tracker_report.c - proves the report's text, compared whole: each section, singular and
 * plural, what is left out, and what happens where something is missing.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_helpers.h"

static void expect_report(struct gs_tracker *tracker,
                          const struct gs_report_config *config, const char *expected)
{
    char *text = test_report_text(tracker, config, NULL);

    cr_expect_str_eq(text, expected);
    free(text);
}

Test(report, a_clean_run_is_two_lines)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_allocation allocation = test_allocation(0x1000, 512);

    gs_tracker_remove(tracker, test_add(tracker, &allocation, true), NULL);
    expect_report(tracker, &config,
                  "gpushim 0.1.0: ./app --fast   host n07  10m00s  exit 0\n"
                  "SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations, "
                  "0 call sites\n");
}

Test(report, the_header_leaves_out_what_is_not_known)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = {.pid = 7, .rank = 3, .show_leaks = true};
    struct gs_report_source source = test_source();
    struct gs_text text = {0};

    gs_report_write_from(tracker, &config, &source, &text, NULL);
    cr_expect_str_eq(text.data,
                     "==7== gpushim :   rank 3  10m00s\n"
                     "==7== SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations, "
                     "0 call sites\n");
    gs_text_free(&text);
}

Test(report, the_header_is_one_line_whatever_the_command)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();

    config.command = "python -c 'import torch\n\x1b[31mprint()'";
    expect_report(tracker, &config,
                  "gpushim 0.1.0: python -c 'import torch??[31mprint()'   host n07  "
                  "10m00s  exit 0\n"
                  "SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations, "
                  "0 call sites\n");
}

/* What a training program that leaks and frees twice looks like. */
static void play_the_example(struct gs_tracker *tracker, struct gs_stacks *stacks)
{
    uint32_t torch = TEST_STACK(stacks, AT_SHIM, AT_DRIVER, AT_CUDART, AT_TORCH, AT_RUN,
                                AT_MAIN, AT_LIBC, AT_START);
    uint32_t load =
        TEST_STACK(stacks, AT_STATIC_INNER, AT_STATIC_CUDA, AT_LOAD, AT_MAIN, AT_LIBC);
    uint32_t evict = TEST_STACK(stacks, AT_RUN, AT_THREAD, AT_CLONE);
    struct gs_allocation cached = test_allocation(0x7f1244000000, 64 * GS_MIB);
    struct gs_free_site first = {
        .time_ns = SECONDS(420), .thread = 41233, .api = API_MEM_FREE};
    struct gs_free_site again = {
        .time_ns = SECONDS(422), .thread = 41301, .stack = evict, .api = API_MEM_FREE};

    cached.time_ns = SECONDS(220);
    cached.stack = load;
    gs_tracker_remove(tracker, test_add(tracker, &cached, true), &first);
    gs_tracker_error_free(tracker, cached.addr, 0, &again);
    test_leak(tracker, 0x7f3000000000, 40 * GS_MIB, SECONDS(300), load);
    for (unsigned i = 0; i < 8; i++)
        test_leak(tracker, 0x7f2000000000 + i * GS_GIB, 256 * GS_MIB,
                  SECONDS(50 + i * 78), torch);
    gs_tracker_add_failed(tracker, 0, GS_MEMORY_DEVICE);
}

Test(report, an_error_and_leaks)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_device device = {.name = "NVIDIA H200",
                                      .pooled = true,
                                      .reserved_bytes = 4 * GS_GIB,
                                      .reserved_peak_bytes = 4 * GS_GIB,
                                      .pool_allocs = 1000,
                                      .pool_hits = 972,
                                      .requested_bytes = 982,
                                      .rounded_bytes = 1000};

    config.rank = 3;
    config.devices = &device;
    config.device_count = 1;
    play_the_example(tracker, stacks);
    expect_report(
        tracker, &config,
        "gpushim 0.1.0: ./app --fast   host n07  rank 3  10m00s  exit 0\n"
        "GPU 0 NVIDIA H200: 2.04 GiB leaked at 2 call sites, peak 2.04 GiB at 9m56s, "
        "1 request failed\n"
        "Pool of GPU 0: reserved 4.00 GiB, hit rate 97.2 %, rounding waste 1.8 %\n"
        "Memory by owner, GPU 0           live     allocs\n"
        "  app                        2.04 GiB          9\n"
        "\n"
        "ERROR 1: double free of 0x7f1244000000 (64.0 MiB, GPU 0, cuMemFree)\n"
        "  freed again at 7m02s by thread 41301\n"
        "    #0 run                           app+0x210\n"
        "  first freed at 7m00s by thread 41233 (no call stack recorded: "
        "GPUSHIM_STACK=free)\n"
        "  allocated at 3m40s by thread 100 with cudaMalloc\n"
        "    #0 load_batch                    loader.c:88\n"
        "    #1 main                          app.c:12\n"
        "\n"
        "LEAK 2: 40.0 MiB in 1 allocation (1.9 % of leaked)\n"
        "  cudaMalloc, GPU 0, age 5m00s, live at exit\n"
        "    #0 load_batch                    loader.c:88\n"
        "    #1 main                          app.c:12\n"
        "\n"
        "LEAK 1: 2.00 GiB in 8 allocations (98.1 % of leaked)\n"
        "  cudaMalloc, GPU 0, oldest 9m10s, newest 4.00 s, live at exit\n"
        "       ... 1 frame of PyTorch\n"
        "    #0 run                           app+0x210\n"
        "    #1 main                          app.c:12\n"
        "\n"
        "To suppress known leaks: GPUSHIM_WRITE_SUPPRESSIONS=FILE writes their rules\n"
        "largest: 2.00 GiB leaked at run app+0x210\n"
        "SUMMARY: gpushim: 1 error, 2.04 GiB leaked in 9 allocations, 2 call sites\n");
}

/* What the first free was, where that was no call of a free. */
Test(report, a_free_by_the_launch_of_a_graph)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_allocation allocation = test_allocation(0x7000, 64);
    struct gs_free_site launch = {.time_ns = SECONDS(3),
                                  .thread = 9,
                                  .stack = TEST_STACK(stacks, AT_RUN, AT_MAIN),
                                  .api = API_MANAGED};
    struct gs_free_site again = {.time_ns = SECONDS(4), .thread = 8, .api = API_MEM_FREE};
    char *text;

    for (int with_stack = 1; with_stack >= 0; with_stack--) {
        launch.stack = with_stack ? launch.stack : 0;
        allocation.addr += 0x1000;
        gs_tracker_remove(tracker, test_add(tracker, &allocation, true), &launch);
        gs_tracker_error_free(tracker, allocation.addr, 0, &again);
    }
    text = test_report_text(tracker, &config, NULL);
    cr_expect_null(strstr(text, "launch"), "%s", text);
    free(text);
    config.launch_api = API_MANAGED;
    text = test_report_text(tracker, &config, NULL);
    cr_expect_not_null(
        strstr(text, "  freed again at 4.00 s by thread 8 (no call stack recorded)\n"
                     "  first freed at 3.00 s by thread 9, by the launch of a graph\n"
                     "    #0 run                           app+0x210\n"
                     "    #1 main                          app.c:12\n"
                     "  allocated at 1.00 s by thread 100 with cuMemAlloc\n"),
        "%s", text);
    cr_expect_not_null(
        strstr(text,
               "  first freed at 3.00 s by thread 9, by the launch of a graph (no call "
               "stack recorded: GPUSHIM_STACK=free)\n"),
        "%s", text);
    free(text);
}

/* Would see the rules of a default report push its leaks off the screen, rules that were
 * asked for missing, or a hint for those who have rules, or whose leak has none. */
Test(report, has_rules_on_request_and_else_a_hint)
{
    static const char rule[] = "  1:  leak:^run$ max_bytes=2G\n",
                      hint[] = "known leaks: ";
    OWNED_STACKS stacks = test_stacks();
    struct gs_tracker *tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_text rules = {0};
    char *text;

    play_the_example(tracker, stacks);
    text = test_report_text(tracker, &config, NULL);
    cr_expect(!strstr(text, rule) && strstr(text, hint), "%s", text);
    free(text);
    config.rules = &rules; /* GPUSHIM_WRITE_SUPPRESSIONS */
    text = test_report_text(tracker, &config, NULL);
    cr_expect(strstr(text, rule) && !strstr(text, hint), "%s", text);
    free(text);
    config.rules = NULL;
    config.show_pool = true; /* GPUSHIM_VERBOSE=2 */
    text = test_report_text(tracker, &config, NULL);
    cr_expect(strstr(text, rule) && !strstr(text, hint), "%s", text);
    free(text);
    config.show_pool = false;
    config.suppressions = test_rules("leak:nobody");
    text = test_report_text(tracker, &config, NULL);
    cr_expect(!strstr(text, rule) && !strstr(text, hint), "%s", text);
    free(text);
    gs_suppressions_destroy(config.suppressions);
    gs_text_free(&rules);
    gs_tracker_destroy(tracker);

    tracker = test_tracker(stacks);
    config.suppressions = NULL;
    test_leak(tracker, 0x1000, 512, SECONDS(10), TEST_STACK(stacks, AT_CUDART, AT_MAIN));
    text = test_report_text(tracker, &config, NULL);
    cr_expect(strstr(text, "LEAK 1") && !strstr(text, hint), "%s", text);
    free(text);
    gs_tracker_destroy(tracker);
}

Test(report, while_the_program_goes_on_nothing_has_leaked)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();

    config.running = true;
    config.ending = "out of memory";
    config.note = "cudaMalloc of 1.00 GiB on GPU 0 failed";
    config.stack = TEST_STACK(stacks, AT_SHIM, AT_DRIVER, AT_CUDART, AT_RUN, AT_LIBC);
    config.max_groups = 1;
    play_the_example(tracker, stacks);
    expect_report(
        tracker, &config,
        "gpushim 0.1.0: ./app --fast   host n07  10m00s  out of memory\n"
        "cudaMalloc of 1.00 GiB on GPU 0 failed\n"
        "    #0 run                           app+0x210\n"
        "\n"
        "GPU 0: 2.04 GiB live at 2 call sites, peak 2.04 GiB at 9m56s\n"
        "Memory by owner, GPU 0           live     allocs\n"
        "  app                        2.04 GiB          9\n"
        "\n"
        "1 more call site: 40.0 MiB in 1 allocation "
        "(GPUSHIM_LEAK_MAX=N lists more)\n"
        "\n"
        "LIVE 1: 2.00 GiB in 8 allocations (98.1 % of live)\n"
        "  cudaMalloc, GPU 0, oldest 9m10s, newest 4.00 s, live\n"
        "       ... 1 frame of PyTorch\n"
        "    #0 run                           app+0x210\n"
        "    #1 main                          app.c:12\n"
        "\n"
        "gpushim: 1 error so far, 2.04 GiB live in 9 allocations, 2 call sites; "
        "still running\n");
}

/* Where a function allocates for several callers, its name alone does not tell them
 * apart: would see the line without the caller, or with a frame of PyTorch. */
Test(report, the_largest_leak_of_a_wrapper_has_its_caller)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    uint32_t run =
        TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_TORCH, AT_TORCH, AT_RUN, AT_MAIN);
    uint32_t main = TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_MAIN);

    test_leak(tracker, 0x7f2000000000, 2 * GS_MIB, SECONDS(50), run);
    char *text = test_report_text(tracker, &config, NULL);
    cr_expect(strstr(text, "largest: 2.00 MiB leaked at load_batch loader.c:88\n"), "%s",
              text);
    free(text);
    test_leak(tracker, 0x7f3000000000, 1 * GS_MIB, SECONDS(60), main);
    text = test_report_text(tracker, &config, NULL);
    cr_expect(strstr(text, "largest: 2.00 MiB leaked at load_batch loader.c:88 < run "
                           "app+0x210\n"),
              "%s", text);
    free(text);
}

/* Would see memory of a process that a signal ended called leaked, or a rule proposed. */
Test(report, memory_of_a_killed_process_is_live)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();

    config.ending = "killed by SIGABRT";
    config.killed = true;
    config.killed_by = "SIGABRT";
    config.rank = 3;
    config.max_groups = 1;
    play_the_example(tracker, stacks);
    char *text = test_report_text(tracker, &config, NULL);
    cr_expect(strstr(text, "Note: The process was killed. This is its memory at that "
                           "moment.\n"));
    cr_expect(strstr(text, "LIVE 1: 2.00 GiB in 8 allocations (98.1 % of live)\n"));
    cr_expect(strstr(text, "newest 4.00 s, live when killed by SIGABRT (rank 3)\n"));
    cr_expect(strstr(text, "SUMMARY: gpushim: 1 error, 2.04 GiB live when killed by "
                           "SIGABRT (rank 3) in 9 allocations, 2 call sites\n"));
    cr_expect(strstr(text, "largest: 2.00 GiB live at run app+0x210\n"), "%s", text);
    cr_expect(!strstr(text, "leak"), "%s", text);
    free(text);
    /* How it ended is not known: the same words. */
    config.killed_by = NULL;
    config.ending = "ended without a report";
    text = test_report_text(tracker, &config, NULL);
    cr_expect(strstr(text, "Note: The process ended without a report. This is its memory "
                           "at that moment.\n"));
    cr_expect(strstr(text, "LIVE 1: 2.00 GiB in 8 allocations (98.1 % of live)\n"));
    cr_expect(strstr(text, "live when it ended\n"));
    cr_expect(strstr(text, "SUMMARY: gpushim: 1 error, 2.04 GiB live in 9 allocations, "
                           "2 call sites; ended without a report\n"));
    cr_expect(!strstr(text, "leak"), "%s", text);
    free(text);
    /* It ended itself, by a system call: that is an exit. */
    config.exited = true;
    config.ending = "exit_group 0";
    text = test_report_text(tracker, &config, NULL);
    cr_expect(strstr(text, "LEAK 1: "));
    cr_expect(strstr(text, "SUMMARY: gpushim: 1 error, 2.04 GiB leaked in 9 allocations, "
                           "2 call sites\n"));
    free(text);
}

Test(report, show_leaks_off_keeps_the_rest)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();

    config.show_leaks = false;
    play_the_example(tracker, stacks);
    expect_report(
        tracker, &config,
        "gpushim 0.1.0: ./app --fast   host n07  10m00s  exit 0\n"
        "GPU 0: 2.04 GiB leaked at 2 call sites, peak 2.04 GiB at 9m56s, 1 request "
        "failed\n"
        "\n"
        "ERROR 1: double free of 0x7f1244000000 (64.0 MiB, GPU 0, cuMemFree)\n"
        "  freed again at 7m02s by thread 41301\n"
        "    #0 run                           app+0x210\n"
        "  first freed at 7m00s by thread 41233 (no call stack recorded: "
        "GPUSHIM_STACK=free)\n"
        "  allocated at 3m40s by thread 100 with cudaMalloc\n"
        "    #0 load_batch                    loader.c:88\n"
        "    #1 main                          app.c:12\n"
        "\n"
        "SUMMARY: gpushim: 1 error, 2.04 GiB leaked in 9 allocations, 2 call sites\n");
}

Test(report, nothing_but_addresses_without_a_symbolizer)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    struct gs_text text = {0};

    source.resolve = NULL;
    test_leak(tracker, 0x1000, 512, SECONDS(599),
              TEST_STACK(stacks, AT_SHIM, AT_CUDART, AT_NOWHERE, AT_RUN, AT_LIBC));
    gs_report_write_from(tracker, &config, &source, &text, NULL);
    test_take_prefix_off(text.data);
    cr_expect_str_eq(
        text.data,
        "gpushim 0.1.0: ./app --fast   host n07  10m00s  exit 0\n"
        "GPU 0: 512 B leaked at 1 call site, peak 512 B at 9m59s\n"
        "\n"
        "LEAK 1: 512 B in 1 allocation (100 % of leaked)\n"
        "  cuMemAlloc, GPU 0, age 1.00 s, live at exit\n"
        "    #0 0x90010\n"
        "    #1 ??                            app+0x210\n"
        "\n"
        "largest: 512 B leaked at 0x90010\n"
        "SUMMARY: gpushim: 0 errors, 512 B leaked in 1 allocation, 1 call site\n");
    gs_text_free(&text);
}

Test(report, without_stacks_calls_are_the_groups)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_allocation allocation = test_allocation(0x1000, 1024);

    allocation.api = API_MEM_ALLOC;
    test_add(tracker, &allocation, true);
    allocation.addr = 0x2000;
    allocation.api = API_MEM_ALLOC_V2; /* another number, the same name */
    test_add(tracker, &allocation, false);
    allocation.addr = 0x3000;
    allocation.api = 999;     /* not in the table */
    allocation.stack = 12345; /* not in any table */
    allocation.bytes = 1;
    test_add(tracker, &allocation, false);
    expect_report(
        tracker, &config,
        "gpushim 0.1.0: ./app --fast   host n07  10m00s  exit 0\n"
        "GPU 0: 2.00 KiB leaked at 2 call sites, peak 2.00 KiB at 1.00 s\n"
        "\n"
        "LEAK 2: 1 B in 1 allocation (0.0 % of leaked)\n"
        "  unknown, GPU 0, age 9m59s, live at exit\n"
        "    no call stack was recorded\n"
        "\n"
        "LEAK 1: 2.00 KiB in 2 allocations (99.9 % of leaked)\n"
        "  cuMemAlloc, GPU 0, age 9m59s, live at exit\n"
        "    no call stack was recorded\n"
        "\n"
        "largest: 2.00 KiB leaked (no call stack was recorded)\n"
        "SUMMARY: gpushim: 0 errors, 2.00 KiB leaked in 3 allocations, 2 call sites\n");
}

Test(report, memory_of_graphs_is_a_kind_of_its_own_on_its_device)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_allocation allocation = test_allocation(0x1000, GS_MIB);

    test_add(tracker, &allocation, false);
    allocation = test_allocation(0x2000, 2 * GS_MIB);
    allocation.kind = GS_MEMORY_GRAPH;
    test_add(tracker, &allocation, false);
    expect_report(
        tracker, &config,
        "gpushim 0.1.0: ./app --fast   host n07  10m00s  exit 0\n"
        "GPU 0: 3.00 MiB leaked at 2 call sites, peak 3.00 MiB at 1.00 s\n"
        "\n"
        "LEAK 2: 1.00 MiB in 1 allocation (33.3 % of leaked)\n"
        "  cuMemAlloc, GPU 0, age 9m59s, live at exit\n"
        "    no call stack was recorded\n"
        "\n"
        "LEAK 1: 2.00 MiB in 1 allocation (66.7 % of leaked)\n"
        "  cuMemAlloc, graph memory, GPU 0, age 9m59s, live at exit\n"
        "    no call stack was recorded\n"
        "\n"
        "largest: 2.00 MiB leaked (no call stack was recorded)\n"
        "SUMMARY: gpushim: 0 errors, 3.00 MiB leaked in 2 allocations, 2 call sites\n");
}

Test(report, pinned_and_managed_memory_are_kinds_of_their_own)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_allocation allocation = test_allocation(0x1000, 3 * GS_MIB);

    allocation.kind = GS_MEMORY_PINNED;
    allocation.api = API_HOST_ALLOC;
    test_add(tracker, &allocation, false);
    allocation = test_allocation(0x2000, 2 * GS_MIB);
    allocation.kind = GS_MEMORY_MANAGED;
    allocation.api = API_MANAGED;
    allocation.device = 1;
    test_add(tracker, &allocation, false);
    allocation = test_allocation(0x3000, GS_MIB);
    allocation.kind = GS_MEMORY_ASYNC;
    allocation.device = 1;
    test_add(tracker, &allocation, false);
    expect_report(
        tracker, &config,
        "gpushim 0.1.0: ./app --fast   host n07  10m00s  exit 0\n"
        "GPU 1: 3.00 MiB leaked at 2 call sites, peak 3.00 MiB at 1.00 s\n"
        "Pinned host memory: 3.00 MiB leaked at 1 call site, peak 3.00 MiB at 1.00 s\n"
        "\n"
        "LEAK 3: 1.00 MiB in 1 allocation (16.7 % of leaked)\n"
        "  cuMemAlloc, GPU 1, age 9m59s, live at exit\n"
        "    no call stack was recorded\n"
        "\n"
        "LEAK 2: 2.00 MiB in 1 allocation (33.3 % of leaked)\n"
        "  cuMemAllocManaged, managed memory, GPU 1, age 9m59s, live at exit\n"
        "    no call stack was recorded\n"
        "\n"
        "LEAK 1: 3.00 MiB in 1 allocation (50.0 % of leaked)\n"
        "  cuMemHostAlloc, pinned host memory, age 9m59s, live at exit\n"
        "    no call stack was recorded\n"
        "\n"
        "largest: 3.00 MiB leaked (no call stack was recorded)\n"
        "SUMMARY: gpushim: 0 errors, 6.00 MiB leaked in 3 allocations, 3 call sites\n");
}

Test(report, what_a_reset_lost_is_told_apart)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    uint32_t stack = TEST_STACK(stacks, AT_LOAD, AT_MAIN);

    test_leak(tracker, 0x1000, 512, SECONDS(10), stack);
    test_leak(tracker, 0x2000, 512, SECONDS(20), stack);
    gs_tracker_lose_context(tracker, 0xc0, ~0u);
    test_leak(tracker, 0x1000, 256, SECONDS(540), stack);
    expect_report(
        tracker, &config,
        "gpushim 0.1.0: ./app --fast   host n07  10m00s  exit 0\n"
        "GPU 0: 1.25 KiB leaked at 2 call sites (1.00 KiB live at reset), peak 1.00 KiB "
        "at 20.0 s\n"
        "Memory by owner, GPU 0           live     allocs\n"
        "  app                           256 B          1\n"
        "\n"
        "LEAK 2: 256 B in 1 allocation (20.0 % of leaked)\n"
        "  cuMemAlloc, GPU 0, age 1m00s, live at exit\n"
        "    #0 load_batch                    loader.c:88\n"
        "    #1 main                          app.c:12\n"
        "\n"
        "LEAK 1: 1.00 KiB in 2 allocations (80.0 % of leaked)\n"
        "  cuMemAlloc, GPU 0, oldest 9m50s, newest 9m40s, live at reset\n"
        "    #0 load_batch                    loader.c:88\n"
        "    #1 main                          app.c:12\n"
        "\n"
        "To suppress known leaks: GPUSHIM_WRITE_SUPPRESSIONS=FILE writes their rules\n"
        "largest: 1.00 KiB leaked at load_batch loader.c:88\n"
        "SUMMARY: gpushim: 0 errors, 1.25 KiB leaked in 3 allocations, 2 call sites\n");
}

Test(report, each_kind_of_wrong_free)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_allocation allocation = test_allocation(0x7f0000000000, GS_MIB);
    struct gs_free_site site = {.time_ns = SECONDS(3), .api = API_MEM_FREE};

    test_add(tracker, &allocation, true);
    gs_tracker_lose_context(tracker, 0xc0, ~0u);
    gs_tracker_error_free(tracker, 0x7f0000000000, 0, &site);
    allocation.addr = 0x7f0000800000;
    allocation.kind = GS_MEMORY_PINNED;
    allocation.api = API_HOST_ALLOC;
    allocation.thread = 0;
    test_add(tracker, &allocation, false);
    gs_tracker_error_free(tracker, 0x7f0000800000, 0, &site);
    gs_tracker_error_free(tracker, 0x7f0000800001, 0, &site);
    gs_tracker_error_free(tracker, 0x7f0000801000, 0, &site);
    gs_tracker_error_free(tracker, 0xbad, 2, &site);
    gs_tracker_error_free(tracker, 0xbad, -1, &site);
    cr_assert_eq(gs_tracker_remove_address(tracker, 0x7f0000800000, &site, NULL), GS_OK);
    config.show_leaks = false;

    char *text = test_report_text(tracker, &config, NULL);
    const char *errors = strstr(text, "ERROR 1");
    cr_assert_not_null(errors);
    struct gs_tracker_totals totals = test_totals(tracker, 0);
    cr_assert_geq(totals.lost_count, 1);
    /* The context died at a time of the real clock, within this test's first second. */
    char died[64];
    cr_assert_eq(sscanf(strstr(errors, "reset at "), "reset at %63[^\n]", died), 1);
    char expected[4096];
    snprintf(expected, sizeof(expected),

             "ERROR 1: invalid free of 0x7f0000000000 (1.00 MiB, GPU 0, cuMemFree)\n"
             "  freed at 3.00 s (no call stack recorded)\n"
             "  its context was destroyed or reset at %s\n"
             "  allocated at 1.00 s by thread 100 with cuMemAlloc\n"
             "    no call stack was recorded\n"
             "\n"
             "ERROR 2: mismatched free of 0x7f0000800000 (1.00 MiB, "
             "pinned host memory, cuMemFree)\n"
             "  freed at 3.00 s (no call stack recorded)\n"
             "  allocated at 1.00 s with cuMemHostAlloc\n"
             "    no call stack was recorded\n"
             "\n"
             "ERROR 3: invalid free of 0x7f0000800001 (GPU 0, cuMemFree)\n"
             "  1 byte into a live allocation of 1.00 MiB at 0x7f0000800000\n"
             "  freed at 3.00 s (no call stack recorded)\n"
             "  allocated at 1.00 s with cuMemHostAlloc\n"
             "    no call stack was recorded\n"
             "\n"
             "ERROR 4: invalid free of 0x7f0000801000 (GPU 0, cuMemFree)\n"
             "  4,096 bytes into a live allocation of 1.00 MiB at 0x7f0000800000\n"
             "  freed at 3.00 s (no call stack recorded)\n"
             "  allocated at 1.00 s with cuMemHostAlloc\n"
             "    no call stack was recorded\n"
             "\n"
             "ERROR 5: invalid free of 0xbad (GPU 2, cuMemFree)\n"
             "  not a live or recently freed allocation\n"
             "  freed at 3.00 s (no call stack recorded)\n"
             "\n"
             "ERROR 6: invalid free of 0xbad (cuMemFree)\n"
             "  not a live or recently freed allocation\n"
             "  freed at 3.00 s (no call stack recorded)\n"
             "\n"
             "SUMMARY: gpushim: 6 errors, 1.00 MiB leaked in 1 allocation, 1 call site\n",
             died);
    cr_expect_str_eq(errors, expected);
    free(text);
}

Test(report, errors_beyond_those_kept_are_counted)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_report_summary summary;

    for (unsigned i = 0; i < 1234; i++)
        gs_tracker_error_free(tracker, 0xbad000 + i, 0, NULL);
    char *text = test_report_text(tracker, &config, &summary);
    cr_assert_eq(summary.errors, 1234);
    cr_assert_not_null(strstr(text, "ERROR 32: "));
    cr_assert_null(strstr(text, "ERROR 33: "));
    cr_assert_not_null(
        strstr(text, "\n"
                     "1,202 more errors, only counted\n"
                     "\n"
                     "SUMMARY: gpushim: 1,234 errors, 0 B leaked in 0 allocations, "
                     "0 call sites\n"));
    free(text);
}

Test(report, small_and_late_groups_are_only_counted)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_summary summary;

    for (uintptr_t i = 0; i < 20; i++)
        test_leak(tracker, 0x1000 * (i + 1), 1000 + i, SECONDS(1),
                  TEST_STACK(stacks, AT_NOWHERE + i, AT_MAIN));
    config.max_groups = 3;
    char *text = test_report_text(tracker, &config, &summary);
    cr_assert_eq(summary.leak_groups, 20);
    cr_assert_eq(summary.leaked_count, 20);
    cr_assert_eq(summary.leaked_bytes, 20190);
    cr_assert_not_null(strstr(text, "LEAK 1: 1019 B in 1 allocation (5.0 % of "));
    cr_assert_not_null(strstr(text, "LEAK 3: 1017 B in 1 allocation"));
    cr_assert_null(strstr(text, "LEAK 4"));
    cr_assert_not_null(strstr(text, "17 more call sites: 16.7 KiB in 17 allocations "
                                    "(GPUSHIM_LEAK_MAX=N lists more)\n"
                                    "\n"));
    free(text);

    config.max_groups = 100;
    config.min_leak_bytes = 1001;
    text = test_report_text(tracker, &config, NULL);
    cr_assert_not_null(strstr(text, "LEAK 19: 1001 B"));
    cr_assert_null(strstr(text, "LEAK 20"));
    cr_assert_not_null(strstr(text, "1 more call site: 1000 B in 1 allocation (GPU"));
    free(text);
}

Test(report, owners_are_per_device_and_ranked)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    uint32_t mine = TEST_STACK(stacks, AT_SHIM, AT_CUDART, AT_TORCH, AT_MINE, AT_MAIN);
    uint32_t app = TEST_STACK(stacks, AT_LOAD, AT_MAIN);
    struct gs_allocation allocation = test_allocation(0x1000, 100 * GS_MIB);

    for (unsigned device = 0; device < 2; device++) {
        for (unsigned i = 0; i < 3; i++) {
            allocation.addr += 0x1000;
            allocation.device = (int16_t)device;
            allocation.stack = i == 0 ? 0 : (i == 1) == (device == 1) ? mine : app;
            allocation.bytes = (10 + i) * GS_MIB;
            test_add(tracker, &allocation, true);
        }
    }
    allocation.kind = GS_MEMORY_PINNED;
    allocation.stack = mine;
    test_add(tracker, &allocation, false);
    char *text = test_report_text(tracker, &config, NULL);
    const char *owners = strstr(text, "Memory by owner");
    cr_assert_not_null(owners);
    char *leaks = strstr(owners, "LEAK 7: ");
    cr_assert_not_null(leaks, "%s", text);
    *leaks = '\0';
    cr_expect_str_eq(owners, "Memory by owner, GPU 0           live     allocs\n"
                             "  libmine.so                 12.0 MiB          1\n"
                             "  app                        11.0 MiB          1\n"
                             "  unknown                    10.0 MiB          1\n"
                             "Memory by owner, GPU 1           live     allocs\n"
                             "  app                        12.0 MiB          1\n"
                             "  libmine.so                 11.0 MiB          1\n"
                             "  unknown                    10.0 MiB          1\n"
                             "Memory by owner, pinned host     live     allocs\n"
                             "  libmine.so                 12.0 MiB          1\n"
                             "\n");
    free(text);
}

/* Each stack a module of its own. */
static enum gs_status own_module(void *self, uint32_t stack, uintptr_t frame,
                                 struct gs_module *out)
{
    static const char paths[8][8] = {"/lib0", "/lib1", "/lib2", "/lib3",
                                     "/lib4", "/lib5", "/lib6", "/lib7"};

    (void)self;
    (void)stack;
    *out = (struct gs_module){.path = paths[frame / 0x1000 % 8]};
    return GS_OK;
}

static void name_in_german(void *self, struct gs_symbol_request *requests, size_t count)
{
    test_source().resolve(self, requests, count);
    for (size_t i = 0; i < count; i++) {
        if (requests[i].frame == AT_LOAD)
            requests[i].result.function = "lade_Größe";
    }
}

static enum gs_status german_module(void *self, uint32_t stack, uintptr_t frame,
                                    struct gs_module *out)
{
    enum gs_status status = test_source().module(self, stack, frame, out);

    if (frame == AT_LOAD)
        out->path = "/opt/Maße\n\xc2\x85";
    return status;
}

/* Would see columns that count bytes: a name that is not English moves them to the left.
 * Each byte of a control character is one question mark. */
Test(report, columns_count_characters)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    struct gs_text text = {0};

    source.module = german_module;
    source.resolve = name_in_german;
    test_leak(tracker, 0x1000, GS_MIB, SECONDS(1), TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    gs_report_write_from(tracker, &config, &source, &text, NULL);
    cr_expect(strstr(text.data, "  Maße???                    1.00 MiB          1\n"),
              "%s", text.data);
    cr_expect(strstr(text.data, "    #0 lade_Größe                    loader.c:88\n"),
              "%s", text.data);
    cr_expect(strstr(text.data, "    #1 main                          app.c:12\n"), "%s",
              text.data);
    gs_text_free(&text);
}

/* Would see a long table of owners before the leaks, or a sum without some of them. */
Test(report, the_largest_owners_are_shown_and_the_sum_of_others)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    struct gs_text text = {0};

    source.module = own_module;
    for (uintptr_t i = 0; i < 6; i++)
        test_leak(tracker, 0x1000 * (i + 1), (i + 1) * GS_MIB, SECONDS(1),
                  TEST_STACK(stacks, AT_NOWHERE + 0x1000 * i));
    gs_report_write_from(tracker, &config, &source, &text, NULL);
    cr_expect(strstr(text.data, "  lib") && !strstr(text.data, "others"), "%s",
              text.data);
    gs_text_free(&text);
    for (uintptr_t i = 6; i < 8; i++)
        test_leak(tracker, 0x1000 * (i + 1), (i + 1) * GS_MIB, SECONDS(1),
                  TEST_STACK(stacks, AT_NOWHERE + 0x1000 * i));
    gs_report_write_from(tracker, &config, &source, &text, NULL);
    cr_expect(strstr(text.data, " 4.00 MiB          1\n"), "%s", text.data);
    cr_expect(strstr(text.data, "  3 others                   6.00 MiB          3\n"),
              "%s", text.data);
    cr_expect(!strstr(text.data, " 3.00 MiB          1\n"), "%s", text.data);
    gs_text_free(&text);
    config.show_pool = true;
    gs_report_write_from(tracker, &config, &source, &text, NULL);
    cr_expect(strstr(text.data, " 3.00 MiB          1\n"), "%s", text.data);
    cr_expect(!strstr(text.data, "others"), "%s", text.data);
    gs_text_free(&text);
}

Test(report, a_pool_that_was_not_used_is_not_shown)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_report_device devices[3] = {
        {.name = "A", .pooled = true},
        {.name = "B", .pooled = true, .reserved_peak_bytes = 4 * GS_MIB},
        {.name = "C", .pooled = false, .reserved_peak_bytes = 4 * GS_MIB}};

    config.devices = devices;
    config.device_count = 3;
    gs_tracker_error_free(tracker, 0xbad, 0, NULL);
    char *text = test_report_text(tracker, &config, NULL);
    char *found = strstr(text, "Pool of GPU ");
    cr_assert_not_null(found);
    cr_expect_eq(
        strncmp(found, "Pool of GPU 1: reserved 0 B (peak 4.00 MiB)\n\nERROR 1", 51), 0,
        "%s", text);
    cr_expect_null(strstr(found + 1, "Pool of GPU "));
    free(text);
}
