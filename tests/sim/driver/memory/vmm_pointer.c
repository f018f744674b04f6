/*
 * vmm_pointer.c - what is told of an address that lies in a range: of a reservation and
 * what is mapped there, of a buffer mapped onto external memory.
 * Owns:  nothing.   Lock: sim_vmm_lock, inside.
 * Source: Driver API, cuPointerGetAttribute: a range is the reservation, a mapping what
 *         cuMemGetAddressRange tells.
 */
#include <string.h>

#include "context.h"
#include "thread.h"
#include "vmm.h"
#include "vmm_range.h"

/* Integers of each width, little-endian in one place. */
static CUresult give(void *value, uint64_t number)
{
    memcpy(value, &number, sizeof(number));
    return CUDA_SUCCESS;
}

/* What is known without a mapping. False if the attribute needs one. */
static bool of_reservation(const struct sim_alloc *alloc, CUpointer_attribute attribute,
                           bool mapped, void *value)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        give(value, alloc->base);
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        give(value, alloc->bytes);
        return true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        give(value, mapped);
        return true;
    default:
        return false;
    }
}

static CUresult of_mapping(const struct sim_alloc *alloc, CUpointer_attribute attribute,
                           const struct sim_vmm_view *view, CUdeviceptr pointer,
                           void *value)
{
    bool on_device = view->prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE;

    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: /* it belongs to none */
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return give(value, 0);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return give(value, on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return sim_thread_current() ? give(value, pointer) : CUDA_ERROR_INVALID_CONTEXT;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return view->host_rights ? give(value, pointer) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return give(value, atomic_load(&alloc->sync_memops));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        return give(value, view->id);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return give(value, view->physical_id);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return give(value, on_device ? (uint32_t)view->prop.location.id
                                     : (uint32_t)CU_DEVICE_CPU);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return give(value, (uint32_t)view->prop.requestedHandleTypes);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return give(value, view->rights);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return give(value, view->base);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        return give(value, view->bytes);
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_vmm_attribute(const struct sim_alloc *alloc, CUpointer_attribute attribute,
                           CUdeviceptr pointer, void *value)
{
    const struct sim_context *current = sim_thread_current();
    struct sim_vmm_view view;
    bool mapped =
        sim_vmm_look(alloc, pointer, current ? current->device : SIM_ANY_DEVICE, &view);

    if (of_reservation(alloc, attribute, mapped, value))
        return CUDA_SUCCESS;
    return mapped ? of_mapping(alloc, attribute, &view, pointer, value)
                  : CUDA_ERROR_INVALID_VALUE;
}

bool sim_vmm_mapped_range(const struct sim_alloc *alloc, uintptr_t address,
                          uintptr_t *base, size_t *bytes)
{
    struct sim_vmm_view view;

    if (!sim_vmm_look(alloc, address, SIM_ANY_DEVICE, &view))
        return false;
    *base = view.base;
    *bytes = view.bytes;
    return true;
}
