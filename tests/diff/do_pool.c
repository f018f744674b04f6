/*
 * do_pool.c - stream-ordered memory and its pools.
 */
#include <string.h>

#include "do.h"

void diff_async_made(struct diff_call *call, struct diff_memory *memory,
                     const struct diff_use *use, CUresult code, CUdeviceptr at,
                     size_t bytes)
{
    diff_code(call, "code", code);
    diff_say_full(call, code, bytes);
    if (code != CUDA_SUCCESS) {
        diff_not_used(call, use);
        return;
    }
    diff_memory_made(call, memory, use->captured ? 'n' : 'a', at, bytes);
    memory->source = call->world->capture;
    if (use->line < LINE_LEGACY) /* it is on the stream's device */
        memory->ctx = call->world->slots[DIFF_STREAM][use->line].ctx;
    /* Nothing is before the allocation; and who waits for it has waited for no more. */
    if (diff_used(call, use, code, memory, NULL))
        memcpy(call->world->seen[use->line], use->before, sizeof(use->before));
}

void diff_do_async_alloc(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 0);
    size_t bytes = diff_size(call->op->args[1]);
    struct diff_use use;
    CUdeviceptr at = 0;
    CUresult code;

    if (!memory || !diff_use_stream(call, 2, NULL, NULL, &use))
        return;
    code = CU(cuMemAllocAsync)(&at, bytes, use.stream);
    diff_async_made(call, memory, &use, code, at, bytes);
}

void diff_do_pool_alloc(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 0);
    struct diff_slot *pool = memory ? diff_slot_of(call, DIFF_POOL, 2) : NULL;
    size_t bytes = diff_size(call->op->args[1]);
    struct diff_use use;
    CUdeviceptr at = 0;
    CUresult code;

    if (!pool || !diff_use_stream(call, 3, NULL, NULL, &use))
        return;
    code = CU(cuMemAllocFromPoolAsync)(&at, bytes, (CUmemoryPool)(uintptr_t)pool->value,
                                       use.stream);
    diff_async_made(call, memory, &use, code, at, bytes);
    /* It is on the pool's device, whatever the stream's: out of the reach of the kernels
     * of another, one of which would break its context, and the host would learn of it
     * when the kernel has run. */
    if (code == CUDA_SUCCESS &&
        call->world->slots[DIFF_CTX][memory->ctx].device != pool->device)
        memory->ctx = DIFF_CONTEXTS;
}

void diff_do_async_free(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct diff_use use;
    CUresult code;

    if (!memory || !diff_use_stream(call, 1, memory, NULL, &use))
        return;
    diff_say(call, " kind=%c captured=%d%s", memory->kind, use.captured,
             memory->told ? " told=1" : "");
    code = diff_code(call, "code", CU(cuMemFreeAsync)(memory->at, use.stream));
    diff_used(call, &use, code, memory, NULL);
    if (code == CUDA_SUCCESS) {
        memory->state = DIFF_GONE;
        memory->in_order = true;
    }
}

void diff_do_async_again(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_gone(call, 0);
    struct diff_use use;

    if (memory && diff_use_stream(call, 1, NULL, NULL, &use))
        diff_used(call, &use,
                  diff_code(call, "code", CU(cuMemFreeAsync)(memory->at, use.stream)),
                  NULL, NULL);
}

void diff_do_async_inside(struct diff_call *call)
{
    static const uint64_t steps[] = {1, 8, 256, 512, 4096, 65536};
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct diff_use use;
    uint64_t step = steps[call->op->args[1] % 6];

    if (!memory || !diff_use_stream(call, 2, NULL, NULL, &use))
        return;
    if (step >= memory->bytes) {
        diff_skip(call, "start");
        diff_not_used(call, &use);
        return;
    }
    diff_used(call, &use,
              diff_code(call, "code", CU(cuMemFreeAsync)(memory->at + step, use.stream)),
              NULL, NULL);
}

/* ---- pools --------------------------------------------------------------------------
 */

void diff_do_pool_new(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_free(call, DIFF_POOL, 0);
    CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                     .id = (int)(call->op->args[1] % call->list->devices)}};
    CUmemoryPool pool = NULL;

    if (!slot || diff_code(call, "code", CU(cuMemPoolCreate)(&pool, &properties)))
        return;
    diff_slot_made(call, slot, (uint64_t)(uintptr_t)pool);
    slot->device = (uint8_t)properties.location.id;
}

void diff_do_pool_end(struct diff_call *call)
{
    struct diff_slot *pool = diff_slot_of(call, DIFF_POOL, 0);

    if (pool && diff_code(call, "code",
                          CU(cuMemPoolDestroy)((CUmemoryPool)(uintptr_t)pool->value)) ==
                    CUDA_SUCCESS)
        pool->state = DIFF_GONE;
}

/* Slot 0 is the default pool of device 0 where no other was made. */
static bool pool_of(struct diff_call *call, CUmemoryPool *pool)
{
    struct diff_slot *slot;

    if (call->op->args[0] == 0 && call->world->slots[DIFF_POOL][0].state != DIFF_LIVE)
        return CU(cuDeviceGetDefaultMemPool)(pool, 0) == CUDA_SUCCESS;
    slot = diff_slot_of(call, DIFF_POOL, 0);
    if (slot)
        *pool = (CUmemoryPool)(uintptr_t)slot->value;
    return slot != NULL;
}

void diff_do_pool_trim(struct diff_call *call)
{
    CUmemoryPool pool;

    if (pool_of(call, &pool))
        diff_code(call, "code", CU(cuMemPoolTrimTo)(pool, diff_size(call->op->args[1])));
}

void diff_do_pool_get(struct diff_call *call)
{
    CUmemPool_attribute attribute = (CUmemPool_attribute)(call->op->args[1] + 1);
    bool quiet = diff_all_quiet(call->world);
    uint64_t value = 0;
    CUmemoryPool pool;

    if (!pool_of(call, &pool) ||
        diff_code(call, "code", CU(cuMemPoolGetAttribute)(pool, attribute, &value)))
        return;
    /* Marks of the highest, and what is kept, depend on when work was done. */
    if (attribute <= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        diff_say(call, " value=%llu", (unsigned long long)value);
    else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT && quiet)
        diff_say(call, " used=%llu", (unsigned long long)value);
}

void diff_do_pool_set(struct diff_call *call)
{
    CUmemPool_attribute attribute = (CUmemPool_attribute)(call->op->args[1] + 1);
    uint64_t value = (uint64_t)call->op->args[2];
    CUmemoryPool pool;

    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        value *= 8 << 20;
    if (pool_of(call, &pool))
        diff_code(call, "code", CU(cuMemPoolSetAttribute)(pool, attribute, &value));
}

void diff_do_pool_use(struct diff_call *call)
{
    CUmemoryPool pool;

    if (pool_of(call, &pool))
        diff_code(call, "code",
                  CU(cuDeviceSetMemPool)((CUdevice)call->op->args[1], pool));
}

void diff_do_pool_used(struct diff_call *call)
{
    CUdevice device = (CUdevice)call->op->args[0];
    CUmemoryPool current = NULL, standard = NULL;

    diff_code(call, "code", CU(cuDeviceGetMemPool)(&current, device));
    diff_code(call, "again", CU(cuDeviceGetDefaultMemPool)(&standard, device));
    diff_say(call, " default=%d", current == standard);
}

void diff_do_pool_access(struct diff_call *call)
{
    CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)call->op->args[1]},
        .flags = call->op->args[2] ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                   : CU_MEM_ACCESS_FLAGS_PROT_NONE};
    CUmemAccess_flags flags = (CUmemAccess_flags)77;
    CUmemoryPool pool;

    if (!pool_of(call, &pool))
        return;
    diff_code(call, "code", CU(cuMemPoolSetAccess)(pool, &access, 1));
    diff_code(call, "again", CU(cuMemPoolGetAccess)(&flags, pool, &access.location));
    diff_say(call, " flags=%d", (int)flags);
}
