/*
 * sim_pool_policies.c - proves what the three reuse policies of memory pools allow and
 * forbid (CU_MEMPOOL_ATTR_REUSE_*): memory freed in one stream and asked for in another,
 * behind the free, beside it, or after a wait of the host.
 */
#include "sim_helpers.h"

#define BLOCK  (4 * GS_MIB)
#define FOLLOW CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES
#define CHANCE CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC
#define INSERT CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES

/* A device of four blocks, a pool that keeps what it has, two streams. */
struct bed {
    CUmemoryPool pool;
    CUstream first, second;
    struct sim_latch latch;
};

static void begin(struct bed *bed, unsigned stream_flags)
{
    const CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    cuuint64_t all = UINT64_MAX;

    sim_test_start("1", "16M");
    sim_latch_make(&bed->latch);
    ok(cuMemPoolCreate(&bed->pool, &props));
    ok(cuMemPoolSetAttribute(bed->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    bed->first = sim_test_stream(stream_flags);
    bed->second = sim_test_stream(stream_flags);
}

static void set(const struct bed *bed, CUmemPool_attribute policy, int on)
{
    ok(cuMemPoolSetAttribute(bed->pool, policy, &on));
}

static CUdeviceptr get(const struct bed *bed, CUstream stream)
{
    CUdeviceptr pointer = 0;

    ok(cuMemAllocFromPoolAsync(&pointer, BLOCK, bed->pool, stream));
    return pointer;
}

/* Wait until the stream is done, by asking alone. */
static void pass(CUstream stream)
{
    for (unsigned i = 0; i < SIM_TEST_LOOKS && cuStreamQuery(stream) != CUDA_SUCCESS; i++)
        sim_test_sleep_ms(2);
    ok(cuStreamQuery(stream));
}

/* A block that the first stream had and has freed; the free has run. */
static CUdeviceptr freed(const struct bed *bed)
{
    CUdeviceptr pointer = get(bed, bed->first);

    ok(cuMemFreeAsync(pointer, bed->first));
    pass(bed->first);
    return pointer;
}

/* The same, but the free is queued behind the latch. */
static CUdeviceptr freeing(struct bed *bed)
{
    CUdeviceptr pointer = get(bed, bed->first);

    sim_latch_block(&bed->latch, bed->first);
    ok(cuMemFreeAsync(pointer, bed->first));
    return pointer;
}

static void join(CUstream a, CUstream b)
{
    CUevent event;

    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ok(cuEventRecord(event, a));
    ok(cuStreamWaitEvent(b, event, 0));
    ok(cuEventDestroy(event));
}

static cuuint64_t figure(const struct bed *bed, CUmemPool_attribute name)
{
    cuuint64_t value = 0;

    ok(cuMemPoolGetAttribute(bed->pool, name, &value));
    return value;
}

/* ---- opportunistic ----------------------------------------------------------------- */

Test(sim_pool_policies, opportunistic_reuses_what_is_complete)
{
    struct bed bed;

    begin(&bed, CU_STREAM_NON_BLOCKING);
    CUdeviceptr before = freed(&bed);
    cr_assert_eq(get(&bed, bed.second), before);
}

Test(sim_pool_policies, opportunistic_off_leaves_it_to_those_behind_the_free)
{
    struct bed bed;

    begin(&bed, CU_STREAM_NON_BLOCKING);
    set(&bed, CHANCE, 0);
    CUdeviceptr before = freed(&bed);
    cr_assert_neq(get(&bed, bed.second), before, "there is no order between them");
    cr_assert_eq(get(&bed, bed.first), before, "its own stream is behind the free");
}

Test(sim_pool_policies, opportunistic_off_follows_events)
{
    struct bed bed;

    begin(&bed, CU_STREAM_NON_BLOCKING);
    set(&bed, CHANCE, 0);
    CUdeviceptr before = freed(&bed);
    join(bed.first, bed.second);
    cr_assert_eq(get(&bed, bed.second), before);
}

Test(sim_pool_policies, opportunistic_off_reuses_what_the_host_has_waited_for)
{
    struct bed bed;

    begin(&bed, CU_STREAM_NON_BLOCKING);
    set(&bed, CHANCE, 0);
    set(&bed, FOLLOW, 0);
    CUdeviceptr before = freed(&bed);
    cr_assert_neq(get(&bed, bed.second), before);
    ok(cuStreamSynchronize(bed.first));
    cr_assert_eq(get(&bed, bed.second), before);
}

Test(sim_pool_policies, a_wait_for_another_stream_says_nothing_of_the_free)
{
    struct bed bed;

    begin(&bed, CU_STREAM_NON_BLOCKING);
    set(&bed, CHANCE, 0);
    CUdeviceptr before = freed(&bed);
    ok(cuStreamSynchronize(bed.second));
    cr_assert_neq(get(&bed, bed.second), before);
    ok(cuCtxSynchronize());
    cr_assert_eq(get(&bed, bed.second), before);
}

Test(sim_pool_policies, opportunistic_on_again_gives_what_was_kept)
{
    struct bed bed;

    begin(&bed, CU_STREAM_NON_BLOCKING);
    set(&bed, CHANCE, 0);
    CUdeviceptr before = freed(&bed);
    set(&bed, CHANCE, 1);
    cr_assert_eq(get(&bed, bed.second), before);
}

Test(sim_pool_policies, kept_memory_is_not_in_use_but_held)
{
    struct bed bed;

    begin(&bed, CU_STREAM_NON_BLOCKING);
    set(&bed, CHANCE, 0);
    CUdeviceptr before = freed(&bed);
    cr_assert_eq(figure(&bed, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    cr_assert_eq(figure(&bed, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), BLOCK);
    fails(cuMemsetD8Async(before, 0, 1, bed.first), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFreeAsync(before, bed.first), CUDA_ERROR_INVALID_VALUE);
    get(&bed, bed.first);
    cr_assert_eq(figure(&bed, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), BLOCK);
    cr_assert_eq(figure(&bed, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), BLOCK);
}

Test(sim_pool_policies, kept_memory_goes_with_its_pool)
{
    struct bed bed;

    begin(&bed, CU_STREAM_NON_BLOCKING);
    set(&bed, CHANCE, 0);
    freed(&bed);
    cr_assert_eq(sim_test_free_bytes(), 3 * BLOCK);
    ok(cuMemPoolDestroy(bed.pool));
    cr_assert_eq(sim_test_free_bytes(), 4 * BLOCK);
}

Test(sim_pool_policies, small_blocks_are_kept_as_well)
{
    struct bed bed;
    CUdeviceptr small, other, again;

    begin(&bed, CU_STREAM_NON_BLOCKING);
    set(&bed, CHANCE, 0);
    ok(cuMemAllocFromPoolAsync(&small, 1000, bed.pool, bed.first));
    ok(cuMemFreeAsync(small, bed.first));
    pass(bed.first);
    ok(cuMemAllocFromPoolAsync(&other, 1000, bed.pool, bed.second));
    cr_assert_neq(small, other);
    ok(cuStreamSynchronize(bed.first));
    ok(cuMemAllocFromPoolAsync(&again, 1000, bed.pool, bed.second));
    cr_assert_eq(small, again);
}

/* ---- follow event dependencies ----------------------------------------------------- */

Test(sim_pool_policies, following_reuses_what_is_queued)
{
    struct bed bed;
    uint32_t value = 0;

    begin(&bed, CU_STREAM_NON_BLOCKING);
    CUdeviceptr before = freeing(&bed);
    join(bed.first, bed.second);
    CUdeviceptr after = get(&bed, bed.second);
    cr_assert_eq(after, before);
    ok(cuMemsetD32Async(after, 5, 1, bed.second));
    fails(cuStreamQuery(bed.second), CUDA_ERROR_NOT_READY);
    sim_latch_open(&bed.latch);
    ok(cuStreamSynchronize(bed.second));
    ok(cuMemcpyDtoH(&value, after, 4));
    cr_assert_eq(value, 5);
}

Test(sim_pool_policies, not_following_takes_other_memory)
{
    struct bed bed;

    begin(&bed, CU_STREAM_NON_BLOCKING);
    set(&bed, FOLLOW, 0);
    CUdeviceptr before = freeing(&bed);
    join(bed.first, bed.second);
    cr_assert_neq(get(&bed, bed.second), before);
    sim_latch_open(&bed.latch);
}

Test(sim_pool_policies, an_event_in_front_of_the_free_is_no_dependency)
{
    struct bed bed;

    begin(&bed, CU_STREAM_NON_BLOCKING);
    join(bed.first, bed.second);
    CUdeviceptr before = freeing(&bed);
    cr_assert_neq(get(&bed, bed.second), before);
    sim_latch_open(&bed.latch);
}

Test(sim_pool_policies, dependencies_go_through_a_third_stream)
{
    struct bed bed;

    begin(&bed, CU_STREAM_NON_BLOCKING);
    CUstream third = sim_test_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr before = freeing(&bed);
    join(bed.first, third);
    join(third, bed.second);
    cr_assert_eq(get(&bed, bed.second), before);
    sim_latch_open(&bed.latch);
}

Test(sim_pool_policies, the_legacy_stream_makes_dependencies)
{
    struct bed bed;
    CUdeviceptr word;

    begin(&bed, CU_STREAM_DEFAULT);
    ok(cuMemAllocFromPoolAsync(&word, 4, bed.pool, bed.second));
    CUdeviceptr before = freeing(&bed);
    ok(cuMemsetD32Async(word, 0, 1, CU_STREAM_LEGACY));
    cr_assert_eq(get(&bed, bed.second), before);
    sim_latch_open(&bed.latch);
}

/* ---- internal dependencies --------------------------------------------------------- */

Test(sim_pool_policies, nothing_is_left_where_all_reuse_is_forbidden)
{
    struct bed bed;
    CUdeviceptr pointer;

    begin(&bed, CU_STREAM_NON_BLOCKING);
    set(&bed, CHANCE, 0);
    set(&bed, INSERT, 0);
    CUdeviceptr before = freed(&bed);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_neq(get(&bed, bed.second), before);
    fails(cuMemAllocFromPoolAsync(&pointer, BLOCK, bed.pool, bed.second),
          CUDA_ERROR_OUT_OF_MEMORY);
    set(&bed, INSERT, 1);
    cr_assert_eq(get(&bed, bed.second), before);
}
