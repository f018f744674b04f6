/*
 * compat12.h - what libcudart.so.12 has otherwise than libcudart.so.13. Included by rt.h
 * after the headers of CUDA 13, from which both are built; empty for 13.
 *
 * CUDA 13 gave the names without suffix to what 12 called _v2 (or _v3): here these names
 * are changed back, so that each definition in the other files becomes that of 12's
 * suffixed function. compat12.c defines what had the plain names in 12. Signatures and
 * layouts are those of the public headers of CUDA 12.8.
 *
 * Owns:  nothing.   Lock: none.
 */
#ifndef GS_SIM_RT_COMPAT12_H
#define GS_SIM_RT_COMPAT12_H

#if GS_RT_MAJOR < 13

#ifdef GS_RT_SHARED
#pragma GCC visibility push(default)
#endif

extern __typeof__(cudaMemAdvise) cudaMemAdvise_v2;
extern __typeof__(cudaMemPrefetchAsync) cudaMemPrefetchAsync_v2;
extern __typeof__(cudaMemPrefetchAsync_ptsz) cudaMemPrefetchAsync_v2_ptsz;
extern __typeof__(cudaGraphGetEdges) cudaGraphGetEdges_v2;
extern __typeof__(cudaGraphNodeGetDependencies) cudaGraphNodeGetDependencies_v2;
extern __typeof__(cudaGraphNodeGetDependentNodes) cudaGraphNodeGetDependentNodes_v2;
extern __typeof__(cudaGraphAddDependencies) cudaGraphAddDependencies_v2;
extern __typeof__(cudaGraphRemoveDependencies) cudaGraphRemoveDependencies_v2;
extern __typeof__(cudaGraphAddNode) cudaGraphAddNode_v2;
extern __typeof__(cudaStreamUpdateCaptureDependencies)
    cudaStreamUpdateCaptureDependencies_v2;
extern __typeof__(cudaStreamUpdateCaptureDependencies_ptsz)
    cudaStreamUpdateCaptureDependencies_v2_ptsz;
extern __typeof__(cudaStreamGetCaptureInfo) cudaStreamGetCaptureInfo_v3;
extern __typeof__(cudaStreamGetCaptureInfo_ptsz) cudaStreamGetCaptureInfo_v3_ptsz;
extern __typeof__(cudaSignalExternalSemaphoresAsync) cudaSignalExternalSemaphoresAsync_v2;
extern __typeof__(cudaSignalExternalSemaphoresAsync_ptsz)
    cudaSignalExternalSemaphoresAsync_v2_ptsz;
extern __typeof__(cudaWaitExternalSemaphoresAsync) cudaWaitExternalSemaphoresAsync_v2;
extern __typeof__(cudaWaitExternalSemaphoresAsync_ptsz)
    cudaWaitExternalSemaphoresAsync_v2_ptsz;

/* cudaDeviceProp of 12: it has members that 13 dropped, and lacks its last ones. */
struct gs_rt_device_prop_12 {
    char name[256];
    cudaUUID_t uuid;
    char luid[8];
    unsigned int luidDeviceNodeMask;
    size_t totalGlobalMem;
    size_t sharedMemPerBlock;
    int regsPerBlock;
    int warpSize;
    size_t memPitch;
    int maxThreadsPerBlock;
    int maxThreadsDim[3];
    int maxGridSize[3];
    int clockRate;
    size_t totalConstMem;
    int major;
    int minor;
    size_t textureAlignment;
    size_t texturePitchAlignment;
    int deviceOverlap;
    int multiProcessorCount;
    int kernelExecTimeoutEnabled;
    int integrated;
    int canMapHostMemory;
    int computeMode;
    int maxTexture1D;
    int maxTexture1DMipmap;
    int maxTexture1DLinear;
    int maxTexture2D[2];
    int maxTexture2DMipmap[2];
    int maxTexture2DLinear[3];
    int maxTexture2DGather[2];
    int maxTexture3D[3];
    int maxTexture3DAlt[3];
    int maxTextureCubemap;
    int maxTexture1DLayered[2];
    int maxTexture2DLayered[3];
    int maxTextureCubemapLayered[2];
    int maxSurface1D;
    int maxSurface2D[2];
    int maxSurface3D[3];
    int maxSurface1DLayered[2];
    int maxSurface2DLayered[3];
    int maxSurfaceCubemap;
    int maxSurfaceCubemapLayered[2];
    size_t surfaceAlignment;
    int concurrentKernels;
    int ECCEnabled;
    int pciBusID;
    int pciDeviceID;
    int pciDomainID;
    int tccDriver;
    int asyncEngineCount;
    int unifiedAddressing;
    int memoryClockRate;
    int memoryBusWidth;
    int l2CacheSize;
    int persistingL2CacheMaxSize;
    int maxThreadsPerMultiProcessor;
    int streamPrioritiesSupported;
    int globalL1CacheSupported;
    int localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor;
    int managedMemory;
    int isMultiGpuBoard;
    int multiGpuBoardGroupID;
    int hostNativeAtomicSupported;
    int singleToDoublePrecisionPerfRatio;
    int pageableMemoryAccess;
    int concurrentManagedAccess;
    int computePreemptionSupported;
    int canUseHostPointerForRegisteredMem;
    int cooperativeLaunch;
    int cooperativeMultiDeviceLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables;
    int directManagedMemAccessFromHost;
    int maxBlocksPerMultiProcessor;
    int accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported;
    int sparseCudaArraySupported;
    int hostRegisterReadOnlySupported;
    int timelineSemaphoreInteropSupported;
    int memoryPoolsSupported;
    int gpuDirectRDMASupported;
    unsigned int gpuDirectRDMAFlushWritesOptions;
    int gpuDirectRDMAWritesOrdering;
    unsigned int memoryPoolSupportedHandleTypes;
    int deferredMappingCudaArraySupported;
    int ipcEventSupported;
    int clusterLaunch;
    int unifiedFunctionPointers;
    int reserved[63];
};

cudaError_t cudaGetDeviceProperties_v2(struct gs_rt_device_prop_12 *prop, int device);
cudaError_t gs_rt_choose_device_12(
    int *device, const struct gs_rt_device_prop_12 *prop) __asm__("cudaChooseDevice");

#ifdef GS_RT_SHARED
#pragma GCC visibility pop
#endif

/* clang-format off */
#define cudaMemAdvise cudaMemAdvise_v2
#define cudaMemPrefetchAsync cudaMemPrefetchAsync_v2
#define cudaMemPrefetchAsync_ptsz cudaMemPrefetchAsync_v2_ptsz
#define cudaGraphGetEdges cudaGraphGetEdges_v2
#define cudaGraphNodeGetDependencies cudaGraphNodeGetDependencies_v2
#define cudaGraphNodeGetDependentNodes cudaGraphNodeGetDependentNodes_v2
#define cudaGraphAddDependencies cudaGraphAddDependencies_v2
#define cudaGraphRemoveDependencies cudaGraphRemoveDependencies_v2
#define cudaGraphAddNode cudaGraphAddNode_v2
#define cudaStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies_v2
#define cudaStreamUpdateCaptureDependencies_ptsz cudaStreamUpdateCaptureDependencies_v2_ptsz
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#define cudaStreamGetCaptureInfo_ptsz cudaStreamGetCaptureInfo_v3_ptsz
#define cudaSignalExternalSemaphoresAsync cudaSignalExternalSemaphoresAsync_v2
#define cudaSignalExternalSemaphoresAsync_ptsz cudaSignalExternalSemaphoresAsync_v2_ptsz
#define cudaWaitExternalSemaphoresAsync cudaWaitExternalSemaphoresAsync_v2
#define cudaWaitExternalSemaphoresAsync_ptsz cudaWaitExternalSemaphoresAsync_v2_ptsz
#define cudaDeviceProp gs_rt_device_prop_12
#define cudaGetDeviceProperties cudaGetDeviceProperties_v2
#define cudaChooseDevice gs_rt_choose_device_12
/* clang-format on */

#endif /* GS_RT_MAJOR < 13 */
#endif
