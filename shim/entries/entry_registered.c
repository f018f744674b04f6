/*
 * entry_registered.c - host memory of the program's own that it has page-locked.
 *
 * Registering allocates no memory: registered memory is counted apart, and memory still
 * registered at the end is reported, but not as a leak. It ends with its context.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/memory/tell.h"
#include "shim/pooled_memory.h"

static void host_registered(CUresult result, enum gs_api api, void *p, size_t bytes)
{
    struct gs_state *state = gs_enter_tracking();
    if (!state) {
        return;
    }
    struct gs_call call =
        gs_call_in(gs_context_current(state), GS_MEMORY_REGISTERED, api);
    call.device = -1;
    if (result == CUDA_SUCCESS) {
        gs_tell_allocated(state, &call, (uintptr_t)p, bytes);
    } else {
        gs_tell_refused(state, &call, bytes, result);
    }
    gs_leave();
}

/* Memory that the program has freed is still the driver's own to the driver, which would
 * call the argument invalid; natively it knows the memory no longer. */
GS_EXPORT CUresult cuMemHostUnregister(void *p)
{
    struct gs_state *state = gs_enter();
    struct gs_freeing freeing = {.key = (uintptr_t)p, .api = GS_API_cuMemHostUnregister};
    struct gs_extent extent;
    if (!state) {
        return gs_real()->cuMemHostUnregister(p);
    }
    if (gs_pooled_extent(state, (CUdeviceptr)p, &extent) == GS_ERR_NOT_FOUND) {
        CUresult unknown = gs_real()->cuMemHostUnregister((void *)gs_unknown_address);
        gs_leave();
        return unknown;
    }
    CUresult result = GS_TOLD_FREE(state, &freeing, gs_real()->cuMemHostUnregister(p));
    gs_leave();
    return result;
}

#define GS_FILE_registered ,
#include "shim/entries/forward.h"
