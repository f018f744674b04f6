/*
 * api_array_object.c - texture and surface objects: handles that remember what they were
 * made from. No kernel here reads through one.
 * Owns:  the objects; a context keeps those made in it.   Lock: none, they are immutable.
 * Source: Driver API, "Texture Object Management", "Surface Object Management".
 */
#include <stdlib.h>

#include "array.h"
#include "context.h"
#include "device.h"

/* What an object was made from. */
struct origin {
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC sampling;   /* a texture's */
    CUDA_RESOURCE_VIEW_DESC view; /* zeros: it has none */
};

struct texture {
    struct sim_object object;
    struct sim_context *context; /* identity only */
    struct origin from;
};

static void destroy(struct sim_object *object)
{
    free((struct texture *)object);
}

/* Memory behind a pointer of a resource: all of it, live and aligned. */
static bool is_memory(CUdeviceptr pointer, size_t bytes)
{
    struct sim_alloc *alloc = sim_memory_find(pointer);
    bool fits = alloc && !sim_memory_is_hidden(alloc) &&
                bytes <= alloc->bytes - (pointer - alloc->base);

    if (alloc)
        sim_memory_unref(alloc);
    return fits && pointer % (size_t)sim_device_attribute(
                                 CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) ==
                       0;
}

static CUresult check_linear(const CUDA_RESOURCE_DESC *resource)
{
    size_t element = sim_array_element_bytes(resource->res.linear.format,
                                             resource->res.linear.numChannels);
    size_t bytes = resource->res.linear.sizeInBytes;

    return element && bytes >= element &&
                   bytes / element <=
                       (size_t)sim_device_attribute(
                           CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH) &&
                   is_memory(resource->res.linear.devPtr, bytes)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static bool is_at_most(size_t value, CUdevice_attribute attribute)
{
    return value > 0 && value <= (size_t)sim_device_attribute(attribute);
}

static CUresult check_pitched(const CUDA_RESOURCE_DESC *resource)
{
    size_t element = sim_array_element_bytes(resource->res.pitch2D.format,
                                             resource->res.pitch2D.numChannels);
    size_t width = resource->res.pitch2D.width, height = resource->res.pitch2D.height;
    size_t pitch = resource->res.pitch2D.pitchInBytes;

    if (!element ||
        !is_at_most(width, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH) ||
        !is_at_most(height, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT) ||
        !is_at_most(pitch, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH) ||
        pitch %
            (size_t)sim_device_attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT) ||
        pitch < width * element)
        return CUDA_ERROR_INVALID_VALUE;
    return is_memory(resource->res.pitch2D.devPtr, (height - 1) * pitch + width * element)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static bool is_live(const void *handle, enum sim_type type)
{
    struct sim_object *object = sim_handle_get(handle, type);

    if (object)
        sim_object_unref(object);
    return object != NULL;
}

static CUresult check_resource(const CUDA_RESOURCE_DESC *resource)
{
    if (resource->flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)resource->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        return is_live(resource->res.array.hArray, SIM_TYPE_ARRAY)
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        return is_live(resource->res.mipmap.hMipmappedArray, SIM_TYPE_MIPMAP)
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    case CU_RESOURCE_TYPE_LINEAR:
        return check_linear(resource);
    case CU_RESOURCE_TYPE_PITCH2D:
        return check_pitched(resource);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* A mipmapped array is sampled with normalized coordinates only. */
static CUresult check_sampling(const CUDA_RESOURCE_DESC *resource,
                               const CUDA_TEXTURE_DESC *sampling)
{
    for (unsigned i = 0; i < 3; i++) {
        if ((unsigned)sampling->addressMode[i] > CU_TR_ADDRESS_MODE_BORDER)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if ((unsigned)sampling->filterMode > CU_TR_FILTER_MODE_LINEAR ||
        (unsigned)sampling->mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR ||
        (resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY &&
         !(sampling->flags & CU_TRSF_NORMALIZED_COORDINATES)))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* An object of the context with a handle, or NULL without memory. The caller's reference
 * is dropped: the handle and the context keep it. */
static void *enter(struct sim_context *context, enum sim_type type,
                   const struct origin *from)
{
    struct texture *texture = malloc(sizeof(*texture));

    if (!texture)
        return NULL;
    sim_object_init(&texture->object, type, destroy);
    texture->context = context;
    texture->from = *from;
    void *handle = sim_handle_open(&texture->object);
    if (handle)
        sim_context_adopt(context, &texture->object);
    sim_object_unref(&texture->object);
    return handle;
}

static CUresult end(enum sim_api api, unsigned long long handle, enum sim_type type)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(api, &context));
    struct texture *texture =
        (struct texture *)sim_handle_close((const void *)(uintptr_t)handle, type);
    if (!texture)
        return CUDA_ERROR_INVALID_VALUE;
    sim_context_disown(texture->context, &texture->object);
    sim_object_unref(&texture->object);
    return CUDA_SUCCESS;
}

/* A copy of what an object was made from. */
static CUresult look(enum sim_api api, unsigned long long handle, enum sim_type type,
                     const void *out, struct origin *found)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(api, &context));
    struct texture *texture =
        (struct texture *)sim_handle_get((const void *)(uintptr_t)handle, type);
    if (!texture)
        return CUDA_ERROR_INVALID_VALUE;
    *found = texture->from;
    sim_object_unref(&texture->object);
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuTexObjectCreate, CUtexObject *out, const CUDA_RESOURCE_DESC *resource,
        const CUDA_TEXTURE_DESC *sampling, const CUDA_RESOURCE_VIEW_DESC *view)
{
    struct sim_context *context;
    struct origin origin;

    SIM_TRY(sim_enter_context(SIM_ID_cuTexObjectCreate, &context));
    if (!out || !resource || !sampling)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = check_resource(resource);
    if (res == CUDA_SUCCESS)
        res = check_sampling(resource, sampling);
    if (res != CUDA_SUCCESS)
        return res;
    if (view && resource->resType != CU_RESOURCE_TYPE_ARRAY &&
        resource->resType != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        return CUDA_ERROR_INVALID_VALUE;
    origin = (struct origin){.resource = *resource, .sampling = *sampling};
    if (view)
        origin.view = *view;
    void *handle = enter(context, SIM_TYPE_TEXTURE, &origin);
    if (!handle)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = (CUtexObject)(uintptr_t)handle;
    return CUDA_SUCCESS;
}

SIM_API_ONE(cuTexObjectDestroy, (CUtexObject handle), end(api, handle, SIM_TYPE_TEXTURE));

SIM_API(cuTexObjectGetResourceDesc, CUDA_RESOURCE_DESC *out, CUtexObject handle)
{
    struct origin origin;
    CUresult res =
        look(SIM_ID_cuTexObjectGetResourceDesc, handle, SIM_TYPE_TEXTURE, out, &origin);

    if (res == CUDA_SUCCESS)
        *out = origin.resource;
    return res;
}

SIM_API(cuTexObjectGetTextureDesc, CUDA_TEXTURE_DESC *out, CUtexObject handle)
{
    struct origin origin;
    CUresult res =
        look(SIM_ID_cuTexObjectGetTextureDesc, handle, SIM_TYPE_TEXTURE, out, &origin);

    if (res == CUDA_SUCCESS)
        *out = origin.sampling;
    return res;
}

SIM_API(cuTexObjectGetResourceViewDesc, CUDA_RESOURCE_VIEW_DESC *out, CUtexObject handle)
{
    struct origin origin;
    CUresult res = look(SIM_ID_cuTexObjectGetResourceViewDesc, handle, SIM_TYPE_TEXTURE,
                        out, &origin);

    if (res == CUDA_SUCCESS)
        *out = origin.view;
    return res;
}

SIM_API(cuDeviceGetTexture1DLinearMaxWidth, size_t *out, CUarray_format format,
        unsigned channels, CUdevice device)
{
    SIM_TRY(sim_enter(SIM_ID_cuDeviceGetTexture1DLinearMaxWidth));
    if (!out || sim_array_element_bytes(format, channels) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *out =
        (size_t)sim_device_attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
    return CUDA_SUCCESS;
}

/* "Resource type must be CU_RESOURCE_TYPE_ARRAY", of an array for loads and stores. */
static CUresult check_surface(const CUDA_RESOURCE_DESC *resource)
{
    if (resource->flags != 0 || resource->resType != CU_RESOURCE_TYPE_ARRAY)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_array *array = sim_array_get(resource->res.array.hArray);
    if (!array)
        return CUDA_ERROR_INVALID_VALUE;
    bool stores = array->desc.Flags & CUDA_ARRAY3D_SURFACE_LDST;
    sim_array_put(array);
    return stores ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuSurfObjectCreate, CUsurfObject *out, const CUDA_RESOURCE_DESC *resource)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuSurfObjectCreate, &context));
    if (!out || !resource)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(check_surface(resource));
    const struct origin origin = {.resource = *resource};
    void *handle = enter(context, SIM_TYPE_SURFACE, &origin);
    if (!handle)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = (CUsurfObject)(uintptr_t)handle;
    return CUDA_SUCCESS;
}

SIM_API_ONE(cuSurfObjectDestroy, (CUsurfObject handle),
            end(api, handle, SIM_TYPE_SURFACE));

SIM_API(cuSurfObjectGetResourceDesc, CUDA_RESOURCE_DESC *out, CUsurfObject handle)
{
    struct origin origin;
    CUresult res =
        look(SIM_ID_cuSurfObjectGetResourceDesc, handle, SIM_TYPE_SURFACE, out, &origin);

    if (res == CUDA_SUCCESS)
        *out = origin.resource;
    return res;
}
