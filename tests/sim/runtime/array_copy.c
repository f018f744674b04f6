/*
 * array_copy.c - copies with CUDA arrays that take a rectangle, or a number of bytes that
 * goes on from row to row. The latter are at most three rectangles: the rest of the first
 * row, whole rows, the beginning of the last.
 * Owns:  nothing.   Lock: none.
 * Source: CUDA Runtime API, cudaMemcpy2DToArray, cudaMemcpyToArray and those beside them.
 */
#include "rt.h"

#include <string.h>

/* Where a call is done: which default stream, and on which stream, if asynchronously. */
struct place {
    bool per_thread;
    const cudaStream_t *stream; /* NULL: synchronously */
};

#define NOW(thread)            (&(const struct place){thread, NULL})
#define ON(thread, the_stream) (&(const struct place){thread, &(the_stream)})

/* One end of a copy. */
struct side {
    cudaArray_const_t array; /* NULL: memory */
    const void *pointer;
    size_t x, y;  /* bytes, rows; an array's */
    size_t pitch; /* a pointer's */
};

/* What kind says of the memory that is no array. */
static cudaError_t memory_type(enum cudaMemcpyKind kind, bool is_source,
                               CUmemorytype *type)
{
    bool host = is_source
                    ? kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice
                    : kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost;

    if ((unsigned)kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    *type = kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED
            : host                    ? CU_MEMORYTYPE_HOST
                                      : CU_MEMORYTYPE_DEVICE;
    return cudaSuccess;
}

static cudaError_t copy_rectangle(const struct place *place, const struct side *dst,
                                  const struct side *src, size_t width, size_t height,
                                  enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D copy = {.srcXInBytes = src->x,
                          .srcY = src->y,
                          .srcHost = src->pointer,
                          .srcDevice = gs_rt_address(src->pointer),
                          .srcArray = (CUarray)src->array,
                          .srcPitch = src->pitch,
                          .dstXInBytes = dst->x,
                          .dstY = dst->y,
                          .dstHost = (void *)(uintptr_t)dst->pointer,
                          .dstDevice = gs_rt_address(dst->pointer),
                          .dstArray = (CUarray)dst->array,
                          .dstPitch = dst->pitch,
                          .WidthInBytes = width,
                          .Height = height};
    cudaError_t error = memory_type(kind, true, &copy.srcMemoryType);

    if (error == cudaSuccess)
        error = memory_type(kind, false, &copy.dstMemoryType);
    if (error != cudaSuccess)
        return error;
    if (src->array)
        copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    if (dst->array)
        copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    if ((!src->array && src->pitch < width) || (!dst->array && dst->pitch < width))
        return cudaErrorInvalidPitchValue;
    if (width == 0 || height == 0)
        return cudaSuccess;
    if (place->stream)
        return gs_rt_error_of(RT_PICK(place->per_thread, cuMemcpy2DAsync_v3020,
                                      cuMemcpy2DAsync_v7000_ptsz)(&copy, *place->stream));
    return gs_rt_error_of(RT_PICK(place->per_thread, cuMemcpy2DUnaligned_v3020,
                                  cuMemcpy2DUnaligned_v7000_ptds)(&copy));
}

static cudaError_t copy_2d(const struct place *place, const struct side *dst,
                           const struct side *src, size_t width, size_t height,
                           enum cudaMemcpyKind kind)
{
    RT_TRY(gs_rt_enter());
    return gs_rt_leave(copy_rectangle(place, dst, src, width, height, kind));
}

/* Bytes in a row of an array. */
static cudaError_t row_bytes(cudaArray_const_t array, size_t *out)
{
    CUDA_ARRAY3D_DESCRIPTOR desc;
    size_t element;
    cudaError_t error = gs_rt_describe_array(array, &desc, &element);

    if (error == cudaSuccess)
        *out = desc.Width * element;
    return error;
}

/* Copy a rectangle and step both ends over it: an array by rows or bytes, memory by
 * bytes. */
static cudaError_t copy_piece(const struct place *place, struct side *dst,
                              struct side *src, size_t width, size_t height,
                              enum cudaMemcpyKind kind)
{
    struct side *sides[2] = {dst, src};

    dst->pitch = src->pitch = width;
    cudaError_t error = copy_rectangle(place, dst, src, width, height, kind);
    for (unsigned i = 0; i < 2; i++) {
        if (sides[i]->array)
            sides[i]->x += width;
        else
            sides[i]->pointer = (const char *)sides[i]->pointer + width * height;
    }
    return error;
}

/* The array's end goes to the beginning of the next row. */
static void next_row(struct side *side, size_t row, size_t rows)
{
    if (side->array && side->x >= row) {
        side->x = 0;
        side->y += rows;
    }
}

/* Of two arrays the one with the nearer end of a row decides how long a piece is. */
static cudaError_t copy_linear(const struct place *place, struct side dst,
                               struct side src, size_t count, enum cudaMemcpyKind kind)
{
    size_t dst_row = SIZE_MAX, src_row = SIZE_MAX;
    cudaError_t error = gs_rt_enter();

    if (error != cudaSuccess)
        return error;
    if (dst.array)
        error = row_bytes(dst.array, &dst_row);
    if (error == cudaSuccess && src.array)
        error = row_bytes(src.array, &src_row);
    if (error == cudaSuccess &&
        ((dst.array && dst.x >= dst_row) || (src.array && src.x >= src_row)) && count > 0)
        error = cudaErrorInvalidValue;
    while (error == cudaSuccess && count > 0) {
        size_t width = count, rows = 1;
        if (dst.array && width > dst_row - dst.x)
            width = dst_row - dst.x;
        if (src.array && width > src_row - src.x)
            width = src_row - src.x;
        if (dst.x == 0 && src.x == 0 && (!dst.array || width == dst_row) &&
            (!src.array || width == src_row))
            rows = count / width;
        error = copy_piece(place, &dst, &src, width, rows, kind);
        next_row(&dst, dst_row, rows);
        next_row(&src, src_row, rows);
        count -= width * rows;
    }
    return gs_rt_leave(error);
}

#define ARRAY(handle, column, row)                                                       \
    ((const struct side){.array = (handle), .x = (column), .y = (row)})
#define MEMORY(address, bytes)                                                           \
    ((const struct side){.pointer = (address), .pitch = (bytes)})

/* Both ends of a rectangle, by address. */
#define RECTANGLE(place, dst, src, width, height, kind)                                  \
    copy_2d(place, &(dst), &(src), width, height, kind)

/* ---- rectangles ---------------------------------------------------------------------
 */

RT_TWINS(cudaMemcpy2DToArray, ptds,
         (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
          size_t width, size_t height, enum cudaMemcpyKind kind),
         RECTANGLE(NOW(per_thread), ARRAY(dst, wOffset, hOffset), MEMORY(src, spitch),
                   width, height, kind));

RT_TWINS(cudaMemcpy2DToArrayAsync, ptsz,
         (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
          size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
         RECTANGLE(ON(per_thread, stream), ARRAY(dst, wOffset, hOffset),
                   MEMORY(src, spitch), width, height, kind));

RT_TWINS(cudaMemcpy2DFromArray, ptds,
         (void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset,
          size_t width, size_t height, enum cudaMemcpyKind kind),
         RECTANGLE(NOW(per_thread), MEMORY(dst, dpitch), ARRAY(src, wOffset, hOffset),
                   width, height, kind));

RT_TWINS(cudaMemcpy2DFromArrayAsync, ptsz,
         (void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset,
          size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
         RECTANGLE(ON(per_thread, stream), MEMORY(dst, dpitch),
                   ARRAY(src, wOffset, hOffset), width, height, kind));

RT_TWINS(cudaMemcpy2DArrayToArray, ptds,
         (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
          size_t wOffsetSrc, size_t hOffsetSrc, size_t width, size_t height,
          enum cudaMemcpyKind kind),
         RECTANGLE(NOW(per_thread), ARRAY(dst, wOffsetDst, hOffsetDst),
                   ARRAY(src, wOffsetSrc, hOffsetSrc), width, height, kind));

/* ---- bytes in a row -----------------------------------------------------------------
 */

RT_TWINS(cudaMemcpyToArray, ptds,
         (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count,
          enum cudaMemcpyKind kind),
         copy_linear(NOW(per_thread), ARRAY(dst, wOffset, hOffset), MEMORY(src, 0), count,
                     kind));

RT_TWINS(cudaMemcpyToArrayAsync, ptsz,
         (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count,
          enum cudaMemcpyKind kind, cudaStream_t stream),
         copy_linear(ON(per_thread, stream), ARRAY(dst, wOffset, hOffset), MEMORY(src, 0),
                     count, kind));

RT_TWINS(cudaMemcpyFromArray, ptds,
         (void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
          enum cudaMemcpyKind kind),
         copy_linear(NOW(per_thread), MEMORY(dst, 0), ARRAY(src, wOffset, hOffset), count,
                     kind));

RT_TWINS(cudaMemcpyFromArrayAsync, ptsz,
         (void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
          enum cudaMemcpyKind kind, cudaStream_t stream),
         copy_linear(ON(per_thread, stream), MEMORY(dst, 0), ARRAY(src, wOffset, hOffset),
                     count, kind));

RT_TWINS(cudaMemcpyArrayToArray, ptds,
         (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
          size_t wOffsetSrc, size_t hOffsetSrc, size_t count, enum cudaMemcpyKind kind),
         copy_linear(NOW(per_thread), ARRAY(dst, wOffsetDst, hOffsetDst),
                     ARRAY(src, wOffsetSrc, hOffsetSrc), count, kind));
