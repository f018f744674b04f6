/*
 * rows.c - every call of the driver that the library serves or tracks, by the symbol that
 * its row in hooks.def names, found in one of these ways:
 *
 *   linked    by the dynamic linker            proc        cuGetProcAddress, second form
 *   dlsym     dlopen and dlsym                 proc_first  its first form
 *   dlvsym    dlvsym: no call has a version    proc_ptsz   all for threads' own streams
 *
 * Proves that memory has its owner whatever the way, and that each call that ends memory
 * ends it in the books, too. rows.def is the table.
 */
#include "rows.h"

#include <dlfcn.h>
#include <unistd.h>

#include "gpu.h"

#define PER_THREAD CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

/* ---- the calls ---------------------------------------------------------------------
 */

#if CUDA_VERSION >= 12030
typedef CUresult rows_add_node(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                               CUgraphNodeParams *);
typedef CUresult rows_add_node_v2(CUgraphNode *, CUgraph, const CUgraphNode *,
                                  const CUgraphEdgeData *, size_t, CUgraphNodeParams *);
#endif

/* cuda.h renames some symbols by macros: `symbol` is pasted or made text, never expanded.
 */
static struct {
#define ROW_MAKE(symbol, like, name, since, flags, kind, bytes, owner, standing)         \
    __typeof__(like) *call_##symbol;
#define ROW_TAKE(symbol, like, name, since, flags, kinds) __typeof__(like) *call_##symbol;
#define ROW_MISSING(symbol, reason)
#include "rows.def"
#undef ROW_TAKE
#undef ROW_MAKE
} rows;

#define ROW(symbol) (rows.call_##symbol)

/* linked_SYMBOL: as the dynamic linker has it, or 0. */
#if APP_DRIVER_LINKED
#define ROW_MAKE(symbol, like, name, since, flags, kind, bytes, owner, standing)         \
    extern __typeof__(like) linked_##symbol __asm__(#symbol);
#define ROW_TAKE(symbol, like, name, since, flags, kinds)                                \
    extern __typeof__(like) linked_##symbol __asm__(#symbol);
#else
#define ROW_MAKE(symbol, like, name, since, flags, kind, bytes, owner, standing)         \
    enum { linked_##symbol };
#define ROW_TAKE(symbol, like, name, since, flags, kinds) enum { linked_##symbol };
#endif
#include "rows.def"
#undef ROW_TAKE
#undef ROW_MAKE

static const struct call {
    const char *symbol, *name;
    int since;
    cuuint64_t flags;
    void **place, *linked;
} calls[] = {
#define ROW_MAKE(symbol, like, name, since, flags, kind, bytes, owner, standing)         \
    {#symbol, #name, since, flags, (void **)&rows.call_##symbol, (void *)linked_##symbol},
#define ROW_TAKE(symbol, like, name, since, flags, kinds)                                \
    {#symbol, #name, since, flags, (void **)&rows.call_##symbol, (void *)linked_##symbol},
#include "rows.def"
#undef ROW_TAKE
#undef ROW_MAKE
};

typedef CUresult proc_fn(const char *name, void **out, int version, cuuint64_t flags,
                         CUdriverProcAddressQueryResult *status);
typedef CUresult proc_first_fn(const char *name, void **out, int version,
                               cuuint64_t flags);

static void *ask(void *library, const char *way, const struct call *call)
{
    cuuint64_t flags = strcmp(way, "proc_ptsz") == 0 ? PER_THREAD : call->flags;
    void *found = NULL;

    if (strcmp(way, "proc_first") == 0) {
        proc_first_fn *get = (proc_first_fn *)dlsym(library, "cuGetProcAddress");

        APP_OK(get ? get(call->name, &found, call->since, flags) : CUDA_ERROR_UNKNOWN);
    } else {
        proc_fn *get = (proc_fn *)dlsym(library, "cuGetProcAddress_v2");

        APP_OK(get ? get(call->name, &found, call->since, flags, NULL)
                   : CUDA_ERROR_UNKNOWN);
    }
    return found;
}

static void *find(void *library, const char *way, const struct call *call)
{
    if (strcmp(way, "linked") == 0)
        return call->linked;
    if (strcmp(way, "dlsym") == 0)
        return dlsym(library, call->symbol);
    if (strcmp(way, "dlvsym") == 0)
        return dlvsym(library, call->symbol, "libcuda.so.1");
    if (strncmp(way, "proc", 4) == 0)
        return ask(library, way, call);
    app_fail("no such way", way);
}

/* False where none was found, as natively no call has a version. */
static bool find_all(const char *way)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    size_t found = 0;

    if (!library)
        app_fail("dlopen", dlerror());
    for (size_t i = 0; i < APP_COUNT(calls); i++) {
        *calls[i].place = find(library, way, &calls[i]);
        found += *calls[i].place != NULL;
        if (!*calls[i].place)
            printf("rows: %s is not there\n", calls[i].symbol);
    }
    app_expect(found == 0 || found == APP_COUNT(calls), "all calls are there");
    return found > 0;
}

/* ---- those that make ---------------------------------------------------------------
 */

static CUstream stream; /* the default one */
static bool all_per_thread;

#define DEVICE_PLACE                                                                     \
    {                                                                                    \
        .type = CU_MEM_LOCATION_TYPE_DEVICE                                              \
    }

static const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = DEVICE_PLACE};

static int make_cuMemAlloc_v2(struct rows_made *made)
{
    return ROW(cuMemAlloc_v2)(&made->address, made->bytes);
}

static int make_cuMemAllocPitch_v2(struct rows_made *made)
{
    size_t pitch;

    return ROW(cuMemAllocPitch_v2)(&made->address, &pitch, ROWS_PAGE,
                                   made->bytes / ROWS_PAGE, 4);
}

static int make_cuMemAllocManaged(struct rows_made *made)
{
    return ROW(cuMemAllocManaged)(&made->address, made->bytes, CU_MEM_ATTACH_GLOBAL);
}

static int make_cuMemAllocHost_v2(struct rows_made *made)
{
    return ROW(cuMemAllocHost_v2)(&made->pointer, made->bytes);
}

static int make_cuMemHostAlloc(struct rows_made *made)
{
    return ROW(cuMemHostAlloc)(&made->pointer, made->bytes, CU_MEMHOSTALLOC_PORTABLE);
}

static int make_cuMemAllocAsync(struct rows_made *made)
{
    return ROW(cuMemAllocAsync)(&made->address, made->bytes, stream);
}

static int make_cuMemAllocAsync_ptsz(struct rows_made *made)
{
    return ROW(cuMemAllocAsync_ptsz)(&made->address, made->bytes, stream);
}

static int make_cuMemAllocFromPoolAsync(struct rows_made *made)
{
    return ROW(cuMemAllocFromPoolAsync)(&made->address, made->bytes, rows_pool(), stream);
}

static int make_cuMemAllocFromPoolAsync_ptsz(struct rows_made *made)
{
    return ROW(cuMemAllocFromPoolAsync_ptsz)(&made->address, made->bytes, rows_pool(),
                                             stream);
}

static int make_cuIpcOpenMemHandle(struct rows_made *made)
{
    struct rows_offer offer;

    rows_ask(ROWS_BLOCK, made->bytes, &offer);
    return ROW(cuIpcOpenMemHandle)(&made->address, offer.block,
                                   CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static int make_cuIpcOpenMemHandle_v2(struct rows_made *made)
{
    struct rows_offer offer;

    rows_ask(ROWS_BLOCK, made->bytes, &offer);
    return ROW(cuIpcOpenMemHandle_v2)(&made->address, offer.block,
                                      CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static int make_cuMemCreate(struct rows_made *made)
{
    return ROW(cuMemCreate)(&made->physical, made->bytes, &on_device, 0);
}

/* Held by its mapping alone. */
static int make_cuMemMap(struct rows_made *made)
{
    CUresult code;

    APP_OK(CU(cuMemAddressReserve)(&made->address, made->bytes, 0, 0, 0));
    APP_OK(ROW(cuMemCreate)(&made->physical, made->bytes, &on_device, 0));
    code = ROW(cuMemMap)(made->address, made->bytes, 0, made->physical, 0);
    APP_OK(ROW(cuMemRelease)(made->physical));
    return code;
}

/* Held by the handle that was had of its mapping. */
static int make_cuMemRetainAllocationHandle(struct rows_made *made)
{
    CUmemGenericAllocationHandle first;
    CUresult code;

    APP_OK(CU(cuMemAddressReserve)(&made->address, made->bytes, 0, 0, 0));
    APP_OK(ROW(cuMemCreate)(&first, made->bytes, &on_device, 0));
    APP_OK(ROW(cuMemMap)(made->address, made->bytes, 0, first, 0));
    APP_OK(ROW(cuMemRelease)(first));
    code = ROW(cuMemRetainAllocationHandle)(&made->physical,
                                            (void *)(uintptr_t)made->address);
    APP_OK(ROW(cuMemUnmap)(made->address, made->bytes));
    APP_OK(CU(cuMemAddressFree)(made->address, made->bytes));
    return code;
}

/* Its size is that of its mapping, which nothing else tells. */
static int make_cuMemImportFromShareableHandle(struct rows_made *made)
{
    struct rows_offer offer;
    int file = rows_ask(ROWS_PHYSICAL, made->bytes, &offer);
    CUresult code =
        ROW(cuMemImportFromShareableHandle)(&made->physical, (void *)(intptr_t)file,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

    close(file);
    APP_OK(CU(cuMemAddressReserve)(&made->address, made->bytes, 0, 0, 0));
    APP_OK(ROW(cuMemMap)(made->address, made->bytes, 0, made->physical, 0));
    APP_OK(ROW(cuMemUnmap)(made->address, made->bytes));
    APP_OK(CU(cuMemAddressFree)(made->address, made->bytes));
    return code;
}

static int make_cuArrayCreate_v2(struct rows_made *made)
{
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = ROWS_PAGE,
                                   .Height = made->bytes / ROWS_PAGE,
                                   .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                   .NumChannels = 1};

    return ROW(cuArrayCreate_v2)(&made->array, &shape);
}

static CUDA_ARRAY3D_DESCRIPTOR shape_of(const struct rows_made *made, size_t depth)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = ROWS_PAGE,
                                     .Height = made->bytes / ROWS_PAGE,
                                     .Depth = depth,
                                     .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                     .NumChannels = 1};
}

static int make_cuArray3DCreate_v2(struct rows_made *made)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = shape_of(made, 1);

    return ROW(cuArray3DCreate_v2)(&made->array, &shape);
}

static int make_cuMipmappedArrayCreate(struct rows_made *made)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = shape_of(made, 0);

    return ROW(cuMipmappedArrayCreate)(&made->levels, &shape, 1);
}

static int make_cuImportExternalMemory(struct rows_made *made)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = made->bytes};

    desc.handle.fd = rows_file(made->bytes);
    return ROW(cuImportExternalMemory)(&made->external, &desc);
}

static int make_cuExternalMemoryGetMappedBuffer(struct rows_made *made)
{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC view = {.size = made->bytes};
    CUresult code;

    APP_OK(make_cuImportExternalMemory(made));
    code = ROW(cuExternalMemoryGetMappedBuffer)(&made->address, made->external, &view);
    APP_OK(ROW(cuDestroyExternalMemory)(made->external));
    return code;
}

static int make_cuExternalMemoryGetMappedMipmappedArray(struct rows_made *made)
{
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC view = {.arrayDesc = shape_of(made, 0),
                                                      .numLevels = 1};
    CUresult code;

    APP_OK(make_cuImportExternalMemory(made));
    code = ROW(cuExternalMemoryGetMappedMipmappedArray)(&made->levels, made->external,
                                                        &view);
    APP_OK(ROW(cuDestroyExternalMemory)(made->external));
    return code;
}

static int make_cuMemPoolImportPointer(struct rows_made *made)
{
    struct rows_offer offer;
    CUmemoryPool pool = rows_import_pool(rows_ask(ROWS_POOL, made->bytes, &offer));

    return ROW(cuMemPoolImportPointer)(&made->address, pool, &offer.pointer);
}

static int make_cuMemHostRegister_v2(struct rows_made *made)
{
    made->pointer = rows_pages(made->bytes);
    return ROW(cuMemHostRegister_v2)(made->pointer, made->bytes, 0);
}

#if CUDA_VERSION >= 12010
static int make_cuMulticastCreate(struct rows_made *made)
{
    CUmulticastObjectProp wanted = {.numDevices = 2, .size = made->bytes};

    return ROW(cuMulticastCreate)(&made->physical, &wanted);
}
#endif

static CUDA_MEM_ALLOC_NODE_PARAMS node_params(size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;

    memset(&params, 0, sizeof(params));
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = bytes;
    return params;
}

static int make_cuGraphAddMemAllocNode(struct rows_made *made)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = node_params(made->bytes);
    CUgraphNode node;
    CUgraph graph;
    CUresult code;

    APP_OK(CU(cuGraphCreate)(&graph, 0));
    code = ROW(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &params);
    made->address = params.dptr;
    rows_launch(graph);
    return code;
}

#if CUDA_VERSION >= 12030
static CUgraphNodeParams any_params(size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = node_params(bytes);
    CUgraphNodeParams any;

    memset(&any, 0, sizeof(any));
    any.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    any.alloc.poolProps = params.poolProps;
    any.alloc.bytesize = bytes;
    return any;
}

static int make_cuGraphAddNode(struct rows_made *made)
{
    CUgraphNodeParams params = any_params(made->bytes);
    CUgraphNode node;
    CUgraph graph;
    CUresult code;

    APP_OK(CU(cuGraphCreate)(&graph, 0));
    code = ROW(cuGraphAddNode)(&node, graph, NULL, 0, &params);
    made->address = params.alloc.dptr;
    rows_launch(graph);
    return code;
}

static int make_cuGraphAddNode_v2(struct rows_made *made)
{
    CUgraphNodeParams params = any_params(made->bytes);
    CUgraphNode node;
    CUgraph graph;
    CUresult code;

    APP_OK(CU(cuGraphCreate)(&graph, 0));
    code = ROW(cuGraphAddNode_v2)(&node, graph, NULL, NULL, 0, &params);
    made->address = params.alloc.dptr;
    rows_launch(graph);
    return code;
}
#endif

/* ---- those that end ----------------------------------------------------------------
 */

static int take_cuMemFree_v2(struct rows_made *made)
{
    return ROW(cuMemFree_v2)(made->address);
}

static int take_cuMemFreeAsync(struct rows_made *made)
{
    return ROW(cuMemFreeAsync)(made->address, stream);
}

static int take_cuMemFreeAsync_ptsz(struct rows_made *made)
{
    return ROW(cuMemFreeAsync_ptsz)(made->address, stream);
}

static int take_cuMemFreeHost(struct rows_made *made)
{
    return ROW(cuMemFreeHost)(made->pointer);
}

static int take_cuIpcCloseMemHandle(struct rows_made *made)
{
    return ROW(cuIpcCloseMemHandle)(made->address);
}

static int take_cuMemRelease(struct rows_made *made)
{
    return ROW(cuMemRelease)(made->physical);
}

static int take_cuMemUnmap(struct rows_made *made)
{
    CUresult code = ROW(cuMemUnmap)(made->address, made->bytes);

    APP_OK(CU(cuMemAddressFree)(made->address, made->bytes));
    return code;
}

/* Of the graph's own, by a graph that frees it. */
static int take_cuGraphAddMemFreeNode(struct rows_made *made)
{
    CUgraphNode node;
    CUgraph graph;
    CUresult code;

    APP_OK(CU(cuGraphCreate)(&graph, 0));
    code = ROW(cuGraphAddMemFreeNode)(&node, graph, NULL, 0, made->address);
    rows_launch(graph);
    return (int)code;
}

static int take_cuArrayDestroy(struct rows_made *made)
{
    return ROW(cuArrayDestroy)(made->array);
}

static int take_cuMipmappedArrayDestroy(struct rows_made *made)
{
    return ROW(cuMipmappedArrayDestroy)(made->levels);
}

static int take_cuDestroyExternalMemory(struct rows_made *made)
{
    return ROW(cuDestroyExternalMemory)(made->external);
}

static int take_cuMemHostUnregister(struct rows_made *made)
{
    CUresult code = ROW(cuMemHostUnregister)(made->pointer);

    free(made->pointer);
    return code;
}

/* ---- all of them -------------------------------------------------------------------
 */

static const struct rows_maker makers[] = {
#define ROW_MAKE(symbol, like, name, since, flags, kind, bytes, owner, standing)         \
    {#symbol, #owner, #standing, make_##symbol, kind, bytes},
#define ROW_TAKE(symbol, like, name, since, flags, kinds)
#include "rows.def"
#undef ROW_TAKE
#undef ROW_MAKE
};

static const struct rows_taker takers[] = {
#define ROW_MAKE(symbol, like, name, since, flags, kind, bytes, owner, standing)
#define ROW_TAKE(symbol, like, name, since, flags, kinds) {#symbol, take_##symbol, kinds},
#include "rows.def"
#undef ROW_MISSING
#undef ROW_TAKE
#undef ROW_MAKE
};

static const struct rows_missing missing[] = {
#define ROW_MAKE(symbol, like, name, since, flags, kind, bytes, owner, standing)
#define ROW_TAKE(symbol, like, name, since, flags, kinds)
#define ROW_MISSING(symbol, reason) {#symbol, reason},
#include "rows.def"
#undef ROW_MISSING
#undef ROW_TAKE
#undef ROW_MAKE
};

/* Asked for as a thread's own, some calls lead to another row's symbol. */
static bool is_replaced(const char *symbol)
{
    size_t length = strlen(symbol);

    for (size_t i = 0; all_per_thread && i < APP_COUNT(calls); i++)
        if (strncmp(calls[i].symbol, symbol, length) == 0 &&
            strcmp(calls[i].symbol + length, "_ptsz") == 0)
            return true;
    return false;
}

static const struct rows_table table = {
    makers,  APP_COUNT(makers),  takers,     APP_COUNT(takers),
    missing, APP_COUNT(missing), is_replaced};

void rows_run(const char *way, bool keep, const struct app_peer *peer)
{
    rows_exporter = peer;
    all_per_thread = strcmp(way, "proc_ptsz") == 0;
    app_gpu_start();
    if (find_all(way))
        rows_call(&table, keep);
}

void rows_list(void)
{
    rows_print(&table);
}
