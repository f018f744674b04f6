/*
 * sim_pools.c - proves stream-ordered memory: reuse in stream order, when memory returns
 * to the device, attributes, and mixing with plain allocation and free.
 */
#include <string.h>

#include "sim_helpers.h"

#define UNIT (2 * GS_MIB)

static CUstream new_stream(void)
{
    CUstream stream;

    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static cuuint64_t attribute(CUmemoryPool pool, CUmemPool_attribute name)
{
    cuuint64_t value = 0;

    ok(cuMemPoolGetAttribute(pool, name, &value));
    return value;
}

static CUmemoryPool default_pool(void)
{
    CUmemoryPool pool;

    ok(cuDeviceGetDefaultMemPool(&pool, 0));
    return pool;
}

Test(sim_pools, return_memory_at_a_synchronization)
{
    CUdeviceptr p;

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    ok(cuMemAllocAsync(&p, 4 * GS_MIB, stream));
    ok(cuMemsetD8Async(p, 1, 4 * GS_MIB, stream));
    cr_assert_eq(sim_test_free_bytes(), 12 * GS_MIB);
    ok(cuMemFreeAsync(p, stream));
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
}

Test(sim_pools, keep_memory_up_to_their_threshold)
{
    cuuint64_t threshold = 4 * GS_MIB;
    CUdeviceptr p, q;

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    ok(cuMemPoolSetAttribute(default_pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                             &threshold));
    ok(cuMemAllocAsync(&p, 4 * GS_MIB, stream));
    ok(cuMemAllocAsync(&q, 4 * GS_MIB, stream));
    ok(cuMemFreeAsync(p, stream));
    ok(cuMemFreeAsync(q, stream));
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(sim_test_free_bytes(), 12 * GS_MIB);
    cr_assert_eq(attribute(default_pool(), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
                 4 * GS_MIB);
    cr_assert_eq(attribute(default_pool(), CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH),
                 8 * GS_MIB);
    cr_assert_eq(attribute(default_pool(), CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    ok(cuMemPoolTrimTo(default_pool(), 0));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
}

Test(sim_pools, reuse_on_the_same_stream_before_the_free_has_run)
{
    struct sim_latch latch;
    CUdeviceptr p, q;
    uint32_t value = 0;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUstream stream = new_stream();
    ok(cuMemAllocAsync(&p, 4 * GS_MIB, stream));
    sim_latch_block(&latch, stream);
    ok(cuMemsetD32Async(p, 1, GS_MIB, stream));
    ok(cuMemFreeAsync(p, stream));
    ok(cuMemAllocAsync(&q, 4 * GS_MIB, stream));
    cr_assert_eq(p, q);
    ok(cuMemsetD32Async(q, 2, GS_MIB, stream));
    fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    ok(cuMemcpyDtoH(&value, q, 4));
    cr_assert_eq(value, 2);
    ok(cuMemFreeAsync(q, stream));
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
}

Test(sim_pools, do_not_hand_queued_frees_to_other_streams)
{
    struct sim_latch latch;
    CUdeviceptr p, q;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUstream first = new_stream(), second = new_stream();
    ok(cuMemAllocAsync(&p, 4 * GS_MIB, first));
    sim_latch_block(&latch, first);
    ok(cuMemFreeAsync(p, first));
    ok(cuMemAllocAsync(&q, 4 * GS_MIB, second));
    cr_assert_neq(p, q);
    sim_latch_open(&latch);
}

Test(sim_pools, make_a_stream_wait_when_memory_is_short)
{
    struct sim_latch latch;
    CUdeviceptr p, q;
    int off = 0;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUstream first = new_stream(), second = new_stream();
    ok(cuMemAllocAsync(&p, 12 * GS_MIB, first));
    sim_latch_block(&latch, first);
    ok(cuMemFreeAsync(p, first));
    CUmemoryPool pool = default_pool();
    ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
                             &off));
    fails(cuMemAllocAsync(&q, 12 * GS_MIB, second), CUDA_ERROR_OUT_OF_MEMORY);
    off = 1;
    ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
                             &off));
    ok(cuMemAllocAsync(&q, 12 * GS_MIB, second));
    fails(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(second));
}

Test(sim_pools, mix_with_plain_calls)
{
    CUdeviceptr p, q;

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    ok(cuMemAlloc(&p, 4 * GS_MIB));
    ok(cuMemFreeAsync(p, stream));
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
    fails(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemAllocAsync(&q, 4 * GS_MIB, stream));
    ok(cuStreamSynchronize(stream));
    ok(cuMemFree(q));
    ok(cuCtxSynchronize());
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
}

Test(sim_pools, refuse_bad_calls)
{
    CUdeviceptr p;

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    fails(cuMemAllocAsync(&p, 0, stream), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAllocAsync(NULL, 1, stream), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAllocAsync(&p, 20 * GS_MIB, stream), CUDA_ERROR_OUT_OF_MEMORY);
    fails(cuMemFreeAsync(12345, stream), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemAllocAsync(&p, 100, stream));
    fails(cuMemFreeAsync(p + 1, stream), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemFreeAsync(p, stream));
    fails(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemsetD8Async(p, 0, 1, stream), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPoolDestroy(default_pool()), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_pools, live_as_long_as_their_allocations)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool, current;
    CUdeviceptr p;
    uint32_t value = 0;

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    ok(cuMemPoolCreate(&pool, &props));
    ok(cuDeviceSetMemPool(0, pool));
    ok(cuDeviceGetMemPool(&current, 0));
    cr_assert_eq(current, pool);
    ok(cuMemAllocAsync(&p, 4 * GS_MIB, stream));
    cr_assert_eq(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 4 * GS_MIB);
    ok(cuMemPoolDestroy(pool));
    fails(cuMemPoolTrimTo(pool, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuDeviceGetMemPool(&current, 0));
    cr_assert_eq(current, default_pool());
    ok(cuMemsetD32Async(p, 3, 1, stream));
    ok(cuMemcpyDtoHAsync(&value, p, 4, stream));
    cr_assert_eq(value, 3);
    ok(cuMemFreeAsync(p, stream));
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
}

Test(sim_pools, outlive_the_context)
{
    CUcontext own;
    CUdeviceptr p;
    uint32_t value = 0;

    sim_test_start("1", "16M");
    ok(cuCtxCreate_v2(&own, 0, 0));
    ok(cuMemAllocAsync(&p, 4, NULL));
    ok(cuMemsetD32(p, 6, 1));
    ok(cuCtxSynchronize());
    ok(cuCtxDestroy(own));
    ok(cuMemcpyDtoH(&value, p, 4));
    cr_assert_eq(value, 6);
    ok(cuMemFree(p));
}

Test(sim_pools, do_not_grow_in_a_steady_loop)
{
    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    for (int i = 0; i < 1000; i++) {
        CUdeviceptr p;
        ok(cuMemAllocAsync(&p, 3 * GS_MIB, stream));
        ok(cuMemsetD8Async(p, 1, 64, stream));
        ok(cuMemFreeAsync(p, stream));
    }
    ok(cuStreamSynchronize(stream));
    cr_assert_leq(attribute(default_pool(), CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH),
                  8 * GS_MIB);
}
