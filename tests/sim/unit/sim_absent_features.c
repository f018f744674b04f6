/*
 * sim_absent_features.c - proves that calls for what no device here has say so by their
 * documented codes: memory mapped into sparse arrays, decompression by the device.
 */
#include <string.h>

#include "sim_helpers.h"

static int attribute(CUdevice_attribute id)
{
    int value = 1;

    ok(cuDeviceGetAttribute(&value, id, 0));
    return value;
}

Test(sim_absent_features, sparse_arrays_take_no_memory)
{
    const CUDA_ARRAY_DESCRIPTOR shape = {.Width = 16,
                                         .Height = 16,
                                         .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                         .NumChannels = 1};
    CUarrayMapInfo info;
    CUarray array;

    sim_test_start("1", "16M");
    cr_assert_eq(attribute(CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED), 0);
    ok(cuArrayCreate(&array, &shape));
    memset(&info, 0, sizeof(info));
    info.resourceType = CU_RESOURCE_TYPE_ARRAY;
    info.resource.array = array;
    info.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
    info.deviceBitMask = 1;
    fails(cuMemMapArrayAsync(&info, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMapArrayAsync(NULL, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMapArrayAsync(&info, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemMapArrayAsync(&info, 1, (CUstream)&info), CUDA_ERROR_INVALID_HANDLE);
    ok(cuArrayDestroy(array));
    fails(cuMemMapArrayAsync(&info, 1, NULL), CUDA_ERROR_INVALID_HANDLE);
    info.resourceType = CU_RESOURCE_TYPE_LINEAR;
    fails(cuMemMapArrayAsync(&info, 1, NULL), CUDA_ERROR_INVALID_VALUE);
}

#if CUDA_VERSION >= 12080
Test(sim_absent_features, nothing_is_decompressed)
{
    CUmemDecompressParams params[2];
    size_t index = 7;

    sim_test_start("1", "16M");
    cr_assert_eq(attribute(CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK), 0);
    memset(params, 0, sizeof(params));
    fails(cuMemBatchDecompressAsync(params, 2, 0, &index, NULL),
          CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(index, 0);
    fails(cuMemBatchDecompressAsync(params, 2, 1, &index, NULL),
          CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(index, SIZE_MAX);
    fails(cuMemBatchDecompressAsync(NULL, 2, 0, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemBatchDecompressAsync(params, 2, 0, &index, (CUstream)params),
          CUDA_ERROR_INVALID_HANDLE);
}
#endif
