/*
 * sim_alloc_waits.c - proves CUDASIM_ALLOC_WAITS: an allocation orders nothing, or stands
 * between the work of all streams of its context, in which case later work waits on the
 * device and the call returns all the same. The oracle's side is in
 * tests/order/streams.c.
 */
#include "sim_helpers.h"

/* Two streams, the first of which is held up. */
struct bed {
    struct sim_latch latch;
    CUstream first, second;
    CUdeviceptr words;
};

static void begin(struct bed *bed, const char *setting)
{
    if (setting)
        setenv("CUDASIM_ALLOC_WAITS", setting, 1);
    sim_test_start("1", "16M");
    sim_latch_make(&bed->latch);
    ok(cuStreamCreate(&bed->first, CU_STREAM_NON_BLOCKING));
    ok(cuStreamCreate(&bed->second, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc(&bed->words, 64));
    ok(cuCtxSynchronize());
    sim_latch_block(&bed->latch, bed->first);
}

static void check_waits(struct bed *bed)
{
    ok(cuMemsetD32Async(bed->words, 1, 1, bed->second));
    sim_test_sleep_ms(20);
    fails(cuStreamQuery(bed->second), CUDA_ERROR_NOT_READY);
    sim_latch_open(&bed->latch);
    ok(cuStreamSynchronize(bed->second));
    ok(cuStreamQuery(bed->first));
}

static void check_does_not_wait(struct bed *bed)
{
    ok(cuMemsetD32Async(bed->words, 1, 1, bed->second));
    ok(cuStreamSynchronize(bed->second));
    fails(cuStreamQuery(bed->first), CUDA_ERROR_NOT_READY);
    sim_latch_open(&bed->latch);
    ok(cuStreamSynchronize(bed->first));
}

Test(sim_alloc_waits, nothing_by_default)
{
    struct bed bed;
    CUdeviceptr pointer;
    void *pinned;

    begin(&bed, NULL);
    ok(cuMemAlloc(&pointer, 64));
    ok(cuMemHostAlloc(&pinned, 64, 0));
    check_does_not_wait(&bed);
}

Test(sim_alloc_waits, device_memory_stands_between)
{
    struct bed bed;
    CUdeviceptr pointer;

    begin(&bed, "context");
    ok(cuMemAlloc(&pointer, 64));
    check_waits(&bed);
}

Test(sim_alloc_waits, pitched_memory_stands_between)
{
    struct bed bed;
    CUdeviceptr pointer;
    size_t pitch;

    begin(&bed, "context");
    ok(cuMemAllocPitch(&pointer, &pitch, 64, 4, 4));
    check_waits(&bed);
}

Test(sim_alloc_waits, page_locked_memory_stands_between)
{
    struct bed bed;
    void *pinned;

    begin(&bed, "context");
    ok(cuMemHostAlloc(&pinned, 64, 0));
    check_waits(&bed);
}

Test(sim_alloc_waits, work_before_it_goes_on)
{
    struct bed bed;
    CUdeviceptr pointer;

    begin(&bed, "context");
    ok(cuMemsetD32Async(bed.words, 1, 1, bed.second));
    ok(cuMemAlloc(&pointer, 64));
    ok(cuStreamSynchronize(bed.second));
    fails(cuStreamQuery(bed.first), CUDA_ERROR_NOT_READY);
    sim_latch_open(&bed.latch);
}

Test(sim_alloc_waits, a_call_that_fails_orders_nothing)
{
    struct bed bed;

    begin(&bed, "context");
    fails(cuMemAlloc(NULL, 64), CUDA_ERROR_INVALID_VALUE);
    check_does_not_wait(&bed);
}

Test(sim_alloc_waits, an_unknown_word_is_the_default)
{
    struct bed bed;
    CUdeviceptr pointer;

    begin(&bed, "everything");
    ok(cuMemAlloc(&pointer, 64));
    check_does_not_wait(&bed);
}
