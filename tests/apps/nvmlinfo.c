/*
 * nvmlinfo.c - what NVML and CUDA say of the memory of the second device, side by side.
 *   nvmlinfo WAY
 *
 *   linked   NVML's functions by the program's own references
 *   dlsym    by dlopen and dlsym; twice, with the library closed in between
 *   default  by dlopen with RTLD_GLOBAL and dlsym in the global scope
 *
 * Prints NVML's values before the first CUDA call, before there is a context, and while
 * memory comes and goes; CUDA's must be the same. At last those of the first device,
 * which is not used.
 */
#include <dlfcn.h>

#include "app.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef cuGetProcAddress_v2

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory);
int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory);
#define FUNCTIONS                                                                        \
    FUNCTION(nvmlInit_v2)                                                                \
    FUNCTION(nvmlDeviceGetHandleByIndex_v2)                                              \
    FUNCTION(nvmlDeviceGetMemoryInfo)                                                    \
    FUNCTION(nvmlDeviceGetMemoryInfo_v2)

static struct {
#define FUNCTION(name) __typeof__(name) *name;
    FUNCTIONS
#undef FUNCTION
} nvml;

static void *open_nvml(int flags)
{
    void *library = dlopen("libnvidia-ml.so.1", flags);

    app_expect(library != NULL, "libnvidia-ml.so.1");
    return library;
}

static void look_up(void *library)
{
#define FUNCTION(name) *(void **)&nvml.name = dlsym(library, #name);
    FUNCTIONS
#undef FUNCTION
    app_expect(nvml.nvmlInit_v2 && nvml.nvmlDeviceGetMemoryInfo &&
                   nvml.nvmlDeviceGetMemoryInfo_v2,
               "NVML's functions");
}

#ifdef NVML_LINKED
static void link_nvml(void)
{
#define FUNCTION(name) nvml.name = name;
    FUNCTIONS
#undef FUNCTION
}
#else
static void link_nvml(void)
{
    app_expect(dlsym(RTLD_DEFAULT, "nvmlDeviceGetMemoryInfo") == NULL,
               "NVML is not there before it is opened");
}
#endif

static void find_nvml(const char *way)
{
    link_nvml();
    if (strcmp(way, "dlsym") == 0) {
        void *library = open_nvml(RTLD_LAZY | RTLD_LOCAL);

        look_up(library);
        dlclose(library);
        look_up(open_nvml(RTLD_LAZY | RTLD_LOCAL));
    } else if (strcmp(way, "default") == 0) {
        open_nvml(RTLD_LAZY | RTLD_GLOBAL);
        look_up(RTLD_DEFAULT);
    }
}

static struct memory ask(const char *when, unsigned index)
{
    void *device = NULL;
    struct memory memory;
    struct memory_v2 newer = {.version = sizeof(newer) | 2u << 24};

    APP_OK(nvml.nvmlDeviceGetHandleByIndex_v2(index, &device));
    APP_OK(nvml.nvmlDeviceGetMemoryInfo(device, &memory));
    APP_OK(nvml.nvmlDeviceGetMemoryInfo_v2(device, &newer));
    printf("nvmlinfo: %s: %llu of %llu MiB free\n", when, memory.free >> 20,
           memory.total >> 20);
    app_expect(memory.total == memory.free + memory.used, "the sum");
    app_expect(newer.total == newer.free + newer.used + newer.reserved, "the newer sum");
    app_expect(newer.total - newer.reserved == memory.total && newer.free == memory.free,
               "both say the same");
    return memory;
}

/* NVML's order of the devices is the reverse of CUDA's. */
static void compare(const char *when)
{
    struct memory memory = ask(when, 0);
    size_t free_bytes, total_bytes, of_device;

    APP_OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
    APP_OK(cuDeviceTotalMem_v2(&of_device, 1));
    printf("nvmlinfo: CUDA: %zu of %zu MiB free\n", free_bytes >> 20, total_bytes >> 20);
    app_expect(memory.total == total_bytes && of_device == total_bytes, "the total");
    app_expect(memory.free == free_bytes, "what is free");
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUdeviceptr large, small;

    find_nvml(argc > 1 ? argv[1] : "linked");
    APP_OK(nvml.nvmlInit_v2());
    ask("no CUDA yet", 0);
    APP_OK(cuInit(0));
    ask("no context yet", 0);
    APP_OK(cuDevicePrimaryCtxRetain(&context, 1));
    APP_OK(cuCtxSetCurrent(context));
    compare("nothing");
    APP_OK(cuMemAlloc_v2(&large, 8 * APP_MIB));
    APP_OK(cuMemAlloc_v2(&small, 2 * APP_MIB));
    compare("10 MiB");
    APP_OK(cuMemFree_v2(large));
    compare("2 MiB");
    APP_OK(cuMemFree_v2(small));
    compare("all freed");
    ask("another device", 1);
    APP_OK(cuDevicePrimaryCtxRelease_v2(1));
    return 0;
}
