/*
 * gpu.c - the devices and their primary contexts.   See gpu.h.
 * Owns: primaries (written while no other thread uses the device).   Lock: none.
 */
#include "gpu.h"

#if APP_RUNTIME

void app_gpu_start(void)
{
    app_driver_load();
    APP_OK(cudaFree(NULL));
}

void app_gpu_thread(void)
{
    APP_OK(cudaSetDevice(0));
}

int app_gpu_devices(void)
{
    int count;

    APP_OK(cudaGetDeviceCount(&count));
    return count < APP_MAX_DEVICES ? count : APP_MAX_DEVICES;
}

void app_gpu_use(int device)
{
    APP_OK(cudaSetDevice(device));
    APP_OK(cudaFree(NULL));
}

void app_gpu_reset(void)
{
    APP_OK(cudaDeviceReset());
    APP_OK(cudaFree(NULL));
}

void app_gpu_stop(void)
{
}

#else

static CUcontext primaries[APP_MAX_DEVICES];

void app_gpu_use(int device)
{
    if (!primaries[device])
        APP_OK(CU(cuDevicePrimaryCtxRetain)(&primaries[device], device));
    APP_OK(CU(cuCtxSetCurrent)(primaries[device]));
}

void app_gpu_start(void)
{
    app_driver_load();
    APP_OK(CU(cuInit)(0));
    app_gpu_use(0);
}

void app_gpu_thread(void)
{
    APP_OK(CU(cuCtxSetCurrent)(primaries[0]));
}

int app_gpu_devices(void)
{
    int count;

    APP_OK(CU(cuDeviceGetCount)(&count));
    return count < APP_MAX_DEVICES ? count : APP_MAX_DEVICES;
}

void app_gpu_reset(void)
{
    APP_OK(CU(cuDevicePrimaryCtxReset)(0));
    primaries[0] = NULL;
    app_gpu_use(0);
}

void app_gpu_stop(void)
{
    APP_OK(CU(cuCtxSetCurrent)(NULL));
    for (int device = 0; device < APP_MAX_DEVICES; device++)
        if (primaries[device])
            APP_OK(CU(cuDevicePrimaryCtxRelease)(device));
}

#endif
