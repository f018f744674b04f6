/*
 * vmm.c - virtual memory management beside plain allocations; driver API only.
 *
 * Proves that addresses the program reserves and maps by itself are left alone by the
 * pool, and work together with its blocks.
 */
#include "launch.h"

enum { NOT_SUPPORTED = 801, COUNT = 300000 };

static uint64_t use_mapping(uint64_t sum, const struct app_kernels *kernels,
                            uint32_t seed)
{
    static uint32_t words[COUNT];
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr mapped, block;
    size_t grain, bytes;

    APP_OK(CU(cuMemGetAllocationGranularity)(&grain, &prop,
                                             CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    bytes = (sizeof(words) + grain - 1) / grain * grain;
    APP_OK(CU(cuMemAddressReserve)(&mapped, bytes, 0, 0, 0));
    APP_OK(CU(cuMemCreate)(&handle, bytes, &prop, 0));
    APP_OK(CU(cuMemMap)(mapped, bytes, 0, handle, 0));
    APP_OK(CU(cuMemRelease)(handle));
    APP_OK(CU(cuMemSetAccess)(mapped, bytes, &access, 1));
    APP_OK(CU(cuMemAlloc)(&block, sizeof(words)));
    app_fill(kernels, mapped, COUNT, seed, NULL);
    app_copy(kernels, block, mapped, COUNT, NULL);
    APP_OK(CU(cuMemcpyDtoH)(words, block, sizeof(words)));
    APP_OK(CU(cuMemFree)(block));
    APP_OK(CU(cuMemUnmap)(mapped, bytes));
    APP_OK(CU(cuMemAddressFree)(mapped, bytes));
    return app_checksum(sum, words, sizeof(words));
}

static bool supported(void)
{
    CUdeviceptr address;
    int code = (int)CU(cuMemAddressReserve)(&address, 64 * APP_MIB, 0, 0, 0);

    if (code == NOT_SUPPORTED)
        return false;
    app_check(code, "cuMemAddressReserve", __FILE__, __LINE__);
    APP_OK(CU(cuMemAddressFree)(address, 64 * APP_MIB));
    return true;
}

int main(void)
{
    struct app_kernels kernels;
    uint64_t sum = APP_CHECKSUM;

    app_gpu_start();
    if (!supported()) {
        printf("vmm: not supported\n");
        return 0;
    }
    app_kernels_load(&kernels);
    for (uint32_t round = 0; round < 5; round++)
        sum = use_mapping(sum, &kernels, round);
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("vmm: checksum %016llx\n", (unsigned long long)sum);
    return 0;
}
