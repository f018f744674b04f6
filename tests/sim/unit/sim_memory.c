/*
 * sim_memory.c - proves the simulated device's memory: addresses, accounting, out of
 * memory exactly at CUDASIM_MEMORY, the code each misuse gets, and that the CPU cannot
 * touch it.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_helpers.h"

#define UNIT (2 * GS_MIB)

Test(sim_memory, small_requests_share_a_unit)
{
    CUdeviceptr p[4096];

    sim_test_start("1", "64M");
    for (int i = 0; i < 4096; i++) {
        ok(cuMemAlloc(&p[i], 512));
        cr_assert_eq(p[i] % 512, 0);
    }
    cr_assert_eq(sim_test_free_bytes(), 64 * GS_MIB - UNIT);
    for (int i = 1; i < 4096; i++)
        cr_assert_eq(p[i] / UNIT, p[0] / UNIT);
    CUdeviceptr one_more;
    ok(cuMemAlloc(&one_more, 1));
    cr_assert_eq(sim_test_free_bytes(), 64 * GS_MIB - 2 * UNIT);
    ok(cuMemFree(one_more));
    for (int i = 0; i < 4096; i++)
        ok(cuMemFree(p[i]));
    cr_assert_eq(sim_test_free_bytes(), 64 * GS_MIB);
}

Test(sim_memory, large_requests_get_units_of_their_own)
{
    CUdeviceptr p, q;

    sim_test_start("1", "64M");
    ok(cuMemAlloc(&p, UNIT));
    ok(cuMemAlloc(&q, UNIT + 1));
    cr_assert_eq(p % UNIT, 0);
    cr_assert_eq(q % UNIT, 0);
    cr_assert_eq(sim_test_free_bytes(), 64 * GS_MIB - 3 * UNIT);
}

Test(sim_memory, runs_out_exactly_at_its_size)
{
    CUdeviceptr p[8], q;

    sim_test_start("1", "16M");
    for (int i = 0; i < 8; i++)
        ok(cuMemAlloc(&p[i], UNIT));
    fails(cuMemAlloc(&q, 1), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemFree(p[3]));
    fails(cuMemAlloc(&q, UNIT + 1), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemAlloc(&q, UNIT));
    cr_assert_eq(sim_test_free_bytes(), 0);
}

Test(sim_memory, is_not_fragmented_by_holes)
{
    CUdeviceptr p[8], q;

    sim_test_start("1", "16M");
    for (int i = 0; i < 8; i++)
        ok(cuMemAlloc(&p[i], UNIT));
    for (int i = 0; i < 8; i += 2)
        ok(cuMemFree(p[i]));
    ok(cuMemAlloc(&q, 4 * UNIT));
}

Test(sim_memory, refuses_bad_sizes)
{
    CUdeviceptr p = 77;
    size_t pitch;

    sim_test_start("1", "16M");
    fails(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAlloc(NULL, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAlloc(&p, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    fails(cuMemAlloc(&p, SIZE_MAX - UNIT), CUDA_ERROR_OUT_OF_MEMORY);
    fails(cuMemAllocPitch(&p, &pitch, SIZE_MAX, 2, 4), CUDA_ERROR_OUT_OF_MEMORY);
    fails(cuMemAllocPitch(&p, &pitch, SIZE_MAX / 4, 16, 4), CUDA_ERROR_OUT_OF_MEMORY);
    fails(cuMemAllocPitch(&p, &pitch, 64, 4, 3), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(p, 77, "an output was written on failure");
    ok(cuMemAllocPitch(&p, &pitch, 513, 4, 4));
    cr_assert_eq(pitch, 1024);
}

Test(sim_memory, tells_the_range_of_a_pointer)
{
    CUdeviceptr p, base = 0;
    size_t bytes = 0;

    sim_test_start("1", "16M");
    ok(cuMemAlloc(&p, 1000));
    ok(cuMemGetAddressRange(&base, &bytes, p + 999));
    cr_assert_eq(base, p);
    cr_assert_eq(bytes, 1000);
    ok(cuMemGetAddressRange(NULL, NULL, p));
    fails(cuMemGetAddressRange(&base, &bytes, p + 1000), CUDA_ERROR_NOT_FOUND);
    fails(cuMemGetAddressRange(&base, &bytes, 16), CUDA_ERROR_NOT_FOUND);
}

Test(sim_memory, tells_attributes_of_a_pointer)
{
    CUcontext context = sim_test_start("1", "16M"), owner = NULL;
    CUmemorytype type = 0;
    unsigned long long id = 0, other_id = 0;
    int ordinal = -5, local;
    CUdeviceptr p, q, mapping = 0;

    ok(cuMemAlloc(&p, 1000));
    ok(cuMemAlloc(&q, 1000));
    ok(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p + 5));
    cr_assert_eq(owner, context);
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    cr_assert_eq(type, CU_MEMORYTYPE_DEVICE);
    ok(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
    ok(cuPointerGetAttribute(&other_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, q));
    cr_assert_neq(id, other_id);
    ok(cuPointerGetAttribute(&mapping, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, q));
    cr_assert_eq(mapping, q & ~(CUdeviceptr)(UNIT - 1));
    fails(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_HOST_POINTER, p),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                (CUdeviceptr)(uintptr_t)&local),
          CUDA_ERROR_INVALID_VALUE);

    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *data[] = {&type, &ordinal};
    ok(cuPointerGetAttributes(2, names, data, p));
    cr_assert_eq(ordinal, 0);
    ok(cuPointerGetAttributes(2, names, data, (CUdeviceptr)(uintptr_t)&local));
    cr_assert_eq(type, 0);
    cr_assert_eq(ordinal, CU_DEVICE_INVALID);
}

Test(sim_memory, cannot_be_touched_by_the_cpu)
{
    CUdeviceptr p;
    int status;

    sim_test_start("1", "16M");
    ok(cuMemAlloc(&p, 1024));
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)(uintptr_t)p = 1;
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status));
    cr_assert_eq(WTERMSIG(status), SIGSEGV);
}

Test(sim_memory, freed_pages_come_back_zeroed)
{
    unsigned char bytes[16];
    CUdeviceptr p, q;

    sim_test_start("1", "16M");
    ok(cuMemAlloc(&p, UNIT));
    ok(cuMemsetD8(p, 0xab, UNIT));
    ok(cuMemFree(p));
    ok(cuMemAlloc(&q, UNIT));
    cr_assert_eq(q, p, "the lowest free range is handed out");
    ok(cuMemcpyDtoH(bytes, q, sizeof(bytes)));
    for (size_t i = 0; i < sizeof(bytes); i++)
        cr_assert_eq(bytes[i], 0);
}

static void *churn(void *argument)
{
    CUcontext context = argument;
    CUdeviceptr p[16];

    ok(cuCtxSetCurrent(context));
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 16; i++)
            ok(cuMemAlloc(&p[i], (size_t)(1 + (round * 31 + i * 97) % 5000)));
        for (int i = 0; i < 16; i++)
            ok(cuMemFree(p[i]));
    }
    return NULL;
}

Test(sim_memory, threads_share_it)
{
    CUcontext context = sim_test_start("1", "64M");
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, churn, context), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(sim_test_free_bytes(), 64 * GS_MIB);
}

Test(sim_memory, devices_are_apart)
{
    CUcontext first = sim_test_start("2", "16M"), second;
    CUdeviceptr p, q;
    int ordinal = -1;

    ok(cuMemAlloc(&p, 10 * GS_MIB));
    ok(cuDevicePrimaryCtxRetain(&second, 1));
    cr_assert_neq(first, second);
    ok(cuCtxSetCurrent(second));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
    ok(cuMemAlloc(&q, 10 * GS_MIB));
    ok(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, q));
    cr_assert_eq(ordinal, 1);
    ok(cuMemFree(p));
    cr_assert_eq(sim_test_free_bytes(), 6 * GS_MIB);
    ok(cuCtxSetCurrent(first));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
}
