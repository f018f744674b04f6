/*
 * case_pool_help.c - what the cases about stream-ordered memory share.
 * Owns:  nothing.   Lock: none; cases run on one thread.
 */
#include "case_pool_help.h"

bool pools_supported(void)
{
    if (device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        return true;
    skip("no stream-ordered memory");
    return false;
}

CUmemoryPool pool_new(size_t max_bytes)
{
    const CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CU_MEM_HANDLE_TYPE_NONE,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = the_device()},
        .maxSize = max_bytes,
    };
    CUmemoryPool pool = NULL;

    return CHECK_OK(cuMemPoolCreate(&pool, &props)) ? pool : NULL;
}

void pool_end(CUmemoryPool pool)
{
    if (pool)
        CHECK_OK(cuMemPoolDestroy(pool));
}

CUmemoryPool pool_default(void)
{
    CUmemoryPool pool = NULL;

    CHECK_OK(cuDeviceGetDefaultMemPool(&pool, the_device()));
    return pool;
}

CUmemoryPool pool_current(void)
{
    CUmemoryPool pool = NULL;

    CHECK_OK(cuDeviceGetMemPool(&pool, the_device()));
    return pool;
}

cuuint64_t pool_size(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value = 0;

    CHECK_OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

int pool_flag(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    int value = -77;

    CHECK_OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

CUresult pool_set_size(CUmemoryPool pool, CUmemPool_attribute attribute, cuuint64_t value)
{
    return cuMemPoolSetAttribute(pool, attribute, &value);
}

CUdeviceptr pool_get(CUmemoryPool pool, size_t bytes, CUstream stream)
{
    CUdeviceptr pointer = 0;
    bool got = pool ? CHECK_OK(cuMemAllocFromPoolAsync(&pointer, bytes, pool, stream))
                    : CHECK_OK(cuMemAllocAsync(&pointer, bytes, stream));

    return got ? pointer : 0;
}
