/*
 * copy_array.c - copies with an array on a side: where the side lies, and the calls that
 * take a one-dimensional array and an offset.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, cuMemcpy2D, cuMemcpy3D, cuMemcpyHtoA and the functions beside it.
 */
#include "array.h"
#include "context.h"
#include "copy.h"

static bool fits(size_t from, size_t count, size_t size)
{
    return from <= size && count <= size - from;
}

CUresult sim_array_side(CUarray handle, size_t x, size_t y, size_t z,
                        const struct sim_extent3 *extent, struct sim_side *out)
{
    struct sim_array *array = sim_array_get(handle);
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    if (!array)
        return CUDA_ERROR_INVALID_VALUE;
    if (extent->row_bytes % array->element_bytes == 0 &&
        fits(x, extent->row_bytes, array->row_bytes) &&
        fits(y, extent->rows, array->rows) && fits(z, extent->slices, array->slices)) {
        *out = (struct sim_side){
            .kind = SIM_SIDE_ARRAY,
            .address = array->base + z * array->slice_pitch + y * array->pitch + x,
            .pitch = array->pitch,
            .slice_pitch = array->slice_pitch,
        };
        res = CUDA_SUCCESS;
    }
    sim_array_put(array);
    return res;
}

/* One call: which door, which default stream, how it waits. */
struct call {
    enum sim_api api;
    enum sim_variant variant;
    enum sim_sync sync;
};

#define CALL(sync) (&(const struct call){api, variant, SIM_##sync##_CALL})

/* One side: an array and an offset into its only row, or an address. */
struct end {
    enum sim_side_kind kind;
    uintptr_t address;
    CUarray array;
    size_t offset;
};

#define IN_ARRAY(handle, bytes)                                                          \
    (&(const struct end){.kind = SIM_SIDE_ARRAY, .array = (handle), .offset = (bytes)})
#define IN_DEVICE(pointer)                                                               \
    (&(const struct end){.kind = SIM_SIDE_DEVICE, .address = (pointer)})
#define IN_HOST(pointer)                                                                 \
    (&(const struct end){.kind = SIM_SIDE_HOST, .address = (uintptr_t)(pointer)})

static CUresult make_side(const struct end *end, const struct sim_extent3 *extent,
                          struct sim_side *out)
{
    if (end->kind == SIM_SIDE_ARRAY)
        return sim_array_side(end->array, end->offset, 0, 0, extent, out);
    *out = (struct sim_side){.kind = end->kind, .address = end->address};
    return CUDA_SUCCESS;
}

/* "The elements must be the same size" (cuMemcpyAtoA). */
static bool have_same_elements(CUarray left, CUarray right)
{
    struct sim_array *a = sim_array_get(left);
    struct sim_array *b = sim_array_get(right);
    bool same = a && b && a->element_bytes == b->element_bytes;

    if (a)
        sim_array_put(a);
    if (b)
        sim_array_put(b);
    return same;
}

static CUresult copy(const struct call *call, CUstream handle, const struct end *dst,
                     const struct end *src, size_t bytes)
{
    const struct sim_extent3 extent = {bytes, 1, 1};
    struct sim_context *context;
    struct sim_stream *stream;
    struct sim_side to, from;
    CUresult res = sim_enter_context(call->api, &context);

    if (res == CUDA_SUCCESS)
        res = make_side(dst, &extent, &to);
    if (res == CUDA_SUCCESS)
        res = make_side(src, &extent, &from);
    if (res == CUDA_SUCCESS)
        res = sim_stream_get(context, handle, call->variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    res = sim_copy(call->api, stream, call->sync, &to, &from, &extent);
    sim_stream_put(stream);
    return res;
}

SIM_API_TWINS(cuMemcpyHtoA_v2, ptds,
              (CUarray dst, size_t offset, const void *src, size_t bytes),
              copy(CALL(SYNC), NULL, IN_ARRAY(dst, offset), IN_HOST(src), bytes));

SIM_API_TWINS(cuMemcpyHtoAAsync_v2, ptsz,
              (CUarray dst, size_t offset, const void *src, size_t bytes,
               CUstream stream),
              copy(CALL(ASYNC), stream, IN_ARRAY(dst, offset), IN_HOST(src), bytes));

SIM_API_TWINS(cuMemcpyAtoH_v2, ptds,
              (void *dst, CUarray src, size_t offset, size_t bytes),
              copy(CALL(SYNC), NULL, IN_HOST(dst), IN_ARRAY(src, offset), bytes));

SIM_API_TWINS(cuMemcpyAtoHAsync_v2, ptsz,
              (void *dst, CUarray src, size_t offset, size_t bytes, CUstream stream),
              copy(CALL(ASYNC), stream, IN_HOST(dst), IN_ARRAY(src, offset), bytes));

SIM_API_TWINS(cuMemcpyDtoA_v2, ptds,
              (CUarray dst, size_t offset, CUdeviceptr src, size_t bytes),
              copy(CALL(SYNC), NULL, IN_ARRAY(dst, offset), IN_DEVICE(src), bytes));

SIM_API_TWINS(cuMemcpyAtoD_v2, ptds,
              (CUdeviceptr dst, CUarray src, size_t offset, size_t bytes),
              copy(CALL(SYNC), NULL, IN_DEVICE(dst), IN_ARRAY(src, offset), bytes));

static CUresult copy_arrays(const struct call *call, CUarray dst, size_t dst_offset,
                            CUarray src, size_t src_offset, size_t bytes)
{
    struct sim_context *context;

    if (!have_same_elements(dst, src)) {
        CUresult res = sim_enter_context(call->api, &context);
        return res == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : res;
    }
    return copy(call, NULL, IN_ARRAY(dst, dst_offset), IN_ARRAY(src, src_offset), bytes);
}

SIM_API_TWINS(cuMemcpyAtoA_v2, ptds,
              (CUarray dst, size_t dst_offset, CUarray src, size_t src_offset,
               size_t bytes),
              copy_arrays(CALL(SYNC), dst, dst_offset, src, src_offset, bytes));
