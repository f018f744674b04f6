/*
 * entry_sync.c - calls of the program after which a context is known to be idle.
 *
 * A context synchronize waits for all work; the proof rests on the snapshot taken before
 * it began. A synchronize of a stream waits for this stream, and proves the context idle
 * if each other call is known to be complete, too (sync_proof.h). If only the legacy
 * stream is in use in the only context of the process, a synchronize of this stream and a
 * copy to the host wait for all work:
 *
 *   cuStreamSynchronize      "waits until the device has completed all operations"
 *   cuMemcpyDtoH             "for transfers from device to either pageable or pinned host
 *   memory, the function returns only once the copy has completed" (API synchronization
 *   behavior); the copy runs after all earlier work of its stream. A copy of no bytes may
 *   not be.
 *
 * Copies to the device and within it may return earlier and prove nothing.
 *
 * A green context's synchronize waits for its own work alone, so contexts that are not
 * pooled are never marked. The library is not "entered" while the driver waits: a signal
 * handler that ends the program during the wait still gets its report.
 *
 * Owns:  nothing.   Lock: none.
 * Source: CUDA Driver API, API synchronization behavior, Stream synchronization behavior
 */
#include "shim/async/async_heaps.h"
#include "shim/checks/args.h"
#include "shim/heaps/maintenance.h"
#include "shim/host/host_pools.h"
#include "shim/host/managed.h"
#include "shim/limits/mem_limits.h"
#include "shim/link/known_functions.h"
#include "shim/order/context_errors.h"
#include "shim/order/context_wait.h"
#include "shim/order/free_lazy.h"
#include "shim/state/state.h"
#include "shim/state/submissions.h"
#include "shim/trace/trace.h"

/* The facts recorded before a call that waits. */
struct program_wait {
    const struct gs_context *context; /* NULL: no mark is possible */
    struct gs_snapshot before;
    struct gs_sync_proof_before streams;
    unsigned own_calls;
    uint64_t lazy_token; /* 0: none */
};

static struct gs_sync_proof *seen_of(const struct gs_context *context)
{
    return &((struct gs_context *)(uintptr_t)context)->seen;
}

static struct program_wait wait_begin(CUcontext handle, bool current, unsigned own_calls)
{
    struct program_wait wait = {.own_calls = own_calls};
    struct gs_state *state = gs_enter();
    if (!state) {
        return wait;
    }
    if (state->pool &&
        (gs_known_proof_holds() || state->options.free_sync == GS_FREE_SYNC_LAZY)) {
        wait.context =
            current ? gs_context_current_known(state) : gs_context_find(state, handle);
        wait.before = wait.context
                          ? gs_context_snapshot(wait.context, own_calls, &wait.streams)
                          : gs_submissions_snapshot(GS_COUNT_ALL, own_calls);
        wait.lazy_token = gs_lazy_wait_begin(state, wait.context);
    }
    gs_leave();
    if (wait.context && !wait.context->heap) {
        wait.context = NULL;
    }
    return wait;
}

static void begin_again(struct program_wait *wait)
{
    if (wait->context) {
        wait->before = gs_sync_proof_begin(seen_of(wait->context), wait->streams.stream,
                                           wait->own_calls, &wait->streams);
    }
}

/* Returns idle memory to the driver, if maintenance is due. */
static void run_maintenance(const struct gs_context *context)
{
    struct gs_state *state;
    if (!gs_heap_wants_maintenance(context->heap) || !(state = gs_enter())) {
        return;
    }
    if (gs_context_counts_idle(&state->contexts, context)) { /* no work since */
        gs_maintain_now(state, context);
    }
    gs_leave();
}

static void wait_end(struct program_wait *wait, CUresult result)
{
    if (wait->context && result == CUDA_SUCCESS) {
        if (wait->streams.stream) {
            gs_context_record_stream(wait->context, &wait->before, &wait->streams);
        } else {
            gs_context_record_idle(wait->context, &wait->before, &wait->streams);
        }
        if (wait->lazy_token && gs_enter()) {
            gs_lazy_wait_end(wait->context, wait->lazy_token);
            gs_leave();
        }
        run_maintenance(wait->context);
    }
}

/* Records a wait of the program that has ended, for GPUSHIM_TRACE_FILE and
 * GPUSHIM_CHECK=transfers. ctx NULL: the current context. */
static void trace_wait_of(CUcontext ctx, enum gs_trace_how how, CUstream stream,
                          enum gs_trace_order order, CUresult result)
{
    if (!gs_tracing() || result != CUDA_SUCCESS || !gs_enter()) {
        return;
    }
    uintptr_t tagged_stream = (uintptr_t)stream;
    if (order == GS_TRACE_ORDERED_PER_THREAD) {
        tagged_stream = gs_submissions_per_thread(tagged_stream);
    }
    gs_transfer_waited(
        order == GS_TRACE_UNORDERED ? 0 : gs_submissions_stream_of(tagged_stream));
    if (ctx || gs_real()->cuCtxGetCurrent(&ctx) == CUDA_SUCCESS) {
        gs_trace_sync(how, ctx, stream, order);
    }
    gs_leave();
}

static void trace_wait(enum gs_trace_how how, CUstream stream, enum gs_trace_order order,
                       CUresult result)
{
    trace_wait_of(NULL, how, stream, order, result);
}

/* ---- contexts ---------------------------------------------------------------------- */

GS_EXPORT CUresult cuCtxSynchronize(void)
{
    struct program_wait wait = wait_begin(NULL, true, 0);
    CUresult result = gs_real()->cuCtxSynchronize();
    wait_end(&wait, result);
    gs_context_record_result(NULL, result);
    trace_wait(GS_TRACE_SYNC_CONTEXT, NULL, GS_TRACE_UNORDERED, result);
    return result;
}

GS_EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    struct program_wait wait = wait_begin(ctx, ctx == NULL, 0);
    CUresult result = gs_real()->cuCtxSynchronize_v2(ctx);
    wait_end(&wait, result);
    gs_context_record_result(ctx, result);
    trace_wait_of(ctx, GS_TRACE_SYNC_CONTEXT, NULL, GS_TRACE_UNORDERED, result);
    return result;
}

/* ---- streams -------------------------------------------------------------------- */

/* Returns true if only the legacy stream was ever used, in one context. */
static bool legacy_is_all(const struct program_wait *wait)
{
    return (wait->before.streams & ~(GS_STREAMS_LOOSE | GS_STREAMS_ACROSS)) <=
               GS_STREAMS_LEGACY &&
           gs_contexts_are_one(gs_state_peek());
}

/*
 * The wait that was just begun is for one stream alone. Each context has default streams
 * of its own, whose calls are counted together; counted calls that were not waited for
 * are other contexts' work, to which the current context's proof does not apply.
 */
static void limit_to_stream(struct program_wait *wait, uintptr_t tagged_stream)
{
    wait->streams.stream = gs_submissions_stream_of(tagged_stream);
    wait->lazy_token = 0;
    if (!wait->streams.stream || !gs_known_proof_holds()) {
        wait->context = NULL;
    }
    begin_again(wait);
}

static struct program_wait wait_stream(uintptr_t tagged_stream)
{
    struct program_wait wait = {.own_calls = 0};
    struct gs_state *state = gs_known_proof_holds() ? gs_enter() : NULL;
    if (state) {
        if (state->pool) {
            wait.context = gs_context_current_known(state);
        }
        gs_leave();
    }
    if (wait.context && !wait.context->heap) {
        wait.context = NULL;
    }
    limit_to_stream(&wait, tagged_stream);
    return wait;
}

GS_EXPORT CUresult cuStreamSynchronize(CUstream hStream)
{
    bool legacy = (uintptr_t)hStream <= GS_STREAMS_LEGACY;
    struct program_wait wait =
        legacy ? wait_begin(NULL, true, 0) : wait_stream((uintptr_t)hStream);
    if (legacy && !legacy_is_all(&wait)) {
        limit_to_stream(&wait, (uintptr_t)hStream);
    }
    CUresult result = gs_real()->cuStreamSynchronize(hStream);
    wait_end(&wait, result);
    gs_context_record_result(NULL, result);
    trace_wait(GS_TRACE_SYNC_STREAM, hStream, GS_TRACE_ORDERED, result);
    return result;
}

GS_EXPORT CUresult cuStreamSynchronize_ptsz(CUstream hStream)
{
    struct program_wait wait = wait_stream(gs_submissions_per_thread((uintptr_t)hStream));
    CUresult result = gs_real()->cuStreamSynchronize_ptsz(hStream);
    wait_end(&wait, result);
    gs_context_record_result(NULL, result);
    trace_wait(GS_TRACE_SYNC_STREAM, hStream, GS_TRACE_ORDERED_PER_THREAD, result);
    return result;
}

static inline __attribute__((always_inline)) CUresult
copy_to_host(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    struct gs_calls *own = gs_submission_begin(0);
    struct program_wait wait = wait_begin(NULL, true, 1);
    if (!legacy_is_all(&wait)) {
        limit_to_stream(&wait, 0);
    }
    if (ByteCount == 0) {
        wait.context = NULL;
    }
    CUresult result = gs_real()->cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount);
    wait_end(&wait, result);
    gs_context_record_result(NULL, result);
    gs_submission_end(own);
    return result;
}

/* As in entry_submit.c. */
static __attribute__((cold, noinline)) CUresult
look_at_copy(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    GS_ARGS_CALL("cuMemcpyDtoH");
    GS_ARGS_TO_HOST(dstHost, srcDevice, ByteCount);
    if (call->refused != CUDA_SUCCESS) {
        return gs_args_refusal(call, 0, false);
    }
    CUresult result = copy_to_host(dstHost, srcDevice, ByteCount);
    gs_transfer_end(call, 0, result);
    return result;
}

GS_EXPORT CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    return gs_args_on() || !GS_RIGHT_TO_HOST(dstHost, srcDevice, ByteCount)
               ? look_at_copy(dstHost, srcDevice, ByteCount)
               : copy_to_host(dstHost, srcDevice, ByteCount);
}
