/*
 * context_errors.c - ends the pool's work for a context that has failed.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/order/context_errors.h"

#include "shim/order/context_wait.h"
#include "shim/parts.h"
#include "shim/record.h"

bool gs_error_ends_context(CUresult result)
{
    switch ((int)result) {
#define GS_CONTEXT_ERROR(name, number) case number:
#include "shim/order/context_errors.def"
#undef GS_CONTEXT_ERROR
        return true;
    default:
        return false;
    }
}

bool gs_error_keeps_memory(CUresult error)
{
    return !gs_refused_for_capture(error) && error != CUDA_ERROR_DEINITIALIZED &&
           !gs_error_ends_context(error);
}

void gs_context_record_error(const struct gs_context *context, CUresult result)
{
    if (!gs_error_ends_context(result) || !context || !context->heap) {
        return;
    }
    gs_heap_poison(context->heap);
    gs_parts_context_failed(context);
    gs_context_never_idle(context);
}

void gs_context_record_error_of(CUcontext ctx, CUresult result)
{
    struct gs_state *state;
    if (!gs_error_ends_context(result) || !(state = gs_enter())) {
        return;
    }
    gs_context_record_error(
        ctx ? gs_context_find(state, ctx) : gs_context_current_known(state), result);
    gs_leave();
}
