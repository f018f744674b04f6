/*
 * api_function.c - what programs ask of functions and kernels.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Execution Control".
 */
#include "context.h"
#include "device.h"
#include "launch.h"
#include "version.h"

#define MAX_SHARED_BYTES 232448 /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
#define SHARED_BYTES     233472 /* MAX_SHARED_MEMORY_PER_MULTIPROCESSOR */

static CUresult get_attribute(const struct sim_function *function, int *out,
                              CUfunction_attribute attribute)
{
    if (!sim_version_knows(SIM_SINCE_FUNCTION_ATTRIBUTE, attribute))
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *out = 1024;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *out = 32;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        *out = function->target;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *out = 90;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *out = atomic_load(&function->shared_bytes);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *out = -1;
        return CUDA_SUCCESS;
    default:
        *out = 0;
        return (int)attribute >= 0 && (int)attribute <= 15 ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult set_attribute(struct sim_function *function,
                              CUfunction_attribute attribute, int value)
{
    switch ((int)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > MAX_SHARED_BYTES)
            return CUDA_ERROR_INVALID_VALUE;
        atomic_store(&function->shared_bytes, value);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return value >= -1 && value <= 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_API(cuFuncGetAttribute, int *out, CUfunction_attribute attribute, CUfunction handle)
{
    SIM_JUDGED_FIRST(!out, CUDA_ERROR_INVALID_VALUE);
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    SIM_TRY(sim_enter(SIM_ID_cuFuncGetAttribute));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_function *function = sim_function_get(handle);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = get_attribute(function, out, attribute);
    sim_function_put(function);
    return res;
}

SIM_API(cuFuncSetAttribute, CUfunction handle, CUfunction_attribute attribute, int value)
{
    SIM_TRY(sim_enter(SIM_ID_cuFuncSetAttribute));
    struct sim_function *function = sim_function_get(handle);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = set_attribute(function, attribute, value);
    sim_function_put(function);
    return res;
}

/* The place of a parameter in a buffer of all, each at its own alignment. The parameters
 * of a kernel that is not built in are not known. */
static CUresult param_info(const struct sim_function *function, size_t number,
                           size_t *offset, size_t *bytes)
{
    const struct sim_kernel *kernel = function->kernel;
    size_t end = 0, begin = 0;

    if (!kernel)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (number >= kernel->arg_count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i <= number; i++) {
        begin = gs_round_up(end, kernel->arg_bytes[i]);
        end = begin + kernel->arg_bytes[i];
    }
    *offset = begin;
    if (bytes)
        *bytes = kernel->arg_bytes[number];
    return CUDA_SUCCESS;
}

SIM_API(cuFuncGetParamInfo, CUfunction handle, size_t number, size_t *offset,
        size_t *bytes)
{
    SIM_TRY(sim_enter(SIM_ID_cuFuncGetParamInfo));
    if (!offset)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_function *function = sim_function_get(handle);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = param_info(function, number, offset, bytes);
    sim_function_put(function);
    return res;
}

SIM_API(cuKernelGetAttribute, int *out, CUfunction_attribute attribute, CUkernel handle,
        CUdevice device)
{
    SIM_TRY(sim_enter(SIM_ID_cuKernelGetAttribute));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_function *kernel = sim_function_get((CUfunction)handle);
    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = get_attribute(kernel, out, attribute);
    sim_function_put(kernel);
    return res;
}

SIM_API(cuKernelSetAttribute, CUfunction_attribute attribute, int value, CUkernel handle,
        CUdevice device)
{
    SIM_TRY(sim_enter(SIM_ID_cuKernelSetAttribute));
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_function *kernel = sim_function_get((CUfunction)handle);
    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = set_attribute(kernel, attribute, value);
    sim_function_put(kernel);
    return res;
}

SIM_API(cuFuncSetCacheConfig, CUfunction handle, CUfunc_cache config)
{
    SIM_TRY(sim_enter(SIM_ID_cuFuncSetCacheConfig));
    struct sim_function *function = sim_function_get(handle);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_function_put(function);
    return (int)config >= 0 && config <= CU_FUNC_CACHE_PREFER_EQUAL
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuFuncGetName, const char **out, CUfunction handle)
{
    SIM_JUDGED_FIRST(!out || !handle, CUDA_ERROR_INVALID_VALUE);

    SIM_TRY(sim_enter(SIM_ID_cuFuncGetName));
    if (!out || !handle)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_function *function = sim_function_get(handle);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = function->name; /* valid until the module is unloaded */
    sim_function_put(function);
    return CUDA_SUCCESS;
}

SIM_API(cuFuncGetModule, CUmodule *out, CUfunction handle)
{
    CUresult res = sim_enter(SIM_ID_cuFuncGetModule);

    if (res != CUDA_SUCCESS)
        return res;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_function *function = sim_function_get(handle);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    if (function->object.type == SIM_TYPE_FUNCTION)
        *out = function->owner_handle;
    else
        res = CUDA_ERROR_INVALID_HANDLE;
    sim_function_put(function);
    return res;
}

SIM_API(cuFuncLoad, CUfunction handle)
{
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    SIM_TRY(sim_enter(SIM_ID_cuFuncLoad));
    struct sim_function *function = sim_function_get(handle);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_function_put(function);
    return CUDA_SUCCESS;
}

SIM_API(cuFuncIsLoaded, CUfunctionLoadingState *state, CUfunction handle)
{
    SIM_JUDGED_FIRST(!state, CUDA_ERROR_INVALID_VALUE);
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    SIM_TRY(sim_enter(SIM_ID_cuFuncIsLoaded));
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_function *function = sim_function_get(handle);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_function_put(function);
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

enum {
#define SIM_ATTRIBUTE(number, name, value) name = (value),
#include "../device/attributes.def"
#undef SIM_ATTRIBUTE
};

/* As many as 2048 threads allow; registers are no limit here. */
unsigned sim_resident_blocks(unsigned threads)
{
    unsigned blocks = threads > 1024 ? 0 : 2048 / ((threads + 31) / 32 * 32);

    return blocks < 32 ? blocks : 32;
}

/* How many blocks the shared memory of a multiprocessor has room for; each needs a KiB
 * more than it asks for (RESERVED_SHARED_MEMORY_PER_BLOCK). */
static int blocks_by_shared_memory(size_t bytes)
{
    return bytes > MAX_SHARED_BYTES ? 0 : (int)(SHARED_BYTES / (bytes + 1024));
}

static CUresult resident(int *blocks, CUfunction handle, int block_size,
                         size_t shared_bytes)
{
    if (!blocks || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_function *function = sim_function_get(handle);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_function_put(function);
    int by_threads = (int)sim_resident_blocks((unsigned)block_size);
    int by_memory = blocks_by_shared_memory(shared_bytes);
    *blocks = by_threads < by_memory ? by_threads : by_memory;
    return CUDA_SUCCESS;
}

static CUresult occupancy(enum sim_api api, int *blocks, CUfunction handle,
                          int block_size, size_t shared_bytes)
{
    SIM_TRY(sim_enter(api));
    return resident(blocks, handle, block_size, shared_bytes);
}

SIM_API_ONE(cuOccupancyMaxActiveBlocksPerMultiprocessor,
            (int *blocks, CUfunction function, int block_size, size_t shared_bytes),
            occupancy(api, blocks, function, block_size, shared_bytes));

SIM_API(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *blocks,
        CUfunction function, int block_size, size_t shared_bytes, unsigned int flags)
{
    if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return sim_unless_before_init(CUDA_ERROR_INVALID_VALUE);
    return occupancy(SIM_ID_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, blocks,
                     function, block_size, shared_bytes);
}

/* The block size that fills a multiprocessor best, of whole warps; the larger of equals.
 */
static CUresult best_block(enum sim_api api, int *grid, int *block, CUfunction handle,
                           CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit)
{
    int best = 0, best_threads = 0, blocks;

    SIM_TRY(sim_enter(api));
    if (!grid || !block || limit < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit == 0 || limit > 1024)
        limit = 1024;
    for (int size = limit; size > 0; size = (size - 1) / 32 * 32) {
        SIM_TRY(
            resident(&blocks, handle, size, shared_of ? shared_of(size) : shared_bytes));
        if (blocks * size > best_threads) {
            best_threads = blocks * size;
            best = size;
            *grid = blocks;
        }
    }
    if (best == 0)
        return CUDA_ERROR_INVALID_VALUE;
    *grid *= MULTIPROCESSOR_COUNT;
    *block = best;
    return CUDA_SUCCESS;
}

SIM_API_ONE(cuOccupancyMaxPotentialBlockSize,
            (int *grid, int *block, CUfunction function, CUoccupancyB2DSize shared_of,
             size_t shared_bytes, int limit),
            best_block(api, grid, block, function, shared_of, shared_bytes, limit));

SIM_API(cuOccupancyMaxPotentialBlockSizeWithFlags, int *grid, int *block,
        CUfunction function, CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit,
        unsigned int flags)
{
    if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return sim_unless_before_init(CUDA_ERROR_INVALID_VALUE);
    return best_block(SIM_ID_cuOccupancyMaxPotentialBlockSizeWithFlags, grid, block,
                      function, shared_of, shared_bytes, limit);
}
