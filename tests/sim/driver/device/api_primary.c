/*
 * api_primary.c - primary contexts: one per device, counted by retain and release.
 * Owns:  the count.   Lock: device->lock, which serializes a primary context's lives.
 * Source: Driver API, "Primary Context Management".
 */
#include "device.h"

CUresult sim_device_retain_primary(struct sim_device *device, struct sim_context **out)
{
    if (sim_device_is_lost(device->ordinal))
        return SIM_DEVICE_LOST;
    pthread_mutex_lock(&device->lock);
    if (!atomic_load(&device->primary->alive))
        sim_context_revive(device->primary);
    device->primary->retained++;
    pthread_mutex_unlock(&device->lock);
    *out = device->primary;
    return CUDA_SUCCESS;
}

CUresult sim_device_release_primary(struct sim_device *device)
{
    CUresult res = CUDA_SUCCESS;

    pthread_mutex_lock(&device->lock);
    if (device->primary->retained == 0) {
        res = CUDA_ERROR_INVALID_CONTEXT;
    } else if (--device->primary->retained == 0) {
        bool ended = sim_context_end(device->primary);
        (void)ended; /* false after a reset: there was nothing left to end */
    }
    pthread_mutex_unlock(&device->lock);
    return res;
}

SIM_API(cuDevicePrimaryCtxRetain, CUcontext *out, CUdevice ordinal)
{
    struct sim_context *context;

    SIM_TRY(sim_enter(SIM_ID_cuDevicePrimaryCtxRetain));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_device *device = sim_device_get(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult res = sim_device_retain_primary(device, &context);
    if (res == CUDA_SUCCESS)
        *out = sim_context_handle(context);
    return res;
}

static CUresult release(enum sim_api api, CUdevice ordinal)
{
    SIM_TRY(sim_enter(api));
    struct sim_device *device = sim_device_get(ordinal);
    return device ? sim_device_release_primary(device) : CUDA_ERROR_INVALID_DEVICE;
}

SIM_API_ONE(cuDevicePrimaryCtxRelease, (CUdevice device), release(api, device));

SIM_API_ONE(cuDevicePrimaryCtxRelease_v2, (CUdevice device), release(api, device));

/* The count of retains stays; the flags go back to 0. */
static CUresult reset(enum sim_api api, CUdevice ordinal)
{
    SIM_TRY(sim_enter(api));
    struct sim_device *device = sim_device_get(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&device->lock);
    bool ended = sim_context_end(device->primary);
    (void)ended; /* resetting what is not active is allowed */
    atomic_store(&device->primary->flags, 0);
    pthread_mutex_unlock(&device->lock);
    return CUDA_SUCCESS;
}

SIM_API_ONE(cuDevicePrimaryCtxReset, (CUdevice device), reset(api, device));

SIM_API_ONE(cuDevicePrimaryCtxReset_v2, (CUdevice device), reset(api, device));

SIM_API(cuDevicePrimaryCtxGetState, CUdevice ordinal, unsigned int *flags, int *active)
{
    SIM_JUDGED_FIRST(!flags || !active, CUDA_ERROR_INVALID_VALUE);

    SIM_TRY(sim_enter(SIM_ID_cuDevicePrimaryCtxGetState));
    struct sim_device *device = sim_device_get(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = atomic_load(&device->primary->flags);
    *active = atomic_load(&device->primary->alive);
    return CUDA_SUCCESS;
}

static CUresult set_flags(enum sim_api api, CUdevice ordinal, unsigned flags)
{
    SIM_TRY(sim_enter(api));
    struct sim_device *device = sim_device_get(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!sim_context_flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    atomic_store(&device->primary->flags, flags);
    return CUDA_SUCCESS;
}

SIM_API_ONE(cuDevicePrimaryCtxSetFlags, (CUdevice device, unsigned int flags),
            set_flags(api, device, flags));

SIM_API_ONE(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned int flags),
            set_flags(api, device, flags));
