/*
 * kernel.c - libraries, kernels as objects, their attributes and occupancy.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

#include <string.h>

/* ---- libraries ------------------------------------------------------------------- */

cudaError_t cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t library,
                                 const char *name)
{
    CUkernel kernel = NULL;
    cudaError_t error;

    if (!pKernel || !name)
        return gs_rt_leave(cudaErrorInvalidValue);
    error = RT_FORWARD(cuLibraryGetKernel_v12000, &kernel, library, name);
    if (error == cudaSuccess)
        error = gs_rt_leave(gs_rt_note_kernel(kernel, kernel));
    if (error == cudaSuccess)
        *pKernel = kernel;
    return error;
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int numKernels,
                                        cudaLibrary_t lib)
{
    cudaError_t error =
        RT_FORWARD(cuLibraryEnumerateKernels_v12040, kernels, numKernels, lib);

    for (unsigned i = 0; i < numKernels && error == cudaSuccess; i++)
        error = gs_rt_leave(gs_rt_note_kernel(kernels[i], kernels[i]));
    return error;
}

cudaError_t cudaLibraryGetGlobal(void **dptr, size_t *bytes, cudaLibrary_t library,
                                 const char *name)
{
    CUdeviceptr address = 0;
    cudaError_t error =
        RT_FORWARD(cuLibraryGetGlobal_v12000, &address, bytes, library, name);

    if (error == cudaSuccess && dptr)
        *dptr = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaLibraryGetManaged(void **dptr, size_t *bytes, cudaLibrary_t library,
                                  const char *name)
{
    CUdeviceptr address = 0;
    cudaError_t error =
        RT_FORWARD(cuLibraryGetManaged_v12000, &address, bytes, library, name);

    if (error == cudaSuccess && dptr)
        *dptr = (void *)(uintptr_t)address;
    return error;
}

/* ---- kernels --------------------------------------------------------------------- */

/* A context is current and func is a kernel; the error is recorded. */
static cudaError_t enter_for(const void *func, CUkernel *kernel)
{
    RT_TRY(gs_rt_enter());
    return gs_rt_leave(gs_rt_kernel(func, kernel));
}

static cudaError_t get_kernel(cudaKernel_t *out, const void *entry)
{
    CUkernel kernel;
    cudaError_t error;

    if (!out)
        return gs_rt_leave(cudaErrorInvalidValue);
    error = enter_for(entry, &kernel);
    if (error == cudaSuccess)
        error = gs_rt_leave(gs_rt_note_kernel(kernel, kernel));
    if (error == cudaSuccess)
        *out = kernel;
    return error;
}

cudaError_t cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr)
{
    return get_kernel(kernelPtr, entryFuncAddr);
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *entry)
{
    return get_kernel(kernel, entry);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr)
{
    CUkernel kernel;
    CUfunction function;

    RT_TRY(enter_for(symbolPtr, &kernel));
    if (!functionPtr)
        return gs_rt_leave(cudaErrorInvalidValue);
    cudaError_t error =
        gs_rt_leave_cu(gs_rt_cu.cuKernelGetFunction_v12000(&function, kernel));
    if (error == cudaSuccess)
        error = gs_rt_leave(gs_rt_note_kernel(function, kernel));
    if (error == cudaSuccess)
        *functionPtr = function;
    return error;
}

cudaError_t cudaFuncGetName(const char **name, const void *func)
{
    CUkernel kernel;

    RT_TRY(enter_for(func, &kernel));
    return gs_rt_leave_cu(gs_rt_cu.cuKernelGetName_v12030(name, kernel));
}

cudaError_t cudaFuncGetParamInfo(const void *func, size_t paramIndex, size_t *paramOffset,
                                 size_t *paramSize)
{
    CUkernel kernel;

    RT_TRY(enter_for(func, &kernel));
    return gs_rt_leave_cu(
        gs_rt_cu.cuKernelGetParamInfo_v12040(kernel, paramIndex, paramOffset, paramSize));
}

cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig)
{
    CUdevice device;
    CUkernel kernel;
    cudaError_t error = enter_for(func, &kernel);

    if (error == cudaSuccess)
        error = gs_rt_leave_cu(gs_rt_cu.cuCtxGetDevice_v2000(&device));
    if (error != cudaSuccess)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuKernelSetCacheConfig_v12000(
        kernel, (CUfunc_cache)cacheConfig, device));
}

/* Bank size is a thing of the past: accepted and without effect (cuda_runtime_api.h). */
cudaError_t cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config)
{
    CUkernel kernel;

    (void)config;
    return enter_for(func, &kernel);
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel,
                                            enum cudaFuncAttribute attr, int value,
                                            int device)
{
    CUdevice handle;
    cudaError_t error = gs_rt_enter();

    if (error == cudaSuccess)
        error = gs_rt_leave(gs_rt_device(device, &handle));
    if (error != cudaSuccess)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuKernelSetAttribute_v12000((CUfunction_attribute)attr,
                                                               value, kernel, handle));
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    CUdevice device;
    CUkernel kernel;
    cudaError_t error = enter_for(func, &kernel);

    if (error == cudaSuccess)
        error = gs_rt_leave_cu(gs_rt_cu.cuCtxGetDevice_v2000(&device));
    if (error != cudaSuccess)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuKernelSetAttribute_v12000((CUfunction_attribute)attr,
                                                               value, kernel, device));
}

/* 0 where the driver does not say. */
static int attribute(CUkernel kernel, CUdevice device, CUfunction_attribute which)
{
    int value = 0;

    if (gs_rt_cu.cuKernelGetAttribute_v12000(&value, which, kernel, device) !=
        CUDA_SUCCESS)
        return 0;
    return value;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    CUdevice device;
    CUkernel kernel;
    cudaError_t error = enter_for(func, &kernel);

    if (error == cudaSuccess)
        error = gs_rt_leave_cu(gs_rt_cu.cuCtxGetDevice_v2000(&device));
    if (error != cudaSuccess)
        return error;
    if (!attr)
        return gs_rt_leave(cudaErrorInvalidValue);

#define ASK(name) attribute(kernel, device, CU_FUNC_ATTRIBUTE_##name)
    memset(attr, 0, sizeof(*attr));
    attr->sharedSizeBytes = (size_t)ASK(SHARED_SIZE_BYTES);
    attr->constSizeBytes = (size_t)ASK(CONST_SIZE_BYTES);
    attr->localSizeBytes = (size_t)ASK(LOCAL_SIZE_BYTES);
    attr->maxThreadsPerBlock = ASK(MAX_THREADS_PER_BLOCK);
    attr->numRegs = ASK(NUM_REGS);
    attr->ptxVersion = ASK(PTX_VERSION);
    attr->binaryVersion = ASK(BINARY_VERSION);
    attr->cacheModeCA = ASK(CACHE_MODE_CA);
    attr->maxDynamicSharedSizeBytes = ASK(MAX_DYNAMIC_SHARED_SIZE_BYTES);
    attr->preferredShmemCarveout = ASK(PREFERRED_SHARED_MEMORY_CARVEOUT);
    attr->clusterDimMustBeSet = ASK(CLUSTER_SIZE_MUST_BE_SET);
    attr->requiredClusterWidth = ASK(REQUIRED_CLUSTER_WIDTH);
    attr->requiredClusterHeight = ASK(REQUIRED_CLUSTER_HEIGHT);
    attr->requiredClusterDepth = ASK(REQUIRED_CLUSTER_DEPTH);
    attr->clusterSchedulingPolicyPreference = ASK(CLUSTER_SCHEDULING_POLICY_PREFERENCE);
    attr->nonPortableClusterSizeAllowed = ASK(NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
#undef ASK
    return cudaSuccess;
}

/* ---- occupancy ------------------------------------------------------------------- */

static cudaError_t function_of(const void *func, CUfunction *function)
{
    CUkernel kernel;

    RT_TRY(enter_for(func, &kernel));
    return gs_rt_leave_cu(gs_rt_cu.cuKernelGetFunction_v12000(function, kernel));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks,
                                                                   const void *func,
                                                                   int blockSize,
                                                                   size_t dynamicSMemSize,
                                                                   unsigned int flags)
{
    CUfunction function;

    RT_TRY(function_of(func, &function));
    return gs_rt_leave_cu(
        gs_rt_cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_v7000(
            numBlocks, function, blockSize, dynamicSMemSize, flags));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks,
                                                          const void *func, int blockSize,
                                                          size_t dynamicSMemSize)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        numBlocks, func, blockSize, dynamicSMemSize, cudaOccupancyDefault);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize,
                                                      const void *func, int numBlocks,
                                                      int blockSize)
{
    CUfunction function;

    RT_TRY(function_of(func, &function));
    return gs_rt_leave_cu(gs_rt_cu.cuOccupancyAvailableDynamicSMemPerBlock_v10020(
        dynamicSmemSize, function, numBlocks, blockSize));
}
