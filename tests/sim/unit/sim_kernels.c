/*
 * sim_kernels.c - proves modules and launches: names are found in PTX, the built-in
 * kernels compute what ../kernels/kernels.h says, and a bad address is a sticky error.
 */
#include <string.h>

#include "../kernels/kernels.h"
#include "sim_helpers.h"

Test(sim_kernels, compute_what_their_contract_says)
{
    uint32_t values[1000], mismatches = 99;
    unsigned long long count = 1000;
    CUdeviceptr p, q, result;
    unsigned seed = 12345;

    sim_test_start("1", "16M");
    ok(cuMemAlloc(&p, sizeof(values)));
    ok(cuMemAlloc(&q, sizeof(values)));
    ok(cuMemAlloc(&result, 4));
    ok(cuMemsetD32(result, 0, 1));
    void *fill[] = {&p, &count, &seed};
    ok(sim_test_launch(sim_test_kernel("gs_fill"), NULL, fill));
    void *copy[] = {&q, &p, &count};
    ok(sim_test_launch(sim_test_kernel("gs_copy"), NULL, copy));
    void *check[] = {&q, &count, &seed, &result};
    ok(sim_test_launch(sim_test_kernel("gs_check"), NULL, check));
    ok(cuMemcpyDtoH(&mismatches, result, 4));
    cr_assert_eq(mismatches, 0);
    ok(cuMemcpyDtoH(values, q, sizeof(values)));
    for (uint32_t i = 0; i < 1000; i++)
        cr_assert_eq(values[i], gs_pattern(seed, i));
    ok(sim_test_launch(sim_test_kernel("gs_add"), NULL, copy));
    ok(cuMemcpyDtoH(values, q, sizeof(values)));
    cr_assert_eq(values[7], 2 * gs_pattern(seed, 7));
    ok(sim_test_launch(sim_test_kernel("gs_check"), NULL, check));
    ok(cuMemcpyDtoH(&mismatches, result, 4));
    cr_assert_eq(mismatches, 1000);
}

/* gs_fill(u64, u64, u32) */
Test(sim_kernels, tell_their_parameters)
{
    static const size_t offsets[] = {0, 8, 16}, sizes[] = {8, 8, 4};
    size_t offset = 99, bytes = 99;

    sim_test_start("1", "16M");
    CUfunction fill = sim_test_kernel("gs_fill");
    for (size_t i = 0; i < 3; i++) {
        ok(cuFuncGetParamInfo(fill, i, &offset, &bytes));
        cr_expect_eq(offset, offsets[i]);
        cr_expect_eq(bytes, sizes[i]);
    }
    ok(cuFuncGetParamInfo(fill, 1, &offset, NULL));
    cr_expect_eq(offset, 8);
    fails(cuFuncGetParamInfo(fill, 3, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
    fails(cuFuncGetParamInfo(fill, 0, NULL, &bytes), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_kernels, take_arguments_as_a_buffer)
{
    struct {
        CUdeviceptr dst;
        uint64_t count;
        uint32_t seed;
    } args = {0, 10, 4};
    size_t bytes = 20;
    uint32_t value = 0;

    sim_test_start("1", "16M");
    CUfunction fill = sim_test_kernel("gs_fill");
    ok(cuMemAlloc(&args.dst, 40));
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, CU_LAUNCH_PARAM_END};
    ok(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    ok(cuMemcpyDtoH(&value, args.dst + 36, 4));
    cr_assert_eq(value, gs_pattern(4, 9));
    bytes = 16;
    fails(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
          CUDA_ERROR_INVALID_VALUE);
}

static void launch_fill_beyond(CUdeviceptr p, unsigned long long count)
{
    unsigned seed = 1;
    void *params[] = {&p, &count, &seed};

    ok(sim_test_launch(sim_test_kernel("gs_fill"), NULL, params));
}

Test(sim_kernels, make_a_bad_address_a_sticky_error)
{
    CUcontext context = sim_test_start("1", "16M");
    CUdeviceptr p, q;
    CUevent event;

    ok(cuMemAlloc(&p, 64));
    ok(cuEventCreate(&event, 0));
    launch_fill_beyond(p, 17);
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(cuMemAlloc(&q, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(cuMemFree(p), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(cuStreamQuery(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(cuEventQuery(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    ok(cuDevicePrimaryCtxReset(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuMemAlloc(&q, 1));
}

Test(sim_kernels, may_not_touch_freed_memory)
{
    CUdeviceptr p;

    sim_test_start("1", "16M");
    ok(cuMemAlloc(&p, 64));
    ok(cuMemFree(p));
    launch_fill_beyond(p, 1);
    fails(cuStreamSynchronize(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(sim_kernels, reach_a_peer_only_where_it_is_enabled)
{
    CUcontext first = sim_test_start("2", "16M"), second;
    CUdeviceptr p;

    ok(cuMemAlloc(&p, 64));
    ok(cuDevicePrimaryCtxRetain(&second, 1));
    ok(cuCtxSetCurrent(second));
    ok(cuCtxEnablePeerAccess(first, 0));
    fails(cuCtxEnablePeerAccess(first, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    launch_fill_beyond(p, 16);
    ok(cuCtxSynchronize());
    ok(cuCtxDisablePeerAccess(first));
    fails(cuCtxDisablePeerAccess(first), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    launch_fill_beyond(p, 16);
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(sim_kernels, are_found_by_name)
{
    unsigned count = 0;
    CUmodule module;
    CUfunction function, again;
    const char *name = NULL;

    sim_test_start("1", "16M");
    ok(cuModuleLoadData(&module, sim_test_ptx));
    ok(cuModuleGetFunctionCount(&count, module));
    cr_assert_eq(count, 7);
    ok(cuModuleGetFunction(&function, module, "gs_wait"));
    ok(cuModuleGetFunction(&again, module, "gs_wait"));
    cr_assert_eq(function, again);
    ok(cuFuncGetName(&name, function));
    cr_assert_str_eq(name, "gs_wait");
    fails(cuModuleGetFunction(&function, module, "gs_commented"), CUDA_ERROR_NOT_FOUND);
    ok(cuModuleUnload(module));
    fails(cuModuleGetFunction(&function, module, "gs_wait"), CUDA_ERROR_INVALID_HANDLE);
    fails(cuLaunchKernel(again, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
          CUDA_ERROR_INVALID_HANDLE);
}

Test(sim_kernels, unknown_ones_do_nothing)
{
    static const unsigned char cubin[64] = {0x7f, 'E', 'L', 'F'};
    CUmodule module;
    CUfunction function;

    sim_test_start("1", "16M");
    ok(cuLaunchKernel(sim_test_kernel("own_kernel"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL,
                      NULL));
    ok(cuModuleLoadData(&module, cubin));
    ok(cuModuleGetFunction(&function, module, "anything"));
    ok(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    ok(cuCtxSynchronize());
}

Test(sim_kernels, refuse_bad_images_and_shapes)
{
    unsigned long long ns = 0;
    void *params[] = {&ns};
    CUmodule module;

    sim_test_start("1", "16M");
    fails(cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuModuleLoadData(&module, ""), CUDA_ERROR_INVALID_IMAGE);
    fails(cuModuleLoadData(&module, "no code here"), CUDA_ERROR_INVALID_IMAGE);
    fails(cuModuleLoad(&module, "/nonexistent/file.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
    CUfunction spin = sim_test_kernel("gs_spin");
    fails(cuLaunchKernel(spin, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuLaunchKernel(spin, 1, 1, 1, 1025, 1, 1, 0, NULL, params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuLaunchKernel(spin, 1, 1, 1, 32, 64, 1, 0, NULL, params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 1 << 20, NULL, params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
          CUDA_ERROR_INVALID_VALUE);
}

Test(sim_kernels, come_from_libraries_too)
{
    unsigned long long count = 4;
    unsigned seed = 2;
    uint32_t value = 0;
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CUdeviceptr p;

    sim_test_start("1", "16M");
    ok(cuMemAlloc(&p, 16));
    ok(cuLibraryLoadData(&library, sim_test_ptx, NULL, NULL, 0, NULL, NULL, 0));
    ok(cuLibraryGetKernel(&kernel, library, "gs_fill"));
    ok(cuKernelGetFunction(&function, kernel));
    void *params[] = {&p, &count, &seed};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1};
    ok(cuLaunchKernelEx(&config, function, params, NULL));
    ok(cuMemcpyDtoH(&value, p + 12, 4));
    cr_assert_eq(value, gs_pattern(2, 3));
    seed = 3;
    ok(sim_test_launch((CUfunction)kernel, NULL, params));
    ok(cuMemcpyDtoH(&value, p + 12, 4));
    cr_assert_eq(value, gs_pattern(3, 3));
    ok(cuLibraryUnload(library));
    fails(sim_test_launch((CUfunction)kernel, NULL, params), CUDA_ERROR_INVALID_HANDLE);
    fails(sim_test_launch(function, NULL, params), CUDA_ERROR_INVALID_HANDLE);
}
