/*
 * rare.c - driver calls that few programs make, each with its answer printed.
 *
 * Proves that the wrappers of seldom used calls answer as the driver does, in good and in
 * bad use: pools by name, frees in stream order of ordinary memory, attributes set on a
 * block, peers, old context calls, the last release of a primary context. It is linked
 * with the driver, both for the legacy and for the per-thread default stream.
 *
 *   rare            the calls
 *   rare managed    asks for more managed memory than there is, too. Over the simulated
 *                   device alone: a GPU may serve it from the host, and hang
 */
#include "app.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef cuGetProcAddress_v2

static void say(const char *call, CUresult code)
{
    printf("rare: %-52s %d\n", call, (int)code);
}

static void stream_ordered(void)
{
    CUdeviceptr block, other;
    CUmemoryPool pool;
    CUstream stream;

    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    APP_OK(cuDeviceGetDefaultMemPool(&pool, 0));
    say("cuMemAllocFromPoolAsync", cuMemAllocFromPoolAsync(&block, 4096, pool, stream));
    say("cuMemFreeAsync", cuMemFreeAsync(block, stream));
    say("cuMemAllocFromPoolAsync_ptsz",
        cuMemAllocFromPoolAsync_ptsz(&block, 4096, pool, NULL));
    say("cuMemFreeAsync_ptsz", cuMemFreeAsync_ptsz(block, NULL));
    say("cuMemAllocAsync_ptsz", cuMemAllocAsync_ptsz(&block, 4096, NULL));
    say("cuMemFree of stream-ordered memory", cuMemFree_v2(block));
    say("cuMemAllocFromPoolAsync of too much",
        cuMemAllocFromPoolAsync(&block, (size_t)1 << 46, pool, stream));
    say("cuMemAllocAsync of too much", cuMemAllocAsync(&block, (size_t)1 << 46, stream));
    APP_OK(cuMemAlloc_v2(&block, 4096));
    APP_OK(cuMemAlloc_v2(&other, 4096));
    say("cuMemFreeAsync of ordinary memory", cuMemFreeAsync(block, stream));
    say("cuMemFreeAsync_ptsz of ordinary memory", cuMemFreeAsync_ptsz(other, NULL));
    APP_OK(cuStreamSynchronize(stream));
    APP_OK(cuCtxSynchronize());
    say("cuMemFreeAsync(0)", cuMemFreeAsync(0, stream));
    APP_OK(cuStreamDestroy_v2(stream));
}

static void marks(void)
{
    CUdeviceptr blocks[3];
    int on = 1;
    size_t bytes;

    for (int i = 0; i < 3; i++)
        APP_OK(cuMemAlloc_v2(&blocks[i], (size_t)1000 << (6 * i)));
    for (int i = 0; i < 3; i++)
        say("cuPointerSetAttribute SYNC_MEMOPS",
            cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, blocks[i]));
    say("cuPointerSetAttribute of nothing",
        cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 64));
    say("cuMemGetInfo(NULL, NULL)", cuMemGetInfo_v2(NULL, NULL));
    say("cuMemGetInfo(&free, NULL)", cuMemGetInfo_v2(&bytes, NULL));
    for (int i = 0; i < 3; i++)
        say("cuMemFree", cuMemFree_v2(blocks[i]));
}

static void host_memory(void)
{
    void *host = NULL;
    int local = 0;

    say("cuMemAllocHost", cuMemAllocHost_v2(&host, 65536));
    say("cuMemFreeHost", cuMemFreeHost(host));
    say("cuMemFreeHost again", cuMemFreeHost(host));
    say("cuMemFreeHost of the stack", cuMemFreeHost(&local));
    say("cuMemHostAlloc of 0", cuMemHostAlloc(&host, 0, 0));
}

static void old_contexts(CUdevice device)
{
    CUcontext own, old;
    CUdeviceptr block;

    APP_OK(cuCtxCreate_v2(&own, 0, device));
    APP_OK(cuMemAlloc_v2(&block, 100));
    say("cuCtxDetach", cuCtxDetach(own));
    say("cuCtxDestroy(NULL)", cuCtxDestroy_v2(NULL));
    APP_OK(cuCtxCreate_v2(&old, 0, device));
    APP_OK(cuMemAlloc_v2(&block, 100));
    APP_OK(cuMemFree_v2(block));
    say("cuCtxDestroy, first version", cuCtxDestroy(old));
    say("cuCtxDestroy again", cuCtxDestroy_v2(old));
}

/* A block of the first context, freed while the second one may be using it. */
static void peers(CUcontext first, CUcontext second)
{
    CUdeviceptr block;
    int can = 0;

    APP_OK(cuDeviceCanAccessPeer(&can, 1, 0));
    APP_OK(cuCtxSetCurrent(second));
    say("cuCtxEnablePeerAccess", can ? cuCtxEnablePeerAccess(first, 0) : CUDA_SUCCESS);
    APP_OK(cuCtxSetCurrent(first));
    APP_OK(cuMemAlloc_v2(&block, 1 << 20));
    APP_OK(cuCtxSetCurrent(second));
    if (can)
        APP_OK(cuMemsetD8Async(block, 7, 1 << 20, NULL));
    APP_OK(cuCtxSetCurrent(first));
    say("cuMemFree of a block a peer uses", cuMemFree_v2(block));
}

/* Memory that is made by other calls, and more of it than there is. */
static void other_memory(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUDA_ARRAY_DESCRIPTOR flat = {64, 64, CU_AD_FORMAT_FLOAT, 1};
    CUDA_ARRAY3D_DESCRIPTOR deep = {64, 64, 4, CU_AD_FORMAT_FLOAT, 1, 0};
    CUmemGenericAllocationHandle handle;
    CUmipmappedArray levels;
    CUarray array;
    CUdeviceptr block;

    APP_OK(cuMemAlloc_v2(&block, 4 << 20));
    APP_OK(cuMemFree_v2(block));
    say("cuMemCreate of too much", cuMemCreate(&handle, (size_t)1 << 46, &prop, 0));
    say("cuArrayCreate", cuArrayCreate_v2(&array, &flat));
    say("cuArray3DCreate", cuArray3DCreate_v2(&array, &deep));
    say("cuMipmappedArrayCreate", cuMipmappedArrayCreate(&levels, &deep, 2));
}

/* Only of the simulated driver, whose UUIDs begin with its name. */
static void too_much_managed(void)
{
    CUdeviceptr block;
    CUuuid uuid;

    APP_OK(cuDeviceGetUuid(&uuid, 0));
    app_expect(memcmp(uuid.bytes, "cudasim", 7) == 0, "the simulated device");
    say("cuMemAllocManaged of too much",
        cuMemAllocManaged(&block, (size_t)1 << 46, CU_MEM_ATTACH_GLOBAL));
}

/* Captures by the calls of old and of per-thread streams. */
static void captures(void)
{
    CUstream stream;
    CUgraph graph = NULL;

    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    say("cuStreamBeginCapture, first version", cuStreamBeginCapture(stream));
    say("cuStreamEndCapture", cuStreamEndCapture(stream, &graph));
    say("cuStreamEndCapture again", cuStreamEndCapture(stream, &graph));
    say("cuStreamBeginCapture_ptsz, first version", cuStreamBeginCapture_ptsz(NULL));
    say("cuStreamEndCapture_ptsz", cuStreamEndCapture_ptsz(NULL, &graph));
    say("cuStreamBeginCapture_v2_ptsz",
        cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    say("cuStreamEndCapture_ptsz", cuStreamEndCapture_ptsz(NULL, &graph));
    say("cuStreamBeginCapture of the legacy stream",
        cuStreamBeginCapture_v2(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED));
#if CUDA_VERSION >= 12030
    say("cuGraphCreate", cuGraphCreate(&graph, 0));
    say("cuStreamBeginCaptureToGraph",
        cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
                                    CU_STREAM_CAPTURE_MODE_RELAXED));
    say("cuStreamEndCapture", cuStreamEndCapture(stream, &graph));
    say("cuStreamBeginCaptureToGraph_ptsz",
        cuStreamBeginCaptureToGraph_ptsz(NULL, graph, NULL, NULL, 0,
                                         CU_STREAM_CAPTURE_MODE_RELAXED));
    say("cuStreamEndCapture_ptsz", cuStreamEndCapture_ptsz(NULL, &graph));
#endif
    APP_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    say("cuStreamDestroy, first version", cuStreamDestroy(stream));
}

/* What is alive at the last release dies with the context. */
static void releases(CUdevice device)
{
    CUcontext context;
    CUdeviceptr block;

    for (int round = 0; round < 2; round++) {
        APP_OK(cuDevicePrimaryCtxRetain(&context, device));
        APP_OK(cuCtxSetCurrent(context));
        APP_OK(cuMemAlloc_v2(&block, 12345));
        APP_OK(cuMemFree_v2(block));
        APP_OK(cuCtxSetCurrent(NULL));
        say("cuDevicePrimaryCtxRelease", round ? cuDevicePrimaryCtxRelease(device)
                                               : cuDevicePrimaryCtxRelease_v2(device));
    }
    say("cuDevicePrimaryCtxReset, first version", cuDevicePrimaryCtxReset(device));
    say("cuMemAlloc without a context", cuMemAlloc_v2(&block, 100));
}

int main(int argc, char **argv)
{
    CUcontext first = NULL, second = NULL;
    int count = 0;

    APP_OK(cuInit(0));
    APP_OK(cuDeviceGetCount(&count));
    APP_OK(cuDevicePrimaryCtxRetain(&first, 0));
    APP_OK(cuCtxSetCurrent(first));
    stream_ordered();
    marks();
    host_memory();
    other_memory();
    if (argc > 1 && strcmp(argv[1], "managed") == 0)
        too_much_managed();
    captures();
    old_contexts(0);
    if (count > 1) {
        APP_OK(cuDevicePrimaryCtxRetain(&second, 1));
        peers(first, second);
        APP_OK(cuCtxSetCurrent(NULL));
        APP_OK(cuDevicePrimaryCtxRelease_v2(1));
    }
    APP_OK(cuDevicePrimaryCtxRelease_v2(0));
    releases(0);
    return 0;
}
