/*
 * nvml.c - libnvidia-ml.so.1 over the simulated device: what this process takes of it.
 *
 * Answers the few public functions that libgpushim and PyTorch call: the memory in use by
 * the device's own books, and NVMLSIM_OVERHEAD bytes for contexts and modules. The device
 * has no links to other devices. NVMLSIM_FAULT
 * says what is wrong with it: init, hang, pid (another process's number), none (no
 * figure), mig, little (less than is in use). To another process it says of the whole
 * device what the file named by NVMLSIM_USED holds: bytes in use. Signatures and codes
 * are those of nvml.h; all else is not there.
 *
 * Owns: nothing.   Lock: none.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NVML          __attribute__((visibility("default"))) int
#define SUCCESS       0
#define INVALID       2
#define NOT_SUPPORTED 3
#define NO_PERMISSION 4
#define TOO_SMALL     7

struct process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

/* The list of the first version of the call, which PyTorch looks up. */
struct process_v1 {
    unsigned pid;
    unsigned long long used_bytes;
};

struct memory {
    unsigned long long total, free, used;
};

NVML nvmlInit_v2(void);
NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
NVML nvmlDeviceGetMemoryInfo(void *device, struct memory *out);
NVML nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device);
NVML nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count,
                                             struct process *list);
NVML nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count,
                                          struct process_v1 *list);
NVML nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type);
NVML nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *pci);
NVML nvmlDeviceGetGpuFabricInfoV(void *device, void *info);
NVML nvmlSystemGetCudaDriverVersion_v2(int *version);

static int has_fault(const char *name)
{
    const char *fault = getenv("NVMLSIM_FAULT"); /* NOLINT(concurrency-mt-unsafe) */

    return fault && strcmp(fault, name) == 0;
}

NVML nvmlInit_v2(void)
{
    while (has_fault("hang"))
        sleep(1000); /* NOLINT(concurrency-mt-unsafe) */
    return has_fault("init") ? NO_PERMISSION : SUCCESS;
}

/* A handle is the device's number and one. The domain of the address has four or eight
 * digits. */
NVML nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device)
{
    const char *colon = bus_id ? strchr(bus_id, ':') : NULL;
    unsigned bus = colon ? (unsigned)strtoul(colon + 1, NULL, 16) : 0;

    if (bus == 0 || !device)
        return INVALID;
    *device = (void *)(uintptr_t)bus;
    return SUCCESS;
}

/* Memory in use on the device, by cuMemGetInfo in its primary context. */
static size_t used_on(CUdevice device)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*release)(CUdevice);
    CUresult (*push)(CUcontext);
    CUresult (*pop)(CUcontext *);
    CUresult (*info)(size_t *, size_t *);
    CUcontext context;
    size_t free_bytes = 0, total = 0;

    if (!driver)
        return 0;
    *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&release = dlsym(driver, "cuDevicePrimaryCtxRelease_v2");
    *(void **)&push = dlsym(driver, "cuCtxPushCurrent_v2");
    *(void **)&pop = dlsym(driver, "cuCtxPopCurrent_v2");
    *(void **)&info = dlsym(driver, "cuMemGetInfo_v2");
    if (retain(&context, device) == CUDA_SUCCESS) {
        if (push(context) == CUDA_SUCCESS) {
            if (info(&free_bytes, &total) != CUDA_SUCCESS)
                free_bytes = total = 0;
            pop(&context);
        }
        release(device);
    }
    return total - free_bytes;
}

NVML nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count,
                                             struct process *list)
{
    const char *overhead = getenv("NVMLSIM_OVERHEAD"); /* NOLINT(concurrency-mt-unsafe) */
    unsigned long long used;

    if (!device || !count)
        return INVALID;
    if (*count < 2)
        return TOO_SMALL;
    used = used_on((CUdevice)(uintptr_t)device - 1) +
           (overhead ? strtoull(overhead, NULL, 10) : 0);
    if (has_fault("none"))
        used = UINT64_MAX;
    if (has_fault("little"))
        used = 4096;
    list[0] = (struct process){1, 1234567, UINT32_MAX, UINT32_MAX};
    list[1] = (struct process){(unsigned)getpid() + has_fault("pid"), used,
                               has_fault("mig") ? 3 : UINT32_MAX, UINT32_MAX};
    *count = 2;
    return SUCCESS;
}

NVML nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count,
                                          struct process_v1 *list)
{
    struct process both[2];
    int code = nvmlDeviceGetComputeRunningProcesses_v2(device, count, both);

    for (unsigned i = 0; code == SUCCESS && i < *count; i++)
        list[i] = (struct process_v1){both[i].pid, both[i].used_bytes};
    return code;
}

NVML nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type)
{
    (void)link;
    return device && type ? NOT_SUPPORTED : INVALID;
}

NVML nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *pci)
{
    (void)link;
    return device && pci ? NOT_SUPPORTED : INVALID;
}

NVML nvmlDeviceGetGpuFabricInfoV(void *device, void *info)
{
    return device && info ? NOT_SUPPORTED : INVALID;
}

NVML nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    CUresult (*get)(int *) = NULL;

    if (driver)
        *(void **)&get = dlsym(driver, "cuDriverGetVersion");
    if (!version)
        return INVALID;
    return get && get(version) == CUDA_SUCCESS ? SUCCESS : NOT_SUPPORTED;
}

NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    if (!device)
        return INVALID;
    *device = (void *)(uintptr_t)(index + 1);
    return SUCCESS;
}

NVML nvmlDeviceGetMemoryInfo(void *device, struct memory *out)
{
    const char *name = getenv("NVMLSIM_USED"); /* NOLINT(concurrency-mt-unsafe) */
    FILE *file = name ? fopen(name, "re") : NULL;
    int found = 0;

    if (!file)
        return INVALID;
    if (device && out)
        found = fscanf(file, "%llu", &out->used); /* NOLINT(cert-err34-c) */
    fclose(file);
    return found == 1 ? SUCCESS : INVALID;
}
