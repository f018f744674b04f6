/*
 * case_context_state.c - what a context is set to, and waiting for all its work.
 */
#include "case_context_help.h"

CASE(context, limit_is_set, DRIVER_API, "cuCtxSetLimit",
     "Setting limit to value is a request to update the current limit; cuCtxGetLimit() "
     "tells what it has been set to")
{
    CUcontext created = create_context(0);
    size_t before = 0, after = 0;

    CHECK_OK(cuCtxGetLimit(&before, CU_LIMIT_STACK_SIZE));
    CHECK(before > 0);
    CHECK_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, before + 4096));
    CHECK_OK(cuCtxGetLimit(&after, CU_LIMIT_STACK_SIZE));
    CHECK(after >= before + 4096);
    CHECK_OK(cuCtxDestroy(created));
}

CASE(context, limit_of_another, DRIVER_API, "cuCtxSetLimit",
     "Update the current limit maintained by the context: another context keeps its own")
{
    size_t before = 0, after = 0;

    CHECK_OK(cuCtxGetLimit(&before, CU_LIMIT_STACK_SIZE));
    CUcontext created = create_context(0);
    CHECK_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, before + 4096));
    CHECK_OK(cuCtxDestroy(created));
    CHECK_OK(cuCtxGetLimit(&after, CU_LIMIT_STACK_SIZE));
    CHECK_EQUAL(after, before);
}

CASE(context, limits_have_values, DRIVER_API, "cuCtxGetLimit",
     "The supported limits: PRINTF_FIFO_SIZE, MALLOC_HEAP_SIZE and "
     "DEV_RUNTIME_PENDING_LAUNCH_COUNT, which are some size; MAX_L2_FETCH_GRANULARITY, "
     "from 0 to 128")
{
    size_t value = 0;

    CHECK_OK(cuCtxGetLimit(&value, CU_LIMIT_PRINTF_FIFO_SIZE));
    CHECK(value > 0);
    CHECK_OK(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    CHECK(value > 0);
    CHECK_OK(cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT));
    CHECK(value > 0);
    CHECK_OK(cuCtxGetLimit(&value, CU_LIMIT_MAX_L2_FETCH_GRANULARITY));
    CHECK(value <= 128);
}

CASE(context, limit_unknown, DRIVER_API, "cuCtxGetLimit, cuCtxSetLimit",
     "CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_UNSUPPORTED_LIMIT: for what is no limit")
{
    size_t value;
    CUresult get = cuCtxGetLimit(&value, (CUlimit)1000);
    CUresult set = cuCtxSetLimit((CUlimit)1000, 1);

    CHECK(get == CUDA_ERROR_UNSUPPORTED_LIMIT || get == CUDA_ERROR_INVALID_VALUE);
    CHECK(set == CUDA_ERROR_UNSUPPORTED_LIMIT || set == CUDA_ERROR_INVALID_VALUE);
}

CASE(
    context, limit_of_old_devices, DRIVER_API, "cuCtxSetLimit",
    "CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH is only applicable to devices of compute capability "
    "< 9.0; on others CUDA_ERROR_UNSUPPORTED_LIMIT is returned")
{
    if (device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) < 9) {
        skip("the device is of a compute capability below 9.0");
        return;
    }
    CHECK_CODE(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2),
               CUDA_ERROR_UNSUPPORTED_LIMIT);
}

CASE(context, cache_config, DRIVER_API, "cuCtxSetCacheConfig, cuCtxGetCacheConfig",
     "CU_FUNC_CACHE_PREFER_NONE by default; a preference that is set is returned, or "
     "PREFER_NONE where the sizes are fixed")
{
    CUcontext created = create_context(0);
    CUfunc_cache config = CU_FUNC_CACHE_PREFER_EQUAL;

    CHECK_OK(cuCtxGetCacheConfig(&config));
    CHECK_EQUAL(config, CU_FUNC_CACHE_PREFER_NONE);
    CHECK_OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
    CHECK_OK(cuCtxGetCacheConfig(&config));
    CHECK(config == CU_FUNC_CACHE_PREFER_L1 || config == CU_FUNC_CACHE_PREFER_NONE);
    CHECK_INVALID(cuCtxGetCacheConfig(NULL));
    CHECK_OK(cuCtxDestroy(created));
}

CASE(context, priority_range, DRIVER_API, "cuCtxGetStreamPriorityRange",
     "Lower numbers imply greater priorities; the range is [greatest, least], and both "
     "are 0 where priorities are not supported")
{
    int least = 7, greatest = 7;
    int supported = device_attribute(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);

    CHECK_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK(greatest <= least);
    if (!supported)
        CHECK(least == 0 && greatest == 0);
}

CASE(context, priority_range_null, DRIVER_API, "cuCtxGetStreamPriorityRange",
     "A NULL may be passed in for leastPriority or greatestPriority if the value is not "
     "desired")
{
    int least = 7, greatest = 7, only_least = 8, only_greatest = 8;

    CHECK_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK_OK(cuCtxGetStreamPriorityRange(&only_least, NULL));
    CHECK_OK(cuCtxGetStreamPriorityRange(NULL, &only_greatest));
    CHECK_EQUAL(only_least, least);
    CHECK_EQUAL(only_greatest, greatest);
}

/* What becomes of a wanted priority. */
static int priority_given(int wanted)
{
    CUstream stream = NULL;
    int given = 99;

    if (CHECK_OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, wanted))) {
        CHECK_OK(cuStreamGetPriority(stream, &given));
        CHECK_OK(cuStreamDestroy(stream));
    }
    return given;
}

CASE(context, priority_is_clamped, DRIVER_API, "cuCtxGetStreamPriorityRange",
     "If the priority is outside the meaningful range, it is automatically clamped down "
     "or up to either least or greatest")
{
    int least = 0, greatest = 0;

    CHECK_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK_EQUAL(priority_given(least + 100), least);
    CHECK_EQUAL(priority_given(greatest - 100), greatest);
    CHECK_EQUAL(priority_given(greatest), greatest);
}

static void synchronize(void *result)
{
    *(CUresult *)result = cuCtxSynchronize();
}

CASE(context, synchronize_waits, DRIVER_API, "cuCtxSynchronize",
     "Blocks until the current context has completed all preceding requested tasks")
{
    struct blocker blocker;
    CUstream stream = NULL;
    CUresult result = CUDA_ERROR_UNKNOWN;

    if (!CHECK_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)))
        return;
    if (block_stream(&blocker, stream)) {
        struct pending_call *call = start_call(synchronize, &result);
        CHECK(!came_back(call, 150));
        unblock(&blocker);
        CHECK(came_back(call, 60000));
        join_call(call);
        CHECK_CODE(result, CUDA_SUCCESS);
        end_block(&blocker);
    }
    CHECK_OK(cuStreamDestroy(stream));
}

static void synchronize_other(void *context)
{
    CUcontext popped;

    CHECK_OK(cuCtxPushCurrent(context));
    CHECK_OK(cuCtxSynchronize());
    CHECK_OK(cuCtxPopCurrent(&popped));
}

CASE(context, synchronize_its_own, DRIVER_API, "cuCtxSynchronize",
     "Blocks until the current context has completed its tasks: those of another context "
     "are not waited for")
{
    CUcontext created = create_context(0);
    struct blocker blocker;
    CUstream stream = NULL;

    switch_to(the_context());
    if (!CHECK_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)))
        return;
    if (block_stream(&blocker, stream)) {
        struct pending_call *call = start_call(synchronize_other, created);
        CHECK(came_back(call, 60000));
        unblock(&blocker);
        join_call(call);
        end_block(&blocker);
    }
    CHECK_OK(cuStreamDestroy(stream));
    CHECK_OK(cuCtxDestroy(created));
}
