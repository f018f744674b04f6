/*
 * api_pool.c - stream-ordered allocation; attributes of pools, and who may access their
 * memory.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Stream Ordered Memory Allocator".
 */
#include <string.h>

#include "capture.h"
#include "config.h"
#include "context.h"
#include "device.h"
#include "latency.h"
#include "location.h"
#include "pool.h"
#include "stream.h"

/* From the pool, or, while the stream captures, as a node of the graph. */
static CUresult alloc_in(enum sim_api api, struct sim_pool *pool, size_t bytes,
                         struct sim_stream *stream, CUdeviceptr *out)
{
    struct sim_alloc *alloc;
    bool captured;

    if (pool->owner)
        return CUDA_ERROR_INVALID_VALUE; /* an imported one gives no memory */
    if (pool->device == SIM_NO_DEVICE && sim_capture_has(stream))
        return CUDA_ERROR_NOT_SUPPORTED; /* graphs have memory of devices alone */
    CUresult res = sim_capture_alloc(api, stream, bytes, out, &captured);
    if (res != CUDA_SUCCESS || captured)
        return res;
    SIM_TRY(sim_capture_check_unsafe());
    SIM_TRY(sim_pool_alloc(api, pool, bytes, stream, &alloc));
    *out = alloc->base;
    sim_memory_unref(alloc);
    sim_latency_sized(api, bytes);
    return CUDA_SUCCESS;
}

/* pool NULL: the current one of the stream's device. */
static CUresult alloc_async(enum sim_api api, enum sim_variant variant, CUdeviceptr *out,
                            size_t bytes, const CUmemoryPool *handle,
                            CUstream stream_handle)
{
    struct sim_context *context;
    struct sim_stream *stream;

    SIM_TRY(sim_enter_context(api, &context));
    if (!out || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_stream_get(context, stream_handle, variant, &stream));
    struct sim_pool *pool =
        handle ? sim_pool_get(*handle) : sim_pool_current(stream->context->device);
    CUresult res =
        pool ? alloc_in(api, pool, bytes, stream, out) : CUDA_ERROR_INVALID_VALUE;
    if (pool)
        sim_pool_put(pool);
    sim_stream_put(stream);
    return res;
}

SIM_API_TWINS(cuMemAllocAsync, ptsz, (CUdeviceptr * out, size_t bytes, CUstream stream),
              alloc_async(api, variant, out, bytes, NULL, stream));

SIM_API_TWINS(cuMemAllocFromPoolAsync, ptsz,
              (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream),
              alloc_async(api, variant, out, bytes, &pool, stream));

static CUresult free_in(enum sim_api api, CUdeviceptr pointer, struct sim_stream *stream)
{
    bool captured;
    CUresult res = sim_capture_free(api, stream, pointer, &captured);

    if (res != CUDA_SUCCESS || captured)
        return res;
    SIM_TRY(sim_capture_check_unsafe());
    struct sim_alloc *alloc = sim_memory_find(pointer);
    res = CUDA_ERROR_INVALID_VALUE;
    if (alloc && alloc->base == pointer &&
        (alloc->kind == SIM_MEMORY_DEVICE || sim_memory_is_of_pool(alloc)))
        res = sim_pool_free_async(api, alloc, stream);
    const size_t bytes = alloc ? alloc->bytes : 0;
    if (alloc)
        sim_memory_unref(alloc);
    if (res == CUDA_SUCCESS)
        sim_latency_sized(api, bytes);
    return res;
}

static CUresult free_async(enum sim_api api, enum sim_variant variant,
                           CUdeviceptr pointer, CUstream stream_handle)
{
    struct sim_context *context;
    struct sim_stream *stream;

    SIM_TRY(sim_enter_context(api, &context));
    SIM_TRY(sim_stream_get(context, stream_handle, variant, &stream));
    CUresult res = pointer ? free_in(api, pointer, stream) : CUDA_SUCCESS;
    sim_stream_put(stream);
    return res;
}

SIM_API_TWINS(cuMemFreeAsync, ptsz, (CUdeviceptr pointer, CUstream stream),
              free_async(api, variant, pointer, stream));

SIM_API(cuMemPoolTrimTo, CUmemoryPool handle, size_t keep_bytes)
{
    SIM_TRY(sim_enter(SIM_ID_cuMemPoolTrimTo));
    struct sim_pool *pool = sim_pool_get(handle);
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    sim_heap_trim(&pool->heap, keep_bytes);
    sim_pool_put(pool);
    return CUDA_SUCCESS;
}

static CUresult set_attribute(struct sim_pool *pool, CUmemPool_attribute attribute,
                              const void *value)
{
    cuuint64_t number;
    int on;

    switch ((int)attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        memcpy(&on, value, sizeof(on));
        sim_pool_set_reuse(pool, (enum sim_reuse_policy)(attribute - 1), on != 0);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        memcpy(&number, value, sizeof(number));
        atomic_store(&pool->release_threshold, number);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        memcpy(&number, value, sizeof(number));
        if (number != 0)
            return CUDA_ERROR_INVALID_VALUE;
        sim_heap_reset_high(&pool->heap, attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
                            attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_API(cuMemPoolSetAttribute, CUmemoryPool handle, CUmemPool_attribute attribute,
        void *value)
{
    SIM_TRY(sim_enter(SIM_ID_cuMemPoolSetAttribute));
    struct sim_pool *pool = value ? sim_pool_get(handle) : NULL;
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = set_attribute(pool, attribute, value);
    sim_pool_put(pool);
    return res;
}

static CUresult get_attribute(struct sim_pool *pool, CUmemPool_attribute attribute,
                              void *value)
{
    struct sim_heap_info info;
    cuuint64_t number;
    int on;

    sim_heap_read(&pool->heap, &info);
    switch ((int)attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        on = atomic_load(&pool->reuse[attribute - 1]);
        memcpy(value, &on, sizeof(on));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        number = atomic_load(&pool->release_threshold);
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        number = info.reserved;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        number = info.reserved_high;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        number = info.used;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        number = info.used_high;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(value, &number, sizeof(number));
    return CUDA_SUCCESS;
}

SIM_API(cuMemPoolGetAttribute, CUmemoryPool handle, CUmemPool_attribute attribute,
        void *value)
{
    SIM_TRY(sim_enter(SIM_ID_cuMemPoolGetAttribute));
    struct sim_pool *pool = value ? sim_pool_get(handle) : NULL;
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = get_attribute(pool, attribute, value);
    sim_pool_put(pool);
    return res;
}

static CUresult set_access(struct sim_pool *pool, const CUmemAccessDesc *desc)
{
    if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sim_device_get(desc->location.id))
        return CUDA_ERROR_INVALID_VALUE;
    unsigned bit = 1u << desc->location.id;
    if ((desc->location.id == pool->device || pool->home.managed) &&
        desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE; /* "this access cannot be revoked" (guide) */
    switch ((int)desc->flags) {
    case CU_MEM_ACCESS_FLAGS_PROT_NONE:
        atomic_fetch_and(&pool->readable, ~bit);
        atomic_fetch_and(&pool->writable, ~bit);
        return CUDA_SUCCESS;
    case CU_MEM_ACCESS_FLAGS_PROT_READ:
        atomic_fetch_or(&pool->readable, bit);
        atomic_fetch_and(&pool->writable, ~bit);
        return CUDA_SUCCESS;
    case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
        atomic_fetch_or(&pool->readable, bit);
        atomic_fetch_or(&pool->writable, bit);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_API(cuMemPoolSetAccess, CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
    CUresult res = sim_enter(SIM_ID_cuMemPoolSetAccess);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_pool *pool = map || !count ? sim_pool_get(handle) : NULL;
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++)
        res = set_access(pool, &map[i]);
    sim_pool_put(pool);
    return res;
}

static CUmemAccess_flags rights_of(const struct sim_pool *pool,
                                   const CUmemLocation *location)
{
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return pool->device == SIM_NO_DEVICE ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                             : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    unsigned bit = 1u << location->id;
    return atomic_load(&pool->writable) & bit   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : atomic_load(&pool->readable) & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

/* Is there somebody at a location who accesses memory? */
static bool accesses(const CUmemLocation *location)
{
    switch ((int)location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return sim_device_get(location->id) != NULL;
    case SIM_LOCATION_HOST:
        return sim_config()->driver_version >= SIM_HOST_SINCE;
    case SIM_LOCATION_HOST_NUMA:
        return sim_config()->driver_version >= SIM_HOST_NUMA_SINCE &&
               sim_numa_node_exists(location->id);
    default:
        return false;
    }
}

SIM_API(cuMemPoolGetAccess, CUmemAccess_flags *flags, CUmemoryPool handle,
        CUmemLocation *location)
{
    SIM_TRY(sim_enter(SIM_ID_cuMemPoolGetAccess));
    if (!flags || !location || !accesses(location))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_pool *pool = sim_pool_get(handle);
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = rights_of(pool, location);
    sim_pool_put(pool);
    return CUDA_SUCCESS;
}
