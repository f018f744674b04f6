/*
 * entry_stream.c - streams that are made.
 *
 * The lazy free has to know which streams there are (streams.h). In the other modes these
 * calls are only passed on, or made once more after idle memory was given back.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "marks.h"
#include "retry.h"
#include "single_order.h"
#include "streams.h"

/* Streams are told from the first call on: in which mode they are wanted is not known to
   a process that has not started the library yet. */
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

/* Its work is its device's primary context's, which is not current here. */
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
