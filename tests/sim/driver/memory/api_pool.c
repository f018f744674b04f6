/*
 * api_pool.c - stream-ordered allocation and its pools.
 * Owns:  a device's choice of current pool.   Lock: device->lock.
 * Source: Driver API, "Stream Ordered Memory Allocator".
 */
#include <string.h>

#include "capture.h"
#include "context.h"
#include "device.h"
#include "latency.h"
#include "pool.h"
#include "stream.h"
#include "version.h"

/* The device's current pool, with a reference. */
static struct sim_pool *current_pool(int ordinal)
{
    struct sim_device *device = sim_device_get(ordinal);

    pthread_mutex_lock(&device->lock);
    struct sim_pool *pool = device->current_pool;
    sim_object_ref(&pool->object);
    pthread_mutex_unlock(&device->lock);
    return pool;
}

/* From the pool, or, while the stream captures, as a node of the graph. */
static CUresult alloc_in(enum sim_api api, struct sim_pool *pool, size_t bytes,
                         struct sim_stream *stream, CUdeviceptr *out)
{
    struct sim_alloc *alloc;
    bool captured;

    if (pool->owner)
        return CUDA_ERROR_INVALID_VALUE; /* an imported one gives no memory */
    CUresult res = sim_capture_alloc(api, stream, bytes, out, &captured);
    if (res != CUDA_SUCCESS || captured)
        return res;
    res = sim_pool_alloc(api, pool, bytes, stream, &alloc);
    if (res != CUDA_SUCCESS)
        return res;
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
    CUresult res = sim_enter_context(api, &context);

    if (res != CUDA_SUCCESS)
        return res;
    if (!out || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    res = sim_stream_get(context, stream_handle, variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    struct sim_pool *pool =
        handle ? sim_pool_get(*handle) : current_pool(stream->context->device);
    res = pool ? alloc_in(api, pool, bytes, stream, out) : CUDA_ERROR_INVALID_VALUE;
    if (pool)
        sim_pool_put(pool);
    sim_stream_put(stream);
    return res;
}

SIM_API(cuMemAllocAsync, CUdeviceptr *out, size_t bytes, CUstream stream)
{
    return alloc_async(SIM_ID_cuMemAllocAsync, SIM_LEGACY, out, bytes, NULL, stream);
}

SIM_API(cuMemAllocAsync_ptsz, CUdeviceptr *out, size_t bytes, CUstream stream)
{
    return alloc_async(SIM_ID_cuMemAllocAsync_ptsz, SIM_PER_THREAD, out, bytes, NULL,
                       stream);
}

SIM_API(cuMemAllocFromPoolAsync, CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
        CUstream stream)
{
    return alloc_async(SIM_ID_cuMemAllocFromPoolAsync, SIM_LEGACY, out, bytes, &pool,
                       stream);
}

SIM_API(cuMemAllocFromPoolAsync_ptsz, CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
        CUstream stream)
{
    return alloc_async(SIM_ID_cuMemAllocFromPoolAsync_ptsz, SIM_PER_THREAD, out, bytes,
                       &pool, stream);
}

static CUresult free_in(enum sim_api api, CUdeviceptr pointer, struct sim_stream *stream)
{
    bool captured;
    CUresult res = sim_capture_free(api, stream, pointer, &captured);

    if (res != CUDA_SUCCESS || captured)
        return res;
    struct sim_alloc *alloc = sim_memory_find(pointer);
    res = CUDA_ERROR_INVALID_VALUE;
    if (alloc && alloc->base == pointer && sim_memory_is_device_kind(alloc) &&
        alloc->kind != SIM_MEMORY_IPC)
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
    CUresult res = sim_enter_context(api, &context);

    if (res != CUDA_SUCCESS)
        return res;
    res = sim_stream_get(context, stream_handle, variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    res = free_in(api, pointer, stream);
    sim_stream_put(stream);
    return res;
}

SIM_API(cuMemFreeAsync, CUdeviceptr pointer, CUstream stream)
{
    return free_async(SIM_ID_cuMemFreeAsync, SIM_LEGACY, pointer, stream);
}

SIM_API(cuMemFreeAsync_ptsz, CUdeviceptr pointer, CUstream stream)
{
    return free_async(SIM_ID_cuMemFreeAsync_ptsz, SIM_PER_THREAD, pointer, stream);
}

/* What cuMemPoolCreate refuses by name: HOST_NUMA_CURRENT, and HOST that is to be shared.
 * Numbers, for not all headers have the names. */
static bool valid_pool_location(const CUmemPoolProps *props)
{
    switch ((int)props->location.type) {
    case 1: /* DEVICE */
    case 3: /* HOST_NUMA */
        return true;
    case 2: /* HOST */
        return props->handleTypes == CU_MEM_HANDLE_TYPE_NONE;
    default:
        return false;
    }
}

SIM_API(cuMemPoolCreate, CUmemoryPool *out, const CUmemPoolProps *props)
{
    CUresult res = sim_enter(SIM_ID_cuMemPoolCreate);
    struct sim_pool *pool;

    if (res != CUDA_SUCCESS)
        return res;
    if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid_pool_location(props))
        return CUDA_ERROR_INVALID_VALUE;
    if ((props->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!sim_device_get(props->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    res = sim_pool_create(props->location.id, false, sim_pool_max_bytes(props), &pool);
    if (res != CUDA_SUCCESS)
        return res;
    pool->handle_types = props->handleTypes;
    *out = pool->object.handle;
    sim_pool_put(pool);
    return CUDA_SUCCESS;
}

/* If it is the device's current pool, the default one takes its place. */
static void unset_current(struct sim_pool *pool)
{
    struct sim_device *device = sim_device_get(pool->device);

    pthread_mutex_lock(&device->lock);
    bool was_current = device->current_pool == pool;
    if (was_current) {
        device->current_pool = device->default_pool;
        sim_object_ref(&device->default_pool->object);
    }
    pthread_mutex_unlock(&device->lock);
    if (was_current)
        sim_pool_put(pool);
}

/* What is allocated from it stays; the pool goes with the last of it. */
SIM_API(cuMemPoolDestroy, CUmemoryPool handle)
{
    CUresult res = sim_enter(SIM_ID_cuMemPoolDestroy);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_pool *pool = sim_pool_get(handle);
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_object *closed =
        pool->is_default ? NULL : sim_handle_close(handle, SIM_TYPE_POOL);
    if (closed) {
        unset_current(pool);
        sim_pool_forget(pool);
        sim_object_unref(closed);
    }
    sim_pool_put(pool);
    return closed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuMemPoolTrimTo, CUmemoryPool handle, size_t keep_bytes)
{
    CUresult res = sim_enter(SIM_ID_cuMemPoolTrimTo);

    if (res != CUDA_SUCCESS)
        return res;
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
    CUresult res = sim_enter(SIM_ID_cuMemPoolSetAttribute);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_pool *pool = value ? sim_pool_get(handle) : NULL;
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    res = set_attribute(pool, attribute, value);
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
    CUresult res = sim_enter(SIM_ID_cuMemPoolGetAttribute);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_pool *pool = value ? sim_pool_get(handle) : NULL;
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    res = get_attribute(pool, attribute, value);
    sim_pool_put(pool);
    return res;
}

static CUresult set_access(struct sim_pool *pool, const CUmemAccessDesc *desc)
{
    if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sim_device_get(desc->location.id))
        return CUDA_ERROR_INVALID_VALUE;
    unsigned bit = 1u << desc->location.id;
    if (desc->location.id == pool->device &&
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

SIM_API(cuMemPoolGetAccess, CUmemAccess_flags *flags, CUmemoryPool handle,
        CUmemLocation *location)
{
    CUresult res = sim_enter(SIM_ID_cuMemPoolGetAccess);

    if (res != CUDA_SUCCESS)
        return res;
    if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sim_device_get(location->id))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_pool *pool = sim_pool_get(handle);
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned bit = 1u << location->id;
    *flags = atomic_load(&pool->writable) & bit   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             : atomic_load(&pool->readable) & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                  : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    sim_pool_put(pool);
    return CUDA_SUCCESS;
}

static CUresult get_pool(enum sim_api api, CUmemoryPool *out, CUdevice ordinal,
                         bool want_default)
{
    CUresult res = sim_enter(api);

    if (res != CUDA_SUCCESS)
        return res;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_device *device = sim_device_get(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (want_default) {
        *out = device->default_pool->object.handle;
    } else {
        struct sim_pool *pool = current_pool(ordinal);
        *out = pool->object.handle;
        sim_pool_put(pool);
    }
    return CUDA_SUCCESS;
}

static CUresult set_pool(enum sim_api api, CUdevice ordinal, CUmemoryPool handle)
{
    CUresult res = sim_enter(api);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_device *device = sim_device_get(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_pool *pool = sim_pool_get(handle);
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool->device != ordinal || pool->owner) {
        sim_pool_put(pool);
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&device->lock);
    struct sim_pool *before = device->current_pool;
    device->current_pool = pool; /* with the reference of the look-up */
    pthread_mutex_unlock(&device->lock);
    sim_pool_put(before);
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetDefaultMemPool, CUmemoryPool *out, CUdevice device)
{
    return get_pool(SIM_ID_cuDeviceGetDefaultMemPool, out, device, true);
}

SIM_API(cuDeviceGetMemPool, CUmemoryPool *out, CUdevice device)
{
    return get_pool(SIM_ID_cuDeviceGetMemPool, out, device, false);
}

SIM_API(cuDeviceSetMemPool, CUdevice device, CUmemoryPool pool)
{
    return set_pool(SIM_ID_cuDeviceSetMemPool, device, pool);
}

/* The 13.0 forms name a location; only devices have pools here. */
static CUresult check_location(enum sim_api api, const CUmemLocation *location,
                               CUmemAllocationType type)
{
    const bool managed = (int)type == 2; /* not in all headers, nor are HOST, HOST_NUMA */

    if (sim_version_check(api) != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!location || (type != CU_MEM_ALLOCATION_TYPE_PINNED && !managed))
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)location->type) {
    case 1: /* DEVICE */
        return managed ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    case 2: /* HOST */
    case 3: /* HOST_NUMA */
        return CUDA_ERROR_NOT_SUPPORTED;
    default: /* NONE is for managed memory only */
        return managed && (int)location->type == 0 ? CUDA_ERROR_NOT_SUPPORTED
                                                   : CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_API(cuMemGetDefaultMemPool, CUmemoryPool *out, CUmemLocation *location,
        CUmemAllocationType type)
{
    CUresult res = check_location(SIM_ID_cuMemGetDefaultMemPool, location, type);

    return res == CUDA_SUCCESS
               ? get_pool(SIM_ID_cuMemGetDefaultMemPool, out, location->id, true)
               : res;
}

SIM_API(cuMemGetMemPool, CUmemoryPool *out, CUmemLocation *location,
        CUmemAllocationType type)
{
    CUresult res = check_location(SIM_ID_cuMemGetMemPool, location, type);

    return res == CUDA_SUCCESS
               ? get_pool(SIM_ID_cuMemGetMemPool, out, location->id, false)
               : res;
}

SIM_API(cuMemSetMemPool, CUmemLocation *location, CUmemAllocationType type,
        CUmemoryPool pool)
{
    if (sim_version_check(SIM_ID_cuMemSetMemPool) != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_SUPPORTED;
    /* every pool here is of a device and pinned: what is not does not match it */
    if (check_location(SIM_ID_cuMemSetMemPool, location, type) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    return set_pool(SIM_ID_cuMemSetMemPool, location->id, pool);
}
