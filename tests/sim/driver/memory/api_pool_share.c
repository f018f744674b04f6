/*
 * api_pool_share.c - pools that processes share: a pool's file, and its allocations by
 * name.
 *
 * The file descriptor a pool is exported by is a sealed memfd that holds the pool's name
 * (ipc.h). An imported pool has no memory of its own; what is imported from it hangs on
 * its heap, and a free ends the import alone.
 *
 * Owns:  nothing but what pools refer to.   Lock: none of its own.
 * Source: Driver API, "Stream Ordered Memory Allocator".
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "context.h"
#include "device.h"
#include "ipc.h"
#include "pool.h"
#include "thread.h"

/* The pool's own name, entered in the ledger at the first need. */
static CUresult name_pool(struct sim_pool *pool, struct sim_name *out)
{
    const struct sim_shared shared = {.kind = SIM_SHARE_POOL, .device = pool->device};

    return sim_ledger_enter(&pool->share, &shared, -1, out);
}

void sim_pool_end_sharing(struct sim_pool *pool)
{
    sim_ledger_strike(&pool->share);
    if (pool->owner)
        sim_process_detach(pool->owner);
}

/* A file that holds a name and never anything else. */
static CUresult make_file(const struct sim_name *name, int *out)
{
    int fd = memfd_create("cudasim-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (pwrite(fd, name, sizeof(*name), 0) != (ssize_t)sizeof(*name) ||
        fcntl(fd, F_ADD_SEALS,
              F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = fd;
    return CUDA_SUCCESS;
}

/* False if the descriptor is none of such a file. */
static bool read_file(int fd, struct sim_name *out)
{
    struct stat status;

    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
           status.st_size == (off_t)sizeof(*out) &&
           pread(fd, out, sizeof(*out), 0) == (ssize_t)sizeof(*out) &&
           sim_name_is_valid(out, SIM_SHARE_POOL);
}

static CUresult export_pool(CUmemoryPool handle, CUmemAllocationHandleType type, int *out)
{
    struct sim_pool *pool = sim_pool_get(handle);
    struct sim_name name;
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    if (!pool)
        return res;
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
        (pool->handle_types & (unsigned)type))
        res = name_pool(pool, &name);
    sim_pool_put(pool);
    return res == CUDA_SUCCESS ? make_file(&name, out) : res;
}

SIM_API(cuMemPoolExportToShareableHandle, void *out, CUmemoryPool pool,
        CUmemAllocationHandleType type, unsigned long long flags)
{
    int fd;

    SIM_TRY(sim_enter(SIM_ID_cuMemPoolExportToShareableHandle));
    if (!out || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = export_pool(pool, type, &fd);
    if (res == CUDA_SUCCESS)
        memcpy(out, &fd, sizeof(fd));
    return res;
}

/* The process's reference passes to the pool, also on failure. */
static CUresult import_pool(const struct sim_name *name, struct sim_process *process,
                            CUmemoryPool *out)
{
    struct sim_shared shared;
    struct sim_pool *pool;
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    if (sim_entry_read(&process->ledger->entries[name->entry], name->serial,
                       SIM_SHARE_POOL, &shared) &&
        sim_device_get(shared.device))
        res = sim_pool_create(shared.device, false, 0, &pool);
    if (res != CUDA_SUCCESS) {
        sim_process_detach(process);
        return res;
    }
    pool->owner = process;
    pool->owner_entry = name->entry;
    pool->owner_serial = name->serial;
    *out = pool->object.handle;
    sim_pool_put(pool);
    return CUDA_SUCCESS;
}

SIM_API(cuMemPoolImportFromShareableHandle, CUmemoryPool *out, void *handle,
        CUmemAllocationHandleType type, unsigned long long flags)
{
    struct sim_process *process;
    struct sim_name name;

    SIM_TRY(sim_enter(SIM_ID_cuMemPoolImportFromShareableHandle));
    if (!out || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        (uintptr_t)handle > INT32_MAX || !read_file((int)(uintptr_t)handle, &name) ||
        sim_process_attach(&name, &process) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    return import_pool(&name, process, out);
}

static CUresult export_pointer(struct sim_alloc *alloc, CUdeviceptr pointer,
                               struct sim_name *out)
{
    struct sim_pool *pool = alloc->pool;
    struct sim_name name;

    if (alloc->kind != SIM_MEMORY_POOL || alloc->base != pointer || alloc->import ||
        !pool || !pool->handle_types || sim_memory_state(alloc) != SIM_MEMORY_LIVE)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = name_pool(pool, &name);
    if (res == CUDA_SUCCESS)
        res = sim_share_alloc(alloc, name.entry, name.serial, out);
    return res;
}

SIM_API(cuMemPoolExportPointer, CUmemPoolPtrExportData *out, CUdeviceptr pointer)
{
    struct sim_name name;

    SIM_TRY(sim_enter(SIM_ID_cuMemPoolExportPointer));
    struct sim_alloc *alloc = out ? sim_memory_find(pointer) : NULL;
    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = export_pointer(alloc, pointer, &name);
    sim_memory_unref(alloc);
    if (res == CUDA_SUCCESS)
        memcpy(out, &name, sizeof(name));
    return res;
}

/* Does the name speak of an allocation of the pool this one was imported from? */
static bool is_of_pool(const struct sim_name *name, const struct sim_pool *pool)
{
    struct sim_shared shared;

    return pool->owner && name->nonce == pool->owner->nonce &&
           sim_entry_read(&pool->owner->ledger->entries[name->entry], name->serial,
                          SIM_SHARE_MEMORY, &shared) &&
           shared.pool == pool->owner_entry && shared.pool_serial == pool->owner_serial;
}

static CUresult import_pointer(struct sim_pool *pool, const struct sim_name *name,
                               CUdeviceptr *out)
{
    struct sim_context *context = sim_thread_current();
    const struct sim_allocation allocation = {SIM_MEMORY_POOL, context,
                                              context ? sim_context_id(context) : 0};
    struct sim_process *process;
    struct sim_alloc *alloc;

    if (!sim_name_is_valid(name, SIM_SHARE_MEMORY) || !is_of_pool(name, pool) ||
        sim_process_attach(name, &process) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = sim_import(&pool->heap, &allocation, name, process, &alloc);
    if (res != CUDA_SUCCESS) {
        sim_process_detach(process);
        return res == CUDA_ERROR_MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : res;
    }
    sim_object_ref(&pool->object);
    alloc->pool = pool;
    *out = alloc->base;
    sim_memory_unref(alloc);
    return CUDA_SUCCESS;
}

SIM_API(cuMemPoolImportPointer, CUdeviceptr *out, CUmemoryPool handle,
        CUmemPoolPtrExportData *data)
{
    struct sim_name name;

    SIM_TRY(sim_enter(SIM_ID_cuMemPoolImportPointer));
    struct sim_pool *pool = out && data ? sim_pool_get(handle) : NULL;
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&name, data, sizeof(name));
    CUresult res = import_pointer(pool, &name, out);
    sim_pool_put(pool);
    return res;
}
