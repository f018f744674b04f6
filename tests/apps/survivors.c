/*
 * survivors.c - what a reset takes with it, and what outlives it:
 * physical memory and stream-ordered memory, which are not a context's.
 *
 * A line whose memory is still there at the end ends in LEAK (leaky.c); `taken` is lost.
 */
#include "gpu.h"

static CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                   .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

APP_FRAME static void keep_ordered(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc_async(&block, 5242880, NULL)); /* LEAK: keep_ordered 5242880 1 */
    APP_OK(gpu_sync());
}

APP_FRAME static void keep_handle(void)
{
    CUmemGenericAllocationHandle handle;

    APP_OK(CU(cuMemCreate)(&handle, 4194304, &prop, 0)); /* LEAK: keep_handle 4194304 1 */
}

APP_FRAME static void taken(void)
{
    gpu_ptr block;
    void *pinned;

    APP_OK(gpu_malloc(&block, 3145728));
    APP_OK(gpu_malloc(&block, 1000));
    APP_OK(gpu_malloc_host(&pinned, 65536));
}

int main(void)
{
    size_t before, after, total;

    app_gpu_start();
    keep_ordered();
    keep_handle();
    APP_OK(gpu_mem_info(&before, &total));
    taken();
    app_gpu_reset();
    APP_OK(gpu_mem_info(&after, &total));
    printf("survivors: %s\n", after >= before ? "the rest came back" : "some is missing");
    return 0;
}
