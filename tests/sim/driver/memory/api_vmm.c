/*
 * api_vmm.c - the calls of virtual memory management.
 * Owns:  nothing.   Lock: none of its own; sim_vmm_lock where it says so.
 * Source: Driver API, "Virtual Memory Management".
 */
#include <unistd.h>

#include "config.h"
#include "device.h"
#include "latency.h"
#include "location.h"
#include "vmm.h"
#include "vmm_range.h"

SIM_API(cuMemAddressReserve, CUdeviceptr *out, size_t bytes, size_t align,
        CUdeviceptr hint, unsigned long long flags)
{
    CUresult res = sim_enter(SIM_ID_cuMemAddressReserve);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct sim_alloc *range;

    if (res != CUDA_SUCCESS)
        return res;
    if (!out || bytes == 0 || bytes % page || hint % page || (align & (align - 1)) ||
        flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_range_wish wish = {
        .kind = SIM_MEMORY_RESERVED,
        .bytes = bytes,
        .align = align > SIM_UNIT_BYTES ? align : SIM_UNIT_BYTES,
        .hint = hint,
    };
    SIM_TRY(sim_range_create(&wish, &range));
    *out = range->base;
    sim_memory_unref(range);
    sim_latency_sized(SIM_ID_cuMemAddressReserve, bytes);
    return CUDA_SUCCESS;
}

SIM_API(cuMemAddressFree, CUdeviceptr pointer, size_t bytes)
{
    bool freed = false;

    SIM_TRY(sim_enter(SIM_ID_cuMemAddressFree));
    struct sim_alloc *range = sim_range_find(pointer);
    if (!range)
        return CUDA_ERROR_INVALID_VALUE;
    if (range->kind == SIM_MEMORY_RESERVED && range->base == pointer &&
        range->bytes == bytes) {
        pthread_mutex_lock(&sim_vmm_lock);
        freed = range->range->mapped == 0 && sim_range_remove(range);
        pthread_mutex_unlock(&sim_vmm_lock);
    }
    sim_memory_unref(range);
    if (!freed)
        return CUDA_ERROR_INVALID_VALUE;
    sim_latency_sized(SIM_ID_cuMemAddressFree, bytes);
    return CUDA_SUCCESS;
}

static CUmemAllocationProp plain(const CUmemAllocationProp *prop)
{
    CUmemAllocationProp wanted = *prop;

    wanted.location = sim_location_of(&prop->location, sim_config()->driver_version);
    return wanted;
}

SIM_API(cuMemGetAllocationGranularity, size_t *granularity,
        const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)
{
    SIM_TRY(sim_enter(SIM_ID_cuMemGetAllocationGranularity));
    if (!granularity || !prop ||
        ((int)option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
         (int)option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    const CUmemAllocationProp wanted = plain(prop);
    CUresult res = sim_physical_check(&wanted);
    if (res == CUDA_SUCCESS)
        *granularity = SIM_UNIT_BYTES;
    return res;
}

SIM_API(cuMemCreate, CUmemGenericAllocationHandle *handle, size_t bytes,
        const CUmemAllocationProp *prop, unsigned long long flags)
{
    SIM_TRY(sim_enter(SIM_ID_cuMemCreate));
    if (!handle || !prop || bytes == 0 || bytes % SIM_UNIT_BYTES || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    const CUmemAllocationProp wanted = plain(prop);
    CUresult res = sim_physical_check(&wanted);
    if (res == CUDA_SUCCESS)
        res = sim_physical_create(bytes, &wanted, handle);
    if (res == CUDA_SUCCESS)
        sim_latency_sized(SIM_ID_cuMemCreate, bytes);
    return res;
}

SIM_API(cuMemRelease, CUmemGenericAllocationHandle handle)
{
    CUresult res = sim_enter(SIM_ID_cuMemRelease);
    size_t bytes = 0;

    if (res != CUDA_SUCCESS)
        return res;
    pthread_mutex_lock(&sim_vmm_lock);
    struct sim_physical *physical = sim_physical_get(handle);
    if (physical) {
        bytes = physical->bytes;
        sim_physical_drop_handle(physical);
    } else {
        res = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&sim_vmm_lock);
    if (res == CUDA_SUCCESS)
        sim_latency_sized(SIM_ID_cuMemRelease, bytes);
    return res;
}

SIM_API(cuMemMap, CUdeviceptr pointer, size_t bytes, size_t offset,
        CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    SIM_TRY(sim_enter(SIM_ID_cuMemMap));
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = sim_vmm_map(pointer, bytes, offset, handle);
    if (res == CUDA_SUCCESS)
        sim_latency_sized(SIM_ID_cuMemMap, bytes);
    return res;
}

SIM_API(cuMemUnmap, CUdeviceptr pointer, size_t bytes)
{
    CUresult res = sim_enter(SIM_ID_cuMemUnmap);

    if (res == CUDA_SUCCESS)
        res = sim_vmm_unmap(pointer, bytes);
    if (res == CUDA_SUCCESS)
        sim_latency_sized(SIM_ID_cuMemUnmap, bytes);
    return res;
}

SIM_API(cuMemSetAccess, CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *descs,
        size_t count)
{
    SIM_TRY(sim_enter(SIM_ID_cuMemSetAccess));
    if (!descs || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = sim_vmm_set_access(pointer, bytes, descs, count);
    if (res == CUDA_SUCCESS)
        sim_latency_sized(SIM_ID_cuMemSetAccess, bytes);
    return res;
}

SIM_API(cuMemGetAccess, unsigned long long *flags, const CUmemLocation *location,
        CUdeviceptr pointer)
{
    CUresult res = sim_enter(SIM_ID_cuMemGetAccess);
    struct sim_vmm_view view;
    int device = SIM_ANY_DEVICE;

    if (res != CUDA_SUCCESS)
        return res;
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
        if (!sim_device_get(location->id))
            return CUDA_ERROR_INVALID_DEVICE;
        device = location->id;
    } else if ((int)location->type != SIM_LOCATION_HOST &&
               (int)location->type != SIM_LOCATION_HOST_NUMA) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_alloc *range = sim_range_find(pointer);
    if (!range)
        return CUDA_ERROR_INVALID_VALUE;
    if (range->kind == SIM_MEMORY_RESERVED && sim_vmm_look(range, pointer, device, &view))
        *flags = device == SIM_ANY_DEVICE ? view.host_rights : view.rights;
    else
        res = CUDA_ERROR_INVALID_VALUE;
    sim_memory_unref(range);
    return res;
}

SIM_API(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle *handle, void *address)
{
    struct sim_mapping *mapping = NULL;

    SIM_TRY(sim_enter(SIM_ID_cuMemRetainAllocationHandle));
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_alloc *range = sim_range_find((uintptr_t)address);
    if (!range)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_vmm_lock);
    if (range->kind == SIM_MEMORY_RESERVED)
        mapping = sim_vmm_at(range, (uintptr_t)address);
    if (mapping) {
        mapping->physical->handles++;
        *handle =
            (CUmemGenericAllocationHandle)(uintptr_t)mapping->physical->object.handle;
    }
    pthread_mutex_unlock(&sim_vmm_lock);
    sim_memory_unref(range);
    return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp *prop,
        CUmemGenericAllocationHandle handle)
{
    CUresult res = sim_enter(SIM_ID_cuMemGetAllocationPropertiesFromHandle);

    if (res != CUDA_SUCCESS)
        return res;
    if (!prop)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_vmm_lock);
    const struct sim_physical *physical = sim_physical_get(handle);
    if (physical && !physical->multicast)
        *prop = physical->prop;
    else
        res = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&sim_vmm_lock);
    return res;
}

SIM_API(cuMemExportToShareableHandle, void *out, CUmemGenericAllocationHandle handle,
        CUmemAllocationHandleType type, unsigned long long flags)
{
    CUresult res = sim_enter(SIM_ID_cuMemExportToShareableHandle);
    int fd = -1;

    if (res != CUDA_SUCCESS)
        return res;
    if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_vmm_lock);
    const struct sim_physical *physical = sim_physical_get(handle);
    if (!physical || physical->prop.requestedHandleTypes != type)
        res = CUDA_ERROR_INVALID_VALUE;
    else if ((fd = sim_physical_export(physical)) < 0)
        res = CUDA_ERROR_OPERATING_SYSTEM;
    pthread_mutex_unlock(&sim_vmm_lock);
    if (res == CUDA_SUCCESS)
        *(int *)out = fd;
    return res;
}

SIM_API(cuMemImportFromShareableHandle, CUmemGenericAllocationHandle *handle,
        void *shared, CUmemAllocationHandleType type)
{
    SIM_TRY(sim_enter(SIM_ID_cuMemImportFromShareableHandle));
    if (!handle || (unsigned)type > 0xf || type == CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&sim_vmm_lock);
    CUresult res = sim_physical_import((int)(intptr_t)shared, handle);
    pthread_mutex_unlock(&sim_vmm_lock);
    return res;
}
