/*
 * api_launch.c - kernel launches. A kernel the simulation does not know is a no-op that
 * keeps its place in the stream; it says so once. Owns:  nothing.   Lock: none of its
 * own. Source: Driver API, "Execution Control".
 */
#include <string.h>

#include "context.h"
#include "launch.h"
#include "log.h"
#include "stream.h"

#define MAX_BLOCK_THREADS 1024u

static bool valid_shape(const struct sim_launch *launch)
{
    const unsigned *grid = launch->grid;
    const unsigned *block = launch->block;

    if (!grid[0] || !grid[1] || !grid[2] || !block[0] || !block[1] || !block[2])
        return false;
    if (grid[0] > 2147483647u || grid[1] > 65535 || grid[2] > 65535)
        return false;
    if (block[0] > MAX_BLOCK_THREADS || block[1] > MAX_BLOCK_THREADS || block[2] > 64)
        return false;
    return block[0] * block[1] * block[2] <= MAX_BLOCK_THREADS;
}

/* The argument buffer of `extra`: pairs of a name and a value. */
static CUresult read_extra(void **extra, const unsigned char **buffer, size_t *bytes)
{
    *buffer = NULL;
    *bytes = 0;
    while (*extra != CU_LAUNCH_PARAM_END) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            memcpy(bytes, extra[1], sizeof(*bytes));
        else
            return CUDA_ERROR_INVALID_VALUE;
        extra += 2;
    }
    return *buffer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Read a built-in kernel's arguments, each at its own alignment in a buffer. */
static CUresult read_args(const struct sim_kernel *kernel,
                          const struct sim_launch *launch, uint64_t *args)
{
    const unsigned char *buffer = NULL;
    size_t bytes = 0, offset = 0;

    if (launch->params && launch->extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (!launch->params && !launch->extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (launch->extra) {
        CUresult res = read_extra(launch->extra, &buffer, &bytes);
        if (res != CUDA_SUCCESS)
            return res;
    }
    for (unsigned i = 0; i < kernel->arg_count; i++) {
        size_t size = kernel->arg_bytes[i];
        offset = gs_round_up(offset, size);
        if (launch->extra && (offset + size > bytes))
            return CUDA_ERROR_INVALID_VALUE;
        if (launch->params && !launch->params[i])
            return CUDA_ERROR_INVALID_VALUE;
        args[i] = 0;
        memcpy(&args[i], launch->extra ? buffer + offset : launch->params[i], size);
        offset += size;
    }
    return CUDA_SUCCESS;
}

static CUresult run(struct sim_op *op)
{
    return op->kernel.body(op);
}

static CUresult make_op(enum sim_api api, struct sim_function *function,
                        const struct sim_launch *launch, struct sim_op **out)
{
    const struct sim_kernel *kernel = function->kernel;
    struct sim_op *op = sim_op_new(SIM_OP_KERNEL, api, kernel ? run : NULL);

    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!kernel) {
        if (!atomic_exchange(&function->said, true))
            sim_log_always("kernel %s is not known here: it does nothing",
                           function->name);
        *out = op;
        return CUDA_SUCCESS;
    }
    op->kernel.body = kernel->body;
    CUresult res = read_args(kernel, launch, op->kernel.args);
    if (res != CUDA_SUCCESS) {
        sim_op_unref(op);
        return res;
    }
    kernel->ranges(op);
    *out = op;
    return CUDA_SUCCESS;
}

static CUresult prepare(enum sim_api api, struct sim_context *context,
                        struct sim_function *function, const struct sim_launch *launch,
                        struct sim_op **out)
{
    if (!valid_shape(launch))
        return CUDA_ERROR_INVALID_VALUE;
    if (function->context &&
        (function->context != context || function->context_id != sim_context_id(context)))
        return CUDA_ERROR_INVALID_HANDLE;
    if (launch->shared_bytes > (unsigned)atomic_load(&function->shared_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return make_op(api, function, launch, out);
}

CUresult sim_launch_prepare(enum sim_api api, struct sim_context *context,
                            const struct sim_launch *launch, struct sim_op **out)
{
    struct sim_function *function = sim_function_get(launch->function);

    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = prepare(api, context, function, launch, out);
    sim_function_put(function);
    return res;
}

static CUresult launch_kernel(enum sim_api api, enum sim_variant variant,
                              const struct sim_launch *launch)
{
    struct sim_context *context;
    struct sim_stream *stream;
    struct sim_op *op;
    CUresult res = sim_enter_context(api, &context);

    if (res == CUDA_SUCCESS)
        res = sim_launch_prepare(api, context, launch, &op);
    if (res != CUDA_SUCCESS)
        return res;
    res = sim_stream_get_own(context, launch->stream, variant, &stream);
    if (res != CUDA_SUCCESS) {
        sim_op_unref(op);
        return res;
    }
    res = sim_submit_drop(stream, op);
    sim_stream_put(stream);
    return res;
}

SIM_API(cuLaunchKernel, CUfunction function, unsigned int gx, unsigned int gy,
        unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
        unsigned int shared_bytes, CUstream stream, void **params, void **extra)
{
    const struct sim_launch launch = {function, {gx, gy, gz}, {bx, by, bz}, shared_bytes,
                                      stream,   params,       extra};

    return launch_kernel(SIM_ID_cuLaunchKernel, SIM_LEGACY, &launch);
}

SIM_API(cuLaunchKernel_ptsz, CUfunction function, unsigned int gx, unsigned int gy,
        unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
        unsigned int shared_bytes, CUstream stream, void **params, void **extra)
{
    const struct sim_launch launch = {function, {gx, gy, gz}, {bx, by, bz}, shared_bytes,
                                      stream,   params,       extra};

    return launch_kernel(SIM_ID_cuLaunchKernel_ptsz, SIM_PER_THREAD, &launch);
}

SIM_API(cuLaunchCooperativeKernel, CUfunction function, unsigned int gx, unsigned int gy,
        unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
        unsigned int shared_bytes, CUstream stream, void **params)
{
    const struct sim_launch launch = {function, {gx, gy, gz}, {bx, by, bz}, shared_bytes,
                                      stream,   params,       NULL};

    return launch_kernel(SIM_ID_cuLaunchCooperativeKernel, SIM_LEGACY, &launch);
}

SIM_API(cuLaunchCooperativeKernel_ptsz, CUfunction function, unsigned int gx,
        unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
        unsigned int bz, unsigned int shared_bytes, CUstream stream, void **params)
{
    const struct sim_launch launch = {function, {gx, gy, gz}, {bx, by, bz}, shared_bytes,
                                      stream,   params,       NULL};

    return launch_kernel(SIM_ID_cuLaunchCooperativeKernel_ptsz, SIM_PER_THREAD, &launch);
}

static CUresult launch_config(enum sim_api api, enum sim_variant variant,
                              const CUlaunchConfig *config, CUfunction function,
                              void **params, void **extra)
{
    if (!config || (config->numAttrs > 0 && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_launch launch = {
        function,
        {config->gridDimX, config->gridDimY, config->gridDimZ},
        {config->blockDimX, config->blockDimY, config->blockDimZ},
        config->sharedMemBytes,
        config->hStream,
        params,
        extra,
    };

    return launch_kernel(api, variant, &launch);
}

SIM_API(cuLaunchKernelEx, const CUlaunchConfig *config, CUfunction function,
        void **params, void **extra)
{
    return launch_config(SIM_ID_cuLaunchKernelEx, SIM_LEGACY, config, function, params,
                         extra);
}

SIM_API(cuLaunchKernelEx_ptsz, const CUlaunchConfig *config, CUfunction function,
        void **params, void **extra)
{
    return launch_config(SIM_ID_cuLaunchKernelEx_ptsz, SIM_PER_THREAD, config, function,
                         params, extra);
}
