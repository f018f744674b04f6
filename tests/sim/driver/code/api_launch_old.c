/*
 * api_launch_old.c - kernel launches as they were before cuLaunchKernel: the shape of a
 * block, the shared memory and the parameters are set one by one and stay with the
 * function. And cooperative launches on several devices at once, which no device here
 * offers (COOPERATIVE_MULTI_DEVICE_LAUNCH is 0).
 *
 * Owns:  each function's settings.   Lock: settings_lock, taken last.
 * Source: Driver API, "Execution Control [DEPRECATED]", and
 *         cuLaunchCooperativeKernelMultiDevice.
 */
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "launch.h"

#define PARAMETER_BYTES 4096 /* of a kernel's parameters, at most */

struct sim_settings {
    unsigned block[3];
    unsigned shared_bytes;
    size_t parameter_bytes;
    unsigned char parameters[PARAMETER_BYTES];
};

/* Guards the settings of every function; nothing else is taken while it is held. */
static pthread_mutex_t settings_lock = PTHREAD_MUTEX_INITIALIZER;

/* The function's settings, made at first use; NULL without memory. Needs the lock. */
static struct sim_settings *settings_of(struct sim_function *function)
{
    if (!function->settings)
        function->settings = calloc(1, sizeof(*function->settings));
    return function->settings;
}

/*
 * The door of a call that changes a function's settings: with the lock held and a
 * reference, both given back by leave().
 *
 * In:      unknown  what a handle that is no function's is answered with
 * Errors:  that, CUDA_ERROR_OUT_OF_MEMORY, and those of sim_enter_context
 */
static CUresult enter(enum sim_api api, CUfunction handle, CUresult unknown,
                      struct sim_function **function, struct sim_settings **out)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(api, &context));
    *function = sim_function_get(handle);
    if (!*function)
        return unknown;
    pthread_mutex_lock(&settings_lock);
    *out = settings_of(*function);
    if (*out)
        return CUDA_SUCCESS;
    pthread_mutex_unlock(&settings_lock);
    sim_function_put(*function);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static void leave(struct sim_function *function)
{
    pthread_mutex_unlock(&settings_lock);
    sim_function_put(function);
}

SIM_API(cuFuncSetBlockShape, CUfunction handle, int x, int y, int z)
{
    struct sim_function *function;
    struct sim_settings *settings;
    CUresult res = enter(SIM_ID_cuFuncSetBlockShape, handle, CUDA_ERROR_INVALID_HANDLE,
                         &function, &settings);

    if (res != CUDA_SUCCESS)
        return res;
    if (x > 0 && y > 0 && z > 0) {
        settings->block[0] = (unsigned)x;
        settings->block[1] = (unsigned)y;
        settings->block[2] = (unsigned)z;
    } else {
        res = CUDA_ERROR_INVALID_VALUE;
    }
    leave(function);
    return res;
}

SIM_API(cuFuncSetSharedSize, CUfunction handle, unsigned int bytes)
{
    struct sim_function *function;
    struct sim_settings *settings;

    SIM_TRY(enter(SIM_ID_cuFuncSetSharedSize, handle, CUDA_ERROR_INVALID_HANDLE,
                  &function, &settings));
    settings->shared_bytes = bytes;
    leave(function);
    return CUDA_SUCCESS;
}

SIM_API(cuParamSetSize, CUfunction handle, unsigned int bytes)
{
    struct sim_function *function;
    struct sim_settings *settings;
    CUresult res = enter(SIM_ID_cuParamSetSize, handle, CUDA_ERROR_INVALID_VALUE,
                         &function, &settings);

    if (res != CUDA_SUCCESS)
        return res;
    if (bytes <= PARAMETER_BYTES)
        settings->parameter_bytes = bytes;
    else
        res = CUDA_ERROR_INVALID_VALUE;
    leave(function);
    return res;
}

static CUresult set_parameter(enum sim_api api, CUfunction handle, int offset,
                              const void *value, size_t bytes)
{
    struct sim_function *function;
    struct sim_settings *settings;
    CUresult res = enter(api, handle, CUDA_ERROR_INVALID_VALUE, &function, &settings);

    if (res != CUDA_SUCCESS)
        return res;
    if (value && offset >= 0 && bytes <= PARAMETER_BYTES &&
        (size_t)offset <= PARAMETER_BYTES - bytes)
        memcpy(settings->parameters + offset, value, bytes);
    else
        res = CUDA_ERROR_INVALID_VALUE;
    leave(function);
    return res;
}

SIM_API_ONE(cuParamSeti, (CUfunction function, int offset, unsigned int value),
            set_parameter(api, function, offset, &value, sizeof(value)));

SIM_API_ONE(cuParamSetf, (CUfunction function, int offset, float value),
            set_parameter(api, function, offset, &value, sizeof(value)));

SIM_API_ONE(cuParamSetv,
            (CUfunction function, int offset, void *value, unsigned int bytes),
            set_parameter(api, function, offset, value, bytes));

/* A copy of the function's settings; of one that has none, all zero. False: no function.
 */
static bool read_settings(CUfunction handle, struct sim_settings *out)
{
    struct sim_function *function = sim_function_get(handle);

    if (!function)
        return false;
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&settings_lock);
    if (function->settings)
        *out = *function->settings;
    pthread_mutex_unlock(&settings_lock);
    sim_function_put(function);
    return true;
}

static CUresult launch(enum sim_api api, CUfunction handle, int width, int height,
                       CUstream stream, CUresult unknown)
{
    struct sim_settings settings;
    struct sim_context *context;

    if (!read_settings(handle, &settings) || width <= 0 || height <= 0) {
        CUresult res = sim_enter_context(api, &context);
        if (res != CUDA_SUCCESS)
            return res;
        return width <= 0 || height <= 0 ? CUDA_ERROR_INVALID_VALUE : unknown;
    }
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, settings.parameters,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &settings.parameter_bytes,
                     CU_LAUNCH_PARAM_END};
    const struct sim_launch whole = {
        .function = handle,
        .grid = {(unsigned)width, (unsigned)height, 1},
        .block = {settings.block[0], settings.block[1], settings.block[2]},
        .shared_bytes = settings.shared_bytes,
        .stream = stream,
        .extra = extra,
    };
    return sim_launch_submit(api, SIM_LEGACY, &whole);
}

SIM_API_ONE(cuLaunch, (CUfunction function),
            launch(api, function, 1, 1, NULL, CUDA_ERROR_INVALID_VALUE));

SIM_API_ONE(cuLaunchGrid, (CUfunction function, int width, int height),
            launch(api, function, width, height, NULL, CUDA_ERROR_INVALID_VALUE));

SIM_API_ONE(cuLaunchGridAsync,
            (CUfunction function, int width, int height, CUstream stream),
            launch(api, function, width, height, stream, CUDA_ERROR_INVALID_HANDLE));

SIM_API(cuLaunchCooperativeKernelMultiDevice, CUDA_LAUNCH_PARAMS *list,
        unsigned int count, unsigned int flags)
{
    const unsigned known = CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |
                           CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC;
    struct sim_context *context;
    CUresult res =
        sim_enter_context(SIM_ID_cuLaunchCooperativeKernelMultiDevice, &context);

    if (res != CUDA_SUCCESS)
        return res;
    if (!list || count == 0 || (flags & ~known))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        struct sim_function *function = sim_function_get(list[i].function);
        if (!function)
            return CUDA_ERROR_INVALID_HANDLE;
        sim_function_put(function);
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}
