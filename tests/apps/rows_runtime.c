/*
 * rows_runtime.c - every call of the runtime that the library names, by its own symbol,
 * found in one of these ways:
 *
 *   linked    by the dynamic linker, or in a static runtime
 *   dlsym     dlopen and dlsym of libcudart
 *   dlvsym    the same with the version that the runtime's symbols have
 *
 * Proves what rows.c does, of the calls that most programs make. rows_runtime.def is the
 * table. Pools, graphs and the like are the driver's, which are the runtime's as well.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "gpu.h"
#include "rows.h"

/* ---- the calls ---------------------------------------------------------------------
 */

/* With threads' own streams, cuda_runtime_api.h renames some symbols by macros: `symbol`
 * is pasted or made text, never expanded. */
static struct {
#define ROW_MAKE(symbol, like, kind, bytes, owner, standing)                             \
    __typeof__(like) *call_##symbol;
#define ROW_TAKE(symbol, like, kinds) __typeof__(like) *call_##symbol;
#include "rows_runtime.def"
#undef ROW_TAKE
#undef ROW_MAKE
} rows;

#define ROW(symbol) (rows.call_##symbol)

/* linked_SYMBOL: as the linker has it, or 0. */
#if APP_RUNTIME
#define ROW_MAKE(symbol, like, kind, bytes, owner, standing)                             \
    extern __typeof__(like) linked_##symbol __asm__(#symbol);
#define ROW_TAKE(symbol, like, kinds)                                                    \
    extern __typeof__(like) linked_##symbol __asm__(#symbol);
#else
#define ROW_MAKE(symbol, like, kind, bytes, owner, standing) enum { linked_##symbol };
#define ROW_TAKE(symbol, like, kinds)                        enum { linked_##symbol };
#endif
#include "rows_runtime.def"
#undef ROW_TAKE
#undef ROW_MAKE

static const struct call {
    const char *symbol;
    void **place, *linked;
} calls[] = {
#define ROW_MAKE(symbol, like, kind, bytes, owner, standing)                             \
    {#symbol, (void **)&rows.call_##symbol, (void *)linked_##symbol},
#define ROW_TAKE(symbol, like, kinds)                                                    \
    {#symbol, (void **)&rows.call_##symbol, (void *)linked_##symbol},
#include "rows_runtime.def"
#undef ROW_TAKE
#undef ROW_MAKE
};

static void *find(void *library, const char *soname, const char *way,
                  const struct call *c)
{
    if (strcmp(way, "linked") == 0)
        return c->linked;
    if (strcmp(way, "dlsym") == 0)
        return dlsym(library, c->symbol);
    if (strcmp(way, "dlvsym") == 0)
        return dlvsym(library, c->symbol, soname);
    app_fail("no such way", way);
}

static void find_all(const char *way)
{
    void *library = NULL;
    char soname[32];

    snprintf(soname, sizeof(soname), "libcudart.so.%d", CUDART_VERSION / 1000);
    if (strcmp(way, "linked") != 0)
        library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (strcmp(way, "linked") != 0 && !library)
        app_fail("dlopen", dlerror());
    for (size_t i = 0; i < APP_COUNT(calls); i++) {
        *calls[i].place = find(library, soname, way, &calls[i]);
        app_expect(*calls[i].place != NULL, calls[i].symbol);
    }
}

/* ---- those that make ---------------------------------------------------------------
 */

static cudaStream_t stream; /* the default one */
static const struct cudaChannelFormatDesc bytes_desc = {8, 0, 0, 0,
                                                        cudaChannelFormatKindUnsigned};

static struct cudaExtent extent_of(const struct rows_made *made, size_t depth)
{
    return (struct cudaExtent){ROWS_PAGE, made->bytes / ROWS_PAGE, depth};
}

static int make_cudaMalloc(struct rows_made *made)
{
    return ROW(cudaMalloc)(&made->pointer, made->bytes);
}

static int make_cudaMallocPitch(struct rows_made *made)
{
    size_t pitch;

    return ROW(cudaMallocPitch)(&made->pointer, &pitch, ROWS_PAGE,
                                made->bytes / ROWS_PAGE);
}

static int make_cudaMalloc3D(struct rows_made *made)
{
    struct cudaPitchedPtr box = {0};
    int code = ROW(cudaMalloc3D)(&box, extent_of(made, 1));

    made->pointer = box.ptr;
    return code;
}

static int make_cudaMallocManaged(struct rows_made *made)
{
    return ROW(cudaMallocManaged)(&made->pointer, made->bytes, cudaMemAttachGlobal);
}

static int make_cudaMallocHost(struct rows_made *made)
{
    return ROW(cudaMallocHost)(&made->pointer, made->bytes);
}

static int make_cudaHostAlloc(struct rows_made *made)
{
    return ROW(cudaHostAlloc)(&made->pointer, made->bytes, cudaHostAllocPortable);
}

static int make_cudaMallocAsync(struct rows_made *made)
{
    return ROW(cudaMallocAsync)(&made->pointer, made->bytes, stream);
}

static int make_cudaMallocAsync_ptsz(struct rows_made *made)
{
    return ROW(cudaMallocAsync_ptsz)(&made->pointer, made->bytes, stream);
}

static int make_cudaMallocFromPoolAsync(struct rows_made *made)
{
    return ROW(cudaMallocFromPoolAsync)(&made->pointer, made->bytes, rows_pool(), stream);
}

static int make_cudaMallocFromPoolAsync_ptsz(struct rows_made *made)
{
    return ROW(cudaMallocFromPoolAsync_ptsz)(&made->pointer, made->bytes, rows_pool(),
                                             stream);
}

/* The handles of the runtime are the driver's. */
static int make_cudaMallocArray(struct rows_made *made)
{
    cudaArray_t array = NULL;
    int code = ROW(cudaMallocArray)(&array, &bytes_desc, ROWS_PAGE,
                                    made->bytes / ROWS_PAGE, cudaArrayDefault);

    made->pointer = array;
    return code;
}

static int make_cudaMalloc3DArray(struct rows_made *made)
{
    cudaArray_t array = NULL;
    int code =
        ROW(cudaMalloc3DArray)(&array, &bytes_desc, extent_of(made, 1), cudaArrayDefault);

    made->pointer = array;
    return code;
}

static int make_cudaMallocMipmappedArray(struct rows_made *made)
{
    cudaMipmappedArray_t levels = NULL;
    int code = ROW(cudaMallocMipmappedArray)(&levels, &bytes_desc, extent_of(made, 0), 1,
                                             cudaArrayDefault);

    made->pointer = levels;
    return code;
}

static int make_cudaHostRegister(struct rows_made *made)
{
    made->pointer = rows_pages(made->bytes);
    return ROW(cudaHostRegister)(made->pointer, made->bytes, cudaHostRegisterDefault);
}

static int make_cudaIpcOpenMemHandle(struct rows_made *made)
{
    struct rows_offer offer;
    cudaIpcMemHandle_t handle;

    rows_ask(ROWS_BLOCK, made->bytes, &offer);
    memcpy(&handle, &offer.block, sizeof(handle));
    return ROW(cudaIpcOpenMemHandle)(&made->pointer, handle,
                                     cudaIpcMemLazyEnablePeerAccess);
}

static int make_cudaMemPoolImportPointer(struct rows_made *made)
{
    struct rows_offer offer;
    cudaMemPool_t pool = rows_import_pool(rows_ask(ROWS_POOL, made->bytes, &offer));
    struct cudaMemPoolPtrExportData data;

    memcpy(&data, &offer.pointer, sizeof(data));
    return ROW(cudaMemPoolImportPointer)(&made->pointer, pool, &data);
}

static int import(struct rows_made *made, cudaExternalMemory_t *out)
{
    struct cudaExternalMemoryHandleDesc desc;

    memset(&desc, 0, sizeof(desc));
    desc.type = cudaExternalMemoryHandleTypeOpaqueFd;
    desc.handle.fd = rows_file(made->bytes);
    desc.size = made->bytes;
    return ROW(cudaImportExternalMemory)(out, &desc);
}

static int make_cudaImportExternalMemory(struct rows_made *made)
{
    cudaExternalMemory_t memory = NULL;
    int code = import(made, &memory);

    made->pointer = memory;
    return code;
}

static int make_cudaExternalMemoryGetMappedBuffer(struct rows_made *made)
{
    struct cudaExternalMemoryBufferDesc view;
    cudaExternalMemory_t memory;
    int code;

    memset(&view, 0, sizeof(view));
    view.size = made->bytes;
    APP_OK(import(made, &memory));
    code = ROW(cudaExternalMemoryGetMappedBuffer)(&made->pointer, memory, &view);
    APP_OK(ROW(cudaDestroyExternalMemory)(memory));
    return code;
}

static int make_cudaExternalMemoryGetMappedMipmappedArray(struct rows_made *made)
{
    struct cudaExternalMemoryMipmappedArrayDesc view;
    cudaMipmappedArray_t levels = NULL;
    cudaExternalMemory_t memory;
    int code;

    memset(&view, 0, sizeof(view));
    view.formatDesc = bytes_desc;
    view.extent = extent_of(made, 0);
    view.numLevels = 1;
    APP_OK(import(made, &memory));
    code = ROW(cudaExternalMemoryGetMappedMipmappedArray)(&levels, memory, &view);
    APP_OK(ROW(cudaDestroyExternalMemory)(memory));
    made->pointer = levels;
    return code;
}

static struct cudaMemAllocNodeParams node_params(size_t bytes)
{
    struct cudaMemAllocNodeParams params;

    memset(&params, 0, sizeof(params));
    params.poolProps.allocType = cudaMemAllocationTypePinned;
    params.poolProps.location.type = cudaMemLocationTypeDevice;
    params.bytesize = bytes;
    return params;
}

static int make_cudaGraphAddMemAllocNode(struct rows_made *made)
{
    struct cudaMemAllocNodeParams params = node_params(made->bytes);
    cudaGraphNode_t node;
    cudaGraph_t graph;
    int code;

    APP_OK(CU(cuGraphCreate)(&graph, 0));
    code = ROW(cudaGraphAddMemAllocNode)(&node, graph, NULL, 0, &params);
    made->pointer = params.dptr;
    rows_launch(graph);
    return code;
}

static int make_cudaGraphAddNode(struct rows_made *made)
{
    struct cudaMemAllocNodeParams alloc = node_params(made->bytes);
    struct cudaGraphNodeParams params;
    cudaGraphNode_t node;
    cudaGraph_t graph;
    int code;

    memset(&params, 0, sizeof(params));
    params.type = cudaGraphNodeTypeMemAlloc;
    params.alloc.poolProps = alloc.poolProps;
    params.alloc.bytesize = made->bytes;
    APP_OK(CU(cuGraphCreate)(&graph, 0));
    code = ROW(cudaGraphAddNode)(&node, graph, NULL, NULL, 0, &params);
    made->pointer = params.alloc.dptr;
    rows_launch(graph);
    return code;
}

/* ---- those that end ----------------------------------------------------------------
 */

static int take_cudaFree(struct rows_made *made)
{
    return ROW(cudaFree)(made->pointer);
}

static int take_cudaFreeAsync(struct rows_made *made)
{
    return ROW(cudaFreeAsync)(made->pointer, stream);
}

static int take_cudaFreeAsync_ptsz(struct rows_made *made)
{
    return ROW(cudaFreeAsync_ptsz)(made->pointer, stream);
}

static int take_cudaFreeHost(struct rows_made *made)
{
    return ROW(cudaFreeHost)(made->pointer);
}

static int take_cudaFreeArray(struct rows_made *made)
{
    return ROW(cudaFreeArray)((cudaArray_t)made->pointer);
}

static int take_cudaFreeMipmappedArray(struct rows_made *made)
{
    return ROW(cudaFreeMipmappedArray)((cudaMipmappedArray_t)made->pointer);
}

static int take_cudaHostUnregister(struct rows_made *made)
{
    int code = ROW(cudaHostUnregister)(made->pointer);

    free(made->pointer);
    return code;
}

static int take_cudaIpcCloseMemHandle(struct rows_made *made)
{
    return ROW(cudaIpcCloseMemHandle)(made->pointer);
}

static int take_cudaDestroyExternalMemory(struct rows_made *made)
{
    return ROW(cudaDestroyExternalMemory)((cudaExternalMemory_t)made->pointer);
}

/* By a graph of its own. */
static int take_cudaGraphAddMemFreeNode(struct rows_made *made)
{
    cudaGraphNode_t node;
    cudaGraph_t graph;
    int code;

    APP_OK(CU(cuGraphCreate)(&graph, 0));
    code = ROW(cudaGraphAddMemFreeNode)(&node, graph, NULL, 0, made->pointer);
    rows_launch(graph);
    return code;
}

/* ---- all of them -------------------------------------------------------------------
 */

static const struct rows_maker makers[] = {
#define ROW_MAKE(symbol, like, kind, bytes, owner, standing)                             \
    {#symbol, #owner, #standing, make_##symbol, kind, bytes},
#define ROW_TAKE(symbol, like, kinds)
#include "rows_runtime.def"
#undef ROW_TAKE
#undef ROW_MAKE
};

static const struct rows_taker takers[] = {
#define ROW_MAKE(symbol, like, kind, bytes, owner, standing)
#define ROW_TAKE(symbol, like, kinds) {#symbol, take_##symbol, kinds},
#include "rows_runtime.def"
#undef ROW_TAKE
#undef ROW_MAKE
};

static bool is_left_out(const char *symbol)
{
    (void)symbol;
    return false;
}

static const struct rows_table table = {
    makers, APP_COUNT(makers), takers, APP_COUNT(takers), NULL, 0, is_left_out};

void rows_run(const char *way, bool keep, const struct app_peer *peer)
{
    rows_exporter = peer;
    app_gpu_start();
    find_all(way);
    rows_call(&table, keep);
}

void rows_list(void)
{
    rows_print(&table);
}
