/*
 * sim_process.c - proves what concerns the whole process: injected failures, malformed
 * variables, fork, exit while work runs.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_helpers.h"

/* Number of `calls` that failed with the code; the rest must succeed. */
static int failing_allocations(int calls, CUresult code)
{
    int failed = 0;

    for (int i = 0; i < calls; i++) {
        CUdeviceptr p;
        CUresult res = cuMemAlloc(&p, 512);
        cr_assert(res == CUDA_SUCCESS || res == code);
        failed += res != CUDA_SUCCESS;
    }
    return failed;
}

Test(sim_faults, fail_the_nth_call)
{
    CUdeviceptr p;

    setenv("CUDASIM_FAIL", "cuMemAlloc_v2:3", 1);
    sim_test_start("1", "16M");
    ok(cuMemAlloc(&p, 1));
    ok(cuMemAlloc(&p, 1));
    fails(cuMemAlloc(&p, 1), CUDA_ERROR_OUT_OF_MEMORY);
    cr_assert_eq(failing_allocations(10, CUDA_ERROR_OUT_OF_MEMORY), 0);
}

Test(sim_faults, fail_all_from_the_nth_on_with_a_code)
{
    CUstream stream;

    setenv("CUDASIM_FAIL", "cuStreamCreate:1=801,cuMemAlloc_v2:3+=999", 1);
    sim_test_start("1", "16M");
    fails(cuStreamCreate(&stream, 0), CUDA_ERROR_NOT_SUPPORTED);
    ok(cuStreamCreate(&stream, 0));
    cr_assert_eq(failing_allocations(10, CUDA_ERROR_UNKNOWN), 8);
}

Test(sim_faults, fail_a_share_of_calls)
{
    setenv("CUDASIM_FAIL", "cuMemAlloc_v2:*%10", 1);
    setenv("CUDASIM_SEED", "7", 1);
    sim_test_start("1", "64M");
    int failed = failing_allocations(1000, CUDA_ERROR_OUT_OF_MEMORY);
    cr_assert(failed > 50 && failed < 150, "%d of 1000 failed", failed);
}

static void start_with_bad_variables(void)
{
    int count = 0;

    setenv("CUDASIM_DEVICES", "many", 1);
    setenv("CUDASIM_MEMORY", "4X", 1);
    setenv("CUDASIM_FAIL", "nonsense,cuMemAlloc_v2:0,cuInit:2", 1);
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&count) != CUDA_SUCCESS ||
        count != 1)
        _exit(3);
    if (cuInit(0) != CUDA_ERROR_OUT_OF_MEMORY)
        _exit(4);
}

Test(sim_process, malformed_variables_give_a_line_and_the_default)
{
    char text[2000];
    int lines = 0;

    sim_test_said_by(start_with_bad_variables, text, sizeof(text));
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    cr_assert_eq(lines, 4, "%s", text);
    cr_assert_not_null(strstr(text, "CUDASIM_DEVICES=many"));
    cr_assert_not_null(strstr(text, "CUDASIM_MEMORY=4X"));
    cr_assert_not_null(strstr(text, "'nonsense'"));
}

static int in_child(int (*body)(void))
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        alarm(120);
        _exit(body());
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status), "the child did not exit by itself");
    return WEXITSTATUS(status);
}

static int use_after_fork(void)
{
    CUdeviceptr p;
    CUcontext context;
    size_t bytes;

    if (cuInit(0) != CUDA_ERROR_NOT_INITIALIZED)
        return 1;
    if (cuMemAlloc(&p, 1) != CUDA_ERROR_NOT_INITIALIZED)
        return 2;
    if (cuCtxGetCurrent(&context) != CUDA_ERROR_NOT_INITIALIZED)
        return 3;
    if (cuCtxSynchronize() != CUDA_ERROR_NOT_INITIALIZED)
        return 4;
    if (cuMemGetInfo(&bytes, &bytes) != CUDA_ERROR_NOT_INITIALIZED)
        return 5;
    return 0;
}

Test(sim_process, a_child_of_an_initialized_process_is_refused)
{
    struct sim_latch latch;
    CUstream stream;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuStreamCreate(&stream, 0));
    sim_latch_block(&latch, stream);
    cr_assert_eq(in_child(use_after_fork), 0);
    sim_latch_open(&latch);
    ok(cuCtxSynchronize());
}

static int use_fresh(void)
{
    CUcontext context;
    CUdeviceptr p;

    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    if (cuMemAlloc(&p, 4) || cuMemsetD32Async(p, 1, 1, NULL) || cuCtxSynchronize())
        return 2;
    return 0;
}

Test(sim_process, a_child_of_a_fresh_process_works)
{
    int version;

    ok(cuDriverGetVersion(&version));
    cr_assert_eq(in_child(use_fresh), 0);
}

static int exit_busy(void)
{
    struct sim_latch latch;
    CUstream stream;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuStreamCreate(&stream, 0));
    sim_latch_block(&latch, stream);
    exit(42); /* with a kernel that never ends */
}

Test(sim_process, exits_while_work_runs)
{
    cr_assert_eq(in_child(exit_busy), 42);
}

static volatile sig_atomic_t signalled_in;

static void note_thread(int number)
{
    (void)number;
    signalled_in = (sig_atomic_t)gettid();
}

Test(sim_process, its_threads_take_no_signals)
{
    struct sim_latch latch;
    CUstream stream;
    sigset_t set;

    signal(SIGUSR1, note_thread);
    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuStreamCreate(&stream, 0));
    sim_latch_block(&latch, stream);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGUSR1);
    sim_test_sleep_ms(50);
    cr_assert_eq(signalled_in, 0, "a thread of the driver took the signal");
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    cr_assert_eq(signalled_in, (sig_atomic_t)gettid());
    sim_latch_open(&latch);
}
