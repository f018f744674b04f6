/*
 * case_pool_attribute.c - attributes of memory pools: policies, threshold, figures; and
 * cuMemPoolTrimTo.
 */
#include "case_pool_help.h"

#define BYTES     ((size_t)6 * GS_MIB)
#define RESERVED  CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
#define USED      CU_MEMPOOL_ATTR_USED_MEM_CURRENT
#define THRESHOLD CU_MEMPOOL_ATTR_RELEASE_THRESHOLD

/* A pool of its own; NULL, with the case skipped or failed, if there is none. */
static CUmemoryPool start(void)
{
    return pools_supported() ? pool_new(0) : NULL;
}

/* Allocate and free so that the pool has had `count` blocks, and see it done. */
static void use(CUmemoryPool pool, unsigned count)
{
    CUdeviceptr pointers[8];

    for (unsigned i = 0; i < count; i++)
        pointers[i] = pool_get(pool, BYTES, NULL);
    for (unsigned i = 0; i < count; i++)
        CHECK_OK(cuMemFreeAsync(pointers[i], NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
}

static void check_default(CUmemPool_attribute attribute)
{
    CUmemoryPool pool = start();

    if (!pool)
        return;
    CHECK_EQUAL(pool_flag(pool, attribute), 1);
    pool_end(pool);
}

CASE(pool, follow_events_by_default, DRIVER_API, "cuMemPoolGetAttribute",
     "CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES (value type = int; default "
     "enabled)")
{
    check_default(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES);
}

CASE(pool, opportunistic_by_default, DRIVER_API, "cuMemPoolGetAttribute",
     "CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC (value type = int; default enabled)")
{
    check_default(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC);
}

CASE(pool, dependencies_by_default, DRIVER_API, "cuMemPoolGetAttribute",
     "CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES (value type = int; default "
     "enabled)")
{
    check_default(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
}

CASE(pool, policies_set, DRIVER_API, "cuMemPoolSetAttribute",
     "Supported attributes are the three CU_MEMPOOL_ATTR_REUSE policies: each is told "
     "as it was set")
{
    static const CUmemPool_attribute policies[] = {
        CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES};
    CUmemoryPool pool = start();
    int off = 0, on = 1;

    if (!pool)
        return;
    for (unsigned i = 0; i < 3; i++) {
        CHECK_OK(cuMemPoolSetAttribute(pool, policies[i], &off));
        for (unsigned j = 0; j < 3; j++)
            CHECK_EQUAL(pool_flag(pool, policies[j]), j != i);
        CHECK_OK(cuMemPoolSetAttribute(pool, policies[i], &on));
        CHECK_EQUAL(pool_flag(pool, policies[i]), 1);
    }
    pool_end(pool);
}

CASE(pool, threshold_by_default, DRIVER_API, "cuMemPoolGetAttribute",
     "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD (value type = cuuint64_t): amount of reserved "
     "memory in bytes to hold onto (default 0)")
{
    CUmemoryPool pool = start();

    if (!pool)
        return;
    CHECK_EQUAL(pool_size(pool, THRESHOLD), 0);
    pool_end(pool);
}

CASE(pool, threshold_set, DRIVER_API, "cuMemPoolSetAttribute",
     "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD (value type = cuuint64_t): amount of reserved "
     "memory in bytes to hold onto before trying to release memory back to the OS")
{
    CUmemoryPool pool = start();

    if (!pool)
        return;
    CHECK_OK(pool_set_size(pool, THRESHOLD, BYTES));
    CHECK_EQUAL(pool_size(pool, THRESHOLD), BYTES);
    CHECK_OK(pool_set_size(pool, THRESHOLD, UINT64_MAX));
    CHECK_EQUAL(pool_size(pool, THRESHOLD), UINT64_MAX);
    pool_end(pool);
}

CASE(pool, threshold_holds, GUIDE, "Stream-Ordered Memory Allocator",
     "Setting the release threshold to UINT64_MAX will prevent the driver from "
     "attempting to shrink the pool after every synchronization")
{
    CUmemoryPool pool = start();
    cuuint64_t reserved;

    if (!pool)
        return;
    CHECK_OK(pool_set_size(pool, THRESHOLD, UINT64_MAX));
    use(pool, 2);
    reserved = pool_size(pool, RESERVED);
    CHECK(reserved >= 2 * BYTES);
    for (unsigned i = 0; i < 3; i++) {
        CHECK_OK(cuStreamSynchronize(NULL));
        CHECK_OK(cuCtxSynchronize());
        CHECK_EQUAL(pool_size(pool, RESERVED), reserved);
    }
    pool_end(pool);
}

CASE(pool, figures_of_a_new_pool, DRIVER_API, "cuMemPoolGetAttribute",
     "CU_MEMPOOL_ATTR_USED_MEM_CURRENT: amount of memory from the pool that is "
     "currently in use by the application; _HIGH: high watermark")
{
    CUmemoryPool pool = start();

    if (!pool)
        return;
    CHECK_EQUAL(pool_size(pool, USED), 0);
    CHECK_EQUAL(pool_size(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
    pool_end(pool);
}

CASE(pool, figures_of_used_memory, DRIVER_API, "cuMemPoolGetAttribute",
     "CU_MEMPOOL_ATTR_USED_MEM_CURRENT: amount of memory from the pool that is "
     "currently in use by the application; RESERVED_MEM_CURRENT: amount of backing "
     "memory allocated")
{
    CUmemoryPool pool = start();
    CUdeviceptr pointer;

    if (!pool)
        return;
    pointer = pool_get(pool, BYTES, NULL);
    CHECK(pool_size(pool, USED) >= BYTES);
    CHECK(pool_size(pool, RESERVED) >= pool_size(pool, USED));
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
    CHECK_EQUAL(pool_size(pool, USED), 0);
    pool_end(pool);
}

CASE(pool, figures_of_several, GUIDE, "Stream-Ordered Memory Allocator",
     "cudaMemPoolAttrUsedMemCurrent returns the total size of all of the memory "
     "allocated from the pool and not available for reuse")
{
    CUmemoryPool pool = start();
    CUdeviceptr pointers[3];

    if (!pool)
        return;
    for (size_t i = 0; i < 3; i++) {
        pointers[i] = pool_get(pool, BYTES, NULL);
        CHECK(pool_size(pool, USED) >= (i + 1) * BYTES);
    }
    for (size_t i = 0; i < 3; i++) {
        cuuint64_t before = pool_size(pool, USED);
        CHECK_OK(cuMemFreeAsync(pointers[i], NULL));
        CHECK_OK(cuStreamSynchronize(NULL));
        CHECK(pool_size(pool, USED) <= before - BYTES);
    }
    CHECK_EQUAL(pool_size(pool, USED), 0);
    pool_end(pool);
}

CASE(pool, watermarks, GUIDE, "Stream-Ordered Memory Allocator",
     "The cudaMemPoolAttr*MemHigh attributes are watermarks recording the max value "
     "achieved by the respective cudaMemPoolAttr*MemCurrent attribute since last reset")
{
    CUmemoryPool pool = start();

    if (!pool)
        return;
    use(pool, 3);
    CHECK(pool_size(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= 3 * BYTES);
    CHECK(pool_size(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= 3 * BYTES);
    cuuint64_t high = pool_size(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
    use(pool, 1);
    CHECK_EQUAL(pool_size(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), high);
    pool_end(pool);
}

CASE(pool, watermarks_reset, GUIDE, "Stream-Ordered Memory Allocator",
     "Resetting the watermarks will make them take on the current value")
{
    CUmemoryPool pool = start();
    CUdeviceptr pointer;

    if (!pool)
        return;
    pointer = pool_get(pool, BYTES, NULL);
    use(pool, 3);
    CHECK_OK(pool_set_size(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0));
    CHECK_OK(pool_set_size(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0));
    CHECK_EQUAL(pool_size(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), pool_size(pool, USED));
    CHECK_EQUAL(pool_size(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH),
                pool_size(pool, RESERVED));
    CHECK(pool_size(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= BYTES);
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
    pool_end(pool);
}

CASE(pool, watermarks_only_to_zero, DRIVER_API, "cuMemPoolSetAttribute",
     "CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: it is illegal to set this attribute to a "
     "non-zero value; CUmemPool_attribute: a high watermark can only be reset to zero")
{
    CUmemoryPool pool = start();

    if (!pool)
        return;
    CHECK(pool_set_size(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 1) != CUDA_SUCCESS);
    CHECK(pool_set_size(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, BYTES) != CUDA_SUCCESS);
    CHECK(pool_set_size(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, BYTES) != CUDA_SUCCESS);
    pool_end(pool);
}

CASE(pool, current_figures_cannot_be_set, DRIVER_API, "cuMemPoolSetAttribute",
     "Supported attributes are the threshold, the policies and the two high "
     "watermarks: the current amounts are not among them")
{
    CUmemoryPool pool = start();

    if (!pool)
        return;
    CHECK(pool_set_size(pool, RESERVED, 0) != CUDA_SUCCESS);
    CHECK(pool_set_size(pool, USED, 0) != CUDA_SUCCESS);
    pool_end(pool);
}

CASE(pool, trim_keeps_what_is_asked, DRIVER_API, "cuMemPoolTrimTo",
     "The pool will be guaranteed to have at least minBytesToKeep bytes reserved after "
     "the operation")
{
    CUmemoryPool pool = start();

    if (!pool)
        return;
    CHECK_OK(pool_set_size(pool, THRESHOLD, UINT64_MAX));
    use(pool, 4);
    CHECK_OK(cuMemPoolTrimTo(pool, 2 * BYTES + 1));
    CHECK(pool_size(pool, RESERVED) >= 2 * BYTES + 1);
    CHECK_OK(cuMemPoolTrimTo(pool, 1));
    CHECK(pool_size(pool, RESERVED) >= 1);
    pool_end(pool);
}

CASE(pool, trim_of_less, DRIVER_API, "cuMemPoolTrimTo",
     "If the pool has less than minBytesToKeep reserved, the TrimTo operation is a "
     "no-op")
{
    CUmemoryPool pool = start();
    cuuint64_t reserved;

    if (!pool)
        return;
    CHECK_OK(pool_set_size(pool, THRESHOLD, UINT64_MAX));
    use(pool, 2);
    reserved = pool_size(pool, RESERVED);
    CHECK_OK(cuMemPoolTrimTo(pool, reserved + 1));
    CHECK_EQUAL(pool_size(pool, RESERVED), reserved);
    CHECK_OK(cuMemPoolTrimTo(pool, SIZE_MAX));
    CHECK_EQUAL(pool_size(pool, RESERVED), reserved);
    pool_end(pool);
}

CASE(pool, trim_releases, GUIDE, "Stream-Ordered Memory Allocator",
     "Synchronize so that the trim operation will know that the allocations are no "
     "longer in use: cudaMemPoolTrimTo shrinks the pool's memory footprint")
{
    CUmemoryPool pool = start();
    cuuint64_t reserved;

    if (!pool)
        return;
    CHECK_OK(pool_set_size(pool, THRESHOLD, UINT64_MAX));
    use(pool, 8);
    reserved = pool_size(pool, RESERVED);
    CHECK_OK(cuMemPoolTrimTo(pool, 0));
    CHECK(pool_size(pool, RESERVED) < reserved);
    pool_end(pool);
}

CASE(pool, trim_leaves_live_memory, DRIVER_API, "cuMemPoolTrimTo",
     "The allocator cannot release OS allocations that back outstanding asynchronous "
     "allocations")
{
    CUmemoryPool pool = start();
    CUdeviceptr pointer;

    if (!pool)
        return;
    pointer = pool_get(pool, BYTES, NULL);
    CHECK(device_fill(pointer, BYTES, 3));
    use(pool, 3);
    CHECK_OK(cuMemPoolTrimTo(pool, 0));
    CHECK(pool_size(pool, RESERVED) >= BYTES);
    CHECK(device_holds(pointer, BYTES, 3));
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
    pool_end(pool);
}
