/*
 * case_pool_host.c - memory pools that are not a device's: of the host, of a NUMA node,
 * of managed memory. Skipped where the driver or the device has none.
 */
#include "case_pool_help.h"

#define BYTES 100000
#define RW    CU_MEM_ACCESS_FLAGS_PROT_READWRITE

/* Numbers of CUDA 12.2 to 13.0, not in all headers. */
#define AT_NONE         0
#define AT_HOST         2
#define AT_NODE         3
#define TYPE_MANAGED    2
#define NODE_OF_DEVICE  134
#define HAS_NODE_POOLS  142
#define HAS_HOST_POOLS  144
#define NODE_POOLS_TOLD 12090 /* older drivers may have them, but do not say so */
#define HOST_POOLS_TOLD 13000

typedef CUresult find_call(CUmemoryPool *, CUmemLocation *, CUmemAllocationType);
typedef CUresult make_current_call(CUmemLocation *, CUmemAllocationType, CUmemoryPool);

/* Has the driver, and the device, what the attribute tells? If not, the case is skipped.
 */
static bool has(int attribute, int since)
{
    if (!pools_supported())
        return false;
    if (driver_version() >= since && device_attribute((CUdevice_attribute)attribute))
        return true;
    skip("no such memory pools");
    return false;
}

static bool has_host_pools(void)
{
    return has(HAS_HOST_POOLS, HOST_POOLS_TOLD);
}

static CUmemLocation place(int type, int id)
{
    return (CUmemLocation){.type = (CUmemLocationType)type, .id = id};
}

static CUmemoryPool pool_at(int type, int id)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = place(type, id)};
    CUmemoryPool pool = NULL;

    return CHECK_OK(cuMemPoolCreate(&pool, &props)) ? pool : NULL;
}

/* The device may use its memory. */
static void open_to_device(CUmemoryPool pool)
{
    const CUmemAccessDesc wanted = {
        .location = place(CU_MEM_LOCATION_TYPE_DEVICE, the_device()), .flags = RW};

    CHECK_OK(cuMemPoolSetAccess(pool, &wanted, 1));
}

/* Memory the host may touch when this returns; 0 and a failed case if there is none. */
static CUdeviceptr memory_of(CUmemoryPool pool)
{
    CUdeviceptr pointer = pool ? pool_get(pool, BYTES, NULL) : 0;

    CHECK_OK(cuStreamSynchronize(NULL));
    return pointer;
}

static void *seen_by_host(CUdeviceptr pointer)
{
    return (void *)(uintptr_t)pointer;
}

/* Does the host find there what it writes? */
static void check_host_memory(CUdeviceptr pointer)
{
    bytes_fill(seen_by_host(pointer), BYTES, 3);
    CHECK(bytes_hold(seen_by_host(pointer), BYTES, 3));
}

static void end_memory(CUdeviceptr pointer)
{
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
}

CASE_WHERE(
    has_host_pools, pool, host_created, DRIVER_API, "cuMemPoolCreate",
    "To create a memory pool for HOST memory not targeting a specific NUMA node, "
    "applications must set the location's type to CU_MEM_LOCATION_TYPE_HOST; its id is "
    "ignored")
{
    CUmemoryPool pools[2];

    pools[0] = pool_at(AT_HOST, 0);
    pools[1] = pool_at(AT_HOST, 12345);
    CHECK(pools[0] != pools[1]);
    pool_end(pools[0]);
    pool_end(pools[1]);
}

CASE(pool, host_open_to_the_host, DRIVER_API, "cuMemPoolCreate",
     "In the case of pools created with CU_MEM_LOCATION_TYPE_HOST_NUMA or "
     "CU_MEM_LOCATION_TYPE_HOST, their default accessibility will be from the host CPU")
{
    POOL pool = has_host_pools() ? pool_at(AT_HOST, 0) : NULL;
    CUdeviceptr pointer = pool ? memory_of(pool) : 0;

    if (!pointer)
        return;
    check_host_memory(pointer);
    end_memory(pointer);
}

CASE(pool, node_open_to_the_host, DRIVER_API, "cuMemPoolCreate",
     "To create a memory pool targeting a specific host NUMA node, applications must set "
     "the location's type to CU_MEM_LOCATION_TYPE_HOST_NUMA and its id must specify the "
     "NUMA ID of the host memory node; default accessibility from the host CPU")
{
    CUdeviceptr pointer;
    int node;

    if (!has(HAS_NODE_POOLS, NODE_POOLS_TOLD))
        return;
    node = device_attribute((CUdevice_attribute)NODE_OF_DEVICE);
    if (node < 0) {
        skip("the device is at no NUMA node");
        return;
    }
    POOL pool = pool_at(AT_NODE, node);
    pointer = memory_of(pool);
    if (!pointer)
        return;
    check_host_memory(pointer);
    end_memory(pointer);
}

CASE(pool, host_opened_to_a_device, DRIVER_API, "cuMemPoolSetAccess",
     "Each descriptor instructs the access to enable for a single gpu")
{
    POOL pool = has_host_pools() ? pool_at(AT_HOST, 0) : NULL;
    CUdeviceptr pointer = pool ? memory_of(pool) : 0, block;
    STREAM stream = pointer ? new_stream(CU_STREAM_NON_BLOCKING) : NULL;
    CUmemLocation location = place(CU_MEM_LOCATION_TYPE_DEVICE, the_device());
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;

    if (!stream)
        return;
    open_to_device(pool);
    CHECK_OK(cuMemPoolGetAccess(&flags, pool, &location));
    CHECK_EQUAL(flags, RW);
    block = device_get(BYTES);
    CHECK(device_fill(block, BYTES, 1));
    CHECK_OK(cuMemcpyAsync(pointer, block, BYTES, stream));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK(bytes_hold(seen_by_host(pointer), BYTES, 1));
    bytes_fill(seen_by_host(pointer), BYTES, 2);
    CHECK_OK(copy_words(stream, block, pointer, BYTES / 4));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK(device_holds(block, BYTES, 2));
    device_put(block);
    end_memory(pointer);
}

CASE(pool, host_memory_told, DRIVER_API, "cuPointerGetAttribute",
     "If ptr addresses host memory then MEMORY_TYPE is CU_MEMORYTYPE_HOST; "
     "MEMPOOL_HANDLE is the handle to the mempool that the allocation was obtained from; "
     "HOST_POINTER will equal the input value ptr")
{
    POOL pool = has_host_pools() ? pool_at(AT_HOST, 0) : NULL;
    CUmemoryPool told = NULL;
    CUdeviceptr pointer = pool ? memory_of(pool) : 0;
    void *address = NULL;
    unsigned type = 0;

    if (!pointer)
        return;
    open_to_device(pool);
    CHECK_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
    CHECK_EQUAL(type, CU_MEMORYTYPE_HOST);
    CHECK_OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer));
    CHECK(told == pool);
    CHECK_OK(cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer));
    CHECK(address == seen_by_host(pointer));
    end_memory(pointer);
}

CASE(pool, host_ended_before_its_memory, DRIVER_API, "cuMemPoolDestroy",
     "If any pointers obtained from this pool haven't been freed, the function will "
     "return immediately and the resources associated with the pool will be released "
     "automatically once there are no more outstanding allocations")
{
    CUmemoryPool pool = has_host_pools() ? pool_at(AT_HOST, 0) : NULL;
    CUdeviceptr pointer = pool ? memory_of(pool) : 0;

    if (!pointer)
        return;
    pool_end(pool);
    check_host_memory(pointer);
    end_memory(pointer);
}

CASE_WHERE(
    has_host_pools, pool, host_current_one, DRIVER_API, "cuMemGetMemPool",
    "Returns the last pool provided to cuMemSetMemPool for this location and allocation "
    "type or the location's default memory pool if it has never been called")
{
    make_current_call *set = (make_current_call *)driver_function("cuMemSetMemPool");
    find_call *find = (find_call *)driver_function("cuMemGetMemPool");
    find_call *find_default = (find_call *)driver_function("cuMemGetDefaultMemPool");
    CUmemLocation location = place(AT_HOST, 0);
    CUmemoryPool first = NULL, told = NULL;

    if (!CHECK(set && find && find_default))
        return;
    CHECK_OK(find_default(&first, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECK_OK(find(&told, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECK(told == first);
    POOL pool = pool_at(AT_HOST, 0);
    CHECK_OK(set(&location, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
    CHECK_OK(find(&told, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECK(told == pool);
    CHECK_OK(set(&location, CU_MEM_ALLOCATION_TYPE_PINNED, first));
}

CASE(
    pool, managed_default_one, DRIVER_API, "cuMemGetDefaultMemPool",
    "When the allocation type is CU_MEM_ALLOCATION_TYPE_MANAGED, the location type can "
    "also be CU_MEM_LOCATION_TYPE_NONE to indicate no preferred location for the managed "
    "memory pool")
{
    find_call *find = (find_call *)driver_function("cuMemGetDefaultMemPool");
    CUmemLocation location = place(AT_NONE, 0);
    CUmemoryPool pool = NULL;
    CUdeviceptr pointer;
    bool managed = false;

    if (!has(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, HOST_POOLS_TOLD))
        return;
    if (!CHECK(find != NULL) ||
        !CHECK_OK(find(&pool, &location, (CUmemAllocationType)TYPE_MANAGED)))
        return;
    pointer = memory_of(pool);
    if (!pointer)
        return;
    CHECK_OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer));
    CHECK(managed);
    bytes_fill(seen_by_host(pointer), BYTES, 5);
    CHECK(device_holds(pointer, BYTES, 5));
    end_memory(pointer);
}
