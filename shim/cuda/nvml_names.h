/*
 * nvml_names.h - the functions of NVIDIA's management library (NVML) that the library
 * replaces (link/library_hooks.def). Toolkits may lack nvml.h, so it is not included.
 *
 * Owns: nothing.   Lock: none.   Source: NVML API Reference Guide, "Device Queries"
 */
#ifndef GS_NVML_NAMES_H
#define GS_NVML_NAMES_H

#define GS_NVML_SUCCESS            0
#define GS_NVML_FUNCTION_NOT_FOUND 13
#define GS_NVML_UUID_BYTES         96 /* NVML_DEVICE_UUID_V2_BUFFER_SIZE */

/* nvmlMemory_t: `used_bytes` includes what the driver reserves. */
struct gs_nvml_memory {
    unsigned long long total_bytes, free_bytes, used_bytes;
};

/* nvmlMemory_v2_t: `used_bytes` does not include `reserved_bytes`. */
struct gs_nvml_memory_v2 {
    unsigned version;
    unsigned long long total_bytes, reserved_bytes, free_bytes, used_bytes;
};
#define GS_NVML_MEMORY_V2 ((unsigned)sizeof(struct gs_nvml_memory_v2) | 2u << 24)

int nvmlDeviceGetMemoryInfo(void *device, struct gs_nvml_memory *memory);
int nvmlDeviceGetMemoryInfo_v2(void *device, struct gs_nvml_memory_v2 *memory);

#endif
