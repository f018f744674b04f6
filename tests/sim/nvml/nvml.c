/*
 * nvml.c - libnvidia-ml.so.1 over the simulated device: what this process takes of it.
 *
 * Answers the public functions that libgpushim and programs of others call (PyTorch, Ray,
 * hwloc, nvidia-ml-py): the memory in use by the device's own books, and NVMLSIM_OVERHEAD
 * bytes for contexts and modules (NVMLSIM_RESERVED: of the driver); names and numbers of
 * devices, with NVMLSIM_ORDER=reverse the last first. The device has no links to other
 * devices. NVMLSIM_FAULT says what is wrong with it: init, hang, pid (another
 * process's number), none (no figure), mig, little (less than is in use). To another
 * process it says of the whole device what the file named by NVMLSIM_USED holds: bytes in
 * use; without that file the total is this process's. Signatures and codes are those of
 * nvml.h; all else is not there.
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
#define NOT_FOUND     6
#define TOO_SMALL     7
#define MISMATCH      25

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

/* used does not include reserved */
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct utilization {
    unsigned gpu, memory;
};

NVML nvmlInit_v2(void);
NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
NVML nvmlDeviceGetMemoryInfo(void *device, struct memory *out);
NVML nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *out);
NVML nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device);
NVML nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count,
                                             struct process *list);
NVML nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count,
                                          struct process_v1 *list);
NVML nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type);
NVML nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *pci);
NVML nvmlDeviceGetGpuFabricInfoV(void *device, void *info);
NVML nvmlSystemGetCudaDriverVersion_v2(int *version);
NVML nvmlSystemGetCudaDriverVersion(int *version);
NVML nvmlInit(void);
NVML nvmlInitWithFlags(unsigned flags);
NVML nvmlShutdown(void);
__attribute__((visibility("default"))) const char *nvmlErrorString(int code);
NVML nvmlSystemGetDriverVersion(char *text, unsigned room);
NVML nvmlSystemGetNVMLVersion(char *text, unsigned room);
NVML nvmlDeviceGetCount_v2(unsigned *count);
NVML nvmlDeviceGetCount(unsigned *count);
NVML nvmlDeviceGetHandleByIndex(unsigned index, void **device);
NVML nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
NVML nvmlDeviceGetIndex(void *device, unsigned *index);
NVML nvmlDeviceGetMinorNumber(void *device, unsigned *number);
NVML nvmlDeviceGetName(void *device, char *text, unsigned room);
NVML nvmlDeviceGetUUID(void *device, char *text, unsigned room);
NVML nvmlDeviceGetSerial(void *device, char *text, unsigned room);
NVML nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *out);
NVML nvmlDeviceGetPciInfo_v2(void *device, struct pci_info *out);
NVML nvmlDeviceGetPciInfo(void *device, struct pci_info *out);
NVML nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor);
NVML nvmlDeviceGetUtilizationRates(void *device, struct utilization *out);
NVML nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *degrees);
NVML nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);

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

static unsigned device_count(void);

/* A handle is the device's number in NVML's order and one. The same for the way back. */
static CUdevice ordinal_of(const void *device)
{
    const char *order = getenv("NVMLSIM_ORDER"); /* NOLINT(concurrency-mt-unsafe) */
    int number = (int)(uintptr_t)device - 1;

    return order && strcmp(order, "reverse") == 0 ? (CUdevice)device_count() - 1 - number
                                                  : number;
}

/* The domain of the address has four or eight digits. */
NVML nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device)
{
    const char *colon = bus_id ? strchr(bus_id, ':') : NULL;
    unsigned bus = colon ? (unsigned)strtoul(colon + 1, NULL, 16) : 0;

    if (bus == 0 || !device)
        return INVALID;
    *device = (void *)(uintptr_t)(ordinal_of((void *)(uintptr_t)bus) + 1);
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
    used = used_on(ordinal_of(device)) + (overhead ? strtoull(overhead, NULL, 10) : 0);
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

/* A function of the driver's that this process has, or NULL. */
static void *of_driver(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);

    return driver ? dlsym(driver, name) : NULL;
}

static unsigned device_count(void)
{
    CUresult (*init)(unsigned) = NULL;
    CUresult (*count)(int *) = NULL;
    int devices = 0;

    *(void **)&init = of_driver("cuInit");
    *(void **)&count = of_driver("cuDeviceGetCount");
    if (!init || !count || init(0) != CUDA_SUCCESS || count(&devices) != CUDA_SUCCESS)
        return 0;
    return (unsigned)devices;
}

static int is_device(const void *device)
{
    return device && (uintptr_t)device <= device_count();
}

/* The whole device, past what may be preloaded: NVML needs no CUDA. */
static int memory_of(const void *device, struct memory *out)
{
    int (*get)(int, size_t *, size_t *) = NULL;
    size_t free_bytes = 0, bytes = 0;

    *(void **)&get = of_driver("cudasim_device_memory");
    if (!device || !get || !get(ordinal_of(device), &free_bytes, &bytes))
        return INVALID;
    *out = (struct memory){bytes, free_bytes, bytes - free_bytes};
    return SUCCESS;
}

NVML nvmlDeviceGetMemoryInfo(void *device, struct memory *out)
{
    const char *name = getenv("NVMLSIM_USED"); /* NOLINT(concurrency-mt-unsafe) */
    FILE *file = name ? fopen(name, "re") : NULL;
    int found = 0;

    if (!device || !out || (name && !file)) {
        if (file)
            fclose(file);
        return INVALID;
    }
    if (file) {
        found = fscanf(file, "%llu", &out->used); /* NOLINT(cert-err34-c) */
        fclose(file);
        return found == 1 ? SUCCESS : INVALID;
    }
    return memory_of(device, out);
}

NVML nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *out)
{
    const char *text = getenv("NVMLSIM_RESERVED"); /* NOLINT(concurrency-mt-unsafe) */
    unsigned long long reserved = text ? strtoull(text, NULL, 10) : 0;
    struct memory all;

    if (!out || memory_of(device, &all) != SUCCESS)
        return INVALID;
    if (out->version != (sizeof(*out) | 2u << 24))
        return MISMATCH;
    *out = (struct memory_v2){out->version, all.total + reserved, reserved, all.free,
                              all.used};
    return SUCCESS;
}

/* ---- what programs of others ask ------------------------------------------------- */

NVML nvmlInit(void)
{
    return nvmlInit_v2();
}

NVML nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return nvmlInit_v2();
}

NVML nvmlShutdown(void)
{
    return SUCCESS;
}

const char *nvmlErrorString(int code)
{
    switch (code) {
    case SUCCESS:
        return "The operation was successful";
    case INVALID:
        return "A supplied argument is invalid";
    case NOT_SUPPORTED:
        return "The requested operation is not available on target device";
    case NO_PERMISSION:
        return "The current user does not have permission for operation";
    case NOT_FOUND:
        return "A query to find an object was unsuccessful";
    case TOO_SMALL:
        return "An input argument is not large enough";
    default:
        return "Unknown error";
    }
}

/* NVML's texts need room for their NUL. */
static int put_text(const void *checked, char *text, unsigned room, const char *from)
{
    if (!checked || !text)
        return INVALID;
    if (strlen(from) >= room)
        return TOO_SMALL;
    memcpy(text, from, strlen(from) + 1);
    return SUCCESS;
}

NVML nvmlSystemGetDriverVersion(char *text, unsigned room)
{
    return put_text(text, text, room, "580.0");
}

NVML nvmlSystemGetNVMLVersion(char *text, unsigned room)
{
    return put_text(text, text, room, "13.580.0");
}

NVML nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

NVML nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!count)
        return INVALID;
    *count = device_count();
    return SUCCESS;
}

NVML nvmlDeviceGetCount(unsigned *count)
{
    return nvmlDeviceGetCount_v2(count);
}

NVML nvmlDeviceGetHandleByIndex(unsigned index, void **device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML nvmlDeviceGetIndex(void *device, unsigned *index)
{
    if (!is_device(device) || !index)
        return INVALID;
    *index = (unsigned)(uintptr_t)device - 1;
    return SUCCESS;
}

NVML nvmlDeviceGetMinorNumber(void *device, unsigned *number)
{
    return nvmlDeviceGetIndex(device, number);
}

NVML nvmlDeviceGetName(void *device, char *text, unsigned room)
{
    CUresult (*name)(char *, int, CUdevice) = NULL;
    char found[96] = "";

    *(void **)&name = of_driver("cuDeviceGetName");
    if (!is_device(device) || !name ||
        name(found, sizeof(found), ordinal_of(device)) != CUDA_SUCCESS)
        return INVALID;
    return put_text(device, text, room, found);
}

static int uuid_of(const void *device, char *text, size_t room)
{
    CUresult (*get)(CUuuid *, CUdevice) = NULL;
    CUuuid uuid;
    size_t used;

    *(void **)&get = of_driver("cuDeviceGetUuid");
    if (!is_device(device) || !get || get(&uuid, ordinal_of(device)) != CUDA_SUCCESS)
        return INVALID;
    used = (size_t)snprintf(text, room, "GPU-");
    for (int i = 0; i < 16; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%02x",
                                 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                                 (unsigned char)uuid.bytes[i]);
    return SUCCESS;
}

NVML nvmlDeviceGetUUID(void *device, char *text, unsigned room)
{
    char found[80];

    if (uuid_of(device, found, sizeof(found)) != SUCCESS)
        return INVALID;
    return put_text(device, text, room, found);
}

NVML nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    char found[80];

    if (!uuid || !device)
        return INVALID;
    for (uintptr_t i = 1; i <= device_count(); i++) {
        if (uuid_of((void *)i, found, sizeof(found)) == SUCCESS &&
            strcmp(found, uuid) == 0) {
            *device = (void *)i;
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

NVML nvmlDeviceGetSerial(void *device, char *text, unsigned room)
{
    (void)text, (void)room;
    return is_device(device) ? NOT_SUPPORTED : INVALID;
}

NVML nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *out)
{
    CUresult (*get)(char *, int, CUdevice) = NULL;
    char id[32] = "";

    *(void **)&get = of_driver("cuDeviceGetPCIBusId");
    if (!is_device(device) || !out || !get ||
        get(id, sizeof(id), ordinal_of(device)) != CUDA_SUCCESS)
        return INVALID;
    memset(out, 0, sizeof(*out));
    if (sscanf(id, "%x:%x:%x", &out->domain, &out->bus, &out->device) != 3) /* NOLINT */
        return INVALID;
    snprintf(out->bus_id_legacy, sizeof(out->bus_id_legacy), "%.15s", id);
    snprintf(out->bus_id, sizeof(out->bus_id), "%08X:%02X:%02X.0", out->domain, out->bus,
             out->device);
    return SUCCESS;
}

NVML nvmlDeviceGetPciInfo_v2(void *device, struct pci_info *out)
{
    return nvmlDeviceGetPciInfo_v3(device, out);
}

NVML nvmlDeviceGetPciInfo(void *device, struct pci_info *out)
{
    return nvmlDeviceGetPciInfo_v3(device, out);
}

NVML nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
    CUresult (*get)(int *, CUdevice_attribute, CUdevice) = NULL;
    CUdevice number = ordinal_of(device);

    *(void **)&get = of_driver("cuDeviceGetAttribute");
    if (!is_device(device) || !major || !minor || !get)
        return INVALID;
    get(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, number);
    get(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, number);
    return SUCCESS;
}

/* The device has no sensors. */
NVML nvmlDeviceGetUtilizationRates(void *device, struct utilization *out)
{
    return is_device(device) && out ? NOT_SUPPORTED : INVALID;
}

NVML nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *degrees)
{
    (void)sensor;
    return is_device(device) && degrees ? NOT_SUPPORTED : INVALID;
}

NVML nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    return is_device(device) && milliwatts ? NOT_SUPPORTED : INVALID;
}
