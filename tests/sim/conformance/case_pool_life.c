/*
 * case_pool_life.c - memory pools as objects: creation, destruction, which one is
 * current, who may access their memory.
 */
#include "case_pool_help.h"

#include <string.h>

#define BYTES 100000

/* Numbers of CUDA 12.2 and 13.0, not in all headers. */
#define HOST              2
#define HOST_NUMA_CURRENT 4
#define TYPE_MANAGED      2

/* What describes a pool of the device; a case changes one thing. */
static CUmemPoolProps device_props(void)
{
    return (CUmemPoolProps){
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = the_device()}};
}

/* Is such a pool refused? Older drivers know fewer locations, and refuse by another
 * code. */
static CUresult creation_code(const CUmemPoolProps *props)
{
    CUmemoryPool pool = NULL;
    CUresult code = cuMemPoolCreate(&pool, props);

    if (code == CUDA_SUCCESS)
        pool_end(pool);
    return code;
}

POOL_CASE(created, DRIVER_API, "cuMemPoolCreate",
          "Creates a CUDA memory pool and returns the handle in pool")
{
    CUmemoryPool pools[2];
    CUdeviceptr pointers[2];

    for (unsigned i = 0; i < 2; i++) {
        pools[i] = pool_new(0);
        pointers[i] = pool_get(pools[i], BYTES, NULL);
        CHECK(device_fill(pointers[i], BYTES, i));
    }
    CHECK(pools[0] != pools[1]);
    CHECK(pools[0] != pool_default());
    for (unsigned i = 0; i < 2; i++) {
        CHECK(device_holds(pointers[i], BYTES, i));
        CHECK_OK(cuMemFreeAsync(pointers[i], NULL));
        CHECK_OK(cuStreamSynchronize(NULL));
        pool_end(pools[i]);
    }
}

POOL_CASE(created_of_no_type, DRIVER_API, "CUmemPoolProps",
          "allocType: must be specified as CU_MEM_ALLOCATION_TYPE_PINNED")
{
    CUmemPoolProps props = device_props();

    props.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
    CHECK(creation_code(&props) != CUDA_SUCCESS);
}

POOL_CASE(created_near_the_thread, DRIVER_API, "cuMemPoolCreate",
          "Specifying CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT as the location's type will "
          "result in CUDA_ERROR_INVALID_VALUE")
{
    CUmemPoolProps props = device_props();

    props.location.type = (CUmemLocationType)HOST_NUMA_CURRENT;
    props.location.id = 0;
    CHECK_INVALID(creation_code(&props));
}

POOL_CASE(
    created_of_host_memory_to_share, DRIVER_API, "cuMemPoolCreate",
    "Pools created with the type CU_MEM_LOCATION_TYPE_HOST are not IPC capable and "
    "handleTypes must be 0, any other values will result in CUDA_ERROR_INVALID_VALUE")
{
    CUmemPoolProps props = device_props();

    props.location.type = (CUmemLocationType)HOST;
    props.location.id = 0;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CHECK_INVALID(creation_code(&props));
}

POOL_CASE(
    limited, DRIVER_API, "cuMemPoolCreate",
    "Applications can control the maximum size of the pool by specifying a non-zero "
    "value for maxSize")
{
    CUdeviceptr pointer = 0;

    if (driver_version() < 12020) {
        skip("a driver that may not know maxSize");
        return;
    }
    POOL pool = pool_new(32 * GS_MIB);
    if (!pool)
        return;
    CHECK_OK(cuMemFreeAsync(pool_get(pool, 16 * GS_MIB, NULL), NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
    if (!CHECK(cuMemAllocFromPoolAsync(&pointer, 256 * GS_MIB, pool, NULL) !=
               CUDA_SUCCESS))
        CHECK_OK(cuMemFreeAsync(pointer, NULL));
}

POOL_CASE(
    default_one, DRIVER_API, "cuDeviceGetDefaultMemPool",
    "Returns the default mempool of a device, which contains device memory from that "
    "device: always the same")
{
    CUmemoryPool pool = pool_default();

    CHECK(pool != NULL);
    CHECK(pool_default() == pool);
}

POOL_CASE(default_one_stays, DRIVER_API, "cuMemPoolDestroy",
          "A device's default memory pool cannot be destroyed")
{
    CUdeviceptr pointer;

    CHECK_REFUSED(cuMemPoolDestroy(pool_default()));
    pointer = pool_get(pool_default(), BYTES, NULL);
    CHECK(device_fill(pointer, BYTES, 1));
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
}

CASE(pool, current_by_default, DRIVER_API, "cuDeviceGetMemPool",
     "By default the current mempool is the default mempool for a device")
{
    if (pools_supported())
        CHECK(pool_current() == pool_default());
}

POOL_CASE(current_one_set, DRIVER_API, "cuDeviceSetMemPool",
          "cuMemAllocAsync allocates from the current mempool of the provided stream's "
          "device")
{
    POOL pool = pool_new(0);
    CUmemoryPool told = NULL;
    CUdeviceptr pointer;

    CHECK_OK(cuDeviceSetMemPool(the_device(), pool));
    CHECK(pool_current() == pool);
    pointer = pool_get(NULL, BYTES, NULL);
    CHECK_OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer));
    CHECK(told == pool);
    CHECK(pool_size(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= BYTES);
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
    CHECK_OK(cuDeviceSetMemPool(the_device(), pool_default()));
    CHECK(pool_current() == pool_default());
}

POOL_CASE(current_one_destroyed, DRIVER_API, "cuMemPoolDestroy",
          "Destroying the current mempool of a device sets the default mempool of that "
          "device as the current mempool for that device")
{
    CUmemoryPool pool = pool_new(0);

    CHECK_OK(cuDeviceSetMemPool(the_device(), pool));
    CHECK_OK(cuMemPoolDestroy(pool));
    CHECK(pool_current() == pool_default());
}

/* On an H200 (580.159.04) all of it was as claimed, and the process crashed when the next
 * case made a pool. */
OWN_PROCESS_CASE(
    pool, destroyed_with_live_memory, DRIVER_API, "cuMemPoolDestroy",
    "If any pointers obtained from this pool haven't been freed, the function will "
    "return immediately and the resources will be released automatically once there "
    "are no more outstanding allocations")
{
    CUmemoryPool pool = pools_supported() ? pool_new(0) : NULL;
    CUdeviceptr pointer;

    if (!pool)
        return;
    pointer = pool_get(pool, BYTES, NULL);
    CHECK(device_fill(pointer, BYTES, 5));
    CHECK_OK(cuMemPoolDestroy(pool));
    CHECK(device_holds(pointer, BYTES, 5));
    CHECK(device_fill(pointer, BYTES, 6));
    CHECK(device_holds(pointer, BYTES, 6));
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
}

static CUmemoryPool pool_to_end;

static void end_it(void *argument)
{
    (void)argument;
    CHECK_OK(cuMemPoolDestroy(pool_to_end));
}

POOL_CASE(
    destroyed_with_frees_to_come, DRIVER_API, "cuMemPoolDestroy",
    "If the pool has free operations that haven't completed when cuMemPoolDestroy is "
    "invoked, the function will return immediately")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct blocker blocker;
    CUdeviceptr pointer;

    pool_to_end = pool_new(0);
    MEMORY result = device_get(BYTES);
    pointer = pool_get(pool_to_end, BYTES, stream);
    CHECK_OK(cuMemsetD8Async(pointer, 1, BYTES, stream));
    CHECK_OK(cuMemcpyDtoDAsync(result, pointer, BYTES, stream));
    CHECK_OK(cuStreamSynchronize(stream));
    if (block_stream(&blocker, stream)) {
        CHECK_OK(cuMemsetD8Async(pointer, 9, BYTES, stream));
        CHECK_OK(cuMemcpyDtoDAsync(result, pointer, BYTES, stream));
        CHECK_OK(cuMemFreeAsync(pointer, stream));
        struct pending_call *call = start_call(end_it, NULL);
        CHECK(came_back(call, RETURNS_MS));
        unblock(&blocker);
        join_call(call);
        end_block(&blocker);
        CHECK(device_is(result, BYTES, 9));
    }
}

/* What the pool's memory is to a device. */
static CUmemAccess_flags access_of(CUmemoryPool pool, CUdevice device)
{
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;

    CHECK_OK(cuMemPoolGetAccess(&flags, pool, &location));
    return flags;
}

POOL_CASE(
    access_by_default, DRIVER_API, "cuMemPoolCreate",
    "By default, the pool's memory will be accessible from the device it is allocated "
    "on")
{
    POOL pool = pool_new(0);

    CHECK_EQUAL(access_of(pool, the_device()), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK_EQUAL(access_of(pool_default(), the_device()),
                CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

POOL_CASE(access_of_others, GUIDE, "Stream-Ordered Memory Allocator",
          "By default, allocations are accessible only from the device where the "
          "allocations are located")
{
    POOL pool = pool_new(0);
    int count = 0;

    CHECK_OK(cuDeviceGetCount(&count));
    if (count < 2)
        skip("one device");
    else
        CHECK_EQUAL(access_of(pool, 1), CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

POOL_CASE(access_set, DRIVER_API, "cuMemPoolSetAccess",
          "Each descriptor instructs the access to enable for a single gpu")
{
    POOL pool = pool_new(0);
    CUmemAccessDesc wanted = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = the_device()},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    CHECK_OK(cuMemPoolSetAccess(pool, &wanted, 1));
    CHECK_EQUAL(access_of(pool, the_device()), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

POOL_CASE(access_not_revoked, GUIDE, "Stream-Ordered Memory Allocator",
          "By default, allocations are accessible only from the device where the "
          "allocations are located. This access cannot be revoked")
{
    POOL pool = pool_new(0);
    CUmemAccessDesc wanted = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = the_device()},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_NONE};
    CUdeviceptr pointer;

    pointer = pool_get(pool, BYTES, NULL);
    cuMemPoolSetAccess(pool, &wanted, 1); /* whatever it answers */
    CHECK_EQUAL(access_of(pool, the_device()), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK(device_fill(pointer, BYTES, 2));
    CHECK(device_holds(pointer, BYTES, 2));
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
}

typedef CUresult find_call(CUmemoryPool *, CUmemLocation *, CUmemAllocationType);
typedef CUresult make_current_call(CUmemLocation *, CUmemAllocationType, CUmemoryPool);

POOL_CASE(
    default_one_by_location, DRIVER_API, "cuMemGetDefaultMemPool",
    "Returns the default memory pool for a given location and allocation type; of the "
    "thread's NUMA node there is none: CUDA_ERROR_NOT_SUPPORTED" ON_H200)
{
    find_call *find = (find_call *)driver_function("cuMemGetDefaultMemPool");
    CUmemLocation location = device_props().location;
    CUmemoryPool pool = NULL;

    if (!find || driver_version() < 13000) {
        skip("a driver older than CUDA 13.0");
        return;
    }
    CHECK_OK(find(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECK(pool == pool_default());
    location.type = (CUmemLocationType)HOST_NUMA_CURRENT;
    CHECK_CODE(find(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED),
               CUDA_ERROR_NOT_SUPPORTED);
}

POOL_CASE(
    current_one_by_location, DRIVER_API, "cuMemSetMemPool",
    "If the location type is CU_MEM_LOCATION_TYPE_DEVICE and the allocation type is "
    "CU_MEM_ALLOCATION_TYPE_PINNED, then this API is the equivalent of calling "
    "cuDeviceSetMemPool with the location id as the device")
{
    make_current_call *set = (make_current_call *)driver_function("cuMemSetMemPool");
    find_call *find = (find_call *)driver_function("cuMemGetMemPool");
    CUmemLocation location = device_props().location;
    CUmemoryPool pool, told = NULL;

    if (!set || !find || driver_version() < 13000) {
        skip("a driver older than CUDA 13.0");
        return;
    }
    pool = pool_new(0);
    CHECK_OK(set(&location, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
    CHECK_OK(find(&told, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECK(told == pool);
    CHECK(pool_current() == pool);
    pool_end(pool);
    CHECK(pool_current() == pool_default());
}

POOL_CASE(current_one_of_another_type, DRIVER_API, "cuMemSetMemPool",
          "The location and allocation type specified must match those of the pool "
          "otherwise CUDA_ERROR_INVALID_VALUE is returned")
{
    make_current_call *set = (make_current_call *)driver_function("cuMemSetMemPool");
    CUmemLocation location = device_props().location;

    if (!set || driver_version() < 13000) {
        skip("a driver older than CUDA 13.0");
        return;
    }
    POOL pool = pool_new(0);
    CHECK_INVALID(set(&location, (CUmemAllocationType)TYPE_MANAGED, pool));
    location.type = (CUmemLocationType)HOST;
    location.id = 0;
    CHECK_INVALID(set(&location, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
    CHECK(pool_current() == pool_default());
}
