/*
 * context_wait.c - the wait of a free: for all work of a context, as the native one.
 * Owns:  nothing.   Lock: none over a driver call.
 * Source: docs/free.md, "When a free waits for nothing" and "A capture beside a wait"
 */
#include "capture_gate.h"
#include "captures.h"
#include "contexts.h"
#include "marks.h"
#include "mutants.h"
#include "record.h"
#include "state.h"
#include "trace.h"
#include "gs_uncancelled.h"

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

/* Of the context and of those that may access its memory. */
static CUresult synchronize_all(struct gs_state *state, const struct gs_context *context)
{
    CUcontext accessor = NULL;
    if (!gs_gate_pass()) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    CUresult result = synchronize(context->handle);
    for (size_t i = 0;
         result == CUDA_SUCCESS &&
         (accessor = gs_context_accessor(&state->contexts, context->handle, i)) != NULL;
         i++) {
        /* One that has failed or gone runs nothing any more. */
        (void)synchronize(accessor);
    }
    gs_gate_passed();
    return result;
}

/*
 * Another thread may begin a capture at any moment; a synchronize would break it, which
 * the native free does not. So an event of the context is waited for first, which no
 * capture minds, and all that takes time is over when the context is synchronized. That
 * what the event covers is enough by itself is the documents' word alone: only a program
 * that captures depends on it.
 */
static CUresult wait_for_all(struct gs_state *state, const struct gs_context *context)
{
    if (gs_mutant(GS_MUTANT_capture_waits)) {
        return synchronize(context->handle);
    }
    CUresult marked = gs_marks_wait(state, context);
    if (marked != CUDA_ERROR_NOT_SUPPORTED && gs_captures_ever()) {
        return marked;
    }
    CUresult result = synchronize_all(state, context);
    return marked == CUDA_SUCCESS && gs_refused_for_capture(result) ? marked : result;
}

static void set_unfenced(const struct gs_context *context)
{
    bool *unfenced = &((struct gs_context *)(uintptr_t)context)->unfenced;
    __atomic_store_n(unfenced, true, __ATOMIC_RELEASE);
}

CUresult gs_context_wait(struct gs_state *state, const struct gs_context *context)
{
    bool unfenced = gs_context_take_unfenced(context);
    uint64_t token = gs_heap_retire_begin(context->heap);
    struct gs_snapshot before = gs_submissions_snapshot(0);
    if (gs_mutant(GS_MUTANT_lock_held)) {
        pthread_mutex_lock(&state->contexts.lock);
    }
    int before_wait = gs_uncancelled_begin(); /* the native free may have no wait */
    CUresult result = wait_for_all(state, context);
    gs_uncancelled_end(before_wait);
    if (gs_mutant(GS_MUTANT_lock_held)) {
        pthread_mutex_unlock(&state->contexts.lock);
    }
    if (result == CUDA_SUCCESS) {
        gs_heap_retire(context->heap, token);
        gs_context_mark_idle(context, &before);
        gs_trace_sync(GS_TRACE_SYNC_CONTEXT, context->handle, NULL, GS_TRACE_UNORDERED);
    } else if (unfenced) {
        set_unfenced(context);
    }
    return result;
}

void gs_context_mark_idle(const struct gs_context *context,
                          const struct gs_snapshot *snapshot)
{
    gs_submissions_mark(&((struct gs_context *)(uintptr_t)context)->idle_at, snapshot);
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
