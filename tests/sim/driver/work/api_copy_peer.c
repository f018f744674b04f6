/*
 * api_copy_peer.c - copies between contexts.
 * cuMemcpyPeer does not wait on the host, but is ordered with all work, earlier and
 * later, of the current, the source and the destination context; cuMemcpy3DPeer likewise,
 * and waits as cuMemcpy3D does where a side is host memory. Such a side names no context
 * here; that of an array is its own.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, cuMemcpyPeer, cuMemcpy3DPeer, CUDA_MEMCPY3D_PEER.
 */
#include "array.h"
#include "capture.h"
#include "context.h"
#include "copy.h"

struct peers {
    struct sim_context *current;
    struct sim_context *dst; /* with a reference */
    struct sim_context *src; /* with a reference */
};

/* Out: both with a reference, which leave() drops. */
static CUresult find(struct peers *out, struct sim_context *dst, struct sim_context *src)
{
    out->dst = dst;
    out->src = src;
    if (out->dst && out->src && atomic_load(&out->dst->alive) &&
        atomic_load(&out->src->alive))
        return CUDA_SUCCESS;
    if (out->dst)
        sim_context_put(out->dst);
    if (out->src)
        sim_context_put(out->src);
    return CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult enter(enum sim_api api, CUcontext dst, CUcontext src, struct peers *out)
{
    SIM_TRY(sim_enter_context(api, &out->current));
    return find(out, sim_context_get(dst), sim_context_get(src));
}

static void leave(struct peers *peers)
{
    sim_context_put(peers->dst);
    sim_context_put(peers->src);
}

/* Copy between the contexts; waited for as a copy within one context would be. */
static CUresult copy_serialized(enum sim_api api, enum sim_variant variant,
                                enum sim_sync sync, const struct peers *peers,
                                const struct sim_side *to, const struct sim_side *from,
                                const struct sim_extent3 *extent)
{
    struct sim_context *const all[3] = {peers->current, peers->dst, peers->src};
    struct sim_stream *stream;
    struct sim_op *op;
    bool waits;

    SIM_TRY(sim_stream_get(peers->current, NULL, variant, &stream));
    CUresult res = sim_capture_check_sync(stream);
    for (unsigned i = 1; i < GS_ARRAY_LEN(all) && res == CUDA_SUCCESS; i++)
        res = sim_capture_check_context(all[i]);
    if (res != CUDA_SUCCESS)
        goto put_stream;
    res = sim_copy_prepare(api, sync, to, from, extent, &op, &waits);
    if (res == CUDA_SUCCESS && op)
        res = sim_submit_serialized(stream, op, all, GS_ARRAY_LEN(all));
    if (res == CUDA_SUCCESS && waits)
        res = sim_stream_wait(stream);
    sim_op_unref(op);
put_stream:
    sim_stream_put(stream);
    return res;
}

static CUresult copy_peer(enum sim_api api, enum sim_variant variant, CUdeviceptr dst,
                          CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                          size_t bytes)
{
    const struct sim_side to = {.kind = SIM_SIDE_DEVICE, .address = dst};
    const struct sim_side from = {.kind = SIM_SIDE_DEVICE, .address = src};
    const struct sim_extent3 extent = {bytes, 1, 1};
    struct peers peers;

    SIM_TRY(enter(api, dst_context, src_context, &peers));
    CUresult res =
        copy_serialized(api, variant, SIM_ASYNC_CALL, &peers, &to, &from, &extent);
    leave(&peers);
    return res;
}

SIM_API_TWINS(cuMemcpyPeer, ptds,
              (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
               CUcontext src_context, size_t bytes),
              copy_peer(api, variant, dst, dst_context, src, src_context, bytes));

static CUresult copy_peer_async(enum sim_api api, enum sim_variant variant,
                                CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                                CUcontext src_context, size_t bytes, CUstream handle)
{
    const struct sim_side to = {.kind = SIM_SIDE_DEVICE, .address = dst};
    const struct sim_side from = {.kind = SIM_SIDE_DEVICE, .address = src};
    const struct sim_extent3 extent = {bytes, 1, 1};
    struct sim_stream *stream;
    struct peers peers;

    SIM_TRY(enter(api, dst_context, src_context, &peers));
    CUresult res = sim_stream_get(peers.current, handle, variant, &stream);
    if (res == CUDA_SUCCESS && sim_is_strict(SIM_RULE_peer_copy)) {
        res = copy_peer(api, variant, dst, dst_context, src, src_context, bytes);
        sim_stream_put(stream);
    } else if (res == CUDA_SUCCESS) {
        res = sim_copy(api, stream, SIM_ASYNC_CALL, &to, &from, &extent);
        sim_stream_put(stream);
    }
    leave(&peers);
    return res;
}

SIM_API_TWINS(cuMemcpyPeerAsync, ptsz,
              (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
               CUcontext src_context, size_t bytes, CUstream stream),
              copy_peer_async(api, variant, dst, dst_context, src, src_context, bytes,
                              stream));

/* ---- boxes ------------------------------------------------------------------------- */

/* The same box for a copy within one context. */
static CUDA_MEMCPY3D without_contexts(const CUDA_MEMCPY3D_PEER *p)
{
    return (CUDA_MEMCPY3D){
        .srcXInBytes = p->srcXInBytes,
        .srcY = p->srcY,
        .srcZ = p->srcZ,
        .srcLOD = p->srcLOD,
        .srcMemoryType = p->srcMemoryType,
        .srcHost = p->srcHost,
        .srcDevice = p->srcDevice,
        .srcArray = p->srcArray,
        .srcPitch = p->srcPitch,
        .srcHeight = p->srcHeight,
        .dstXInBytes = p->dstXInBytes,
        .dstY = p->dstY,
        .dstZ = p->dstZ,
        .dstLOD = p->dstLOD,
        .dstMemoryType = p->dstMemoryType,
        .dstHost = p->dstHost,
        .dstDevice = p->dstDevice,
        .dstArray = p->dstArray,
        .dstPitch = p->dstPitch,
        .dstHeight = p->dstHeight,
        .WidthInBytes = p->WidthInBytes,
        .Height = p->Height,
        .Depth = p->Depth,
    };
}

/* The context of one side, with a reference, NULL if it has none. */
static struct sim_context *context_of(CUmemorytype type, CUcontext named, CUarray handle,
                                      struct sim_context *current)
{
    if (type == CU_MEMORYTYPE_ARRAY) {
        struct sim_array *array = sim_array_get(handle);
        if (array) {
            current = array->context;
            sim_array_put(array);
        }
    } else if (type != CU_MEMORYTYPE_HOST) {
        return sim_context_get(named);
    }
    sim_object_ref(&current->object);
    return current;
}

static CUresult enter_box(enum sim_api api, const CUDA_MEMCPY3D_PEER *p,
                          struct peers *peers)
{
    SIM_TRY(sim_enter_context(api, &peers->current));
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    return find(peers,
                context_of(p->dstMemoryType, p->dstContext, p->dstArray, peers->current),
                context_of(p->srcMemoryType, p->srcContext, p->srcArray, peers->current));
}

static CUresult copy_box_peer(enum sim_api api, enum sim_variant variant,
                              const CUDA_MEMCPY3D_PEER *p)
{
    struct sim_extent3 extent;
    struct sim_side to, from;
    struct peers peers;

    SIM_TRY(enter_box(api, p, &peers));
    const CUDA_MEMCPY3D box = without_contexts(p);
    CUresult res = sim_copy_sides_3d(&box, &to, &from, &extent);
    if (res == CUDA_SUCCESS)
        res = copy_serialized(api, variant, SIM_SYNC_CALL, &peers, &to, &from, &extent);
    leave(&peers);
    return res;
}

SIM_API_TWINS(cuMemcpy3DPeer, ptds, (const CUDA_MEMCPY3D_PEER *p),
              copy_box_peer(api, variant, p));

static CUresult copy_box_peer_async(enum sim_api api, enum sim_variant variant,
                                    const CUDA_MEMCPY3D_PEER *p, CUstream handle)
{
    struct sim_extent3 extent;
    struct sim_side to, from;
    struct sim_stream *stream;
    struct peers peers;

    SIM_TRY(enter_box(api, p, &peers));
    const CUDA_MEMCPY3D box = without_contexts(p);
    CUresult res = sim_stream_get(peers.current, handle, variant, &stream);
    if (res == CUDA_SUCCESS) {
        res = sim_copy_sides_3d(&box, &to, &from, &extent);
        if (res == CUDA_SUCCESS)
            res = sim_copy(api, stream, SIM_ASYNC_CALL, &to, &from, &extent);
        sim_stream_put(stream);
    }
    leave(&peers);
    return res;
}

SIM_API_TWINS(cuMemcpy3DPeerAsync, ptsz, (const CUDA_MEMCPY3D_PEER *p, CUstream stream),
              copy_box_peer_async(api, variant, p, stream));
