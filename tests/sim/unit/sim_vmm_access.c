/*
 * sim_vmm_access.c - proves who may touch mapped memory: rights of devices and of the
 * host, accesses over several mappings, and what work finds that was queued before its
 * memory was unmapped.
 */
#include "sim_vmm_help.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READ      CU_MEM_ACCESS_FLAGS_PROT_READ
#define READWRITE CU_MEM_ACCESS_FLAGS_PROT_READWRITE
#define NONE      CU_MEM_ACCESS_FLAGS_PROT_NONE

/* Three mappings of a unit each, side by side, with no access yet. */
static CUdeviceptr three_mappings(void)
{
    CUdeviceptr p = sim_vmm_reserve(4 * UNIT);

    for (size_t i = 0; i < 3; i++) {
        CUmemGenericAllocationHandle handle = sim_vmm_memory(0, UNIT);
        ok(cuMemMap(p + i * UNIT, UNIT, 0, handle, 0));
        ok(cuMemRelease(handle));
    }
    return p;
}

static CUresult fill(CUdeviceptr p, uint64_t count)
{
    uint32_t seed = 3;
    void *params[] = {&p, &count, &seed};

    ok(sim_test_launch(sim_test_kernel("gs_fill"), NULL, params));
    return cuCtxSynchronize();
}

Test(sim_vmm_access, starts_closed_and_is_told)
{
    const CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    const CUmemLocation other = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
    unsigned long long flags = 9;
    CUdeviceptr p;

    sim_test_start("2", "16M");
    p = three_mappings();
    ok(cuMemGetAccess(&flags, &device, p));
    cr_assert_eq(flags, NONE);
    ok(sim_vmm_access(p, UNIT, 0, READWRITE));
    ok(sim_vmm_access(p + UNIT, UNIT, 1, READ));
    ok(cuMemGetAccess(&flags, &device, p + 17));
    cr_assert_eq(flags, READWRITE);
    ok(cuMemGetAccess(&flags, &device, p + UNIT));
    cr_assert_eq(flags, NONE);
    ok(cuMemGetAccess(&flags, &other, p + UNIT));
    cr_assert_eq(flags, READ);
    fails(cuMemGetAccess(&flags, &device, p + 3 * UNIT), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemGetAccess(NULL, &device, p), CUDA_ERROR_INVALID_VALUE);
    const CUmemLocation none = {CU_MEM_LOCATION_TYPE_DEVICE, 2};
    fails(cuMemGetAccess(&flags, &none, p), CUDA_ERROR_INVALID_DEVICE);
}

Test(sim_vmm_access, a_refused_change_changes_nothing)
{
    const CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemAccessDesc descs[2] = {{device, READWRITE},
                                {{CU_MEM_LOCATION_TYPE_DEVICE, 5}, READWRITE}};
    unsigned long long flags = 9;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    p = three_mappings();
    fails(cuMemSetAccess(p, UNIT, descs, 2), CUDA_ERROR_INVALID_DEVICE);
    descs[1] = (CUmemAccessDesc){device, (CUmemAccess_flags)2};
    fails(cuMemSetAccess(p, UNIT, descs, 2), CUDA_ERROR_INVALID_VALUE);
    descs[1] = (CUmemAccessDesc){{(CUmemLocationType)3, 0}, READ};
    fails(cuMemSetAccess(p, UNIT, descs, 2), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemSetAccess(p, 4 * UNIT, descs, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemSetAccess(p, UNIT / 2, descs, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemSetAccess(p, UNIT, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemSetAccess(p, UNIT, descs, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemSetAccess(1 << 21, UNIT, descs, 1), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < 3; i++) {
        ok(cuMemGetAccess(&flags, &device, p + i * UNIT));
        cr_assert_eq(flags, NONE);
    }
}

Test(sim_vmm_access, new_mappings_start_closed_again)
{
    const CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemGenericAllocationHandle handle;
    unsigned long long flags = 9;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    handle = sim_vmm_memory(0, UNIT);
    p = sim_vmm_reserve(UNIT);
    ok(cuMemMap(p, UNIT, 0, handle, 0));
    ok(sim_vmm_access(p, UNIT, 0, READWRITE));
    ok(cuMemUnmap(p, UNIT));
    ok(cuMemMap(p, UNIT, 0, handle, 0));
    ok(cuMemGetAccess(&flags, &device, p));
    cr_assert_eq(flags, NONE);
    fails(cuMemsetD8(p, 1, 1), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_vmm_access, copies_and_sets_reach_over_mappings)
{
    static unsigned char out[UNIT], back[UNIT];
    CUdeviceptr p, q;

    sim_test_start("1", "32M");
    p = three_mappings();
    ok(sim_vmm_access(p, 3 * UNIT, 0, READWRITE));
    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = (unsigned char)(i * 31 + i / 251);
    ok(cuMemcpyHtoD(p + UNIT / 2, out, sizeof(out)));
    ok(cuMemAlloc(&q, UNIT));
    ok(cuMemcpyDtoD(q, p + UNIT / 2, UNIT));
    ok(cuMemcpyDtoH(back, q, sizeof(back)));
    cr_assert_eq(memcmp(out, back, sizeof(out)), 0);
    ok(cuMemsetD32(p, 0x01020304, 3 * UNIT / 4));
    cr_assert_eq(sim_test_word(p + 2 * UNIT), 0x01020304);
    fails(cuMemsetD8(p + 2 * UNIT, 1, UNIT + 1), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemUnmap(p + UNIT, UNIT));
    fails(cuMemcpyHtoD(p + UNIT / 2, out, sizeof(out)), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(sim_test_word(p + 2 * UNIT), 0x01020304);
}

Test(sim_vmm_access, kernels_reach_over_mappings)
{
    CUdeviceptr p;

    sim_test_start("1", "16M");
    p = three_mappings();
    ok(sim_vmm_access(p, 3 * UNIT, 0, READWRITE));
    ok(fill(p, 3 * UNIT / 4));
    CUdeviceptr result;
    ok(cuMemAlloc(&result, 4));
    ok(cuMemsetD32(result, 0, 1));
    uint64_t count = 3 * UNIT / 4;
    uint32_t seed = 3;
    void *params[] = {&p, &count, &seed, &result};
    ok(sim_test_launch(sim_test_kernel("gs_check"), NULL, params));
    cr_assert_eq(sim_test_word(result), 0);
}

Test(sim_vmm_access, a_copy_without_the_right_is_refused)
{
    uint32_t word = 1;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    p = three_mappings();
    fails(cuMemcpyDtoH(&word, p, 4), CUDA_ERROR_INVALID_VALUE);
    ok(sim_vmm_access(p, UNIT, 0, READ));
    ok(cuMemcpyDtoH(&word, p, 4));
    fails(cuMemcpyHtoD(p, &word, 4), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemsetD32(p, 1, 1), CUDA_ERROR_INVALID_VALUE);
    ok(cuCtxSynchronize());
}

Test(sim_vmm_access, a_kernel_without_the_right_is_an_illegal_access)
{
    CUdeviceptr p;

    sim_test_start("1", "16M");
    p = three_mappings();
    ok(sim_vmm_access(p, UNIT, 0, READ));
    fails(fill(p, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(sim_vmm_access, a_kernel_into_a_hole_is_an_illegal_access)
{
    CUdeviceptr p;

    sim_test_start("1", "16M");
    p = three_mappings();
    ok(sim_vmm_access(p, 3 * UNIT, 0, READWRITE));
    fails(fill(p + 2 * UNIT, UNIT / 4 + 1), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(sim_vmm_access, rights_are_of_one_device)
{
    CUcontext second;
    CUdeviceptr p;

    sim_test_start("2", "16M");
    p = three_mappings();
    ok(sim_vmm_access(p, UNIT, 0, READWRITE));
    ok(sim_vmm_access(p + UNIT, UNIT, 0, READWRITE));
    ok(sim_vmm_access(p + UNIT, UNIT, 1, READWRITE));
    ok(cuDevicePrimaryCtxRetain(&second, 1));
    ok(cuCtxSetCurrent(second));
    ok(fill(p + UNIT, 16));
    fails(fill(p, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(sim_vmm_access, queued_work_finds_its_memory_unmapped)
{
    struct sim_latch latch;
    CUstream stream;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    p = sim_vmm_mapped(UNIT);
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    sim_latch_block(&latch, stream);
    ok(cuMemsetD32Async(p, 1, 16, stream));
    ok(cuMemUnmap(p, UNIT)); /* waits for nothing */
    sim_latch_open(&latch);
    fails(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(sim_vmm_access, queued_work_finds_what_is_mapped_when_it_runs)
{
    CUmemGenericAllocationHandle first, second;
    struct sim_latch latch;
    CUstream stream;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    first = sim_vmm_memory(0, UNIT);
    second = sim_vmm_memory(0, UNIT);
    p = sim_vmm_reserve(UNIT);
    ok(cuMemMap(p, UNIT, 0, first, 0));
    ok(sim_vmm_access(p, UNIT, 0, READWRITE));
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    sim_latch_block(&latch, stream);
    ok(cuMemsetD32Async(p, 4, 16, stream));
    ok(cuMemUnmap(p, UNIT));
    ok(cuMemMap(p, UNIT, 0, second, 0));
    ok(sim_vmm_access(p, UNIT, 0, READWRITE));
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(sim_test_word(p), 4);
    ok(cuMemUnmap(p, UNIT));
    ok(cuMemMap(p, UNIT, 0, first, 0));
    ok(sim_vmm_access(p, UNIT, 0, READ));
    cr_assert_eq(sim_test_word(p), 0, "the first memory was never written");
}

/* Does every other thread of the process sleep? */
static bool others_sleep(void)
{
    DIR *list = opendir("/proc/self/task");
    struct dirent *entry;
    bool all = true;

    cr_assert_not_null(list);
    while ((entry = readdir(list)) != NULL) {
        char path[300], text[512] = "";
        const char *rest;

        snprintf(path, sizeof(path), "/proc/self/task/%s/stat", entry->d_name);
        bool is_other = entry->d_name[0] != '.' && atoi(entry->d_name) != gettid();
        FILE *file = is_other ? fopen(path, "r") : NULL;
        if (!file)
            continue;
        rest = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
        all &= !rest || rest[2] == 'S';
        fclose(file);
    }
    closedir(list);
    return all;
}

/* What was given to the device has come as far as it can: its threads have been woken by
 * then, and sleep only where they wait. */
static void let_device_begin(void)
{
    while (!others_sleep())
        sim_test_sleep_ms(1);
}

Test(sim_vmm_access, work_under_way_keeps_off_what_was_unmapped, .timeout = 120)
{
    CUmemGenericAllocationHandle handle, other;
    CUstream stream, beside;
    CUdeviceptr p, q;

    setenv("CUDASIM_SCHEDULE", "threads", 1); /* the kernel polls an address it has */
    sim_test_start("1", "16M");
    handle = sim_vmm_memory(0, UNIT);
    other = sim_vmm_memory(0, UNIT);
    p = sim_vmm_reserve(UNIT);
    q = sim_vmm_reserve(UNIT);
    ok(cuMemMap(p, UNIT, 0, handle, 0));
    ok(sim_vmm_access(p, UNIT, 0, READWRITE));
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    void *params[] = {&p};
    ok(sim_test_launch(sim_test_kernel("gs_wait"), stream, params));
    let_device_begin();
    ok(cuMemUnmap(p, UNIT));
    ok(cuMemMap(q, UNIT, 0, handle, 0));
    ok(sim_vmm_access(q, UNIT, 0, READWRITE));
    ok(cuMemsetD32Async(q, 1, 1, beside));
    ok(cuStreamSynchronize(beside));
    sim_test_sleep_ms(20);
    cr_assert_eq(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    ok(cuMemMap(p, UNIT, 0, other, 0));
    ok(sim_vmm_access(p, UNIT, 0, READWRITE));
    ok(cuMemsetD32Async(p, 1, 1, beside));
    ok(cuStreamSynchronize(stream));
}

Test(sim_vmm_access, memory_of_the_host_opens_to_the_cpu)
{
    const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = (CUmemLocationType)3, .id = 0}, /* host NUMA node 0 */
    };
    const CUmemAccessDesc descs[2] = {
        {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, READWRITE},
        {{(CUmemLocationType)3, 0}, READWRITE},
    };
    CUmemGenericAllocationHandle handle;
    CUmemorytype type = 0;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    ok(cuMemCreate(&handle, UNIT, &prop, 0));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB, "it is not the device's");
    p = sim_vmm_reserve(UNIT);
    ok(cuMemMap(p, UNIT, 0, handle, 0));
    ok(cuMemSetAccess(p, UNIT, descs, 2));
    volatile uint32_t *words = (volatile uint32_t *)(uintptr_t)p;
    words[3] = 12;
    cr_assert_eq(sim_test_word(p + 12), 12);
    ok(cuMemsetD32(p, 13, 1));
    ok(cuCtxSynchronize());
    cr_assert_eq(words[0], 13);
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    cr_assert_eq(type, CU_MEMORYTYPE_HOST);
    uint32_t out;
    ok(cuMemcpyDtoH((void *)(uintptr_t)(p + 64), p, 4));
    memcpy(&out, (void *)(uintptr_t)(p + 64), 4);
    cr_assert_eq(out, 13);
    ok(cuMemUnmap(p, UNIT));
}
