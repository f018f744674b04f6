/*
 * sim_peer_boxes.c - proves the copies of boxes between contexts: what they copy, what
 * they wait for, what they refuse.
 */
#include <string.h>

#include "sim_helpers.h"

struct two {
    CUcontext first, second; /* of two devices; the first is current */
    CUdeviceptr here, there; /* 256 bytes in each */
};

static struct two start(void)
{
    struct two two;

    two.first = sim_test_start("2", "16M");
    ok(cuMemAlloc(&two.here, 256));
    ok(cuDevicePrimaryCtxRetain(&two.second, 1));
    ok(cuCtxPushCurrent(two.second));
    ok(cuMemAlloc(&two.there, 256));
    ok(cuMemsetD8(two.there, 0, 256));
    ok(cuCtxSynchronize());
    ok(cuCtxPopCurrent(NULL));
    return two;
}

/* Two slices of three rows of four bytes, in the middle of rows of eight. */
static CUDA_MEMCPY3D_PEER box(const struct two *two)
{
    return (CUDA_MEMCPY3D_PEER){
        .srcXInBytes = 2,
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = two->here,
        .srcContext = two->first,
        .srcPitch = 8,
        .srcHeight = 4,
        .dstY = 1,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = two->there,
        .dstContext = two->second,
        .dstPitch = 16,
        .dstHeight = 4,
        .WidthInBytes = 4,
        .Height = 3,
        .Depth = 2,
    };
}

/* The copy returns when the bytes are staged; streams that wait for nobody use them. */
static void fill_source(const struct two *two)
{
    unsigned char bytes[256];

    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i + 1);
    ok(cuMemcpyHtoD(two->here, bytes, sizeof(bytes)));
    ok(cuCtxSynchronize());
}

/* The box is there, and nothing around it. */
static void expect_copied(const struct two *two)
{
    unsigned char got[256], want[256] = {0};

    for (unsigned z = 0; z < 2; z++) {
        for (unsigned y = 0; y < 3; y++) {
            for (unsigned x = 0; x < 4; x++)
                want[z * 64 + (y + 1) * 16 + x] =
                    (unsigned char)(z * 32 + y * 8 + x + 2 + 1);
        }
    }
    ok(cuMemcpyDtoH(got, two->there, sizeof(got)));
    cr_assert_arr_eq(got, want, sizeof(want));
}

Test(sim_peer_boxes, copy_a_box)
{
    struct two two = start();
    const CUDA_MEMCPY3D_PEER copy = box(&two);

    fill_source(&two);
    ok(cuMemcpy3DPeer(&copy));
    ok(cuCtxSynchronize());
    expect_copied(&two);
}

/* Work queued in either context is before it, also on streams that wait for nobody. */
Test(sim_peer_boxes, wait_for_both_contexts)
{
    struct two two = start();
    const CUDA_MEMCPY3D_PEER copy = box(&two);
    struct sim_latch latch;
    CUstream stream;

    fill_source(&two);
    ok(cuCtxPushCurrent(two.second));
    sim_latch_make(&latch);
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    sim_latch_block(&latch, stream);
    ok(cuCtxPopCurrent(NULL));
    ok(cuMemcpy3DPeer(&copy));
    fails(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
    ok(cuCtxSynchronize());
    expect_copied(&two);
}

Test(sim_peer_boxes, are_done_on_return_when_the_host_takes_part)
{
    struct two two = start();
    CUDA_MEMCPY3D_PEER copy = box(&two);
    unsigned char got[128] = {0};
    struct sim_latch latch;

    fill_source(&two);
    sim_latch_make(&latch);
    sim_latch_block(&latch, NULL);
    sim_latch_open_later(&latch);
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = got;
    copy.dstContext = NULL;
    ok(cuMemcpy3DPeer(&copy));
    cr_assert(sim_latch_is_open(&latch), "the copy returned before its turn");
    cr_assert_eq(got[16], 3);
    cr_assert_eq(got[64 + 48 + 3], 32 + 16 + 3 + 3);
    sim_latch_join(&latch);
}

Test(sim_peer_boxes, go_in_a_stream)
{
    struct two two = start();
    const CUDA_MEMCPY3D_PEER copy = box(&two);
    struct sim_latch latch;
    CUstream stream;

    fill_source(&two);
    sim_latch_make(&latch);
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    sim_latch_block(&latch, stream);
    ok(cuMemcpy3DPeerAsync(&copy, stream));
    fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    expect_copied(&two);
}

Test(sim_peer_boxes, refuse_what_is_no_box_between_contexts)
{
    struct two two = start();
    CUDA_MEMCPY3D_PEER copy = box(&two);

    fails(cuMemcpy3DPeer(NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpy3DPeerAsync(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    copy.srcContext = NULL;
    fails(cuMemcpy3DPeer(&copy), CUDA_ERROR_INVALID_CONTEXT);
    fails(cuMemcpy3DPeerAsync(&copy, NULL), CUDA_ERROR_INVALID_CONTEXT);
    copy = box(&two);
    copy.srcPitch = 5; /* shorter than x and a row */
    fails(cuMemcpy3DPeer(&copy), CUDA_ERROR_INVALID_VALUE);
    copy = box(&two);
    copy.Depth = 20; /* leaves the allocation */
    fails(cuMemcpy3DPeer(&copy), CUDA_ERROR_INVALID_VALUE);
    copy = box(&two);
    copy.srcLOD = 1; /* not looked at */
    ok(cuMemcpy3DPeer(&copy));
    copy = box(&two);
    fails(cuMemcpy3DPeerAsync(&copy, (CUstream)&copy), CUDA_ERROR_INVALID_HANDLE);
    copy.Height = 0;
    ok(cuMemcpy3DPeer(&copy)); /* nothing to do */
}

Test(sim_peer_boxes, are_not_for_a_context_that_is_gone)
{
    struct two two = start();
    CUDA_MEMCPY3D_PEER copy = box(&two);
    CUcontext gone;

    ok(cuCtxCreate_v2(&gone, 0, 1));
    ok(cuCtxDestroy(gone));
    ok(cuCtxSetCurrent(two.first));
    copy.dstContext = gone;
    fails(cuMemcpy3DPeer(&copy), CUDA_ERROR_INVALID_CONTEXT);
}
