/*
 * properties.c - cudaGetDeviceProperties and cudaChooseDevice.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

#include <string.h>

struct property {
    enum cudaDeviceAttr attribute;
    size_t offset;
    size_t size; /* of the member: an int or a size_t */
};

static const struct property properties[] = {
#define RT_PROPERTY(member, attr)                                                        \
    {cudaDevAttr##attr, offsetof(struct cudaDeviceProp, member),                         \
     sizeof(((struct cudaDeviceProp *)NULL)->member)},
#if GS_RT_MAJOR >= 13
#define RT_PROPERTY_13 RT_PROPERTY
#define RT_PROPERTY_12(member, attr)
#else
#define RT_PROPERTY_13(member, attr)
#define RT_PROPERTY_12 RT_PROPERTY
#endif
#include "properties.def"
#undef RT_PROPERTY
#undef RT_PROPERTY_12
#undef RT_PROPERTY_13
};

/* An attribute that this driver does not know leaves its member 0. */
static void fill_attributes(struct cudaDeviceProp *prop, CUdevice handle)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(properties); i++) {
        const struct property *property = &properties[i];
        char *member = (char *)prop + property->offset;
        int value;

        if (gs_rt_cu.cuDeviceGetAttribute_v2000(
                &value, (CUdevice_attribute)property->attribute, handle) != CUDA_SUCCESS)
            continue;
        if (property->size == sizeof(size_t))
            *(size_t *)(void *)member = (size_t)value;
        else
            *(int *)(void *)member = value;
    }
    int unified = 0;
    gs_rt_cu.cuDeviceGetAttribute_v2000(
        &unified, CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, handle);
    prop->unifiedFunctionPointers = unified;
}

static cudaError_t properties_of(struct cudaDeviceProp *prop, int device)
{
    struct cudaDeviceProp filled;
    CUdevice handle;
    CUuuid uuid;

    RT_TRY(gs_rt_device(device, &handle));
    memset(&filled, 0, sizeof(filled));
    cudaError_t error = gs_rt_error_of(
        gs_rt_cu.cuDeviceGetName_v2000(filled.name, (int)sizeof(filled.name), handle));
    if (error == cudaSuccess)
        error = gs_rt_error_of(
            gs_rt_cu.cuDeviceTotalMem_v3020(&filled.totalGlobalMem, handle));
    if (error != cudaSuccess)
        return error;
    if (gs_rt_cu.cuDeviceGetUuid_v9020(&uuid, handle) == CUDA_SUCCESS)
        memcpy(&filled.uuid, &uuid, sizeof(uuid));
    fill_attributes(&filled, handle);
    *prop = filled;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    if (!prop)
        return gs_rt_leave(cudaErrorInvalidValue);
    RT_TRY(gs_rt_enter_without_context());
    return gs_rt_leave(properties_of(prop, device));
}

/* How many of the wishes a device meets; members that are 0 are no wish. */
static int matches(const struct cudaDeviceProp *wish, const struct cudaDeviceProp *have)
{
    return (have->totalGlobalMem >= wish->totalGlobalMem) +
           (have->sharedMemPerBlock >= wish->sharedMemPerBlock) +
           (have->multiProcessorCount >= wish->multiProcessorCount) +
           (have->major > wish->major ||
            (have->major == wish->major && have->minor >= wish->minor)) +
           (!wish->name[0] || strncmp(have->name, wish->name, sizeof(have->name)) == 0);
}

cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *prop)
{
    struct cudaDeviceProp have;
    int best = -1, chosen = 0;

    if (!device || !prop)
        return gs_rt_leave(cudaErrorInvalidValue);
    RT_TRY(gs_rt_enter_without_context());
    for (int i = 0; properties_of(&have, i) == cudaSuccess; i++) {
        int score = matches(prop, &have);

        if (score > best) {
            best = score;
            chosen = i;
        }
    }
    *device = chosen;
    return cudaSuccess;
}
