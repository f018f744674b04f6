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

RT_TWINS(cudaMemset, ptds, (void *devPtr, int value, size_t count),
         set(per_thread, devPtr, value, count, NULL));

RT_TWINS(cudaMemsetAsync, ptsz,
         (void *devPtr, int value, size_t count, cudaStream_t stream),
         set(per_thread, devPtr, value, count, &stream));

RT_TWINS(cudaMemset2D, ptds,
         (void *devPtr, size_t pitch, int value, size_t width, size_t height),
         set_rectangle(per_thread, devPtr, pitch, value, width, height, NULL));

RT_TWINS(cudaMemset2DAsync, ptsz,
         (void *devPtr, size_t pitch, int value, size_t width, size_t height,
          cudaStream_t stream),
         set_rectangle(per_thread, devPtr, pitch, value, width, height, &stream));

RT_TWINS(cudaMemset3D, ptds,
         (struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent),
         set_box(per_thread, pitchedDevPtr, value, extent, NULL));

RT_TWINS(cudaMemset3DAsync, ptsz,
         (struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent,
          cudaStream_t stream),
         set_box(per_thread, pitchedDevPtr, value, extent, &stream));
