/*
 * sim_copies.c - proves copies and sets beyond tests/sim/conformance: they stay in
 * bounds, refuse what is no memory of theirs, and wait.
 */
#include <string.h>

#include "sim_helpers.h"

Test(sim_copies, stay_in_bounds)
{
    unsigned char bytes[128] = {0};
    CUdeviceptr p;

    sim_test_start("1", "16M");
    ok(cuMemAlloc(&p, 100));
    fails(cuMemcpyHtoD(p, bytes, 101), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyHtoD(p + 50, bytes, 51), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemcpyHtoD(p + 50, bytes, 50));
    fails(cuMemcpyDtoH(bytes, p + 100, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyDtoH(bytes, p, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemsetD32(p, 1, 26), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemsetD32(p, 1, SIZE_MAX / 2), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemsetD32(p + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemsetD32(p, 1, 25));
    ok(cuMemcpyHtoD(p, bytes, 0));
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = p,
                         .srcPitch = 4,
                         .srcHeight = 5,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = bytes,
                         .dstPitch = 4,
                         .dstHeight = 5,
                         .WidthInBytes = 4,
                         .Height = 5,
                         .Depth = 5};
    ok(cuMemcpy3D(&box));
    box.srcXInBytes = 1;
    fails(cuMemcpy3D(&box), CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = p,
                          .srcPitch = 10,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = bytes,
                          .dstPitch = 10,
                          .WidthInBytes = 10,
                          .Height = 10};
    ok(cuMemcpy2D(&rows));
    rows.srcY = 1;
    fails(cuMemcpy2D(&rows), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemFree(p));
    fails(cuMemcpyHtoD(p, bytes, 1), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_copies, refuse_pointers_of_the_wrong_side)
{
    unsigned char bytes[16];
    CUdeviceptr p;

    sim_test_start("1", "16M");
    ok(cuMemAlloc(&p, 100));
    fails(cuMemcpyHtoD(p, (void *)(uintptr_t)p, 16), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)bytes, bytes, 16),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyDtoH(NULL, p, 16), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyDtoD(p, 0, 16), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_copies, pageable_memory_makes_an_asynchronous_copy_wait)
{
    struct sim_latch latch;
    uint32_t value = 0;
    CUstream stream;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc(&p, 4));
    ok(cuMemsetD32(p, 5, 1));
    ok(cuCtxSynchronize());
    sim_latch_block(&latch, stream);
    sim_latch_open_later(&latch);
    ok(cuMemcpyDtoHAsync(&value, p, 4, stream));
    cr_assert(sim_latch_is_open(&latch));
    cr_assert_eq(value, 5);
    sim_latch_join(&latch);
}

Test(sim_copies, between_contexts_are_ordered_with_both)
{
    CUcontext first = sim_test_start("2", "16M"), second;
    struct sim_latch latch;
    CUdeviceptr p, q;
    CUstream stream;
    uint32_t value = 0;

    sim_latch_make(&latch);
    ok(cuMemAlloc(&p, 4));
    ok(cuMemsetD32(p, 9, 1));
    ok(cuDevicePrimaryCtxRetain(&second, 1));
    ok(cuCtxSetCurrent(second));
    ok(cuMemAlloc(&q, 4));
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuCtxSetCurrent(first));
    CUstream blocked;
    ok(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
    sim_latch_block(&latch, blocked);
    ok(cuMemcpyPeer(q, second, p, first, 4));
    ok(cuCtxSetCurrent(second));
    CUevent event;
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ok(cuEventRecord(event, stream));
    sim_test_sleep_ms(20);
    fails(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
    ok(cuEventSynchronize(event));
    ok(cuMemcpyDtoH(&value, q, 4));
    cr_assert_eq(value, 9);
}
