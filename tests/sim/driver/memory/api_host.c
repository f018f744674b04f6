/*
 * api_host.c - page-locked host memory: allocated by the driver, or registered.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Memory Management".
 */
#include "capture.h"
#include "context.h"
#include "latency.h"
#include "memory.h"

static CUresult alloc_host(enum sim_api api, void **out, size_t bytes, unsigned flags)
{
    struct sim_context *context;
    struct sim_alloc *alloc;

    SIM_TRY(sim_capture_enter_unsafe(api, &context));
    if (!out ||
        (flags & ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                             CU_MEMHOSTALLOC_WRITECOMBINED)))
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes == 0) {
        *out = NULL;
        return CUDA_SUCCESS;
    }
    SIM_TRY(sim_context_stand_between(api, context));
    SIM_TRY(sim_host_create(SIM_MEMORY_PINNED, NULL, bytes, flags, context->device,
                            context, sim_context_id(context), &alloc));
    *out = (void *)alloc->base;
    sim_memory_unref(alloc);
    sim_latency_sized(api, bytes);
    return CUDA_SUCCESS;
}

SIM_API_ONE(cuMemHostAlloc, (void **out, size_t bytes, unsigned int flags),
            alloc_host(api, out, bytes, flags));

SIM_API_ONE(cuMemAllocHost_v2, (void **out, size_t bytes),
            alloc_host(api, out, bytes, 0));

/* The host allocation of that kind starting at an address, with a reference, or NULL. */
static struct sim_alloc *find_start(const void *pointer, enum sim_memory_kind kind)
{
    struct sim_alloc *alloc = sim_host_find((uintptr_t)pointer);

    if (alloc && (alloc->base != (uintptr_t)pointer || alloc->kind != kind)) {
        sim_memory_unref(alloc);
        return NULL;
    }
    return alloc;
}

/* Take it out of the map once the work of its context is done; drops the reference. */
static CUresult remove_waiting(enum sim_api api, struct sim_alloc *alloc,
                               CUresult missing)
{
    const size_t bytes = alloc->bytes;
    CUresult res = CUDA_SUCCESS;

    if (sim_context_lives(alloc->context, alloc->context_id))
        res = sim_context_wait_for_free(alloc->context, GS_FREE_pinned, alloc->bytes);
    if (res == CUDA_SUCCESS && !sim_host_remove(alloc))
        res = missing;
    sim_memory_unref(alloc);
    if (res == CUDA_SUCCESS)
        sim_latency_sized(api, bytes);
    return res;
}

SIM_API(cuMemFreeHost, void *pointer)
{
    struct sim_context *context;
    CUresult res = sim_enter_maybe_context(SIM_ID_cuMemFreeHost, &context);

    if (res != CUDA_SUCCESS || !pointer)
        return res;
    SIM_TRY(sim_capture_check_unsafe());
    struct sim_alloc *alloc = find_start(pointer, SIM_MEMORY_PINNED);
    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    return remove_waiting(SIM_ID_cuMemFreeHost, alloc, CUDA_ERROR_INVALID_VALUE);
}

SIM_API(cuMemHostRegister_v2, void *pointer, size_t bytes, unsigned int flags)
{
    struct sim_context *context;
    struct sim_alloc *alloc;

    SIM_TRY(sim_capture_enter_unsafe(SIM_ID_cuMemHostRegister_v2, &context));
    if (!pointer || bytes == 0 || (uintptr_t)pointer + bytes < (uintptr_t)pointer ||
        sim_memory_is_device_address((uintptr_t)pointer) || (flags & ~0xfu))
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_memory_is_host_pool_address((uintptr_t)pointer))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    SIM_TRY(sim_host_create(SIM_MEMORY_REGISTERED, pointer, bytes, flags, context->device,
                            context, sim_context_id(context), &alloc));
    sim_memory_unref(alloc);
    sim_latency_sized(SIM_ID_cuMemHostRegister_v2, bytes);
    return CUDA_SUCCESS;
}

/* Memory of cuMemHostAlloc, and an address inside a registered range, are known, and the
 * argument is invalid. Source: answers of driver 590 (lupinemachines/lupine, issue 437
 * and pull request 605). */
static CUresult not_registered(const void *pointer)
{
    struct sim_alloc *alloc = sim_host_find((uintptr_t)pointer);
    bool known = alloc && (alloc->kind == SIM_MEMORY_PINNED || //
                           alloc->kind == SIM_MEMORY_REGISTERED);

    if (alloc)
        sim_memory_unref(alloc);
    return known ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

SIM_API(cuMemHostUnregister, void *pointer)
{
    struct sim_context *context;

    SIM_TRY(sim_capture_enter_unsafe(SIM_ID_cuMemHostUnregister, &context));
    if (!pointer)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_alloc *alloc = find_start(pointer, SIM_MEMORY_REGISTERED);
    if (!alloc)
        return not_registered(pointer);
    return remove_waiting(SIM_ID_cuMemHostUnregister, alloc,
                          CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

SIM_API(cuMemHostGetDevicePointer_v2, CUdeviceptr *out, void *pointer, unsigned int flags)
{
    struct sim_context *context;
    CUresult res = sim_enter_context(SIM_ID_cuMemHostGetDevicePointer_v2, &context);

    if (res != CUDA_SUCCESS)
        return res;
    if (!out || !pointer || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_alloc *alloc = sim_host_find((uintptr_t)pointer);
    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    if (alloc->kind == SIM_MEMORY_MANAGED)
        res = CUDA_ERROR_INVALID_VALUE;
    else
        *out = (CUdeviceptr)(uintptr_t)pointer; /* unified addressing: the same address */
    sim_memory_unref(alloc);
    return res;
}

SIM_API(cuMemHostGetFlags, unsigned int *flags, void *pointer)
{
    SIM_JUDGED_FIRST(!flags, CUDA_ERROR_INVALID_VALUE);

    struct sim_context *context;
    CUresult res = sim_enter_context(SIM_ID_cuMemHostGetFlags, &context);

    if (res != CUDA_SUCCESS)
        return res;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_alloc *alloc = sim_host_find((uintptr_t)pointer);
    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    if (alloc->kind == SIM_MEMORY_PINNED) /* under UVA all is mapped, and portable */
        *flags = (alloc->flags & ~(unsigned)CU_MEMHOSTALLOC_PORTABLE) |
                 CU_MEMHOSTALLOC_DEVICEMAP;
    else
        res = CUDA_ERROR_INVALID_VALUE;
    sim_memory_unref(alloc);
    return res;
}
