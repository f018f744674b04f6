/*
 * case_device_attribute.c - cuDeviceGetAttribute: what it refuses, and values that the
 * documents name or that two calls must agree on.
 */
#include "case_context_help.h"

/* The form without edge cases of its own: deprecated, and still there. */
static CUresult capability(int *major, int *minor)
{
    CUresult (*get)(int *, int *, CUdevice) =
        (CUresult(*)(int *, int *, CUdevice))driver_function("cuDeviceComputeCapability");

    return get ? get(major, minor, the_device()) : CUDA_ERROR_NOT_FOUND;
}

CASE(device, attribute_unknown, DRIVER_API, "cuDeviceGetAttribute",
     "CUDA_ERROR_INVALID_VALUE: one or more of the parameters passed is not within an "
     "acceptable range of values")
{
    int value = 7;

    CHECK_INVALID(cuDeviceGetAttribute(&value, (CUdevice_attribute)100000, the_device()));
    CHECK_INVALID(
        cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, the_device()));
}

CASE(device, attribute_of_no_device, DRIVER_API, "cuDeviceGetAttribute",
     "CUDA_ERROR_INVALID_DEVICE: the device ordinal supplied does not correspond to a "
     "valid CUDA device")
{
    int value;

    CHECK_CODE(
        cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device_count()),
        CUDA_ERROR_INVALID_DEVICE);
}

CASE(device, attributes_of_blocks, GUIDE, "Compute Capabilities",
     "Technical specifications of every compute capability: warps of 32 threads, blocks "
     "of at most 1024 threads, 1024 by 1024 by 64")
{
    CHECK_EQUAL(device_attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    CHECK_EQUAL(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
    CHECK_EQUAL(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), 1024);
    CHECK_EQUAL(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y), 1024);
    CHECK_EQUAL(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z), 64);
}

CASE(device, attributes_of_grids, GUIDE, "Compute Capabilities",
     "Technical specifications of every compute capability: grids of at most 2^31-1 by "
     "65535 by 65535 blocks")
{
    CHECK_EQUAL(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), 2147483647);
    CHECK_EQUAL(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y), 65535);
    CHECK_EQUAL(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z), 65535);
}

CASE(device, attributes_of_residence, GUIDE, "Compute Capabilities",
     "Maximum number of resident threads per SM is a whole number of warps; a block may "
     "take all registers of it or fewer")
{
    int warp = device_attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    int threads = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);

    CHECK(threads >= 1024);
    CHECK_EQUAL(threads % (warp ? warp : 1), 0);
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK) <=
          device_attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR));
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK) <=
          device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) > 0);
}

CASE(device, compute_capability, DRIVER_API, "cuDeviceComputeCapability",
     "Returns the major and minor revision numbers that define the compute capability of "
     "the device, as the attributes do")
{
    int major = 0, minor = -1;

    CHECK_OK(capability(&major, &minor));
    CHECK_EQUAL(major, device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
    CHECK_EQUAL(minor, device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}

CASE(device, unified_addressing, GUIDE, "Unified Virtual Address Space",
     "When the application is run as a 64-bit process, a single address space is used "
     "for the host and all the devices of compute capability 2.0 and higher")
{
    CHECK_EQUAL(device_attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
    CHECK_EQUAL(device_attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY), 1);
}

CASE(device, properties_agree, DRIVER_API, "cuDeviceGetProperties",
     "maxThreadsPerBlock, maxThreadsDim, maxGridSize, SIMDWidth and regsPerBlock are "
     "what the attributes of these names are")
{
    CUresult (*get)(CUdevprop *, CUdevice) =
        (CUresult(*)(CUdevprop *, CUdevice))driver_function("cuDeviceGetProperties");
    CUdevprop of = {0};

    if (!CHECK(get != NULL) || !CHECK_OK(get(&of, the_device())))
        return;
    CHECK_EQUAL(of.maxThreadsPerBlock,
                device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
    CHECK_EQUAL(of.maxThreadsDim[2],
                device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z));
    CHECK_EQUAL(of.maxGridSize[0], device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X));
    CHECK_EQUAL(of.SIMDWidth, device_attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE));
    CHECK_EQUAL(of.regsPerBlock,
                device_attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK));
}
