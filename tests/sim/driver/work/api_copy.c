/*
 * api_copy.c - copies of contiguous memory: every cuMemcpy of a pointer and a length.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Memory Management".
 */
#include "context.h"
#include "copy.h"

/* One call: which door, which default stream, how it waits. */
struct call {
    enum sim_api api;
    enum sim_variant variant;
    enum sim_sync sync;
};

static CUresult copy(const struct call *call, CUstream handle,
                     enum sim_side_kind dst_kind, uintptr_t dst,
                     enum sim_side_kind src_kind, uintptr_t src, size_t bytes)
{
    struct sim_context *context;
    struct sim_stream *stream;
    const struct sim_side to = {.kind = dst_kind, .address = dst};
    const struct sim_side from = {.kind = src_kind, .address = src};
    const struct sim_extent3 extent = {bytes, 1, 1};

    SIM_TRY(sim_enter_context(call->api, &context));
    SIM_TRY(sim_stream_get(context, handle, call->variant, &stream));
    CUresult res = sim_copy(call->api, stream, call->sync, &to, &from, &extent);
    sim_stream_put(stream);
    return res;
}

#define CALL(sync) (&(const struct call){api, variant, SIM_##sync##_CALL})

SIM_API_TWINS(cuMemcpy, ptds, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
              copy(CALL(SYNC), NULL, SIM_SIDE_UNIFIED, dst, SIM_SIDE_UNIFIED, src,
                   bytes));

SIM_API_TWINS(cuMemcpyAsync, ptsz,
              (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
              copy(CALL(ASYNC), stream, SIM_SIDE_UNIFIED, dst, SIM_SIDE_UNIFIED, src,
                   bytes));

SIM_API_TWINS(cuMemcpyHtoD_v2, ptds, (CUdeviceptr dst, const void *src, size_t bytes),
              copy(CALL(SYNC), NULL, SIM_SIDE_DEVICE, dst, SIM_SIDE_HOST, (uintptr_t)src,
                   bytes));

SIM_API_TWINS(cuMemcpyHtoDAsync_v2, ptsz,
              (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream),
              copy(CALL(ASYNC), stream, SIM_SIDE_DEVICE, dst, SIM_SIDE_HOST,
                   (uintptr_t)src, bytes));

SIM_API_TWINS(cuMemcpyDtoH_v2, ptds, (void *dst, CUdeviceptr src, size_t bytes),
              copy(CALL(SYNC), NULL, SIM_SIDE_HOST, (uintptr_t)dst, SIM_SIDE_DEVICE, src,
                   bytes));

SIM_API_TWINS(cuMemcpyDtoHAsync_v2, ptsz,
              (void *dst, CUdeviceptr src, size_t bytes, CUstream stream),
              copy(CALL(ASYNC), stream, SIM_SIDE_HOST, (uintptr_t)dst, SIM_SIDE_DEVICE,
                   src, bytes));

SIM_API_TWINS(cuMemcpyDtoD_v2, ptds, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
              copy(CALL(SYNC), NULL, SIM_SIDE_DEVICE, dst, SIM_SIDE_DEVICE, src, bytes));

SIM_API_TWINS(cuMemcpyDtoDAsync_v2, ptsz,
              (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
              copy(CALL(ASYNC), stream, SIM_SIDE_DEVICE, dst, SIM_SIDE_DEVICE, src,
                   bytes));
