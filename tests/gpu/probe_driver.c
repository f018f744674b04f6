/*
 * probe_driver.c - finds the driver and says what machine it is.
 * Owns: `driver` and what is known of it. Immutable after probe_driver_load.   Lock:
 * none.
 */
#include "probe.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

struct probe_driver driver; /* immutable after probe_driver_load */
static void *library;       /* likewise */
static char path[PATH_MAX]; /* likewise */
static bool simulated;      /* likewise */

static const char *find_calls(void)
{
    static char missing[128]; /* one thread: written before any other runs */

#define PROBE_NEEDED(symbol)                                                             \
    driver.symbol = (__typeof__(driver.symbol))dlsym(library, #symbol);                  \
    if (!driver.symbol)                                                                  \
        snprintf(missing, sizeof(missing), "the driver has no %s", #symbol);
#define PROBE_MAYBE(symbol)                                                              \
    driver.symbol = (__typeof__(driver.symbol))dlsym(library, #symbol);
#include "probe_driver.def"
#undef PROBE_MAYBE
#undef PROBE_NEEDED
    return missing[0] ? missing : NULL;
}

/* The simulated driver's UUIDs begin with its name. */
static void find_identity(void)
{
    CUuuid uuid;
    Dl_info where;

    memset(&uuid, 0, sizeof(uuid));
    if (driver.cuDeviceGetUuid(&uuid, 0) == CUDA_SUCCESS)
        simulated = memcmp(uuid.bytes, "cudasim", 7) == 0;
    if (dladdr((void *)driver.cuInit, &where) && where.dli_fname)
        if (!realpath(where.dli_fname, path))
            snprintf(path, sizeof(path), "%s", where.dli_fname);
}

const char *probe_driver_load(void)
{
    static char why[256]; /* one thread: written before any other runs */
    const char *missing;
    CUresult code;
    int count = 0;

    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, sizeof(why), "%s", dlerror());
        return why;
    }
    missing = find_calls();
    if (missing)
        return missing;
    code = driver.cuInit(0);
    if (code == CUDA_SUCCESS)
        code = driver.cuDeviceGetCount(&count);
    if (code != CUDA_SUCCESS || count < 1) {
        snprintf(why, sizeof(why), "no device: code %d, %d devices", (int)code, count);
        return why;
    }
    find_identity();
    return NULL;
}

void *probe_driver_symbol(const char *name)
{
    return dlsym(library, name);
}

const char *probe_driver_path(void)
{
    return path;
}

bool probe_is_simulated(void)
{
    return simulated;
}

CUcontext probe_context(void)
{
    CUcontext context = NULL;

    PROBE_OK(driver.cuDevicePrimaryCtxRetain(&context, 0));
    PROBE_OK(driver.cuCtxSetCurrent(context));
    return context;
}

int probe_attribute(CUdevice_attribute attribute)
{
    int value = 0;

    PROBE_OK(driver.cuDeviceGetAttribute(&value, attribute, 0));
    return value;
}

size_t probe_free_bytes(void)
{
    size_t room = 0, total = 0;

    PROBE_OK(driver.cuMemGetInfo_v2(&room, &total));
    return room;
}

const char *probe_code_name(CUresult code)
{
    static _Thread_local char number[16];
    const char *name = NULL;

    if (code == CUDA_SUCCESS)
        return "0";
    if (driver.cuGetErrorName && driver.cuGetErrorName(code, &name) == CUDA_SUCCESS &&
        name)
        return strncmp(name, "CUDA_ERROR_", 11) == 0 ? name + 11 : name;
    snprintf(number, sizeof(number), "%d", (int)code);
    return number;
}

/* ---- the machine
 * ------------------------------------------------------------------------- */

/* Text between quotes of a JSON string: anything that would need an escape is dropped. */
static void plain_text(char *text)
{
    char *to = text;

    for (const char *from = text; *from; from++)
        if (*from >= ' ' && *from != '"' && *from != '\\' && (unsigned char)*from < 0x7f)
            *to++ = *from;
    *to = '\0';
}

static void find_cpu(char *out, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[512];

    snprintf(out, size, "unknown");
    if (!file)
        return;
    while (fgets(line, sizeof(line), file)) {
        char *value = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        value[strcspn(value, "\n")] = '\0';
        snprintf(out, size, "%s", value + 1 + strspn(value + 1, " "));
        break;
    }
    fclose(file);
}

/* NVML's answer, or what the library's file name says: libcuda.so.580.65.06. */
static void find_driver_version(char *out, size_t size)
{
    const char *suffix = strstr(path, "libcuda.so.");

    if (simulated)
        snprintf(out, size, "simulated");
    else if (probe_nvml_version(out, size))
        return;
    else if (suffix && strchr(suffix + 11, '.'))
        snprintf(out, size, "%s", suffix + 11);
    else
        snprintf(out, size, "unknown");
}

bool probe_machine_print(void)
{
    char name[128] = "unknown", version[96], cpu[256];
    struct utsname system;
    int api = 0, count = 0;
    size_t bytes = 0;

    driver.cuDeviceGetName(name, sizeof(name) - 1, 0);
    driver.cuDriverGetVersion(&api);
    driver.cuDeviceGetCount(&count);
    driver.cuDeviceTotalMem_v2(&bytes, 0);
    find_driver_version(version, sizeof(version));
    find_cpu(cpu, sizeof(cpu));
    if (uname(&system) != 0)
        memset(&system, 0, sizeof(system));
    plain_text(name);
    plain_text(version);
    plain_text(cpu);
    plain_text(path);
    printf("{\"gpu\":\"%s\",\"devices\":%d,\"memory_bytes\":%zu,\"compute\":\"%d.%d\","
           "\"driver\":\"%s\",\"driver_api\":%d,\"cuda_headers\":%d,\"libcuda\":\"%s\","
           "\"simulated\":%s,\"cpu\":\"%s\",\"kernel\":\"%s %s\",\"arch\":\"%s\"}\n",
           name, count, bytes,
           probe_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
           probe_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), version, api,
           CUDA_VERSION, path, simulated ? "true" : "false", cpu, system.sysname,
           system.release, system.machine);
    return fflush(stdout) == 0;
}
