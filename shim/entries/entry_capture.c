/*
 * entry_capture.c - the begin and end of stream captures.
 *
 * A begin is counted before the real call and uncounted if it failed; an end is uncounted
 * after the real call. So no allocation or free can miss a capture.
 *
 * Owns:  nothing.   Lock: none; the set of captures locks itself.
 */
#include "shim/async/async_heaps.h"
#include "shim/order/capture_gate.h"
#include "shim/order/captures.h"
#include "shim/order/context_events.h"
#include "shim/order/free_lazy.h"
#include "shim/order/own_handles.h"
#include "shim/order/single_order.h"
#include "shim/order/streams.h"
#include "shim/state/context_switch.h"
#include "shim/state/state.h"
#include "shim/trace/trace.h"

/* The contexts with which a stream ends. */
struct home {
    CUcontext context; /* NULL: not known */
    CUgreenCtx green;  /* NULL: none */
};

/* The stream of a green context belongs to the device's primary context. Only the second
 * version of the query reports green contexts; before, a stream belongs to the current
 * context. */
static struct home home_of(CUstream stream)
{
    const struct gs_real *real = gs_real();
    struct gs_state *state = gs_state_peek();
    struct home home = {NULL, NULL}, asked = {NULL, NULL};
    if (!state || real->cuCtxGetCurrent(&home.context) != CUDA_SUCCESS || !home.context) {
        return asked; /* no query is needed, or the begin will fail */
    }
    home.green = gs_context_green(state, home.context);
    bool own = stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
    if (own && real->cuStreamGetCtx_v2 &&
        real->cuStreamGetCtx_v2(stream, &asked.context, &asked.green) == CUDA_SUCCESS) {
        home = asked;
    } else if (gs_stream_context(stream, &asked.context) == CUDA_SUCCESS) {
        home.context = asked.context;
    }
    home.context = gs_context_owner(state, home.context);
    return home;
}

/* Counts the capture, and waits until no thread records an event. */
static void about_to_begin(CUstream stream, bool per_thread)
{
    struct home home = home_of(stream);
    gs_single_order_end("cuStreamBeginCapture_v2");
    gs_captures_begin(stream, per_thread, home.context, home.green);
    gs_gate_close();
}

/* Removes the count of a begun capture unless the begin succeeded. */
static void uncount_failed_begin(CUresult result, CUstream stream, bool per_thread)
{
    if (result != CUDA_SUCCESS) {
        gs_captures_end(stream, per_thread, home_of(stream).context);
    }
}

static void mark_what_was_freed(void)
{
    struct gs_state *state = gs_enter();
    if (state) {
        gs_lazy_captures_end(state);
        gs_leave();
    }
}

/* Records the end of a capture. A failed end, for instance by the wrong thread, may leave
 * the capture running. */
static void capture_ended(CUresult result, CUstream stream, bool per_thread)
{
    const struct gs_real *real = gs_real();
    __typeof__(cuStreamIsCapturing) *ask =
        per_thread ? real->cuStreamIsCapturing_ptsz : real->cuStreamIsCapturing;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (result == CUDA_ERROR_INVALID_CONTEXT ||
        result == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
        return; /* no current context: the driver did not check the stream */
    }
    if (result != CUDA_SUCCESS && ask && ask(stream, &status) == CUDA_SUCCESS &&
        status != CU_STREAM_CAPTURE_STATUS_NONE) {
        return;
    }
    gs_captures_end(stream, per_thread, home_of(stream).context);
    mark_what_was_freed();
}

/* Destroys a stream, whose capture ends with it. The driver may give the handle to
 * another stream at once. */
static CUresult destroy_stream(__typeof__(cuStreamDestroy_v2) *real_destroy,
                               CUstream stream)
{
    gs_trace_stream_end(stream);
    CUcontext context = gs_context_events_stream_ends(stream);
    gs_async_stream_ends(stream);
    gs_sync_proof_stream_ends((uintptr_t)stream);
    CUresult result = real_destroy(stream);
    if (result != CUDA_SUCCESS) {
        gs_streams_restore(stream, context);
        return result;
    }
    gs_own_stream_stale(stream);
    if (gs_captures_active()) {
        gs_captures_end(stream, false, NULL);
        mark_what_was_freed();
    }
    return result;
}

#define GS_FILE_capture ,
#include "shim/entries/forward.h"
