/*
 * api_pool_home.c - pools as objects: where their memory is, creation and destruction,
 * which one is current.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Stream Ordered Memory Allocator", of 13.0; for managed pools also
 * cuMemPoolCreate as later releases document it; CUDA Programming Guide, "Extended GPU
 * Memory".
 */
#include "config.h"
#include "device.h"
#include "location.h"
#include "pool.h"

/* Numbers of attributes that older headers lack. */
#define HOST_NUMA_POOLS ((CUdevice_attribute)142)
#define HOST_POOLS      ((CUdevice_attribute)144)

/* Have the devices pools there? */
static CUresult check_support(const struct sim_pool_home *home)
{
    int attribute = 0;

    if (home->managed)
        attribute = CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
    else if (home->type == SIM_LOCATION_HOST)
        attribute = HOST_POOLS;
    else if (home->type == SIM_LOCATION_HOST_NUMA)
        attribute = HOST_NUMA_POOLS;
    return !attribute || sim_device_attribute((CUdevice_attribute)attribute)
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_SUPPORTED;
}

/*
 * The home that a location and a type of memory name.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE   there is none, or not in a driver of this version
 *          CUDA_ERROR_INVALID_DEVICE
 *          CUDA_ERROR_NOT_SUPPORTED   the devices have no pools there
 */
static CUresult find_home(const CUmemLocation *named, CUmemAllocationType type,
                          struct sim_pool_home *out)
{
    const int driver = sim_config()->driver_version;
    const CUmemLocation at = sim_location_of(named, driver), *location = &at;
    bool managed = (int)type == SIM_ALLOCATION_MANAGED && driver >= SIM_HOST_SINCE;

    if (!managed && type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct sim_pool_home){.type = (int)location->type, .managed = managed};
    switch ((int)location->type) {
    case SIM_LOCATION_NONE:
        return managed ? check_support(out) : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_LOCATION_TYPE_DEVICE:
        out->id = location->id;
        return sim_device_get(location->id) ? check_support(out)
                                            : CUDA_ERROR_INVALID_DEVICE;
    case SIM_LOCATION_HOST:
        return driver >= SIM_HOST_SINCE ? check_support(out) : CUDA_ERROR_INVALID_VALUE;
    case SIM_LOCATION_HOST_NUMA:
        out->id = location->id;
        return driver >= SIM_HOST_NUMA_SINCE && sim_numa_node_exists(location->id)
                   ? check_support(out)
                   : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* What a pool there can be asked for. */
static CUresult check_wishes(const struct sim_pool_home *home,
                             const CUmemPoolProps *props)
{
    if (home->managed) /* "handleTypes must be NONE, maxSize zero" */
        return props->handleTypes == CU_MEM_HANDLE_TYPE_NONE && !sim_pool_max_bytes(props)
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    if (home->type == SIM_LOCATION_HOST)
        return props->handleTypes == CU_MEM_HANDLE_TYPE_NONE ? CUDA_SUCCESS
                                                             : CUDA_ERROR_INVALID_VALUE;
    unsigned shared = home->type == CU_MEM_LOCATION_TYPE_DEVICE
                          ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                          : 0; /* a node's memory cannot be shared here */
    return props->handleTypes & ~shared ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

SIM_API(cuMemPoolCreate, CUmemoryPool *out, const CUmemPoolProps *props)
{
    struct sim_pool_home home;
    struct sim_pool *pool;

    SIM_TRY(sim_enter(SIM_ID_cuMemPoolCreate));
    if (!out || !props)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = find_home(&props->location, props->allocType, &home);
    if (res == CUDA_SUCCESS)
        res = check_wishes(&home, props);
    if (res == CUDA_SUCCESS)
        res = sim_pool_create_at(&home, false, sim_pool_max_bytes(props), &pool);
    if (res != CUDA_SUCCESS)
        return res;
    pool->handle_types = props->handleTypes;
    *out = pool->object.handle;
    sim_pool_put(pool);
    return CUDA_SUCCESS;
}

/* What is allocated from it stays; the pool goes with the last of it. */
SIM_API(cuMemPoolDestroy, CUmemoryPool handle)
{
    SIM_TRY(sim_enter(SIM_ID_cuMemPoolDestroy));
    struct sim_pool *pool = sim_pool_get(handle);
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_object *closed =
        pool->is_default ? NULL : sim_handle_close(handle, SIM_TYPE_POOL);
    if (closed) {
        sim_pool_unset_current(pool);
        sim_pool_forget(pool);
        sim_object_unref(closed);
    }
    sim_pool_put(pool);
    return closed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Tell a location's pool. */
static CUresult tell_pool(const struct sim_pool_home *home, bool want_default,
                          CUmemoryPool *out)
{
    struct sim_pool *pool;

    SIM_TRY(sim_pool_find(home, want_default, &pool));
    *out = pool->object.handle;
    sim_pool_put(pool);
    return CUDA_SUCCESS;
}

static CUresult get_device_pool(enum sim_api api, CUmemoryPool *out, CUdevice ordinal,
                                bool want_default)
{
    const struct sim_pool_home home = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                       .id = ordinal};

    SIM_TRY(sim_enter(api));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_device_get(ordinal) ? tell_pool(&home, want_default, out)
                                   : CUDA_ERROR_INVALID_DEVICE;
}

SIM_API_ONE(cuDeviceGetDefaultMemPool, (CUmemoryPool * out, CUdevice device),
            get_device_pool(api, out, device, true));

SIM_API_ONE(cuDeviceGetMemPool, (CUmemoryPool * out, CUdevice device),
            get_device_pool(api, out, device, false));

/* A device allocates from its own pools; and from one of a NUMA node, as the guide shows
 * ("Extended GPU Memory"). */
static bool suits_device(const struct sim_pool *pool, CUdevice device)
{
    return pool->device == device ||
           (pool->home.type == SIM_LOCATION_HOST_NUMA && !pool->home.managed);
}

SIM_API(cuDeviceSetMemPool, CUdevice device, CUmemoryPool handle)
{
    const struct sim_pool_home home = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};

    SIM_TRY(sim_enter(SIM_ID_cuDeviceSetMemPool));
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_pool *pool = sim_pool_get(handle);
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = suits_device(pool, device) && !pool->owner
                       ? sim_pool_make_current(&home, pool)
                       : CUDA_ERROR_INVALID_VALUE;
    sim_pool_put(pool);
    return res;
}

static CUresult get_pool(enum sim_api api, CUmemoryPool *out,
                         const CUmemLocation *location, CUmemAllocationType type,
                         bool want_default)
{
    struct sim_pool_home home;

    SIM_TRY(sim_enter(api));
    if (!out || !location)
        return CUDA_ERROR_INVALID_VALUE;
    if ((int)location->type == SIM_LOCATION_HOST_NUMA_CURRENT)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult res = find_home(location, type, &home);
    return res == CUDA_SUCCESS ? tell_pool(&home, want_default, out) : res;
}

SIM_API_ONE(cuMemGetDefaultMemPool,
            (CUmemoryPool * out, CUmemLocation *location, CUmemAllocationType type),
            get_pool(api, out, location, type, true));

SIM_API_ONE(cuMemGetMemPool,
            (CUmemoryPool * out, CUmemLocation *location, CUmemAllocationType type),
            get_pool(api, out, location, type, false));

SIM_API(cuMemSetMemPool, CUmemLocation *location, CUmemAllocationType type,
        CUmemoryPool handle)
{
    struct sim_pool_home home;

    SIM_TRY(sim_enter(SIM_ID_cuMemSetMemPool));
    struct sim_pool *pool = location ? sim_pool_get(handle) : NULL;
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = find_home(location, type, &home);
    if (res != CUDA_SUCCESS || !sim_pool_home_is_same(&home, &pool->home) || pool->owner)
        res = CUDA_ERROR_INVALID_VALUE;
    else
        res = sim_pool_make_current(&home, pool);
    sim_pool_put(pool);
    return res;
}
