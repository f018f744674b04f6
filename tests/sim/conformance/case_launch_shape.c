/*
 * case_launch_shape.c - launches that are refused and launches that are not: shapes,
 * shared memory, parameters, attributes, contexts.
 */
#include <string.h>

#include "work.h"

static CUresult launch_shape(unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                             unsigned by, unsigned bz, unsigned shared)
{
    uint64_t ns = 0;
    void *params[] = {&ns};

    return cuLaunchKernel(kernel("gs_spin"), gx, gy, gz, bx, by, bz, shared, NULL, params,
                          NULL);
}

CASE(launch, empty_grid, DRIVER_API, "cuLaunchKernel",
     "Invokes the kernel on a gridDimX x gridDimY x gridDimZ grid of blocks: a dimension "
     "of 0 is CUDA_ERROR_INVALID_VALUE")
{
    CHECK_INVALID(launch_shape(0, 1, 1, 1, 1, 1, 0));
    CHECK_INVALID(launch_shape(1, 0, 1, 1, 1, 1, 0));
    CHECK_INVALID(launch_shape(1, 1, 0, 1, 1, 1, 0));
}

CASE(launch, empty_block, DRIVER_API, "cuLaunchKernel",
     "Each block contains blockDimX x blockDimY x blockDimZ threads: a dimension of 0 is "
     "CUDA_ERROR_INVALID_VALUE")
{
    CHECK_INVALID(launch_shape(1, 1, 1, 0, 1, 1, 0));
    CHECK_INVALID(launch_shape(1, 1, 1, 1, 0, 1, 0));
    CHECK_INVALID(launch_shape(1, 1, 1, 1, 1, 0, 0));
}

CASE(launch, too_many_threads, DRIVER_API, "cuDeviceGetAttribute",
     "MAX_THREADS_PER_BLOCK and MAX_BLOCK_DIM_X, _Y, _Z: the maximum number of threads, "
     "and x-, y- and z-dimension, of a block")
{
    unsigned threads =
        (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    unsigned x = (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
    unsigned z = (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);

    CHECK_INVALID(launch_shape(1, 1, 1, x + 1, 1, 1, 0));
    CHECK_INVALID(launch_shape(1, 1, 1, 1, 1, z + 1, 0));
    CHECK_INVALID(launch_shape(1, 1, 1, threads, 2, 1, 0));
    CHECK_OK(launch_shape(1, 1, 1, threads / 2, 2, 1, 0));
    CHECK_OK(launch_shape(1, 1, 1, 1, 1, z, 0));
    CHECK_OK(cuCtxSynchronize());
}

CASE(launch, too_large_grid, DRIVER_API, "cuDeviceGetAttribute",
     "MAX_GRID_DIM_X, _Y, _Z: the maximum x-, y- and z-dimension of a grid")
{
    unsigned y = (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
    unsigned z = (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);

    CHECK_INVALID(launch_shape(1, y + 1, 1, 1, 1, 1, 0));
    CHECK_INVALID(launch_shape(1, 1, z + 1, 1, 1, 1, 0));
    CHECK_OK(launch_shape(1, 2, 2, 1, 1, 1, 0));
    CHECK_OK(cuCtxSynchronize());
}

CASE(launch, shared_memory, DRIVER_API, "cuDeviceGetAttribute",
     "MAX_SHARED_MEMORY_PER_BLOCK: the maximum amount of shared memory available to a "
     "thread block; a launch that asks for more fails")
{
    unsigned bytes =
        (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);

    CHECK_OK(launch_shape(1, 1, 1, 1, 1, 1, bytes));
    CHECK_INVALID(launch_shape(1, 1, 1, 1, 1, 1, bytes + 1));
    CHECK_OK(cuCtxSynchronize());
}

CASE(launch, shared_memory_by_choice, DRIVER_API, "cuFuncSetAttribute",
     "MAX_DYNAMIC_SHARED_SIZE_BYTES: the requested maximum size of dynamically-allocated "
     "shared memory; it cannot exceed MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
{
    int most = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    const CUfunction_attribute what = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    CUfunction function = kernel("gs_spin");
    int before = 0, after = 0;

    CHECK_OK(cuFuncGetAttribute(&before, what, function));
    CHECK_INVALID(cuFuncSetAttribute(function, what, most + 1));
    CHECK_OK(cuFuncSetAttribute(function, what, most));
    CHECK_OK(cuFuncGetAttribute(&after, what, function));
    CHECK_EQUAL(after, most);
    CHECK_OK(launch_shape(1, 1, 1, 1, 1, 1, (unsigned)most));
    CHECK_OK(cuCtxSynchronize());
    CHECK_OK(cuFuncSetAttribute(function, what, before));
}

CASE(launch, attributes_of_a_function, DRIVER_API, "cuFuncGetAttribute",
     "MAX_THREADS_PER_BLOCK: the maximum number of threads per block; NUM_REGS: the "
     "registers used by each thread; SHARED_SIZE_BYTES: statically-allocated memory")
{
    CUfunction function = kernel("gs_fill");
    int threads = 0, registers = 0, shared = -1, binary = 0;

    CHECK_OK(
        cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    CHECK(threads > 0 &&
          threads <= device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
    CHECK_OK(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
    CHECK(registers > 0);
    CHECK_OK(cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function));
    CHECK_EQUAL(shared, 0);
    CHECK_OK(cuFuncGetAttribute(&binary, CU_FUNC_ATTRIBUTE_BINARY_VERSION, function));
    CHECK(binary <= 10 * device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                        device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}

CASE(launch, read_only_attributes, DRIVER_API, "cuFuncSetAttribute",
     "Attempting to set a value on a read-only attribute will result in an error "
     "(CUDA_ERROR_INVALID_VALUE)")
{
    CUfunction function = kernel("gs_fill");

    CHECK_INVALID(
        cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 32));
    CHECK_INVALID(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS, 8));
}

/* ---- parameters ------------------------------------------------------------------ */

CASE(launch, parameters_twice, DRIVER_API, "cuLaunchKernel",
     "CUDA_ERROR_INVALID_VALUE will be returned if kernel parameters are specified with "
     "both kernelParams and extra")
{
    uint64_t ns = 0;
    size_t bytes = sizeof(ns);
    void *params[] = {&ns};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &ns, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, CU_LAUNCH_PARAM_END};

    CHECK_INVALID(
        cuLaunchKernel(kernel("gs_spin"), 1, 1, 1, 1, 1, 1, 0, NULL, params, extra));
}

CASE(launch, parameters_in_a_buffer, DRIVER_API, "cuLaunchKernel",
     "Kernel parameters can also be packaged by the application into a single buffer "
     "that is passed in via extra")
{
    DEVICE_WORDS words = new_words(2);
    struct {
        uint64_t to, from, count;
    } buffer = {words + 4, words, 1};
    size_t bytes = sizeof(buffer);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, CU_LAUNCH_PARAM_END};

    put_word(words, 7);
    CHECK_OK(cuLaunchKernel(kernel("gs_copy"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    CHECK_EQUAL(word_at(words, 1), 7);
}

CASE(launch, parameters_are_copied, DRIVER_API, "cuLaunchKernel",
     "Each of kernelParams[0] through kernelParams[N-1] must point to a region of memory "
     "from which the actual kernel parameter will be copied: at the call")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(3);
    CUdeviceptr to = words + 4, from = words;
    uint64_t count = 1;
    void *params[] = {&to, &from, &count};
    struct blocker blocker;

    put_word(words, 7);
    if (block_stream(&blocker, stream)) {
        CHECK_OK(launch(kernel("gs_copy"), stream, params));
        to = words + 8;
        count = 0;
        memset(params, 0, sizeof(params));
        end_block(&blocker);
        CHECK_EQUAL(word_at(words, 1), 7);
        CHECK_EQUAL(word_at(words, 2), 0);
    }
}

CASE(launch, any_shape_does_the_work, DRIVER_API, "cuLaunchKernel",
     "Invokes the kernel on a grid of blocks, each of blockDimX x blockDimY x blockDimZ "
     "threads: a kernel with a grid-stride loop does the same work on any of them")
{
    const unsigned shapes[][2] = {{1, 1}, {1, 256}, {64, 32}, {3, 1024}};
    const uint64_t all = 5000;
    DEVICE_WORDS words = new_words(all + 1);
    CUdeviceptr wrong = words + 4 * all;

    for (uint32_t i = 0; i < GS_ARRAY_LEN(shapes); i++) {
        uint64_t count = all;
        uint32_t seed = 100 + i;
        void *fill[] = {&words, &count, &seed};
        void *check[] = {&words, &count, &seed, &wrong};
        CHECK_OK(cuLaunchKernel(kernel("gs_fill"), shapes[i][0], 1, 1, shapes[i][1], 1, 1,
                                0, NULL, fill, NULL));
        CHECK_OK(launch(kernel("gs_check"), NULL, check));
    }
    CHECK_EQUAL(word_at(words, all), 0);
    CHECK(word_at(words, 17) != 0);
}
