/*
 * sim_vmm.c - proves virtual memory management: reservations, memory that is counted once
 * and lives while somebody holds or maps it, mappings, and that a refused call changes
 * nothing.
 */
#include "sim_vmm_help.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

Test(sim_vmm, reserves_addresses_alone)
{
    CUdeviceptr p, q;

    sim_test_start("1", "16M");
    ok(cuMemAddressReserve(&p, 64 * GS_MIB, 0, 0, 0));
    cr_assert_eq(p % UNIT, 0);
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
    ok(cuMemAddressReserve(&q, UNIT, 64 * GS_MIB, 0, 0));
    cr_assert_eq(q % (64 * GS_MIB), 0);
    ok(cuMemAddressFree(p, 64 * GS_MIB));
    ok(cuMemAddressFree(q, UNIT));
    fails(cuMemAddressFree(q, UNIT), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_vmm, reserves_at_a_hint_that_is_free)
{
    CUdeviceptr p, q;

    sim_test_start("1", "16M");
    p = sim_vmm_reserve(8 * UNIT);
    ok(cuMemAddressFree(p, 8 * UNIT));
    ok(cuMemAddressReserve(&q, 8 * UNIT, 0, p, 0));
    cr_assert_eq(q, p);
    ok(cuMemAddressReserve(&p, UNIT, 0, q + UNIT, 0));
    cr_assert(p + UNIT <= q || p >= q + 8 * UNIT, "a hint that is taken is a hint only");
}

Test(sim_vmm, refuses_bad_reservations)
{
    CUdeviceptr p = 77;

    sim_test_start("1", "16M");
    fails(cuMemAddressReserve(NULL, UNIT, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAddressReserve(&p, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAddressReserve(&p, UNIT + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAddressReserve(&p, UNIT, 3 * GS_MIB, 0, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAddressReserve(&p, UNIT, 0, 12345, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAddressReserve(&p, UNIT, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAddressReserve(&p, (size_t)1 << 60, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    cr_assert_eq(p, 77, "an output was written on failure");
    p = sim_vmm_reserve(2 * UNIT);
    fails(cuMemAddressFree(p, UNIT), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAddressFree(p + UNIT, UNIT), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAddressFree(1 << 21, UNIT), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFreeAsync(p, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemHostUnregister((void *)(uintptr_t)p),
          CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    ok(cuMemAddressFree(p, 2 * UNIT));
}

Test(sim_vmm, counts_memory_from_its_creation)
{
    CUmemGenericAllocationHandle first, second;
    CUmemAllocationProp prop = sim_vmm_prop(0);
    CUdeviceptr p;

    sim_test_start("1", "16M");
    first = sim_vmm_memory(0, 6 * UNIT);
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB - 6 * UNIT);
    fails(cuMemCreate(&second, 3 * UNIT, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    fails(cuMemAlloc(&p, 3 * UNIT), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemCreate(&second, 2 * UNIT, &prop, 0));
    cr_assert_eq(sim_test_free_bytes(), 0);
    ok(cuMemRelease(first));
    cr_assert_eq(sim_test_free_bytes(), 6 * UNIT);
    ok(cuMemRelease(second));
    fails(cuMemRelease(second), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
}

Test(sim_vmm, refuses_bad_memory)
{
    CUmemGenericAllocationHandle handle = 77;
    CUmemAllocationProp good = sim_vmm_prop(0), prop = good;

    sim_test_start("1", "16M");
    fails(cuMemCreate(NULL, UNIT, &good, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemCreate(&handle, UNIT, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemCreate(&handle, 0, &good, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemCreate(&handle, UNIT / 2, &good, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemCreate(&handle, UNIT, &good, 1), CUDA_ERROR_INVALID_VALUE);
    prop.location.id = 1;
    fails(cuMemCreate(&handle, UNIT, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
    prop = good;
    prop.type = (CUmemAllocationType)7;
    fails(cuMemCreate(&handle, UNIT, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    prop = good;
    prop.location.type = (CUmemLocationType)4; /* the host node of the thread */
    fails(cuMemCreate(&handle, UNIT, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    prop = good;
    prop.location.type = (CUmemLocationType)2; /* the host */
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    fails(cuMemCreate(&handle, UNIT, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    prop = good;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_WIN32;
    fails(cuMemCreate(&handle, UNIT, &prop, 0), CUDA_ERROR_NOT_SUPPORTED);
    fails(cuMemCreate(&handle, (size_t)1 << 50, &good, 0), CUDA_ERROR_OUT_OF_MEMORY);
    cr_assert_eq(handle, 77, "an output was written on failure");
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
}

Test(sim_vmm, tells_the_granularity_and_the_properties)
{
    CUmemAllocationProp prop = sim_vmm_prop(0), back;
    size_t bytes = 0;

    sim_test_start("1", "16M");
    ok(cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    cr_assert_eq(bytes, UNIT);
    ok(cuMemGetAllocationGranularity(&bytes, &prop,
                                     CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    fails(cuMemGetAllocationGranularity(&bytes, &prop, 2), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemGetAllocationGranularity(NULL, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle handle;
    ok(cuMemCreate(&handle, UNIT, &prop, 0));
    ok(cuMemGetAllocationPropertiesFromHandle(&back, handle));
    cr_assert_eq(back.location.id, 0);
    cr_assert_eq(back.requestedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    ok(cuMemRelease(handle));
    fails(cuMemGetAllocationPropertiesFromHandle(&back, handle),
          CUDA_ERROR_INVALID_VALUE);
}

Test(sim_vmm, memory_lives_while_it_is_mapped)
{
    CUdeviceptr p;

    sim_test_start("1", "16M");
    p = sim_vmm_mapped(UNIT);
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB - UNIT);
    ok(cuMemsetD32(p, 5, UNIT / 4));
    cr_assert_eq(sim_test_word(p + UNIT - 4), 5);
    ok(cuMemUnmap(p, UNIT));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
    ok(cuMemAddressFree(p, UNIT));
}

Test(sim_vmm, memory_lives_while_a_handle_is_held)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p, q;

    sim_test_start("1", "16M");
    handle = sim_vmm_memory(0, UNIT);
    p = sim_vmm_reserve(UNIT);
    q = sim_vmm_reserve(UNIT);
    ok(cuMemMap(p, UNIT, 0, handle, 0));
    ok(sim_vmm_access(p, UNIT, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    ok(cuMemsetD32(p, 6, UNIT / 4));
    ok(cuCtxSynchronize());
    ok(cuMemUnmap(p, UNIT));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB - UNIT);
    ok(cuMemMap(q, UNIT, 0, handle, 0));
    ok(sim_vmm_access(q, UNIT, 0, CU_MEM_ACCESS_FLAGS_PROT_READ));
    cr_assert_eq(sim_test_word(q), 6);
}

Test(sim_vmm, one_memory_at_two_addresses_is_one)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p, q;

    sim_test_start("1", "16M");
    handle = sim_vmm_memory(0, 2 * UNIT);
    p = sim_vmm_reserve(2 * UNIT);
    q = sim_vmm_reserve(2 * UNIT);
    ok(cuMemMap(p, 2 * UNIT, 0, handle, 0));
    ok(cuMemMap(q, 2 * UNIT, 0, handle, 0));
    ok(sim_vmm_access(p, 2 * UNIT, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    ok(sim_vmm_access(q, 2 * UNIT, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    ok(cuMemsetD32(p + UNIT, 7, 1));
    cr_assert_eq(sim_test_word(q + UNIT), 7);
    ok(cuMemsetD32(q, 8, 1));
    cr_assert_eq(sim_test_word(p), 8);
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB - 2 * UNIT);
    ok(cuMemUnmap(p, 2 * UNIT));
    cr_assert_eq(sim_test_word(q), 8);
}

Test(sim_vmm, freed_memory_comes_back_zeroed)
{
    CUdeviceptr p;

    sim_test_start("1", "2M");
    p = sim_vmm_mapped(UNIT);
    ok(cuMemsetD32(p, 9, UNIT / 4));
    ok(cuCtxSynchronize());
    ok(cuMemUnmap(p, UNIT));
    ok(cuMemAlloc(&p, UNIT));
    cr_assert_eq(sim_test_word(p), 0);
}

Test(sim_vmm, refuses_bad_mappings)
{
    CUmemGenericAllocationHandle handle, other;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    handle = sim_vmm_memory(0, 2 * UNIT);
    other = sim_vmm_memory(0, UNIT);
    p = sim_vmm_reserve(4 * UNIT);
    fails(cuMemMap(p, 2 * UNIT, UNIT, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    fails(cuMemMap(p, 2 * UNIT, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMap(p, 0, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMap(p, 3 * UNIT, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMap(p + 4096, UNIT, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMap(p, UNIT / 2, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMap(p + 3 * UNIT, 2 * UNIT, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMap(1 << 21, UNIT, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMap(p, UNIT, 0, handle + 1, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemMap(p + UNIT, 2 * UNIT, 0, handle, 0));
    fails(cuMemMap(p + UNIT, UNIT, 0, other, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMap(p + 2 * UNIT, UNIT, 0, other, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemMap(p, UNIT, 0, other, 0));
    ok(cuMemUnmap(p, UNIT));
    ok(cuMemUnmap(p + UNIT, 2 * UNIT));
}

Test(sim_vmm, unmaps_whole_mappings_only)
{
    CUdeviceptr p;

    sim_test_start("1", "16M");
    p = sim_vmm_reserve(6 * UNIT);
    for (size_t i = 0; i < 2; i++) {
        CUmemGenericAllocationHandle handle = sim_vmm_memory(0, 2 * UNIT);
        ok(cuMemMap(p + i * 2 * UNIT, 2 * UNIT, 0, handle, 0));
        ok(cuMemRelease(handle));
    }
    fails(cuMemUnmap(p, UNIT), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemUnmap(p + UNIT, UNIT), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemUnmap(p, 3 * UNIT), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemUnmap(p, 6 * UNIT), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemUnmap(p + 4 * UNIT, UNIT), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAddressFree(p, 6 * UNIT), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB - 4 * UNIT);
    ok(cuMemUnmap(p, 4 * UNIT));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
    ok(cuMemAddressFree(p, 6 * UNIT));
}

Test(sim_vmm, retains_the_handle_of_an_address)
{
    CUmemGenericAllocationHandle handle, again;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    handle = sim_vmm_memory(0, 2 * UNIT);
    p = sim_vmm_reserve(4 * UNIT);
    ok(cuMemMap(p, 2 * UNIT, 0, handle, 0));
    ok(cuMemRelease(handle));
    fails(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + UNIT + 3)));
    cr_assert_eq(again, handle, "it is the handle that was mapped");
    fails(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + 2 * UNIT)),
          CUDA_ERROR_INVALID_VALUE);
    ok(cuMemUnmap(p, 2 * UNIT));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB - 2 * UNIT);
    ok(cuMemRelease(handle));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
}

Test(sim_vmm, survives_its_context)
{
    CUcontext own;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    ok(cuCtxCreate_v2(&own, 0, 0));
    p = sim_vmm_mapped(UNIT);
    ok(cuMemsetD32(p, 10, 1));
    ok(cuCtxDestroy(own));
    CUcontext primary;
    ok(cuDevicePrimaryCtxRetain(&primary, 0));
    ok(cuCtxSetCurrent(primary));
    cr_assert_eq(sim_test_word(p), 10);
    ok(cuDevicePrimaryCtxReset(0));
    ok(cuDevicePrimaryCtxRetain(&primary, 0));
    ok(cuCtxSetCurrent(primary));
    cr_assert_eq(sim_test_word(p), 10);
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB - UNIT);
}

Test(sim_vmm, cannot_be_touched_by_the_cpu)
{
    CUdeviceptr p;
    int status;

    sim_test_start("1", "16M");
    p = sim_vmm_mapped(UNIT);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)(uintptr_t)p = 1;
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status));
}

Test(sim_vmm, tells_mapping_and_reservation_of_a_pointer)
{
    CUdeviceptr p, base = 0, start = 0;
    size_t bytes = 0;
    uint64_t size = 0, block = 0, other_block = 0;
    bool mapped = false;

    sim_test_start("1", "16M");
    p = sim_vmm_reserve(6 * UNIT);
    for (size_t i = 0; i < 2; i++) {
        CUmemGenericAllocationHandle handle = sim_vmm_memory(0, 2 * UNIT);
        ok(cuMemMap(p + i * 2 * UNIT, 2 * UNIT, 0, handle, 0));
    }
    ok(cuMemGetAddressRange(&base, &bytes, p + 3 * UNIT));
    cr_assert_eq(base, p + 2 * UNIT);
    cr_assert_eq(bytes, 2 * UNIT);
    fails(cuMemGetAddressRange(&base, &bytes, p + 4 * UNIT), CUDA_ERROR_NOT_FOUND);
    ok(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 5));
    cr_assert_eq(start, p);
    ok(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + 5));
    cr_assert_eq(size, 6 * UNIT);
    ok(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, p));
    cr_assert(mapped);
    ok(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, p + 5 * UNIT));
    cr_assert_not(mapped);
    ok(cuPointerGetAttribute(&block, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, p));
    ok(cuPointerGetAttribute(&other_block, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID,
                             p + 2 * UNIT));
    cr_assert_neq(block, other_block);
    fails(
        cuPointerGetAttribute(&block, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, p + 5 * UNIT),
        CUDA_ERROR_INVALID_VALUE);
}

Test(sim_vmm, tells_attributes_of_mapped_memory)
{
    CUcontext owner = (CUcontext)8;
    CUmemorytype type = 0;
    unsigned long long types = 9;
    unsigned rights = 9;
    int ordinal = -5;
    bool legacy = true;
    void *host;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    p = sim_vmm_mapped(UNIT);
    ok(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    cr_assert_eq(owner, NULL);
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    cr_assert_eq(type, CU_MEMORYTYPE_DEVICE);
    ok(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    cr_assert_eq(ordinal, 0);
    ok(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, p));
    cr_assert_eq(types, CU_MEM_HANDLE_TYPE_NONE);
    ok(cuPointerGetAttribute(&rights, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, p));
    cr_assert_eq(rights, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    ok(cuPointerGetAttribute(&legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                             p));
    cr_assert_not(legacy);
    fails(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, p),
          CUDA_ERROR_INVALID_VALUE);
}

static void *churn(void *argument)
{
    CUcontext context = argument;

    ok(cuCtxSetCurrent(context));
    for (int round = 0; round < 50; round++) {
        CUdeviceptr p = sim_vmm_mapped(UNIT);
        ok(cuMemsetD32(p, (unsigned)round, 64));
        cr_assert_eq(sim_test_word(p + 252), (unsigned)round);
        ok(cuMemUnmap(p, UNIT));
        ok(cuMemAddressFree(p, UNIT));
    }
    return NULL;
}

Test(sim_vmm, threads_share_it)
{
    CUcontext context = sim_test_start("1", "64M");
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, churn, context), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(sim_test_free_bytes(), 64 * GS_MIB);
}
