/*
 * sim_managed_pools.c - proves memory pools of managed memory: the host and every device
 * touch it, it costs a device nothing, it prefers its pool's location, and what cannot be
 * asked for.
 */
#include <string.h>

#include "sim_pool_home_helpers.h"

#define BYTES  (4 * GS_MIB)
#define WORDS  (BYTES / 4)
#define DEVICE CU_MEM_LOCATION_TYPE_DEVICE
#define RW     CU_MEM_ACCESS_FLAGS_PROT_READWRITE

Test(sim_managed_pools, are_open_to_everybody)
{
    CUcontext other;

    sim_test_start("2", "16M");
    CUstream stream = new_stream();
    CUmemoryPool pool = new_pool(MANAGED, AT_NONE, 0);
    cr_assert_eq(access_from(pool, AT_HOST, 0), RW);
    cr_assert_eq(access_from(pool, DEVICE, 0), RW);
    cr_assert_eq(access_from(pool, DEVICE, 1), RW);
    CUdeviceptr p = get(pool, 32 * GS_MIB, stream);
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
    ok(fill(p, WORDS, 3, stream));
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(words_at(p)[WORDS - 1], gs_pattern(3, WORDS - 1));
    ok(cuDevicePrimaryCtxRetain(&other, 1));
    ok(cuCtxSetCurrent(other));
    ok(fill(p, WORDS, 4, NULL));
    ok(cuCtxSynchronize());
    cr_assert_eq(words_at(p)[WORDS - 1], gs_pattern(4, WORDS - 1));
    words_at(p)[0] = 5;
    ok(cuMemcpyDtoD(p + 4, p, 4));
    cr_assert_eq(words_at(p)[1], 5);
    ok(cuMemFreeAsync(p, NULL));
    ok(cuCtxSynchronize());
    cr_assert_not(host_reads(p));
}

static int preferred(CUdeviceptr pointer, size_t bytes)
{
    int device = 0;

    ok(cuMemRangeGetAttribute(&device, sizeof(device),
                              CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, pointer, bytes));
    return device;
}

Test(sim_managed_pools, prefer_their_location)
{
    sim_test_start("2", "16M");
    CUdeviceptr none = get(new_pool(MANAGED, AT_NONE, 0), 100, NULL);
    CUdeviceptr host = get(new_pool(MANAGED, AT_HOST, 0), BYTES, NULL);
    CUdeviceptr second = get(new_pool(MANAGED, DEVICE, 1), BYTES, NULL);
    cr_assert_eq(preferred(none, 100), CU_DEVICE_INVALID);
    cr_assert_eq(preferred(host, BYTES), CU_DEVICE_CPU);
    cr_assert_eq(preferred(second, BYTES), 1);
    cr_assert_eq(sim_test_attribute(none, CU_POINTER_ATTRIBUTE_IS_MANAGED), 1);
    cr_assert_eq(sim_test_attribute(none, CU_POINTER_ATTRIBUTE_HOST_POINTER), none);
    cr_assert_eq(sim_test_attribute(none, CU_POINTER_ATTRIBUTE_DEVICE_POINTER), none);
    cr_assert_eq(sim_test_attribute(none, CU_POINTER_ATTRIBUTE_RANGE_SIZE), 100);
    cr_assert_neq(sim_test_attribute(none, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE), 0);
    cr_assert_eq(sim_test_attribute(none, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS),
                 CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
}

Test(sim_managed_pools, are_reused_in_stream_order)
{
    struct sim_latch latch;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUstream stream = new_stream();
    CUmemoryPool pool = new_pool(MANAGED, DEVICE, 0);
    CUdeviceptr p = get(pool, BYTES, stream);
    sim_latch_block(&latch, stream);
    ok(cuMemFreeAsync(p, stream));
    cr_assert_eq(get(pool, BYTES, stream), p);
    cr_assert_eq(preferred(p, BYTES), 0);
    sim_latch_open(&latch);
    ok(cuMemFree(p));
    ok(cuCtxSynchronize());
    cr_assert_eq(pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
}

Test(sim_managed_pools, have_a_default_and_a_current_one)
{
    CUmemLocation none = {.type = (CUmemLocationType)AT_NONE};
    CUmemLocation device = {.type = DEVICE, .id = 0};
    CUmemoryPool pools[3], own = NULL;

    sim_test_start("1", "16M");
    ok(cuMemGetDefaultMemPool(&pools[0], &none, (CUmemAllocationType)MANAGED));
    ok(cuMemGetDefaultMemPool(&pools[1], &device, (CUmemAllocationType)MANAGED));
    ok(cuMemGetDefaultMemPool(&pools[2], &device, CU_MEM_ALLOCATION_TYPE_PINNED));
    cr_assert_neq(pools[0], pools[1]);
    cr_assert_neq(pools[1], pools[2]);
    own = new_pool(MANAGED, DEVICE, 0);
    fails(cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_PINNED, own),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuDeviceSetMemPool(0, own), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemSetMemPool(&device, (CUmemAllocationType)MANAGED, own));
    ok(cuMemGetMemPool(&pools[2], &device, (CUmemAllocationType)MANAGED));
    cr_assert_eq(pools[2], own);
    ok(cuMemPoolDestroy(own));
    ok(cuMemGetMemPool(&pools[2], &device, (CUmemAllocationType)MANAGED));
    cr_assert_eq(pools[2], pools[1]);
}

Test(sim_managed_pools, refuse_bad_calls)
{
    CUmemPoolProps props = pool_props(MANAGED, AT_NONE, 0);
    CUmemoryPool pool;

    sim_test_start("1", "16M");
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    fails(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_VALUE);
#if CUDA_VERSION >= 12020
    props = pool_props(MANAGED, AT_NONE, 0);
    props.maxSize = BYTES;
    fails(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_VALUE);
#endif
    fails(make_pool(MANAGED, DEVICE, 1, &pool), CUDA_ERROR_INVALID_DEVICE);
    fails(make_pool(MANAGED, AT_CURRENT_NODE, 0, &pool), CUDA_ERROR_INVALID_VALUE);
    pool = new_pool(MANAGED, AT_NONE, 0);
    ok(set_access(pool, 0, RW));
    fails(set_access(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_managed_pools, came_with_13_0)
{
    CUmemoryPool pool;

    setenv("CUDASIM_DRIVER_VERSION", "12090", 1);
    sim_test_start("1", "16M");
    fails(make_pool(MANAGED, DEVICE, 0, &pool), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_managed_pools, need_devices_that_migrate)
{
    CUmemoryPool pool;

    setenv("CUDASIM_ATTRIBUTES", "CONCURRENT_MANAGED_ACCESS=0", 1);
    sim_test_start("1", "16M");
    fails(make_pool(MANAGED, AT_NONE, 0, &pool), CUDA_ERROR_NOT_SUPPORTED);
}
