/*
 * api_managed.c - managed memory: one address for CPU and devices, advice, prefetch.
 * Nothing migrates here: prefetches take their place in a stream and are remembered,
 * advice is remembered, and cuMemRangeGetAttribute tells it.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Unified Addressing" and cuMemAllocManaged.
 */
#include <string.h>

#include "advice.h"
#include "capture.h"
#include "device.h"
#include "latency.h"
#include "managed.h"
#include "stream.h"

#define HOST_BIT (1u << 31)

SIM_API(cuMemAllocManaged, CUdeviceptr *out, size_t bytes, unsigned int flags)
{
    SIM_JUDGED_FIRST(!out || !bytes || !flags, CUDA_ERROR_INVALID_VALUE);

    struct sim_context *context;
    struct sim_alloc *alloc;

    SIM_TRY(sim_capture_enter_unsafe(SIM_ID_cuMemAllocManaged, &context));
    if (!out || bytes == 0 ||
        (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_host_create(SIM_MEMORY_MANAGED, NULL, bytes, flags, context->device,
                            context, sim_context_id(context), &alloc));
    *out = alloc->base;
    sim_memory_unref(alloc);
    sim_latency_sized(SIM_ID_cuMemAllocManaged, bytes);
    return CUDA_SUCCESS;
}

CUresult sim_managed_range(CUdeviceptr pointer, size_t bytes, struct sim_alloc **out)
{
    struct sim_access access = {
        .address = pointer, .row_bytes = bytes, .rows = 1, .slices = 1};

    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;

    SIM_TRY(sim_access_bind(&access, true));
    if (!sim_memory_is_managed(access.alloc)) {
        sim_memory_unref(access.alloc);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = access.alloc;
    return CUDA_SUCCESS;
}

static bool valid_location(const CUmemLocation *location)
{
    switch ((int)location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return sim_device_get(location->id) != NULL;
    case 2: /* HOST, HOST_NUMA, HOST_NUMA_CURRENT: not in all headers */
    case 3:
    case 4:
        return true;
    default:
        return false;
    }
}

CUresult sim_managed_location(const CUmemLocation *location)
{
    if (valid_location(location))
        return CUDA_SUCCESS;
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_ERROR_INVALID_DEVICE
                                                         : CUDA_ERROR_INVALID_VALUE;
}

/* What the forms before 12.2 mean by a device number. */
static CUmemLocation location_of(CUdevice device)
{
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};

    if (device == CU_DEVICE_CPU) {
        location.type = (CUmemLocationType)2;
        location.id = 0;
    }
    return location;
}

static void set_prefetched(struct sim_advice *advice, const void *location)
{
    advice->last_prefetch = *(const CUmemLocation *)location;
}

CUresult sim_managed_prefetched(struct sim_alloc *alloc, CUdeviceptr pointer,
                                size_t bytes, const CUmemLocation *location)
{
    return sim_advice_change(alloc, pointer - alloc->base, bytes, set_prefetched,
                             location);
}

static void set_preferred(struct sim_advice *advice, const void *location)
{
    advice->preferred = *(const CUmemLocation *)location;
}

CUresult sim_managed_prefer(struct sim_alloc *alloc, const CUmemLocation *location)
{
    return sim_advice_change(alloc, 0, alloc->bytes, set_preferred, location);
}

static CUresult prefetch(enum sim_api api, enum sim_variant variant, CUdeviceptr pointer,
                         size_t bytes, CUmemLocation location, unsigned flags,
                         CUstream stream_handle)
{
    struct sim_context *context;
    struct sim_stream *stream;
    struct sim_alloc *alloc;

    SIM_TRY(sim_enter_context(api, &context));
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_managed_location(&location));
    SIM_TRY(sim_managed_range(pointer, bytes, &alloc));
    CUresult res = sim_stream_get(context, stream_handle, variant, &stream);
    if (res == CUDA_SUCCESS) {
        res = sim_submit_drop(stream, sim_op_new(SIM_OP_MARK, api, NULL));
        sim_stream_put(stream);
    }
    if (res == CUDA_SUCCESS)
        res = sim_managed_prefetched(alloc, pointer, bytes, &location);
    sim_memory_unref(alloc);
    return res;
}

SIM_API_TWINS(cuMemPrefetchAsync, ptsz,
              (CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream),
              prefetch(api, variant, pointer, bytes, location_of(device), 0, stream));

SIM_API_TWINS(cuMemPrefetchAsync_v2, ptsz,
              (CUdeviceptr pointer, size_t bytes, CUmemLocation location,
               unsigned int flags, CUstream stream),
              SIM_JUDGED_OR(flags != 0 || location.type == CU_MEM_LOCATION_TYPE_INVALID,
                            CUDA_ERROR_INVALID_VALUE,
                            prefetch(api, variant, pointer, bytes, location, flags,
                                     stream)));

struct change {
    CUmem_advise advice;
    CUmemLocation location;
};

static void apply_advice(struct sim_advice *advice, const void *argument)
{
    const struct change *change = argument;
    uint32_t bit = change->location.type == CU_MEM_LOCATION_TYPE_DEVICE
                       ? 1u << change->location.id
                       : HOST_BIT;

    switch (change->advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
        advice->read_mostly = true;
        break;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        advice->read_mostly = false;
        break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        advice->preferred = change->location;
        break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        advice->preferred = (CUmemLocation){.id = CU_DEVICE_INVALID};
        break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        advice->accessed_by |= bit;
        break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        advice->accessed_by &= ~bit;
        break;
    }
}

/* "Either DEVICE or HOST. All other location types are invalid" (cuMemAdvise). */
static bool accesses(const CUmemLocation *location)
{
    return (int)location->type == 1 || (int)location->type == 2;
}

static CUresult advise(enum sim_api api, CUdeviceptr pointer, size_t bytes,
                       CUmem_advise advice, CUmemLocation location)
{
    struct sim_context *context;
    struct sim_alloc *alloc;
    struct change change = {advice, location};

    SIM_TRY(sim_enter_context(api, &context));
    if ((int)advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
        (int)advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    bool ignores_location = advice == CU_MEM_ADVISE_SET_READ_MOSTLY ||
                            advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY ||
                            advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
    if (!ignores_location && !valid_location(&location))
        return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_ERROR_INVALID_DEVICE
                                                            : CUDA_ERROR_INVALID_VALUE;
    if ((advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
         advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY) &&
        !accesses(&location))
        return CUDA_ERROR_INVALID_VALUE;
    if (ignores_location)
        change.location = location_of(CU_DEVICE_CPU);
    SIM_TRY(sim_managed_range(pointer, bytes, &alloc));
    CUresult res =
        sim_advice_change(alloc, pointer - alloc->base, bytes, apply_advice, &change);
    sim_memory_unref(alloc);
    return res;
}

SIM_API_ONE(cuMemAdvise,
            (CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice device),
            advise(api, pointer, bytes, advice, location_of(device)));

SIM_API_ONE(cuMemAdvise_v2,
            (CUdeviceptr pointer, size_t bytes, CUmem_advise advice,
             CUmemLocation location),
            SIM_JUDGED_OR(!advice || location.type == CU_MEM_LOCATION_TYPE_INVALID,
                          CUDA_ERROR_INVALID_VALUE,
                          advise(api, pointer, bytes, advice, location)));

/* A location as the attributes before 12.2 tell it: a device number. */
static int as_device(const CUmemLocation *location)
{
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
        return location->id;
    return (int)location->type == 0 ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

/* Devices the range is accessed by, then CU_DEVICE_INVALID up to the end of the array. */
static CUresult get_accessed_by(const struct sim_advice *advice, int *out, size_t bytes)
{
    size_t room = bytes / sizeof(int);
    size_t used = 0;

    if (bytes == 0 || bytes % sizeof(int))
        return CUDA_ERROR_INVALID_VALUE;
    if (advice->accessed_by & HOST_BIT)
        out[used++] = CU_DEVICE_CPU;
    for (int i = 0; i < sim_device_count() && used < room; i++) {
        if (advice->accessed_by >> i & 1u)
            out[used++] = i;
    }
    while (used < room)
        out[used++] = CU_DEVICE_INVALID;
    return CUDA_SUCCESS;
}

static CUresult get_attribute(const struct sim_advice *advice, void *data, size_t bytes,
                              CUmem_range_attribute attribute)
{
    int value;

    if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
        return get_accessed_by(advice, data, bytes);
    if (bytes != sizeof(value))
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        value = advice->read_mostly;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        value = as_device(&advice->preferred);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        value = as_device(&advice->last_prefetch);
        break;
    case 5: /* PREFERRED_LOCATION_TYPE and its kin, from 12.2 on */
        value = (int)advice->preferred.type;
        break;
    case 6:
        value = advice->preferred.id;
        break;
    case 7:
        value = (int)advice->last_prefetch.type;
        break;
    case 8:
        value = advice->last_prefetch.id;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(data, &value, sizeof(value));
    return CUDA_SUCCESS;
}

SIM_API(cuMemRangeGetAttributes, void **data, size_t *sizes,
        CUmem_range_attribute *attributes, size_t count, CUdeviceptr pointer,
        size_t bytes)
{
    struct sim_alloc *alloc;
    struct sim_advice advice;

    SIM_TRY(sim_enter(SIM_ID_cuMemRangeGetAttributes));
    if (!data || !sizes || !attributes || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = sim_managed_range(pointer, bytes, &alloc);
    if (res != CUDA_SUCCESS)
        return res;
    sim_advice_read(alloc, pointer - alloc->base, bytes, &advice);
    sim_memory_unref(alloc);
    for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++)
        res = data[i] ? get_attribute(&advice, data[i], sizes[i], attributes[i])
                      : CUDA_ERROR_INVALID_VALUE;
    return res;
}

SIM_API(cuMemRangeGetAttribute, void *data, size_t size, CUmem_range_attribute attribute,
        CUdeviceptr pointer, size_t bytes)
{
    CUresult res = sim_enter(SIM_ID_cuMemRangeGetAttribute);

    return res == CUDA_SUCCESS
               ? cuMemRangeGetAttributes(&data, &size, &attribute, 1, pointer, bytes)
               : res;
}

static CUresult attach(enum sim_api api, enum sim_variant variant, CUstream stream_handle,
                       CUdeviceptr pointer, size_t bytes, unsigned flags)
{
    struct sim_context *context;
    struct sim_stream *stream;

    SIM_TRY(sim_enter_context(api, &context));
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
        flags != CU_MEM_ATTACH_SINGLE)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_alloc *alloc = sim_memory_find(pointer);
    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    bool whole = alloc->kind == SIM_MEMORY_MANAGED && alloc->base == pointer &&
                 (bytes == 0 || bytes == alloc->bytes);
    sim_memory_unref(alloc);
    if (!whole)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = sim_stream_get(context, stream_handle, variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    if (flags == CU_MEM_ATTACH_SINGLE && stream->kind == SIM_STREAM_LEGACY)
        res = CUDA_ERROR_INVALID_VALUE;
    else
        res = sim_submit_drop(stream, sim_op_new(SIM_OP_MARK, api, NULL));
    sim_stream_put(stream);
    return res;
}

SIM_API_TWINS(cuStreamAttachMemAsync, ptsz,
              (CUstream stream, CUdeviceptr pointer, size_t bytes, unsigned int flags),
              attach(api, variant, stream, pointer, bytes, flags));
