/*
 * sim_host_pools.c - proves memory pools of the host (locations HOST and HOST_NUMA): who
 * may touch their memory, that it costs a device nothing, reuse and free in stream order,
 * what pointers say, which pool is current, and what older drivers and devices without
 * such pools answer.
 */
#include <string.h>

#include "sim_pool_home_helpers.h"

#define BYTES (4 * GS_MIB)
#define WORDS (BYTES / 4)
#define RW    CU_MEM_ACCESS_FLAGS_PROT_READWRITE

static CUmemoryPool open_pool(void)
{
    CUmemoryPool pool = new_pool(PINNED, AT_HOST, 0);

    ok(set_access(pool, 0, RW));
    return pool;
}

Test(sim_host_pools, cost_a_device_nothing)
{
    CUdeviceptr small, large;

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    CUmemoryPool pool = new_pool(PINNED, AT_HOST, 77); /* the id is ignored */
    small = get(pool, 100, stream);
    large = get(pool, 32 * GS_MIB, stream);
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(words_at(large)[8 * GS_MIB - 1], 0);
    memset(words_at(small), 3, 100);
    memset(words_at(large), 4, 32 * GS_MIB);
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
    cr_assert_eq(pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
                 32 * GS_MIB + 512);
    ok(cuMemFreeAsync(small, stream));
    ok(cuMemFreeAsync(large, stream));
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    cr_assert_not(host_reads(large));
}

Test(sim_host_pools, are_open_to_the_host_alone_at_first)
{
    uint32_t word = 0;

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    CUmemoryPool pool = new_pool(PINNED, AT_HOST, 0);
    cr_assert_eq(access_from(pool, AT_HOST, 0), RW);
    cr_assert_eq(access_from(pool, AT_NODE, 0), RW);
    cr_assert_eq(access_from(pool, CU_MEM_LOCATION_TYPE_DEVICE, 0),
                 CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CUdeviceptr p = get(pool, BYTES, stream), q;
    ok(cuStreamSynchronize(stream));
    ok(cuMemAlloc(&q, BYTES));
    fails(cuMemcpyAsync(q, p, BYTES, stream), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyHtoD(q, words_at(p), BYTES), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyDtoH(words_at(p), q, BYTES), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemsetD32Async(p, 1, 1, stream), CUDA_ERROR_INVALID_VALUE);
    fails(cuStreamWriteValue32(stream, p, 1, 0), CUDA_ERROR_INVALID_VALUE);
    words_at(p)[0] = 5;
    ok(cuMemcpy((CUdeviceptr)(uintptr_t)&word, p, 4)); /* no device has to do with it */
    cr_assert_eq(word, 5);
    ok(fill(p, WORDS, 1, stream));
    fails(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(sim_host_pools, are_written_and_read_in_stream_order)
{
    struct sim_latch latch;
    CUdeviceptr q;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUstream stream = new_stream();
    CUdeviceptr p = get(open_pool(), BYTES, stream);
    ok(cuMemAlloc(&q, BYTES));
    ok(cuMemsetD32(q, 7, WORDS));
    ok(cuCtxSynchronize());
    sim_latch_block(&latch, stream);
    ok(cuMemcpyDtoHAsync(words_at(p), q, BYTES, stream));
    fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    cr_assert_eq(words_at(p)[WORDS - 1], 0);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(words_at(p)[WORDS - 1], 7);
    words_at(p)[0] = 8;
    ok(cuMemcpyHtoDAsync(q, words_at(p), 4, stream));
    ok(fill(p, 1, 9, stream));
    ok(cuMemcpyDtoDAsync(p + 4, q, 4, stream));
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(words_at(p)[0], gs_pattern(9, 0));
    cr_assert_eq(words_at(p)[1], 8);
    ok(cuMemFreeAsync(p, stream));
}

Test(sim_host_pools, give_a_device_the_rights_it_was_given)
{
    sim_test_start("2", "16M");
    CUstream stream = new_stream();
    CUmemoryPool pool = new_pool(PINNED, AT_NODE, 0);
    ok(set_access(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_READ));
    cr_assert_eq(access_from(pool, CU_MEM_LOCATION_TYPE_DEVICE, 0),
                 CU_MEM_ACCESS_FLAGS_PROT_READ);
    cr_assert_eq(access_from(pool, CU_MEM_LOCATION_TYPE_DEVICE, 1),
                 CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CUdeviceptr p = get(pool, BYTES, stream), q;
    ok(cuMemAlloc(&q, BYTES));
    ok(cuMemcpyAsync(q, p, BYTES, stream));
    fails(cuMemcpyAsync(p, q, BYTES, stream), CUDA_ERROR_INVALID_VALUE);
    ok(set_access(pool, 0, RW));
    ok(cuMemcpyAsync(p, q, BYTES, stream));
    ok(cuStreamSynchronize(stream));
    ok(set_access(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    fails(cuMemcpyAsync(q, p, BYTES, stream), CUDA_ERROR_INVALID_VALUE);
    ok(set_access(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_READ));
    ok(fill(p, 1, 1, stream));
    fails(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(sim_host_pools, are_open_to_the_devices_they_were_opened_to)
{
    CUcontext other;

    sim_test_start("2", "16M");
    CUdeviceptr p = get(open_pool(), BYTES, NULL);
    ok(fill(p, WORDS, 1, NULL));
    ok(cuCtxSynchronize());
    cr_assert_eq(words_at(p)[WORDS - 1], gs_pattern(1, WORDS - 1));
    ok(cuDevicePrimaryCtxRetain(&other, 1));
    ok(cuCtxSetCurrent(other));
    ok(fill(p, WORDS, 2, NULL));
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(sim_host_pools, are_reused_in_stream_order)
{
    struct sim_latch latch;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUstream first = new_stream(), second = new_stream();
    CUmemoryPool pool = open_pool();
    CUdeviceptr p = get(pool, BYTES, first);
    sim_latch_block(&latch, first);
    ok(cuMemsetD32Async(p, 1, WORDS, first));
    ok(cuMemFreeAsync(p, first));
    cr_assert_neq(get(pool, BYTES, second), p);
    cr_assert_eq(get(pool, BYTES, first), p);
    ok(cuMemsetD32Async(p, 2, WORDS, first));
    cr_assert_eq(words_at(p)[0], 0);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(first));
    cr_assert_eq(words_at(p)[WORDS - 1], 2);
}

Test(sim_host_pools, keep_to_their_own_limit)
{
    CUmemPoolProps props = pool_props(PINNED, AT_HOST, 0);
    CUmemoryPool pool;
    CUdeviceptr p;

    sim_test_start("1", "16M");
#if CUDA_VERSION >= 12020
    props.maxSize = 8 * GS_MIB;
#endif
    ok(cuMemPoolCreate(&pool, &props));
    get(pool, BYTES, NULL);
    get(pool, BYTES, NULL);
#if CUDA_VERSION >= 12020
    fails(cuMemAllocFromPoolAsync(&p, BYTES, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
#endif
    fails(cuMemAllocFromPoolAsync(&p, (size_t)1 << 50, pool, NULL),
          CUDA_ERROR_OUT_OF_MEMORY);
}

Test(sim_host_pools, end_by_either_free)
{
    sim_test_start("1", "16M");
    CUmemoryPool pool = open_pool();
    CUdeviceptr p = get(pool, BYTES, NULL), q = get(pool, BYTES, NULL);
    fails(cuMemFreeHost(words_at(p)), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFreeAsync(p + 4, NULL), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemFree(p));
    fails(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemFreeAsync(q, NULL));
    fails(cuMemFreeAsync(q, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyHtoD(q, words_at(p), 4), CUDA_ERROR_INVALID_VALUE);
    ok(cuCtxSynchronize());
    cr_assert_eq(pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    cr_assert_eq(pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
}

Test(sim_host_pools, live_as_long_as_their_allocations)
{
    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    CUmemoryPool pool = open_pool();
    CUdeviceptr p = get(pool, BYTES, stream);
    ok(cuMemPoolDestroy(pool));
    fails(cuMemPoolTrimTo(pool, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemsetD32Async(p, 6, WORDS, stream));
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(words_at(p)[WORDS - 1], 6);
    ok(cuMemFreeAsync(p, stream));
    ok(cuStreamSynchronize(stream));
    for (int i = 0; i < SIM_TEST_LOOKS && host_reads(p); i++)
        sim_test_sleep_ms(2); /* the stream's thread drops its last reference */
    cr_assert_not(host_reads(p));
}

Test(sim_host_pools, outlive_the_context)
{
    CUcontext own;

    sim_test_start("1", "16M");
    CUmemoryPool pool = open_pool();
    ok(cuCtxCreate_v2(&own, 0, 0));
    CUdeviceptr p = get(pool, BYTES, NULL);
    ok(cuMemsetD32(p, 6, WORDS));
    ok(cuCtxDestroy(own));
    cr_assert_eq(words_at(p)[WORDS - 1], 6);
    ok(cuMemFree(p));
}

Test(sim_host_pools, say_that_they_are_the_hosts)
{
    unsigned long long value;

    sim_test_start("1", "16M");
    CUmemoryPool pool = new_pool(PINNED, AT_HOST, 0);
    CUdeviceptr p = get(pool, 1000, NULL);
    cr_assert_eq(sim_test_attribute(p + 10, CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
                 CU_MEMORYTYPE_HOST);
    cr_assert_eq(sim_test_attribute(p + 10, CU_POINTER_ATTRIBUTE_HOST_POINTER), p + 10);
    cr_assert_eq(sim_test_attribute(p + 10, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR), p);
    cr_assert_eq(sim_test_attribute(p + 10, CU_POINTER_ATTRIBUTE_RANGE_SIZE), 1000);
    cr_assert_eq(sim_test_attribute(p, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE),
                 (uintptr_t)pool);
    cr_assert_eq(sim_test_attribute(p, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL), 0);
    cr_assert_eq(sim_test_attribute(p, CU_POINTER_ATTRIBUTE_CONTEXT), 0);
    cr_assert_eq(sim_test_attribute(p, CU_POINTER_ATTRIBUTE_IS_MANAGED), 0);
    cr_assert_eq(sim_test_attribute(p, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE),
                 0);
    cr_assert_eq(sim_test_attribute(p, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS),
                 CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
    fails(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p),
          CUDA_ERROR_INVALID_VALUE);
    ok(set_access(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_READ));
    cr_assert_eq(sim_test_attribute(p, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS),
                 CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ);
    cr_assert_eq(sim_test_attribute(p + 10, CU_POINTER_ATTRIBUTE_DEVICE_POINTER), p + 10);
    ok(set_access(pool, 0, RW));
    cr_assert_eq(sim_test_attribute(p, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS),
                 CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
}

Test(sim_host_pools, refuse_bad_calls)
{
    CUmemPoolProps props = pool_props(PINNED, AT_HOST, 0);
    CUmemAccessDesc desc = {.location = {.type = (CUmemLocationType)AT_HOST},
                            .flags = RW};
    CUmemoryPool pool;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    fails(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_VALUE);
    props.location.type = (CUmemLocationType)AT_NODE;
    fails(cuMemPoolCreate(&pool, &props), CUDA_ERROR_NOT_SUPPORTED);
    fails(make_pool(PINNED, AT_NODE, 12345, &pool), CUDA_ERROR_INVALID_VALUE);
    fails(make_pool(PINNED, AT_NODE, -1, &pool), CUDA_ERROR_INVALID_VALUE);
    fails(make_pool(PINNED, AT_CURRENT_NODE, 0, &pool), CUDA_ERROR_INVALID_VALUE);
    fails(make_pool(PINNED, AT_NONE, 0, &pool), CUDA_ERROR_INVALID_VALUE);
    fails(make_pool(3, AT_HOST, 0, &pool), CUDA_ERROR_INVALID_VALUE);
    pool = open_pool();
    fails(cuMemPoolSetAccess(pool, &desc, 1), CUDA_ERROR_INVALID_VALUE);
    fails(set_access(pool, 1, RW), CUDA_ERROR_INVALID_VALUE);
    p = get(pool, BYTES, NULL);
    fails(cuMemHostRegister(words_at(p), BYTES, 0),
          CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
}

Test(sim_host_pools, are_no_memory_of_graphs)
{
    CUgraph graph;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    CUmemoryPool pool = open_pool();
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    fails(cuMemAllocFromPoolAsync(&p, BYTES, pool, stream), CUDA_ERROR_NOT_SUPPORTED);
    ok(cuStreamEndCapture(stream, &graph));
}

static CUmemoryPool asked_pool(int type, int id, bool want_default)
{
    CUmemLocation location = {.type = (CUmemLocationType)type, .id = id};
    CUmemoryPool pool = NULL;

    ok((want_default ? cuMemGetDefaultMemPool
                     : cuMemGetMemPool)(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    return pool;
}

static CUresult set_pool(int type, int id, CUmemoryPool pool)
{
    CUmemLocation location = {.type = (CUmemLocationType)type, .id = id};

    return cuMemSetMemPool(&location, CU_MEM_ALLOCATION_TYPE_PINNED, pool);
}

Test(sim_host_pools, have_a_default_and_a_current_one)
{
    sim_test_start("1", "16M");
    CUmemoryPool host = asked_pool(AT_HOST, 0, true), node = asked_pool(AT_NODE, 0, true);
    cr_assert_neq(host, node);
    cr_assert_eq(asked_pool(AT_HOST, 3, true), host);
    cr_assert_eq(asked_pool(AT_HOST, 0, false), host);
    fails(cuMemPoolDestroy(host), CUDA_ERROR_INVALID_VALUE);
    CUmemoryPool own = open_pool();
    ok(set_pool(AT_HOST, 4, own));
    cr_assert_eq(asked_pool(AT_HOST, 0, false), own);
    cr_assert_eq(asked_pool(AT_HOST, 0, true), host);
    cr_assert_eq(asked_pool(AT_NODE, 0, false), node);
    fails(set_pool(AT_NODE, 0, own), CUDA_ERROR_INVALID_VALUE);
    fails(set_pool(CU_MEM_LOCATION_TYPE_DEVICE, 0, own), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemPoolDestroy(own));
    cr_assert_eq(asked_pool(AT_HOST, 0, false), host);
    CUdeviceptr p = get(host, BYTES, NULL);
    memset(words_at(p), 1, BYTES);
    ok(cuMemFree(p));
}

Test(sim_host_pools, of_a_node_may_serve_a_device)
{
    CUmemoryPool current, device;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    ok(cuDeviceGetDefaultMemPool(&device, 0));
    fails(cuDeviceSetMemPool(0, open_pool()), CUDA_ERROR_INVALID_VALUE);
    CUmemoryPool node = new_pool(PINNED, AT_NODE, 0);
    ok(set_access(node, 0, RW));
    ok(cuDeviceSetMemPool(0, node));
    ok(cuMemAllocAsync(&p, BYTES, NULL));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
    ok(cuMemsetD32(p, 2, WORDS));
    cr_assert_eq(words_at(p)[WORDS - 1], 2);
    ok(cuMemPoolDestroy(node));
    ok(cuDeviceGetMemPool(&current, 0));
    cr_assert_eq(current, device);
    ok(cuMemFreeAsync(p, NULL));
}

Test(sim_host_pools, came_with_13_0)
{
    CUmemoryPool pool;

    setenv("CUDASIM_DRIVER_VERSION", "12090", 1);
    sim_test_start("1", "16M");
    fails(make_pool(PINNED, AT_HOST, 0, &pool), CUDA_ERROR_INVALID_VALUE);
    ok(make_pool(PINNED, AT_NODE, 0, &pool));
}

Test(sim_host_pools, of_a_node_came_with_12_2)
{
    CUmemoryPool pool;

    setenv("CUDASIM_DRIVER_VERSION", "12010", 1);
    sim_test_start("1", "16M");
    fails(make_pool(PINNED, AT_NODE, 0, &pool), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_host_pools, are_not_supported_by_every_device)
{
    CUmemLocation location = {.type = (CUmemLocationType)AT_HOST};
    CUmemoryPool pool;

    setenv("CUDASIM_ATTRIBUTES",
           "HOST_MEMORY_POOLS_SUPPORTED=0,HOST_NUMA_MEMORY_POOLS_SUPPORTED=0", 1);
    sim_test_start("1", "16M");
    fails(make_pool(PINNED, AT_HOST, 0, &pool), CUDA_ERROR_NOT_SUPPORTED);
    fails(make_pool(PINNED, AT_NODE, 0, &pool), CUDA_ERROR_NOT_SUPPORTED);
    fails(cuMemGetDefaultMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED),
          CUDA_ERROR_NOT_SUPPORTED);
    ok(make_pool(PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0, &pool));
}
