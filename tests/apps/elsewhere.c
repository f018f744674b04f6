/*
 * elsewhere.c - a device that was filled with plain memory and emptied, and then asked
 * for as much in another way.   elsewhere WAY
 *
 *   pool      from a pool of device 1, while a context of device 0 is current
 *   stream    from the default pool of a stream of device 1, likewise
 *   node      by memory nodes of graphs whose memory is device 1's, likewise
 *   late      stream-ordered, on the same device, which has two contexts and is idle
 *   pitch     small pitched blocks on a full device, in the holes between plain ones
 *   beside    physical memory, while another thread's array makes the library give back
 *             all that is idle, which takes the driver some time (CUDASIM_LATENCY)
 *
 * Proves that idle memory goes back wherever it is that memory is short, and on an idle
 * device whatever GPUSHIM_POOL_WAIT says.
 */
#include <pthread.h>
#include <unistd.h>

#include "app.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef cuGetProcAddress_v2

enum { BLOCKS = 28 };
#define BYTES (2 * APP_MIB)

static CUdeviceptr blocks[BLOCKS];

static CUcontext use(int device)
{
    CUcontext context;

    APP_OK(cuDevicePrimaryCtxRetain(&context, device));
    APP_OK(cuCtxSetCurrent(context));
    return context;
}

static void fill_and_empty(CUstream stream)
{
    for (int i = 0; i < BLOCKS; i++) {
        APP_OK(cuMemAlloc_v2(&blocks[i], BYTES));
        APP_OK(cuMemsetD8Async(blocks[i], 1, BYTES, stream));
    }
    for (int i = 0; i < BLOCKS; i++)
        APP_OK(cuMemFree_v2(blocks[i]));
    APP_OK(cuCtxSynchronize());
}

/* A graph with a block of device 1, launched. */
static void take_by_node(CUdeviceptr *block, CUstream stream)
{
    CUDA_MEM_ALLOC_NODE_PARAMS node = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}},
        .bytesize = BYTES};
    CUgraphNode made;
    CUgraphExec exec;
    CUgraph graph;

    APP_OK(cuGraphCreate(&graph, 0));
    APP_OK(cuGraphAddMemAllocNode(&made, graph, NULL, 0, &node));
    APP_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    APP_OK(cuGraphLaunch(exec, stream));
    APP_OK(cuStreamSynchronize(stream));
    *block = node.dptr;
    APP_OK(cuGraphExecDestroy(exec));
    APP_OK(cuGraphDestroy(graph));
}

static void take(const char *way, CUdeviceptr *block, CUmemoryPool pool, CUstream here,
                 CUstream there)
{
    if (strcmp(way, "pool") == 0)
        APP_OK(cuMemAllocFromPoolAsync(block, BYTES, pool, here));
    else if (strcmp(way, "node") == 0)
        take_by_node(block, here);
    else
        APP_OK(cuMemAllocAsync(block, BYTES, there));
}

static void elsewhere(const char *way)
{
    CUmemoryPool pool;
    CUstream here, there;

    (void)use(1);
    APP_OK(cuDeviceGetDefaultMemPool(&pool, 1));
    APP_OK(cuStreamCreate(&there, 0));
    fill_and_empty(there);
    (void)use(0);
    APP_OK(cuStreamCreate(&here, 0));
    for (int i = 0; i < BLOCKS; i++)
        take(way, &blocks[i], pool, here, there);
    for (int i = 0; i < BLOCKS; i++)
        APP_OK(cuMemFreeAsync(blocks[i], strcmp(way, "stream") == 0 ? there : here));
    APP_OK(cuStreamSynchronize(here));
    APP_OK(cuStreamSynchronize(there));
    APP_OK(cuStreamDestroy(here));
    APP_OK(cuStreamDestroy(there));
    APP_OK(cuDeviceGraphMemTrim(1));
    APP_OK(cuDevicePrimaryCtxRelease(1));
    APP_OK(cuDevicePrimaryCtxRelease(0));
}

static void late(void)
{
    CUcontext first = use(0), second;
    CUstream stream;

#if CUDA_VERSION >= 13000
    APP_OK(cuCtxCreate_v4(&second, NULL, 0, 0));
#else
    APP_OK(cuCtxCreate_v2(&second, 0, 0));
#endif
    APP_OK(cuCtxSetCurrent(first));
    APP_OK(cuStreamCreate(&stream, 0));
    fill_and_empty(stream);
    for (int i = 0; i < BLOCKS; i++)
        APP_OK(cuMemAllocAsync(&blocks[i], BYTES, stream));
    for (int i = 0; i < BLOCKS; i++)
        APP_OK(cuMemFreeAsync(blocks[i], stream));
    APP_OK(cuStreamSynchronize(stream));
    APP_OK(cuStreamDestroy(stream));
    APP_OK(cuCtxDestroy_v2(second));
    APP_OK(cuDevicePrimaryCtxRelease(0));
}

/* Natively small blocks of both kinds lie side by side. */
static void pitch(void)
{
    static CUdeviceptr plain[4 * BLOCKS];
    size_t count = 0, row;
    CUdeviceptr block;

    (void)use(0);
    while (cuMemAlloc_v2(&plain[count], APP_MIB) == CUDA_SUCCESS)
        count++;
    for (size_t i = 0; i < count; i += 2)
        APP_OK(cuMemFree_v2(plain[i]));
    for (size_t i = 0; i < count; i++) {
        APP_OK(cuMemAllocPitch_v2(&block, &row, 1000, 512, 4));
        app_expect(row == 1024 && block % 512 == 0, "rows are not aligned");
        APP_OK(cuMemsetD2D8_v2(block, row, 7, 1000, 512));
        if (i % 2 == 0)
            plain[i] = block;
        else
            APP_OK(cuMemFree_v2(block));
    }
    for (size_t i = 0; i < count; i++)
        APP_OK(cuMemFree_v2(plain[i]));
    APP_OK(cuDevicePrimaryCtxRelease(0));
}

static void *take_array(void *context)
{
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 3 * APP_MIB / 1024,
                                   .Height = 1024,
                                   .Format = CU_AD_FORMAT_FLOAT,
                                   .NumChannels = 1};
    CUarray array;

    APP_OK(cuCtxSetCurrent(context));
    APP_OK(cuArrayCreate_v2(&array, &shape));
    return array;
}

static void beside(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUcontext context = use(0);
    pthread_t other;
    void *array;

    for (int i = 0; i < BLOCKS / 2; i++)
        APP_OK(cuMemAlloc_v2(&blocks[i], 2 * BYTES));
    for (int i = 0; i < BLOCKS / 2; i++)
        APP_OK(cuMemFree_v2(blocks[i]));
    app_expect(pthread_create(&other, NULL, take_array, context) == 0, "no thread");
    usleep(100000);
    APP_OK(cuMemCreate(&handle, 16 * BYTES, &prop, 0));
    app_expect(pthread_join(other, &array) == 0, "the thread is gone");
    APP_OK(cuMemRelease(handle));
    APP_OK(cuArrayDestroy(array));
    APP_OK(cuDevicePrimaryCtxRelease(0));
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "pool";

    APP_OK(cuInit(0));
    if (strcmp(way, "late") == 0)
        late();
    else if (strcmp(way, "pitch") == 0)
        pitch();
    else if (strcmp(way, "beside") == 0)
        beside();
    else
        elsewhere(way);
    printf("elsewhere: %s: served\n", way);
    return 0;
}
