/*
 * memory_pools.c - the locations of memory pools, by handle.
 * Owns:  the table, whose rows end with their pools; the current pool of each device.
 * Lock:  pools_lock, not held across a driver call.
 */
#include "shim/lifetimes/memory_pools.h"

#include <stdlib.h>
#include <string.h>

#include "gs_hash.h"
#include "gs_locks.h"
#include "shim/cuda/location.h"

/* Not in all headers (CUmemAllocationType). */
enum { ALLOCATION_MANAGED = 2 };

struct row {
    UT_hash_handle hh; /* in rows, by its pool */
    CUmemoryPool pool;
    struct gs_memory_location location;
};

static struct gs_mutex pools_lock = GS_MUTEX(GS_RANK_MEMORY_POOLS);
static struct row *rows; /* under pools_lock */

/* By device; atomic; NULL: the default pool. */
static CUmemoryPool chosen[GS_MAX_DEVICES];

static const struct gs_memory_location nowhere = {.device = -1};

static struct gs_memory_location on_device(int device)
{
    return (struct gs_memory_location){true, GS_MEMORY_ASYNC, (int16_t)device};
}

static struct gs_memory_location off_devices(enum gs_memory_kind kind)
{
    return (struct gs_memory_location){true, (uint8_t)kind, -1};
}

/* Out of the table, or NULL; pools_lock is held. */
static struct row *take(CUmemoryPool pool)
{
    struct row *row = GS_HASH_FIND(rows, &pool);
    if (row) {
        HASH_DEL(rows, row);
    }
    return row;
}

/* Stores the pool's location. Without memory for a row the location is determined again
 * each time. */
static void put(CUmemoryPool pool, struct gs_memory_location location)
{
    struct row *row = calloc(1, sizeof(*row));
    if (!row) {
        return;
    }
    row->pool = pool;
    row->location = location;
    gs_mutex_lock(&pools_lock);
    struct row *was = take(pool); /* a second thread, or a missed destroy */
    bool added = GS_HASH_ADD(rows, pool, row);
    gs_mutex_unlock(&pools_lock);
    free(was);
    if (!added) {
        free(row);
    }
}

void gs_memory_pools_created(CUmemoryPool pool, const CUmemPoolProps *props)
{
    enum { UNKNOWN = -2 };
    int device = gs_location_device(&props->location, UNKNOWN);

    if ((int)props->allocType == ALLOCATION_MANAGED) {
        put(pool, off_devices(GS_MEMORY_MANAGED));
    } else if (device >= 0) {
        put(pool, on_device(device));
    } else if (device != UNKNOWN) { /* else the device of the thread that allocates */
        put(pool, off_devices(GS_MEMORY_PINNED));
    }
}

struct gs_memory_location gs_memory_pools_leaves(CUmemoryPool pool)
{
    gs_mutex_lock(&pools_lock);
    struct row *row = take(pool);
    gs_mutex_unlock(&pools_lock);
    struct gs_memory_location location = row ? row->location : nowhere;
    free(row);
    for (size_t i = 0; i < GS_MAX_DEVICES; i++) {
        CUmemoryPool own = pool;
        (void)__atomic_compare_exchange_n(&chosen[i], &own, NULL, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED);
    }
    return location;
}

void gs_memory_pools_back(CUmemoryPool pool, struct gs_memory_location location)
{
    if (location.known) {
        put(pool, location);
    }
}

struct gs_memory_location gs_memory_pools_location(CUmemoryPool pool)
{
    gs_mutex_lock(&pools_lock);
    const struct row *row = GS_HASH_FIND(rows, &pool);
    struct gs_memory_location location = row ? row->location : nowhere;
    gs_mutex_unlock(&pools_lock);
    int device = location.known ? -1 : gs_memory_pool_default_of(pool);
    if (device >= 0) {
        location = on_device(device);
        put(pool, location);
    }
    return location;
}

void gs_memory_pools_choose(int device, CUmemoryPool pool)
{
    if (device >= 0 && device < GS_MAX_DEVICES) {
        bool own = gs_memory_pool_default_of(pool) == device;
        __atomic_store_n(&chosen[device], own ? NULL : pool, __ATOMIC_RELAXED);
    }
}

struct gs_memory_location gs_memory_pools_chosen(int device)
{
    CUmemoryPool pool = device >= 0 && device < GS_MAX_DEVICES
                            ? __atomic_load_n(&chosen[device], __ATOMIC_RELAXED)
                            : NULL;
    return GS_UNLIKELY(pool != NULL) ? gs_memory_pools_location(pool) : nowhere;
}

/* ---- queries of the driver ------------------------------------------------------ */

static unsigned query_attribute(CUpointer_attribute attribute, CUdeviceptr addr,
                                unsigned otherwise)
{
    unsigned answer = otherwise;
    bool told =
        gs_real()->cuPointerGetAttribute &&
        gs_real()->cuPointerGetAttribute(&answer, attribute, addr) == CUDA_SUCCESS;
    return told ? answer : otherwise;
}

int gs_memory_device(CUdeviceptr addr, int otherwise)
{
    return (int)query_attribute(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, addr,
                                (unsigned)otherwise);
}

struct gs_memory_location gs_memory_pools_learn(CUmemoryPool pool, CUdeviceptr addr)
{
    struct gs_memory_location location = nowhere;
    int device = gs_memory_device(addr, -1);
    /* Early drivers write a single byte. */
    if (query_attribute(CU_POINTER_ATTRIBUTE_IS_MANAGED, addr, 0) & 0xff) {
        location = off_devices(GS_MEMORY_MANAGED);
    } else if (query_attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, addr,
                               CU_MEMORYTYPE_DEVICE) == CU_MEMORYTYPE_HOST) {
        location = off_devices(GS_MEMORY_PINNED);
    } else if (device >= 0) {
        location = on_device(device);
    }
    gs_memory_pools_back(pool, location);
    return location;
}

int gs_memory_pool_default_of(CUmemoryPool pool)
{
    const struct gs_real *real = gs_real();
    int count = 0;
    if (!pool || !real->cuDeviceGetCount || !real->cuDeviceGetDefaultMemPool ||
        real->cuDeviceGetCount(&count) != CUDA_SUCCESS) {
        return -1;
    }
    for (int device = 0; device < count && device < GS_MAX_DEVICES; device++) {
        CUmemoryPool own = NULL;
        if (real->cuDeviceGetDefaultMemPool(&own, device) == CUDA_SUCCESS &&
            own == pool) {
            return device;
        }
    }
    return -1;
}

void gs_memory_pools_reset(void)
{
    gs_mutex_init(&pools_lock, GS_RANK_MEMORY_POOLS);
    rows = NULL; /* another thread may have been changing it */
    memset(chosen, 0, sizeof(chosen));
}
