/*
 * api_copy_box.c - copies of two and three dimensions, between memory and arrays.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, cuMemcpy2D, cuMemcpy3D.
 */
#include "array.h"
#include "context.h"
#include "copy.h"

/* CU_DEVICE_ATTRIBUTE_MAX_PITCH: "returns an error if any pitch is greater" (cuMemcpy2D,
 * cuMemcpy3D); a driver has taken a greater one of host memory. */
#define MAX_PITCH_BYTES ((size_t)INT32_MAX)

/* One side as the parameter structs give it. */
struct corner {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    size_t x, y, z;
    size_t pitch, height;
    CUarray array;
};

static CUresult make_side(const struct corner *corner, const struct sim_extent3 *extent,
                          struct sim_side *out)
{
    size_t pitch = corner->pitch, slice, offset, part;

    switch ((int)corner->type) {
    case CU_MEMORYTYPE_HOST:
        *out = (struct sim_side){SIM_SIDE_HOST, (uintptr_t)corner->host, 0, 0};
        break;
    case CU_MEMORYTYPE_DEVICE:
        *out = (struct sim_side){SIM_SIDE_DEVICE, corner->device, 0, 0};
        break;
    case CU_MEMORYTYPE_UNIFIED:
        *out = (struct sim_side){SIM_SIDE_UNIFIED, corner->device, 0, 0};
        break;
    case CU_MEMORYTYPE_ARRAY:
        return sim_array_side(corner->array, corner->x, corner->y, corner->z, extent,
                              out);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!out->address || (out->kind != SIM_SIDE_HOST && pitch > MAX_PITCH_BYTES))
        return CUDA_ERROR_INVALID_VALUE;
    if (!pitch && __builtin_add_overflow(corner->x, extent->row_bytes, &pitch))
        return CUDA_ERROR_INVALID_VALUE;
    if (corner->x > pitch || extent->row_bytes > pitch - corner->x)
        return CUDA_ERROR_INVALID_VALUE;
    size_t height = corner->height ? corner->height : corner->y + extent->rows;
    if (extent->slices > 1 && (corner->y > height || extent->rows > height - corner->y))
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_mul_overflow(pitch, height, &slice) ||
        __builtin_mul_overflow(slice, corner->z, &offset) ||
        __builtin_mul_overflow(pitch, corner->y, &part) ||
        __builtin_add_overflow(offset, part, &offset) ||
        __builtin_add_overflow(offset, corner->x, &offset) ||
        __builtin_add_overflow(out->address, offset, &out->address))
        return CUDA_ERROR_INVALID_VALUE;
    out->pitch = pitch;
    out->slice_pitch = slice;
    return CUDA_SUCCESS;
}

static CUresult copy_box(enum sim_api api, enum sim_variant variant, enum sim_sync sync,
                         CUstream handle, const struct corner *dst,
                         const struct corner *src, const struct sim_extent3 *extent)
{
    struct sim_context *context;
    struct sim_stream *stream;
    struct sim_side to, from;

    SIM_TRY(sim_enter_context(api, &context));
    if (!extent->row_bytes || !extent->rows || !extent->slices)
        return CUDA_SUCCESS;
    CUresult res = make_side(dst, extent, &to);
    if (res == CUDA_SUCCESS)
        res = make_side(src, extent, &from);
    if (res == CUDA_SUCCESS)
        res = sim_stream_get(context, handle, variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    res = sim_copy(api, stream, sync, &to, &from, extent);
    sim_stream_put(stream);
    return res;
}

static CUresult copy_2d(enum sim_api api, enum sim_variant variant, enum sim_sync sync,
                        CUstream stream, const CUDA_MEMCPY2D *p)
{
    if (!p)
        return sim_unless_before_init(CUDA_ERROR_INVALID_VALUE);
    const struct corner dst = {p->dstMemoryType, p->dstHost, p->dstDevice,
                               p->dstXInBytes,   p->dstY,    0,
                               p->dstPitch,      0,          p->dstArray};
    const struct corner src = {p->srcMemoryType, p->srcHost, p->srcDevice,
                               p->srcXInBytes,   p->srcY,    0,
                               p->srcPitch,      0,          p->srcArray};
    const struct sim_extent3 extent = {p->WidthInBytes, p->Height, 1};

    return copy_box(api, variant, sync, stream, &dst, &src, &extent);
}

SIM_API_TWINS(cuMemcpy2D_v2, ptds, (const CUDA_MEMCPY2D *p),
              copy_2d(api, variant, SIM_SYNC_CALL, NULL, p));

SIM_API_TWINS(cuMemcpy2DUnaligned_v2, ptds, (const CUDA_MEMCPY2D *p),
              copy_2d(api, variant, SIM_SYNC_CALL, NULL, p));

SIM_API_TWINS(cuMemcpy2DAsync_v2, ptsz, (const CUDA_MEMCPY2D *p, CUstream stream),
              copy_2d(api, variant, SIM_ASYNC_CALL, stream, p));

/* The corners and the extent of a box. */
static void read_3d(const CUDA_MEMCPY3D *p, struct corner *dst, struct corner *src,
                    struct sim_extent3 *extent)
{
    *dst = (struct corner){p->dstMemoryType, p->dstHost,   p->dstDevice,
                           p->dstXInBytes,   p->dstY,      p->dstZ,
                           p->dstPitch,      p->dstHeight, p->dstArray};
    *src = (struct corner){p->srcMemoryType, p->srcHost,   p->srcDevice,
                           p->srcXInBytes,   p->srcY,      p->srcZ,
                           p->srcPitch,      p->srcHeight, p->srcArray};
    *extent = (struct sim_extent3){p->WidthInBytes, p->Height, p->Depth};
}

CUresult sim_copy_sides_3d(const CUDA_MEMCPY3D *p, struct sim_side *to,
                           struct sim_side *from, struct sim_extent3 *extent)
{
    struct corner dst, src;

    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    read_3d(p, &dst, &src, extent);
    if (!extent->row_bytes || !extent->rows || !extent->slices)
        return CUDA_SUCCESS;
    CUresult res = make_side(&dst, extent, to);
    return res == CUDA_SUCCESS ? make_side(&src, extent, from) : res;
}

CUresult sim_copy_prepare_3d(enum sim_api api, const CUDA_MEMCPY3D *p,
                             struct sim_op **out)
{
    struct sim_side to, from;
    struct sim_extent3 extent;
    bool waits;
    CUresult res = sim_copy_sides_3d(p, &to, &from, &extent);

    *out = NULL;
    if (res != CUDA_SUCCESS)
        return res;
    return sim_copy_prepare(api, SIM_ASYNC_CALL, &to, &from, &extent, out, &waits);
}

static CUresult copy_3d(enum sim_api api, enum sim_variant variant, enum sim_sync sync,
                        CUstream stream, const CUDA_MEMCPY3D *p)
{
    struct corner dst, src;
    struct sim_extent3 extent;

    if (!p)
        return sim_unless_before_init(CUDA_ERROR_INVALID_VALUE);
    read_3d(p, &dst, &src, &extent);

    return copy_box(api, variant, sync, stream, &dst, &src, &extent);
}

SIM_API_TWINS(cuMemcpy3D_v2, ptds, (const CUDA_MEMCPY3D *p),
              copy_3d(api, variant, SIM_SYNC_CALL, NULL, p));

SIM_API_TWINS(cuMemcpy3DAsync_v2, ptsz, (const CUDA_MEMCPY3D *p, CUstream stream),
              copy_3d(api, variant, SIM_ASYNC_CALL, stream, p));
