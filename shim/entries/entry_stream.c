/*
 * entry_stream.c - the creation of streams.
 *
 * Lazy frees need the table of streams (streams.h). In the other modes these calls are
 * only forwarded, and repeated after idle memory was reclaimed.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "marks.h"
#include "retry.h"
#include "single_order.h"
#include "streams.h"

/* Streams are recorded from the first call on: a process that has not started the library
 * yet does not know its mode. */
static CUresult made(CUresult result, const CUstream *stream, unsigned flags)
{
    if (result == CUDA_SUCCESS && stream) {
        gs_streams_add(*stream, !(flags & CU_STREAM_NON_BLOCKING));
    }
    return result;
}

GS_EXPORT CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    gs_single_order_stream("cuStreamCreate", Flags);
    CUresult result =
        GS_RETRIED(gs_retry_needed, gs_real()->cuStreamCreate(phStream, Flags));
    return made(result, phStream, Flags);
}

GS_EXPORT CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags,
                                              int priority)
{
    const struct gs_real *real = gs_real();
    gs_single_order_stream("cuStreamCreateWithPriority", flags);
    CUresult result = GS_RETRIED(
        gs_retry_needed, real->cuStreamCreateWithPriority(phStream, flags, priority));
    return made(result, phStream, flags);
}

/* Its work belongs to the device's primary context, which is not current here. */
GS_EXPORT CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx,
                                          unsigned int flags, int priority)
{
    const struct gs_real *real = gs_real();
    gs_streams_end_proof();
    gs_single_order_end("cuGreenCtxStreamCreate");
    CUresult result =
        GS_RETRIED(gs_retry_everywhere,
                   real->cuGreenCtxStreamCreate(phStream, greenCtx, flags, priority));
    if (result == CUDA_SUCCESS && phStream) {
        gs_submissions_meet_stream((uintptr_t)*phStream, -1);
    }
    return result;
}
