/*
 * api_pointer.c - what the driver knows of a pointer.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Unified Addressing".
 */
#include <string.h>

#include "context.h"
#include "pool.h"
#include "stream.h"
#include "thread.h"
#include "vmm.h"
#include "version.h"

/* Big enough for every attribute's value. */
union value {
    void *pointer;
    CUdeviceptr device;
    unsigned long long number;
    uint64_t size;
    unsigned unsigned_int;
    int integer;
    bool boolean;
};

static size_t value_bytes(CUpointer_attribute attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return sizeof(int);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return sizeof(bool);
    default:
        return sizeof(uint64_t);
    }
}

/* What holds for a pointer of no allocation, cuPointerGetAttributes only. */
static void default_value(CUpointer_attribute attribute, union value *value)
{
    memset(value, 0, sizeof(*value));
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        value->integer = CU_DEVICE_INVALID;
}

static bool has_host_pointer(const struct sim_alloc *alloc)
{
    return !sim_memory_is_device_kind(alloc) && alloc->kind != SIM_MEMORY_EXTERNAL;
}

/* Attributes of the allocation's place in memory. */
static CUresult get_place(const struct sim_alloc *alloc, CUpointer_attribute attribute,
                          CUdeviceptr pointer, union value *value)
{
    uintptr_t base;
    size_t bytes;

    sim_memory_mapping(alloc, &base, &bytes);
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        if (!sim_thread_current())
            return CUDA_ERROR_INVALID_CONTEXT;
        if (alloc->kind == SIM_MEMORY_HOST_POOL &&
            !sim_context_may_access(sim_thread_current(), alloc))
            return CUDA_ERROR_INVALID_VALUE; /* kernels have no pointer to it */
        value->device = pointer;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!has_host_pointer(alloc))
            return CUDA_ERROR_INVALID_VALUE;
        value->pointer = (void *)(uintptr_t)pointer;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        value->device = alloc->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        value->size = alloc->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        value->device = base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        value->size = bytes;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* What the device of the current context may do there. */
static CUresult get_access(const struct sim_alloc *alloc, unsigned *out)
{
    struct sim_context *context = sim_thread_current();

    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
    if (sim_context_may_access(context, alloc))
        *out = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    if (*out && alloc->pool && !sim_pool_allows_writes(alloc, context->device))
        *out = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ;
    return CUDA_SUCCESS;
}

static CUresult get_value(struct sim_alloc *alloc, CUpointer_attribute attribute,
                          CUdeviceptr pointer, union value *value)
{
    if (!sim_version_knows(SIM_SINCE_POINTER_ATTRIBUTE, attribute))
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_memory_is_hidden(alloc))
        return CUDA_ERROR_INVALID_VALUE;
    if (alloc->kind == SIM_MEMORY_RESERVED)
        return sim_vmm_attribute(alloc, attribute, pointer, value);
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        if (!sim_memory_is_of_pool(alloc) &&
            sim_context_lives(alloc->context, alloc->context_id))
            value->pointer = sim_context_handle(alloc->context);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        value->unsigned_int = alloc->kind == SIM_MEMORY_PINNED ||
                                      alloc->kind == SIM_MEMORY_REGISTERED ||
                                      alloc->kind == SIM_MEMORY_HOST_POOL
                                  ? CU_MEMORYTYPE_HOST
                                  : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        value->integer = atomic_load(&alloc->sync_memops);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        value->number = alloc->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        value->boolean = sim_memory_is_managed(alloc);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        value->integer = alloc->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        value->boolean = alloc->kind == SIM_MEMORY_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        value->boolean = true;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return get_access(alloc, &value->unsigned_int);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        value->pointer = alloc->pool ? alloc->pool->object.handle : NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return get_place(alloc, attribute, pointer, value);
    }
}

SIM_API(cuPointerGetAttribute, void *data, CUpointer_attribute attribute,
        CUdeviceptr pointer)
{
    union value value;

    SIM_TRY(sim_enter(SIM_ID_cuPointerGetAttribute));
    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_alloc *alloc = sim_memory_find(pointer);
    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    memset(&value, 0, sizeof(value));
    CUresult res = get_value(alloc, attribute, pointer, &value);
    sim_memory_unref(alloc);
    if (res == CUDA_SUCCESS)
        memcpy(data, &value, value_bytes(attribute));
    return res;
}

SIM_API(cuPointerGetAttributes, unsigned int count, CUpointer_attribute *attributes,
        void **data, CUdeviceptr pointer)
{
    CUresult res = sim_enter(SIM_ID_cuPointerGetAttributes);

    if (res != CUDA_SUCCESS)
        return res;
    if (count == 0 || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_alloc *alloc = sim_memory_find(pointer);
    for (unsigned i = 0; i < count && res == CUDA_SUCCESS; i++) {
        union value value;
        default_value(attributes[i], &value);
        if (!data[i] || (int)attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT ||
            (int)attributes[i] > CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID ||
            !sim_version_knows(SIM_SINCE_POINTER_ATTRIBUTE, attributes[i]))
            res = CUDA_ERROR_INVALID_VALUE;
        else if (alloc &&
                 get_value(alloc, attributes[i], pointer, &value) != CUDA_SUCCESS)
            default_value(attributes[i], &value);
        if (res == CUDA_SUCCESS)
            memcpy(data[i], &value, value_bytes(attributes[i]));
    }
    if (alloc)
        sim_memory_unref(alloc);
    return res;
}

/*
 * Wait for the synchronous copies and sets that the memory's context still has to do:
 * "the function does not return until those memory operations are complete"
 * (cuPointerSetAttribute). They are in the legacy stream.
 */
static CUresult wait_for_sync_memops(const struct sim_alloc *alloc)
{
    struct sim_stream *legacy;

    if (!alloc->context || !sim_context_lives(alloc->context, alloc->context_id))
        return CUDA_SUCCESS;

    SIM_TRY(sim_context_legacy(alloc->context, &legacy));
    CUresult res = sim_stream_wait(legacy);
    sim_stream_put(legacy);
    return res;
}

SIM_API(cuPointerSetAttribute, const void *data, CUpointer_attribute attribute,
        CUdeviceptr pointer)
{
    CUresult res = sim_enter(SIM_ID_cuPointerSetAttribute);
    unsigned on;

    if (res != CUDA_SUCCESS)
        return res;
    if (!data || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_alloc *alloc = sim_memory_find(pointer);
    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&on, data, sizeof(on));
    if (sim_memory_on_device(alloc, pointer) && !sim_memory_is_hidden(alloc))
        atomic_store(&alloc->sync_memops, on != 0);
    else
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS && on)
        res = wait_for_sync_memops(alloc);
    sim_memory_unref(alloc);
    return res;
}
