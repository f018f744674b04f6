/*
 * device.c - the devices and what they say of themselves.
 * Owns:  the devices.   Lock: none, immutable after cuInit.
 */
#include "device.h"

#include <stdio.h>
#include <string.h>

#include "config.h"
#include "pool.h"
#include "shared.h"
#include "version.h"

static struct sim_device devices[SIM_MAX_DEVICES]; /* immutable after cuInit */
static int device_count;                           /* immutable after cuInit */

enum gs_status sim_device_create_all(void)
{
    const struct sim_config *config = sim_config();

    sim_shared_open();
    if (sim_space_create_host() != GS_OK)
        return GS_ERR_NOMEM;
    for (int i = device_count; i < config->devices; i++) {
        struct sim_device *device = &devices[i];
        device->ordinal = i;
        pthread_mutex_init(&device->lock, NULL);
        if (!device->space &&
            sim_space_create(i, config->memory_bytes, &device->space) != GS_OK)
            return GS_ERR_NOMEM;
        if (!device->primary &&
            sim_context_create(i, true, 0, 0, &device->primary) != CUDA_SUCCESS)
            return GS_ERR_NOMEM;
        if (!device->default_pool &&
            sim_pool_create(i, true, 0, &device->default_pool) != CUDA_SUCCESS)
            return GS_ERR_NOMEM;
        device->current_pool = device->default_pool;
        sim_object_ref(&device->current_pool->object);
        device_count = i + 1;
    }
    return GS_OK;
}

int sim_device_count(void)
{
    return device_count;
}

struct sim_device *sim_device_get(CUdevice ordinal)
{
    return ordinal >= 0 && ordinal < device_count ? &devices[ordinal] : NULL;
}

struct sim_space *sim_device_space(int ordinal)
{
    return devices[ordinal].space;
}

void sim_device_lose(int ordinal)
{
    if (!sim_device_get(ordinal))
        return;
    atomic_store(&devices[ordinal].lost, true);
    sim_context_fail_all(ordinal, SIM_DEVICE_LOST);
}

bool sim_device_is_lost(int ordinal)
{
    return atomic_load_explicit(&devices[ordinal].lost, memory_order_acquire);
}

/* For the stand-in of NVML: the whole device, whatever is preloaded, also before cuInit.
 */
__attribute__((visibility("default"))) int
cudasim_device_memory(int ordinal, size_t *free_bytes, size_t *total_bytes);
int cudasim_device_memory(int ordinal, size_t *free_bytes, size_t *total_bytes)
{
    struct sim_device *device = sim_device_get(ordinal);

    if (device)
        sim_space_info(device->space, free_bytes, total_bytes);
    else
        *free_bytes = *total_bytes = sim_config()->memory_bytes;
    return ordinal >= 0 && ordinal < sim_config()->devices;
}

SIM_API(cuDeviceGet, CUdevice *device, int ordinal)
{
    SIM_TRY(sim_enter(SIM_ID_cuDeviceGet));
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetCount, int *count)
{
    SIM_TRY(sim_enter(SIM_ID_cuDeviceGetCount));
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = device_count;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetName, char *name, int length, CUdevice device)
{
    SIM_TRY(sim_enter(SIM_ID_cuDeviceGetName));
    if (!name || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "%s",
             sim_config()->name ? sim_config()->name : "Simulated CUDA device");
    return CUDA_SUCCESS;
}

static CUresult get_uuid(enum sim_api api, CUuuid *uuid, CUdevice device)
{
    SIM_TRY(sim_enter(api));
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, "cudasim-device-0", sizeof(uuid->bytes));
    uuid->bytes[15] = (char)('a' + device);
    return CUDA_SUCCESS;
}

SIM_API_ONE(cuDeviceGetUuid, (CUuuid * uuid, CUdevice device),
            get_uuid(api, uuid, device));

SIM_API_ONE(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device),
            get_uuid(api, uuid, device));

SIM_API(cuDeviceTotalMem_v2, size_t *bytes, CUdevice ordinal)
{
    size_t free_bytes;

    SIM_TRY(sim_enter(SIM_ID_cuDeviceTotalMem_v2));
    struct sim_device *device = sim_device_get(ordinal);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_space_info(device->space, &free_bytes, bytes);
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceComputeCapability, int *major, int *minor, CUdevice device)
{
    SIM_TRY(sim_enter(SIM_ID_cuDeviceComputeCapability));
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *major = 9;
    *minor = 0;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetPCIBusId, char *text, int length, CUdevice device)
{
    SIM_TRY(sim_enter(SIM_ID_cuDeviceGetPCIBusId));
    if (!text || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(text, (size_t)length, "0000:%02X:00.0", (unsigned)device + 1);
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetByPCIBusId, CUdevice *device, const char *text)
{
    unsigned domain = 0, bus, slot, function = 0;

    SIM_TRY(sim_enter(SIM_ID_cuDeviceGetByPCIBusId));
    if (!device || !text)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
        domain = 0;
        function = 0;
        if (sscanf(text, "%x:%x.%x", &bus, &slot, &function) < 2)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (domain || slot || function || bus == 0 || bus > (unsigned)device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = (CUdevice)bus - 1;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetLuid, char *luid, unsigned int *mask, CUdevice device)
{
    CUresult res = sim_enter(SIM_ID_cuDeviceGetLuid);

    (void)luid;
    (void)mask;
    if (res != CUDA_SUCCESS)
        return res;
    return sim_device_get(device) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_DEVICE;
}

SIM_API(cuDeviceCanAccessPeer, int *can, CUdevice device, CUdevice peer)
{
    SIM_TRY(sim_enter(SIM_ID_cuDeviceCanAccessPeer));
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(device) || !sim_device_get(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetP2PAttribute, int *value, CUdevice_P2PAttribute attribute,
        CUdevice src, CUdevice dst)
{
    SIM_TRY(sim_enter(SIM_ID_cuDeviceGetP2PAttribute));
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(src) || !sim_device_get(dst) || src == dst)
        return CUDA_ERROR_INVALID_DEVICE;
    switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *value = 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = 1;
        return CUDA_SUCCESS;
    default:
        *value = 0;
        return (int)attribute >= 1 && (int)attribute <= 5 &&
                       sim_version_knows(SIM_SINCE_P2P_ATTRIBUTE, attribute)
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    }
}
