/*
 * case_array_shape.c - what arrays can be made, what is told of them, mipmapped arrays,
 * texture and surface objects.
 */
#include "case_array_help.h"

#include <string.h>

#define CREATE    "cuArrayCreate"
#define CREATE_3D "cuArray3DCreate"
#define MIPMAP    "cuMipmappedArrayCreate"

CASE(array, descriptor_is_told, DRIVER_API, "cuArrayGetDescriptor",
     "a descriptor containing information on the format and dimensions of the CUDA array")
{
    const CUDA_ARRAY_DESCRIPTOR desc = {
        .Width = 33, .Height = 17, .Format = CU_AD_FORMAT_HALF, .NumChannels = 4};
    CUDA_ARRAY_DESCRIPTOR back;
    ARRAY array = NULL;

    memset(&back, 0, sizeof(back));
    if (!CHECK_OK(cuArrayCreate(&array, &desc)))
        return;
    CHECK_OK(cuArrayGetDescriptor(&back, array));
    CHECK_EQUAL(back.Width, 33);
    CHECK_EQUAL(back.Height, 17);
    CHECK_EQUAL(back.Format, CU_AD_FORMAT_HALF);
    CHECK_EQUAL(back.NumChannels, 4);
}

CASE(array, descriptor_3d_of_2d, DRIVER_API, "cuArray3DGetDescriptor",
     "may be called on 1D and 2D arrays, in which case the Height and/or Depth members "
     "will be set to 0")
{
    CUDA_ARRAY3D_DESCRIPTOR back = {.Height = 9, .Depth = 9};
    ARRAY flat = array_get(16, 8, 0, 0);
    ARRAY line = array_get(16, 0, 0, 0);

    CHECK_OK(cuArray3DGetDescriptor(&back, flat));
    CHECK_EQUAL(back.Height, 8);
    CHECK_EQUAL(back.Depth, 0);
    CHECK_OK(cuArray3DGetDescriptor(&back, line));
    CHECK_EQUAL(back.Width, 16);
    CHECK_EQUAL(back.Height, 0);
    CHECK_EQUAL(back.Depth, 0);
}

CASE(array, channels_are_1_2_or_4, DRIVER_API, CREATE,
     "NumChannels specifies the number of packed components per CUDA array element; it "
     "may "
     "be 1, 2, or 4")
{
    CUDA_ARRAY3D_DESCRIPTOR desc = array_desc(8, 8, 0, 0);

    for (unsigned channels = 0; channels < 6; channels++) {
        bool good = channels == 1 || channels == 2 || channels == 4;
        desc.NumChannels = channels;
        CHECK_CODE(array_try(&desc), good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    }
}

CASE(array, has_a_width, DRIVER_API, CREATE_3D,
     "Width must meet certain size requirements: (1, TEXTURE1D_WIDTH)")
{
    int most = device_attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH);
    CUDA_ARRAY3D_DESCRIPTOR desc = array_desc(0, 0, 0, 0);

    CHECK_INVALID(array_try(&desc));
    desc.Width = (size_t)most;
    CHECK_OK(array_try(&desc));
    desc.Width = (size_t)most + 1;
    CHECK_INVALID(array_try(&desc));
}

CASE(array, limits_in_2d, DRIVER_API, CREATE_3D,
     "2D: (1, TEXTURE2D_WIDTH), (1, TEXTURE2D_HEIGHT), 0")
{
    int width = device_attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH);
    int height = device_attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT);
    CUDA_ARRAY3D_DESCRIPTOR desc = array_desc((size_t)width + 1, 1, 0, 0);

    CHECK_INVALID(array_try(&desc));
    desc = array_desc(1, (size_t)height + 1, 0, 0);
    CHECK_INVALID(array_try(&desc));
    desc = array_desc(1, (size_t)height, 0, 0);
    CHECK_OK(array_try(&desc));
}

CASE(array, cubemaps, DRIVER_API, CREATE_3D,
     "CUDA_ARRAY3D_CUBEMAP: Width must be equal to Height, and Depth must be six")
{
    CUDA_ARRAY3D_DESCRIPTOR desc = array_desc(16, 16, 6, CUDA_ARRAY3D_CUBEMAP);

    CHECK_OK(array_try(&desc));
    desc.Height = 8;
    CHECK_INVALID(array_try(&desc));
    desc = array_desc(16, 16, 7, CUDA_ARRAY3D_CUBEMAP);
    CHECK_INVALID(array_try(&desc));
}

CASE(array, layered_cubemaps, DRIVER_API, CREATE_3D,
     "both CUBEMAP and LAYERED: Depth must be a multiple of six")
{
    const unsigned flags = CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED;
    CUDA_ARRAY3D_DESCRIPTOR desc = array_desc(16, 16, 12, flags);

    CHECK_OK(array_try(&desc));
    desc.Depth = 13;
    CHECK_INVALID(array_try(&desc));
}

CASE(
    array, layered, DRIVER_API, CREATE_3D,
    "A 1D layered CUDA array is allocated if only Height is zero and the LAYERED flag is "
    "set; a 2D layered one if all three extents are non-zero")
{
    CUDA_ARRAY3D_DESCRIPTOR desc = array_desc(16, 0, 5, CUDA_ARRAY3D_LAYERED);

    CHECK_OK(array_try(&desc));
    desc = array_desc(16, 4, 5, CUDA_ARRAY3D_LAYERED);
    CHECK_OK(array_try(&desc));
}

CASE(array, destroyed_once, DRIVER_API, "cuArrayDestroy",
     "Destroys the CUDA array hArray")
{
    CHECK_CODE(cuArrayDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
    array_put(array_get(16, 16, 0, 0));
}

CASE(array, plane_of_a_plain_one, DRIVER_API, "cuArrayGetPlane",
     "if the array does not have a multi-planar format then CUDA_ERROR_INVALID_VALUE is "
     "returned")
{
    CUresult (*get_plane)(CUarray *, CUarray, unsigned);
    CUarray plane = NULL;

    *(void **)&get_plane = driver_function("cuArrayGetPlane");
    if (!get_plane) {
        skip("the driver has no cuArrayGetPlane");
        return;
    }
    ARRAY array = array_get(16, 16, 0, 0);
    CHECK_INVALID(get_plane(&plane, array, 0));
}

CASE(array, sparse_properties_of_a_plain_one, DRIVER_API, "cuArrayGetSparseProperties",
     "If the CUDA array is not allocated with flag CUDA_ARRAY3D_SPARSE "
     "CUDA_ERROR_INVALID_VALUE will be returned")
{
    CUDA_ARRAY_SPARSE_PROPERTIES properties;
    ARRAY array = array_get(256, 256, 0, 0);

    CHECK_INVALID(cuArrayGetSparseProperties(&properties, array));
}

CASE(array, memory_requirements_of_a_plain_one, DRIVER_API,
     "cuArrayGetMemoryRequirements",
     "If the CUDA array is not allocated with flag CUDA_ARRAY3D_DEFERRED_MAPPING "
     "CUDA_ERROR_INVALID_VALUE will be returned")
{
    CUresult (*get)(void *, CUarray, CUdevice);
    uint64_t room[8];

    *(void **)&get = driver_function("cuArrayGetMemoryRequirements");
    if (!get) {
        skip("the driver has no cuArrayGetMemoryRequirements");
        return;
    }
    ARRAY array = array_get(256, 256, 0, 0);
    CHECK_INVALID(get(room, array, the_device()));
}

CASE(array, mipmap_levels_halve, DRIVER_API, "cuMipmappedArrayGetLevel",
     "a CUDA array that represents a single mipmap level of the CUDA mipmapped array")
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = array_desc(64, 16, 0, 0);
    CUDA_ARRAY3D_DESCRIPTOR back;
    CUmipmappedArray mipmap = NULL;
    CUarray level = NULL;

    memset(&back, 0, sizeof(back));
    if (!CHECK_OK(cuMipmappedArrayCreate(&mipmap, &desc, 4)))
        return;
    CHECK_OK(cuMipmappedArrayGetLevel(&level, mipmap, 0));
    CHECK_OK(cuArray3DGetDescriptor(&back, level));
    CHECK(back.Width == 64 && back.Height == 16);
    CHECK_OK(cuMipmappedArrayGetLevel(&level, mipmap, 3));
    CHECK_OK(cuArray3DGetDescriptor(&back, level));
    CHECK(back.Width == 8 && back.Height == 2);
    CHECK_OK(cuMipmappedArrayDestroy(mipmap));
}

CASE(array, mipmap_levels_end, DRIVER_API, "cuMipmappedArrayGetLevel",
     "If level is greater than the maximum number of levels in this mipmapped array, "
     "CUDA_ERROR_INVALID_VALUE is returned")
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = array_desc(64, 16, 0, 0);
    CUmipmappedArray mipmap = NULL;
    CUarray level = NULL;

    if (!CHECK_OK(cuMipmappedArrayCreate(&mipmap, &desc, 2)))
        return;
    CHECK_OK(cuMipmappedArrayGetLevel(&level, mipmap, 1));
    CHECK_INVALID(cuMipmappedArrayGetLevel(&level, mipmap, 3));
    CHECK_OK(cuMipmappedArrayDestroy(mipmap));
}

CASE(array, mipmap_levels_are_clamped, DRIVER_API, MIPMAP,
     "This value is clamped to the range [1, 1 + floor(log2(max(width, height, depth)))]")
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = array_desc(64, 16, 0, 0);
    CUmipmappedArray mipmap = NULL;
    CUarray level = NULL;

    if (!CHECK_OK(cuMipmappedArrayCreate(&mipmap, &desc, 100)))
        return;
    CHECK_OK(cuMipmappedArrayGetLevel(&level, mipmap, 6));
    CHECK_INVALID(cuMipmappedArrayGetLevel(&level, mipmap, 8));
    CHECK_OK(cuMipmappedArrayDestroy(mipmap));
}

/* ---- texture and surface objects ----------------------------------------------------
 */

static CUDA_RESOURCE_DESC resource_of(CUarray array)
{
    CUDA_RESOURCE_DESC resource;

    memset(&resource, 0, sizeof(resource));
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    return resource;
}

CASE(array, texture_tells_its_resource, DRIVER_API, "cuTexObjectGetResourceDesc",
     "Returns the resource descriptor for the texture object")
{
    CUDA_TEXTURE_DESC sampling;
    CUDA_RESOURCE_DESC resource, back;
    CUtexObject texture = 0;
    ARRAY array = array_get(16, 16, 0, 0);

    memset(&sampling, 0, sizeof(sampling));
    sampling.flags = CU_TRSF_READ_AS_INTEGER;
    memset(&back, 0, sizeof(back));
    resource = resource_of(array);
    if (CHECK_OK(cuTexObjectCreate(&texture, &resource, &sampling, NULL))) {
        CHECK_OK(cuTexObjectGetResourceDesc(&back, texture));
        CHECK_EQUAL(back.resType, CU_RESOURCE_TYPE_ARRAY);
        CHECK(back.res.array.hArray == array);
        CHECK_OK(cuTexObjectDestroy(texture));
    }
}

CASE(array, texture_without_a_view, GPUS, "cuTexObjectGetResourceViewDesc",
     "Of a texture without a view: success; CUDA_ERROR_INVALID_VALUE is "
     "documented" ON_H200)
{
    CUDA_TEXTURE_DESC sampling;
    CUDA_RESOURCE_VIEW_DESC view;
    CUDA_RESOURCE_DESC resource;
    CUtexObject texture = 0;
    ARRAY array = array_get(16, 16, 0, 0);

    memset(&sampling, 0, sizeof(sampling));
    sampling.flags = CU_TRSF_READ_AS_INTEGER;
    resource = resource_of(array);
    if (CHECK_OK(cuTexObjectCreate(&texture, &resource, &sampling, NULL))) {
        CHECK_OK(cuTexObjectGetResourceViewDesc(&view, texture));
        CHECK_OK(cuTexObjectDestroy(texture));
    }
}

CASE(array, surface_is_of_an_array, DRIVER_API, "cuSurfObjectCreate",
     "CUDA_RESOURCE_DESC::resType must be CU_RESOURCE_TYPE_ARRAY")
{
    CUDA_RESOURCE_DESC resource, back;
    CUsurfObject surface = 0;
    ARRAY array = array_get(16, 16, 0, CUDA_ARRAY3D_SURFACE_LDST);
    CUdeviceptr memory = 0;

    memset(&back, 0, sizeof(back));
    resource = resource_of(array);
    if (CHECK_OK(cuSurfObjectCreate(&surface, &resource))) {
        CHECK_OK(cuSurfObjectGetResourceDesc(&back, surface));
        CHECK(back.res.array.hArray == array);
        CHECK_OK(cuSurfObjectDestroy(surface));
    }
    CHECK_OK(cuMemAlloc(&memory, 4096));
    memset(&resource, 0, sizeof(resource));
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = memory;
    resource.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = 4096;
    CHECK_INVALID(cuSurfObjectCreate(&surface, &resource));
    CHECK_OK(cuMemFree(memory));
}
