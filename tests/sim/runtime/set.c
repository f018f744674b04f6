/*
 * set.c - cudaMemset in one, two and three dimensions.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

/* stream is NULL for the synchronous calls, here and below. */
static cudaError_t set(bool per_thread, void *ptr, int value, size_t count,
                       const cudaStream_t *stream)
{
    CUdeviceptr dst = gs_rt_address(ptr);
    unsigned char byte = (unsigned char)value;
    cudaError_t error = gs_rt_enter();
    CUresult result;

    if (error != cudaSuccess || count == 0)
        return error;
    if (stream)
        result = RT_PICK(per_thread, cuMemsetD8Async_v3020,
                         cuMemsetD8Async_v7000_ptsz)(dst, byte, count, *stream);
    else
        result = RT_PICK(per_thread, cuMemsetD8_v3020, cuMemsetD8_v7000_ptds)(dst, byte,
                                                                              count);
    return gs_rt_leave_cu(result);
}

static cudaError_t set_rectangle(bool per_thread, void *ptr, size_t pitch, int value,
                                 size_t width, size_t height, const cudaStream_t *stream)
{
    CUdeviceptr dst = gs_rt_address(ptr);
    unsigned char byte = (unsigned char)value;
    cudaError_t error = gs_rt_enter();
    CUresult result;

    if (error != cudaSuccess || width == 0 || height == 0)
        return error;
    if (width > pitch)
        return gs_rt_leave(cudaErrorInvalidValue);
    if (stream)
        result =
            RT_PICK(per_thread, cuMemsetD2D8Async_v3020, cuMemsetD2D8Async_v7000_ptsz)(
                dst, pitch, byte, width, height, *stream);
    else
        result = RT_PICK(per_thread, cuMemsetD2D8_v3020,
                         cuMemsetD2D8_v7000_ptds)(dst, pitch, byte, width, height);
    return gs_rt_leave_cu(result);
}

/* A box is one rectangle where its slices follow each other without rows between. */
static cudaError_t set_box(bool per_thread, struct cudaPitchedPtr box, int value,
                           struct cudaExtent extent, const cudaStream_t *stream)
{
    size_t slice_bytes, rows;
    cudaError_t error = cudaSuccess;

    if (__builtin_mul_overflow(box.pitch, box.ysize, &slice_bytes) ||
        __builtin_mul_overflow(extent.height, extent.depth, &rows))
        return gs_rt_leave(cudaErrorInvalidValue);
    if (extent.depth <= 1 || extent.height == box.ysize)
        return set_rectangle(per_thread, box.ptr, box.pitch, value, extent.width, rows,
                             stream);
    for (size_t z = 0; z < extent.depth && error == cudaSuccess; z++)
        error = set_rectangle(per_thread, (char *)box.ptr + z * slice_bytes, box.pitch,
                              value, extent.width, extent.height, stream);
    return error;
}

cudaError_t cudaMemset(void *devPtr, int value, size_t count)
{
    return set(false, devPtr, value, count, NULL);
}

cudaError_t cudaMemset_ptds(void *devPtr, int value, size_t count)
{
    return set(true, devPtr, value, count, NULL);
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
    return set(false, devPtr, value, count, &stream);
}

cudaError_t cudaMemsetAsync_ptsz(void *devPtr, int value, size_t count,
                                 cudaStream_t stream)
{
    return set(true, devPtr, value, count, &stream);
}

cudaError_t cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width,
                         size_t height)
{
    return set_rectangle(false, devPtr, pitch, value, width, height, NULL);
}

cudaError_t cudaMemset2D_ptds(void *devPtr, size_t pitch, int value, size_t width,
                              size_t height)
{
    return set_rectangle(true, devPtr, pitch, value, width, height, NULL);
}

cudaError_t cudaMemset2DAsync(void *devPtr, size_t pitch, int value, size_t width,
                              size_t height, cudaStream_t stream)
{
    return set_rectangle(false, devPtr, pitch, value, width, height, &stream);
}

cudaError_t cudaMemset2DAsync_ptsz(void *devPtr, size_t pitch, int value, size_t width,
                                   size_t height, cudaStream_t stream)
{
    return set_rectangle(true, devPtr, pitch, value, width, height, &stream);
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr pitchedDevPtr, int value,
                         struct cudaExtent extent)
{
    return set_box(false, pitchedDevPtr, value, extent, NULL);
}

cudaError_t cudaMemset3D_ptds(struct cudaPitchedPtr pitchedDevPtr, int value,
                              struct cudaExtent extent)
{
    return set_box(true, pitchedDevPtr, value, extent, NULL);
}

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr pitchedDevPtr, int value,
                              struct cudaExtent extent, cudaStream_t stream)
{
    return set_box(false, pitchedDevPtr, value, extent, &stream);
}

cudaError_t cudaMemset3DAsync_ptsz(struct cudaPitchedPtr pitchedDevPtr, int value,
                                   struct cudaExtent extent, cudaStream_t stream)
{
    return set_box(true, pitchedDevPtr, value, extent, &stream);
}
