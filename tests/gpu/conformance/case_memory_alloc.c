/*
 * case_memory_alloc.c - device memory: cuMemAlloc, cuMemFree and what they refuse.
 */
#include "conformance.h"

CASE(memory, alloc_of_nothing, DRIVER_API, "cuMemAlloc",
     "If bytesize is 0, cuMemAlloc() returns CUDA_ERROR_INVALID_VALUE")
{
    CUdeviceptr pointer = 0;

    CHECK_CODE(cuMemAlloc(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
}
