/*
 * entry_other.c - other consumers of device memory: the driver's own, passed through.
 *
 * What the pool keeps idle must not make them fail, so they are tried again after it was
 * given back: a call that answers with an error has made no handle, and so had no effect.
 * Physical memory and arrays are charged against GPUSHIM_MEM_LIMIT.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "all_contexts.h"
#include "mem_limits.h"
#include "physical.h"
#include "retry.h"
#include "single_order.h"

/* ---- physical memory --------------------------------------------------------------- */

static CUresult create_charged(struct gs_state *state,
                               CUmemGenericAllocationHandle *handle, size_t size,
                               const CUmemAllocationProp *prop, unsigned long long flags)
{
    const struct gs_context *context = gs_context_current(state);
    int device = prop->location.id;
    CUresult result;
    do {
        result = CUDA_ERROR_OUT_OF_MEMORY;
        if (gs_limits_charge(device, size)) {
            result = gs_real()->cuMemCreate(handle, size, prop, flags);
            if (result != CUDA_SUCCESS) {
                gs_limits_uncharge(device, size);
            }
        }
    } while (gs_retry_after_trim(state, context, result));
    if (result == CUDA_SUCCESS) {
        gs_physical_made(*handle, size, device);
    }
    return result;
}

GS_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                               const CUmemAllocationProp *prop, unsigned long long flags)
{
    struct gs_state *state = NULL;
    if (GS_UNLIKELY(gs_limits_charging) && handle && prop &&
        prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        state = gs_enter();
    }
    if (state) {
        CUresult charged = create_charged(state, handle, size, prop, flags);
        gs_leave();
        return charged;
    }
    CUresult result = gs_real()->cuMemCreate(handle, size, prop, flags);
    return gs_retry_needed(result) ? gs_real()->cuMemCreate(handle, size, prop, flags)
                                   : result;
}

GS_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    if (GS_UNLIKELY(gs_limits_charging)) {
        gs_physical_release(handle);
    }
    return gs_real()->cuMemRelease(handle);
}

GS_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
                                               void *addr)
{
    CUresult result = gs_real()->cuMemRetainAllocationHandle(handle, addr);
    if (GS_UNLIKELY(gs_limits_charging) && result == CUDA_SUCCESS) {
        gs_physical_retained(*handle);
    }
    return result;
}

GS_EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                            CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult result = gs_real()->cuMemMap(ptr, size, offset, handle, flags);
    if (GS_UNLIKELY(gs_limits_charging) && result == CUDA_SUCCESS) {
        gs_physical_mapped(handle, ptr, size);
    }
    return result;
}

GS_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    CUresult result = gs_real()->cuMemUnmap(ptr, size);
    if (GS_UNLIKELY(gs_limits_charging) && result == CUDA_SUCCESS) {
        gs_physical_unmapped(ptr, size);
    }
    return result;
}

/* ---- arrays ------------------------------------------------------------------------ */

/* What an array takes at least; the driver's padding is its own. */
static size_t array_bytes(size_t width, size_t height, size_t depth,
                          CUarray_format format, unsigned channels)
{
    size_t element = 4, bytes;
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        element = 1;
        break;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        element = 2;
        break;
    default:
        break;
    }
    bool over =
        __builtin_mul_overflow(width, height ? height : 1, &bytes) ||
        __builtin_mul_overflow(bytes, depth ? depth : 1, &bytes) ||
        __builtin_mul_overflow(bytes, element * (channels ? channels : 1), &bytes);
    return over ? SIZE_MAX : bytes;
}

/* The context that an array of so many bytes is charged to; NULL: none is. */
static const struct gs_context *charged_context(void)
{
    struct gs_state *state = GS_UNLIKELY(gs_limits_charging) ? gs_enter() : NULL;
    if (!state) {
        return NULL;
    }
    const struct gs_context *context = gs_context_current(state);
    gs_leave();
    return context;
}

static void array_made(const struct gs_context *context, const void *array, size_t bytes)
{
    if (context) {
        gs_limits_note(GS_CHARGE_ARRAY, (uintptr_t)array, bytes, context->device,
                       context->handle);
    }
}

GS_EXPORT CUresult cuArrayCreate_v2(CUarray *pHandle,
                                    const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
    const CUDA_ARRAY_DESCRIPTOR *want = pAllocateArray;
    const struct gs_context *context = want ? charged_context() : NULL;
    size_t bytes = context ? array_bytes(want->Width, want->Height, 1, want->Format,
                                         want->NumChannels)
                           : 0;
    CUresult result;
    bool again = false;
    do {
        result = gs_limits_begin(context, bytes)
                     ?: gs_limits_end(context, bytes,
                                      gs_real()->cuArrayCreate_v2(pHandle, want));
        again = !again && gs_retry_needed(result);
    } while (again);
    if (result == CUDA_SUCCESS) {
        array_made(context, *pHandle, bytes);
    }
    return result;
}

GS_EXPORT CUresult cuArray3DCreate_v2(CUarray *pHandle,
                                      const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    const CUDA_ARRAY3D_DESCRIPTOR *want = pAllocateArray;
    const struct gs_context *context = want ? charged_context() : NULL;
    size_t bytes = context ? array_bytes(want->Width, want->Height, want->Depth,
                                         want->Format, want->NumChannels)
                           : 0;
    CUresult result;
    bool again = false;
    do {
        result = gs_limits_begin(context, bytes)
                     ?: gs_limits_end(context, bytes,
                                      gs_real()->cuArray3DCreate_v2(pHandle, want));
        again = !again && gs_retry_needed(result);
    } while (again);
    if (result == CUDA_SUCCESS) {
        array_made(context, *pHandle, bytes);
    }
    return result;
}

GS_EXPORT CUresult cuArrayDestroy(CUarray hArray)
{
    gs_limits_leave(GS_CHARGE_ARRAY, (uintptr_t)hArray);
    CUresult result = gs_real()->cuArrayDestroy(hArray);
    gs_limits_left(result == CUDA_SUCCESS);
    return result;
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

/* ---- contexts ---------------------------------------------------------------------- */

/* A context that is made is one that may use pinned and managed memory. */
static CUresult created(const CUcontext *pctx, CUresult result)
{
    if (result == CUDA_SUCCESS) {
        gs_all_contexts_add(*pctx);
    }
    return result;
}

GS_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    gs_single_order_context("cuDevicePrimaryCtxRetain", true, dev);
    return created(pctx, gs_real()->cuDevicePrimaryCtxRetain(pctx, dev));
}

GS_EXPORT CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    gs_single_order_context("cuCtxCreate_v2", false, dev);
    CUresult result = gs_real()->cuCtxCreate_v2(pctx, flags, dev);
    if (gs_retry_needed(result)) {
        result = gs_real()->cuCtxCreate_v2(pctx, flags, dev);
    }
    return created(pctx, result);
}

#if CUDA_VERSION >= 11040
GS_EXPORT CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray,
                                  int numParams, unsigned int flags, CUdevice dev)
{
    const struct gs_real *real = gs_real();
    gs_single_order_context("cuCtxCreate_v3", false, dev);
    CUresult result = real->cuCtxCreate_v3(pctx, paramsArray, numParams, flags, dev);
    if (gs_retry_needed(result)) {
        result = real->cuCtxCreate_v3(pctx, paramsArray, numParams, flags, dev);
    }
    return created(pctx, result);
}
#endif

#if CUDA_VERSION >= 12050
GS_EXPORT CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
                                  unsigned int flags, CUdevice dev)
{
    const struct gs_real *real = gs_real();
    gs_single_order_context("cuCtxCreate_v4", false, dev);
    CUresult result = real->cuCtxCreate_v4(pctx, ctxCreateParams, flags, dev);
    if (gs_retry_needed(result)) {
        result = real->cuCtxCreate_v4(pctx, ctxCreateParams, flags, dev);
    }
    return created(pctx, result);
}
#endif
