/*
 * case_error_sticky.c - errors that a context keeps.
 */
#include "conformance.h"

OWN_PROCESS_CASE(error, sticky, DRIVER_API, "CUDA_ERROR_ILLEGAL_ADDRESS",
                 "While executing a kernel, the device encountered a load or store "
                 "instruction on an invalid memory address. Any further CUDA work will "
                 "return the same error")
{
    CUdeviceptr nowhere = 4096, block = 0;
    uint64_t count = 16;
    uint32_t seed = 1;
    void *params[] = {&nowhere, &count, &seed};

    CHECK_OK(launch(kernel("gs_fill"), NULL, params));
    CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_CODE(cuMemAlloc(&block, 256), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_CODE(cuStreamSynchronize(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
}
