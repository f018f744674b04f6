/*
 * largeblocks.c - what the driver answers about blocks of 2 MiB and more, from their
 * first byte to their last, while others beside them live and after they were freed.
 *
 * Prints what does not depend on addresses: with the library it must be what it is
 * without.
 */
#include "launch.h"

#define BLOCKS 3
#define BYTES  (4 * APP_MIB)

static void yes(const char *what, bool answer)
{
    printf("largeblocks: %-44s %s\n", what, answer ? "yes" : "no");
}

static void number(const char *what, long value)
{
    printf("largeblocks: %-44s %ld\n", what, value);
}

static unsigned long long id_of(CUdeviceptr at)
{
    unsigned long long id = 0;

    APP_OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
    return id;
}

static void ask(CUdeviceptr block, CUdeviceptr at)
{
    CUmemGenericAllocationHandle handle;
    CUcontext context = NULL, current;
    CUdeviceptr base = 0, start = 0;
    size_t size = 0, bytes = 0;
    CUmemorytype type = 0;
    CUmemoryPool pool = NULL;
    int device = -1;

    APP_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    number("memory type", (long)type);
    APP_OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
    number("device", device);
    APP_OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at));
    APP_OK(cuCtxGetCurrent(&current));
    yes("of the current context", context == current);
    APP_OK(cuMemGetAddressRange(&base, &size, at));
    APP_OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at));
    APP_OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at));
    yes("the range is the block", base == block && start == block);
    number("its size", (long)size);
    yes("by attribute, too", bytes == size);
    APP_OK(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at));
    yes("of a pool", pool != NULL);
    yes("the id is that of its start", id_of(at) == id_of(block));
    number("handle of its memory",
           (long)cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at));
}

/* Allocates and frees blocks of many sizes. Where each starts, and whether another one
 * begins in its last 2 MiB, must not depend on what was freed before. */
static void churn(void)
{
    enum { LIVE = 12, ROUNDS = 600 };
    CUdeviceptr addrs[LIVE] = {0};
    size_t sizes[LIVE] = {0};
    bool aligned = true, apart = true;
    uint64_t state = 7;

    for (int round = 0; round < ROUNDS; round++) {
        int at = (int)(app_random(&state) % LIVE);

        if (addrs[at])
            APP_OK(cuMemFree(addrs[at]));
        sizes[at] = 2 * APP_MIB + app_random(&state) % (10 * APP_MIB);
        APP_OK(cuMemAlloc(&addrs[at], sizes[at]));
        aligned = aligned && addrs[at] % (2 * APP_MIB) == 0;
        for (int i = 0; i < LIVE; i++)
            apart = apart && (i == at || !addrs[i] ||
                              (addrs[at] + sizes[at] - 1) / (2 * APP_MIB) !=
                                  addrs[i] / (2 * APP_MIB));
    }
    for (int i = 0; i < LIVE; i++)
        if (addrs[i])
            APP_OK(cuMemFree(addrs[i]));
    yes("blocks of any size start at 2 MiB", aligned);
    yes("blocks of any size share no 2 MiB", apart);
}

int main(void)
{
    gpu_ptr blocks[BLOCKS], whole, large;

    app_gpu_start();
    APP_OK(gpu_malloc(&whole, BLOCKS * BYTES)); /* whose pages they may be made of */
    APP_OK(gpu_free(whole));
    for (int i = 0; i < BLOCKS; i++)
        APP_OK(gpu_malloc(&blocks[i], BYTES));
    APP_OK(gpu_malloc(&large, BLOCKS * BYTES));
    for (int i = 0; i < BLOCKS; i++) {
        CUdeviceptr block = gpu_address(blocks[i]);

        for (int j = 0; j < i; j++)
            yes("ids differ", id_of(block) != id_of(gpu_address(blocks[j])));
        ask(block, block);
        ask(block, block + BYTES / 2 + 1);
        ask(block, block + BYTES - 1);
    }
    ask(gpu_address(large), gpu_address(large) + BLOCKS * BYTES - 1);
    APP_OK(gpu_free(large));
    for (int i = 0; i < BLOCKS; i++)
        APP_OK(gpu_free(blocks[i]));
    churn();
    return 0;
}
