/*
 * api_copy_peer.c - copies between contexts.
 * cuMemcpyPeer does not wait on the host, but is ordered with all work, earlier and
 * later, of the current, the source and the destination context. Owns:  nothing.   Lock:
 * none of its own. Source: Driver API, cuMemcpyPeer.
 */
#include "capture.h"
#include "context.h"
#include "copy.h"

struct peers {
    struct sim_context *current;
    struct sim_context *dst; /* with a reference */
    struct sim_context *src; /* with a reference */
};

static CUresult enter(enum sim_api api, CUcontext dst, CUcontext src, struct peers *out)
{
    CUresult res = sim_enter_context(api, &out->current);

    if (res != CUDA_SUCCESS)
        return res;
    out->dst = sim_context_get(dst);
    out->src = sim_context_get(src);
    if (out->dst && out->src && atomic_load(&out->dst->alive) &&
        atomic_load(&out->src->alive))
        return CUDA_SUCCESS;
    if (out->dst)
        sim_context_put(out->dst);
    if (out->src)
        sim_context_put(out->src);
    return CUDA_ERROR_INVALID_CONTEXT;
}

static void leave(struct peers *peers)
{
    sim_context_put(peers->dst);
    sim_context_put(peers->src);
}

/* Submit to the stream, ordered behind and before everything in all three contexts. */
static CUresult submit_serialized(struct sim_stream *stream, struct sim_op *op,
                                  const struct peers *peers)
{
    struct sim_context *all[3] = {peers->current, peers->dst, peers->src};
    CUresult res = CUDA_SUCCESS;

    for (unsigned i = 0; i < 3 && res == CUDA_SUCCESS; i++)
        res = sim_context_depend(all[i], op);
    if (res == CUDA_SUCCESS)
        res = sim_submit(stream, op);
    for (unsigned i = 0; i < 3 && res == CUDA_SUCCESS; i++) {
        if (i > 0 && all[i] == all[i - 1])
            continue;
        struct sim_op *behind = sim_op_new(SIM_OP_MARK, op->api, NULL);
        if (behind && sim_op_depend(behind, op))
            res = sim_context_bar(all[i], behind);
        else
            res = CUDA_ERROR_OUT_OF_MEMORY;
        sim_op_unref(behind);
    }
    return res;
}

static CUresult copy_peer(enum sim_api api, enum sim_variant variant, CUdeviceptr dst,
                          CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                          size_t bytes)
{
    const struct sim_side to = {.kind = SIM_SIDE_DEVICE, .address = dst};
    const struct sim_side from = {.kind = SIM_SIDE_DEVICE, .address = src};
    const struct sim_extent3 extent = {bytes, 1, 1};
    struct sim_stream *stream;
    struct peers peers;
    struct sim_op *op;
    bool waits;
    CUresult res = enter(api, dst_context, src_context, &peers);

    if (res != CUDA_SUCCESS)
        return res;
    res = sim_stream_get(peers.current, NULL, variant, &stream);
    if (res != CUDA_SUCCESS)
        goto leave_peers;
    res = sim_capture_check_sync(stream);
    if (res != CUDA_SUCCESS)
        goto put_stream;
    res = sim_copy_prepare(api, SIM_ASYNC_CALL, &to, &from, &extent, &op, &waits);
    if (res == CUDA_SUCCESS && op)
        res = submit_serialized(stream, op, &peers);
    sim_op_unref(op);
put_stream:
    sim_stream_put(stream);
leave_peers:
    leave(&peers);
    return res;
}

SIM_API(cuMemcpyPeer, CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
        CUcontext src_context, size_t bytes)
{
    return copy_peer(SIM_ID_cuMemcpyPeer, SIM_LEGACY, dst, dst_context, src, src_context,
                     bytes);
}

SIM_API(cuMemcpyPeer_ptds, CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
        CUcontext src_context, size_t bytes)
{
    return copy_peer(SIM_ID_cuMemcpyPeer_ptds, SIM_PER_THREAD, dst, dst_context, src,
                     src_context, bytes);
}

static CUresult copy_peer_async(enum sim_api api, enum sim_variant variant,
                                CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                                CUcontext src_context, size_t bytes, CUstream handle)
{
    const struct sim_side to = {.kind = SIM_SIDE_DEVICE, .address = dst};
    const struct sim_side from = {.kind = SIM_SIDE_DEVICE, .address = src};
    const struct sim_extent3 extent = {bytes, 1, 1};
    struct sim_stream *stream;
    struct peers peers;
    CUresult res = enter(api, dst_context, src_context, &peers);

    if (res != CUDA_SUCCESS)
        return res;
    res = sim_stream_get(peers.current, handle, variant, &stream);
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

SIM_API(cuMemcpyPeerAsync, CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
        CUcontext src_context, size_t bytes, CUstream stream)
{
    return copy_peer_async(SIM_ID_cuMemcpyPeerAsync, SIM_LEGACY, dst, dst_context, src,
                           src_context, bytes, stream);
}

SIM_API(cuMemcpyPeerAsync_ptsz, CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
        CUcontext src_context, size_t bytes, CUstream stream)
{
    return copy_peer_async(SIM_ID_cuMemcpyPeerAsync_ptsz, SIM_PER_THREAD, dst,
                           dst_context, src, src_context, bytes, stream);
}
