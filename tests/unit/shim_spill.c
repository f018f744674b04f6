/*
 * shim_spill.c - proves the books of GPUSHIM_SPILL: no more than its size at once, and
 * all of it again when memory was freed, its free was refused, or its context has ended.
 * The driver is a stand-in that hands out addresses.
 */
#include <criterion/criterion.h>

#include "shim/heaps/spill.h"
#include "shim/link/real.h"

#define DEVICE 2
#define FIRST  ((CUcontext)0x1000)
#define SECOND ((CUcontext)0x2000)

static CUdeviceptr next_address;
static int can_reach, advised;
static CUresult answer;

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    cr_assert_eq(attribute, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
    cr_assert_eq(device, DEVICE);
    *value = can_reach;
    return CUDA_SUCCESS;
}

static CUresult alloc_managed(CUdeviceptr *out, size_t bytes, unsigned flags)
{
    cr_assert_eq(flags, CU_MEM_ATTACH_GLOBAL);
    *out = next_address += bytes;
    return answer;
}

static CUresult advise(CUdeviceptr addr, size_t bytes, CUmem_advise advice,
                       CUdevice device)
{
    (void)bytes;
    cr_assert_eq(addr, next_address);
    cr_assert_eq(device, advice == CU_MEM_ADVISE_SET_ACCESSED_BY
                             ? DEVICE
                             : (CUdevice)CU_DEVICE_CPU);
    advised++;
    return CUDA_SUCCESS;
}

static struct gs_real driver = {.cuDeviceGetAttribute = get_attribute,
                                .cuMemAllocManaged = alloc_managed,
                                .cuMemAdvise = advise};

static void set_up(void)
{
    struct gs_options options = {.spill_bytes = 1000};

    gs_real_found = &driver;
    next_address = 0x100000;
    can_reach = 1;
    answer = CUDA_SUCCESS;
    gs_spilled_start(&options);
}

TestSuite(spill, .init = set_up);

static CUdeviceptr spill(CUcontext context, size_t bytes)
{
    static struct gs_state state; /* without a tracker */
    const struct gs_call request = {
        .owner = context, .device = DEVICE, .kind = GS_MEMORY_DEVICE};
    CUdeviceptr out = 0;

    return gs_spill(&state, &request, &out, bytes, CUDA_ERROR_OUT_OF_MEMORY) ? out : 0;
}

static void drop(CUdeviceptr addr, bool freed)
{
    gs_spilled_leave(addr);
    gs_spilled_left(freed);
}

Test(spill, serves_up_to_its_size)
{
    CUdeviceptr first = spill(FIRST, 600);

    cr_assert(first);
    cr_expect_eq(advised, 2);
    cr_expect_not(spill(FIRST, 401));
    cr_expect(spill(FIRST, 400));
    cr_expect_not(spill(FIRST, 1));
    cr_expect_not(spill(FIRST, SIZE_MAX));
    drop(first, true);
    cr_expect(spill(FIRST, 600));
    cr_expect_eq(gs_spilled_of(DEVICE).count, 3);
    cr_expect_eq(gs_spilled_of(DEVICE).most_bytes, 1000);
    cr_expect_eq(gs_spilled_of(0).count, 0);
    cr_expect_not(gs_spilled_has(first));
    cr_expect(gs_spilled_has(next_address));
}

Test(spill, a_refused_free_keeps_it)
{
    CUdeviceptr all = spill(FIRST, 1000);

    drop(all, false);
    cr_expect_not(spill(FIRST, 1));
    drop(all + 1, true); /* not one of them */
    cr_expect_not(spill(FIRST, 1));
    drop(all, true);
    cr_expect(spill(FIRST, 1000));
}

Test(spill, ends_with_its_context)
{
    cr_assert(spill(FIRST, 700));
    cr_assert(spill(SECOND, 300));
    gs_spilled_context_lost(FIRST);
    cr_expect_not(spill(SECOND, 701));
    cr_expect(spill(SECOND, 700));
}

Test(spill, serves_nothing_else)
{
    struct gs_state state = {.tracker = NULL};
    const struct gs_call request = {.owner = FIRST, .device = DEVICE};
    const struct gs_call no_device = {.owner = FIRST, .device = -1};
    CUdeviceptr out;

    cr_expect_not(gs_spill(&state, &request, &out, 10, CUDA_ERROR_INVALID_VALUE));
    cr_expect_not(gs_spill(&state, &request, NULL, 10, CUDA_ERROR_OUT_OF_MEMORY));
    cr_expect_not(gs_spill(&state, &request, &out, 0, CUDA_ERROR_OUT_OF_MEMORY));
    cr_expect_not(gs_spill(&state, &no_device, &out, 10, CUDA_ERROR_OUT_OF_MEMORY));
    can_reach = 0;
    cr_expect_not(spill(FIRST, 10));
    can_reach = 1;
    answer = CUDA_ERROR_OUT_OF_MEMORY;
    cr_expect_not(spill(FIRST, 1000));
    answer = CUDA_SUCCESS;
    cr_expect(spill(FIRST, 1000), "the failed attempt has kept nothing");
    gs_spilled_reset();
    cr_expect_not(spill(FIRST, 1));
}
