/*
 * tracker_report_frames.c - proves which frames of a stack are shown, and which call the
 * program is said to have made; and the small formats of the report.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "export.h"
#include "tracker_helpers.h"

struct shown {
    struct gs_stacks *stacks;
    struct gs_frame_table table;
    struct gs_report_config config;
    struct gs_shown_stack stack;
};

static struct shown show(const uintptr_t *frames, unsigned count, unsigned depth)
{
    struct shown shown = {.stacks = test_stacks(), .config = test_report_config()};
    struct gs_report_source source = test_source();
    uint32_t id = test_stack(shown.stacks, frames, count);
    uint32_t ids[3] = {id, 0, id};

    shown.config.stack_depth = depth;
    gs_frame_table_fill(&shown.table, &shown.config, shown.stacks, &source, ids, 3);
    shown.stack = gs_frame_table_show(&shown.table, &shown.config, id);
    return shown;
}

static void hide(struct shown *shown)
{
    gs_frame_table_free(&shown->table);
    gs_stacks_destroy(shown->stacks);
}

/* `frames` are shown as frames[first] to frames[end - 1], with this call and cut. */
static void expect_frames(const uintptr_t *frames, unsigned count, unsigned depth,
                          unsigned first, unsigned end, const char *call, bool cut)
{
    struct shown shown = show(frames, count, depth);

    cr_expect_eq(shown.stack.count, end - first, "%u frames", shown.stack.count);
    for (unsigned i = 0; i < shown.stack.count && i < end - first; i++)
        cr_expect_eq(shown.stack.frames[i].frame, frames[first + i], "frame %u", i);
    cr_expect_eq(shown.stack.cut, cut);
    if (call)
        cr_expect_str_eq(shown.stack.call ? shown.stack.call : "none", call);
    else
        cr_expect_null(shown.stack.call);
    hide(&shown);
}

#define FRAMES(...)                                                                      \
    (const uintptr_t[])                                                                  \
    {                                                                                    \
        __VA_ARGS__                                                                      \
    }

Test(frames, a_driver_program_keeps_all_of_its_own)
{
    expect_frames(FRAMES(AT_LOAD, AT_RUN, AT_MAIN), 3, 0, 0, 3, NULL, false);
}

Test(frames, runtime_driver_and_shim_files_are_dropped_inside)
{
    expect_frames(FRAMES(AT_SHIM, AT_DRIVER, AT_DRIVER, AT_LOAD, AT_MAIN), 5, 0, 3, 5,
                  NULL, false);
    expect_frames(FRAMES(AT_SHIM, AT_CUDART, AT_LOAD, AT_MAIN), 4, 0, 2, 4, "cudaMalloc",
                  false);
}

Test(frames, such_files_further_out_stay)
{
    expect_frames(FRAMES(AT_LOAD, AT_DRIVER, AT_MAIN), 3, 0, 0, 3, NULL, false);
}

Test(frames, a_static_runtime_is_dropped_by_name)
{
    expect_frames(FRAMES(AT_SHIM, AT_STATIC_INNER, AT_STATIC_INNER, AT_STATIC_CUDA,
                         AT_LOAD, AT_MAIN),
                  6, 0, 4, 6, "cudaMalloc", false);
}

Test(frames, the_outermost_runtime_name_counts)
{
    expect_frames(FRAMES(AT_CUDART, AT_STATIC_INNER, AT_STATIC_CUDA, AT_LOAD, AT_MAIN), 5,
                  0, 3, 5, "cudaMalloc", false);
}

Test(frames, nothing_outside_main_is_shown)
{
    expect_frames(FRAMES(AT_LOAD, AT_MAIN, AT_LIBC, AT_LIBC_STRIPPED, AT_START), 5, 0, 0,
                  2, NULL, false);
}

Test(frames, a_threads_start_is_not_shown)
{
    expect_frames(FRAMES(AT_LOAD, AT_RUN, AT_THREAD, AT_CLONE), 4, 0, 0, 2, NULL, false);
}

Test(frames, a_stripped_start_is_not_shown)
{
    expect_frames(
        FRAMES(AT_STRIPPED, AT_STRIPPED, AT_LIBC_STRIPPED, AT_LIBC_STRIPPED, AT_STRIPPED),
        5, 0, 0, 2, NULL, false);
}

Test(frames, a_stack_of_nothing_but_runtime_is_shown_whole)
{
    expect_frames(FRAMES(AT_SHIM, AT_CUDART), 2, 0, 0, 2, "cudaMalloc", false);
    expect_frames(FRAMES(AT_THREAD, AT_CLONE), 2, 0, 0, 2, NULL, false);
}

Test(frames, a_stack_of_full_depth_that_does_not_end_was_cut)
{
    expect_frames(FRAMES(AT_LOAD, AT_RUN, AT_RUN), 3, 3, 0, 3, NULL, true);
    expect_frames(FRAMES(AT_LOAD, AT_RUN, AT_RUN), 3, 4, 0, 3, NULL, false);
    expect_frames(FRAMES(AT_LOAD, AT_RUN, AT_MAIN), 3, 3, 0, 3, NULL, false);
    expect_frames(FRAMES(AT_LOAD, AT_RUN, AT_CLONE), 3, 3, 0, 2, NULL, false);
}

Test(frames, an_unknown_stack_has_none)
{
    struct shown shown = show(FRAMES(AT_LOAD), 1, 0);
    struct gs_frame_table empty = {0};

    cr_assert_eq(gs_frame_table_show(&shown.table, &shown.config, 0).count, 0);
    cr_assert_eq(gs_frame_table_show(&shown.table, &shown.config, 4711).count, 0);
    cr_assert_eq(gs_frame_table_show(&empty, &shown.config, 1).count, 0);
    gs_frame_table_free(&empty);
    hide(&shown);
}

static void take_wanted(void *self, struct gs_symbol_request *requests, size_t count)
{
    uint64_t *wanted = self;

    for (size_t i = 0; i < count; i++)
        *wanted |= (uint64_t)requests[i].line_wanted << i;
}

/* The frames of a stack that get file and line, as bits. */
static uint64_t wanted_lines(const struct gs_export_job *job)
{
    struct gs_stacks *stacks = test_stacks();
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    struct gs_frame_table table;
    uint64_t wanted = 0;
    uint32_t id = TEST_STACK(stacks, AT_SHIM, AT_CUDART, AT_LOAD, AT_MAIN, AT_LIBC,
                             AT_LIBC_STRIPPED, AT_START);

    config.job = job;
    source.self = &wanted;
    source.find_lines = take_wanted;
    gs_frame_table_fill(&table, &config, stacks, &source, &id, 1);
    gs_frame_table_free(&table);
    gs_stacks_destroy(stacks);
    return wanted;
}

/* Or the debug files of libc and the runtime are read for nothing. */
Test(frames, lines_are_looked_up_of_shown_frames_alone)
{
    cr_expect_eq(wanted_lines(NULL), 0x0c);
    cr_expect_eq(wanted_lines(&(struct gs_export_job){.lines = false}), 0x0c);
}

Test(frames, lines_of_all_frames_are_looked_up_for_a_file_that_has_them)
{
    cr_expect_eq(wanted_lines(&(struct gs_export_job){.lines = true}), 0x7f);
}

Test(frames, modules_of_the_runtime_are_known_by_name)
{
    static const char *const yes[] = {"libcudart.so",  "libcudart.so.13",
                                      "libcuda.so.1",  "libcuda.so.580.65",
                                      "libgpushim.so", "libcudart-d0da41ae.so.11.0"};
    static const char *const no[] = {"",
                                     "app",
                                     "libcudnn.so.9",
                                     "libcudadevrt.a",
                                     "libtorch_cuda.so",
                                     "libmycuda.so",
                                     "cuda.so"};

    for (size_t i = 0; i < GS_ARRAY_LEN(yes); i++)
        cr_expect(gs_module_is_runtime(yes[i]), "%s", yes[i]);
    for (size_t i = 0; i < GS_ARRAY_LEN(no); i++)
        cr_expect_not(gs_module_is_runtime(no[i]), "%s", no[i]);
}

Test(frames, base_names)
{
    cr_expect_str_eq(gs_module_base_name("/usr/lib/libc.so.6"), "libc.so.6");
    cr_expect_str_eq(gs_module_base_name("app"), "app");
    cr_expect_str_eq(gs_module_base_name("/opt/"), "");
    cr_expect_str_eq(gs_module_base_name(""), "");
    cr_expect_str_eq(gs_module_base_name(NULL), "");
}

Test(frames, long_names_are_cut_between_characters)
{
    char out[16];

    cr_expect_str_eq(gs_report_clean("fifteen letters", out, sizeof out),
                     "fifteen letters");
    cr_expect_str_eq(gs_report_clean("sixteen letters!", out, sizeof out),
                     "sixteen lett...");
    /* The cut would fall into the two bytes of the last letter. */
    cr_expect_str_eq(
        gs_report_clean("elevenbytes\xc3\xa9\xc3\xa9\xc3\xa9", out, sizeof out),
        "elevenbytes...");
    cr_expect_str_eq(gs_report_clean("a\tb\x7f", out, sizeof out), "a?b?");
    cr_expect_str_eq(gs_report_clean(NULL, out, sizeof out), "");
}

Test(frames, percentages)
{
    char out[16];

    cr_expect_str_eq(gs_report_percent(98, 100, out), "98.0");
    cr_expect_str_eq(gs_report_percent(1, 3, out), "33.3");
    cr_expect_str_eq(gs_report_percent(2, 3, out), "66.7");
    cr_expect_str_eq(gs_report_percent(5, 5, out), "100");
    cr_expect_str_eq(gs_report_percent(99999, 100000, out), "99.9", "not all of it");
    cr_expect_str_eq(gs_report_percent(0, 7, out), "0.0");
    cr_expect_str_eq(gs_report_percent(0, 0, out), "0.0");
    cr_expect_str_eq(gs_report_percent(9, 5, out), "100");
    cr_expect_str_eq(gs_report_percent(UINT64_MAX, UINT64_MAX, out), "100");
}
