/*
 * case_error_sticky.c - errors that a context keeps.
 */
#include <unistd.h>

#include "case_context_help.h"
#include "work.h"

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

OWN_PROCESS_CASE(error, sticky_elsewhere, DRIVER_API, "CUDA_ERROR_ILLEGAL_ADDRESS",
                 "Any further CUDA work will return the same error: work for a stream of "
                 "that context, too, while another context is current")
{
    CUcontext broken = current_context(), other = create_context(0);
    CUdeviceptr nowhere = 4096, block = 0;
    uint64_t count = 16;
    uint32_t seed = 1;
    void *params[] = {&nowhere, &count, &seed};
    CUstream stream = NULL;

    if (!other)
        return;
    switch_to(broken);
    CHECK_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK_OK(cuMemAlloc(&block, 256));
    CHECK_OK(launch(kernel("gs_fill"), stream, params));
    CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    (void)cuCtxSetCurrent(other); /* it may be refused, too */
    CHECK_CODE(cuMemsetD8Async(block, 1, 256, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_CODE(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

OWN_PROCESS_CASE(error, sticky_seen_by_an_upload, DRIVER_API,
                 "CUDA_ERROR_ILLEGAL_ADDRESS",
                 "Any further CUDA work will return the same error, whichever call was "
                 "the first to return it: cuGraphUpload \"may also return error codes "
                 "from previous, asynchronous launches\"")
{
    CUdeviceptr nowhere = 4096, block;
    uint64_t count = 16;
    uint32_t seed = 1;
    void *params[] = {&nowhere, &count, &seed};
    CUgraph graph;
    CUgraphExec exec;
    CUresult result = CUDA_SUCCESS;

    CHECK_OK(cuMemAlloc(&block, 4 << 20));
    CHECK_OK(cuMemFree(block));
    CHECK_OK(cuGraphCreate(&graph, 0));
    exec = instantiate(graph);
    CHECK_OK(launch(kernel("gs_fill"), NULL, params));
    for (int i = 0; i < 100 && result == CUDA_SUCCESS; i++) {
        usleep(10000);
        result = later()->graph_upload(exec, NULL);
    }
    CHECK_CODE(result, CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_CODE(cuMemAlloc(&block, 4 << 20), CUDA_ERROR_ILLEGAL_ADDRESS);
}
