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

/* A smaller request that took a larger block whole would leave no memory for the rest. */
Test(sim_pools, take_of_a_freed_block_what_is_asked_for)
{
    struct sim_latch latch;
    CUdeviceptr p, parts[3], more;

    sim_test_start("1", "16M");
    CUmemoryPool pool = default_pool();
    CUstream stream = new_stream();
    for (unsigned run = 0; run < 2; run++) { /* the free is queued; then it has run */
        sim_latch_make(&latch);
        ok(cuMemAllocAsync(&p, 16 * GS_MIB, stream));
        if (run == 0)
            sim_latch_block(&latch, stream);
        ok(cuMemFreeAsync(p, stream));
        fails(cuMemAllocAsync(&more, SIZE_MAX, stream), CUDA_ERROR_OUT_OF_MEMORY);
        for (unsigned i = 0; i < 3; i++)
            ok(cuMemAllocAsync(&parts[i], (i < 2 ? 6 : 4) * GS_MIB, stream));
        fails(cuMemAllocAsync(&more, 1, stream), CUDA_ERROR_OUT_OF_MEMORY);
        cr_assert_eq(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 16 * GS_MIB);
        ok(cuMemsetD8Async(parts[1], 5, 6 * GS_MIB, stream));
        for (unsigned i = 0; i < 3; i++) {
            cr_assert(parts[i] >= p && parts[i] < p + 16 * GS_MIB);
            ok(cuMemFreeAsync(parts[i], stream));
        }
        if (run == 0)
            sim_latch_open(&latch);
        ok(cuStreamSynchronize(stream));
        cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
    }
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

/* Memory names its pool as long as it lives: no other pool may have the name. */
Test(sim_pools, keep_their_handle_while_their_memory_lives)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool first, second, third, named;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    ok(cuMemPoolCreate(&first, &props));
    ok(cuMemAllocFromPoolAsync(&p, 4, first, NULL));
    ok(cuMemPoolDestroy(first));
    ok(cuMemPoolCreate(&second, &props));
    cr_assert_neq(second, first);
    ok(cuPointerGetAttribute(&named, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    cr_assert_eq(named, first);
    ok(cuMemFree(p));
    ok(cuMemPoolCreate(&third, &props));
    cr_assert_eq(third, first); /* handles are recycled */
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

/* Everything later in the other streams is behind all of this one. */
static void others_wait_for(const CUstream *streams, size_t count, CUstream stream)
{
    CUevent event;

    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ok(cuEventRecord(event, stream));
    for (size_t i = 0; i < count; i++)
        ok(cuStreamWaitEvent(streams[i], event, 0));
    ok(cuEventDestroy(event));
}

/* Blocks leave and come in all orders, of one stream and of several; memory is full when
 * none is free, and the first stream runs nothing. */
Test(sim_pools, hand_every_queued_free_to_streams_behind_it)
{
    CUstream streams[3];
    CUdeviceptr blocks[4];
    struct sim_latch latch;
    unsigned random = 1;
    int off = 0;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuMemPoolSetAttribute(default_pool(),
                             CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off));
    for (size_t i = 0; i < 3; i++)
        streams[i] = new_stream();
    sim_latch_block(&latch, streams[0]);
    others_wait_for(streams, 3, streams[0]);
    for (size_t i = 0; i < 4; i++)
        ok(cuMemAllocAsync(&blocks[i], 4 * GS_MIB, streams[0]));
    for (unsigned i = 0; i < 300; i++) {
        size_t count = 1 + i % 4;

        for (size_t j = 0; j < count; j++) {
            CUstream stream = streams[(random = random * 1664525 + 1013904223) % 3];
            ok(cuMemFreeAsync(blocks[j], stream));
            others_wait_for(streams, 3, stream);
        }
        for (size_t j = 0; j < count; j++) {
            CUstream stream = streams[(random = random * 1664525 + 1013904223) % 3];
            ok(cuMemAllocAsync(&blocks[j], 4 * GS_MIB, stream));
            others_wait_for(streams, 3, stream);
        }
    }
    sim_latch_open(&latch);
    ok(cuCtxSynchronize());
}

/* Far more of them than blocks: no step may look at what has been handed on. */
Test(sim_pools, hand_blocks_on_while_the_stream_is_far_behind)
{
    struct sim_latch latch;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUstream stream = new_stream();
    sim_latch_block(&latch, stream);
    for (int i = 0; i < 200000; i++) {
        CUdeviceptr p;
        ok(cuMemAllocAsync(&p, 1000, stream));
        ok(cuMemFreeAsync(p, stream));
    }
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(attribute(default_pool(), CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    cr_assert_leq(attribute(default_pool(), CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH),
                  2 * GS_MIB);
}
