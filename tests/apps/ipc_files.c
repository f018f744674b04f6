/*
 * ipc_files.c - what is shared with another process otherwise than by a memory handle.
 * ipc_files WAY
 *
 * Proves that pooled memory has the files and names that the driver's own has, and that
 * what is shared by the driver's means alone goes through unchanged.
 *
 *   dmabuf  a file for a range of blocks (dma-buf)
 *   pool    a memory pool's file, and pointers of its; and pointers of the default pool
 *   vmm     a physical allocation's file
 *   event   an event that orders work on a block whose handle was exported
 */
#include <unistd.h>

#include "launch.h"
#include "peer.h"
#include "share.h"

enum { DMA_BUF = 1, SEED = 70 };

#define BYTES (192 * APP_KIB)

static void answer(const struct app_peer *peer, int right)
{
    app_peer_send(peer, &right, sizeof(right), -1);
}

static void print_answer(const struct app_peer *peer, const char *what)
{
    int right = 0;

    app_peer_receive(peer, &right, sizeof(right));
    printf("%s: %s\n", what, right ? "right" : "wrong");
    app_expect(right, what);
}

/* ---- dma-buf ----------------------------------------------------------------------- */

#if CUDA_VERSION >= 11070
static int get_file(CUdeviceptr address, size_t bytes, int *file)
{
    *file = -1;
    return (int)CU(cuMemGetHandleForAddressRange)(file, address, bytes,
                                                  (CUmemRangeHandleType)DMA_BUF, 0);
}

/* A block and a file for it, whose place in the file is where it stands. */
static void offer_range(const struct app_peer *peer, gpu_ptr block, uint32_t seed)
{
    int file, code = get_file(gpu_address(block), BYTES, &file);

    app_peer_send(peer, &code, sizeof(code), file);
    printf("file for a range: %d\n", code);
    if (code != 0)
        return;
    close(file);
    print_answer(peer, "read through it");
    app_expect(app_share_holds(gpu_address(block), BYTES, seed + 1),
               "what was written through it");
}

static void export_ranges(const struct app_peer *peer)
{
    gpu_ptr small, blocks[4];
    int file, code;

    for (uint32_t i = 0; i < APP_COUNT(blocks); i++) {
        APP_OK(gpu_malloc(&blocks[i], BYTES));
        app_share_put(gpu_address(blocks[i]), BYTES, SEED + i);
    }
    for (uint32_t i = 0; i < APP_COUNT(blocks); i++)
        offer_range(peer, blocks[i], SEED + i);
    APP_OK(gpu_malloc(&small, 512));
    for (uint32_t i = 0; i < APP_COUNT(blocks); i++)
        APP_OK(gpu_free(blocks[i]));
    code = get_file(gpu_address(blocks[0]), BYTES, &file);
    printf("file for freed memory: %d\n", code);
    printf("file for 100 bytes: %d\n", get_file(gpu_address(small), 100, &file));
    APP_OK(gpu_free(small));
}

static void import_ranges(const struct app_peer *peer)
{
    static char bytes[BYTES];

    for (uint32_t i = 0; i < 4; i++) {
        int code, file = app_peer_receive(peer, &code, sizeof(code));
        off_t place = file < 0 ? -1 : lseek(file, 0, SEEK_CUR);

        if (code != 0)
            continue;
        app_expect(pread(file, bytes, BYTES, place) == BYTES, "read the range");
        bool right = app_bytes_match(bytes, BYTES, SEED + i);
        app_bytes_fill(bytes, BYTES, SEED + i + 1);
        app_expect(pwrite(file, bytes, BYTES, place) == BYTES, "write the range");
        close(file);
        answer(peer, right);
    }
}
#else
static void export_ranges(const struct app_peer *peer)
{
    (void)peer;
    printf("not known to these headers\n");
}
#define import_ranges export_ranges
#endif

/* ---- memory pools ------------------------------------------------------------------ */

static CUmemoryPool make_pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemoryPool pool;

    APP_OK(CU(cuMemPoolCreate)(&pool, &props));
    return pool;
}

static void export_default(void)
{
    CUmemPoolPtrExportData data;
    CUipcMemHandle handle;
    gpu_ptr block;

    APP_OK(gpu_malloc_async(&block, BYTES, NULL));
    printf("pointer of the default pool: %d, its handle %d\n",
           (int)CU(cuMemPoolExportPointer)(&data, gpu_address(block)),
           (int)CU(cuIpcGetMemHandle)(&handle, gpu_address(block)));
    APP_OK(gpu_free_async(block, NULL));
}

static void export_pool(const struct app_peer *peer)
{
    CUmemPoolPtrExportData data;
    CUmemoryPool pool = make_pool();
    CUdeviceptr block;
    int file;

    export_default();
    APP_OK(CU(cuMemPoolExportToShareableHandle)(
        &file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    APP_OK(CU(cuMemAllocFromPoolAsync)(&block, BYTES, pool, NULL));
    app_share_put(block, BYTES, SEED);
    APP_OK(CU(cuMemPoolExportPointer)(&data, block));
    app_peer_send(peer, &data, sizeof(data), file);
    close(file);
    print_answer(peer, "pointer of a shared pool");
    app_expect(app_share_holds(block, BYTES, SEED + 1), "what was written through it");
    APP_OK(CU(cuMemFreeAsync)(block, NULL));
    APP_OK(CU(cuCtxSynchronize)());
    APP_OK(CU(cuMemPoolDestroy)(pool));
}

static void import_pool(const struct app_peer *peer)
{
    CUmemPoolPtrExportData data;
    CUmemoryPool pool;
    CUdeviceptr block;
    int file = app_peer_receive(peer, &data, sizeof(data));

    APP_OK(CU(cuMemPoolImportFromShareableHandle)(
        &pool, (void *)(uintptr_t)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    APP_OK(CU(cuMemPoolImportPointer)(&block, pool, &data));
    int right = app_share_holds(block, BYTES, SEED);
    app_share_put(block, BYTES, SEED + 1);
    APP_OK(CU(cuMemFreeAsync)(block, NULL));
    APP_OK(CU(cuCtxSynchronize)());
    APP_OK(CU(cuMemPoolDestroy)(pool));
    answer(peer, right);
}

/* ---- physical allocations ---------------------------------------------------------- */

static CUdeviceptr map(CUmemGenericAllocationHandle physical, size_t bytes)
{
    CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address;

    APP_OK(CU(cuMemAddressReserve)(&address, bytes, 0, 0, 0));
    APP_OK(CU(cuMemMap)(address, bytes, 0, physical, 0));
    APP_OK(CU(cuMemSetAccess)(address, bytes, &access, 1));
    return address;
}

static void unmap(CUmemGenericAllocationHandle physical, CUdeviceptr address,
                  size_t bytes)
{
    APP_OK(CU(cuMemUnmap)(address, bytes));
    APP_OK(CU(cuMemAddressFree)(address, bytes));
    APP_OK(CU(cuMemRelease)(physical));
}

static void export_physical(const struct app_peer *peer)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes =
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle physical;
    CUdeviceptr address;
    size_t bytes;
    int file;

    APP_OK(CU(cuMemGetAllocationGranularity)(&bytes, &prop,
                                             CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    APP_OK(CU(cuMemCreate)(&physical, bytes, &prop, 0));
    address = map(physical, bytes);
    app_share_put(address, bytes, SEED);
    APP_OK(CU(cuMemExportToShareableHandle)(&file, physical,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    app_peer_send(peer, &bytes, sizeof(bytes), file);
    close(file);
    print_answer(peer, "a physical allocation");
    app_expect(app_share_holds(address, bytes, SEED + 1), "what was written through it");
    unmap(physical, address, bytes);
}

static void import_physical(const struct app_peer *peer)
{
    CUmemGenericAllocationHandle physical;
    CUdeviceptr address;
    size_t bytes;
    int file = app_peer_receive(peer, &bytes, sizeof(bytes)), right;

    APP_OK(CU(cuMemImportFromShareableHandle)(&physical, (void *)(uintptr_t)file,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    address = map(physical, bytes);
    right = app_share_holds(address, bytes, SEED);
    app_share_put(address, bytes, SEED + 1);
    unmap(physical, address, bytes);
    close(file);
    answer(peer, right);
}

/* ---- events ------------------------------------------------------------------------ */

struct ordered {
    CUipcMemHandle memory;
    CUipcEventHandle event;
};

static void export_event(const struct app_peer *peer)
{
    struct app_kernels kernels;
    struct ordered ordered;
    gpu_ptr block;
    CUevent event;

    app_kernels_load(&kernels);
    APP_OK(gpu_malloc(&block, 4 * APP_MIB));
    APP_OK(CU(cuEventCreate)(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    APP_OK(CU(cuIpcGetMemHandle)(&ordered.memory, gpu_address(block)));
    APP_OK(CU(cuIpcGetEventHandle)(&ordered.event, event));
    app_spin(&kernels, 20000000, NULL);
    APP_OK(gpu_set(block, 9, 4096));
    APP_OK(CU(cuEventRecord)(event, NULL));
    app_peer_send(peer, &ordered, sizeof(ordered), -1);
    print_answer(peer, "behind an event");
    APP_OK(CU(cuEventDestroy)(event));
    APP_OK(gpu_free(block));
    app_kernels_unload(&kernels);
}

static void import_event(const struct app_peer *peer)
{
    struct ordered ordered;
    unsigned char bytes[4096];
    CUdeviceptr block;
    CUevent event;
    int right = 1;

    app_peer_receive(peer, &ordered, sizeof(ordered));
    APP_OK(CU(cuIpcOpenMemHandle)(&block, ordered.memory,
                                  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    APP_OK(CU(cuIpcOpenEventHandle)(&event, ordered.event));
    APP_OK(CU(cuEventSynchronize)(event));
    APP_OK(CU(cuEventQuery)(event));
    APP_OK(CU(cuMemcpyDtoH)(bytes, block, sizeof(bytes)));
    for (size_t i = 0; i < sizeof(bytes); i++)
        right &= bytes[i] == 9;
    APP_OK(CU(cuEventDestroy)(event));
    APP_OK(CU(cuIpcCloseMemHandle)(block));
    answer(peer, right);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*exports)(const struct app_peer *), (*imports)(const struct app_peer *);
    } ways[] = {{"dmabuf", export_ranges, import_ranges},
                {"pool", export_pool, import_pool},
                {"vmm", export_physical, import_physical},
                {"event", export_event, import_event}};
    struct app_peer peer;
    bool imports = app_peer_is(argc, argv, &peer);
    const char *name = argc < 2 ? "" : argv[argc - 1];

    if (!imports)
        app_peer_start(argv, &peer);
    app_gpu_start();
    for (size_t i = 0; i < APP_COUNT(ways); i++)
        if (strcmp(name, ways[i].name) == 0)
            (imports ? ways[i].imports : ways[i].exports)(&peer);
    if (!imports)
        app_expect(app_peer_end(&peer), "end of the other process");
    app_gpu_stop();
    return 0;
}
