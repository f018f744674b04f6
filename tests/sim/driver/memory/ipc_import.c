/*
 * ipc_import.c - memory of this process for others, and memory of others here.
 *
 * Memory is shared by whole units: a small allocation's neighbours in its unit are mapped
 * with it, as a driver shares the block it carved the allocation from. The pointer that
 * an open gives is where the allocation begins, not where the unit does.
 *
 * Owns:  imports.   Lock: imports_lock for the list of IPC handles that are open,
 *        opening_lock around an open or close; see ipc.h.
 */
#include <stdlib.h>
#include <sys/stat.h>

#include "context.h"
#include "device.h"
#include "ipc.h"
#include "log.h"
#include "order.h"
#include "space.h"

static struct sim_import *opened; /* imports_lock; those of IPC handles */
static pthread_mutex_t imports_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t opening_lock = PTHREAD_MUTEX_INITIALIZER;

CUresult sim_share_alloc(struct sim_alloc *alloc, uint32_t pool, uint32_t pool_serial,
                         struct sim_name *out)
{
    const struct sim_space *space = alloc->heap->space;
    const struct sim_shared shared = {
        .kind = SIM_SHARE_MEMORY,
        .device = alloc->device,
        .offset = alloc->base - space->va,
        .bytes = alloc->bytes,
        .pool = pool,
        .pool_serial = pool_serial,
    };
    CUresult res = sim_ledger_enter(&alloc->share, &shared, space->fd, out);

    if (res == CUDA_SUCCESS && sim_memory_state(alloc) == SIM_MEMORY_DEAD) {
        sim_share_end(alloc); /* freed on another thread just now */
        res = CUDA_ERROR_INVALID_VALUE;
    }
    return res;
}

void sim_share_end(struct sim_alloc *alloc)
{
    if (sim_ledger_strike(&alloc->share) > 0)
        sim_log(1, "memory at %#llx is freed while another process has it open",
                (unsigned long long)alloc->base);
}

/* The units shared memory lies in. */
static size_t first_unit(const struct sim_shared *shared)
{
    return shared->offset / SIM_UNIT_BYTES;
}

static size_t unit_count(const struct sim_shared *shared)
{
    size_t end = gs_round_up(shared->offset + shared->bytes, SIM_UNIT_BYTES);

    return end / SIM_UNIT_BYTES - first_unit(shared);
}

/* Does a file have all those bytes? A process that lies about them must not harm us. */
static bool file_covers(int file, const struct sim_shared *shared)
{
    struct stat status;

    return fstat(file, &status) == 0 && shared->bytes > 0 &&
           shared->bytes <= (uint64_t)status.st_size &&
           shared->offset <= (uint64_t)status.st_size - shared->bytes;
}

static struct sim_alloc *new_alloc(struct sim_heap *heap,
                                   const struct sim_allocation *allocation,
                                   const struct sim_shared *shared)
{
    struct sim_alloc *alloc = calloc(1, sizeof(*alloc));

    if (!alloc)
        return NULL;
    alloc->import = calloc(1, sizeof(*alloc->import));
    if (!alloc->import) {
        free(alloc);
        return NULL;
    }
    alloc->import->alloc = alloc;
    alloc->import->shared = *shared;
    atomic_init(&alloc->refs, 2); /* the heap's and the caller's */
    atomic_init(&alloc->state, SIM_MEMORY_LIVE);
    alloc->bytes = shared->bytes;
    alloc->block_bytes = unit_count(shared) * SIM_UNIT_BYTES;
    alloc->id = sim_memory_next_id();
    alloc->device = shared->device;
    alloc->heap = heap;
    alloc->kind = allocation->kind;
    alloc->context = allocation->context;
    alloc->context_id = allocation->context_id;
    return alloc;
}

/* Find addresses and put the pages behind them; the allocation enters map and heap. */
static bool place(struct sim_alloc *alloc, int file)
{
    const struct sim_shared *shared = &alloc->import->shared;
    struct sim_heap *heap = alloc->heap;
    struct sim_space *space = heap->space;
    size_t count = unit_count(shared);
    size_t first;

    pthread_mutex_lock(&space->lock);
    bool placed = sim_space_take_addresses(space, count, &first);
    pthread_mutex_unlock(&space->lock);
    if (!placed)
        return false;
    if (!sim_space_show(space, first, count, file, first_unit(shared) * SIM_UNIT_BYTES)) {
        sim_space_give_addresses(space, first, count);
        return false;
    }
    alloc->base = sim_space_address(space, first) + shared->offset % SIM_UNIT_BYTES;
    pthread_mutex_lock(&space->lock);
    for (size_t i = first; i < first + count; i++)
        space->units[i].alloc = alloc;
    sim_heap_adopt(heap, alloc);
    pthread_mutex_unlock(&space->lock);
    return true;
}

static struct sim_entry *entry_of(const struct sim_import *import)
{
    return &import->process->ledger->entries[import->entry];
}

CUresult sim_import(struct sim_heap *heap, const struct sim_allocation *allocation,
                    const struct sim_name *name, struct sim_process *process,
                    struct sim_alloc **out)
{
    struct sim_shared shared;

    if (!sim_entry_read(&process->ledger->entries[name->entry], name->serial,
                        SIM_SHARE_MEMORY, &shared))
        return CUDA_ERROR_INVALID_VALUE;
    int file = sim_process_file(process, shared.device);
    if (file < 0 || !sim_device_get(shared.device) || !file_covers(file, &shared))
        return CUDA_ERROR_MAP_FAILED;
    struct sim_alloc *alloc = new_alloc(heap, allocation, &shared);
    if (!alloc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_import *import = alloc->import;
    import->process = process;
    import->entry = name->entry;
    import->serial = name->serial;
    if (!place(alloc, file)) {
        free(import);
        free(alloc);
        return CUDA_ERROR_MAP_FAILED;
    }
    pthread_mutex_lock(&imports_lock);
    atomic_fetch_add(&entry_of(import)->opens, 1);
    if (alloc->kind == SIM_MEMORY_IPC) {
        import->next = opened;
        opened = import;
    }
    pthread_mutex_unlock(&imports_lock);
    sim_order_handed_out(alloc, NULL);
    *out = alloc;
    return CUDA_SUCCESS;
}

void sim_import_end(struct sim_alloc *alloc)
{
    struct sim_import *import = alloc->import;

    if (!import)
        return;
    pthread_mutex_lock(&imports_lock);
    for (struct sim_import **link = &opened; *link; link = &(*link)->next) {
        if (*link == import) {
            *link = import->next;
            break;
        }
    }
    if (atomic_load(&entry_of(import)->serial) == import->serial)
        atomic_fetch_sub(&entry_of(import)->opens, 1);
    pthread_mutex_unlock(&imports_lock);
    struct sim_space *space = alloc->heap->space;
    size_t first = (alloc->base - space->va) / SIM_UNIT_BYTES;
    size_t count = unit_count(&import->shared);
    if (sim_space_show(space, first, count, -1, 0))
        sim_space_give_addresses(space, first, count);
    else /* better lost than with another process's pages behind them */
        sim_log_always("device %d: %zu units of addresses are lost", space->device,
                       count);
    sim_process_detach(import->process);
}

static bool overlaps(const struct sim_shared *left, const struct sim_shared *right)
{
    return left->offset < right->offset + right->bytes &&
           right->offset < left->offset + left->bytes;
}

/*
 * What else the device of that process has open here, against an open by this context.
 *
 * Out:  *same  the very same, open in this context; NULL: none. With a reference.
 */
static CUresult check_opened(const struct sim_context *context, uint64_t context_id,
                             const struct sim_name *name, const struct sim_shared *shared,
                             struct sim_alloc **same)
{
    CUresult res = CUDA_SUCCESS;

    *same = NULL;
    pthread_mutex_lock(&imports_lock);
    for (struct sim_import *import = opened; import; import = import->next) {
        const struct sim_alloc *alloc = import->alloc;
        bool is_same = import->entry == name->entry && import->serial == name->serial;
        if (import->process->nonce != name->nonce ||
            import->shared.device != shared->device ||
            alloc->context->device != context->device)
            continue;
        if (alloc->context != context || alloc->context_id != context_id)
            res = CUDA_ERROR_INVALID_HANDLE;
        else if (is_same)
            *same = import->alloc;
        else if (overlaps(&import->shared, shared))
            res = CUDA_ERROR_ALREADY_MAPPED;
    }
    if (*same)
        sim_memory_ref(*same);
    pthread_mutex_unlock(&imports_lock);
    return *same ? CUDA_SUCCESS : res;
}

/* Needs opening_lock. */
static CUresult open_in(struct sim_context *context, const struct sim_name *name,
                        struct sim_process *process, bool may_reopen, CUdeviceptr *out)
{
    const struct sim_allocation allocation = {SIM_MEMORY_IPC, context,
                                              sim_context_id(context)};
    struct sim_shared shared;
    struct sim_alloc *alloc;

    if (!sim_entry_read(&process->ledger->entries[name->entry], name->serial,
                        SIM_SHARE_MEMORY, &shared))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = check_opened(context, allocation.context_id, name, &shared, &alloc);
    bool again = res == CUDA_SUCCESS && alloc;
    if (again && !may_reopen)
        res = CUDA_ERROR_ALREADY_MAPPED;
    else if (!again && res == CUDA_SUCCESS)
        res = sim_import(&context->heap, &allocation, name, process, &alloc);
    if (res == CUDA_SUCCESS) {
        alloc->import->opens++;
        *out = alloc->base;
    }
    if (again || res == CUDA_SUCCESS)
        sim_memory_unref(alloc);
    if (again || res != CUDA_SUCCESS)
        sim_process_detach(process);
    return res;
}

CUresult sim_import_open(struct sim_context *context, const struct sim_name *name,
                         bool may_reopen, CUdeviceptr *out)
{
    struct sim_process *process;

    if (!sim_name_is_valid(name, SIM_SHARE_MEMORY))
        return CUDA_ERROR_INVALID_VALUE;

    SIM_TRY(sim_process_attach(name, &process));
    if (process->is_own) {
        sim_process_detach(process);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    pthread_mutex_lock(&opening_lock);
    CUresult res = open_in(context, name, process, may_reopen, out);
    pthread_mutex_unlock(&opening_lock);
    return res;
}

/* Wait for whoever may still work on it: the pages behind its addresses go. */
static CUresult wait_for_opener(const struct sim_alloc *alloc,
                                struct sim_context *current)
{
    if (sim_context_lives(alloc->context, alloc->context_id))
        return sim_context_wait(alloc->context);
    return sim_context_wait(current);
}

/*
 * Count one close.
 *
 * In:      waited  the opener's work has been waited for
 * Errors:  CUDA_ERROR_INVALID_VALUE; CUDA_ERROR_NOT_READY  it must be waited for first
 */
static CUresult count_close(struct sim_alloc *alloc, uintptr_t pointer, bool waited)
{
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&opening_lock);
    if (alloc->kind == SIM_MEMORY_IPC && alloc->base == pointer &&
        alloc->import->opens > 0) {
        res = CUDA_SUCCESS;
        if (alloc->import->opens == 1 && !waited)
            res = CUDA_ERROR_NOT_READY;
        else if (--alloc->import->opens == 0 && !sim_heap_free(alloc))
            res = CUDA_ERROR_INVALID_VALUE; /* its context ended meanwhile */
    }
    pthread_mutex_unlock(&opening_lock);
    return res;
}

CUresult sim_import_close(struct sim_context *context, CUdeviceptr pointer)
{
    struct sim_alloc *alloc = sim_memory_find(pointer);

    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = count_close(alloc, pointer, false);
    if (res == CUDA_ERROR_NOT_READY) { /* without the lock: work may take any time */
        res = wait_for_opener(alloc, context);
        if (res == CUDA_SUCCESS)
            res = count_close(alloc, pointer, true);
    }
    sim_memory_unref(alloc);
    return res;
}
