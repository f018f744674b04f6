/*
 * probe_codes.c - the codes that wrong requests and wrong frees are answered with, and
 * whether the context still works afterwards.
 * Owns: nothing.   Lock: none.
 */
#include "probe.h"

#include <stdlib.h>

static CUdeviceptr address_of(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

static void row_alloc(void)
{
    CUdeviceptr block = 0;
    void *host = NULL;
    size_t room = 0, total = 0;
    CUresult code;

    PROBE_OK(driver.cuMemGetInfo_v2(&room, &total));
    probe_row_begin("alloc", "code");
    probe_cell_code("zero", driver.cuMemAlloc_v2(&block, 0));
    probe_cell_code("null", driver.cuMemAlloc_v2(NULL, 4096));
    probe_cell_code("twice_all", driver.cuMemAlloc_v2(&block, total * 2));
    probe_cell_code("max", driver.cuMemAlloc_v2(&block, SIZE_MAX));
    probe_cell_code("max-4K", driver.cuMemAlloc_v2(&block, SIZE_MAX - 4096));
    code = driver.cuMemHostAlloc(&host, 0, 0);
    probe_cell_code("host0", code);
    if (code == CUDA_SUCCESS && host)
        probe_cell_code("its_free", driver.cuMemFreeHost(host));
    if (driver.cuMemAllocManaged)
        probe_cell_code("man0",
                        driver.cuMemAllocManaged(&block, 0, CU_MEM_ATTACH_GLOBAL));
    probe_row_end();
}

static void row_free(void)
{
    CUdeviceptr small, large, pinned_address;
    void *heap = malloc(4096), *pinned;
    int local = 0;

    if (!heap)
        probe_failed("no memory");
    PROBE_OK(driver.cuMemAlloc_v2(&small, 4096));
    PROBE_OK(driver.cuMemAlloc_v2(&large, 8 * GS_MIB));
    PROBE_OK(driver.cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    PROBE_OK(driver.cuMemHostGetDevicePointer_v2(&pinned_address, pinned, 0));
    probe_row_begin("free", "code");
    probe_cell_code("null", driver.cuMemFree_v2(0));
    probe_cell_code("one", driver.cuMemFree_v2(1));
    probe_cell_code("stack", driver.cuMemFree_v2(address_of(&local)));
    probe_cell_code("malloc", driver.cuMemFree_v2(address_of(heap)));
    probe_cell_code("pinned", driver.cuMemFree_v2(pinned_address));
    probe_cell_code("small+256", driver.cuMemFree_v2(small + 256));
    probe_cell_code("large+1", driver.cuMemFree_v2(large + 1));
    probe_cell_code("large+2M", driver.cuMemFree_v2(large + 2 * GS_MIB));
    probe_cell_code("small", driver.cuMemFree_v2(small));
    probe_cell_code("small_again", driver.cuMemFree_v2(small));
    probe_cell_code("large", driver.cuMemFree_v2(large));
    probe_cell_code("large_again", driver.cuMemFree_v2(large));
    probe_cell_code("sync", driver.cuCtxSynchronize());
    probe_row_end();
    PROBE_OK(driver.cuMemFreeHost(pinned));
    free(heap);
}

static void row_free_host(void)
{
    CUdeviceptr device;
    void *heap = malloc(4096), *pinned;

    if (!heap)
        probe_failed("no memory");
    PROBE_OK(driver.cuMemAlloc_v2(&device, 4096));
    PROBE_OK(driver.cuMemHostAlloc(&pinned, 8192, 0));
    probe_row_begin("free_host", "code");
    probe_cell_code("null", driver.cuMemFreeHost(NULL));
    probe_cell_code("malloc", driver.cuMemFreeHost(heap));
    probe_cell_code("device", driver.cuMemFreeHost((void *)(uintptr_t)device));
    probe_cell_code("inside", driver.cuMemFreeHost((char *)pinned + 4096));
    probe_cell_code("right", driver.cuMemFreeHost(pinned));
    probe_cell_code("twice", driver.cuMemFreeHost(pinned));
    probe_cell_code("sync", driver.cuCtxSynchronize());
    probe_row_end();
    (void)driver.cuMemFree_v2(device);
    free(heap);
}

/* Memory of one way of allocating, freed in the other way. */
static void row_crossed(void)
{
    CUdeviceptr async = 0, sync;
    CUstream stream;
    CUresult code;

    if (!driver.cuMemAllocAsync || !driver.cuMemFreeAsync) {
        probe_row_status("crossed", "not supported", "no stream-ordered allocation");
        return;
    }
    PROBE_OK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    PROBE_OK(driver.cuMemAlloc_v2(&sync, 4096));
    probe_row_begin("crossed", "code");
    code = driver.cuMemAllocAsync(&async, 4096, stream);
    probe_cell_code("alloc_async", code);
    PROBE_OK(driver.cuStreamSynchronize(stream));
    if (code == CUDA_SUCCESS)
        probe_cell_code("free", driver.cuMemFree_v2(async));
    probe_cell_code("async_free", driver.cuMemFreeAsync(sync, stream));
    probe_cell_code("its_sync", driver.cuStreamSynchronize(stream));
    probe_cell_code("freed_again", driver.cuMemFree_v2(sync));
    probe_cell_code("async_null", driver.cuMemFreeAsync(0, stream));
    probe_cell_code("sync", driver.cuCtxSynchronize());
    probe_row_end();
}

/* ---- bounds ------------------------------------------------------------------------ */

/* Reads of `bytes` bytes, and more, from a new allocation of them: all within the 2 MiB
 * page that its last byte is in, which is mapped. */
static void row_past(const char *name, size_t bytes)
{
    static const struct {
        const char *cell;
        size_t past;
    } reads[] = {{"all", 0},         {"+1", 1},     {"+256", 256},
                 {"+512", 512},      {"+4K", 4096}, {"+64K", (size_t)64 << 10},
                 {"+1M", GS_MIB - 1}};
    unsigned char *host = malloc(bytes + GS_MIB);
    CUdeviceptr block;

    if (!host)
        probe_failed("no memory");
    PROBE_OK(driver.cuMemAlloc_v2(&block, bytes));
    probe_row_begin(name, "code");
    for (size_t i = 0; i < GS_ARRAY_LEN(reads); i++) {
        CUdeviceptr last = block + bytes - 1, end = last + reads[i].past;

        if (last / (2 * GS_MIB) == end / (2 * GS_MIB))
            probe_cell_code(reads[i].cell,
                            driver.cuMemcpyDtoH_v2(host, block, bytes + reads[i].past));
    }
    probe_cell_code("sync", driver.cuCtxSynchronize());
    probe_row_end();
    free(host);
}

/* The same of freed memory, whose page a neighbour keeps mapped. */
static void row_freed(const char *name, size_t bytes)
{
    unsigned char *host = malloc(bytes);
    CUdeviceptr blocks[3];

    if (!host)
        probe_failed("no memory");
    for (size_t i = 0; i < GS_ARRAY_LEN(blocks); i++)
        PROBE_OK(driver.cuMemAlloc_v2(&blocks[i], bytes));
    PROBE_OK(driver.cuMemFree_v2(blocks[1]));
    probe_row_begin(name, "code");
    if (blocks[0] / (2 * GS_MIB) == blocks[1] / (2 * GS_MIB))
        probe_cell_code("read", driver.cuMemcpyDtoH_v2(host, blocks[1], bytes));
    probe_cell_code("neighbour", driver.cuMemcpyDtoH_v2(host, blocks[0], bytes));
    probe_cell_code("sync", driver.cuCtxSynchronize());
    probe_row_end();
    free(host);
}

void probe_ask_bounds(void)
{
    probe_context();
    row_past("past_1", 1);
    row_past("past_512", 512);
    row_past("past_4096", 4096);
    row_past("past_100000", 100000);
    row_past("past_3M", 3 * GS_MIB);
    row_freed("freed_512", 512);
    row_freed("freed_65536", 65536);
}

void probe_ask_codes(void)
{
    probe_context();
    row_alloc();
    row_free();
    row_free_host();
    row_crossed();
}

/* ---- contexts
 * ------------------------------------------------------------------------------ */

void probe_ask_no_context(void)
{
    CUcontext first = probe_context(), second, old;
    CUdeviceptr block, other, mine;
    size_t room, total;
    void *pinned;

    PROBE_OK(driver.cuMemAlloc_v2(&block, 4096));
    PROBE_OK(driver.cuMemAlloc_v2(&other, 4 * GS_MIB));
    PROBE_OK(driver.cuMemHostAlloc(&pinned, 4096, 0));
    PROBE_OK(driver.cuCtxSetCurrent(NULL));
    probe_row_begin("none_current", "code");
    probe_cell_code("alloc", driver.cuMemAlloc_v2(&mine, 4096));
    probe_cell_code("free", driver.cuMemFree_v2(block));
    probe_cell_code("free_null", driver.cuMemFree_v2(0));
    probe_cell_code("free_host", driver.cuMemFreeHost(pinned));
    probe_cell_code("info", driver.cuMemGetInfo_v2(&room, &total));
    probe_cell_code("sync", driver.cuCtxSynchronize());
    probe_row_end();
    PROBE_OK(driver.cuCtxCreate_v2(&second, 0, 0));
    probe_row_begin("other_current", "code");
    probe_cell_code("free", driver.cuMemFree_v2(other));
    probe_cell_code("free_twice", driver.cuMemFree_v2(other));
    PROBE_OK(driver.cuMemAlloc_v2(&mine, 4096));
    PROBE_OK(driver.cuCtxPopCurrent_v2(&old));
    PROBE_OK(driver.cuCtxDestroy_v2(second));
    PROBE_OK(driver.cuCtxSetCurrent(first));
    probe_cell_code("free_of_dead", driver.cuMemFree_v2(mine));
    probe_cell_code("sync", driver.cuCtxSynchronize());
    probe_row_note("free_of_dead: memory of a context that was destroyed");
    probe_row_end();
}

void probe_ask_info_null(void)
{
    size_t room = 0, total = 0;

    probe_context();
    probe_row_begin("cuMemGetInfo", "code");
    probe_cell_code("no_free", driver.cuMemGetInfo_v2(NULL, &total));
    probe_cell_code("no_total", driver.cuMemGetInfo_v2(&room, NULL));
    probe_cell_code("neither", driver.cuMemGetInfo_v2(NULL, NULL));
    probe_cell_text("written", "%s",
                    total && room ? "both"
                    : total       ? "total"
                    : room        ? "free"
                                  : "none");
    probe_row_end();
}
