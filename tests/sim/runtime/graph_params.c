/*
 * graph_params.c - parameters of nodes in the runtime's terms and in the driver's.
 * Owns:  nothing.   Lock: none.
 */
#include "graph_params.h"

#include <string.h>

cudaError_t gs_rt_enter_in(CUcontext *context)
{
    RT_TRY(gs_rt_enter());
    return gs_rt_leave_cu(gs_rt_cu.cuCtxGetCurrent_v4000(context));
}

cudaError_t gs_rt_node_kernel(const struct cudaKernelNodeParams *params,
                              CUcontext context, CUDA_KERNEL_NODE_PARAMS *out)
{
    CUkernel kernel;

    if (!params)
        return cudaErrorInvalidValue;
    RT_TRY(gs_rt_kernel(params->func, &kernel));
    memset(out, 0, sizeof(*out));
    out->kern = kernel;
    out->ctx = context;
    out->gridDimX = params->gridDim.x;
    out->gridDimY = params->gridDim.y;
    out->gridDimZ = params->gridDim.z;
    out->blockDimX = params->blockDim.x;
    out->blockDimY = params->blockDim.y;
    out->blockDimZ = params->blockDim.z;
    out->sharedMemBytes = params->sharedMemBytes;
    out->kernelParams = params->kernelParams;
    out->extra = params->extra;
    return cudaSuccess;
}

/* The runtime knows kernels by one handle. */
void gs_rt_told_kernel(const CUDA_KERNEL_NODE_PARAMS *params,
                       struct cudaKernelNodeParams *out)
{
    memset(out, 0, sizeof(*out));
    out->func = params->func ? (void *)params->func : (void *)params->kern;
    out->gridDim = (dim3){params->gridDimX, params->gridDimY, params->gridDimZ};
    out->blockDim = (dim3){params->blockDimX, params->blockDimY, params->blockDimZ};
    out->sharedMemBytes = params->sharedMemBytes;
    out->kernelParams = params->kernelParams;
    out->extra = params->extra;
}

struct cudaMemcpy3DParms gs_rt_node_row(void *dst, const void *src, size_t count,
                                        enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms parms = {.kind = kind};

    parms.srcPtr.ptr = (void *)(uintptr_t)src;
    parms.srcPtr.pitch = count;
    parms.srcPtr.ysize = 1;
    parms.dstPtr.ptr = dst;
    parms.dstPtr.pitch = count;
    parms.dstPtr.ysize = 1;
    parms.extent.width = count;
    parms.extent.height = 1;
    parms.extent.depth = 1;
    return parms;
}

/* One end of a copy, as the driver tells it. */
struct end {
    CUmemorytype type;
    CUarray array;
    const void *host;
    CUdeviceptr device;
    size_t pitch, height;
};

static cudaError_t told_end(const struct end *end, struct cudaPos *position,
                            cudaArray_t *array, struct cudaPitchedPtr *pointer)
{
    CUDA_ARRAY3D_DESCRIPTOR desc;
    size_t element;

    if (end->type != CU_MEMORYTYPE_ARRAY) {
        pointer->ptr = end->type == CU_MEMORYTYPE_HOST ? (void *)(uintptr_t)end->host
                                                       : (void *)(uintptr_t)end->device;
        pointer->pitch = end->pitch;
        pointer->xsize = end->pitch;
        pointer->ysize = end->height;
        return cudaSuccess;
    }

    RT_TRY(gs_rt_describe_array((cudaArray_t)end->array, &desc, &element));
    position->x /= element;
    *array = (cudaArray_t)end->array;
    return cudaSuccess;
}

static enum cudaMemcpyKind told_kind(CUmemorytype dst, CUmemorytype src)
{
    if (dst == CU_MEMORYTYPE_UNIFIED || src == CU_MEMORYTYPE_UNIFIED)
        return cudaMemcpyDefault;
    if (dst == CU_MEMORYTYPE_HOST)
        return src == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyDeviceToHost;
    return src == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice;
}

cudaError_t gs_rt_told_copy(const CUDA_MEMCPY3D *copy, struct cudaMemcpy3DParms *out)
{
    const struct end dst = {copy->dstMemoryType, copy->dstArray, copy->dstHost,
                            copy->dstDevice,     copy->dstPitch, copy->dstHeight};
    const struct end src = {copy->srcMemoryType, copy->srcArray, copy->srcHost,
                            copy->srcDevice,     copy->srcPitch, copy->srcHeight};

    memset(out, 0, sizeof(*out));
    out->dstPos = (struct cudaPos){copy->dstXInBytes, copy->dstY, copy->dstZ};
    out->srcPos = (struct cudaPos){copy->srcXInBytes, copy->srcY, copy->srcZ};
    out->extent = (struct cudaExtent){copy->WidthInBytes, copy->Height, copy->Depth};
    out->kind = told_kind(dst.type, src.type);
    cudaError_t error = told_end(&dst, &out->dstPos, &out->dstArray, &out->dstPtr);
    if (error == cudaSuccess)
        error = told_end(&src, &out->srcPos, &out->srcArray, &out->srcPtr);
    if (error == cudaSuccess && (out->dstArray || out->srcArray)) {
        CUDA_ARRAY3D_DESCRIPTOR desc;
        size_t element;
        error = gs_rt_describe_array(out->srcArray ? out->srcArray : out->dstArray, &desc,
                                     &element);
        if (error == cudaSuccess)
            out->extent.width /= element;
    }
    return error;
}

cudaError_t gs_rt_node_set(const struct cudaMemsetParams *params,
                           CUDA_MEMSET_NODE_PARAMS *out)
{
    if (!params)
        return cudaErrorInvalidValue;
    memset(out, 0, sizeof(*out));
    out->dst = gs_rt_address(params->dst);
    out->pitch = params->pitch;
    out->value = params->value;
    out->elementSize = params->elementSize;
    out->width = params->width;
    out->height = params->height;
    return cudaSuccess;
}

void gs_rt_told_set(const CUDA_MEMSET_NODE_PARAMS *params, struct cudaMemsetParams *out)
{
    memset(out, 0, sizeof(*out));
    out->dst = (void *)(uintptr_t)params->dst;
    out->pitch = params->pitch;
    out->value = params->value;
    out->elementSize = params->elementSize;
    out->width = params->width;
    out->height = params->height;
}

cudaError_t gs_rt_symbol_part(const void *symbol, size_t count, size_t offset, void **out)
{
    CUdeviceptr base;
    size_t bytes;

    RT_TRY(gs_rt_symbol(symbol, &base, &bytes));
    if (offset > bytes || count > bytes - offset)
        return cudaErrorInvalidValue;
    *out = (void *)(uintptr_t)(base + offset);
    return cudaSuccess;
}
