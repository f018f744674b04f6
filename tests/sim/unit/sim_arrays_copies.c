/*
 * sim_arrays_copies.c - proves copies with arrays on a side: in one, two and three
 * dimensions, in the order of a stream, in a graph, and what leaves an array is refused.
 */
#include "sim_helpers.h"

#include <string.h>

static CUarray make(size_t width, size_t height, size_t depth, unsigned flags)
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = width,
                                          .Height = height,
                                          .Depth = depth,
                                          .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                                          .NumChannels = 1,
                                          .Flags = flags};
    CUarray array;

    ok(cuArray3DCreate(&array, &desc));
    return array;
}

static void count_up(uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        words[i] = (uint32_t)(1000 + i);
}

Test(sim_arrays_copies, refuse_to_leave_one_dimension)
{
    uint32_t out[64] = {0};
    CUdeviceptr p;

    sim_test_start("1", "64M");
    CUarray a = make(64, 0, 0, 0);
    ok(cuMemAlloc(&p, sizeof(out)));
    fails(cuMemcpyHtoA(a, 4, out, sizeof(out)), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyAtoH(out, a, 260, 4), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyAtoD(p, a, 0, 6), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyAtoD(p + 4, a, 0, sizeof(out)), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyHtoA((CUarray)16, 0, out, 4), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyHtoA(a, SIZE_MAX - 3, out, 4), CUDA_ERROR_INVALID_VALUE);
    const CUDA_ARRAY_DESCRIPTOR bytes = {
        .Width = 256, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    CUarray other;
    ok(cuArrayCreate(&other, &bytes));
    fails(cuMemcpyAtoA(a, 0, other, 0, 64), CUDA_ERROR_INVALID_VALUE);
}

/* Copy all of an array of 4 x 3 x 2 from or to close words of the host. */
static CUDA_MEMCPY3D whole(CUarray array, void *host, bool to_array)
{
    CUDA_MEMCPY3D copy = {.WidthInBytes = 16, .Height = 3, .Depth = 2};

    copy.srcMemoryType = to_array ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
    copy.dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
    copy.srcArray = copy.dstArray = array;
    copy.srcHost = host;
    copy.dstHost = host;
    copy.srcPitch = copy.dstPitch = 16;
    copy.srcHeight = copy.dstHeight = 3;
    return copy;
}

Test(sim_arrays_copies, in_three_dimensions_and_layers)
{
    const unsigned flags[2] = {0, CUDA_ARRAY3D_LAYERED};

    sim_test_start("1", "64M");
    for (int i = 0; i < 2; i++) {
        uint32_t out[24], back[24] = {0};
        CUarray a = make(4, 3, 2, flags[i]);
        count_up(out, 24);
        CUDA_MEMCPY3D copy = whole(a, out, true);
        ok(cuMemcpy3D(&copy));
        copy = whole(a, back, false);
        ok(cuMemcpy3D(&copy));
        cr_assert_eq(memcmp(out, back, sizeof(out)), 0);
        copy.srcZ = 1;
        copy.Depth = 1;
        ok(cuMemcpy3D(&copy));
        cr_assert_eq(back[0], out[12]);
        copy.srcZ = 2;
        fails(cuMemcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
        copy.srcZ = 0;
        copy.srcY = 1; /* would go on into the next slice */
        fails(cuMemcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
        copy.srcY = 0;
        copy.srcZ = 1;
        copy.srcLOD = 1;
        ok(cuMemcpy3D(&copy));
    }
}

Test(sim_arrays_copies, levels_do_not_overlap)
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = {
        .Width = 8, .Height = 8, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    CUmipmappedArray mipmap;

    sim_test_start("1", "64M");
    ok(cuMipmappedArrayCreate(&mipmap, &desc, 4));
    for (int pass = 0; pass < 2; pass++) {
        for (unsigned level = 0; level < 4; level++) {
            size_t edge = 8u >> level;
            uint32_t words[64];
            CUarray array;
            ok(cuMipmappedArrayGetLevel(&array, mipmap, level));
            for (size_t i = 0; i < edge * edge; i++)
                words[i] = level + 1;
            CUDA_MEMCPY2D copy = {
                .srcMemoryType = pass ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST,
                .dstMemoryType = pass ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY,
                .srcHost = words,
                .dstHost = words,
                .srcArray = array,
                .dstArray = array,
                .WidthInBytes = edge * 4,
                .Height = edge,
            };
            if (pass)
                memset(words, 0, sizeof(words));
            ok(cuMemcpy2D(&copy));
            cr_assert_eq(words[0], level + 1);
            cr_assert_eq(words[edge * edge - 1], level + 1);
        }
    }
}

Test(sim_arrays_copies, become_nodes_of_a_graph)
{
    uint32_t *page;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;

    sim_test_start("1", "64M");
    CUarray a = make(16, 0, 0, 0);
    ok(cuMemHostAlloc((void **)&page, 4096, 0));
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuMemcpyHtoAAsync(a, 0, page, 64, stream));
    ok(cuMemcpyAtoHAsync(page + 32, a, 0, 64, stream));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphInstantiate(&exec, graph, 0));
    for (uint32_t round = 1; round < 4; round++) {
        page[5] = round;
        ok(cuGraphLaunch(exec, stream));
        ok(cuStreamSynchronize(stream));
        cr_assert_eq(page[37], round);
    }
}

Test(sim_arrays_copies, destroying_waits_for_them)
{
    struct sim_latch latch;
    CUstream stream;
    uint32_t *page;

    sim_test_start("1", "64M");
    sim_latch_make(&latch);
    CUarray a = make(16, 0, 0, 0);
    ok(cuMemHostAlloc((void **)&page, 4096, 0));
    count_up(page, 16);
    ok(cuMemcpyHtoA(a, 0, page, 64));
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    sim_latch_block(&latch, stream);
    ok(cuMemcpyAtoHAsync(page + 32, a, 0, 64, stream));
    sim_latch_open_later(&latch);
    ok(cuArrayDestroy(a));
    cr_assert(sim_latch_is_open(&latch));
    cr_assert_eq(page[32], 1000);
    sim_latch_join(&latch);
}
