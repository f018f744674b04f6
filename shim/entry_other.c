/*
 * entry_other.c - other consumers of device memory: the driver's own, passed through.
 * What the pool keeps idle must not make them fail, so they are tried again after it was
 * given back. Owns:  nothing.   Lock: none.
 */
#include "retry.h"

GS_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                               const CUmemAllocationProp *prop, unsigned long long flags)
{
    CUresult result = gs_real()->cuMemCreate(handle, size, prop, flags);
    return gs_retry_needed(result) ? gs_real()->cuMemCreate(handle, size, prop, flags)
                                   : result;
}

GS_EXPORT CUresult cuArrayCreate_v2(CUarray *pHandle,
                                    const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
    CUresult result = gs_real()->cuArrayCreate_v2(pHandle, pAllocateArray);
    return gs_retry_needed(result) ? gs_real()->cuArrayCreate_v2(pHandle, pAllocateArray)
                                   : result;
}

GS_EXPORT CUresult cuArray3DCreate_v2(CUarray *pHandle,
                                      const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    CUresult result = gs_real()->cuArray3DCreate_v2(pHandle, pAllocateArray);
    return gs_retry_needed(result)
               ? gs_real()->cuArray3DCreate_v2(pHandle, pAllocateArray)
               : result;
}

GS_EXPORT CUresult cuMipmappedArrayCreate(
    CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
    unsigned int numMipmapLevels)
{
    const struct gs_real *real = gs_real();
    CUresult result =
        real->cuMipmappedArrayCreate(pHandle, pMipmappedArrayDesc, numMipmapLevels);
    return gs_retry_needed(result) ? real->cuMipmappedArrayCreate(
                                         pHandle, pMipmappedArrayDesc, numMipmapLevels)
                                   : result;
}
