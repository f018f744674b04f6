/*
 * sim_ipc_pools.c - proves of pools between processes what is the simulated device's own
 * affair: files that are none of a pool, pools that end first, imports in their stream.
 * What is documented stands in tests/sim/conformance/case_ipc_pool.c.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "sim_ipc_helpers.h"

#define FILES CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define BYTES 10000
#define WORD  0x12345678u

static CUmemoryPool new_pool(CUmemAllocationHandleType types)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = types,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;

    ok(cuMemPoolCreate(&pool, &props));
    return pool;
}

static CUdeviceptr alloc_from(CUmemoryPool pool)
{
    CUdeviceptr pointer;

    ok(cuMemAllocFromPoolAsync(&pointer, BYTES, pool, NULL));
    ok(cuMemsetD32Async(pointer, WORD, BYTES / 4, NULL));
    ok(cuCtxSynchronize());
    return pointer;
}

static CUresult import_fd(int fd, CUmemoryPool *out)
{
    return cuMemPoolImportFromShareableHandle(out, (void *)(uintptr_t)fd, FILES, 0);
}

/* A pool and an allocation of the other process, imported here. */
struct imported {
    uint64_t pool_there, there;
    CUmemoryPool pool;
    CUdeviceptr pointer;
    CUmemPoolPtrExportData data;
};

static void import_all(struct remote *remote, struct imported *out)
{
    struct remote_call call = {.what = REMOTE_POOL_EXPORT};
    int fd = -1;

    out->pool_there = sim_remote_do(remote, REMOTE_POOL_NEW, FILES, 0, 0);
    out->there = sim_remote_do(remote, REMOTE_POOL_ALLOC, out->pool_there, BYTES, 0);
    sim_remote_do(remote, REMOTE_FILL, out->there, WORD, BYTES / 4);
    call.a = out->pool_there;
    ok(remote_ask_full(remote, &call, -1, &fd).code);
    ok(import_fd(fd, &out->pool));
    close(fd);
    struct remote_answer data =
        remote_ask(remote, REMOTE_POOL_EXPORT_POINTER, out->there, 0, 0);
    ok(data.code);
    memcpy(&out->data, data.blob, sizeof(out->data));
    ok(cuMemPoolImportPointer(&out->pointer, out->pool, &out->data));
}

Test(sim_ipc_pools, an_import_is_freed_in_its_stream)
{
    struct imported imported;
    struct sim_latch latch;
    struct remote remote;
    CUstream stream;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    import_all(&remote, &imported);
    cr_assert_eq(sim_test_word(imported.pointer), WORD);
    sim_latch_block(&latch, stream);
    ok(cuMemsetD32Async(imported.pointer, 7, 1, stream));
    ok(cuMemFreeAsync(imported.pointer, stream));
    fails(cuMemFreeAsync(imported.pointer, stream), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFree(imported.pointer), CUDA_ERROR_INVALID_VALUE);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    fails(cuMemsetD32(imported.pointer, 7, 1), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(sim_remote_do(&remote, REMOTE_READ, imported.there, 0, 0), 7);
    sim_remote_do(&remote, REMOTE_POOL_FREE, imported.there, 0, 0);
    fails(cuMemPoolImportPointer(&imported.pointer, imported.pool, &imported.data),
          CUDA_ERROR_INVALID_VALUE);
    sim_remote_end(&remote);
}

Test(sim_ipc_pools, an_import_outlives_both_pools_and_the_exporter)
{
    struct imported imported;
    struct remote remote;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    import_all(&remote, &imported);
    ok(cuMemPoolDestroy(imported.pool));
    sim_remote_do(&remote, REMOTE_POOL_END, imported.pool_there, 0, 0);
    cr_assert_eq(sim_test_word(imported.pointer), WORD);
    sim_remote_kill(&remote, true);
    cr_assert_eq(sim_test_word(imported.pointer + BYTES - 4), WORD);
    ok(cuMemFree(imported.pointer));
    fails(cuMemFree(imported.pointer), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_ipc_pools, the_exporter_may_free_first)
{
    struct imported imported;
    struct remote remote;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    import_all(&remote, &imported);
    sim_remote_do(&remote, REMOTE_POOL_FREE, imported.there, 0, 0);
    ok(cuMemsetD32(imported.pointer, 1, BYTES / 4));
    ok(cuCtxSynchronize());
    ok(cuMemFree(imported.pointer));
    sim_remote_end(&remote);
}

Test(sim_ipc_pools, in_one_process)
{
    CUmemPoolPtrExportData data;
    CUmemoryPool imported, of;
    CUdeviceptr pointer, second;
    int fd;

    sim_test_start("1", "16M");
    CUmemoryPool pool = new_pool(FILES);
    pointer = alloc_from(pool);
    ok(cuMemPoolExportToShareableHandle(&fd, pool, FILES, 0));
    ok(import_fd(fd, &imported));
    ok(cuMemPoolExportPointer(&data, pointer));
    ok(cuMemPoolImportPointer(&second, imported, &data));
    cr_assert_neq(second, pointer);
    cr_assert_eq(sim_test_word(second), WORD);
    ok(cuMemsetD32(second, 3, 1));
    cr_assert_eq(sim_test_word(pointer), 3);
    ok(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, second));
    cr_assert_eq(of, imported);
    fails(cuMemAllocFromPoolAsync(&second, 1000, imported, NULL),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuDeviceSetMemPool(0, imported), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPoolExportToShareableHandle(&fd, imported, FILES, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPoolExportPointer(&data, second), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPoolImportPointer(&second, pool, &data), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_ipc_pools, a_pool_is_no_other_pools)
{
    CUmemPoolPtrExportData data;
    CUmemoryPool imported;
    CUdeviceptr pointer;
    int fd;

    sim_test_start("1", "16M");
    CUmemoryPool first = new_pool(FILES), second = new_pool(FILES);
    ok(cuMemPoolExportToShareableHandle(&fd, first, FILES, 0));
    ok(import_fd(fd, &imported));
    ok(cuMemPoolExportPointer(&data, alloc_from(second)));
    fails(cuMemPoolImportPointer(&pointer, imported, &data), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemPoolExportPointer(&data, alloc_from(first)));
    ok(cuMemPoolImportPointer(&pointer, imported, &data));
    for (size_t i = 0; i < sizeof(data); i++) {
        CUmemPoolPtrExportData changed = data;
        changed.reserved[i] ^= 1;
        fails(cuMemPoolImportPointer(&pointer, imported, &changed),
              CUDA_ERROR_INVALID_VALUE);
    }
    fails(cuMemPoolImportPointer(NULL, imported, &data), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPoolImportPointer(&pointer, imported, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPoolImportPointer(&pointer, NULL, &data), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPoolExportPointer(NULL, pointer), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_ipc_pools, other_files_are_none)
{
    static const char zeros[64];
    CUmemoryPool pool;
    int ends[2];

    sim_test_start("1", "16M");
    int fake = memfd_create("fake", 0), null = open("/dev/null", O_RDWR);
    cr_assert_eq(write(fake, zeros, sizeof(zeros)), (ssize_t)sizeof(zeros));
    cr_assert_eq(pipe(ends), 0);
    fails(import_fd(fake, &pool), CUDA_ERROR_INVALID_VALUE);
    fails(import_fd(null, &pool), CUDA_ERROR_INVALID_VALUE);
    fails(import_fd(ends[0], &pool), CUDA_ERROR_INVALID_VALUE);
    fails(import_fd(12345, &pool), CUDA_ERROR_INVALID_VALUE);
    fails(import_fd(-1, &pool), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_ipc_pools, the_file_cannot_be_changed)
{
    CUmemoryPool imported;
    int fd;

    sim_test_start("1", "16M");
    CUmemoryPool pool = new_pool(FILES);
    ok(cuMemPoolExportToShareableHandle(&fd, pool, FILES, 0));
    cr_assert_eq(pwrite(fd, "x", 1, 3), -1);
    cr_assert_eq(ftruncate(fd, 0), -1);
    fails(cuMemPoolImportFromShareableHandle(&imported, (void *)(uintptr_t)fd,
                                             CU_MEM_HANDLE_TYPE_NONE, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPoolImportFromShareableHandle(&imported, (void *)(uintptr_t)fd, FILES, 1),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPoolImportFromShareableHandle(NULL, (void *)(uintptr_t)fd, FILES, 0),
          CUDA_ERROR_INVALID_VALUE);
    ok(cuMemPoolDestroy(pool));
    fails(import_fd(fd, &imported), CUDA_ERROR_INVALID_VALUE); /* it is gone */
}

Test(sim_ipc_pools, kinds_of_handles)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_WIN32,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemPoolPtrExportData data;
    CUmemoryPool pool;
    CUdeviceptr pointer;
    int fd;

    sim_test_start("1", "16M");
    fails(cuMemPoolCreate(&pool, &props), CUDA_ERROR_NOT_SUPPORTED);
    pool = new_pool(CU_MEM_HANDLE_TYPE_NONE);
    fails(cuMemPoolExportToShareableHandle(&fd, pool, FILES, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPoolExportPointer(&data, alloc_from(pool)), CUDA_ERROR_INVALID_VALUE);
    pool = new_pool(FILES);
    fails(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_WIN32, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPoolExportToShareableHandle(&fd, pool, FILES, 1),
          CUDA_ERROR_INVALID_VALUE);
    pointer = alloc_from(pool);
    fails(cuMemPoolExportPointer(&data, pointer + 512), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemFreeAsync(pointer, NULL));
    fails(cuMemPoolExportPointer(&data, pointer), CUDA_ERROR_INVALID_VALUE);
}
