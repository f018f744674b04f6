/*
 * case_ipc_pool.c - memory pools that two processes share: the pool by its file, each
 * allocation by its export data.
 */
#include "case_ipc_help.h"
#include "case_memory_help.h"

#include <unistd.h>

#define FILES CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUmemoryPool new_pool(CUmemAllocationHandleType types)
{
    CUmemoryPool pool = NULL;
    CUmemPoolProps props;

    memset(&props, 0, sizeof(props));
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = types;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = the_device();
    CHECK_OK(cuMemPoolCreate(&pool, &props));
    return pool;
}

static bool can_share(void)
{
    int types = 0;

    if (device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        types = device_attribute(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
    if (!(types & FILES))
        skip("no pools that are shared by file descriptors");
    return types & FILES;
}

static CUdeviceptr alloc_from(CUmemoryPool pool, uint32_t word)
{
    CUdeviceptr pointer = 0;

    if (CHECK_OK(cuMemAllocFromPoolAsync(&pointer, BYTES, pool, NULL))) {
        CHECK_OK(cuMemsetD32Async(pointer, word, WORDS, NULL));
        CHECK_OK(cuStreamSynchronize(NULL));
    }
    return pointer;
}

static void free_here(CUdeviceptr pointer)
{
    if (pointer) {
        CHECK_OK(cuMemFreeAsync(pointer, NULL));
        CHECK_OK(cuStreamSynchronize(NULL));
    }
}

/* A pool of ours with one allocation, both known to a second process. */
static struct pair {
    struct remote remote;
    CUmemoryPool pool;
    CUdeviceptr here, there;
    uint64_t pool_there;
} pair;

static uint64_t import_pool(struct remote *remote, CUmemoryPool pool)
{
    struct remote_call call = {.what = REMOTE_POOL_IMPORT};
    int fd = -1;

    if (!CHECK_OK(cuMemPoolExportToShareableHandle(&fd, pool, FILES, 0)))
        return 0;
    struct remote_answer answer = remote_ask_full(remote, &call, fd, NULL);
    CHECK_ASKED(answer, CUDA_SUCCESS);
    close(fd);
    return answer.x;
}

static CUdeviceptr import_pointer(void)
{
    CUmemPoolPtrExportData data;

    if (!CHECK_OK(cuMemPoolExportPointer(&data, pair.here)))
        return 0;
    struct remote_answer answer =
        remote_give(&pair.remote, REMOTE_POOL_IMPORT_POINTER, pair.pool_there, &data);
    CHECK_ASKED(answer, CUDA_SUCCESS);
    return (CUdeviceptr)answer.x;
}

static bool begin(void)
{
    pair = (struct pair){.here = 0};
    if (!can_share() || !start_remote(&pair.remote))
        return false;
    pair.pool = new_pool(FILES);
    pair.here = alloc_from(pair.pool, HERE);
    pair.pool_there = import_pool(&pair.remote, pair.pool);
    pair.there = import_pointer();
    return true;
}

static void end(void)
{
    if (pair.there)
        CHECK_ASKED(remote_ask(&pair.remote, REMOTE_POOL_FREE, pair.there, 0, 0),
                    CUDA_SUCCESS);
    CHECK_ASKED(remote_ask(&pair.remote, REMOTE_POOL_END, pair.pool_there, 0, 0),
                CUDA_SUCCESS);
    end_remote(&pair.remote);
    free_here(pair.here);
    CHECK_OK(cuMemPoolDestroy(pair.pool));
}

#define PAIR_CASE(label, ...) FIXTURE_CASE(begin, end, ipc, label, __VA_ARGS__)

static uint32_t pool_word_there(size_t index)
{
    struct remote_answer answer =
        remote_ask(&pair.remote, REMOTE_READ, pair.there + 4 * index, 0, 0);

    CHECK_ASKED(answer, CUDA_SUCCESS);
    return (uint32_t)answer.x;
}

static uint32_t pool_word_here(CUdeviceptr pointer, size_t index)
{
    uint32_t word = 0;

    CHECK_OK(cuMemcpyDtoH(&word, pointer + 4 * index, sizeof(word)));
    return word;
}

PAIR_CASE(pool_is_seen_there, DRIVER_API, "cuMemPoolImportPointer",
          "Returns in ptr_out a pointer to the imported memory: seen from both sides")
{
    CHECK_EQUAL(pool_word_there(0), HERE);
    CHECK_EQUAL(pool_word_there(WORDS - 1), HERE);
    CHECK_ASKED(remote_ask(&pair.remote, REMOTE_FILL, pair.there, THERE, 2),
                CUDA_SUCCESS);
    CHECK_EQUAL(pool_word_here(pair.here, 1), THERE);
    CHECK_EQUAL(pool_word_here(pair.here, 2), HERE);
}

PAIR_CASE(
    pool_free_there, DRIVER_API, "cuMemPoolImportPointer",
    "The pointer may be freed with cuMemFree or cuMemFreeAsync: the exporting process "
    "still has its own")
{
    CHECK_ASKED(remote_ask(&pair.remote, REMOTE_POOL_FREE, pair.there, 0, 0),
                CUDA_SUCCESS);
    CHECK_EQUAL(pool_word_here(pair.here, 5), HERE);
    pair.there = import_pointer();
    CHECK_EQUAL(pool_word_there(5), HERE);
    CHECK_ASKED(remote_ask(&pair.remote, REMOTE_FREE, pair.there, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(pool_word_here(pair.here, 5), HERE);
    pair.there = 0;
}

PAIR_CASE(
    pool_several_pointers, DRIVER_API, "cuMemPoolExportPointer",
    "Constructs data for sharing a specific allocation from an already shared memory "
    "pool")
{
    CUdeviceptr first_here = pair.here, first_there = pair.there;
    pair.here = alloc_from(pair.pool, HERE + 1);
    pair.there = import_pointer();
    CHECK_EQUAL(pool_word_there(0), HERE + 1);
    CHECK_ASKED(remote_ask(&pair.remote, REMOTE_POOL_FREE, pair.there, 0, 0),
                CUDA_SUCCESS);
    free_here(pair.here);
    pair.here = first_here;
    pair.there = first_there;
    CHECK_EQUAL(pool_word_there(0), HERE);
}

PAIR_CASE(pool_imported_gives_nothing, DRIVER_API, "cuMemPoolImportFromShareableHandle",
          "Imported memory pools do not support creating new allocations: not by "
          "cuMemAllocFromPoolAsync")
{
    CHECK(remote_ask(&pair.remote, REMOTE_POOL_ALLOC, pair.pool_there, BYTES, 0).code !=
          CUDA_SUCCESS);
}

PAIR_CASE(pool_imported_is_not_current, DRIVER_API, "cuMemPoolImportFromShareableHandle",
          "Imported memory pools may not be used in cuDeviceSetMemPool")
{
    CHECK(remote_ask(&pair.remote, REMOTE_POOL_USE, pair.pool_there, 0, 0).code !=
          CUDA_SUCCESS);
}

PAIR_CASE(
    pool_handle_there, DRIVER_API, "cuPointerGetAttribute",
    "MEMPOOL_HANDLE returns the mempool handle for the allocation if it was allocated "
    "from a mempool: the imported one's in the importing process")
{
    struct remote_answer pool = remote_ask(&pair.remote, REMOTE_ATTRIBUTE, pair.there,
                                           CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 0);
    CHECK_ASKED(pool, CUDA_SUCCESS);
    CHECK_EQUAL(pool.x, pair.pool_there);
}

CASE_WHERE(
    can_share, ipc, pool_not_to_be_shared, DRIVER_API, "cuMemPoolCreate",
    "Specifying CU_MEM_HANDLE_TYPE_NONE creates a memory pool that will not support IPC")
{
    CUmemPoolPtrExportData data;
    int fd = -1;

    CUmemoryPool pool = new_pool(CU_MEM_HANDLE_TYPE_NONE);
    CUdeviceptr pointer = alloc_from(pool, HERE);
    CHECK_INVALID(cuMemPoolExportToShareableHandle(&fd, pool, FILES, 0));
    CHECK_INVALID(cuMemPoolExportPointer(&data, pointer));
    free_here(pointer);
    CHECK_OK(cuMemPoolDestroy(pool));
}

CASE_WHERE(can_share, ipc, pool_export_arguments, DRIVER_API,
           "cuMemPoolExportToShareableHandle",
           "flags must be 0; handle_out is the returned OS handle")
{
    int fd = -1;

    CUmemoryPool pool = new_pool(FILES);
    CHECK_INVALID(cuMemPoolExportToShareableHandle(&fd, pool, FILES, 1));
    CHECK_INVALID(cuMemPoolExportToShareableHandle(NULL, pool, FILES, 0));
    CHECK_INVALID(cuMemPoolExportToShareableHandle(&fd, NULL, FILES, 0));
    CHECK_OK(cuMemPoolDestroy(pool));
}

CASE(ipc, pool_export_of_other_memory, DRIVER_API, "cuMemPoolExportPointer",
     "Shares a specific allocation from an already shared memory pool: not what "
     "cuMemAlloc gave")
{
    MEMORY pointer = device_get(BYTES);
    CUmemPoolPtrExportData data;

    if (can_share())
        CHECK_INVALID(cuMemPoolExportPointer(&data, pointer));
}

CASE_WHERE(can_share, ipc, pool_import_into_another, DRIVER_API, "cuMemPoolImportPointer",
           "pool is the one from which to import: not one that was made here")
{
    CUmemPoolPtrExportData data;
    CUdeviceptr imported = 0;

    CUmemoryPool pool = new_pool(FILES), other = new_pool(FILES);
    CUdeviceptr pointer = alloc_from(pool, HERE);
    if (CHECK_OK(cuMemPoolExportPointer(&data, pointer)))
        CHECK(cuMemPoolImportPointer(&imported, other, &data) != CUDA_SUCCESS);
    free_here(pointer);
    CHECK_OK(cuMemPoolDestroy(pool));
    CHECK_OK(cuMemPoolDestroy(other));
}
