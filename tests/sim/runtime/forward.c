/*
 * forward.c - the functions of forward.def. cuda_runtime_api.h declares each, so the
 * compiler checks the parameters of a row.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

/* Structures of the runtime have the members of the driver's in the same order: a row
 * passes one for the other. */
#define SAME(runtime_type, driver_type)                                                  \
    static_assert(sizeof(runtime_type) == sizeof(driver_type),                           \
                  #runtime_type " and " #driver_type " differ")
SAME(cudaGraphEdgeData, CUgraphEdgeData);
SAME(struct cudaExternalSemaphoreSignalNodeParams, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
SAME(struct cudaExternalSemaphoreWaitNodeParams, CUDA_EXT_SEM_WAIT_NODE_PARAMS);
SAME(struct cudaExternalSemaphoreSignalParams, CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS);
SAME(struct cudaExternalSemaphoreWaitParams, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS);
SAME(cudaGraphInstantiateParams, CUDA_GRAPH_INSTANTIATE_PARAMS);
SAME(cudaGraphExecUpdateResultInfo, CUgraphExecUpdateResultInfo);
SAME(cudaStreamAttrValue, CUstreamAttrValue);
SAME(struct cudaMemPoolProps, CUmemPoolProps);
SAME(struct cudaMemAccessDesc, CUmemAccessDesc);
SAME(struct cudaMemLocation, CUmemLocation);
SAME(struct cudaMemPoolPtrExportData, CUmemPoolPtrExportData);
SAME(cudaIpcMemHandle_t, CUipcMemHandle);
SAME(cudaIpcEventHandle_t, CUipcEventHandle);
SAME(cudaLaunchAttributeValue, CUlaunchAttributeValue);
SAME(struct cudaHostNodeParams, CUDA_HOST_NODE_PARAMS);
SAME(struct cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS);

#define RT_ONE(name, params, function, version, ...)                                     \
    cudaError_t name params                                                              \
    {                                                                                    \
        return RT_FORWARD(function##_v##version, __VA_ARGS__);                           \
    }
#define RT_BOTH(name, kind, params, function, version, twin, ...)                        \
    RT_ONE(name, params, function, version, __VA_ARGS__)                                 \
    RT_ONE(name##_##kind, params, function, twin##_##kind, __VA_ARGS__)
#include "forward.def"
#undef RT_ONE
#undef RT_BOTH
