/*
 * named.c - every call of the runtime that allocates or frees, besides the everyday ones.
 *
 * Proves that each of them answers as without the library, and that what it leaves behind
 * is reported under the name that the program called. A line that leaks says so as in
 * leaky.c.
 */
#include <cuda_runtime_api.h>

#include "app.h"

#define WIDTH 500
#define ROWS  20

#define EXPECT_ERROR(call)                                                               \
    do {                                                                                 \
        printf("named: %s answers %d\n", #call, (int)(call));                            \
        (void)cudaGetLastError();                                                        \
    } while (0)

static uint64_t sum = APP_CHECKSUM;

static struct cudaExtent extent(size_t width, size_t height, size_t depth)
{
    return (struct cudaExtent){width, height, depth};
}

/* Rows of a pitched block keep what was written to them. */
static void use_rows(void *block, size_t pitch)
{
    unsigned char in[WIDTH], out[WIDTH];

    for (uint32_t row = 0; row < ROWS; row++) {
        app_bytes_fill(in, sizeof(in), row);
        APP_OK(
            cudaMemcpy((char *)block + row * pitch, in, WIDTH, cudaMemcpyHostToDevice));
    }
    for (uint32_t row = 0; row < ROWS; row++) {
        APP_OK(
            cudaMemcpy(out, (char *)block + row * pitch, WIDTH, cudaMemcpyDeviceToHost));
        sum = app_checksum(sum, out, WIDTH);
    }
}

APP_FRAME static void leak_pitched(void)
{
    size_t pitch;
    void *block;

    APP_OK(cudaMallocPitch(&block, &pitch, 512, ROWS)); /* LEAK: leak_pitched 10240 1 */
    use_rows(block, pitch);
}

APP_FRAME static void leak_box(void)
{
    struct cudaPitchedPtr box;

    APP_OK(cudaMalloc3D(&box, extent(512, 5, 4))); /* LEAK: leak_box 10240 1 */
    use_rows(box.ptr, box.pitch);
}

APP_FRAME static void leak_pool(void)
{
    cudaMemPool_t pool;
    void *p;

    APP_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    APP_OK(cudaMallocFromPoolAsync(&p, 65536, pool, 0)); /* LEAK: leak_pool 65536 1 */
    APP_OK(cudaMemsetAsync(p, 7, 65536, 0));
    APP_OK(cudaStreamSynchronize(0));
}

static void use_pitched(void)
{
    struct cudaPitchedPtr box;
    size_t pitch;
    void *block;

    APP_OK(cudaMallocPitch(&block, &pitch, WIDTH, ROWS));
    use_rows(block, pitch);
    APP_OK(cudaFree(block));
    APP_OK(cudaMalloc3D(&box, extent(WIDTH, ROWS, 1)));
    use_rows(box.ptr, box.pitch);
    APP_OK(cudaFree(box.ptr));
    EXPECT_ERROR(cudaMallocPitch(NULL, &pitch, WIDTH, ROWS));
    EXPECT_ERROR(cudaMalloc3D(NULL, extent(1, 1, 1)));
}

static void use_arrays(void)
{
    struct cudaChannelFormatDesc desc = {8, 0, 0, 0, cudaChannelFormatKindUnsigned};
    unsigned char in[WIDTH], out[WIDTH];
    cudaMipmappedArray_t levels;
    cudaArray_t array;

    app_bytes_fill(in, sizeof(in), 99);
    APP_OK(cudaMallocArray(&array, &desc, WIDTH, 1, cudaArrayDefault));
    APP_OK(cudaMemcpy2DToArray(array, 0, 0, in, WIDTH, WIDTH, 1, cudaMemcpyHostToDevice));
    APP_OK(
        cudaMemcpy2DFromArray(out, WIDTH, array, 0, 0, WIDTH, 1, cudaMemcpyDeviceToHost));
    sum = app_checksum(sum, out, sizeof(out));
    APP_OK(cudaFreeArray(array));
    APP_OK(cudaMalloc3DArray(&array, &desc, extent(64, 8, 2), cudaArrayLayered));
    APP_OK(cudaFreeArray(array));
    APP_OK(cudaMallocMipmappedArray(&levels, &desc, extent(64, 64, 0), 3, 0));
    APP_OK(cudaGetMipmappedArrayLevel(&array, levels, 1));
    APP_OK(cudaFreeMipmappedArray(levels));
    APP_OK(cudaFreeArray(NULL));
    EXPECT_ERROR(cudaMallocArray(NULL, &desc, 8, 8, 0));
    EXPECT_ERROR(cudaMalloc3DArray(NULL, &desc, extent(8, 8, 8), 0));
    EXPECT_ERROR(cudaMallocMipmappedArray(NULL, &desc, extent(8, 8, 0), 1, 0));
}

static void use_pages(void)
{
    static char pages[4 * 4096] __attribute__((aligned(4096)));

    APP_OK(cudaHostRegister(pages, sizeof(pages), cudaHostRegisterDefault));
    EXPECT_ERROR(cudaHostRegister(pages, sizeof(pages), cudaHostRegisterDefault));
    APP_OK(cudaHostUnregister(pages));
    EXPECT_ERROR(cudaHostUnregister(pages));
}

static void use_others(void)
{
    struct cudaExternalMemoryBufferDesc buffer;
    struct cudaMemPoolPtrExportData exported;
    struct cudaExternalMemoryHandleDesc desc;
    cudaExternalMemory_t external = NULL;
    cudaIpcMemHandle_t handle;
    cudaMemPool_t pool;
    void *block;

    memset(&buffer, 0, sizeof(buffer));
    memset(&exported, 0, sizeof(exported));
    memset(&handle, 0, sizeof(handle));
    memset(&desc, 0, sizeof(desc));
    APP_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    EXPECT_ERROR(cudaMallocFromPoolAsync(NULL, 16, pool, 0));
    EXPECT_ERROR(cudaIpcOpenMemHandle(&block, handle, cudaIpcMemLazyEnablePeerAccess));
    EXPECT_ERROR(cudaIpcCloseMemHandle(&desc));
    EXPECT_ERROR(cudaMemPoolImportPointer(&block, pool, &exported));
    EXPECT_ERROR(cudaImportExternalMemory(&external, &desc));
    EXPECT_ERROR(cudaExternalMemoryGetMappedBuffer(&block, external, &buffer));
    EXPECT_ERROR(cudaDestroyExternalMemory(external));
}

static void use_graph(void)
{
    struct cudaMemAllocNodeParams params;
    cudaGraphNode_t made, freed;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    memset(&params, 0, sizeof(params));
    params.poolProps.allocType = cudaMemAllocationTypePinned;
    params.poolProps.location.type = cudaMemLocationTypeDevice;
    params.bytesize = 65536;
    APP_OK(cudaGraphCreate(&graph, 0));
    APP_OK(cudaGraphAddMemAllocNode(&made, graph, NULL, 0, &params));
    APP_OK(cudaGraphAddMemFreeNode(&freed, graph, &made, 1, params.dptr));
    APP_OK(cudaGraphInstantiate(&exec, graph, 0));
    APP_OK(cudaGraphLaunch(exec, 0));
    APP_OK(cudaDeviceSynchronize());
    APP_OK(cudaGraphExecDestroy(exec));
    APP_OK(cudaGraphDestroy(graph));
    EXPECT_ERROR(cudaGraphAddMemAllocNode(NULL, NULL, NULL, 0, NULL));
    EXPECT_ERROR(cudaGraphAddMemFreeNode(NULL, NULL, NULL, 0, NULL));
}

int main(void)
{
    APP_OK(cudaFree(NULL));
    use_pitched();
    use_arrays();
    use_pages();
    use_others();
    use_graph();
    leak_pitched();
    leak_box();
    leak_pool();
    printf("named: checksum %016llx\n", (unsigned long long)sum);
    return 0;
}
