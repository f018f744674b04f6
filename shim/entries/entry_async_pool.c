/*
 * entry_async_pool.c - the driver's memory pools: the locations of the program's pools
 * (memory_pools.h), and calls on the default pool of a device other than allocations.
 * With GPUSHIM_ASYNC=pool the default pool's memory comes from a private pool, and the
 * program must not see a difference (async_policy.h); in the other mode these calls are
 * forwarded.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/async/async_heaps.h"
#include "shim/async/async_policy.h"
#include "shim/checks/described.h"
#include "shim/cuda/location.h"
#include "shim/lifetimes/memory_pools.h"

/* ---- pools of the program's ----------------------------------------------------- */

static void pool_created(CUresult result, const CUmemoryPool *pool,
                         const CUmemPoolProps *props)
{
    if (result == CUDA_SUCCESS) {
        gs_memory_pools_created(*pool, props);
    }
}

static CUresult destroy_pool(__typeof__(cuMemPoolDestroy) *real, CUmemoryPool pool)
{
    struct gs_memory_location location = gs_memory_pools_leaves(pool);
    CUresult result = real(pool);
    if (result != CUDA_SUCCESS) {
        gs_memory_pools_back(pool, location);
    }
    return result;
}

/* ---- the current pool -------------------------------------------------------------- */

static void end_if_pooled(int device, const char *why)
{
    GS_WITHIN(gs_enter(), gs_async_wanted(state) ? gs_async_end(device, why) : (void)0);
}

#define ANOTHER_POOL "the program has set another pool"

static void pool_chosen(CUresult result, int device, CUmemoryPool pool)
{
    if (result == CUDA_SUCCESS) {
        gs_memory_pools_choose(device, pool);
    }
}

GS_EXPORT CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
                                   CUmemoryPool pool)
{
    CUmemLocation where;
    /* Before the driver has checked the call. */
    int device = type == CU_MEM_ALLOCATION_TYPE_PINNED &&
                         gs_described(&where, location, sizeof(where), CUDA_ERROR_UNKNOWN)
                     ? gs_location_device(&where, -1)
                     : -1;
    if (device >= 0) {
        end_if_pooled(device, ANOTHER_POOL);
    }
    CUresult result = gs_real()->cuMemSetMemPool(location, type, pool);
    /* A part's pool is not that of the whole device. */
    if (device >= 0 && (int)where.type == GS_LOCATION_DEVICE) {
        pool_chosen(result, device, pool);
    }
    return result;
}

/* ---- attributes of the pool -------------------------------------------------------- */

/* The device of the default pool named in a call, if this matters; else -1. */
static int default_of(const struct gs_state *state, CUmemoryPool pool)
{
    return gs_async_wanted(state) ? gs_memory_pool_default_of(pool) : -1;
}

static bool is_statistic(CUmemPool_attribute attribute)
{
    return attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ||
           attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ||
           attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ||
           attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
}

static bool is_reuse(CUmemPool_attribute attribute)
{
    return attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
           attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
           attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

/* Before the driver has checked the call. */
static bool is_switched_off(CUmemPool_attribute attribute, const void *value)
{
    int wanted;
    return is_reuse(attribute) &&
           gs_described(&wanted, value, sizeof(wanted), CUDA_ERROR_UNKNOWN) && !wanted;
}

/* Called when the program queries the used bytes: ends pooling there, and returns idle
 * memory to the driver. Returns the private pool, whose statistics are part of the
 * answer; NULL: none. */
static CUmemoryPool end_for_statistics(struct gs_state *state, CUmemoryPool pool)
{
    int device = default_of(state, pool);
    CUmemoryPool made = gs_async_pool_known(device);
    gs_async_end(device, "the program asks what is in use");
    if (made) {
        gs_async_give_back(device);
    }
    return made;
}

/* Called when the program resets a high-water mark of its pool: resets the mark of the
 * private pool as well. */
static CUresult set_mark(struct gs_state *state, CUmemoryPool pool,
                         CUmemPool_attribute attribute, void *value)
{
    CUmemoryPool made = end_for_statistics(state, pool);
    CUresult result = gs_real()->cuMemPoolSetAttribute(pool, attribute, value);
    if (result == CUDA_SUCCESS && made) {
        (void)gs_real()->cuMemPoolSetAttribute(made, attribute, value);
    }
    return result;
}

GS_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
                                         void *value)
{
    bool mark = is_statistic(attr);
    struct gs_state *state =
        value && (mark || is_switched_off(attr, value)) ? gs_enter() : NULL;
    if (!state) {
        return gs_real()->cuMemPoolSetAttribute(pool, attr, value);
    }
    CUresult result;
    if (mark) {
        result = set_mark(state, pool, attr, value);
    } else {
        gs_async_end(default_of(state, pool), "the program limits its reuse");
        result = gs_real()->cuMemPoolSetAttribute(pool, attr, value);
    }
    gs_leave();
    return result;
}

/* Adds the statistics of the private pool to the answer, as native ones would count. */
static void add_private(CUmemoryPool made, CUmemPool_attribute attribute, void *value)
{
    cuuint64_t private_bytes = 0;
    if (gs_real()->cuMemPoolGetAttribute(made, attribute, &private_bytes) ==
        CUDA_SUCCESS) {
        *(cuuint64_t *)value += private_bytes;
    }
}

GS_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
                                         void *value)
{
    struct gs_state *state = value && is_statistic(attr) ? gs_enter() : NULL;
    if (!state) {
        return gs_real()->cuMemPoolGetAttribute(pool, attr, value);
    }
    CUmemoryPool made = end_for_statistics(state, pool);
    CUresult result = gs_real()->cuMemPoolGetAttribute(pool, attr, value);
    if (result == CUDA_SUCCESS && made) {
        add_private(made, attr, value);
    }
    gs_leave();
    return result;
}

GS_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map,
                                      size_t count)
{
    struct gs_state *state = gs_enter();
    CUresult result = gs_real()->cuMemPoolSetAccess(pool, map, count);
    if (!state) {
        return result;
    }
    if (result == CUDA_SUCCESS && gs_async_wanted(state)) {
        int device = gs_memory_pool_default_of(pool);
        CUmemoryPool made = gs_async_pool_known(device);
        if (made && gs_real()->cuMemPoolSetAccess(made, map, count) != CUDA_SUCCESS) {
            gs_async_end(device, "its access could not be set");
        }
    }
    gs_leave();
    return result;
}

GS_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_real()->cuMemPoolTrimTo(pool, minBytesToKeep);
    }
    int device = default_of(state, pool);
    if (device >= 0 && gs_async_pool_known(device)) {
        gs_async_give_back(device);
    }
    CUresult result = gs_real()->cuMemPoolTrimTo(pool, minBytesToKeep);
    gs_leave();
    return result;
}

#define GS_FILE_async_pool ,
#include "shim/entries/forward.h"
