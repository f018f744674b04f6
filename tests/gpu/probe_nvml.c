/*
 * probe_nvml.c - the two facts that only NVIDIA's management library knows: memory in use
 * without a context of ours, and the version of the kernel driver. It is opened if it is
 * there; every answer may be missing. Nothing is ever set through it.
 * Owns: nothing that outlives a call.   Lock: none, one thread.
 */
#include "probe.h"

#include <dlfcn.h>

/* As nvml.h has them; the header is not part of every toolkit. */
struct nvml_memory {
    unsigned long long total, free, used;
};
typedef int nvml_simple_fn(void);
typedef int nvml_version_fn(char *version, unsigned length);
typedef int nvml_by_bus_fn(const char *bus_id, void **out_device);
typedef int nvml_memory_fn(void *device, struct nvml_memory *out);

/* The library, started; NULL where there is none or the device is simulated. */
static void *open_library(void)
{
    nvml_simple_fn *start;
    void *library;

    if (probe_is_simulated())
        return NULL;
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return NULL;
    start = (nvml_simple_fn *)dlsym(library, "nvmlInit_v2");
    if (start && start() == 0)
        return library;
    dlclose(library);
    return NULL;
}

static void close_library(void *library)
{
    nvml_simple_fn *stop = (nvml_simple_fn *)dlsym(library, "nvmlShutdown");

    if (stop)
        stop();
    dlclose(library);
}

bool probe_nvml_version(char *out, size_t size)
{
    void *library = open_library();
    nvml_version_fn *version;
    bool known = false;

    if (!library)
        return false;
    version = (nvml_version_fn *)dlsym(library, "nvmlSystemGetDriverVersion");
    if (version)
        known = version(out, (unsigned)size) == 0;
    close_library(library);
    return known;
}

bool probe_nvml_used(size_t *out_bytes)
{
    void *library = open_library();
    struct nvml_memory memory = {0};
    nvml_by_bus_fn *by_bus;
    nvml_memory_fn *get;
    void *device = NULL;
    bool known = false;
    char bus[32];

    if (!library)
        return false;
    by_bus = (nvml_by_bus_fn *)dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    get = (nvml_memory_fn *)dlsym(library, "nvmlDeviceGetMemoryInfo");
    if (by_bus && get && driver.cuDeviceGetPCIBusId(bus, sizeof(bus), 0) == CUDA_SUCCESS)
        known = by_bus(bus, &device) == 0 && get(device, &memory) == 0;
    if (known)
        *out_bytes = (size_t)memory.used;
    close_library(library);
    return known;
}
