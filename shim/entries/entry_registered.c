/*
 * entry_registered.c - host memory of the program's own that it has page-locked.
 *
 * Registering allocates no memory: registered memory is counted apart, and memory still
 * registered at the end is reported, but not as a leak. It ends with its context.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "record.h"
#include "retry.h"

static CUresult registered(enum gs_api api,
                           __typeof__(cuMemHostRegister_v2) *real_register, void *p,
                           size_t bytes, unsigned flags)
{
    CUresult result = GS_RETRIED(gs_retry_needed, real_register(p, bytes, flags));
    struct gs_state *state = gs_enter_tracking();
    if (!state) {
        return result;
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
    return result;
}

GS_EXPORT CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
    return registered(GS_API_cuMemHostRegister, gs_real()->cuMemHostRegister, p, bytesize,
                      Flags);
}

GS_EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    return registered(GS_API_cuMemHostRegister_v2, gs_real()->cuMemHostRegister_v2, p,
                      bytesize, Flags);
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
