/*
 * sim_green.c - proves that a green context is its primary context as far as memory,
 * functions and events go, and has streams of its own: events and waits of it cover these
 * and no others.
 */
#include "sim_graph_helpers.h"

CUresult CUDAAPI cuCtxWaitEvent(CUcontext context, CUevent event);

static CUdevResource device_resource(void)
{
    CUdevResource resource;

    ok(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
    return resource;
}

static CUgreenCtx new_green(void)
{
    CUdevResource resource = device_resource();
    CUdevResourceDesc desc;
    CUgreenCtx green;

    ok(cuDevResourceGenerateDesc(&desc, &resource, 1));
    ok(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    return green;
}

static CUcontext view_of(CUgreenCtx green)
{
    CUcontext view;

    ok(cuCtxFromGreenCtx(&view, green));
    return view;
}

static CUstream green_stream(CUgreenCtx green)
{
    CUstream stream;

    ok(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    return stream;
}

/* Is the event complete before long? */
static bool is_done(CUevent event)
{
    for (int i = 0; i < SIM_TEST_LOOKS; i++) {
        if (cuEventQuery(event) == CUDA_SUCCESS)
            return true;
        sim_test_sleep_ms(2);
    }
    return false;
}

Test(sim_green, is_the_primary_context_where_memory_is_concerned)
{
    CUcontext current, told;
    CUdeviceptr words;
    unsigned long long primary_id, view_id, green_id, other_id;
    CUdevice device = 7;

    CUcontext primary = sim_test_start("1", "16M");
    CUgreenCtx green = new_green(), other = new_green();
    CUcontext view = view_of(green);
    cr_assert_neq(view, primary);
    ok(cuCtxGetId(primary, &primary_id));
    ok(cuCtxGetId(view, &view_id));
    cr_assert_eq(primary_id, view_id);
    ok(cuCtxSetCurrent(view));
    ok(cuCtxGetCurrent(&current));
    cr_assert_eq(current, view);
    ok(cuCtxGetDevice(&device));
    cr_assert_eq(device, 0);
    ok(cuMemAlloc(&words, 1024));
    ok(cuGreenCtxGetId(NULL, &green_id));
    ok(cuGreenCtxGetId(other, &other_id));
    cr_assert_neq(green_id, other_id);
    ok(cuCtxSetCurrent(primary));
    fails(cuGreenCtxGetId(NULL, &green_id), CUDA_ERROR_INVALID_CONTEXT);
    ok(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_CONTEXT, words));
    cr_assert_eq(told, primary);
    ok(cuGreenCtxDestroy(green));
    ok(cuMemsetD8(words, 1, 1024));
    ok(cuMemFree(words));
    fails(cuCtxDestroy(view_of(other)), CUDA_ERROR_INVALID_CONTEXT);
}

Test(sim_green, has_a_default_stream_of_its_own)
{
    struct sim_latch latch;
    CUgreenCtx told;
    CUcontext context;
    CUstream created;

    CUcontext primary = sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUdeviceptr words = new_words(0);
    CUgreenCtx green = new_green();
    sim_latch_block(&latch, NULL); /* the primary context's */
    ok(cuCtxSetCurrent(view_of(green)));
    ok(cuMemsetD32Async(words, 3, WORDS, NULL));
    ok(cuStreamSynchronize(NULL));
    cr_assert_eq(peek(words), 3);
    ok(cuStreamGetGreenCtx(NULL, &told));
    cr_assert_eq(told, green);
    ok(cuStreamCreate(&created, 0));
    ok(cuStreamGetGreenCtx(created, &told));
    cr_assert_eq(told, green);
    ok(cuStreamGetCtx(created, &context));
    cr_assert_eq(context, view_of(green));
    fails(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_INVALID_HANDLE);
    ok(cuCtxSynchronize()); /* the primary context's work is not waited for */
    cr_assert(!sim_latch_is_open(&latch));
    ok(cuCtxSetCurrent(primary));
    ok(cuStreamGetGreenCtx(NULL, &told));
    cr_assert_null(told);
    sim_latch_open(&latch);
    ok(cuCtxSynchronize());
}

Test(sim_green, is_waited_for_with_its_primary_context)
{
    struct sim_latch latch;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUstream stream = green_stream(new_green());
    sim_latch_block(&latch, stream);
    sim_latch_open_later(&latch);
    ok(cuCtxSynchronize());
    cr_assert(sim_latch_is_open(&latch));
    sim_latch_join(&latch);
}

Test(sim_green, records_only_its_own_streams)
{
    struct sim_latch own, foreign;

    CUcontext primary = sim_test_start("1", "16M");
    sim_latch_make(&own);
    sim_latch_make(&foreign);
    CUgreenCtx green = new_green(), other = new_green();
    CUevent by_view = sim_test_event(), by_green = sim_test_event(),
            by_primary = sim_test_event();
    CUstream stream = green_stream(green);
    sim_latch_block(&foreign, new_stream());
    sim_latch_block(&foreign, green_stream(other));
    ok(cuCtxRecordEvent(primary, by_primary));
    ok(cuCtxRecordEvent(view_of(green), by_view));
    cr_assert(is_done(by_view), "it waits for streams that are not its own");
    sim_latch_block(&own, stream);
    ok(cuGreenCtxRecordEvent(green, by_green));
    fails(cuEventQuery(by_green), CUDA_ERROR_NOT_READY);
    sim_latch_open(&own);
    cr_assert(is_done(by_green));
    fails(cuEventQuery(by_primary), CUDA_ERROR_NOT_READY);
    sim_latch_open(&foreign);
    ok(cuEventSynchronize(by_primary));
}

Test(sim_green, waits_only_in_its_own_streams)
{
    struct sim_latch latch;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUgreenCtx green = new_green();
    CUstream blocked = new_stream(), beside = new_stream(), stream = green_stream(green);
    CUdeviceptr words = new_words(0), others = new_words(0);
    CUevent event = sim_test_event();
    sim_latch_block(&latch, blocked);
    ok(cuEventRecord(event, blocked));
    ok(cuCtxWaitEvent(view_of(green), event));
    ok(cuMemsetD32Async(words, 1, WORDS, stream));
    ok(cuMemsetD32Async(others, 2, WORDS, beside));
    ok(cuStreamSynchronize(beside));
    cr_assert_eq(peek(others), 2);
    sim_test_sleep_ms(20);
    cr_assert_eq(peek(words), 0);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(peek(words), 1);
}

Test(sim_green, does_not_record_while_a_stream_of_its_own_captures)
{
    CUgraph graph;

    sim_test_start("1", "16M");
    CUgreenCtx green = new_green(), other = new_green();
    CUstream stream = green_stream(green);
    CUevent event = sim_test_event();
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuGreenCtxRecordEvent(other, event));
    fails(cuGreenCtxRecordEvent(green, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    fails(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

Test(sim_green, is_gone_once_destroyed)
{
    CUgreenCtx told;
    CUdevResource resource;
    CUstream stream;

    CUcontext primary = sim_test_start("1", "16M");
    CUgreenCtx green = new_green();
    CUcontext view = view_of(green);
    stream = green_stream(green);
    ok(cuCtxSetCurrent(view));
    ok(cuGreenCtxDestroy(green));
    fails(cuGreenCtxDestroy(green), CUDA_ERROR_INVALID_CONTEXT);
    fails(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    ok(cuCtxSetCurrent(primary));
    fails(cuCtxSetCurrent(view), CUDA_ERROR_INVALID_CONTEXT);
    fails(cuStreamQuery(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    fails(cuStreamDestroy(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    fails(cuStreamGetGreenCtx(stream, &told), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    fails(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0),
          CUDA_ERROR_INVALID_CONTEXT);
    fails(cuGreenCtxGetDevResource(green, &resource, CU_DEV_RESOURCE_TYPE_SM),
          CUDA_ERROR_INVALID_CONTEXT);
}

Test(sim_green, keeps_the_primary_context_alive)
{
    unsigned flags;
    int active = 0;

    sim_test_start("1", "16M");
    CUgreenCtx green = new_green();
    ok(cuCtxSetCurrent(NULL));
    ok(cuDevicePrimaryCtxRelease(0));
    ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
    cr_assert_eq(active, 1);
    ok(cuGreenCtxDestroy(green));
    ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
    cr_assert_eq(active, 0);
    ok(cuDevicePrimaryCtxRetain(&(CUcontext){0}, 0));
    green = new_green();
    ok(cuDevicePrimaryCtxReset(0));
    CUcontext view;
    fails(cuCtxFromGreenCtx(&view, green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    fails(cuGreenCtxDestroy(green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

Test(sim_green, has_a_part_of_the_multiprocessors)
{
    CUdevResource parts[4], rest, told;
    unsigned count = 4;
    CUdevResourceDesc desc;
    CUgreenCtx green;

    sim_test_start("2", "16M");
    CUdevResource all = device_resource();
    cr_assert_eq(all.sm.smCount, 8);
    ok(cuDevSmResourceSplitByCount(NULL, &count, &all, NULL, 0, 3));
    cr_assert_eq(count, 1);
    ok(cuDevSmResourceSplitByCount(NULL, &count, &all, NULL, 1, 3));
    cr_assert_eq(count, 2);
    count = 1;
    ok(cuDevSmResourceSplitByCount(parts, &count, &all, &rest, 1, 3));
    cr_assert_eq(parts[0].sm.smCount, 4);
    cr_assert_eq(rest.sm.smCount, 4);
    fails(cuDevSmResourceSplitByCount(NULL, &count, &parts[0], NULL, 1, 2),
          CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    fails(cuDevSmResourceSplitByCount(NULL, &count, &all, NULL, 1, 9),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuDevSmResourceSplitByCount(NULL, &count, &all, NULL, 8, 1),
          CUDA_ERROR_INVALID_VALUE);
    parts[1] = all;
    fails(cuDevResourceGenerateDesc(&desc, parts, 2),
          CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    parts[1] = rest;
    ok(cuDevResourceGenerateDesc(&desc, parts, 2));
    ok(cuDevResourceGenerateDesc(&desc, parts, 1));
    fails(cuGreenCtxCreate(&green, desc, 0, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuGreenCtxCreate(&green, desc, 1, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuGreenCtxCreate(&green, desc, 5, 1), CUDA_ERROR_INVALID_DEVICE);
    ok(cuGreenCtxCreate(&green, desc, 0, 1));
    ok(cuGreenCtxGetDevResource(green, &told, CU_DEV_RESOURCE_TYPE_SM));
    cr_assert_eq(told.sm.smCount, 4);
    ok(cuCtxGetDevResource(view_of(green), &told, CU_DEV_RESOURCE_TYPE_SM));
    cr_assert_eq(told.sm.smCount, 4);
    ok(cuDevSmResourceSplitByCount(parts, &count, &told, &rest, 1, 4));
    cr_assert_eq(rest.type, CU_DEV_RESOURCE_TYPE_INVALID);
    fails(cuDeviceGetDevResource(0, &told, (CUdevResourceType)5),
          CUDA_ERROR_INVALID_RESOURCE_TYPE);
    memset(&told, 0, sizeof(told));
    fails(cuDevResourceGenerateDesc(&desc, &told, 1), CUDA_ERROR_INVALID_RESOURCE_TYPE);
    told.type = CU_DEV_RESOURCE_TYPE_SM;
    fails(cuDevResourceGenerateDesc(&desc, &told, 1),
          CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
}
