/*
 * tracker_report_frames.c - proves which frames of a stack are shown, and which call the
 * program is said to have made; and the small formats of the report.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tracker/names/frame_kinds.h"
#include "tracker/report/export.h"
#include "tracker_helpers.h"

struct shown {
    struct gs_stacks *stacks;
    struct gs_frame_table table;
    struct gs_report_config config;
    struct gs_shown_stack stack;
};

static struct shown show_from(struct gs_report_source source, const uintptr_t *frames,
                              unsigned count, unsigned depth)
{
    struct shown shown = {.stacks = test_stacks(), .config = test_report_config()};
    uint32_t id = test_stack(shown.stacks, frames, count);
    uint32_t ids[3] = {id, 0, id};

    shown.config.stack_depth = depth;
    gs_frame_table_fill(&shown.table, &shown.config, shown.stacks, &source, ids, 3);
    shown.stack = gs_frame_table_show(&shown.table, &shown.config, id);
    return shown;
}

static struct shown show(const uintptr_t *frames, unsigned count, unsigned depth)
{
    return show_from(test_source(), frames, count, depth);
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

#define PACKAGES "/v/lib/python3.11/site-packages/"

/* ---- inlined functions, and the C++ library --------------------------------------- */

enum {
    AT_GROW = 0x10710, /* std::vector<Buffer>::emplace_back, with a constructor inlined */
    AT_STATE = 0x10810,  /* std::thread's _M_run, with a lambda inlined */
    AT_NATIVE = 0x10910, /* what libstdc++ starts a thread with */
    AT_TYPED = 0x10a10,  /* load, with cuda_runtime.h's cudaMalloc<float> inlined */
    AT_INVOKE = 0x10b10, /* std::invoke, with nothing inlined */
};

static void resolve_inlined(void *self, struct gs_symbol_request *requests, size_t count)
{
    static const struct gs_symbol in_grow[] = {
        {.function = "Buffer::Buffer(int)", .file = "/src/app.cpp", .line = 7},
        {.function = "construct<Buffer>",
         .file = "/usr/include/c++/12/bits/new_allocator.h",
         .line = 175}};
    static const struct gs_symbol in_state[] = {
        {.function = "operator()", .file = "/src/app.cpp", .line = 9},
        {.function = "__invoke<main()::<lambda()> >",
         .file = "/usr/include/c++/12/bits/invoke.h",
         .line = 96}};
    static const struct gs_symbol in_typed[] = {
        {.function = "cudaMalloc<float>",
         .file = "/usr/local/cuda/include/cuda_runtime.h",
         .line = 653}};
    static const struct {
        uintptr_t frame;
        struct gs_symbol symbol;
    } symbols[] = {
        {AT_GROW,
         {.function = "std::vector<Buffer>::emplace_back(int)",
          .linkage = "_ZNSt6vectorI6BufferSaIS0_EE12emplace_backIJiEEERS0_DpOT_",
          .inlined = in_grow,
          .inlined_count = 2}},
        {AT_STATE,
         {.function = "std::thread::_State_impl<...>::_M_run()",
          .linkage =
              "_ZNSt6thread11_State_implINS_8_InvokerISt5tupleIJZ4mainEUlvE_EEEEE6_"
              "M_runEv",
          .inlined = in_state,
          .inlined_count = 2}},
        {AT_NATIVE,
         {.function = "execute_native_thread_routine",
          .linkage = "execute_native_thread_routine"}},
        {AT_TYPED,
         {.function = "load",
          .linkage = "load",
          .file = "/src/app.cpp",
          .line = 20,
          .inlined = in_typed,
          .inlined_count = 1}},
        {AT_INVOKE, {.function = "std::invoke", .linkage = "_ZSt6invokeIRFvvEJEEvv"}}};

    test_source().resolve(self, requests, count);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < GS_ARRAY_LEN(symbols); k++) {
            if (symbols[k].frame == requests[i].frame)
                requests[i].result = symbols[k].symbol;
        }
    }
}

static struct gs_report_source inlined_source(void)
{
    struct gs_report_source source = test_source();

    source.resolve = resolve_inlined;
    return source;
}

/* The stack is printed as `expected`. */
static void expect_printed(const uintptr_t *frames, unsigned count, unsigned depth,
                           const char *expected)
{
    struct shown shown = show_from(inlined_source(), frames, count, depth);
    struct gs_text text = {0};
    struct gs_report_writer writer = {.text = &text};

    gs_report_stack(&writer, &shown.stack);
    cr_expect_str_eq(text.data, expected);
    gs_text_free(&text);
    hide(&shown);
}

Test(frames, inlined_functions_are_frames_of_their_own)
{
    expect_printed(FRAMES(AT_CUDART, AT_GROW, AT_LOAD, AT_MAIN), 4, 0,
                   "    #0 Buffer::Buffer(int)           app.cpp:7 (inlined)\n"
                   "       ... 2 frames of the C++ library\n"
                   "    #3 load_batch                    loader.c:88\n"
                   "    #4 main                          app.c:12\n");
}

Test(frames, nothing_outside_a_threads_first_function_is_shown)
{
    expect_printed(FRAMES(AT_STATE, AT_NATIVE, AT_THREAD, AT_CLONE), 4, 0,
                   "    #0 operator()                    app.cpp:9 (inlined)\n");
    expect_printed(FRAMES(AT_LOAD, AT_NATIVE, AT_THREAD, AT_CLONE), 4, 0,
                   "    #0 load_batch                    loader.c:88\n");
}

Test(frames, a_stack_of_nothing_but_the_cxx_library_is_shown_whole)
{
    expect_printed(FRAMES(AT_INVOKE, AT_NATIVE, AT_THREAD), 3, 0,
                   "    #0 std::invoke                    app+0xb10\n"
                   "    #1 execute_native_thread_routine  app+0x910\n");
}

Test(frames, one_frame_of_the_cxx_library_is_not_folded)
{
    expect_printed(FRAMES(AT_LOAD, AT_INVOKE, AT_MAIN), 3, 0,
                   "    #0 load_batch                    loader.c:88\n"
                   "    #1 std::invoke                   app+0xb10\n"
                   "    #2 main                          app.c:12\n");
}

/* Only recorded frames fill the depth. */
Test(frames, inlined_functions_do_not_cut_a_stack)
{
    expect_printed(FRAMES(AT_GROW, AT_LOAD), 2, 3,
                   "    #0 Buffer::Buffer(int)           app.cpp:7 (inlined)\n"
                   "       ... 2 frames of the C++ library\n"
                   "    #3 load_batch                    loader.c:88\n");
}

Test(frames, cuda_runtime_hs_templates_are_the_runtimes)
{
    expect_printed(FRAMES(AT_CUDART, AT_TYPED, AT_MAIN), 3, 0,
                   "    #0 load                          app.cpp:20\n"
                   "    #1 main                          app.c:12\n");
}

/* ---- the program's own frame ------------------------------------------------------- */

Test(frames, the_programs_own_is_the_first)
{
    struct shown shown =
        show(FRAMES(AT_SHIM, AT_CUDART, AT_TORCH, AT_TORCH + 4, AT_RUN, AT_MAIN), 6, 0);

    cr_expect_eq(shown.stack.frames[0].frame, AT_RUN);
    cr_expect_eq(shown.stack.inner, 2);
    cr_expect_str_eq(shown.stack.call, "cudaMalloc");
    hide(&shown);
    expect_printed(
        FRAMES(AT_TORCH, AT_TORCH + 4, AT_RUN, AT_TORCH, AT_TORCH + 4, AT_LOAD, AT_MAIN),
        7, 0,
        "       ... 2 frames of PyTorch\n"
        "    #0 run                           app+0x210\n"
        "       ... 2 frames of PyTorch\n"
        "    #3 load_batch                    loader.c:88\n"
        "    #4 main                          app.c:12\n");
}

Test(frames, families_of_a_run_are_named)
{
    expect_printed(FRAMES(AT_TORCH, AT_NATIVE, AT_INVOKE, AT_LOAD, AT_MAIN), 5, 0,
                   "       ... 3 frames of PyTorch, the C++ library\n"
                   "    #0 load_batch                    loader.c:88\n"
                   "    #1 main                          app.c:12\n");
}

Test(frames, inside_a_framework_its_outermost_run_owns)
{
    expect_printed(FRAMES(AT_INVOKE, AT_TORCH, AT_TORCH + 4, AT_NATIVE, AT_THREAD), 5, 0,
                   "       ... 1 frame of the C++ library\n"
                   "    #0 at::native::empty_cuda        libtorch_cuda.so+0x10\n"
                   "    #1 ??                            libtorch_cuda.so+0x14\n");
}

Test(frames, all_are_shown_on_request)
{
    const uintptr_t frames[] = {AT_CUDART, AT_TORCH, AT_RUN, AT_TORCH, AT_TORCH, AT_MAIN};
    struct shown shown = show(frames, 6, 0);
    struct gs_text text = {0};
    struct gs_report_config config = {.all_frames = true};
    struct gs_report_writer writer = {.config = &config, .text = &text};

    gs_report_stack(&writer, &shown.stack);
    cr_expect_str_eq(text.data,
                     "    #0 at::native::empty_cuda        libtorch_cuda.so+0x10\n"
                     "    #1 run                           app+0x210\n"
                     "    #2 at::native::empty_cuda        libtorch_cuda.so+0x10\n"
                     "    #3 at::native::empty_cuda        libtorch_cuda.so+0x10\n"
                     "    #4 main                          app.c:12\n");
    gs_text_free(&text);
    hide(&shown);
}

/* The ways through a framework may differ at each call. */
Test(frames, stacks_are_compared_without_the_frameworks)
{
    struct shown one = show(FRAMES(AT_TORCH, AT_RUN, AT_MAIN), 3, 0);
    struct shown other =
        show(FRAMES(AT_TORCH, AT_TORCH + 4, AT_RUN, AT_TORCH, AT_MAIN), 5, 0);
    struct shown third = show(FRAMES(AT_TORCH, AT_LOAD, AT_MAIN), 3, 0);
    struct shown longer = show(FRAMES(AT_RUN, AT_MAIN, AT_TORCH, AT_MAIN), 4, 0);

    cr_expect_eq(gs_report_compare_stacks(&one.stack, &other.stack), 0);
    cr_expect_neq(gs_report_compare_stacks(&one.stack, &third.stack), 0);
    cr_expect_lt(gs_report_compare_stacks(&one.stack, &longer.stack), 0);
    cr_expect_gt(gs_report_compare_stacks(&longer.stack, &one.stack), 0);
    hide(&one);
    hide(&other);
    hide(&third);
    hide(&longer);
}

/* By their paths, as the frames of Python and modules without names have them. */
Test(frames, pythons_library_is_known_by_its_folder)
{
    static const char *const yes[] = {"/usr/lib/python3.11/threading.py",
                                      ("/home/me/.pyenv/versions/3.12.1/lib/python3.12/"
                                       "concurrent/futures/thread.py"),
                                      "/opt/conda/lib/python3.13/asyncio/runners.py",
                                      "<frozen runpy>"};
    static const char *const no[] = {"/home/me/python3.11/train.py",
                                     "/home/me/threading.py",
                                     "<string>",
                                     "<stdin>",
                                     "/data/lib/python3.11.bak/train.py",
                                     PACKAGES "mine/threading.py"};

    for (size_t i = 0; i < GS_ARRAY_LEN(yes); i++)
        cr_expect_eq(gs_frame_kind_of_file(yes[i]), GS_FRAME_LIBRARY, "%s", yes[i]);
    for (size_t i = 0; i < GS_ARRAY_LEN(no); i++)
        cr_expect_neq(gs_frame_kind_of_file(no[i]), GS_FRAME_LIBRARY, "%s", no[i]);
}

static struct gs_frame_class class_at(void *self, unsigned i)
{
    const char *file = ((const char *const *)self)[i];
    struct gs_frame_class class = gs_frame_class_of_file(file);

    class.generated = file[0] == '<';
    return class;
}

static unsigned own_of(const char *const *files, unsigned count)
{
    return gs_frame_own(class_at, (void *)files, count);
}

/* A package that no row names is the user's, wherever it is installed. */
Test(frames, owners_by_files_alone)
{
    static const char *const packaged[] = {PACKAGES "torch/lib/libtorch_cuda.so",
                                           PACKAGES "torch/nn/modules/module.py",
                                           PACKAGES "mine/model.py", "/home/me/train.py"};
    static const char *const bare[] = {"/usr/local/cuda/bin/app", "/lib64/libc.so.6"};
    static const char *const generated[] = {"/tmp/torchinductor_me/ab/cabc.py",
                                            "<string>", PACKAGES "torch/fx/graph.py",
                                            "/home/me/x.py"};
    static const char *const inside[] = {
        "/usr/lib/libstdc++.so.6", PACKAGES "torch/lib/libc10_cuda.so",
        PACKAGES "torch/lib/libtorch_cuda.so", "/usr/lib/python3.11/threading.py"};

    cr_expect_eq(own_of(packaged, 4), 2);
    cr_expect_eq(own_of(bare, 2), 0);
    cr_expect_eq(own_of(generated, 4), 3);
    cr_expect_eq(own_of(generated + 1, 1), 0);
    cr_expect_eq(own_of(inside, 4), 1);
    cr_expect_eq(own_of(inside, 1), 0);
}

/* By what is known of a frame, in the module app. */
static enum gs_frame_kind kind_of(const char *linkage, const char *file)
{
    struct gs_symbol_request frame = {.frame = AT_RUN,
                                      .result = {.linkage = linkage, .file = file}};

    return gs_frame_kind(&frame, "app");
}

Test(frames, the_cxx_library_is_known_by_names_and_by_files)
{
    cr_expect_eq(kind_of("_ZSt6invokeIRFvvEJEEvv", NULL), GS_FRAME_LIBRARY);
    cr_expect_eq(kind_of("_ZNKSt8functionIFviEEclEi", NULL), GS_FRAME_LIBRARY);
    cr_expect_eq(kind_of("_ZZNSt9once_flag1fEvENKUlvE_clEv", NULL), GS_FRAME_LIBRARY);
    cr_expect_eq(kind_of("_ZN6thrust6detail5allocEv", NULL), GS_FRAME_LIBRARY);
    cr_expect_eq(kind_of("_M_invoke", "/usr/include/c++/12/bits/std_function.h"),
                 GS_FRAME_LIBRARY);
    cr_expect_eq(kind_of("_ZN5Start3runEv", NULL), GS_FRAME_PROGRAM);
    cr_expect_eq(kind_of("_Z5Startv", NULL), GS_FRAME_PROGRAM);
    cr_expect_eq(kind_of("_Z3runSt6vectorIiSaIiEE", NULL), GS_FRAME_PROGRAM);
    cr_expect_eq(kind_of("St", NULL), GS_FRAME_PROGRAM);
    cr_expect_eq(kind_of(NULL, NULL), GS_FRAME_PROGRAM);
    /* A specialisation is written by the program. */
    cr_expect_eq(kind_of("_ZNKSt4hashI3KeyEclERKS0_", NULL), GS_FRAME_LIBRARY);
    cr_expect_eq(kind_of("_ZNKSt4hashI3KeyEclERKS0_", "/src/key.h"), GS_FRAME_PROGRAM);
}

/* Folders of the user's may have the packages' names. */
Test(frames, frameworks_are_known_by_their_folders)
{
    static const char *const yes[] = {
        PACKAGES "cuda/bindings/cydriver.cpython-311-x86_64-linux-gnu.so",
        PACKAGES "cuda/core/experimental/_memory.py",
        PACKAGES "cupy_backends/cuda/api/runtime.cpython-311-x86_64-linux-gnu.so",
        PACKAGES "numba/cuda/cudadrv/driver.py",
        "/usr/lib/python3/dist-packages/pycuda/_driver.cpython-311.so",
        PACKAGES "torch/_C.cpython-311-x86_64-linux-gnu.so",
        PACKAGES "torch/lib/libtorch_python.so",
        PACKAGES "_pytest/runner.py",
        PACKAGES "pluggy/_callers.py",
        PACKAGES "pytest_asyncio/plugin.py",
        PACKAGES "xdist/remote.py",
        PACKAGES "hypothesis/core.py",
        PACKAGES "ipykernel/kernelapp.py",
        PACKAGES "ipykernel_launcher.py",
        PACKAGES "traitlets/config/application.py",
        PACKAGES "starlette/routing.py",
        PACKAGES "transformers/trainer.py",
        PACKAGES "sentence_transformers/models/Pooling.py",
        PACKAGES "einops/einops.py",
        PACKAGES "xformers/ops/fmha/__init__.py",
        PACKAGES "flash_attn/flash_attn_interface.py",
        PACKAGES "bitsandbytes/functional.py",
        PACKAGES "distributed/worker.py",
        PACKAGES "celery/app/trace.py",
        PACKAGES "joblib/parallel.py",
        PACKAGES "gevent/_gevent_cgreenlet.cpython-311-x86_64-linux-gnu.so",
        "/opt/libtorch/lib/libc10_cuda.so"};
    static const char *const no[] = {"",
                                     "train.py",
                                     "/home/me/pycuda/train.py",
                                     "/home/me/cuda/bindings/driver.py",
                                     "/home/me/torch/nn/modules/module.py",
                                     "/home/me/tests/pytest/test_leaks.py",
                                     PACKAGES "pytest_mine/plugin.py",
                                     "/home/me/lib/libtorch_mine.so",
                                     "/usr/local/cuda/samples/app",
                                     PACKAGES "torchmine/train.py",
                                     PACKAGES "einops_mine/ops.py",
                                     "/home/me/einops/einops.py",
                                     PACKAGES "mine/cuda/driver.py"};

    for (size_t i = 0; i < GS_ARRAY_LEN(yes); i++)
        cr_expect_eq(gs_frame_kind_of_file(yes[i]), GS_FRAME_FRAMEWORK, "%s", yes[i]);
    for (size_t i = 0; i < GS_ARRAY_LEN(no); i++)
        cr_expect_neq(gs_frame_kind_of_file(no[i]), GS_FRAME_FRAMEWORK, "%s", no[i]);
}

/* What its user compiles, and what comes with the system or with packages. */
Test(frames, files_of_the_system_are_known_by_their_folders)
{
    cr_expect_eq(gs_frame_kind_of_file("/home/me/lib/libmine.so"), GS_FRAME_PROGRAM);
    cr_expect_eq(gs_frame_kind_of_file("/opt/app/app"), GS_FRAME_PROGRAM);
    cr_expect_eq(gs_frame_kind_of_file("/usr/lib/x86_64-linux-gnu/libmpi.so.40"),
                 GS_FRAME_SYSTEM);
    cr_expect_eq(gs_frame_kind_of_file("/lib64/libz.so.1"), GS_FRAME_SYSTEM);
    cr_expect_eq(gs_frame_kind_of_file("/lib64/libm.so.6"), GS_FRAME_VENDOR);
    cr_expect_eq(gs_frame_kind_of_file("/v/lib/python3.11/site-packages/x/y.so"),
                 GS_FRAME_SYSTEM);
    cr_expect_eq(gs_frame_kind_of_file("/home/me/.pyenv/bin/python3.11"),
                 GS_FRAME_SYSTEM);
}

static void take_wanted(void *self, struct gs_symbol_request *requests, size_t count)
{
    uint64_t *wanted = self;

    for (size_t i = 0; i < count; i++)
        *wanted |= (uint64_t)requests[i].line_wanted << i;
}

/* The frames of a stack that get file and line, as bits. */
static uint64_t wanted_lines_of(const uintptr_t *frames, unsigned count)
{
    OWNED_STACKS stacks = test_stacks();
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = inlined_source();
    struct gs_frame_table table;
    uint64_t wanted = 0;
    uint32_t id = test_stack(stacks, frames, count);

    source.self = &wanted;
    source.find_lines = take_wanted;
    gs_frame_table_fill(&table, &config, stacks, &source, &id, 1);
    gs_frame_table_free(&table);
    return wanted;
}

/* Or a lambda on a thread would be missing: it may be inlined in them. */
Test(frames, lines_of_the_cxx_librarys_outer_frames_are_looked_up)
{
    cr_expect_eq(wanted_lines_of(FRAMES(AT_CUDART, AT_STATE, AT_NATIVE, AT_THREAD), 4),
                 0x06);
}

/* Or the debug files of libc and the runtime are read for nothing. */
Test(frames, lines_are_looked_up_of_shown_frames_alone)
{
    cr_expect_eq(wanted_lines_of(FRAMES(AT_SHIM, AT_CUDART, AT_LOAD, AT_MAIN, AT_LIBC,
                                        AT_LIBC_STRIPPED, AT_START),
                                 7),
                 0x0c);
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

    cr_expect_str_eq(gs_report_clean("fifteen letters", out, sizeof(out)),
                     "fifteen letters");
    cr_expect_str_eq(gs_report_clean("sixteen letters!", out, sizeof(out)),
                     "sixteen lett...");
    /* The cut would fall into the two bytes of the last letter. */
    cr_expect_str_eq(
        gs_report_clean("elevenbytes\xc3\xa9\xc3\xa9\xc3\xa9", out, sizeof(out)),
        "elevenbytes...");
    cr_expect_str_eq(gs_report_clean("a\tb\x7f", out, sizeof(out)), "a?b?");
    cr_expect_str_eq(gs_report_clean(NULL, out, sizeof(out)), "");
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
