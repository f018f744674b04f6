/*
 * context_wait.c - the wait of a free for all work of the context that owns the memory,
 * like the wait of the native free.
 * Owns:  nothing.   Lock: none across a driver call.
 * Source: docs/free.md, "When a free waits for nothing" and "A capture beside a wait"
 */
#include "shim/order/context_wait.h"

#include "gs_uncancelled.h"
#include "shim/link/libraries.h"
#include "shim/order/all_complete.h"
#include "shim/order/capture_gate.h"
#include "shim/order/captures.h"
#include "shim/order/context_events.h"
#include "shim/order/fences.h"
#include "shim/record.h"
#include "shim/state/context_switch.h"
#include "shim/trace/trace.h"

static CUresult synchronize(CUcontext handle)
{
    bool pushed;
    CUresult result = gs_context_push(handle, &pushed);
    if (result == CUDA_SUCCESS) {
        result = gs_real()->cuCtxSynchronize();
    }
    gs_context_pop(pushed);
    return result;
}

/* Synchronizes the context, but not while a stream captures. A capture that another
 * thread begins during the wait stays valid (capture_gate.c). */
static CUresult synchronize_unless_capturing(CUcontext handle)
{
    if (!gs_gate_pass()) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    CUresult result = synchronize(handle);
    gs_gate_passed();
    return result;
}

/*
 * Waits for all work of one context. A process that has never begun a capture
 * synchronizes, which is one call. In a process that has captured, another capture is
 * likely to begin during a wait; so the wait is for an event of the context, which does
 * not invalidate captures (docs/free.md, "A capture beside a wait").
 */
static CUresult wait_for(CUcontext handle)
{
    if (!gs_captures_ever()) {
        CUresult result = synchronize_unless_capturing(handle);
        if (!gs_refused_for_capture(result)) {
            return result;
        }
    }
    CUresult marked = gs_context_events_wait(handle);
    return marked != CUDA_ERROR_NOT_SUPPORTED ? marked
                                              : synchronize_unless_capturing(handle);
}

/* Waits for all work of a context that does not own the memory. Returns CUDA_SUCCESS for
 * a context that has failed or ended, since it runs nothing any more. */
static CUresult wait_for_other(CUcontext handle)
{
    CUresult result = wait_for(handle);
    return gs_refused_for_capture(result) ? result : CUDA_SUCCESS;
}

static CUresult wait_for_accessors(struct gs_state *state, const struct gs_context *owner)
{
    CUresult result = CUDA_SUCCESS;
    CUcontext accessor;
    for (size_t i = 0;
         result == CUDA_SUCCESS &&
         (accessor = gs_context_accessor(&state->contexts, owner->handle, i)) != NULL;
         i++) {
        result = wait_for_other(accessor);
    }
    return result;
}

/*
 * The native free waits for the context that owns the memory (docs/free.md, "Peers").
 * Contexts with peer access are waited for only where a block cannot be held back until
 * their work is complete: the driver offers no event for the context, or the block is
 * held back without an event.
 */
static bool waits_for_accessors(struct gs_state *state, const struct gs_context *context,
                                bool unfenced)
{
    return unfenced || state->options.free_sync == GS_FREE_SYNC_WAIT ||
           !gs_context_events_work(state, context);
}

/* Returns true if each context with access to the memory is complete since the point. */
static bool accessors_are_done(struct gs_state *state, const struct gs_context *owner,
                               uint64_t point)
{
    CUcontext handle;
    for (size_t i = 0;
         (handle = gs_context_accessor(&state->contexts, owner->handle, i)) != NULL;
         i++) {
        const struct gs_context *accessor = gs_context_find(state, handle);
        if (!accessor ||
            __atomic_load_n(&accessor->complete_at, __ATOMIC_ACQUIRE) < point) {
            return false;
        }
    }
    return true;
}

static void set_unfenced(const struct gs_context *context)
{
    bool *unfenced = &((struct gs_context *)(uintptr_t)context)->unfenced;
    __atomic_store_n(unfenced, true, __ATOMIC_RELEASE);
}

/* Waits for the owner's work and for all other work that the native free waits for. */
static CUresult wait_for_all(struct gs_state *state, const struct gs_context *context,
                             bool accessors)
{
    CUresult result = wait_for(context->handle);
    if (result == CUDA_SUCCESS && accessors) {
        result = wait_for_accessors(state, context);
    }
    return result;
}

static CUresult wait_for_context(struct gs_state *state, const struct gs_context *context,
                                 bool *in_use)
{
    bool unfenced = gs_context_take_unfenced(context);
    bool shared = gs_context_accessor(&state->contexts, context->handle, 0);
    bool accessors = shared && waits_for_accessors(state, context, unfenced);
    uint64_t token = gs_heap_retire_begin(context->heap);
    uint64_t point = shared ? gs_all_complete_point() : 0; /* read after the token */
    struct gs_sync_proof_before streams;
    struct gs_snapshot before = gs_context_snapshot(context, 0, &streams);
    CUresult result = wait_for_all(state, context, accessors);
    *in_use = shared && !accessors && !accessors_are_done(state, context, point);
    if (result == CUDA_SUCCESS && !*in_use) {
        gs_heap_retire(context->heap, token);
    }
    if (result == CUDA_SUCCESS) {
        gs_context_record_idle(context, &before, &streams);
        gs_trace_sync(GS_TRACE_SYNC_CONTEXT, context->handle, NULL, GS_TRACE_UNORDERED);
    } else if (unfenced) {
        set_unfenced(context);
    }
    return result;
}

CUresult gs_context_wait(struct gs_state *state, const struct gs_context *context,
                         bool *in_use)
{
    int before = gs_uncancelled_begin(); /* the native free may not block */
    CUresult result = wait_for_context(state, context, in_use);
    gs_uncancelled_end(before);
    return result;
}

void gs_context_record_idle(const struct gs_context *context,
                            const struct gs_snapshot *snapshot,
                            const struct gs_sync_proof_before *before)
{
    struct gs_context *own = (struct gs_context *)(uintptr_t)context;
    gs_libraries_watch();
    gs_submissions_record(&own->idle_at, snapshot->alone);
    gs_submissions_record(&own->device_idle_at, snapshot->mark);
    gs_submissions_record(&own->complete_at, snapshot->all);
    if (before && before->counted) {
        gs_sync_proof_rebase(&own->seen, before, snapshot);
    }
}

void gs_context_record_stream(const struct gs_context *context,
                              const struct gs_snapshot *snapshot,
                              const struct gs_sync_proof_before *before)
{
    struct gs_context *own = (struct gs_context *)(uintptr_t)context;
    uint64_t covered = gs_sync_proof_cover(&own->seen, before, snapshot);
    gs_libraries_watch();
    gs_submissions_record(&own->idle_at, snapshot->alone ? covered : 0);
    gs_submissions_record(&own->device_idle_at, covered);
}

void gs_context_never_idle(const struct gs_context *context)
{
    set_unfenced(context);
}

bool gs_context_take_unfenced(const struct gs_context *context)
{
    bool *unfenced = &((struct gs_context *)(uintptr_t)context)->unfenced;
    return __atomic_exchange_n(unfenced, false, __ATOMIC_ACQ_REL);
}
