/*
 * sim_vmm_faults.c - proves that a program of several steps can undo what it did when a
 * step fails: the failing call changes nothing, and everything can be given back.
 */
#include "sim_vmm_help.h"

#define PARTS 4

struct segment {
    CUdeviceptr base;
    CUmemGenericAllocationHandle handles[PARTS];
    unsigned created, mapped;
};

/* What an allocator of growing segments does; how far it came is in *segment. */
static CUresult grow(struct segment *segment)
{
    const CUmemAllocationProp prop = sim_vmm_prop(0);
    CUresult res = CUDA_SUCCESS;

    for (unsigned i = 0; i < PARTS && res == CUDA_SUCCESS; i++) {
        res = cuMemCreate(&segment->handles[i], UNIT, &prop, 0);
        segment->created += res == CUDA_SUCCESS;
    }
    for (unsigned i = 0; i < PARTS && res == CUDA_SUCCESS; i++) {
        res = cuMemMap(segment->base + i * UNIT, UNIT, 0, segment->handles[i], 0);
        segment->mapped += res == CUDA_SUCCESS;
    }
    for (unsigned i = 0; i < PARTS && res == CUDA_SUCCESS; i++)
        res = sim_vmm_access(segment->base + i * UNIT, UNIT, 0,
                             CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    return res;
}

static void undo(struct segment *segment)
{
    for (unsigned i = 0; i < segment->mapped; i++)
        ok(cuMemUnmap(segment->base + i * UNIT, UNIT));
    for (unsigned i = 0; i < segment->created; i++)
        ok(cuMemRelease(segment->handles[i]));
    segment->created = 0;
    segment->mapped = 0;
}

/* Fail once, undo, succeed. */
static void fail_and_retry(const char *rule, unsigned created, unsigned mapped)
{
    struct segment segment = {0};

    setenv("CUDASIM_FAIL", rule, 1);
    sim_test_start("1", "16M");
    segment.base = sim_vmm_reserve(PARTS * UNIT);
    fails(grow(&segment), CUDA_ERROR_OUT_OF_MEMORY);
    cr_assert_eq(segment.created, created);
    cr_assert_eq(segment.mapped, mapped);
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB - created * UNIT);
    undo(&segment);
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
    ok(grow(&segment));
    ok(cuMemsetD8(segment.base, 1, PARTS * UNIT));
    ok(cuCtxSynchronize());
    undo(&segment);
    ok(cuMemAddressFree(segment.base, PARTS * UNIT));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
}

Test(sim_vmm_faults, the_third_creation_fails)
{
    fail_and_retry("cuMemCreate:3", 2, 0);
}

Test(sim_vmm_faults, the_third_mapping_fails)
{
    fail_and_retry("cuMemMap:3", PARTS, 2);
}

Test(sim_vmm_faults, the_third_access_fails)
{
    fail_and_retry("cuMemSetAccess:3", PARTS, PARTS);
}

Test(sim_vmm_faults, a_failed_unmap_leaves_the_mapping)
{
    setenv("CUDASIM_FAIL", "cuMemUnmap:1=1,cuMemRelease:2=1,cuMemAddressFree:1=1", 1);
    sim_test_start("1", "16M");
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p = sim_vmm_mapped(UNIT);
    ok(cuMemsetD32(p, 3, 1));
    fails(cuMemUnmap(p, UNIT), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(sim_test_word(p), 3);
    ok(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)p));
    fails(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemUnmap(p, UNIT));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB - UNIT, "the handle was kept");
    ok(cuMemRelease(handle));
    fails(cuMemAddressFree(p, UNIT), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemAddressFree(p, UNIT));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
}
