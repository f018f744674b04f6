/*
 * wronguses.c - calls that name memory outside its allocation, and events that were
 * destroyed: what each of them answers.                          wronguses WHAT
 *
 *   memory   uses past an allocation and of freed memory: sets, copies, boxes, batches,
 *            nodes of graphs, captured calls, words, textures; what right calls beside
 *            them answer, and whether the neighbours kept their bytes
 *   inside   right uses only: interior addresses, pitches, empty ones, many threads,
 *            texture references of unknown size
 *   events   one event destroyed twice, and used, before frees that wait
 *   streams  streams destroyed twice while the library makes its own
 *   callback frees in a host function, beside a capture
 *   limit    requests beyond GPUSHIM_MEM_LIMIT that the driver refuses for another reason
 *
 * Prints the answers. With the library they must be the driver's own.
 */
#include <pthread.h>
#include <string.h>

#include "launch.h"

#define SMALL ((size_t)4096)
#define LARGE (3 * APP_MIB)

static CUstream stream;
static CUcontext context;
static unsigned char host[8 << 20];

static void say(const char *what, CUresult answer)
{
    printf("wronguses: %-40s %d\n", what, (int)answer);
}

static CUdeviceptr make(size_t bytes)
{
    CUdeviceptr block;

    APP_OK(CU(cuMemAlloc)(&block, bytes));
    APP_OK(CU(cuMemsetD8)(block, 0x11, bytes));
    APP_OK(CU(cuStreamSynchronize)(NULL)); /* other streams do not wait for it */
    return block;
}

/* ---- memory ------------------------------------------------------------------------ */

static CUdeviceptr other; /* large enough for any copy */

static void sets_and_copies(CUdeviceptr at, size_t bytes)
{
    say("set", CU(cuMemsetD8)(at, 2, bytes));
    say("set of words", CU(cuMemsetD32)(at, 2, bytes / 4));
    say("set of rows", CU(cuMemsetD2D8)(at, 256, 2, 256, bytes / 256));
    say("set in a stream", CU(cuMemsetD16Async)(at, 2, bytes / 2, stream));
    say("from the host", CU(cuMemcpyHtoD)(at, host, bytes));
    say("to the host", CU(cuMemcpyDtoH)(host, at, bytes));
    say("to it", CU(cuMemcpyDtoD)(at, other, bytes));
    say("from it", CU(cuMemcpy)(other, at, bytes));
    say("from it in a stream", CU(cuMemcpyAsync)(other, at, bytes, stream));
    say("between contexts", CU(cuMemcpyPeer)(other, context, at, context, bytes));
}

static void boxes(CUdeviceptr at, size_t bytes)
{
    const CUDA_MEMCPY2D plane = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .srcDevice = at,
                                 .srcPitch = 512,
                                 .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .dstDevice = other,
                                 .dstPitch = 512,
                                 .WidthInBytes = 500,
                                 .Height = (bytes + 511) / 512};
    const CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                               .srcDevice = other,
                               .srcPitch = 256,
                               .srcHeight = 1,
                               .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                               .dstDevice = at,
                               .dstPitch = 256,
                               .dstHeight = 1,
                               .WidthInBytes = 256,
                               .Height = 1,
                               .Depth = bytes / 256};
    say("plane", CU(cuMemcpy2D)(&plane));
    say("plane in a stream", CU(cuMemcpy2DAsync)(&plane, stream));
    say("box", CU(cuMemcpy3D)(&box));
    say("box in a stream", CU(cuMemcpy3DAsync)(&box, stream));
}

static void nodes(CUdeviceptr at, size_t bytes, CUdeviceptr right)
{
    const CUDA_MEMSET_NODE_PARAMS wrong = {
        .dst = at, .elementSize = 1, .width = bytes, .height = 1};
    const CUDA_MEMSET_NODE_PARAMS good = {
        .dst = right, .elementSize = 1, .width = SMALL, .height = 1, .value = 0x11};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = at,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = other,
                          .WidthInBytes = bytes,
                          .Height = 1,
                          .Depth = 1};
    CUDA_MEMCPY3D good_copy = copy;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node, set, move;

    good_copy.srcDevice = right;
    good_copy.WidthInBytes = SMALL;
    APP_OK(CU(cuGraphCreate)(&graph, 0));
    say("node that sets",
        CU(cuGraphAddMemsetNode)(&node, graph, NULL, 0, &wrong, context));
    say("node that copies",
        CU(cuGraphAddMemcpyNode)(&node, graph, NULL, 0, &copy, context));
    APP_OK(CU(cuGraphAddMemsetNode)(&set, graph, NULL, 0, &good, context));
    APP_OK(CU(cuGraphAddMemcpyNode)(&move, graph, NULL, 0, &good_copy, context));
    say("its parameters", CU(cuGraphMemsetNodeSetParams)(set, &wrong));
    say("its parameters", CU(cuGraphMemcpyNodeSetParams)(move, &copy));
    APP_OK(CU(cuGraphInstantiate)(&exec, graph, 0));
    say("those of the executable graph",
        CU(cuGraphExecMemsetNodeSetParams)(exec, set, &wrong, context));
    say("those of the executable graph",
        CU(cuGraphExecMemcpyNodeSetParams)(exec, move, &copy, context));
    APP_OK(CU(cuGraphLaunch)(exec, stream));
    APP_OK(CU(cuStreamSynchronize)(stream));
    APP_OK(CU(cuGraphExecDestroy)(exec));
    APP_OK(CU(cuGraphDestroy)(graph));
}

static void captured(CUdeviceptr at, size_t bytes)
{
    CUstreamCaptureStatus status;
    CUgraph graph;

    APP_OK(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    say("captured set", CU(cuMemsetD8Async)(at, 2, bytes, stream));
    say("captured copy", CU(cuMemcpyAsync)(other, at, bytes, stream));
    APP_OK(CU(cuStreamIsCapturing)(stream, &status));
    printf("wronguses: capturing %d\n", (int)status);
    APP_OK(CU(cuStreamEndCapture)(stream, &graph));
    APP_OK(CU(cuGraphDestroy)(graph));
}

/* Lists that the driver refuses by their length alone. */
static void long_lists(const CUstreamBatchMemOpParams *list)
{
    CUDA_BATCH_MEM_OP_NODE_PARAMS params;
    CUgraphNode node;
    CUgraph graph;

    memset(&params, 0, sizeof(params));
    params.ctx = context;
    params.count = 1u << 30;
    params.paramArray = (CUstreamBatchMemOpParams *)list;
    APP_OK(CU(cuGraphCreate)(&graph, 0));
    say("list with a wrong length",
        CU(cuStreamBatchMemOp)(stream, params.count, params.paramArray, 0));
    say("node with a wrong length",
        CU(cuGraphAddBatchMemOpNode)(&node, graph, NULL, 0, &params));
    APP_OK(CU(cuGraphDestroy)(graph));
}

static void words(CUdeviceptr at, CUdeviceptr right)
{
    CUstreamBatchMemOpParams list[2];

    memset(list, 0, sizeof(list));
    list[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    list[0].writeValue.address = right;
    list[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    list[1].writeValue.address = at;
    say("write of a word", CU(cuStreamWriteValue64)(stream, at, 0, 0));
    say("wait for a word",
        CU(cuStreamWaitValue64)(stream, at, 0, CU_STREAM_WAIT_VALUE_GEQ));
    say("list of writes", CU(cuStreamBatchMemOp)(stream, 2, list, 0));
    long_lists(list);
}

static void textures(CUdeviceptr at, size_t bytes)
{
    CUDA_RESOURCE_DESC from;
    CUDA_TEXTURE_DESC how;
    CUtexObject texture;

    memset(&from, 0, sizeof(from));
    memset(&how, 0, sizeof(how));
    from.resType = CU_RESOURCE_TYPE_LINEAR;
    from.res.linear.devPtr = at;
    from.res.linear.format = CU_AD_FORMAT_FLOAT;
    from.res.linear.numChannels = 1;
    from.res.linear.sizeInBytes = bytes;
    say("texture", CU(cuTexObjectCreate)(&texture, &from, &how, NULL));
    from.resType = CU_RESOURCE_TYPE_PITCH2D;
    from.res.pitch2D.devPtr = at;
    from.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
    from.res.pitch2D.numChannels = 1;
    from.res.pitch2D.width = 64;
    from.res.pitch2D.height = bytes / 256;
    from.res.pitch2D.pitchInBytes = 256;
    say("texture of rows", CU(cuTexObjectCreate)(&texture, &from, &how, NULL));
}

static void all_uses(CUdeviceptr at, size_t bytes, CUdeviceptr right)
{
    sets_and_copies(at, bytes);
    boxes(at, bytes);
    nodes(at, bytes, right);
    captured(at, bytes);
    textures(at, bytes);
    APP_OK(CU(cuStreamSynchronize)(stream));
}

static void expect_kept(const CUdeviceptr *blocks, size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        APP_OK(CU(cuMemcpyDtoH)(host, blocks[i], bytes));
        for (size_t k = 0; k < bytes; k++)
            app_expect(host[k] == 0x11, "a neighbour keeps its bytes");
    }
}

static void wrong_memory(size_t bytes, size_t beyond)
{
    CUdeviceptr blocks[24], at;

    printf("wronguses: past %zu bytes\n", bytes);
    for (size_t i = 0; i < APP_COUNT(blocks); i++)
        blocks[i] = make(bytes);
    at = blocks[12];
    all_uses(at, bytes + beyond, blocks[0]);
    words(at + bytes - 4 - bytes % 4, blocks[0]);
    say("from inside", CU(cuMemsetD8)(at + bytes / 2, 2, bytes));
    say("in a stream that is none",
        CU(cuMemsetD8Async)(at, 2, bytes + beyond, (CUstream)host));
    say("empty", CU(cuMemsetD8)(at + bytes, 2, 0));
    say("all of it", CU(cuMemsetD8)(at, 0x11, bytes));
    APP_OK(CU(cuMemsetD32)(blocks[0], 0x11111111, 1));
    expect_kept(blocks, APP_COUNT(blocks), bytes);
    printf("wronguses: freed, of %zu bytes\n", bytes);
    APP_OK(CU(cuMemFree)(at));
    all_uses(at, bytes, blocks[0]);
    words(at, blocks[0]);
    say("inside what was freed", CU(cuMemsetD8)(at + bytes / 2, 2, 16));
    blocks[12] = make(bytes);
    APP_OK(CU(cuMemsetD32)(blocks[0], 0x11111111, 1));
    expect_kept(blocks, APP_COUNT(blocks), bytes);
    for (size_t i = 0; i < APP_COUNT(blocks); i++)
        APP_OK(CU(cuMemFree)(blocks[i]));
}

static void wrong_ordered(void)
{
    CUdeviceptr at;

    APP_OK(CU(cuMemAllocAsync)(&at, SMALL, stream));
    say("past stream-ordered memory", CU(cuMemsetD8Async)(at, 2, SMALL + 512, stream));
    APP_OK(CU(cuMemFreeAsync)(at, stream));
    APP_OK(CU(cuStreamSynchronize)(stream));
    say("freed in order", CU(cuMemsetD8Async)(at, 2, SMALL, stream));
    at = make(SMALL);
    APP_OK(CU(cuMemFreeAsync)(at, stream));
    APP_OK(CU(cuStreamSynchronize)(stream));
    say("block freed in order", CU(cuMemsetD8Async)(at, 2, SMALL, stream));
}

static void memory(void)
{
    other = make(8 * APP_MIB);
    wrong_memory(SMALL, 512);
    wrong_memory(1000 * 512, 64 * APP_KIB);
    wrong_memory(LARGE, 2 * APP_MIB);
    wrong_ordered();
    APP_OK(CU(cuMemFree)(other));
}

/* ---- right uses -------------------------------------------------------------------- */

static void *use_rightly(void *unused)
{
    uint64_t random = 7 + (uintptr_t)&random % 1000;
    CUstream own;

    (void)unused;
    APP_OK(CU(cuCtxSetCurrent)(context));
    APP_OK(CU(cuStreamCreate)(&own, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 300; i++) {
        size_t bytes = 1 + app_random(&random) % (i % 5 ? 9000 : 5 * APP_MIB);
        size_t from = app_random(&random) % bytes;
        CUdeviceptr block = make(bytes), second = make(bytes);

        APP_OK(CU(cuMemsetD8Async)(block + from, 1, bytes - from, own));
        APP_OK(CU(cuMemcpyDtoDAsync)(second + from, block + from, bytes - from, own));
        APP_OK(CU(cuMemcpyDtoDAsync)(second, block, bytes, own));
        APP_OK(CU(cuStreamSynchronize)(own));
        if (bytes > 1100) { /* the last row ends before its pitch does */
            CUDA_MEMCPY2D plane = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                   .srcDevice = block,
                                   .srcPitch = 1000,
                                   .dstMemoryType = CU_MEMORYTYPE_HOST,
                                   .dstHost = malloc(1100),
                                   .dstPitch = 1000,
                                   .WidthInBytes = 100,
                                   .Height = 2};
            APP_OK(CU(cuMemcpy2D)(&plane));
            free(plane.dstHost);
        }
        if (i % 3)
            APP_OK(CU(cuMemFree)(block));
        else
            APP_OK(CU(cuMemFreeAsync)(block, own));
        APP_OK(CU(cuMemFree)(second));
    }
    APP_OK(CU(cuStreamDestroy)(own));
    return NULL;
}

/* As by cudaBindTexture, whose size is UINT_MAX unless the program has one. */
static void bind_without_a_size(void)
{
    CUdeviceptr block = make(SMALL);
    CUtexref reference;
    size_t offset;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    say("texture reference", CU(cuTexRefCreate)(&reference));
    say("its memory", CU(cuTexRefSetAddress)(&offset, reference, block, 0xffffffffu));
    say("its memory, from inside",
        CU(cuTexRefSetAddress)(&offset, reference, block + SMALL / 2, 0xffffffffu));
#pragma GCC diagnostic pop
    APP_OK(CU(cuMemFree)(block));
}

static void inside(void)
{
    pthread_t threads[4];

    for (size_t i = 0; i < APP_COUNT(threads); i++)
        app_expect(pthread_create(&threads[i], NULL, use_rightly, NULL) == 0, "a thread");
    for (size_t i = 0; i < APP_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    bind_without_a_size();
    printf("wronguses: all were right\n");
}

/* ---- events ------------------------------------------------------------------------ */

static void busy_frees(size_t count)
{
    int failed = 0;

    for (size_t i = 0; i < count; i++) {
        size_t bytes = i % 2 ? SMALL : LARGE;
        CUdeviceptr block = make(bytes);

        APP_OK(CU(cuMemsetD8Async)(block, 1, bytes, stream));
        APP_OK(CU(cuMemsetD8Async)(block, 2, bytes, stream));
        failed += CU(cuMemFree)(block) != CUDA_SUCCESS;
    }
    printf("wronguses: frees that failed: %d\n", failed);
}

static void use_stale(CUevent event)
{
    CUipcEventHandle handle;
    CUgraph graph;
    CUgraphNode node;
    float ms;

    say("record", CU(cuEventRecord)(event, stream));
    say("query", CU(cuEventQuery)(event));
    say("synchronize", CU(cuEventSynchronize)(event));
    say("elapsed", CU(cuEventElapsedTime)(&ms, event, event));
    say("wait", CU(cuStreamWaitEvent)(stream, event, 0));
    say("share", CU(cuIpcGetEventHandle)(&handle, event));
    APP_OK(CU(cuGraphCreate)(&graph, 0));
    say("node that records", CU(cuGraphAddEventRecordNode)(&node, graph, NULL, 0, event));
    say("node that waits", CU(cuGraphAddEventWaitNode)(&node, graph, NULL, 0, event));
    say("record with flags", CU(cuEventRecordWithFlags)(event, stream, 0));
    APP_OK(CU(cuGraphDestroy)(graph));
    say("destroy", CU(cuEventDestroy)(event));
}

/* The capture is the process's first: from then on busy frees record events. */
static void events(void)
{
    CUevent stale[40];
    CUgraph graph;

    APP_OK(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    APP_OK(CU(cuStreamEndCapture)(stream, &graph));
    for (size_t i = 0; i < APP_COUNT(stale); i++)
        APP_OK(CU(cuEventCreate)(&stale[i], CU_EVENT_DEFAULT));
    for (size_t i = 0; i < APP_COUNT(stale); i++)
        APP_OK(CU(cuEventDestroy)(stale[i]));
    busy_frees(20);
    for (size_t i = 0; i < APP_COUNT(stale); i++)
        use_stale(stale[i]);
    busy_frees(200);
    for (size_t i = 0; i < APP_COUNT(stale); i++)
        APP_OK(CU(cuEventCreate)(&stale[i], CU_EVENT_DEFAULT));
    busy_frees(20);
    for (size_t i = 0; i < APP_COUNT(stale); i++) {
        APP_OK(CU(cuEventRecord)(stale[i], stream));
        APP_OK(CU(cuEventSynchronize)(stale[i]));
        APP_OK(CU(cuEventDestroy)(stale[i]));
    }
}

/* ---- streams ----------------------------------------------------------------------- */

static void streams(void)
{
    CUstream stale[40];
    CUdeviceptr at;

    for (size_t i = 0; i < APP_COUNT(stale); i++)
        APP_OK(CU(cuStreamCreate)(&stale[i], CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < APP_COUNT(stale); i++)
        APP_OK(CU(cuStreamDestroy)(stale[i]));
    busy_frees(20); /* fills: the checks make their streams */
    APP_OK(CU(cuMemAllocAsync)(&at, SMALL, stream));
    APP_OK(CU(cuMemFreeAsync)(at, stream));
    at = make(SMALL);
    for (size_t i = 0; i < APP_COUNT(stale); i++) {
        say("query", CU(cuStreamQuery)(stale[i]));
        say("set", CU(cuMemsetD8Async)(at, 1, SMALL, stale[i]));
        say("destroy", CU(cuStreamDestroy)(stale[i]));
    }
    APP_OK(CU(cuMemFree)(at));
    busy_frees(20);
}

/* ---- limits ------------------------------------------------------------------------ */

static void limit(void)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    size_t pitch;

    say("more than the limit", CU(cuMemAlloc)(&at, 900 * APP_MIB));
    say("to nowhere", CU(cuMemAlloc)(NULL, 900 * APP_MIB));
    say("nothing", CU(cuMemAlloc)(&at, 0));
    say("pitched to nowhere", CU(cuMemAllocPitch)(NULL, &pitch, 1 << 20, 900, 4));
    say("pitched without an element", CU(cuMemAllocPitch)(&at, &pitch, 1 << 20, 900, 5));
    say("in order to nowhere", CU(cuMemAllocAsync)(NULL, 900 * APP_MIB, stream));
    say("in a stream that is none",
        CU(cuMemAllocAsync)(&at, 900 * APP_MIB, (CUstream)host));
    say("physical memory", CU(cuMemCreate)(&handle, 900 * APP_MIB, &prop, 0));
    say("any size", CU(cuMemCreate)(&handle, SIZE_MAX, &prop, 0));
    say("to nowhere", CU(cuMemCreate)(NULL, 900 * APP_MIB, &prop, 0));
}

/* ---- frees in a host function ------------------------------------------------------ */

static CUresult answers[2];

static void CUDA_CB free_both(void *blocks)
{
    answers[0] = CU(cuMemFree)(*(CUdeviceptr *)blocks);
    answers[1] = CU(cuMemFreeHost)(((void **)blocks)[1]);
}

static void callback(void)
{
    CUstream capturing;
    CUgraph graph;
    union {
        CUdeviceptr device;
        void *host;
    } blocks[2];

    APP_OK(CU(cuStreamCreate)(&capturing, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 4; i++) {
        blocks[0].device = make(i % 2 ? SMALL : LARGE);
        APP_OK(CU(cuMemHostAlloc)(&blocks[1].host, SMALL, 0));
        APP_OK(CU(cuStreamBeginCapture)(capturing, CU_STREAM_CAPTURE_MODE_RELAXED));
        APP_OK(CU(cuLaunchHostFunc)(stream, free_both, blocks));
        APP_OK(CU(cuStreamSynchronize)(stream));
        APP_OK(CU(cuStreamEndCapture)(capturing, &graph));
        say("free in a host function", answers[0]);
        say("of pinned memory", answers[1]);
        say("free of the same", CU(cuMemFree)(blocks[0].device));
        say("of pinned memory", CU(cuMemFreeHost)(blocks[1].host));
        APP_OK(CU(cuGraphDestroy)(graph));
    }
    APP_OK(CU(cuStreamDestroy)(capturing));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "memory";
    CUdevice device;

    app_driver_load();
    APP_OK(CU(cuInit)(0));
    APP_OK(CU(cuDeviceGet)(&device, 0));
    APP_OK(CU(cuDevicePrimaryCtxRetain)(&context, device));
    APP_OK(CU(cuCtxSetCurrent)(context));
    APP_OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    if (strcmp(what, "memory") == 0)
        memory();
    else if (strcmp(what, "inside") == 0)
        inside();
    else if (strcmp(what, "events") == 0)
        events();
    else if (strcmp(what, "streams") == 0)
        streams();
    else if (strcmp(what, "callback") == 0)
        callback();
    else if (strcmp(what, "limit") == 0)
        limit();
    else
        app_fail("no such case", what);
    APP_OK(CU(cuStreamDestroy)(stream));
    return 0;
}
