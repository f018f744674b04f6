/*
 * launch.c - kernel launches.
 * Owns:  each thread's stack of launch configurations.   Lock: none.
 */
#include "rt.h"

#include <limits.h>
#include <string.h>

static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute),
              "the runtime's launch attributes are the driver's");

/* What <<<...>>> says, kept until the generated stub asks for it. Arguments may launch
 * kernels themselves, so configurations nest. */
struct configuration {
    dim3 grid;
    dim3 block;
    size_t shared_bytes;
    cudaStream_t stream;
};

#define MAX_NESTED_LAUNCHES 32

/* Of this thread alone. */
static _Thread_local struct configuration configurations[MAX_NESTED_LAUNCHES];
static _Thread_local unsigned configuration_count;

/* Not 0: the generated code then skips the launch. */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     struct CUstream_st *stream)
{
    struct configuration *top;

    if (configuration_count == MAX_NESTED_LAUNCHES) {
        gs_rt_leave(cudaErrorLaunchMaxDepthExceeded);
        return 1;
    }
    top = &configurations[configuration_count++];
    top->grid = grid;
    top->block = block;
    top->shared_bytes = shared_bytes;
    top->stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes,
                                       void *stream)
{
    const struct configuration *top;

    if (configuration_count == 0)
        return gs_rt_leave(cudaErrorMissingConfiguration);
    top = &configurations[--configuration_count];
    *grid = top->grid;
    *block = top->block;
    *shared_bytes = top->shared_bytes;
    *(cudaStream_t *)stream = top->stream;
    return cudaSuccess;
}

static bool is_empty(dim3 size)
{
    return size.x == 0 || size.y == 0 || size.z == 0;
}

static cudaError_t check_configuration(dim3 grid, dim3 block, size_t shared_bytes)
{
    if (is_empty(grid) || is_empty(block))
        return cudaErrorInvalidConfiguration;
    return shared_bytes > UINT_MAX ? cudaErrorInvalidValue : cudaSuccess;
}

/* cuLaunchKernel takes a CUkernel in the place of a CUfunction (see cuda.h). */
static cudaError_t launch_kernel(bool per_thread, CUkernel kernel, dim3 grid, dim3 block,
                                 void **args, size_t shared_bytes, cudaStream_t stream)
{
    RT_TRY(gs_rt_leave(check_configuration(grid, block, shared_bytes)));
    return gs_rt_leave_cu(
        RT_PICK(per_thread, cuLaunchKernel_v4000, cuLaunchKernel_v7000_ptsz)(
            (CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
            (unsigned)shared_bytes, stream, args, NULL));
}

static cudaError_t launch(bool per_thread, const void *func, dim3 grid, dim3 block,
                          void **args, size_t shared_bytes, cudaStream_t stream)
{
    CUkernel kernel;

    RT_TRY(gs_rt_enter());
    RT_TRY(gs_rt_leave(gs_rt_kernel(func, &kernel)));
    return launch_kernel(per_thread, kernel, grid, block, args, shared_bytes, stream);
}

RT_TWINS(cudaLaunchKernel, ptsz,
         (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
          cudaStream_t stream),
         launch(per_thread, func, gridDim, blockDim, args, sharedMem, stream));

/* What stubs call since CUDA 12.8: the kernel was found by __cudaGetKernel. */
RT_TWINS(__cudaLaunchKernel, ptsz,
         (cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
          cudaStream_t stream),
         RT_ENTERED(launch_kernel(per_thread, kernel, grid, block, args, shared_bytes,
                                  stream)));

static cudaError_t describe_launch(const cudaLaunchConfig_t *config, CUlaunchConfig *out)
{
    cudaError_t error;

    if (!config || (config->numAttrs > 0 && !config->attrs))
        return cudaErrorInvalidValue;
    error =
        check_configuration(config->gridDim, config->blockDim, config->dynamicSmemBytes);
    if (error != cudaSuccess)
        return error;
    memset(out, 0, sizeof(*out));
    out->gridDimX = config->gridDim.x;
    out->gridDimY = config->gridDim.y;
    out->gridDimZ = config->gridDim.z;
    out->blockDimX = config->blockDim.x;
    out->blockDimY = config->blockDim.y;
    out->blockDimZ = config->blockDim.z;
    out->sharedMemBytes = (unsigned)config->dynamicSmemBytes;
    out->hStream = config->stream;
    out->attrs = (CUlaunchAttribute *)config->attrs;
    out->numAttrs = config->numAttrs;
    return cudaSuccess;
}

static cudaError_t launch_config(bool per_thread, const cudaLaunchConfig_t *config,
                                 const void *func, void **args)
{
    CUlaunchConfig driver_config;
    CUkernel kernel;

    RT_TRY(gs_rt_enter());
    cudaError_t error = describe_launch(config, &driver_config);
    if (error == cudaSuccess)
        error = gs_rt_kernel(func, &kernel);
    if (error != cudaSuccess)
        return gs_rt_leave(error);
    return gs_rt_leave_cu(
        RT_PICK(per_thread, cuLaunchKernelEx_v11060, cuLaunchKernelEx_v11060_ptsz)(
            &driver_config, (CUfunction)kernel, args, NULL));
}

RT_TWINS(cudaLaunchKernelExC, ptsz,
         (const cudaLaunchConfig_t *config, const void *func, void **args),
         launch_config(per_thread, config, func, args));

static cudaError_t launch_cooperative(bool per_thread, const void *func, dim3 grid,
                                      dim3 block, void **args, size_t shared_bytes,
                                      cudaStream_t stream)
{
    CUkernel kernel;

    RT_TRY(gs_rt_enter());
    cudaError_t error = check_configuration(grid, block, shared_bytes);
    if (error == cudaSuccess)
        error = gs_rt_kernel(func, &kernel);
    if (error != cudaSuccess)
        return gs_rt_leave(error);
    return gs_rt_leave_cu(RT_PICK(per_thread, cuLaunchCooperativeKernel_v9000,
                                  cuLaunchCooperativeKernel_v9000_ptsz)(
        (CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
        (unsigned)shared_bytes, stream, args));
}

RT_TWINS(cudaLaunchCooperativeKernel, ptsz,
         (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
          cudaStream_t stream),
         launch_cooperative(per_thread, func, gridDim, blockDim, args, sharedMem,
                            stream));
