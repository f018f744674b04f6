/*
 * case_pool_attribute.c - attributes of memory pools: policies, threshold, figures; and
 * cuMemPoolTrimTo.
 */
#include <time.h>

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
    POOL pool = start();

    if (!pool)
        return;
    CHECK_EQUAL(pool_flag(pool, attribute), 1);
}

CASE_IS(pool, follow_events_by_default, DRIVER_API, "cuMemPoolGetAttribute",
        "CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES (value type = int; default "
        "enabled)",
        check_default(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES))

CASE_IS(pool, opportunistic_by_default, DRIVER_API, "cuMemPoolGetAttribute",
        "CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC (value type = int; default enabled)",
        check_default(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC))

CASE_IS(pool, dependencies_by_default, DRIVER_API, "cuMemPoolGetAttribute",
        "CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES (value type = int; default "
        "enabled)",
        check_default(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES))

POOL_CASE(
    policies_set, DRIVER_API, "cuMemPoolSetAttribute",
    "Supported attributes are the three CU_MEMPOOL_ATTR_REUSE policies: each is told "
    "as it was set")
{
    static const CUmemPool_attribute policies[] = {
        CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES};
    POOL pool = pool_new(0);
    int off = 0, on = 1;

    for (unsigned i = 0; i < 3; i++) {
        CHECK_OK(cuMemPoolSetAttribute(pool, policies[i], &off));
        for (unsigned j = 0; j < 3; j++)
            CHECK_EQUAL(pool_flag(pool, policies[j]), j != i);
        CHECK_OK(cuMemPoolSetAttribute(pool, policies[i], &on));
        CHECK_EQUAL(pool_flag(pool, policies[i]), 1);
    }
}

/* A pool of which one policy is as said, the other two are on; and two streams. */
struct policy {
    CUmemoryPool pool;
    CUstream first, second;
};

static bool begin_policy(struct policy *policy, CUmemPool_attribute attribute, int on)
{
    *policy = (struct policy){.pool = start()};
    if (!policy->pool)
        return false;
    policy->first = new_stream(CU_STREAM_NON_BLOCKING);
    policy->second = new_stream(CU_STREAM_NON_BLOCKING);
    return CHECK_OK(cuMemPoolSetAttribute(policy->pool, attribute, &on));
}

static void end_policy(struct policy *policy)
{
    end_stream(policy->first);
    end_stream(policy->second);
    pool_end(policy->pool);
}

/* Wait for what the stream was given, by no call that would synchronize. */
static uint32_t *free_has_run(CUstream stream)
{
    uint32_t *word = new_pinned(1);
    unsigned ms = 0;

    CHECK_OK(set_word(stream, seen(word), 1));
    while (!__atomic_load_n(word, __ATOMIC_ACQUIRE) && ms++ < 5000)
        nanosleep(&(const struct timespec){0, 1000000}, NULL);
    CHECK_EQUAL(__atomic_load_n(word, __ATOMIC_ACQUIRE), 1);
    return word; /* to be freed later: that may synchronize */
}

CASE(pool, opportunistic_off, DRIVER_API, "CUmemPool_attribute",
     "CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: allow reuse of already completed frees "
     "when there is no dependency between the free and allocation; off, such memory is "
     "not handed to another stream")
{
    struct policy policy;
    CUdeviceptr pointer, next;
    uint32_t *word;

    if (!begin_policy(&policy, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 0))
        return;
    pointer = pool_get(policy.pool, BYTES, policy.first);
    CHECK_OK(cuMemsetD8Async(pointer, 1, BYTES, policy.first));
    CHECK_OK(cuMemFreeAsync(pointer, policy.first));
    word = free_has_run(policy.first);
    next = pool_get(policy.pool, BYTES, policy.second);
    CHECK(next != pointer);
    CHECK_OK(cuMemsetD8Async(next, 2, BYTES, policy.second));
    CHECK_OK(cuMemFreeAsync(next, policy.second));
    CHECK_OK(cuStreamSynchronize(policy.second));
    end_pinned(word);
    end_policy(&policy);
}

/* Work in one stream, a free, an event; then memory of the same size in another one. */
static void check_behind_event(struct policy *policy)
{
    CUdeviceptr next, results[2] = {device_get(BYTES), device_get(BYTES)};
    EVENT event = new_event();
    CUdeviceptr pointer = pool_get(policy->pool, BYTES, policy->first);

    CHECK_OK(cuMemsetD8Async(pointer, 1, BYTES, policy->first));
    CHECK_OK(cuMemcpyDtoDAsync(results[0], pointer, BYTES, policy->first));
    CHECK_OK(cuMemFreeAsync(pointer, policy->first));
    CHECK_OK(cuEventRecord(event, policy->first));
    CHECK_OK(cuStreamWaitEvent(policy->second, event, 0));
    next = pool_get(policy->pool, BYTES, policy->second);
    CHECK_OK(cuMemsetD8Async(next, 2, BYTES, policy->second));
    CHECK_OK(cuMemcpyDtoDAsync(results[1], next, BYTES, policy->second));
    CHECK_OK(cuMemFreeAsync(next, policy->second));
    CHECK_OK(cuStreamSynchronize(policy->second));
    CHECK(device_is(results[0], BYTES, 1));
    CHECK(device_is(results[1], BYTES, 2));
    device_put(results[0]);
    device_put(results[1]);
}

CASE(pool, follows_events, DRIVER_API, "CUmemPool_attribute",
     "CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: allow cuMemAllocAsync to use "
     "memory "
     "asynchronously freed in another stream as long as a stream ordering dependency of "
     "the allocating stream on the free action exists; its users do not meet")
{
    struct policy policy;

    for (int on = 0; on < 2; on++) {
        if (!begin_policy(&policy, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, on))
            return;
        check_behind_event(&policy);
        end_policy(&policy);
    }
}

POOL_CASE(
    threshold_by_default, DRIVER_API, "cuMemPoolGetAttribute",
    "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD (value type = cuuint64_t): amount of reserved "
    "memory in bytes to hold onto (default 0)")
{
    POOL pool = pool_new(0);

    CHECK_EQUAL(pool_size(pool, THRESHOLD), 0);
}

POOL_CASE(
    threshold_set, DRIVER_API, "cuMemPoolSetAttribute",
    "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD (value type = cuuint64_t): amount of reserved "
    "memory in bytes to hold onto before trying to release memory back to the OS")
{
    POOL pool = pool_new(0);

    CHECK_OK(pool_set_size(pool, THRESHOLD, BYTES));
    CHECK_EQUAL(pool_size(pool, THRESHOLD), BYTES);
    CHECK_OK(pool_set_size(pool, THRESHOLD, UINT64_MAX));
    CHECK_EQUAL(pool_size(pool, THRESHOLD), UINT64_MAX);
}

POOL_CASE(threshold_holds, GUIDE, "Stream-Ordered Memory Allocator",
          "Setting the release threshold to UINT64_MAX will prevent the driver from "
          "attempting to shrink the pool after every synchronization")
{
    POOL pool = pool_new(0);
    cuuint64_t reserved;

    CHECK_OK(pool_set_size(pool, THRESHOLD, UINT64_MAX));
    use(pool, 2);
    reserved = pool_size(pool, RESERVED);
    CHECK(reserved >= 2 * BYTES);
    for (unsigned i = 0; i < 3; i++) {
        CHECK_OK(cuStreamSynchronize(NULL));
        CHECK_OK(cuCtxSynchronize());
        CHECK_EQUAL(pool_size(pool, RESERVED), reserved);
    }
}

POOL_CASE(figures_of_a_new_pool, DRIVER_API, "cuMemPoolGetAttribute",
          "CU_MEMPOOL_ATTR_USED_MEM_CURRENT: amount of memory from the pool that is "
          "currently in use by the application; _HIGH: high watermark")
{
    POOL pool = pool_new(0);

    CHECK_EQUAL(pool_size(pool, USED), 0);
    CHECK_EQUAL(pool_size(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
}

POOL_CASE(figures_of_used_memory, DRIVER_API, "cuMemPoolGetAttribute",
          "CU_MEMPOOL_ATTR_USED_MEM_CURRENT: amount of memory from the pool that is "
          "currently in use by the application; RESERVED_MEM_CURRENT: amount of backing "
          "memory allocated")
{
    POOL pool = pool_new(0);
    CUdeviceptr pointer;

    pointer = pool_get(pool, BYTES, NULL);
    CHECK(pool_size(pool, USED) >= BYTES);
    CHECK(pool_size(pool, RESERVED) >= pool_size(pool, USED));
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
    CHECK_EQUAL(pool_size(pool, USED), 0);
}

POOL_CASE(figures_of_several, GUIDE, "Stream-Ordered Memory Allocator",
          "cudaMemPoolAttrUsedMemCurrent returns the total size of all of the memory "
          "allocated from the pool and not available for reuse")
{
    POOL pool = pool_new(0);
    CUdeviceptr pointers[3];

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
}

POOL_CASE(
    watermarks, GUIDE, "Stream-Ordered Memory Allocator",
    "The cudaMemPoolAttr*MemHigh attributes are watermarks recording the max value "
    "achieved by the respective cudaMemPoolAttr*MemCurrent attribute since last reset")
{
    POOL pool = pool_new(0);

    use(pool, 3);
    CHECK(pool_size(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= 3 * BYTES);
    CHECK(pool_size(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= 3 * BYTES);
    cuuint64_t high = pool_size(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
    use(pool, 1);
    CHECK_EQUAL(pool_size(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), high);
}

POOL_CASE(watermarks_reset, GUIDE, "Stream-Ordered Memory Allocator",
          "Resetting the watermarks will make them take on the current value")
{
    POOL pool = pool_new(0);
    CUdeviceptr pointer;

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
}

POOL_CASE(
    watermarks_only_to_zero, DRIVER_API, "cuMemPoolSetAttribute",
    "CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: it is illegal to set this attribute to a "
    "non-zero value; CUmemPool_attribute: a high watermark can only be reset to zero")
{
    POOL pool = pool_new(0);

    CHECK_REFUSED(pool_set_size(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 1));
    CHECK_REFUSED(pool_set_size(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, BYTES));
    CHECK_REFUSED(pool_set_size(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, BYTES));
}

POOL_CASE(current_figures_cannot_be_set, DRIVER_API, "cuMemPoolSetAttribute",
          "Supported attributes are the threshold, the policies and the two high "
          "watermarks: the current amounts are not among them")
{
    POOL pool = pool_new(0);

    CHECK_REFUSED(pool_set_size(pool, RESERVED, 0));
    CHECK_REFUSED(pool_set_size(pool, USED, 0));
}

POOL_CASE(
    trim_keeps_what_is_asked, DRIVER_API, "cuMemPoolTrimTo",
    "The pool will be guaranteed to have at least minBytesToKeep bytes reserved after "
    "the operation")
{
    POOL pool = pool_new(0);

    CHECK_OK(pool_set_size(pool, THRESHOLD, UINT64_MAX));
    use(pool, 4);
    CHECK_OK(cuMemPoolTrimTo(pool, 2 * BYTES + 1));
    CHECK(pool_size(pool, RESERVED) >= 2 * BYTES + 1);
    CHECK_OK(cuMemPoolTrimTo(pool, 1));
    CHECK(pool_size(pool, RESERVED) >= 1);
}

POOL_CASE(trim_of_less, DRIVER_API, "cuMemPoolTrimTo",
          "If the pool has less than minBytesToKeep reserved, the TrimTo operation is a "
          "no-op")
{
    POOL pool = pool_new(0);
    cuuint64_t reserved;

    CHECK_OK(pool_set_size(pool, THRESHOLD, UINT64_MAX));
    use(pool, 2);
    reserved = pool_size(pool, RESERVED);
    CHECK_OK(cuMemPoolTrimTo(pool, reserved + 1));
    CHECK_EQUAL(pool_size(pool, RESERVED), reserved);
    CHECK_OK(cuMemPoolTrimTo(pool, SIZE_MAX));
    CHECK_EQUAL(pool_size(pool, RESERVED), reserved);
}

POOL_CASE(trim_releases, GUIDE, "Stream-Ordered Memory Allocator",
          "Synchronize so that the trim operation will know that the allocations are no "
          "longer in use: cudaMemPoolTrimTo shrinks the pool's memory footprint")
{
    POOL pool = pool_new(0);
    cuuint64_t reserved;

    CHECK_OK(pool_set_size(pool, THRESHOLD, UINT64_MAX));
    use(pool, 8);
    reserved = pool_size(pool, RESERVED);
    CHECK_OK(cuMemPoolTrimTo(pool, 0));
    CHECK(pool_size(pool, RESERVED) < reserved);
}

POOL_CASE(
    trim_leaves_live_memory, DRIVER_API, "cuMemPoolTrimTo",
    "The allocator cannot release OS allocations that back outstanding asynchronous "
    "allocations")
{
    POOL pool = pool_new(0);
    CUdeviceptr pointer;

    pointer = pool_get(pool, BYTES, NULL);
    CHECK(device_fill(pointer, BYTES, 3));
    use(pool, 3);
    CHECK_OK(cuMemPoolTrimTo(pool, 0));
    CHECK(pool_size(pool, RESERVED) >= BYTES);
    CHECK(device_holds(pointer, BYTES, 3));
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
}
