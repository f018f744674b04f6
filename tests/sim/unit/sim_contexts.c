/*
 * sim_contexts.c - proves contexts beyond tests/sim/conformance: what destroying and
 * resetting end, and that dead or made-up handles get a code and never a crash.
 */
#include <string.h>

#include "sim_helpers.h"

Test(sim_contexts, no_device_is_an_error_of_init)
{
    int count = 5;

    setenv("CUDASIM_DEVICES", "0", 1);
    fails(cuInit(0), CUDA_ERROR_NO_DEVICE);
    fails(cuInit(0), CUDA_ERROR_NO_DEVICE);
    fails(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
}

Test(sim_contexts, devices_describe_themselves)
{
    CUuuid first, second;
    char name[64];
    int count = 0, value = 0;

    sim_test_start("2", "16M");
    ok(cuDeviceGetCount(&count));
    cr_assert_eq(count, 2);
    ok(cuDeviceGetName(name, sizeof(name), 1));
    cr_assert_str_eq(name, "Simulated CUDA device");
    ok(cuDeviceGetUuid(&first, 0));
    ok(cuDeviceGetUuid(&second, 1));
    cr_assert_neq(memcmp(&first, &second, sizeof(first)), 0);
    ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
    cr_assert_eq(value, 1);
    ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    cr_assert_eq(value, 9);
    fails(cuDeviceGetAttribute(&value, (CUdevice_attribute)9999, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 2),
          CUDA_ERROR_INVALID_DEVICE);
}

Test(sim_contexts, destroying_one_frees_its_memory)
{
    CUcontext own;
    CUdeviceptr p;
    void *pinned;
    CUstream stream;
    CUevent event;

    sim_test_start("1", "16M");
    ok(cuCtxCreate_v2(&own, 0, 0));
    ok(cuMemAlloc(&p, 6 * GS_MIB));
    ok(cuMemHostAlloc(&pinned, 100, 0));
    ok(cuStreamCreate(&stream, 0));
    ok(cuEventCreate(&event, 0));
    ok(cuCtxDestroy(own));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
    fails(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
    fails(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    fails(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    fails(cuCtxDestroy(own), CUDA_ERROR_INVALID_CONTEXT);
    fails(cuCtxPushCurrent(own), CUDA_ERROR_INVALID_CONTEXT);
}

enum leave { BY_ENDING, BY_POPPING, BY_SETTING_ANOTHER };

struct keeper {
    CUcontext context, another;
    enum leave leave;
    pthread_barrier_t meet;
};

/* Has the context current while it is destroyed and another is made, then no more. */
static void *keep_current(void *argument)
{
    struct keeper *keeper = argument;
    CUcontext current = NULL;
    void *pinned;

    ok(cuCtxSetCurrent(keeper->context));
    pthread_barrier_wait(&keeper->meet);
    pthread_barrier_wait(&keeper->meet);
    ok(cuCtxGetCurrent(&current));
    cr_assert_eq(current, keeper->context);
    fails(cuMemAllocHost(&pinned, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    fails(cuCtxPushCurrent(current), CUDA_ERROR_INVALID_CONTEXT);
    if (keeper->leave == BY_POPPING)
        ok(cuCtxPopCurrent(NULL));
    else if (keeper->leave == BY_SETTING_ANOTHER)
        ok(cuCtxSetCurrent(keeper->another));
    return NULL;
}

/* By a thread that does not have it current, as cuCtxCreate makes it. */
static void *make_another(void *argument)
{
    struct keeper *keeper = argument;

    ok(cuCtxCreate_v2(&keeper->another, 0, 0));
    return NULL;
}

Test(sim_contexts, a_handle_does_not_come_again_while_it_is_current)
{
    sim_test_start("1", "16M");
    for (enum leave leave = BY_ENDING; leave <= BY_SETTING_ANOTHER; leave++) {
        struct keeper keeper = {.leave = leave};
        pthread_t thread, maker;
        CUcontext again;

        ok(cuCtxCreate_v2(&keeper.context, 0, 0));
        pthread_barrier_init(&keeper.meet, NULL, 2);
        cr_assert_eq(pthread_create(&thread, NULL, keep_current, &keeper), 0);
        pthread_barrier_wait(&keeper.meet);
        ok(cuCtxDestroy(keeper.context));
        cr_assert_eq(pthread_create(&maker, NULL, make_another, &keeper), 0);
        pthread_join(maker, NULL);
        cr_assert_neq(keeper.another, keeper.context);
        pthread_barrier_wait(&keeper.meet);
        pthread_join(thread, NULL);
        ok(cuCtxCreate_v2(&again, 0, 0));
        cr_assert_eq(again, keeper.context);
    }
}

Test(sim_contexts, a_handle_that_is_current_nowhere_comes_again)
{
    CUcontext own, again, third;

    sim_test_start("1", "16M");
    ok(cuCtxCreate_v2(&own, 0, 0));
    ok(cuCtxPopCurrent(NULL));
    ok(cuCtxDestroy(own));
    ok(cuCtxCreate_v2(&again, 0, 0));
    cr_assert_eq(again, own);
    ok(cuCtxDestroy(again)); /* which pops it */
    ok(cuCtxCreate_v2(&again, 0, 0));
    cr_assert_eq(again, own);
    ok(cuCtxPushCurrent(again));
    ok(cuCtxDestroy(again)); /* once: it is still below */
    ok(cuCtxCreate_v2(&third, 0, 0));
    cr_assert_neq(third, again);
    ok(cuCtxPopCurrent(NULL));
    ok(cuCtxPopCurrent(&third));
    cr_assert_eq(third, again);
    ok(cuCtxCreate_v2(&third, 0, 0));
    cr_assert_eq(third, again);
}

Test(sim_contexts, made_up_handles_get_a_code)
{
    char nothing[64];
    void *made_up[] = {nothing, NULL, (void *)8, (void *)UINTPTR_MAX};
    CUdeviceptr p;

    sim_test_start("1", "16M");
    ok(cuMemAlloc(&p, 4));
    for (size_t i = 0; i < 4; i++) {
        if (made_up[i])
            fails(cuCtxSetCurrent(made_up[i]), CUDA_ERROR_INVALID_CONTEXT);
        fails(cuEventRecord(made_up[i], NULL), CUDA_ERROR_INVALID_HANDLE);
        fails(cuEventDestroy(made_up[i]), CUDA_ERROR_INVALID_HANDLE);
        fails(cuStreamDestroy(made_up[i]), CUDA_ERROR_INVALID_HANDLE);
        fails(cuModuleUnload(made_up[i]), CUDA_ERROR_INVALID_HANDLE);
        fails(cuMemPoolDestroy(made_up[i]), CUDA_ERROR_INVALID_VALUE);
        fails(cuLaunchKernel(made_up[i], 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
              CUDA_ERROR_INVALID_HANDLE);
        if (made_up[i])
            fails(cuMemsetD8Async(p, 0, 4, made_up[i]), CUDA_ERROR_INVALID_HANDLE);
    }
}

Test(sim_contexts, a_handle_of_one_kind_is_no_other)
{
    CUcontext context = sim_test_start("1", "16M");
    CUevent event;

    ok(cuEventCreate(&event, 0));
    fails(cuStreamSynchronize((CUstream)event), CUDA_ERROR_INVALID_HANDLE);
    fails(cuCtxSetCurrent((CUcontext)event), CUDA_ERROR_INVALID_CONTEXT);
    fails(cuEventQuery((CUevent)context), CUDA_ERROR_INVALID_HANDLE);
}

Test(sim_contexts, reset_begins_a_new_life)
{
    CUcontext context = sim_test_start("1", "16M");
    unsigned long long id = 0, later = 0;
    CUdeviceptr p;

    ok(cuCtxGetId(context, &id));
    ok(cuMemAlloc(&p, 4 * GS_MIB));
    ok(cuDevicePrimaryCtxReset(0));
    fails(cuMemAlloc(&p, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxSetCurrent(context));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
    ok(cuCtxGetId(context, &later));
    cr_assert_neq(id, later);
}

Test(sim_contexts, keep_flags_and_limits)
{
    unsigned flags = 0;
    size_t value = 0;
    int least = 9, greatest = 9;

    sim_test_start("1", "16M");
    ok(cuCtxSetFlags(CU_CTX_SCHED_SPIN));
    ok(cuCtxGetFlags(&flags));
    cr_assert_eq(flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_SPIN);
    fails(cuCtxSetFlags(0x1000), CUDA_ERROR_INVALID_VALUE);
    ok(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    ok(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    cr_assert_eq(value, 4096);
    fails(cuCtxGetLimit(&value, (CUlimit)99), CUDA_ERROR_UNSUPPORTED_LIMIT);
    ok(cuCtxGetStreamPriorityRange(&least, &greatest));
    cr_assert_lt(greatest, least);
}
