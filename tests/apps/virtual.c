/*
 * virtual.c - physical memory that handles, mappings and references keep alive.
 *
 *   virtual          leaves some of it: a line that does ends in LEAK (leaky.c)
 *   virtual clean    gives all of it back
 *   virtual errors   releases what it has released, and prints the answers
 *   virtual shared   what it exports comes back to it; binds memory to a multicast object
 *                    where there are two devices
 *   virtual domain   leaves memory of a locality domain of the second device, and of a
 *                    pool there
 */
#include <unistd.h>

#include "gpu.h"

static CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                   .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static bool clean;

/* Addresses for `bytes`, with nothing behind them. */
static CUdeviceptr reserve(size_t bytes)
{
    CUdeviceptr addr;

    APP_OK(CU(cuMemAddressReserve)(&addr, bytes, 0, 0, 0));
    return addr;
}

static void unmap(CUdeviceptr addr, size_t bytes)
{
    APP_OK(CU(cuMemUnmap)(addr, bytes));
    APP_OK(CU(cuMemAddressFree)(addr, bytes));
}

APP_FRAME static void keep_handle(void)
{
    CUmemGenericAllocationHandle handle;

    APP_OK(CU(cuMemCreate)(&handle, 4194304, &prop, 0)); /* LEAK: keep_handle 4194304 1 */
    if (clean)
        APP_OK(CU(cuMemRelease)(handle));
}

APP_FRAME static void keep_map(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr addr = reserve(2097152);

    APP_OK(CU(cuMemCreate)(&handle, 2097152, &prop, 0)); /* LEAK: keep_map 2097152 1 */
    APP_OK(CU(cuMemMap)(addr, 2097152, 0, handle, 0));
    APP_OK(CU(cuMemRelease)(handle));
    if (clean)
        unmap(addr, 2097152);
}

APP_FRAME static void keep_again(void)
{
    CUmemGenericAllocationHandle handle, again;
    CUdeviceptr addr = reserve(6291456);

    APP_OK(CU(cuMemCreate)(&handle, 6291456, &prop, 0)); /* LEAK: keep_again 6291456 1 */
    APP_OK(CU(cuMemMap)(addr, 6291456, 0, handle, 0));
    APP_OK(CU(cuMemRelease)(handle));
    APP_OK(CU(cuMemRetainAllocationHandle)(&again, (void *)(uintptr_t)(addr + 4096)));
    unmap(addr, 6291456);
    if (clean)
        APP_OK(CU(cuMemRelease)(again));
}

APP_FRAME static void keep_host(void)
{
    CUmemAllocationProp node = prop;
    CUmemGenericAllocationHandle handle;

    node.location.type = (CUmemLocationType)3;           /* HOST_NUMA, since 12.2 */
    APP_OK(CU(cuMemCreate)(&handle, 8388608, &node, 0)); /* LEAK: keep_host 8388608 1 */
    if (clean)
        APP_OK(CU(cuMemRelease)(handle));
}

/* Correct code: two mappings side by side, unmapped at once. */
static void work(void)
{
    CUmemGenericAllocationHandle first, second;
    size_t one = 2 * APP_MIB;

    for (int i = 0; i < 40; i++) {
        CUdeviceptr addr = reserve(3 * one);

        APP_OK(CU(cuMemCreate)(&first, one, &prop, 0));
        APP_OK(CU(cuMemCreate)(&second, 2 * one, &prop, 0));
        APP_OK(CU(cuMemMap)(addr, one, 0, first, 0));
        APP_OK(CU(cuMemMap)(addr + one, 2 * one, 0, second, 0));
        APP_OK(CU(cuMemRelease)(first));
        if (i % 2)
            APP_OK(CU(cuMemRelease)(second));
        unmap(addr, 3 * one);
        if (i % 2 == 0)
            APP_OK(CU(cuMemRelease)(second));
    }
}

/* ---- errors ---- */

APP_FRAME static void release_twice(void)
{
    CUmemGenericAllocationHandle handle;

    APP_OK(CU(cuMemCreate)(&handle, 4194304, &prop, 0));
    APP_OK(CU(cuMemRelease)(handle));
    printf("released twice: %d\n", (int)CU(cuMemRelease)(handle));
}

APP_FRAME static void release_mapped_twice(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr addr = reserve(2097152);

    APP_OK(CU(cuMemCreate)(&handle, 2097152, &prop, 0));
    APP_OK(CU(cuMemMap)(addr, 2097152, 0, handle, 0));
    APP_OK(CU(cuMemRelease)(handle));
    printf("released twice and mapped: %d\n", (int)CU(cuMemRelease)(handle));
    unmap(addr, 2097152);
}

APP_FRAME static void release_nothing(void)
{
    printf("released no handle: %d\n",
           (int)CU(cuMemRelease)((CUmemGenericAllocationHandle)0x7654321));
}

/* ---- shared ---- */

static void import_own(void)
{
    CUmemAllocationProp shared = prop;
    CUmemGenericAllocationHandle handle, same;
    int fd;

    shared.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    APP_OK(CU(cuMemCreate)(&handle, 4194304, &shared, 0));
    APP_OK(CU(cuMemExportToShareableHandle)(&fd, handle,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    APP_OK(CU(cuMemImportFromShareableHandle)(&same, (void *)(intptr_t)fd,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    APP_OK(CU(cuMemRelease)(handle));
    APP_OK(CU(cuMemRelease)(same));
    printf("imported what was exported\n");
}

#if CUDA_VERSION >= 12010 && APP_DRIVER_LINKED
APP_FRAME static void keep_bound(CUmemGenericAllocationHandle object)
{
    CUmemGenericAllocationHandle handle;

    APP_OK(cuMulticastAddDevice(object, 0));
    APP_OK(cuMulticastAddDevice(object, 1));
    APP_OK(cuMemCreate(&handle, 4194304, &prop, 0)); /* BOUND: keep_bound 4194304 1 */
    APP_OK(cuMulticastBindMem(object, 0, handle, 0, 4194304, 0));
    APP_OK(cuMemRelease(handle));
}

/* Memory that only a binding holds; it ends with the object, or before it. */
APP_FRAME static void multicast(bool keep)
{
    CUmulticastObjectProp wanted = {.numDevices = 2, .size = 4194304};
    CUmemGenericAllocationHandle object;
    int code = (int)cuMulticastCreate(&object, &wanted); /* OBJECT: multicast 4194304 1 */

    if (code != 0) {
        printf("multicast: %d\n", code);
        return;
    }
    keep_bound(object);
    if (!keep)
        APP_OK(cuMulticastUnbind(object, 0, 0, 4194304));
    if (!keep)
        APP_OK(cuMemRelease(object));
}
#else
static void multicast(bool keep)
{
    (void)keep;
}
#endif

/* ---- a part of a device's memory ---- */

/* The first two bytes of the location's number: the device, the domain. */
static const CUmemLocation domain = {.type = (CUmemLocationType)6, .id = 0x7ead0001};

APP_FRAME static void keep_part(void)
{
    CUmemAllocationProp part = prop;
    CUmemGenericAllocationHandle handle;

    part.location = domain;
    APP_OK(CU(cuMemCreate)(&handle, 4194304, &part, 0)); /* DOMAIN: keep_part 4194304 1 */
    printf("too much: %d\n", (int)CU(cuMemCreate)(&handle, 64 * APP_MIB, &part, 0));
}

#define FROM_POOL CU(cuMemAllocFromPoolAsync)

APP_FRAME static void keep_pooled(void)
{
    CUmemPoolProps part = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                           .location = domain};
    CUmemoryPool pool;
    CUdeviceptr addr;

    APP_OK(CU(cuMemPoolCreate)(&pool, &part));
    APP_OK(FROM_POOL(&addr, 2097152, pool, NULL)); /* DOMAIN: keep_pooled 2097152 1 */
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "leaks";

    app_gpu_start();
    clean = strcmp(what, "clean") == 0;
    if (strcmp(what, "errors") == 0) {
        release_twice();
        release_mapped_twice();
        release_nothing();
    } else if (strcmp(what, "shared") == 0) {
        import_own();
        multicast(false);
    } else if (strcmp(what, "domain") == 0) {
        keep_part();
        keep_pooled();
    } else if (strcmp(what, "bound") == 0) {
        multicast(true);
    } else {
        work();
        keep_handle();
        keep_map();
        keep_again();
        keep_host();
        work();
    }
    app_gpu_stop();
    printf("virtual: %s\n", what);
    return 0;
}
