/*
 * array.c - CUDA arrays: made, described and freed through the driver's arrays. The
 * runtime describes an element by the bits of its channels, the driver by a format and a
 * number of channels.
 * Owns:  nothing.   Lock: none.
 * Source: CUDA Runtime API, "Memory Management".
 */
#include "rt.h"

#include <string.h>

/* The driver's normalized formats follow each other as the runtime's kinds do. */
#define FIRST_NORMALIZED_KIND   cudaChannelFormatKindUnsignedNormalized8X1
#define LAST_NORMALIZED_KIND    cudaChannelFormatKindSignedNormalized16X4
#define FIRST_NORMALIZED_FORMAT 0xc0u
#define LAST_NORMALIZED_FORMAT  0xcbu

/* Channels that a description has, all of the same bits; 0 for what is none. */
static unsigned count_channels(const struct cudaChannelFormatDesc *desc)
{
    const int bits[4] = {desc->x, desc->y, desc->z, desc->w};
    unsigned count = 0;

    while (count < 4 && bits[count] != 0)
        count++;
    for (unsigned i = 0; i < 4; i++) {
        if (bits[i] != (i < count ? bits[0] : 0))
            return 0;
    }
    return count;
}

/* 0: there is no such format. */
static unsigned plain_format(enum cudaChannelFormatKind kind, int bits)
{
    switch (kind) {
    case cudaChannelFormatKindUnsigned:
        return bits == 8    ? CU_AD_FORMAT_UNSIGNED_INT8
               : bits == 16 ? CU_AD_FORMAT_UNSIGNED_INT16
               : bits == 32 ? CU_AD_FORMAT_UNSIGNED_INT32
                            : 0;
    case cudaChannelFormatKindSigned:
        return bits == 8    ? CU_AD_FORMAT_SIGNED_INT8
               : bits == 16 ? CU_AD_FORMAT_SIGNED_INT16
               : bits == 32 ? CU_AD_FORMAT_SIGNED_INT32
                            : 0;
    case cudaChannelFormatKindFloat:
        return bits == 16 ? CU_AD_FORMAT_HALF : bits == 32 ? CU_AD_FORMAT_FLOAT : 0;
    default:
        return 0;
    }
}

cudaError_t gs_rt_format(const struct cudaChannelFormatDesc *desc, CUarray_format *format,
                         unsigned *channels)
{
    unsigned count = count_channels(desc);
    unsigned found = plain_format(desc->f, desc->x);

    if (desc->f >= FIRST_NORMALIZED_KIND && desc->f <= LAST_NORMALIZED_KIND)
        found = FIRST_NORMALIZED_FORMAT + (unsigned)desc->f - FIRST_NORMALIZED_KIND;
    if (!found || (count != 1 && count != 2 && count != 4))
        return cudaErrorInvalidChannelDescriptor;
    *format = (CUarray_format)found;
    *channels = count;
    return cudaSuccess;
}

/* Kind and bits of a channel. */
static int describe_channel(CUarray_format format, enum cudaChannelFormatKind *kind)
{
    unsigned number = (unsigned)format;

    if (number >= FIRST_NORMALIZED_FORMAT && number <= LAST_NORMALIZED_FORMAT) {
        *kind = (enum cudaChannelFormatKind)(FIRST_NORMALIZED_KIND + number -
                                             FIRST_NORMALIZED_FORMAT);
        return (number - FIRST_NORMALIZED_FORMAT) % 6 < 3 ? 8 : 16;
    }
    *kind = number == CU_AD_FORMAT_HALF || number == CU_AD_FORMAT_FLOAT
                ? cudaChannelFormatKindFloat
            : number >= CU_AD_FORMAT_SIGNED_INT8 ? cudaChannelFormatKindSigned
                                                 : cudaChannelFormatKindUnsigned;
    switch (number) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 8;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 16;
    default:
        return 32;
    }
}

void gs_rt_channels(CUarray_format format, unsigned channels,
                    struct cudaChannelFormatDesc *desc)
{
    enum cudaChannelFormatKind kind;
    int bits = describe_channel(format, &kind);

    desc->x = bits;
    desc->y = channels > 1 ? bits : 0;
    desc->z = channels > 2 ? bits : 0;
    desc->w = channels > 3 ? bits : 0;
    desc->f = kind;
}

cudaError_t gs_rt_describe_array(cudaArray_const_t array, CUDA_ARRAY3D_DESCRIPTOR *desc,
                                 size_t *element_bytes)
{
    enum cudaChannelFormatKind kind;
    CUresult result = gs_rt_cu.cuArray3DGetDescriptor_v3020(desc, (CUarray)array);

    if (result != CUDA_SUCCESS)
        return gs_rt_error_of(result);
    if (element_bytes)
        *element_bytes =
            (size_t)describe_channel(desc->Format, &kind) / 8 * desc->NumChannels;
    return cudaSuccess;
}

cudaError_t gs_rt_array_desc(const struct cudaChannelFormatDesc *channels,
                             struct cudaExtent extent, unsigned flags,
                             CUDA_ARRAY3D_DESCRIPTOR *out)
{
    memset(out, 0, sizeof(*out));
    out->Width = extent.width;
    out->Height = extent.height;
    out->Depth = extent.depth;
    out->Flags = flags;
    return gs_rt_format(channels, &out->Format, &out->NumChannels);
}

static cudaError_t make_array(cudaArray_t *array,
                              const struct cudaChannelFormatDesc *desc,
                              struct cudaExtent extent, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR wanted;
    CUarray made = NULL;

    RT_TRY(gs_rt_enter());
    if (!array || !desc)
        return gs_rt_leave(cudaErrorInvalidValue);
    RT_TRY(gs_rt_leave(gs_rt_array_desc(desc, extent, flags, &wanted)));
    cudaError_t error = gs_rt_leave_cu(gs_rt_cu.cuArray3DCreate_v3020(&made, &wanted));
    if (error == cudaSuccess)
        *array = (cudaArray_t)made;
    return error;
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                            size_t width, size_t height, unsigned int flags)
{
    const struct cudaExtent extent = {width, height, 0};

    return make_array(array, desc, extent, flags);
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array,
                              const struct cudaChannelFormatDesc *desc,
                              struct cudaExtent extent, unsigned int flags)
{
    return make_array(array, desc, extent, flags);
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmappedArray,
                                     const struct cudaChannelFormatDesc *desc,
                                     struct cudaExtent extent, unsigned int numLevels,
                                     unsigned int flags)
{
    CUDA_ARRAY3D_DESCRIPTOR wanted;
    CUmipmappedArray made = NULL;

    RT_TRY(gs_rt_enter());
    if (!mipmappedArray || !desc)
        return gs_rt_leave(cudaErrorInvalidValue);
    cudaError_t error = gs_rt_array_desc(desc, extent, flags, &wanted);
    if (error != cudaSuccess)
        return gs_rt_leave(error);
    error =
        gs_rt_leave_cu(gs_rt_cu.cuMipmappedArrayCreate_v5000(&made, &wanted, numLevels));
    if (error == cudaSuccess)
        *mipmappedArray = (cudaMipmappedArray_t)made;
    return error;
}

/* "If devPtr is NULL no operation is performed", for arrays as for cudaFree. */
cudaError_t cudaFreeArray(cudaArray_t array)
{
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess || !array)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuArrayDestroy_v2000((CUarray)array));
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray)
{
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess || !mipmappedArray)
        return error;
    return gs_rt_leave_cu(
        gs_rt_cu.cuMipmappedArrayDestroy_v5000((CUmipmappedArray)mipmappedArray));
}

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *desc,
                             struct cudaExtent *extent, unsigned int *flags,
                             cudaArray_t array)
{
    CUDA_ARRAY3D_DESCRIPTOR known;

    RT_TRY(gs_rt_enter());
    RT_TRY(gs_rt_leave(gs_rt_describe_array(array, &known, NULL)));
    if (desc)
        gs_rt_channels(known.Format, known.NumChannels, desc);
    if (extent)
        *extent = (struct cudaExtent){known.Width, known.Height, known.Depth};
    if (flags)
        *flags = known.Flags;
    return cudaSuccess;
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *desc,
                               cudaArray_const_t array)
{
    if (!desc)
        return gs_rt_leave(cudaErrorInvalidValue);
    return cudaArrayGetInfo(desc, NULL, NULL, (cudaArray_t)array);
}

/* Members of the two structures follow each other alike. */
_Static_assert(sizeof(struct cudaArrayMemoryRequirements) ==
                   sizeof(CUDA_ARRAY_MEMORY_REQUIREMENTS),
               "memory requirements differ");
_Static_assert(sizeof(struct cudaArraySparseProperties) ==
                   sizeof(CUDA_ARRAY_SPARSE_PROPERTIES),
               "sparse properties differ");

cudaError_t
cudaArrayGetMemoryRequirements(struct cudaArrayMemoryRequirements *memoryRequirements,
                               cudaArray_t array, int device)
{
    CUdevice handle;
    cudaError_t error = gs_rt_enter();

    if (error == cudaSuccess)
        error = gs_rt_leave(gs_rt_device(device, &handle));
    if (error != cudaSuccess)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuArrayGetMemoryRequirements_v11060(
        (CUDA_ARRAY_MEMORY_REQUIREMENTS *)memoryRequirements, (CUarray)array, handle));
}

cudaError_t cudaMipmappedArrayGetMemoryRequirements(
    struct cudaArrayMemoryRequirements *memoryRequirements, cudaMipmappedArray_t mipmap,
    int device)
{
    CUdevice handle;
    cudaError_t error = gs_rt_enter();

    if (error == cudaSuccess)
        error = gs_rt_leave(gs_rt_device(device, &handle));
    if (error != cudaSuccess)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuMipmappedArrayGetMemoryRequirements_v11060(
        (CUDA_ARRAY_MEMORY_REQUIREMENTS *)memoryRequirements, (CUmipmappedArray)mipmap,
        handle));
}

cudaError_t
cudaMipmappedArrayGetSparseProperties(struct cudaArraySparseProperties *properties,
                                      cudaMipmappedArray_t mipmap)
{
    return RT_FORWARD(cuMipmappedArrayGetSparseProperties_v11010,
                      (CUDA_ARRAY_SPARSE_PROPERTIES *)properties,
                      (CUmipmappedArray)mipmap);
}
