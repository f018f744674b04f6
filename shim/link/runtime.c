/*
 * runtime.c - the exported runtime functions: they record the name of the call, then
 * forward to the caller's own runtime. The memory is handled at the driver level, where
 * each of these calls ends.
 */
#include <cuda_runtime_api.h>

#include "shim/link/caller_runtime.h"
#include "shim/link/real.h"
#include "shim/settings/log.h"
#include "shim/settings/thread.h"

/* The outermost runtime call of this thread is the one the program made. */
static uint16_t name_call(enum gs_api api)
{
    uint16_t outer = gs_thread.api;
    if (outer == GS_API_UNKNOWN) {
        gs_thread.api = (uint16_t)api;
    }
    return outer;
}

static cudaError_t no_runtime(const char *name)
{
    static struct gs_log_limit limit;
    gs_log_once(&limit, GS_LOG_WARN, "%s: no CUDA runtime is loaded; the call fails",
                name);
    return cudaErrorSharedObjectSymbolNotFound;
}

/* One wrapper: finds the runtime, records the name, forwards. `params` and `args` are
 * parenthesised lists. */
#define RUNTIME_WRAPPER(symbol, params, args)                                            \
    RUNTIME_WRAPPER_AS(symbol, symbol, params, args)

/* `named`: the name in the program's source, if the symbol differs. */
#define RUNTIME_WRAPPER_AS(symbol, named, params, args)                                  \
    GS_EXPORT cudaError_t symbol params;                                                 \
    cudaError_t symbol params                                                            \
    {                                                                                    \
        cudaError_t(*real) params = (cudaError_t(*) params)gs_caller_runtime(            \
            GS_RUNTIME_##symbol, __builtin_return_address(0));                           \
        uint16_t outer = name_call(GS_API_##named);                                      \
        cudaError_t result = real ? real args : no_runtime(#symbol);                     \
        gs_thread.api = outer;                                                           \
        return result;                                                                   \
    }

RUNTIME_WRAPPER(cudaMalloc, (void **devPtr, size_t size), (devPtr, size))
RUNTIME_WRAPPER(cudaFree, (void *devPtr), (devPtr))
RUNTIME_WRAPPER(cudaMallocHost, (void **ptr, size_t size), (ptr, size))
RUNTIME_WRAPPER(cudaHostAlloc, (void **pHost, size_t size, unsigned int flags),
                (pHost, size, flags))
RUNTIME_WRAPPER(cudaFreeHost, (void *ptr), (ptr))
RUNTIME_WRAPPER(cudaMallocManaged, (void **devPtr, size_t size, unsigned int flags),
                (devPtr, size, flags))
RUNTIME_WRAPPER(cudaMallocAsync, (void **devPtr, size_t size, cudaStream_t hStream),
                (devPtr, size, hStream))
RUNTIME_WRAPPER_AS(cudaMallocAsync_ptsz, cudaMallocAsync,
                   (void **devPtr, size_t size, cudaStream_t hStream),
                   (devPtr, size, hStream))
RUNTIME_WRAPPER(cudaFreeAsync, (void *devPtr, cudaStream_t hStream), (devPtr, hStream))
RUNTIME_WRAPPER_AS(cudaFreeAsync_ptsz, cudaFreeAsync,
                   (void *devPtr, cudaStream_t hStream), (devPtr, hStream))

/* Memory that the driver allocates itself: likewise. */
RUNTIME_WRAPPER(cudaMallocPitch,
                (void **devPtr, size_t *pitch, size_t width, size_t height),
                (devPtr, pitch, width, height))
RUNTIME_WRAPPER(cudaMalloc3D,
                (struct cudaPitchedPtr * pitchedDevPtr, struct cudaExtent extent),
                (pitchedDevPtr, extent))
RUNTIME_WRAPPER(cudaMallocArray,
                (cudaArray_t * array, const struct cudaChannelFormatDesc *desc,
                 size_t width, size_t height, unsigned int flags),
                (array, desc, width, height, flags))
RUNTIME_WRAPPER(cudaMalloc3DArray,
                (cudaArray_t * array, const struct cudaChannelFormatDesc *desc,
                 struct cudaExtent extent, unsigned int flags),
                (array, desc, extent, flags))
RUNTIME_WRAPPER(cudaMallocMipmappedArray,
                (cudaMipmappedArray_t * mipmappedArray,
                 const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                 unsigned int numLevels, unsigned int flags),
                (mipmappedArray, desc, extent, numLevels, flags))
RUNTIME_WRAPPER(cudaFreeArray, (cudaArray_t array), (array))
RUNTIME_WRAPPER(cudaFreeMipmappedArray, (cudaMipmappedArray_t mipmappedArray),
                (mipmappedArray))
RUNTIME_WRAPPER(cudaMallocFromPoolAsync,
                (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
                (ptr, size, memPool, stream))
RUNTIME_WRAPPER_AS(cudaMallocFromPoolAsync_ptsz, cudaMallocFromPoolAsync,
                   (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
                   (ptr, size, memPool, stream))
RUNTIME_WRAPPER(cudaHostRegister, (void *ptr, size_t size, unsigned int flags),
                (ptr, size, flags))
RUNTIME_WRAPPER(cudaHostUnregister, (void *ptr), (ptr))
RUNTIME_WRAPPER(cudaIpcOpenMemHandle,
                (void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags),
                (devPtr, handle, flags))
RUNTIME_WRAPPER(cudaIpcCloseMemHandle, (void *devPtr), (devPtr))
RUNTIME_WRAPPER(cudaMemPoolImportPointer,
                (void **ptr, cudaMemPool_t memPool,
                 struct cudaMemPoolPtrExportData *exportData),
                (ptr, memPool, exportData))
RUNTIME_WRAPPER(cudaImportExternalMemory,
                (cudaExternalMemory_t * extMem_out,
                 const struct cudaExternalMemoryHandleDesc *memHandleDesc),
                (extMem_out, memHandleDesc))
RUNTIME_WRAPPER(cudaDestroyExternalMemory, (cudaExternalMemory_t extMem), (extMem))
RUNTIME_WRAPPER(cudaExternalMemoryGetMappedBuffer,
                (void **devPtr, cudaExternalMemory_t extMem,
                 const struct cudaExternalMemoryBufferDesc *bufferDesc),
                (devPtr, extMem, bufferDesc))
RUNTIME_WRAPPER(cudaExternalMemoryGetMappedMipmappedArray,
                (cudaMipmappedArray_t * mipmap, cudaExternalMemory_t extMem,
                 const struct cudaExternalMemoryMipmappedArrayDesc *mipmapDesc),
                (mipmap, extMem, mipmapDesc))
RUNTIME_WRAPPER(cudaGraphAddMemAllocNode,
                (cudaGraphNode_t * pGraphNode, cudaGraph_t graph,
                 const cudaGraphNode_t *pDependencies, size_t numDependencies,
                 struct cudaMemAllocNodeParams *nodeParams),
                (pGraphNode, graph, pDependencies, numDependencies, nodeParams))
RUNTIME_WRAPPER(cudaGraphAddMemFreeNode,
                (cudaGraphNode_t * pGraphNode, cudaGraph_t graph,
                 const cudaGraphNode_t *pDependencies, size_t numDependencies,
                 void *dptr),
                (pGraphNode, graph, pDependencies, numDependencies, dptr))
