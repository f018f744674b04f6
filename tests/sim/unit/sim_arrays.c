/*
 * sim_arrays.c - proves arrays and mipmapped arrays: their shapes and limits, that they
 * count against the device and go with their context, and texture and surface objects.
 */
#include "sim_helpers.h"

#include <string.h>

#define UNIT (2 * GS_MIB)

static CUDA_ARRAY3D_DESCRIPTOR shape(size_t width, size_t height, size_t depth)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = width,
                                     .Height = height,
                                     .Depth = depth,
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1};
}

static CUresult make(CUDA_ARRAY3D_DESCRIPTOR desc, unsigned flags)
{
    CUarray array;

    desc.Flags = flags;
    CUresult res = cuArray3DCreate(&array, &desc);
    if (res == CUDA_SUCCESS)
        ok(cuArrayDestroy(array));
    return res;
}

Test(sim_arrays, tell_what_they_were_made_as)
{
    const CUDA_ARRAY_DESCRIPTOR flat = {
        .Width = 7, .Height = 5, .Format = CU_AD_FORMAT_HALF, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR full;
    CUDA_ARRAY_DESCRIPTOR back;
    CUarray array;

    sim_test_start("1", "64M");
    ok(cuArrayCreate(&array, &flat));
    ok(cuArrayGetDescriptor(&back, array));
    cr_assert_eq(memcmp(&back, &flat, sizeof(back)), 0);
    ok(cuArray3DGetDescriptor(&full, array));
    cr_assert_eq(full.Width, 7);
    cr_assert_eq(full.Height, 5);
    cr_assert_eq(full.Depth, 0);
    cr_assert_eq(full.Flags, 0);
    fails(cuArrayGetDescriptor(NULL, array), CUDA_ERROR_INVALID_VALUE);
    ok(cuArrayDestroy(array));
    fails(cuArrayGetDescriptor(&back, array), CUDA_ERROR_INVALID_HANDLE);
    fails(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
    fails(cuArrayDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
}

Test(sim_arrays, have_documented_shapes)
{
    sim_test_start("1", "64M");
    ok(make(shape(8, 0, 0), 0));
    ok(make(shape(8, 8, 0), CUDA_ARRAY3D_TEXTURE_GATHER));
    ok(make(shape(8, 4, 3), CUDA_ARRAY3D_SURFACE_LDST));
    ok(make(shape(8, 0, 3), CUDA_ARRAY3D_LAYERED));
    ok(make(shape(8, 4, 3), CUDA_ARRAY3D_LAYERED));
    ok(make(shape(8, 8, 6), CUDA_ARRAY3D_CUBEMAP));
    ok(make(shape(8, 8, 12), CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED));
    fails(make(shape(0, 8, 0), 0), CUDA_ERROR_INVALID_VALUE);
    fails(make(shape(8, 0, 3), 0), CUDA_ERROR_INVALID_VALUE);
    fails(make(shape(8, 8, 0), CUDA_ARRAY3D_LAYERED), CUDA_ERROR_INVALID_VALUE);
    fails(make(shape(8, 4, 6), CUDA_ARRAY3D_CUBEMAP), CUDA_ERROR_INVALID_VALUE);
    fails(make(shape(8, 8, 7), CUDA_ARRAY3D_CUBEMAP), CUDA_ERROR_INVALID_VALUE);
    fails(make(shape(8, 8, 12), CUDA_ARRAY3D_CUBEMAP), CUDA_ERROR_INVALID_VALUE);
    fails(make(shape(8, 8, 8), CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED),
          CUDA_ERROR_INVALID_VALUE);
    fails(make(shape(8, 4, 3), CUDA_ARRAY3D_TEXTURE_GATHER), CUDA_ERROR_INVALID_VALUE);
    fails(make(shape(8, 8, 0), 0x8000), CUDA_ERROR_INVALID_VALUE);
    fails(make(shape(8, 8, 0), CUDA_ARRAY3D_SPARSE), CUDA_ERROR_NOT_SUPPORTED);
}

Test(sim_arrays, have_the_limits_of_the_attributes)
{
    int width = 0, height = 0;

    sim_test_start("1", "4M");
    ok(cuDeviceGetAttribute(&width, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 0));
    ok(cuDeviceGetAttribute(&height, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 0));
    ok(make(shape((size_t)width, 1, 0), 0));
    fails(make(shape((size_t)width + 1, 1, 0), 0), CUDA_ERROR_INVALID_VALUE);
    ok(make(shape(1, (size_t)height, 0), 0));
    fails(make(shape(1, (size_t)height + 1, 0), 0), CUDA_ERROR_INVALID_VALUE);
    fails(make(shape((size_t)width, (size_t)height, 0), 0), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuDeviceGetAttribute(&width, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, 0));
    ok(make(shape((size_t)width, 0, 0), CUDA_ARRAY3D_SURFACE_LDST));
    fails(make(shape((size_t)width + 1, 0, 0), CUDA_ARRAY3D_SURFACE_LDST),
          CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(sim_test_free_bytes(), 4 * GS_MIB);
}

Test(sim_arrays, have_documented_formats)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = shape(4, 4, 0);

    sim_test_start("1", "64M");
    for (unsigned channels = 0; channels < 6; channels++) {
        desc.NumChannels = channels;
        fails(make(desc, 0), channels == 1 || channels == 2 || channels == 4
                                 ? CUDA_SUCCESS
                                 : CUDA_ERROR_INVALID_VALUE);
    }
    desc.NumChannels = 2;
    desc.Format = (CUarray_format)0xc1; /* two channels of 8 bits, normalized */
    ok(make(desc, 0));
    desc.NumChannels = 4;
    fails(make(desc, 0), CUDA_ERROR_INVALID_VALUE);
    desc.Format = (CUarray_format)0xb0; /* NV12 */
    desc.NumChannels = 1;
    fails(make(desc, 0), CUDA_ERROR_NOT_SUPPORTED);
    desc.Format = (CUarray_format)0x77;
    fails(make(desc, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuArray3DCreate(NULL, &desc), CUDA_ERROR_INVALID_VALUE);
    CUarray array;
    fails(cuArray3DCreate(&array, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuArrayCreate(&array, NULL), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_arrays, count_against_the_device_and_go_with_the_context)
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = shape(1024, 1024, 0);
    CUcontext first = sim_test_start("1", "16M"), own;
    CUmipmappedArray mipmap;
    CUarray array, level;

    ok(cuCtxCreate_v2(&own, 0, 0));
    ok(cuArray3DCreate(&array, &desc));
    cr_assert_eq(sim_test_free_bytes(), 12 * GS_MIB);
    ok(cuMipmappedArrayCreate(&mipmap, &desc, 2));
    cr_assert_eq(sim_test_free_bytes(), 6 * GS_MIB); /* 4 and 1 MiB, in units */
    ok(cuMipmappedArrayGetLevel(&level, mipmap, 1));
    ok(cuCtxDestroy(own));
    ok(cuCtxSetCurrent(first));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
    fails(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
    fails(cuMipmappedArrayDestroy(mipmap), CUDA_ERROR_INVALID_HANDLE);
    CUDA_ARRAY_DESCRIPTOR back;
    fails(cuArrayGetDescriptor(&back, level), CUDA_ERROR_INVALID_HANDLE);
    ok(cuArray3DCreate(&array, &desc));
    ok(cuArrayDestroy(array));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
}

Test(sim_arrays, mipmapped_ones_have_levels)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = shape(64, 16, 0), back;
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
    CUDA_ARRAY_SPARSE_PROPERTIES sparse;
    CUmipmappedArray mipmap;
    CUarray level, again;

    sim_test_start("1", "64M");
    ok(cuMipmappedArrayCreate(&mipmap, &desc, 100)); /* clamped to 7 */
    ok(cuMipmappedArrayGetLevel(&level, mipmap, 2));
    ok(cuArray3DGetDescriptor(&back, level));
    cr_assert_eq(back.Width, 16);
    cr_assert_eq(back.Height, 4);
    ok(cuMipmappedArrayGetLevel(&again, mipmap, 2));
    cr_assert_eq(again, level);
    ok(cuMipmappedArrayGetLevel(&level, mipmap, 6));
    ok(cuArray3DGetDescriptor(&back, level));
    cr_assert_eq(back.Width, 1);
    cr_assert_eq(back.Height, 1);
    fails(cuMipmappedArrayGetLevel(&level, mipmap, 7), CUDA_ERROR_INVALID_VALUE);
    fails(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE);
    fails(cuMipmappedArrayGetMemoryRequirements(&needs, mipmap, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMipmappedArrayGetSparseProperties(&sparse, mipmap), CUDA_ERROR_INVALID_VALUE);
    fails(cuArrayGetMemoryRequirements(&needs, level, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuArrayGetSparseProperties(&sparse, level), CUDA_ERROR_INVALID_VALUE);
    fails(cuArrayGetPlane(&again, level, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuMipmappedArrayDestroy(mipmap));
    fails(cuArray3DGetDescriptor(&back, level), CUDA_ERROR_INVALID_HANDLE);
    fails(cuMipmappedArrayDestroy(mipmap), CUDA_ERROR_INVALID_HANDLE);
    desc.Flags = CUDA_ARRAY3D_LAYERED;
    desc.Depth = 5;
    ok(cuMipmappedArrayCreate(&mipmap, &desc, 3));
    ok(cuMipmappedArrayGetLevel(&level, mipmap, 2));
    ok(cuArray3DGetDescriptor(&back, level));
    cr_assert_eq(back.Depth, 5, "layers do not get fewer");
    cr_assert_eq(back.Width, 16);
}

Test(sim_arrays, are_not_made_or_freed_while_a_stream_captures)
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = shape(8, 8, 0);
    CUarray array, other;
    CUstream stream;
    CUgraph graph;

    sim_test_start("1", "64M");
    ok(cuArray3DCreate(&array, &desc));
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    fails(cuArray3DCreate(&other, &desc), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    fails(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ok(cuArrayDestroy(array));
}

static CUDA_RESOURCE_DESC resource_of(CUarray array)
{
    CUDA_RESOURCE_DESC resource;

    memset(&resource, 0, sizeof(resource));
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    return resource;
}

Test(sim_arrays, texture_objects_remember_what_they_are_of)
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = shape(8, 8, 0);
    CUDA_TEXTURE_DESC sampling = {.filterMode = CU_TR_FILTER_MODE_LINEAR}, sampled;
    CUDA_RESOURCE_VIEW_DESC view = {.width = 8, .height = 8}, viewed;
    CUDA_RESOURCE_DESC resource, back;
    CUtexObject texture;
    CUarray array;

    sim_test_start("1", "64M");
    ok(cuArray3DCreate(&array, &desc));
    resource = resource_of(array);
    ok(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
    ok(cuTexObjectGetResourceDesc(&back, texture));
    cr_assert_eq(back.res.array.hArray, array);
    ok(cuTexObjectGetTextureDesc(&sampled, texture));
    cr_assert_eq(sampled.filterMode, CU_TR_FILTER_MODE_LINEAR);
    ok(cuTexObjectGetResourceViewDesc(&viewed, texture));
    cr_assert_eq(viewed.width, 0);
    fails(cuTexObjectGetResourceDesc(NULL, texture), CUDA_ERROR_INVALID_VALUE);
    ok(cuTexObjectDestroy(texture));
    fails(cuTexObjectDestroy(texture), CUDA_ERROR_INVALID_VALUE);
    fails(cuTexObjectGetResourceDesc(&back, texture), CUDA_ERROR_INVALID_VALUE);
    ok(cuTexObjectCreate(&texture, &resource, &sampling, &view));
    ok(cuTexObjectGetResourceViewDesc(&viewed, texture));
    cr_assert_eq(viewed.width, 8);
    fails(cuTexObjectCreate(NULL, &resource, &sampling, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuTexObjectCreate(&texture, NULL, &sampling, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuTexObjectCreate(&texture, &resource, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    resource.flags = 1;
    fails(cuTexObjectCreate(&texture, &resource, &sampling, NULL),
          CUDA_ERROR_INVALID_VALUE);
    resource = resource_of((CUarray)8);
    fails(cuTexObjectCreate(&texture, &resource, &sampling, NULL),
          CUDA_ERROR_INVALID_VALUE);
}

Test(sim_arrays, texture_objects_check_linear_memory)
{
    const CUDA_TEXTURE_DESC sampling = {0};
    CUDA_RESOURCE_DESC resource;
    CUtexObject texture;
    CUdeviceptr p;

    sim_test_start("1", "64M");
    ok(cuMemAlloc(&p, 65536));
    memset(&resource, 0, sizeof(resource));
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = p;
    resource.res.linear.format = CU_AD_FORMAT_FLOAT;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = 65536;
    ok(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
    resource.res.linear.devPtr = p + 4;
    resource.res.linear.sizeInBytes = 1024;
    fails(cuTexObjectCreate(&texture, &resource, &sampling, NULL),
          CUDA_ERROR_INVALID_VALUE);
    memset(&resource, 0, sizeof(resource));
    resource.resType = CU_RESOURCE_TYPE_PITCH2D;
    resource.res.pitch2D.devPtr = p;
    resource.res.pitch2D.format = CU_AD_FORMAT_UNSIGNED_INT8;
    resource.res.pitch2D.numChannels = 4;
    resource.res.pitch2D.width = 16;
    resource.res.pitch2D.height = 512;
    resource.res.pitch2D.pitchInBytes = 128;
    ok(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
    resource.res.pitch2D.pitchInBytes = 132;
    fails(cuTexObjectCreate(&texture, &resource, &sampling, NULL),
          CUDA_ERROR_INVALID_VALUE);
    resource.res.pitch2D.pitchInBytes = 256;
    fails(cuTexObjectCreate(&texture, &resource, &sampling, NULL),
          CUDA_ERROR_INVALID_VALUE);
}

Test(sim_arrays, surface_objects_need_an_array_for_stores)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = shape(8, 8, 0);
    CUDA_RESOURCE_DESC resource, back;
    CUsurfObject surface;
    CUarray plain, stored;

    sim_test_start("1", "64M");
    ok(cuArray3DCreate(&plain, &desc));
    desc.Flags = CUDA_ARRAY3D_SURFACE_LDST;
    ok(cuArray3DCreate(&stored, &desc));
    resource = resource_of(plain);
    fails(cuSurfObjectCreate(&surface, &resource), CUDA_ERROR_INVALID_VALUE);
    resource = resource_of(stored);
    ok(cuSurfObjectCreate(&surface, &resource));
    ok(cuSurfObjectGetResourceDesc(&back, surface));
    cr_assert_eq(back.res.array.hArray, stored);
    fails(cuTexObjectDestroy(surface), CUDA_ERROR_INVALID_VALUE);
    ok(cuSurfObjectDestroy(surface));
    fails(cuSurfObjectDestroy(surface), CUDA_ERROR_INVALID_VALUE);
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    fails(cuSurfObjectCreate(&surface, &resource), CUDA_ERROR_INVALID_VALUE);
}
