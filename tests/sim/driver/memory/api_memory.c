/*
 * api_memory.c - device memory: allocation, free, information.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Memory Management".
 */
#include "capture.h"
#include "device.h"
#include "latency.h"
#include "order.h"
#include "pool.h"
#include "stream.h"
#include "vmm.h"
#include "vmm_range.h"

#define PITCH_BYTES ((size_t)512)

static CUresult alloc_device(enum sim_api api, struct sim_context *context,
                             CUdeviceptr *out, size_t bytes)
{
    struct sim_alloc *alloc;

    if (!out || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_allocation allocation = {SIM_MEMORY_DEVICE, context,
                                              sim_context_id(context)};
    CUresult res = sim_is_strict(SIM_RULE_alloc_waits_not) ? sim_context_wait(context)
                                                           : CUDA_SUCCESS;
    if (res == CUDA_SUCCESS)
        res = sim_context_stand_between(api, context);
    if (res == CUDA_SUCCESS)
        res = sim_heap_alloc(&context->heap, bytes, true, &allocation, &alloc);
    if (res != CUDA_SUCCESS)
        return res;
    *out = alloc->base;
    sim_order_handed_out(alloc, NULL);
    sim_memory_unref(alloc);
    sim_latency_sized(api, bytes);
    return CUDA_SUCCESS;
}

SIM_API(cuMemAlloc_v2, CUdeviceptr *out, size_t bytes)
{
    struct sim_context *context;
    CUresult res = sim_capture_enter_unsafe(SIM_ID_cuMemAlloc_v2, &context);

    return res == CUDA_SUCCESS ? alloc_device(SIM_ID_cuMemAlloc_v2, context, out, bytes)
                               : res;
}

SIM_API(cuMemAllocPitch_v2, CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
        unsigned int element)
{
    struct sim_context *context;
    size_t bytes, row;

    SIM_TRY(sim_capture_enter_unsafe(SIM_ID_cuMemAllocPitch_v2, &context));
    if (!out || !pitch || width == 0 || height == 0 ||
        (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    if (width > SIZE_MAX - PITCH_BYTES)
        return CUDA_ERROR_OUT_OF_MEMORY;
    row = gs_round_up(width, PITCH_BYTES);
    if (__builtin_mul_overflow(row, height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult res = alloc_device(SIM_ID_cuMemAllocPitch_v2, context, out, bytes);
    if (res == CUDA_SUCCESS)
        *pitch = row;
    return res;
}

/*
 * Wait for the work of the context the memory belongs to, as far as it still lives: what
 * "implicit synchronization" means for a free. `current` may be NULL.
 */
static CUresult wait_for_owner(const struct sim_alloc *alloc, struct sim_context *current)
{
    if (sim_memory_is_of_pool(alloc))
        return CUDA_SUCCESS; /* its accesses are assumed complete: stream-ordered memory
                              */
    if (alloc->context && sim_context_lives(alloc->context, alloc->context_id))
        current = alloc->context;
    if (!current)
        return CUDA_SUCCESS;
    return sim_context_wait_for_free(
        current, alloc->kind == SIM_MEMORY_MANAGED ? GS_FREE_managed : GS_FREE_device,
        alloc->bytes);
}

/* A free finds the memory's context by the address: none need be current. */
SIM_API(cuMemFree_v2, CUdeviceptr pointer)
{
    struct sim_context *context;
    CUresult res = sim_enter_maybe_context(SIM_ID_cuMemFree_v2, &context);
    bool freed = false;

    if (res != CUDA_SUCCESS || pointer == 0)
        return res;
    SIM_TRY(sim_capture_check_unsafe());
    struct sim_alloc *alloc = sim_memory_find(pointer);
    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    if (alloc->base != pointer || sim_memory_state(alloc) != SIM_MEMORY_LIVE ||
        alloc->of_module || alloc->kind == SIM_MEMORY_PINNED ||
        alloc->kind == SIM_MEMORY_REGISTERED || alloc->kind == SIM_MEMORY_IPC ||
        alloc->kind == SIM_MEMORY_RESERVED || sim_memory_is_hidden(alloc)) {
        sim_memory_unref(alloc);
        return CUDA_ERROR_INVALID_VALUE;
    }
    res = wait_for_owner(alloc, context);
    if (res == CUDA_SUCCESS) {
        if (alloc->kind == SIM_MEMORY_MANAGED)
            freed = sim_host_remove(alloc);
        else if (sim_memory_is_of_pool(alloc))
            freed = sim_pool_free_now(alloc);
        else if (alloc->kind == SIM_MEMORY_EXTERNAL)
            freed = sim_range_remove(alloc);
        else
            freed = sim_heap_free(alloc);
        res = freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    const size_t bytes = alloc->bytes;
    sim_memory_unref(alloc);
    if (res == CUDA_SUCCESS)
        sim_latency_sized(SIM_ID_cuMemFree_v2, bytes);
    return res;
}

SIM_API(cuMemGetInfo_v2, size_t *free_bytes, size_t *total_bytes)
{
    struct sim_context *context;
    size_t free_now, total;

    SIM_TRY(sim_enter_context(SIM_ID_cuMemGetInfo_v2, &context));
    sim_space_info(sim_device_space(context->device), &free_now, &total);
    if (free_bytes)
        *free_bytes = free_now;
    if (total_bytes)
        *total_bytes = total;
    return CUDA_SUCCESS;
}

SIM_API(cuMemGetAddressRange_v2, CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
    SIM_JUDGED_FIRST(!base && !bytes, CUDA_SUCCESS);

    struct sim_context *context;
    CUresult res = sim_enter_context(SIM_ID_cuMemGetAddressRange_v2, &context);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_alloc *alloc = sim_memory_find(pointer);
    if (!alloc)
        return CUDA_ERROR_NOT_FOUND;
    uintptr_t start = alloc->base;
    size_t size = alloc->bytes;
    if (sim_memory_is_hidden(alloc) ||
        (alloc->kind == SIM_MEMORY_RESERVED &&
         !sim_vmm_mapped_range(alloc, pointer, &start, &size)))
        res = CUDA_ERROR_NOT_FOUND;
    if (base && res == CUDA_SUCCESS)
        *base = start;
    if (bytes && res == CUDA_SUCCESS)
        *bytes = size;
    sim_memory_unref(alloc);
    return res;
}
