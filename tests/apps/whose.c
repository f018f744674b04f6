/*
 * whose.c - stream-ordered memory of device 1 that is asked for while a context of device
 * 0 is current, on devices of 64 MiB or less.   whose WAY
 *
 *   stream    in a stream of device 1
 *   unmet     likewise, and no memory was ever asked for in its context
 *   own       from a memory pool of the program's on device 1
 *   default   from the default pool of device 1
 *   host      from a pool of the host's
 *   managed   from a pool of managed memory
 *   node      in a stream of device 1, whose current pool is one of a NUMA node's
 *
 * Device 0 has 24 MiB in use all the while. Prints what each request is answered; leaves
 * 3 MiB, which are device 1's, or no device's.
 */
#include "app.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef cuGetProcAddress_v2

static CUmemoryPool pool; /* NULL: the stream's */
static CUstream stream;

static CUcontext use(int device)
{
    CUcontext context;

    APP_OK(cuDevicePrimaryCtxRetain(&context, device));
    APP_OK(cuCtxSetCurrent(context));
    return context;
}

static CUresult ask(CUdeviceptr *block, size_t bytes)
{
    return pool ? cuMemAllocFromPoolAsync(block, bytes, pool, stream)
                : cuMemAllocAsync(block, bytes, stream);
}

/* More than there may be beside the first: freed, there is room for the second. */
static void fill(void)
{
    CUdeviceptr first, second;
    CUresult more;

    APP_OK(ask(&first, 24 * APP_MIB));
    more = ask(&second, 24 * APP_MIB);
    printf("whose: 24 MiB more: %d\n", (int)more);
    if (more == CUDA_SUCCESS)
        APP_OK(cuMemFreeAsync(second, stream));
    APP_OK(cuMemFreeAsync(first, stream));
    APP_OK(cuStreamSynchronize(stream));
    APP_OK(ask(&second, 24 * APP_MIB));
    APP_OK(cuMemFreeAsync(second, stream));
    APP_OK(cuStreamSynchronize(stream));
}

static APP_FRAME void leave(void)
{
    CUdeviceptr block;

    APP_OK(ask(&block, 3 * APP_MIB));
}

/* Numbers of CUDA 12.2 to 13.0, not in all headers. */
enum { AT_HOST = 2, AT_NODE = 3, MANAGED = 2 };

static void make_pool(const char *way)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};

    if (strcmp(way, "default") == 0)
        APP_OK(cuDeviceGetDefaultMemPool(&pool, 1));
    if (strcmp(way, "managed") == 0)
        props.allocType = (CUmemAllocationType)MANAGED;
    if (strcmp(way, "host") == 0 || strcmp(way, "node") == 0)
        props.location = (CUmemLocation){
            .type = (CUmemLocationType)(way[0] == 'h' ? AT_HOST : AT_NODE)};
    if (strcmp(way, "own") == 0 || strcmp(way, "managed") == 0 ||
        props.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        APP_OK(cuMemPoolCreate(&pool, &props));
    if (strcmp(way, "node") == 0) {
        APP_OK(cuDeviceSetMemPool(1, pool));
        pool = NULL;
    }
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "stream";
    CUdeviceptr here, there;
    CUcontext first;

    APP_OK(cuInit(0));
    first = use(0);
    APP_OK(cuMemAlloc_v2(&here, 24 * APP_MIB));
    (void)use(1);
    APP_OK(cuStreamCreate(&stream, 0));
    if (strcmp(way, "unmet") != 0) {
        APP_OK(cuMemAlloc_v2(&there, APP_KIB));
        APP_OK(cuMemFree_v2(there));
    }
    APP_OK(cuCtxSetCurrent(first));
    make_pool(way);
    fill();
    leave();
    if (strcmp(way, "own") == 0)
        APP_OK(cuMemPoolDestroy(pool));
    APP_OK(cuStreamSynchronize(stream));
    APP_OK(cuMemFree_v2(here));
    printf("whose: %s: done\n", way);
    return 0;
}
