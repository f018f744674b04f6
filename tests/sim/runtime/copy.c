/*
 * copy.c - copies of a plain range: cudaMemcpy, to and from a symbol, to a peer, in
 * batches. Each function stands twice, for the legacy default stream and, as _ptds or
 * _ptsz, for the per-thread one; both go through one helper that is told which.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

static bool is_direction(enum cudaMemcpyKind kind)
{
    return (unsigned)kind <= cudaMemcpyDefault;
}

/* Host to host and "default" leave it to the driver to find out (unified addressing). */
static CUresult copy_now(bool per_thread, void *dst, const void *src, size_t count,
                         enum cudaMemcpyKind kind)
{
    CUdeviceptr to = gs_rt_address(dst), from = gs_rt_address(src);

    switch (kind) {
    case cudaMemcpyHostToDevice:
        return RT_PICK(per_thread, cuMemcpyHtoD_v3020, cuMemcpyHtoD_v7000_ptds)(to, src,
                                                                                count);
    case cudaMemcpyDeviceToHost:
        return RT_PICK(per_thread, cuMemcpyDtoH_v3020, cuMemcpyDtoH_v7000_ptds)(dst, from,
                                                                                count);
    case cudaMemcpyDeviceToDevice:
        return RT_PICK(per_thread, cuMemcpyDtoD_v3020, cuMemcpyDtoD_v7000_ptds)(to, from,
                                                                                count);
    default:
        return RT_PICK(per_thread, cuMemcpy_v4000, cuMemcpy_v7000_ptds)(to, from, count);
    }
}

static CUresult copy_async(bool per_thread, void *dst, const void *src, size_t count,
                           enum cudaMemcpyKind kind, CUstream stream)
{
    CUdeviceptr to = gs_rt_address(dst), from = gs_rt_address(src);

    switch (kind) {
    case cudaMemcpyHostToDevice:
        return RT_PICK(per_thread, cuMemcpyHtoDAsync_v3020,
                       cuMemcpyHtoDAsync_v7000_ptsz)(to, src, count, stream);
    case cudaMemcpyDeviceToHost:
        return RT_PICK(per_thread, cuMemcpyDtoHAsync_v3020,
                       cuMemcpyDtoHAsync_v7000_ptsz)(dst, from, count, stream);
    case cudaMemcpyDeviceToDevice:
        return RT_PICK(per_thread, cuMemcpyDtoDAsync_v3020,
                       cuMemcpyDtoDAsync_v7000_ptsz)(to, from, count, stream);
    default:
        return RT_PICK(per_thread, cuMemcpyAsync_v4000,
                       cuMemcpyAsync_v7000_ptsz)(to, from, count, stream);
    }
}

static cudaError_t check(size_t count, enum cudaMemcpyKind kind, bool *nothing)
{
    cudaError_t error = gs_rt_enter();

    *nothing = count == 0;
    if (error != cudaSuccess)
        return error;
    return gs_rt_leave(is_direction(kind) ? cudaSuccess
                                          : cudaErrorInvalidMemcpyDirection);
}

static cudaError_t copy(bool per_thread, void *dst, const void *src, size_t count,
                        enum cudaMemcpyKind kind)
{
    bool nothing;
    cudaError_t error = check(count, kind, &nothing);

    if (error != cudaSuccess || nothing)
        return error;
    return gs_rt_leave_cu(copy_now(per_thread, dst, src, count, kind));
}

static cudaError_t copy_in_stream(bool per_thread, void *dst, const void *src,
                                  size_t count, enum cudaMemcpyKind kind,
                                  cudaStream_t stream)
{
    bool nothing;
    cudaError_t error = check(count, kind, &nothing);

    if (error != cudaSuccess || nothing)
        return error;
    return gs_rt_leave_cu(copy_async(per_thread, dst, src, count, kind, stream));
}

RT_TWINS(cudaMemcpy, ptds,
         (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
         copy(per_thread, dst, src, count, kind));

RT_TWINS(cudaMemcpyAsync, ptsz,
         (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
          cudaStream_t stream),
         copy_in_stream(per_thread, dst, src, count, kind, stream));

/* ---- symbols --------------------------------------------------------------------- */

/* Address of offset in symbol, if count bytes from there are inside it. */
static cudaError_t inside_symbol(const void *symbol, size_t offset, size_t count,
                                 void **address)
{
    CUdeviceptr base;
    size_t bytes, end;

    RT_TRY(gs_rt_enter());
    cudaError_t error = gs_rt_symbol(symbol, &base, &bytes);
    if (error == cudaSuccess &&
        (__builtin_add_overflow(offset, count, &end) || end > bytes))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *address = (void *)(uintptr_t)(base + offset);
    return gs_rt_leave(error);
}

static cudaError_t to_symbol(bool per_thread, const void *symbol, const void *src,
                             size_t count, size_t offset, enum cudaMemcpyKind kind)
{
    void *address = NULL;
    cudaError_t error = inside_symbol(symbol, offset, count, &address);

    return error == cudaSuccess ? copy(per_thread, address, src, count, kind) : error;
}

static cudaError_t from_symbol(bool per_thread, void *dst, const void *symbol,
                               size_t count, size_t offset, enum cudaMemcpyKind kind)
{
    void *address = NULL;
    cudaError_t error = inside_symbol(symbol, offset, count, &address);

    return error == cudaSuccess ? copy(per_thread, dst, address, count, kind) : error;
}

static cudaError_t to_symbol_async(bool per_thread, const void *symbol, const void *src,
                                   size_t count, size_t offset, enum cudaMemcpyKind kind,
                                   cudaStream_t stream)
{
    void *address = NULL;

    RT_TRY(inside_symbol(symbol, offset, count, &address));
    return copy_in_stream(per_thread, address, src, count, kind, stream);
}

static cudaError_t from_symbol_async(bool per_thread, void *dst, const void *symbol,
                                     size_t count, size_t offset,
                                     enum cudaMemcpyKind kind, cudaStream_t stream)
{
    void *address = NULL;

    RT_TRY(inside_symbol(symbol, offset, count, &address));
    return copy_in_stream(per_thread, dst, address, count, kind, stream);
}

RT_TWINS(cudaMemcpyToSymbol, ptds,
         (const void *symbol, const void *src, size_t count, size_t offset,
          enum cudaMemcpyKind kind),
         to_symbol(per_thread, symbol, src, count, offset, kind));

RT_TWINS(cudaMemcpyFromSymbol, ptds,
         (void *dst, const void *symbol, size_t count, size_t offset,
          enum cudaMemcpyKind kind),
         from_symbol(per_thread, dst, symbol, count, offset, kind));

RT_TWINS(cudaMemcpyToSymbolAsync, ptsz,
         (const void *symbol, const void *src, size_t count, size_t offset,
          enum cudaMemcpyKind kind, cudaStream_t stream),
         to_symbol_async(per_thread, symbol, src, count, offset, kind, stream));

RT_TWINS(cudaMemcpyFromSymbolAsync, ptsz,
         (void *dst, const void *symbol, size_t count, size_t offset,
          enum cudaMemcpyKind kind, cudaStream_t stream),
         from_symbol_async(per_thread, dst, symbol, count, offset, kind, stream));

/* ---- peers ----------------------------------------------------------------------- */

/* The primary contexts of both devices, and one that is current. */
static cudaError_t enter_with_peers(int dst_device, int src_device, CUcontext *dst,
                                    CUcontext *src)
{
    RT_TRY(gs_rt_enter());
    cudaError_t error = gs_rt_primary_context(dst_device, dst);
    if (error == cudaSuccess)
        error = gs_rt_primary_context(src_device, src);
    return gs_rt_leave(error);
}

cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice,
                           size_t count)
{
    CUcontext to, from;
    cudaError_t error = enter_with_peers(dstDevice, srcDevice, &to, &from);

    if (error != cudaSuccess || count == 0)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuMemcpyPeer_v4000(gs_rt_address(dst), to,
                                                      gs_rt_address(src), from, count));
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
                                size_t count, cudaStream_t stream)
{
    CUcontext to, from;
    cudaError_t error = enter_with_peers(dstDevice, srcDevice, &to, &from);

    if (error != cudaSuccess || count == 0)
        return error;
    return gs_rt_leave_cu(gs_rt_cu.cuMemcpyPeerAsync_v4000(
        gs_rt_address(dst), to, gs_rt_address(src), from, count, stream));
}

#if GS_RT_MAJOR >= 13
/* ---- batches --------------------------------------------------------------------- */

static_assert(sizeof(struct cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes),
              "the runtime's copy attributes are the driver's");

#endif
