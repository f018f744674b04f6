/*
 * sim_streams.c - proves streams and events beyond tests/sim/conformance, which has the
 * order between streams: what waits on the host, times, host functions, many threads.
 */
#include "sim_helpers.h"

Test(sim_streams, freeing_waits_for_all_of_them)
{
    struct sim_latch latch;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUstream outside = sim_test_stream(CU_STREAM_NON_BLOCKING);
    ok(cuMemAlloc(&p, 4));
    sim_latch_block(&latch, outside);
    sim_latch_open_later(&latch);
    ok(cuMemFree(p));
    cr_assert(sim_latch_is_open(&latch), "the free returned before the kernel ended");
    ok(cuStreamQuery(outside));
    sim_latch_join(&latch);
}

Test(sim_streams, allocating_waits_for_none)
{
    struct sim_latch latch;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUstream stream = sim_test_stream(0);
    sim_latch_block(&latch, stream);
    ok(cuMemAlloc(&p, 4));
    fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
}

Test(sim_streams, a_destroyed_one_still_runs_what_it_was_given)
{
    struct sim_latch latch;
    CUdeviceptr p;
    uint32_t value = 0;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUstream stream = sim_test_stream(CU_STREAM_NON_BLOCKING);
    ok(cuMemAlloc(&p, 4));
    sim_latch_block(&latch, stream);
    ok(cuMemsetD32Async(p, 77, 1, stream));
    ok(cuStreamDestroy(stream));
    fails(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    sim_latch_open(&latch);
    ok(cuCtxSynchronize());
    ok(cuMemcpyDtoH(&value, p, 4));
    cr_assert_eq(value, 77);
}

Test(sim_streams, wait_for_and_write_values)
{
    CUdeviceptr p;
    uint32_t value = 0;

    sim_test_start("1", "16M");
    CUstream first = sim_test_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = sim_test_stream(CU_STREAM_NON_BLOCKING);
    ok(cuMemAlloc(&p, 8));
    ok(cuMemsetD32(p, 0, 2));
    ok(cuCtxSynchronize());
    ok(cuStreamWaitValue32(first, p, 3, CU_STREAM_WAIT_VALUE_EQ));
    ok(cuStreamWriteValue32(first, p + 4, 8, 0));
    sim_test_sleep_ms(10);
    fails(cuStreamQuery(first), CUDA_ERROR_NOT_READY);
    ok(cuStreamWriteValue32(second, p, 3, 0));
    ok(cuStreamSynchronize(first));
    ok(cuMemcpyDtoH(&value, p + 4, 4));
    cr_assert_eq(value, 8);
    fails(cuStreamWriteValue32(second, p + 2, 3, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuStreamWriteValue32(second, p + 8, 3, 0), CUDA_ERROR_INVALID_VALUE);
}

static void *hammer(void *argument)
{
    CUcontext *context = argument;
    CUstream stream;
    CUdeviceptr p;

    ok(cuCtxSetCurrent(*context));
    for (int round = 0; round < 20; round++) {
        ok(cuStreamCreate(&stream, round % 2));
        ok(cuMemAlloc(&p,
                      512)); /* a half each: a non-blocking stream orders with nobody */
        for (int i = 0; i < 10; i++) {
            ok(cuMemsetD8Async(p, (unsigned char)i, 256, stream));
            ok(cuMemsetD8Async(p + 256, (unsigned char)i, 256, NULL));
        }
        ok(cuMemFree(p));
        ok(cuStreamDestroy(stream));
    }
    return NULL;
}

Test(sim_streams, survive_many_threads)
{
    CUcontext context = sim_test_start("1", "16M");
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, hammer, &context), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ok(cuCtxSynchronize());
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
}
