/*
 * entry_managed.c - managed memory, and the calls that give a range of it properties.
 *
 * These calls are also submissions, counted as in entry_submit.c. The range is marked
 * before the driver is called: whether the call succeeds or not, the range is freed
 * natively.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "managed.h"
#include "nvml.h"
#include "pool_lookup.h"
#include "submissions.h"

GS_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize,
                                     unsigned int flags)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_real()->cuMemAllocManaged(dptr, bytesize, flags);
    }
    gs_nvml_note_managed();
    CUresult result = gs_managed_alloc(state, dptr, bytesize, flags);
    gs_leave();
    return result;
}

/* A length that no allocation has. */
#define NOT_THE_WHOLE SIZE_MAX

/* ---- one range -----------------------------------------------------------------------
 */

/* Called before such a call, which gets *bytes as its length; gs_submission_end must
 * follow. */
static struct gs_calls *begin(CUdeviceptr dptr, size_t *bytes, uintptr_t stream)
{
    if (gs_enter()) {
        gs_managed_spoil(dptr, *bytes);
        *bytes = gs_managed_length(dptr, *bytes);
        gs_leave();
    }
    return gs_submission_begin(stream);
}

static CUresult end(struct gs_calls *own, CUresult result)
{
    gs_submission_end(own);
    return result;
}

GS_EXPORT CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                               CUdevice device)
{
    struct gs_calls *own = begin(devPtr, &count, 0);
    return end(own, gs_real()->cuMemAdvise(devPtr, count, advice, device));
}

GS_EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count,
                                      CUdevice dstDevice, CUstream hStream)
{
    struct gs_calls *own = begin(devPtr, &count, (uintptr_t)hStream);
    return end(own, gs_real()->cuMemPrefetchAsync(devPtr, count, dstDevice, hStream));
}

GS_EXPORT CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr devPtr, size_t count,
                                           CUdevice dstDevice, CUstream hStream)
{
    struct gs_calls *own =
        begin(devPtr, &count, gs_submissions_per_thread((uintptr_t)hStream));
    return end(own,
               gs_real()->cuMemPrefetchAsync_ptsz(devPtr, count, dstDevice, hStream));
}

/* The driver accepts the bytes of a whole allocation, or 0 for all of it. Its allocation
 * may be larger than the program's request: a length equal to the request must not reach
 * it. */
static struct gs_calls *begin_attach(CUdeviceptr dptr, size_t *length, uintptr_t stream)
{
    struct gs_extent extent;
    if (gs_enter()) {
        gs_managed_spoil(dptr, *length);
        if (*length > 0 && gs_managed_extent(dptr, &extent) == GS_OK &&
            extent.base == dptr) {
            *length = *length == extent.bytes ? 0 : NOT_THE_WHOLE;
        }
        gs_leave();
    }
    return gs_submission_begin(stream);
}

GS_EXPORT CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr,
                                          size_t length, unsigned int flags)
{
    struct gs_calls *own = begin_attach(dptr, &length, (uintptr_t)hStream);
    return end(own, gs_real()->cuStreamAttachMemAsync(hStream, dptr, length, flags));
}

GS_EXPORT CUresult cuStreamAttachMemAsync_ptsz(CUstream hStream, CUdeviceptr dptr,
                                               size_t length, unsigned int flags)
{
    struct gs_calls *own =
        begin_attach(dptr, &length, gs_submissions_per_thread((uintptr_t)hStream));
    return end(own, gs_real()->cuStreamAttachMemAsync_ptsz(hStream, dptr, length, flags));
}

GS_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                                  CUmemLocation location)
{
    struct gs_calls *own = begin(devPtr, &count, 0);
    return end(own, gs_real()->cuMemAdvise_v2(devPtr, count, advice, location));
}

GS_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count,
                                         CUmemLocation location, unsigned int flags,
                                         CUstream hStream)
{
    struct gs_calls *own = begin(devPtr, &count, (uintptr_t)hStream);
    return end(own,
               gs_real()->cuMemPrefetchAsync_v2(devPtr, count, location, flags, hStream));
}

GS_EXPORT CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count,
                                              CUmemLocation location, unsigned int flags,
                                              CUstream hStream)
{
    struct gs_calls *own =
        begin(devPtr, &count, gs_submissions_per_thread((uintptr_t)hStream));
    return end(own, gs_real()->cuMemPrefetchAsync_v2_ptsz(devPtr, count, location, flags,
                                                          hStream));
}

/* ---- many ranges ---------------------------------------------------------------------
 */

/* Like begin, for `count` ranges; a NULL list, which the driver refuses, names none. */
static struct gs_calls *begin_all(const CUdeviceptr *dptrs, const size_t *sizes,
                                  size_t count, uintptr_t stream)
{
    if (dptrs && sizes && gs_enter()) {
        for (size_t i = 0; i < count; i++) {
            gs_managed_spoil(dptrs[i], sizes[i]);
        }
        gs_leave();
    }
    return gs_submission_begin(stream);
}

GS_EXPORT CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes,
                                           size_t count, CUmemLocation *prefetchLocs,
                                           size_t *prefetchLocIdxs,
                                           size_t numPrefetchLocs,
                                           unsigned long long flags, CUstream hStream)
{
    struct gs_calls *own = begin_all(dptrs, sizes, count, (uintptr_t)hStream);
    return end(own, gs_real()->cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs,
                                                       prefetchLocIdxs, numPrefetchLocs,
                                                       flags, hStream));
}

GS_EXPORT CUresult cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes,
                                                size_t count, CUmemLocation *prefetchLocs,
                                                size_t *prefetchLocIdxs,
                                                size_t numPrefetchLocs,
                                                unsigned long long flags,
                                                CUstream hStream)
{
    struct gs_calls *own =
        begin_all(dptrs, sizes, count, gs_submissions_per_thread((uintptr_t)hStream));
    return end(own, gs_real()->cuMemPrefetchBatchAsync_ptsz(
                        dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
                        numPrefetchLocs, flags, hStream));
}

GS_EXPORT CUresult cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                          unsigned long long flags, CUstream hStream)
{
    struct gs_calls *own = begin_all(dptrs, sizes, count, (uintptr_t)hStream);
    return end(own,
               gs_real()->cuMemDiscardBatchAsync(dptrs, sizes, count, flags, hStream));
}

GS_EXPORT CUresult cuMemDiscardBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes,
                                               size_t count, unsigned long long flags,
                                               CUstream hStream)
{
    struct gs_calls *own =
        begin_all(dptrs, sizes, count, gs_submissions_per_thread((uintptr_t)hStream));
    return end(
        own, gs_real()->cuMemDiscardBatchAsync_ptsz(dptrs, sizes, count, flags, hStream));
}

GS_EXPORT CUresult cuMemDiscardAndPrefetchBatchAsync(
    CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs,
    size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
    CUstream hStream)
{
    struct gs_calls *own = begin_all(dptrs, sizes, count, (uintptr_t)hStream);
    return end(own, gs_real()->cuMemDiscardAndPrefetchBatchAsync(
                        dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
                        numPrefetchLocs, flags, hStream));
}

GS_EXPORT CUresult cuMemDiscardAndPrefetchBatchAsync_ptsz(
    CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs,
    size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
    CUstream hStream)
{
    struct gs_calls *own =
        begin_all(dptrs, sizes, count, gs_submissions_per_thread((uintptr_t)hStream));
    return end(own, gs_real()->cuMemDiscardAndPrefetchBatchAsync_ptsz(
                        dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
                        numPrefetchLocs, flags, hStream));
}
