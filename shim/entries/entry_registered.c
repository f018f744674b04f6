/*
 * entry_registered.c - host memory of the program's own that it has page-locked.
 *
 * Registering allocates no memory: registered memory is counted apart, and memory still
 * registered at the end is reported, but not as a leak. It ends with its context.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "record.h"

static void registered(CUresult result, enum gs_api api, void *p, size_t bytes)
{
    struct gs_state *state = gs_enter_tracking();
    if (!state) {
        return;
    }
    const struct gs_context *context = gs_context_current(state);
    struct gs_note note = {.kind = GS_MEMORY_REGISTERED,
                           .api = api,
                           .context = context ? context->owner : NULL,
                           .key = (uintptr_t)p,
                           .bytes = bytes};
    if (result == CUDA_SUCCESS) {
        (void)gs_record_noted(state, &note, false);
    } else {
        gs_record_note_refused(state, &note, result);
    }
    gs_leave();
}

GS_EXPORT CUresult cuMemHostUnregister(void *p)
{
    struct gs_state *state = gs_enter_tracking();
    struct gs_allocation was;
    uint64_t key = (uintptr_t)p;
    if (!state) {
        return gs_real()->cuMemHostUnregister(p);
    }
    gs_record_note_leaves(state, key, GS_API_cuMemHostUnregister, &was);
    CUresult result = gs_real()->cuMemHostUnregister(p);
    gs_record_note_left(state, key, GS_API_cuMemHostUnregister, &was, result);
    gs_leave();
    return result;
}

#define GS_FILE_registered ,
#include "forward.h"
