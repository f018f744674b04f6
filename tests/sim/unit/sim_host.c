/*
 * sim_host.c - proves pinned, registered and managed memory: life, flags, attributes, the
 * code of each misuse.
 */
#include <string.h>
#include <sys/mman.h>

#include "sim_helpers.h"

Test(sim_host, pinned_memory_is_mapped)
{
    CUdeviceptr device = 0;
    unsigned flags = 0;
    char *p;
    CUmemorytype type = 0;

    sim_test_start("1", "16M");
    ok(cuMemHostAlloc((void **)&p, 5000, CU_MEMHOSTALLOC_PORTABLE));
    memset(p, 1, 5000);
    ok(cuMemHostGetDevicePointer(&device, p + 10, 0));
    cr_assert_eq(device, (CUdeviceptr)(uintptr_t)p + 10);
    ok(cuMemHostGetFlags(&flags, p));
    cr_assert_eq(flags, CU_MEMHOSTALLOC_DEVICEMAP);
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device));
    cr_assert_eq(type, CU_MEMORYTYPE_HOST);
    fails(cuMemFreeHost(p + 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFree(device - 10), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemFreeHost(p));
    fails(cuMemFreeHost(p), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemHostAlloc((void **)&p, 0, 0));
    cr_assert_null(p);
    fails(cuMemHostAlloc((void **)&p, 1, 64), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemHostAlloc((void **)&p, SIZE_MAX / 2, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

/* The first byte of memory that was written, freed and allocated again. */
static unsigned byte_again(bool managed, size_t bytes)
{
    unsigned char *block = NULL;
    CUdeviceptr pointer;
    unsigned byte = 0;

    for (int pass = 0; pass < 2; pass++) {
        if (managed) {
            ok(cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL));
            block = (unsigned char *)(uintptr_t)pointer;
        } else {
            ok(cuMemHostAlloc((void **)&block, bytes, 0));
        }
        byte = block[0];
        memset(block, 0xa5, bytes);
        ok(managed ? cuMemFree(pointer) : cuMemFreeHost(block));
    }
    return byte;
}

Test(sim_host, small_memory_is_not_cleared_when_it_is_handed_out_again)
{
    sim_test_start("1", "16M");
    for (int managed = 0; managed < 2; managed++) {
        cr_assert_eq(byte_again(managed, 4096), 0xa5);
        cr_assert_eq(byte_again(managed, 1 << 20), 0xa5);
        cr_assert_eq(byte_again(managed, 2 << 20), 0);
    }
}

Test(sim_host, memory_of_the_program_is_registered)
{
    static char area[4 * 4096];
    CUdeviceptr device = 0;

    sim_test_start("1", "16M");
    ok(cuMemHostRegister(area, 2 * 4096, 0));
    fails(cuMemHostRegister(area + 4096, 4096, 0),
          CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    fails(cuMemHostRegister(area, sizeof(area), 0),
          CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    ok(cuMemHostRegister(area + 3 * 4096, 4096, 0));
    ok(cuMemHostGetDevicePointer(&device, area + 4096, 0));
    fails(cuMemHostGetDevicePointer(&device, area + 2 * 4096, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemHostUnregister(area + 4096), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemHostUnregister(area));
    fails(cuMemHostUnregister(area), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    fails(cuMemHostUnregister(NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemHostRegister(NULL, 10, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemHostRegister(area, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_host, managed_memory_is_everywhere)
{
    CUdeviceptr p;
    bool managed = false;
    uint32_t value = 0;

    sim_test_start("1", "16M");
    ok(cuMemAllocManaged(&p, 64 * GS_MIB, CU_MEM_ATTACH_GLOBAL));
    cr_assert_eq(p % (2 * GS_MIB), 0);
    ((uint32_t *)(uintptr_t)p)[5] = 55;
    ok(cuMemcpyDtoH(&value, p + 20, 4));
    cr_assert_eq(value, 55);
    ok(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
    cr_assert(managed);
    ok(cuMemFree(p));
    fails(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAllocManaged(&p, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAllocManaged(&p, 1, 9), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_host, managed_memory_takes_advice)
{
    CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUmemLocation nowhere = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 5};
    CUdeviceptr p, plain;
    int value = -9, list[2] = {-9, -9};

    sim_test_start("1", "16M");
    ok(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
    ok(cuMemAlloc(&plain, 4096));
    ok(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p,
                              8));
    cr_assert_eq(value, CU_DEVICE_INVALID);
    ok(cuMemPrefetchAsync_v2(p, 4096, device, 0, NULL));
    ok(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p,
                              8));
    cr_assert_eq(value, 0);
    ok(cuMemAdvise_v2(p, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    ok(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 4096));
    cr_assert_eq(value, 1);
    ok(cuMemAdvise_v2(p, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
    ok(cuMemRangeGetAttribute(list, 8, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, 4096));
    cr_assert_eq(list[0], 0);
    cr_assert_eq(list[1], CU_DEVICE_INVALID);
    fails(cuMemPrefetchAsync_v2(p, 5000, device, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPrefetchAsync_v2(plain, 4096, device, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPrefetchAsync_v2(p, 4096, nowhere, 0, NULL), CUDA_ERROR_INVALID_DEVICE);
    fails(cuMemAdvise_v2(p, 4096, (CUmem_advise)77, device), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_host, freeing_pinned_memory_waits_for_its_use)
{
    struct sim_latch latch;
    CUstream stream;
    char *p;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuMemHostAlloc((void **)&p, 4096, 0));
    sim_latch_block(&latch, stream);
    sim_latch_open_later(&latch);
    ok(cuMemFreeHost(p));
    cr_assert(sim_latch_is_open(&latch));
    sim_latch_join(&latch);
}
