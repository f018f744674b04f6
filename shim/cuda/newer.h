/*
 * newer.h - functions in the tables of driver functions that older CUDA headers lack.
 *
 * The library hooks the same functions whichever headers it is built with, since the
 * driver and the program may be newer than the headers. So each function added after 11.7
 * is declared here for older headers. Only the ABI of the call counts: the size of an
 * argument passed by value, and the members that are read; other members are left out.
 * Newer headers declare the functions themselves, and the compiler compares the rows of
 * submit.def and the wrappers with them.
 *
 * Owns: nothing.   Lock: none.
 * Source: cuda.h of CUDA 11.8 to 13.5 (tests/headers/headers.txt)
 */
#ifndef GS_NEWER_H
#define GS_NEWER_H

#include <cuda.h>
#include <stddef.h>

#if CUDA_VERSION < 11070
#error "the CUDA headers are older than 11.7, which the library cannot be built with"
#endif

/* The newest version whose functions the tables were compared with. */
#define GS_CUDA_NEWEST 13050

#if CUDA_VERSION < 11080
#define CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION 6
typedef struct {
    int id;
    union {
        char room[64];
        int programmaticStreamSerializationAllowed;
        void *align;
    } value;
} CUlaunchAttribute;
typedef struct CUlaunchConfig_st {
    unsigned int grid[3], block[3], sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;
static_assert(sizeof(CUlaunchAttribute) == 72, "as the driver has it");
static_assert(sizeof(CUlaunchConfig) == 56, "as the driver has it");
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                          void **extra);
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f,
                               void **kernelParams, void **extra);
#endif

#if CUDA_VERSION < 12000
#define CUDA_ERROR_DEVICE_UNAVAILABLE 46
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef unsigned int CUlibraryOption;
typedef unsigned int CUdriverProcAddressQueryResult;
typedef struct {
    cuuint64_t flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    int result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;
CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId);
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                             cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus);
CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams);
CUresult
cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
                                  CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams);
CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel);
CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                              CUdevice dev);
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev);
CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                            const char *name);
CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                             const char *name);
CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library);
CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol);
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                           void **jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption *libraryOptions, void **libraryOptionValues,
                           unsigned int numLibraryOptions);
CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
                               CUjit_option *jitOptions, void **jitOptionsValues,
                               unsigned int numJitOptions,
                               CUlibraryOption *libraryOptions,
                               void **libraryOptionValues,
                               unsigned int numLibraryOptions);
CUresult cuLibraryUnload(CUlibrary library);
#endif

#if CUDA_VERSION < 12010
typedef struct {
    unsigned int numDevices;
    size_t size;
    unsigned long long handleTypes;
    unsigned long long flags;
} CUmulticastObjectProp;
static_assert(sizeof(CUmulticastObjectProp) == 32, "as the driver has it");
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev);
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                             CUdeviceptr memptr, size_t size, unsigned long long flags);
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                            CUmemGenericAllocationHandle memHandle, size_t memOffset,
                            size_t size, unsigned long long flags);
CUresult cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle,
                           const CUmulticastObjectProp *prop);
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev,
                           size_t mcOffset, size_t size);
#endif

#if CUDA_VERSION < 12020
static_assert(sizeof(CUmemLocation) == 8, "passed by value");
typedef struct {
    CUgraphNodeType type;
    int reserved0[3];
    union {
        long long reserved1[29];
        CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    };
    long long reserved2;
} CUgraphNodeParams;
static_assert(sizeof(CUgraphNodeParams) == 256, "as the driver has it");
static_assert(offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, dptr) == 112, "as the driver has it");
CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                        const CUgraphNode *dependencies, size_t numDependencies,
                        CUgraphNodeParams *nodeParams);
CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams);
CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                  CUgraphNodeParams *nodeParams);
CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                        CUmemLocation location);
CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                               unsigned int flags, CUstream hStream);
CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count,
                                    CUmemLocation location, unsigned int flags,
                                    CUstream hStream);
#endif

#if CUDA_VERSION < 12030
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                           const CUgraphNode *dependencies,
                           const CUgraphEdgeData *dependencyData, size_t numDependencies,
                           CUgraphNodeParams *nodeParams);
CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                     const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *dependencyData,
                                     size_t numDependencies, CUstreamCaptureMode mode);
CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
                                          const CUgraphNode *dependencies,
                                          const CUgraphEdgeData *dependencyData,
                                          size_t numDependencies,
                                          CUstreamCaptureMode mode);
#endif

#if CUDA_VERSION < 12040
CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                            size_t *paramSize);
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx);
CUresult cuFuncLoad(CUfunction function);
CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
                          unsigned int flags);
CUresult cuGreenCtxDestroy(CUgreenCtx hCtx);
CUresult cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent);
CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent);
#endif

#if CUDA_VERSION < 12050
typedef struct CUctxCreateParams_st CUctxCreateParams;
CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
                        unsigned int flags, CUdevice dev);
CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent);
CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent);
CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx,
                                unsigned int flags, int priority);
CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx);
#endif

#if CUDA_VERSION < 12080
CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd);
typedef struct CUcheckpointLockArgs_st CUcheckpointLockArgs;
typedef struct CUcheckpointCheckpointArgs_st CUcheckpointCheckpointArgs;
typedef struct CUcheckpointRestoreArgs_st CUcheckpointRestoreArgs;
typedef struct CUcheckpointUnlockArgs_st CUcheckpointUnlockArgs;
typedef struct CUmemDecompressParams_st CUmemDecompressParams;
typedef struct CUmemcpyAttributes_st CUmemcpyAttributes;
typedef struct CUDA_MEMCPY3D_BATCH_OP_st CUDA_MEMCPY3D_BATCH_OP;
CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args);
CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args);
CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args);
CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args);
CUresult cuMemBatchDecompressAsync(CUmemDecompressParams *paramsArray, size_t count,
                                   unsigned int flags, size_t *errorIndex,
                                   CUstream stream);
CUresult cuMemBatchDecompressAsync_ptsz(CUmemDecompressParams *paramsArray, size_t count,
                                        unsigned int flags, size_t *errorIndex,
                                        CUstream stream);
CUresult cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                              size_t *failIdx, unsigned long long flags,
                              CUstream hStream);
CUresult cuMemcpy3DBatchAsync_ptsz(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                                   size_t *failIdx, unsigned long long flags,
                                   CUstream hStream);
CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                            size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                            size_t numAttrs, size_t *failIdx, CUstream hStream);
CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                 size_t count, CUmemcpyAttributes *attrs,
                                 size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
                                 CUstream hStream);
#endif

#if CUDA_VERSION < 13000
CUresult cuCtxSynchronize_v2(CUcontext ctx);
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes,
                                           size_t count, CUmemLocation *prefetchLocs,
                                           size_t *prefetchLocIdxs,
                                           size_t numPrefetchLocs,
                                           unsigned long long flags, CUstream hStream);
CUresult cuMemDiscardAndPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes,
                                                size_t count, CUmemLocation *prefetchLocs,
                                                size_t *prefetchLocIdxs,
                                                size_t numPrefetchLocs,
                                                unsigned long long flags,
                                                CUstream hStream);
CUresult cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                unsigned long long flags, CUstream hStream);
CUresult cuMemDiscardBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                     unsigned long long flags, CUstream hStream);
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                 CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                 size_t numPrefetchLocs, unsigned long long flags,
                                 CUstream hStream);
CUresult cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                      CUmemLocation *prefetchLocs,
                                      size_t *prefetchLocIdxs, size_t numPrefetchLocs,
                                      unsigned long long flags, CUstream hStream);
CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
                         CUmemoryPool pool);
CUresult cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                                 unsigned long long flags, CUstream hStream);
CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                                      unsigned long long flags, CUstream hStream);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                               size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                               size_t numAttrs, CUstream hStream);
CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                    size_t count, CUmemcpyAttributes *attrs,
                                    size_t *attrsIdxs, size_t numAttrs, CUstream hStream);
#endif

#if CUDA_VERSION < 13010
CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev,
                                size_t mcOffset, CUdeviceptr memptr, size_t size,
                                unsigned long long flags);
CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev,
                               size_t mcOffset, CUmemGenericAllocationHandle memHandle,
                               size_t memOffset, size_t size, unsigned long long flags);
#endif

#if CUDA_VERSION < 13020
typedef struct CUstreamCigCaptureParams_st CUstreamCigCaptureParams;
CUresult cuStreamBeginCaptureToCig(CUstream hStream, CUstreamCigCaptureParams *params);
CUresult cuStreamBeginCaptureToCig_ptsz(CUstream hStream,
                                        CUstreamCigCaptureParams *params);
CUresult cuStreamEndCaptureToCig(CUstream hStream);
CUresult cuStreamEndCaptureToCig_ptsz(CUstream hStream);
CUresult cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData,
                             unsigned int syncMode);
CUresult cuLaunchHostFunc_v2_ptsz(CUstream hStream, CUhostFn fn, void *userData,
                                  unsigned int syncMode);
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op,
                                       unsigned long long flags, CUstream hStream);
CUresult cuMemcpy3DWithAttributesAsync_ptsz(CUDA_MEMCPY3D_BATCH_OP *op,
                                            unsigned long long flags, CUstream hStream);
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
                                     CUmemcpyAttributes *attr, CUstream hStream);
CUresult cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t size,
                                          CUmemcpyAttributes *attr, CUstream hStream);
#endif

#if CUDA_VERSION < 13030
typedef void (*CUgraphRecaptureCallback)(void);
CUresult cuStreamBeginRecaptureToGraph(CUstream hStream, CUstreamCaptureMode mode,
                                       CUgraph hGraph,
                                       CUgraphRecaptureCallback callbackFunc,
                                       void *userData);
CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream hStream, CUstreamCaptureMode mode,
                                            CUgraph hGraph,
                                            CUgraphRecaptureCallback callbackFunc,
                                            void *userData);
typedef cuuint32_t CUlogicalEndpointId;
CUresult cuLogicalEndpointAddDevice(CUlogicalEndpointId leId, CUdevice dev);
CUresult cuLogicalEndpointBindAddr(CUlogicalEndpointId leId, CUdevice dev,
                                   cuuint64_t offset, void *ptr, cuuint64_t size,
                                   unsigned long long flags);
CUresult cuLogicalEndpointBindMem(CUlogicalEndpointId leId, CUdevice dev,
                                  cuuint64_t offset,
                                  CUmemGenericAllocationHandle memHandle,
                                  cuuint64_t memOffset, cuuint64_t size,
                                  unsigned long long flags);
CUresult cuLogicalEndpointDestroy(CUlogicalEndpointId leId);
CUresult cuLogicalEndpointUnbind(CUlogicalEndpointId leId, CUdevice dev,
                                 cuuint64_t offset, cuuint64_t size);
#endif

#if CUDA_VERSION < 13050
typedef struct CUDA_FABRIC_COPY_BATCH_OP_st CUDA_FABRIC_COPY_BATCH_OP;
CUresult cuFabricCpyBatchAsync(size_t numOps, CUDA_FABRIC_COPY_BATCH_OP *opList,
                               unsigned long long flags, CUstream hStream);
CUresult cuFabricCpyBatchAsync_ptsz(size_t numOps, CUDA_FABRIC_COPY_BATCH_OP *opList,
                                    unsigned long long flags, CUstream hStream);
#endif

#endif
