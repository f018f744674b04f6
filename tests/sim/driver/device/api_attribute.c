/*
 * api_attribute.c - cuDeviceGetAttribute and what is derived from it.
 * Owns:  the values, as CUDASIM_ATTRIBUTES has changed them.   Lock: none; written once.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/config.h"
#include "../core/log.h"
#include "device.h"
#include "version.h"

#define LAST_ATTRIBUTE 147 /* of the 13.0 headers */

static int values[LAST_ATTRIBUTE + 1] = {
#define SIM_ATTRIBUTE(number, name, value) [number] = (value),
#include "attributes.def"
#undef SIM_ATTRIBUTE
};

static const char *const names[LAST_ATTRIBUTE + 1] = {
#define SIM_ATTRIBUTE(number, name, value) [number] = #name,
#include "attributes.def"
#undef SIM_ATTRIBUTE
};

/* NAME=value, or a number for the name. False if it is neither. */
static bool set_value(const char *rule, size_t length)
{
    const char *equals = memchr(rule, '=', length);
    char *end;
    long value;

    if (!equals)
        return false;
    value = strtol(equals + 1, &end, 10);
    if (end == equals + 1 || end != rule + length)
        return false;
    for (int i = 1; i <= LAST_ATTRIBUTE; i++) {
        if (names[i] && strlen(names[i]) == (size_t)(equals - rule) &&
            strncmp(names[i], rule, (size_t)(equals - rule)) == 0) {
            values[i] = (int)value;
            return true;
        }
    }
    return false;
}

static void read_rules(void)
{
    const char *rule = sim_config()->attributes;

    while (rule && *rule) {
        size_t length = strcspn(rule, ",");
        if (!set_value(rule, length))
            sim_log_always("CUDASIM_ATTRIBUTES: %.*s is not NAME=number of an attribute "
                           "that is known, ignored",
                           (int)(length < 200 ? length : 200), rule);
        rule += length + (rule[length] == ',');
    }
}

int sim_device_attribute(CUdevice_attribute attribute)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_rules);
    return values[attribute];
}

SIM_API(cuDeviceGetAttribute, int *value, CUdevice_attribute attribute, CUdevice device)
{
    SIM_JUDGED_FIRST(!value, CUDA_ERROR_INVALID_VALUE);

    SIM_TRY(sim_enter(SIM_ID_cuDeviceGetAttribute));
    if (!value || (int)attribute < 1 || (int)attribute > LAST_ATTRIBUTE ||
        !sim_version_knows(SIM_SINCE_DEVICE_ATTRIBUTE, attribute))
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
        *value = device + 1;
    else if (attribute == CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID)
        *value = device;
    else if (attribute == CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)
        *value = sim_device_count() > 1;
    else
        *value = sim_device_attribute(attribute);
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetProperties, CUdevprop *out, CUdevice device)
{
    SIM_TRY(sim_enter(SIM_ID_cuDeviceGetProperties));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = (CUdevprop){
        .maxThreadsPerBlock = values[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
        .sharedMemPerBlock = values[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK],
        .totalConstantMemory = values[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY],
        .SIMDWidth = values[CU_DEVICE_ATTRIBUTE_WARP_SIZE],
        .memPitch = values[CU_DEVICE_ATTRIBUTE_MAX_PITCH],
        .regsPerBlock = values[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK],
        .clockRate = values[CU_DEVICE_ATTRIBUTE_CLOCK_RATE],
        .textureAlign = values[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT],
    };
    for (int i = 0; i < 3; i++) {
        out->maxThreadsDim[i] = values[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i];
        out->maxGridSize[i] = values[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i];
    }
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetExecAffinitySupport, int *supported, CUexecAffinityType type,
        CUdevice device)
{
    SIM_TRY(sim_enter(SIM_ID_cuDeviceGetExecAffinitySupport));
    if (!supported || (int)type < 0 || type >= CU_EXEC_AFFINITY_TYPE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *supported = 0;
    return CUDA_SUCCESS;
}
