/*
 * sim_pool_home_helpers.h - shared by the tests of memory pools that are not a device's:
 * numbers that older headers lack, making a pool, looking at its memory.
 */
#ifndef SIM_POOL_HOME_HELPERS_H
#define SIM_POOL_HOME_HELPERS_H

#include "../kernels/kernels.h"
#include "sim_helpers.h"

#define AT_NONE         0
#define AT_HOST         2
#define AT_NODE         3
#define AT_CURRENT_NODE 4
#define PINNED          1
#define MANAGED         2

CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location,
                                        CUmemAllocationType type);
CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location,
                                 CUmemAllocationType type);
CUresult CUDAAPI cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
                                 CUmemoryPool pool);

static inline CUmemPoolProps pool_props(int memory, int type, int id)
{
    return (CUmemPoolProps){.allocType = (CUmemAllocationType)memory,
                            .location = {.type = (CUmemLocationType)type, .id = id}};
}

static inline CUresult make_pool(int memory, int type, int id, CUmemoryPool *out)
{
    const CUmemPoolProps props = pool_props(memory, type, id);

    return cuMemPoolCreate(out, &props);
}

static inline CUmemoryPool new_pool(int memory, int type, int id)
{
    CUmemoryPool pool = NULL;

    ok(make_pool(memory, type, id, &pool));
    return pool;
}

static inline CUstream new_stream(void)
{
    CUstream stream;

    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static inline CUdeviceptr get(CUmemoryPool pool, size_t bytes, CUstream stream)
{
    CUdeviceptr pointer = 0;

    ok(cuMemAllocFromPoolAsync(&pointer, bytes, pool, stream));
    return pointer;
}

static inline uint32_t *words_at(CUdeviceptr pointer)
{
    return (uint32_t *)(uintptr_t)pointer;
}

static inline CUresult set_access(CUmemoryPool pool, int device, CUmemAccess_flags flags)
{
    const CUmemAccessDesc desc = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}, .flags = flags};

    return cuMemPoolSetAccess(pool, &desc, 1);
}

static inline int access_from(CUmemoryPool pool, int type, int id)
{
    CUmemLocation location = {.type = (CUmemLocationType)type, .id = id};
    CUmemAccess_flags flags = (CUmemAccess_flags)-1;

    ok(cuMemPoolGetAccess(&flags, pool, &location));
    return (int)flags;
}

static inline cuuint64_t pool_attribute(CUmemoryPool pool, CUmemPool_attribute name)
{
    cuuint64_t value = 0;

    ok(cuMemPoolGetAttribute(pool, name, &value));
    return value;
}

/* Can the host read there? Asked of the kernel: no signal comes. */
static inline bool host_reads(CUdeviceptr pointer)
{
    int ends[2];

    cr_assert_eq(pipe(ends), 0);
    bool reads = write(ends[1], words_at(pointer), 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return reads;
}

/* gs_fill of `count` words: word i is gs_pattern(seed, i). */
static inline CUresult fill(CUdeviceptr to, uint64_t count, uint32_t seed,
                            CUstream stream)
{
    uint64_t wide = seed;
    void *params[] = {&to, &count, &wide};

    return sim_test_launch(sim_test_kernel("gs_fill"), stream, params);
}

#endif
