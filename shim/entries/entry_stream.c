/*
 * entry_stream.c - streams that are made, and peers by way of imported memory.
 *
 * What the lazy free has to know: which streams there are (streams.h), and which contexts
 * may reach memory of others. In the other modes these calls are only passed on, or made
 * once more after idle memory was given back.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "imports.h"
#include "marks.h"
#include "retry.h"
#include "single_order.h"
#include "streams.h"

/* Streams are told from the first call on: in which mode they are wanted is not known to
   a process that has not started the library yet. */
static CUresult made(CUresult result, const CUstream *stream)
{
    if (result == CUDA_SUCCESS && stream) {
        gs_streams_add(*stream);
    }
    return result;
}

GS_EXPORT CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    gs_single_order_stream("cuStreamCreate", Flags);
    CUresult result = gs_real()->cuStreamCreate(phStream, Flags);
    if (gs_retry_needed(result)) {
        result = gs_real()->cuStreamCreate(phStream, Flags);
    }
    return made(result, phStream);
}

GS_EXPORT CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags,
                                              int priority)
{
    const struct gs_real *real = gs_real();
    gs_single_order_stream("cuStreamCreateWithPriority", flags);
    CUresult result = real->cuStreamCreateWithPriority(phStream, flags, priority);
    if (gs_retry_needed(result)) {
        result = real->cuStreamCreateWithPriority(phStream, flags, priority);
    }
    return made(result, phStream);
}

#if CUDA_VERSION >= 12050
/* Its work is its device's primary context's, which is not current here. */
GS_EXPORT CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx,
                                          unsigned int flags, int priority)
{
    gs_streams_end_proof();
    gs_single_order_end("cuGreenCtxStreamCreate");
    return gs_real()->cuGreenCtxStreamCreate(phStream, greenCtx, flags, priority);
}
#endif

/* ---- imported memory --------------------------------------------------------------- */

/* "enable peer access between the devices": of the current context to any other's. */
static CUresult opened(CUresult result, const CUdeviceptr *addr, unsigned int flags,
                       enum gs_api api)
{
    struct gs_state *state;
    if (result == CUDA_SUCCESS) {
        gs_imports_opened(*addr, api);
    }
    if (result != CUDA_SUCCESS || !(flags & CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ||
        !(state = gs_enter())) {
        return result;
    }
    const struct gs_context *context = gs_context_current(state);
    if (context && state->options.free_sync == GS_FREE_SYNC_LAZY) {
        gs_context_share(state, NULL, context->handle);
    }
    gs_leave();
    return result;
}

GS_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle,
                                      unsigned int Flags)
{
    return opened(gs_real()->cuIpcOpenMemHandle(pdptr, handle, Flags), pdptr, Flags,
                  GS_API_cuIpcOpenMemHandle);
}

GS_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle,
                                         unsigned int Flags)
{
    return opened(gs_real()->cuIpcOpenMemHandle_v2(pdptr, handle, Flags), pdptr, Flags,
                  GS_API_cuIpcOpenMemHandle_v2);
}
