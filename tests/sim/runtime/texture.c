/*
 * texture.c - texture and surface objects: the runtime's descriptions in the driver's
 * terms and back.
 * Owns:  nothing; the driver keeps what an object was made from.   Lock: none.
 * Source: CUDA Runtime API, "Texture Object Management", "Surface Object Management".
 */
#include "rt.h"

#include <string.h>

/* ---- resources ----------------------------------------------------------------------
 */

static cudaError_t resource_to_driver(const struct cudaResourceDesc *from,
                                      CUDA_RESOURCE_DESC *to)
{
    memset(to, 0, sizeof(*to));
    switch (from->resType) {
    case cudaResourceTypeArray:
        to->resType = CU_RESOURCE_TYPE_ARRAY;
        to->res.array.hArray = (CUarray)from->res.array.array;
        return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
        to->resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
        to->res.mipmap.hMipmappedArray = (CUmipmappedArray)from->res.mipmap.mipmap;
        return cudaSuccess;
    case cudaResourceTypeLinear:
        to->resType = CU_RESOURCE_TYPE_LINEAR;
        to->res.linear.devPtr = gs_rt_address(from->res.linear.devPtr);
        to->res.linear.sizeInBytes = from->res.linear.sizeInBytes;
        return gs_rt_format(&from->res.linear.desc, &to->res.linear.format,
                            &to->res.linear.numChannels);
    case cudaResourceTypePitch2D:
        to->resType = CU_RESOURCE_TYPE_PITCH2D;
        to->res.pitch2D.devPtr = gs_rt_address(from->res.pitch2D.devPtr);
        to->res.pitch2D.width = from->res.pitch2D.width;
        to->res.pitch2D.height = from->res.pitch2D.height;
        to->res.pitch2D.pitchInBytes = from->res.pitch2D.pitchInBytes;
        return gs_rt_format(&from->res.pitch2D.desc, &to->res.pitch2D.format,
                            &to->res.pitch2D.numChannels);
    default:
        return cudaErrorInvalidValue;
    }
}

static void resource_from_driver(const CUDA_RESOURCE_DESC *from,
                                 struct cudaResourceDesc *to)
{
    memset(to, 0, sizeof(*to));
    to->resType = (enum cudaResourceType)from->resType;
    switch ((int)from->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        to->res.array.array = (cudaArray_t)from->res.array.hArray;
        break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        to->res.mipmap.mipmap = (cudaMipmappedArray_t)from->res.mipmap.hMipmappedArray;
        break;
    case CU_RESOURCE_TYPE_LINEAR:
        to->res.linear.devPtr = (void *)(uintptr_t)from->res.linear.devPtr;
        to->res.linear.sizeInBytes = from->res.linear.sizeInBytes;
        gs_rt_channels(from->res.linear.format, from->res.linear.numChannels,
                       &to->res.linear.desc);
        break;
    default:
        to->res.pitch2D.devPtr = (void *)(uintptr_t)from->res.pitch2D.devPtr;
        to->res.pitch2D.width = from->res.pitch2D.width;
        to->res.pitch2D.height = from->res.pitch2D.height;
        to->res.pitch2D.pitchInBytes = from->res.pitch2D.pitchInBytes;
        gs_rt_channels(from->res.pitch2D.format, from->res.pitch2D.numChannels,
                       &to->res.pitch2D.desc);
    }
}

/* ---- sampling -----------------------------------------------------------------------
 */

/* A flag of the driver and whether the runtime's description asks for it. */
struct flag {
    unsigned bit;
    bool on;
};

static void sampling_to_driver(const struct cudaTextureDesc *from, CUDA_TEXTURE_DESC *to)
{
    const struct flag flags[] = {
        {CU_TRSF_READ_AS_INTEGER, from->readMode == cudaReadModeElementType},
        {CU_TRSF_NORMALIZED_COORDINATES, from->normalizedCoords != 0},
        {CU_TRSF_SRGB, from->sRGB != 0},
        {CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION, from->disableTrilinearOptimization != 0},
        {CU_TRSF_SEAMLESS_CUBEMAP, from->seamlessCubemap != 0},
    };

    memset(to, 0, sizeof(*to));
    for (unsigned i = 0; i < GS_ARRAY_LEN(flags); i++)
        to->flags |= flags[i].on ? flags[i].bit : 0;
    for (unsigned i = 0; i < 3; i++)
        to->addressMode[i] = (CUaddress_mode)from->addressMode[i];
    for (unsigned i = 0; i < 4; i++)
        to->borderColor[i] = from->borderColor[i];
    to->filterMode = (CUfilter_mode)from->filterMode;
    to->maxAnisotropy = from->maxAnisotropy;
    to->mipmapFilterMode = (CUfilter_mode)from->mipmapFilterMode;
    to->mipmapLevelBias = from->mipmapLevelBias;
    to->minMipmapLevelClamp = from->minMipmapLevelClamp;
    to->maxMipmapLevelClamp = from->maxMipmapLevelClamp;
}

static void sampling_from_driver(const CUDA_TEXTURE_DESC *from,
                                 struct cudaTextureDesc *to)
{
    memset(to, 0, sizeof(*to));
    for (unsigned i = 0; i < 3; i++)
        to->addressMode[i] = (enum cudaTextureAddressMode)from->addressMode[i];
    for (unsigned i = 0; i < 4; i++)
        to->borderColor[i] = from->borderColor[i];
    to->filterMode = (enum cudaTextureFilterMode)from->filterMode;
    to->readMode = from->flags & CU_TRSF_READ_AS_INTEGER ? cudaReadModeElementType
                                                         : cudaReadModeNormalizedFloat;
    to->sRGB = (from->flags & CU_TRSF_SRGB) != 0;
    to->normalizedCoords = (from->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
    to->disableTrilinearOptimization =
        (from->flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0;
    to->seamlessCubemap = (from->flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0;
    to->maxAnisotropy = from->maxAnisotropy;
    to->mipmapFilterMode = (enum cudaTextureFilterMode)from->mipmapFilterMode;
    to->mipmapLevelBias = from->mipmapLevelBias;
    to->minMipmapLevelClamp = from->minMipmapLevelClamp;
    to->maxMipmapLevelClamp = from->maxMipmapLevelClamp;
}

/* The formats of a view have the same numbers on both sides. */
static void view_to_driver(const struct cudaResourceViewDesc *from,
                           CUDA_RESOURCE_VIEW_DESC *to)
{
    memset(to, 0, sizeof(*to));
    to->format = (CUresourceViewFormat)from->format;
    to->width = from->width;
    to->height = from->height;
    to->depth = from->depth;
    to->firstMipmapLevel = from->firstMipmapLevel;
    to->lastMipmapLevel = from->lastMipmapLevel;
    to->firstLayer = from->firstLayer;
    to->lastLayer = from->lastLayer;
}

static void view_from_driver(const CUDA_RESOURCE_VIEW_DESC *from,
                             struct cudaResourceViewDesc *to)
{
    memset(to, 0, sizeof(*to));
    to->format = (enum cudaResourceViewFormat)from->format;
    to->width = from->width;
    to->height = from->height;
    to->depth = from->depth;
    to->firstMipmapLevel = from->firstMipmapLevel;
    to->lastMipmapLevel = from->lastMipmapLevel;
    to->firstLayer = from->firstLayer;
    to->lastLayer = from->lastLayer;
}

/* ---- texture objects ----------------------------------------------------------------
 */

cudaError_t cudaCreateTextureObject(cudaTextureObject_t *pTexObject,
                                    const struct cudaResourceDesc *pResDesc,
                                    const struct cudaTextureDesc *pTexDesc,
                                    const struct cudaResourceViewDesc *pResViewDesc)
{
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC sampling;
    CUDA_RESOURCE_VIEW_DESC view;
    CUtexObject made = 0;

    RT_TRY(gs_rt_enter());
    if (!pTexObject || !pResDesc || !pTexDesc)
        return gs_rt_leave(cudaErrorInvalidValue);
    RT_TRY(gs_rt_leave(resource_to_driver(pResDesc, &resource)));
    sampling_to_driver(pTexDesc, &sampling);
    if (pResViewDesc)
        view_to_driver(pResViewDesc, &view);
    cudaError_t error = gs_rt_leave_cu(gs_rt_cu.cuTexObjectCreate_v5000(
        &made, &resource, &sampling, pResViewDesc ? &view : NULL));
    if (error == cudaSuccess)
        *pTexObject = made;
    return error;
}

cudaError_t cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *pResDesc,
                                             cudaTextureObject_t texObject)
{
    CUDA_RESOURCE_DESC resource;

    if (!pResDesc)
        return gs_rt_leave(cudaErrorInvalidValue);
    cudaError_t error =
        RT_FORWARD(cuTexObjectGetResourceDesc_v5000, &resource, texObject);
    if (error == cudaSuccess)
        resource_from_driver(&resource, pResDesc);
    return error;
}

cudaError_t cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *pTexDesc,
                                            cudaTextureObject_t texObject)
{
    CUDA_TEXTURE_DESC sampling;

    if (!pTexDesc)
        return gs_rt_leave(cudaErrorInvalidValue);
    cudaError_t error = RT_FORWARD(cuTexObjectGetTextureDesc_v5000, &sampling, texObject);
    if (error == cudaSuccess)
        sampling_from_driver(&sampling, pTexDesc);
    return error;
}

cudaError_t
cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc *pResViewDesc,
                                     cudaTextureObject_t texObject)
{
    CUDA_RESOURCE_VIEW_DESC view;

    if (!pResViewDesc)
        return gs_rt_leave(cudaErrorInvalidValue);
    cudaError_t error =
        RT_FORWARD(cuTexObjectGetResourceViewDesc_v5000, &view, texObject);
    if (error == cudaSuccess)
        view_from_driver(&view, pResViewDesc);
    return error;
}

cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(
    size_t *maxWidthInElements, const struct cudaChannelFormatDesc *fmtDesc, int device)
{
    CUarray_format format;
    unsigned channels;
    CUdevice handle;

    RT_TRY(gs_rt_enter_without_context());
    if (!maxWidthInElements || !fmtDesc)
        return gs_rt_leave(cudaErrorInvalidValue);
    cudaError_t error = gs_rt_device(device, &handle);
    if (error == cudaSuccess)
        error = gs_rt_format(fmtDesc, &format, &channels);
    if (error != cudaSuccess)
        return gs_rt_leave(error);
    return gs_rt_leave_cu(gs_rt_cu.cuDeviceGetTexture1DLinearMaxWidth_v11010(
        maxWidthInElements, format, channels, handle));
}

/* ---- surface objects ----------------------------------------------------------------
 */

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *pSurfObject,
                                    const struct cudaResourceDesc *pResDesc)
{
    CUDA_RESOURCE_DESC resource;
    CUsurfObject made = 0;

    RT_TRY(gs_rt_enter());
    if (!pSurfObject || !pResDesc)
        return gs_rt_leave(cudaErrorInvalidValue);
    RT_TRY(gs_rt_leave(resource_to_driver(pResDesc, &resource)));
    cudaError_t error =
        gs_rt_leave_cu(gs_rt_cu.cuSurfObjectCreate_v5000(&made, &resource));
    if (error == cudaSuccess)
        *pSurfObject = made;
    return error;
}

cudaError_t cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *pResDesc,
                                             cudaSurfaceObject_t surfObject)
{
    CUDA_RESOURCE_DESC resource;

    if (!pResDesc)
        return gs_rt_leave(cudaErrorInvalidValue);
    cudaError_t error =
        RT_FORWARD(cuSurfObjectGetResourceDesc_v5000, &resource, surfObject);
    if (error == cudaSuccess)
        resource_from_driver(&resource, pResDesc);
    return error;
}
