/*
 * nvml_none.c - libnvidia-ml.so.1 for a machine that has none: a device without a fabric.
 *
 * PyTorch's expandable segments ask NVML whether the device's memory can be shared over a
 * fabric, and jump to address 0 where that library is missing. Only programs over the
 * simulated device get to see this one. Signatures and codes are those of nvml.h.
 *
 * Owns: nothing.   Lock: none.
 */
#include <stddef.h>

#define NVML          __attribute__((visibility("default"))) int
#define SUCCESS       0
#define INVALID       2
#define NOT_SUPPORTED 3

NVML nvmlInit_v2(void);
NVML nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device);
NVML nvmlDeviceGetGpuFabricInfoV(void *device, void *info);
NVML nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, void *type);
NVML nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *info);
NVML nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *list);
NVML nvmlSystemGetCudaDriverVersion_v2(int *version);

NVML nvmlInit_v2(void)
{
    return SUCCESS;
}

NVML nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device)
{
    static char the_device;

    if (!bus_id || !device)
        return INVALID;
    *device = &the_device;
    return SUCCESS;
}

NVML nvmlDeviceGetGpuFabricInfoV(void *device, void *info)
{
    (void)info;
    return device ? NOT_SUPPORTED : INVALID;
}

NVML nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, void *type)
{
    (void)link;
    (void)type;
    return device ? NOT_SUPPORTED : INVALID;
}

NVML nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *info)
{
    (void)link;
    (void)info;
    return device ? NOT_SUPPORTED : INVALID;
}

NVML nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *list)
{
    (void)list;
    if (!device || !count)
        return INVALID;
    *count = 0;
    return SUCCESS;
}

NVML nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    if (!version)
        return INVALID;
    *version = 13000;
    return SUCCESS;
}
