/*
 * sim_hostile_hang.c - proves the verdict on waits that nothing can end: it is given, it
 * names the call and the operation, and it is not given while anything may still help.
 */
#include "sim_hostile_helpers.h"

#define HANG 66

static CUstream wait_for_ever(void)
{
    CUstream stream;
    uint32_t *flag;

    hostile_start();
    good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    good(cuMemHostAlloc((void **)&flag, 4, CU_MEMHOSTALLOC_PORTABLE));
    *flag = 0;
    CUdeviceptr word = (CUdeviceptr)(uintptr_t)flag;
    void *params[] = {&word};
    good(sim_test_launch(hostile_kernel("gs_wait"), stream, params));
    return stream;
}

static void kernel_program(struct trace *trace)
{
    CUstream stream, other;
    CUevent event;

    setenv("CUDASIM_HANG", "200", 1);
    stream = wait_for_ever();
    good(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    good(cuEventCreate(&event, 0));
    good(cuEventRecord(event, stream));
    good(cuStreamWaitEvent(other, event, 0));
    trace_add(trace, 1);
    need(cuStreamSynchronize(other) != CUDA_SUCCESS); /* not reached */
}

Test(sim_hostile_hang, is_declared_and_named, .timeout = 120)
{
    struct trace *trace = trace_new();
    int status = hostile_run_status(kernel_program, 2, trace, true);

    cr_assert_eq(trace->count, 1);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == HANG, "status 0x%x",
              (unsigned)status);
    cr_assert_not_null(strstr(trace->output, "cuStreamWaitEvent"), "%s", trace->output);
    cr_assert_not_null(strstr(trace->output, "cuLaunchKernel"), "%s", trace->output);
}

static void value_program(struct trace *trace)
{
    CUdeviceptr block;

    setenv("CUDASIM_HANG", "100", 1);
    hostile_start();
    trace_add(trace, 1);
    good(cuMemAlloc(&block, 4));
    good(cuMemsetD32(block, 0, 1));
    good(cuStreamWaitValue32(NULL, block, 1, CU_STREAM_WAIT_VALUE_EQ));
    need(cuMemFree(block) != CUDA_SUCCESS);
}

Test(sim_hostile_hang, names_a_wait_for_memory, .timeout = 120)
{
    struct trace *trace = trace_new();
    int status = hostile_run_status(value_program, 0, trace, true);

    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == HANG);
    cr_assert_not_null(strstr(trace->output, "cuStreamWaitValue32"), "%s", trace->output);
}

static void sleeps_long(void *argument)
{
    (void)argument;
    sim_test_sleep_ms(600000);
}

static void function_program(struct trace *trace)
{
    setenv("CUDASIM_HANG", "100", 1);
    hostile_start();
    trace_add(trace, 1);
    good(cuLaunchHostFunc(NULL, sleeps_long, NULL));
    good(cuMemsetD32Async(0, 0, 0, NULL));
    need(cuCtxSynchronize() != CUDA_SUCCESS);
}

Test(sim_hostile_hang, names_a_host_function, .timeout = 120)
{
    struct trace *trace = trace_new();
    int status = hostile_run_status(function_program, 1, trace, true);

    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == HANG);
    cr_assert_not_null(strstr(trace->output, "cuLaunchHostFunc"), "%s", trace->output);
}

static void threads_program(struct trace *trace)
{
    setenv("CUDASIM_SCHEDULE", "threads", 1);
    kernel_program(trace);
}

Test(sim_hostile_hang, is_declared_among_threads_when_asked_for, .timeout = 120)
{
    struct trace *trace = trace_new();
    int status = hostile_run_status(threads_program, 0, trace, true);

    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == HANG);
    cr_assert_not_null(strstr(trace->output, "cuLaunchKernel"), "%s", trace->output);
}

static void *opens_late(void *argument)
{
    sim_test_sleep_ms(700);
    __atomic_store_n((uint32_t *)argument, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *computes_then_opens(void *argument)
{
    struct timespec start, now;

    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 +
                 (now.tv_nsec - start.tv_nsec) / 1000000 <
             700);
    __atomic_store_n((uint32_t *)argument, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void released_by(void *(*thread_function)(void *), const char *hang_ms)
{
    struct sim_latch latch;
    pthread_t thread;
    CUstream stream;

    setenv("CUDASIM_HANG", hang_ms, 1);
    hostile_start();
    good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    good(cuMemHostAlloc((void **)&latch.flag, 4, CU_MEMHOSTALLOC_PORTABLE));
    *latch.flag = 0;
    CUdeviceptr word = (CUdeviceptr)(uintptr_t)latch.flag;
    void *params[] = {&word};
    good(sim_test_launch(hostile_kernel("gs_wait"), stream, params));
    need(pthread_create(&thread, NULL, thread_function, latch.flag) == 0);
    good(cuStreamSynchronize(stream));
    need(pthread_join(thread, NULL) == 0);
}

static void sleeper_program(struct trace *trace)
{
    (void)trace;
    released_by(opens_late, "5000");
}

static void computer_program(struct trace *trace)
{
    (void)trace;
    released_by(computes_then_opens, "600"); /* shorter than it computes */
}

Test(sim_hostile_hang, is_not_declared_while_a_thread_may_help, .timeout = 120)
{
    hostile_run(sleeper_program, 0, trace_new());
    hostile_run(computer_program, 0, trace_new());
}
