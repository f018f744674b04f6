/*
 * copy3d.c - copies of pitched rectangles and boxes. Where a CUDA array takes part,
 * widths and its own offsets are in its elements, as the runtime's documentation has it.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

#include <string.h>

/* The two ends of a copy in the driver's terms. cudaErrorInvalidMemcpyDirection. */
static cudaError_t memory_types(enum cudaMemcpyKind kind, CUmemorytype *src,
                                CUmemorytype *dst)
{
    switch (kind) {
    case cudaMemcpyHostToHost:
        *src = CU_MEMORYTYPE_HOST;
        *dst = CU_MEMORYTYPE_HOST;
        return cudaSuccess;
    case cudaMemcpyHostToDevice:
        *src = CU_MEMORYTYPE_HOST;
        *dst = CU_MEMORYTYPE_DEVICE;
        return cudaSuccess;
    case cudaMemcpyDeviceToHost:
        *src = CU_MEMORYTYPE_DEVICE;
        *dst = CU_MEMORYTYPE_HOST;
        return cudaSuccess;
    case cudaMemcpyDeviceToDevice:
        *src = CU_MEMORYTYPE_DEVICE;
        *dst = CU_MEMORYTYPE_DEVICE;
        return cudaSuccess;
    case cudaMemcpyDefault:
        *src = CU_MEMORYTYPE_UNIFIED;
        *dst = CU_MEMORYTYPE_UNIFIED;
        return cudaSuccess;
    }
    return cudaErrorInvalidMemcpyDirection;
}

/* ---- 2D -------------------------------------------------------------------------- */

struct rectangle {
    void *dst;
    size_t dst_pitch;
    const void *src;
    size_t src_pitch;
    size_t width; /* bytes */
    size_t height;
    enum cudaMemcpyKind kind;
};

static cudaError_t describe_rectangle(const struct rectangle *r, CUDA_MEMCPY2D *copy)
{
    CUmemorytype src, dst;

    RT_TRY(memory_types(r->kind, &src, &dst));
    if (r->width > r->dst_pitch || r->width > r->src_pitch)
        return cudaErrorInvalidPitchValue;
    memset(copy, 0, sizeof(*copy));
    copy->srcMemoryType = src;
    copy->srcHost = r->src;
    copy->srcDevice = gs_rt_address(r->src);
    copy->srcPitch = r->src_pitch;
    copy->dstMemoryType = dst;
    copy->dstHost = r->dst;
    copy->dstDevice = gs_rt_address(r->dst);
    copy->dstPitch = r->dst_pitch;
    copy->WidthInBytes = r->width;
    copy->Height = r->height;
    return cudaSuccess;
}

/* stream is NULL for a synchronous copy. */
static cudaError_t copy_rectangle(bool per_thread, const struct rectangle *r,
                                  const cudaStream_t *stream)
{
    CUDA_MEMCPY2D copy;
    CUresult result;

    RT_TRY(gs_rt_enter());
    cudaError_t error = describe_rectangle(r, &copy);
    if (error != cudaSuccess || r->width == 0 || r->height == 0)
        return gs_rt_leave(error);
    if (stream)
        result = RT_PICK(per_thread, cuMemcpy2DAsync_v3020,
                         cuMemcpy2DAsync_v7000_ptsz)(&copy, *stream);
    else
        result = RT_PICK(per_thread, cuMemcpy2DUnaligned_v3020,
                         cuMemcpy2DUnaligned_v7000_ptds)(&copy);
    return gs_rt_leave_cu(result);
}

RT_TWINS(cudaMemcpy2D, ptds,
         (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
          size_t height, enum cudaMemcpyKind kind),
         copy_rectangle(per_thread,
                        &(struct rectangle){dst, dpitch, src, spitch, width, height,
                                            kind},
                        NULL));

RT_TWINS(cudaMemcpy2DAsync, ptsz,
         (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
          size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
         copy_rectangle(per_thread,
                        &(struct rectangle){dst, dpitch, src, spitch, width, height,
                                            kind},
                        &stream));

/* ---- 3D -------------------------------------------------------------------------- */

/*
 * Put the arrays of a copy into it and turn elements into bytes. Two arrays have elements
 * of one size (cudaMemcpy3D).
 */
static cudaError_t add_arrays(cudaArray_const_t src, cudaArray_const_t dst,
                              CUDA_MEMCPY3D *copy)
{
    CUDA_ARRAY3D_DESCRIPTOR desc;
    size_t src_element = 1, dst_element = 1;
    cudaError_t error = cudaSuccess;

    if (src) {
        error = gs_rt_describe_array(src, &desc, &src_element);
        copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
        copy->srcArray = (CUarray)src;
        copy->srcXInBytes *= src_element;
    }
    if (error == cudaSuccess && dst) {
        error = gs_rt_describe_array(dst, &desc, &dst_element);
        copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
        copy->dstArray = (CUarray)dst;
        copy->dstXInBytes *= dst_element;
    }
    if (error == cudaSuccess && src && dst && src_element != dst_element)
        return cudaErrorInvalidValue;
    copy->WidthInBytes *= src ? src_element : dst_element;
    return error;
}

cudaError_t gs_rt_copy3d(const struct cudaMemcpy3DParms *parms, CUDA_MEMCPY3D *copy)
{
    CUmemorytype src, dst;

    if (!parms || (parms->srcArray && parms->srcPtr.ptr) ||
        (parms->dstArray && parms->dstPtr.ptr))
        return cudaErrorInvalidValue;
    RT_TRY(memory_types(parms->kind, &src, &dst));
    memset(copy, 0, sizeof(*copy));
    copy->srcXInBytes = parms->srcPos.x;
    copy->srcY = parms->srcPos.y;
    copy->srcZ = parms->srcPos.z;
    copy->srcMemoryType = src;
    copy->srcHost = parms->srcPtr.ptr;
    copy->srcDevice = gs_rt_address(parms->srcPtr.ptr);
    copy->srcPitch = parms->srcPtr.pitch;
    copy->srcHeight = parms->srcPtr.ysize;
    copy->dstXInBytes = parms->dstPos.x;
    copy->dstY = parms->dstPos.y;
    copy->dstZ = parms->dstPos.z;
    copy->dstMemoryType = dst;
    copy->dstHost = parms->dstPtr.ptr;
    copy->dstDevice = gs_rt_address(parms->dstPtr.ptr);
    copy->dstPitch = parms->dstPtr.pitch;
    copy->dstHeight = parms->dstPtr.ysize;
    copy->WidthInBytes = parms->extent.width;
    copy->Height = parms->extent.height;
    copy->Depth = parms->extent.depth;
    return add_arrays(parms->srcArray, parms->dstArray, copy);
}

static bool is_empty(struct cudaExtent extent)
{
    return extent.width == 0 || extent.height == 0 || extent.depth == 0;
}

static cudaError_t copy_box(bool per_thread, const struct cudaMemcpy3DParms *parms,
                            const cudaStream_t *stream)
{
    CUDA_MEMCPY3D copy;
    CUresult result;

    RT_TRY(gs_rt_enter());
    cudaError_t error = gs_rt_copy3d(parms, &copy);
    if (error != cudaSuccess || is_empty(parms->extent))
        return gs_rt_leave(error);
    if (stream)
        result = RT_PICK(per_thread, cuMemcpy3DAsync_v3020,
                         cuMemcpy3DAsync_v7000_ptsz)(&copy, *stream);
    else
        result = RT_PICK(per_thread, cuMemcpy3D_v3020, cuMemcpy3D_v7000_ptds)(&copy);
    return gs_rt_leave_cu(result);
}

RT_TWINS(cudaMemcpy3D, ptds, (const struct cudaMemcpy3DParms *p),
         copy_box(per_thread, p, NULL));

RT_TWINS(cudaMemcpy3DAsync, ptsz,
         (const struct cudaMemcpy3DParms *p, cudaStream_t stream),
         copy_box(per_thread, p, &stream));

/* ---- 3D between devices ---------------------------------------------------------- */

/* As a copy within one device, and the context of each side. */
static cudaError_t describe_peer_box(const struct cudaMemcpy3DPeerParms *p,
                                     CUDA_MEMCPY3D_PEER *copy)
{
    struct cudaMemcpy3DParms parms = {.kind = cudaMemcpyDeviceToDevice};
    CUDA_MEMCPY3D box;

    if (!p)
        return cudaErrorInvalidValue;
    parms.srcArray = p->srcArray;
    parms.srcPos = p->srcPos;
    parms.srcPtr = p->srcPtr;
    parms.dstArray = p->dstArray;
    parms.dstPos = p->dstPos;
    parms.dstPtr = p->dstPtr;
    parms.extent = p->extent;

    RT_TRY(gs_rt_copy3d(&parms, &box));
    *copy = (CUDA_MEMCPY3D_PEER){
        .srcXInBytes = box.srcXInBytes,
        .srcY = box.srcY,
        .srcZ = box.srcZ,
        .srcMemoryType = box.srcMemoryType,
        .srcDevice = box.srcDevice,
        .srcArray = box.srcArray,
        .srcPitch = box.srcPitch,
        .srcHeight = box.srcHeight,
        .dstXInBytes = box.dstXInBytes,
        .dstY = box.dstY,
        .dstZ = box.dstZ,
        .dstMemoryType = box.dstMemoryType,
        .dstDevice = box.dstDevice,
        .dstArray = box.dstArray,
        .dstPitch = box.dstPitch,
        .dstHeight = box.dstHeight,
        .WidthInBytes = box.WidthInBytes,
        .Height = box.Height,
        .Depth = box.Depth,
    };
    RT_TRY(gs_rt_primary_context(p->srcDevice, &copy->srcContext));
    return gs_rt_primary_context(p->dstDevice, &copy->dstContext);
}

static cudaError_t copy_peer_box(bool per_thread, const struct cudaMemcpy3DPeerParms *p,
                                 const cudaStream_t *stream)
{
    CUDA_MEMCPY3D_PEER copy;
    CUresult result;

    RT_TRY(gs_rt_enter());
    cudaError_t error = describe_peer_box(p, &copy);
    if (error != cudaSuccess || is_empty(p->extent))
        return gs_rt_leave(error);
    if (stream)
        result = RT_PICK(per_thread, cuMemcpy3DPeerAsync_v4000,
                         cuMemcpy3DPeerAsync_v7000_ptsz)(&copy, *stream);
    else
        result =
            RT_PICK(per_thread, cuMemcpy3DPeer_v4000, cuMemcpy3DPeer_v7000_ptds)(&copy);
    return gs_rt_leave_cu(result);
}

RT_TWINS(cudaMemcpy3DPeer, ptds, (const struct cudaMemcpy3DPeerParms *p),
         copy_peer_box(per_thread, p, NULL));

RT_TWINS(cudaMemcpy3DPeerAsync, ptsz,
         (const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream),
         copy_peer_box(per_thread, p, &stream));
