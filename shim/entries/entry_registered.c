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
    struct gs_call call =
        gs_call_in(gs_context_current(state), GS_MEMORY_REGISTERED, api);
    call.device = -1;
    if (result == CUDA_SUCCESS) {
        gs_record_alloc(state, &call, (uintptr_t)p, bytes, NULL);
    } else {
        gs_record_refused(state, &call, bytes, result);
    }
    gs_leave();
}

GS_EXPORT CUresult cuMemHostUnregister(void *p)
{
    struct gs_state *state = gs_enter_tracking();
    struct gs_freeing freeing = {.key = (uintptr_t)p, .api = GS_API_cuMemHostUnregister};
    if (!state) {
        return gs_real()->cuMemHostUnregister(p);
    }
    gs_record_free_begin(state, &freeing);
    CUresult result = gs_real()->cuMemHostUnregister(p);
    gs_record_free_end(state, &freeing, result);
    gs_leave();
    return result;
}

#define GS_FILE_registered ,
#include "forward.h"
