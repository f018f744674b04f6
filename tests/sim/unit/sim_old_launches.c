/*
 * sim_old_launches.c - proves the launches from before cuLaunchKernel, and that of one
 * kernel on several devices, which is not to be had.
 */
/* They are deprecated, and there. */
#define CUDA_ENABLE_DEPRECATED
#include "sim_helpers.h"

/* gs_fill(destination, count, seed), one setting after the other. */
static CUfunction set_up(CUdeviceptr destination, uint64_t count, unsigned seed)
{
    CUfunction fill = sim_test_kernel("gs_fill");

    ok(cuFuncSetBlockShape(fill, 64, 1, 1));
    ok(cuFuncSetSharedSize(fill, 256));
    ok(cuParamSetSize(fill, 20));
    ok(cuParamSetv(fill, 0, &destination, sizeof(destination)));
    ok(cuParamSetv(fill, 8, &count, sizeof(count)));
    ok(cuParamSeti(fill, 16, seed));
    return fill;
}

/* What cuLaunchKernel makes of the same arguments. */
static void expect_pattern(CUdeviceptr p, uint64_t count, unsigned seed)
{
    uint32_t got[64], want[64];
    CUdeviceptr other;
    void *params[] = {&other, &count, &seed};

    ok(cuMemAlloc(&other, sizeof(want)));
    ok(sim_test_launch(sim_test_kernel("gs_fill"), NULL, params));
    ok(cuMemcpyDtoH(want, other, sizeof(want)));
    ok(cuMemcpyDtoH(got, p, sizeof(got)));
    cr_assert_neq(want[0], 0);
    cr_assert_arr_eq(got, want, sizeof(want));
    ok(cuMemFree(other));
}

Test(sim_old_launches, run_with_what_was_set)
{
    CUdeviceptr p;
    CUstream stream;

    sim_test_start("1", "16M");
    ok(cuMemAlloc(&p, 256));
    CUfunction fill = set_up(p, 64, 3);
    ok(cuLaunch(fill));
    expect_pattern(p, 64, 3);
    ok(cuParamSeti(fill, 16, 4)); /* the rest stays */
    ok(cuLaunchGrid(fill, 2, 2));
    expect_pattern(p, 64, 4);
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuParamSeti(fill, 16, 5));
    ok(cuLaunchGridAsync(fill, 1, 1, stream));
    ok(cuStreamSynchronize(stream));
    expect_pattern(p, 64, 5);
}

/* The parameters are those of the moment of the launch. */
Test(sim_old_launches, take_their_place_in_a_stream)
{
    struct sim_latch latch;
    CUdeviceptr p;
    CUstream stream;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuMemAlloc(&p, 256));
    CUfunction fill = set_up(p, 64, 3);
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    sim_latch_block(&latch, stream);
    ok(cuLaunchGridAsync(fill, 1, 1, stream));
    ok(cuParamSeti(fill, 16, 9));
    fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    expect_pattern(p, 64, 3);
}

Test(sim_old_launches, refuse_what_makes_no_launch)
{
    const CUresult invalid = CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    ok(cuMemAlloc(&p, 256));
    fails(cuLaunch(sim_test_kernel("gs_copy")), invalid); /* no shape, no parameters */
    CUfunction fill = set_up(p, 64, 3);
    fails(cuLaunchGrid(fill, 0, 1), invalid);
    fails(cuLaunchGrid(fill, 1, -1), invalid);
    fails(cuFuncSetBlockShape(fill, 0, 1, 1), invalid);
    fails(cuFuncSetBlockShape(NULL, 1, 1, 1), CUDA_ERROR_INVALID_HANDLE);
    fails(cuFuncSetSharedSize(NULL, 0), CUDA_ERROR_INVALID_HANDLE);
    fails(cuParamSetSize(fill, 1u << 20), invalid);
    fails(cuParamSeti(fill, -4, 1), invalid);
    fails(cuParamSeti(fill, 4093, 1), invalid);
    fails(cuParamSetf(NULL, 0, 1.0f), invalid);
    fails(cuParamSetv(fill, 0, NULL, 4), invalid);
    fails(cuLaunch(NULL), invalid);
    fails(cuLaunchGridAsync(NULL, 1, 1, NULL), CUDA_ERROR_INVALID_HANDLE);
    ok(cuParamSetSize(fill, 12)); /* the seed is missing */
    fails(cuLaunch(fill), invalid);
    ok(cuParamSetSize(fill, 20));
    ok(cuFuncSetBlockShape(fill, 1024, 2, 1));
    fails(cuLaunch(fill), invalid);
}

Test(sim_old_launches, on_several_devices_are_not_supported)
{
    CUDA_LAUNCH_PARAMS params = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1};
    int supported = 1;

    sim_test_start("1", "16M");
    ok(cuDeviceGetAttribute(&supported,
                            CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH, 0));
    cr_assert_eq(supported, 0);
    fails(cuLaunchCooperativeKernelMultiDevice(NULL, 1, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuLaunchCooperativeKernelMultiDevice(&params, 0, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuLaunchCooperativeKernelMultiDevice(&params, 1, 4), CUDA_ERROR_INVALID_VALUE);
    fails(cuLaunchCooperativeKernelMultiDevice(&params, 1, 0), CUDA_ERROR_INVALID_HANDLE);
    params.function = sim_test_kernel("own_kernel");
    fails(cuLaunchCooperativeKernelMultiDevice(&params, 1, 0), CUDA_ERROR_NOT_SUPPORTED);
}
