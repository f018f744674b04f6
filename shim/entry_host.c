/*
 * entry_host.c - pinned host memory: the driver's own, with an owner in the report.
 * Owns:  nothing.   Lock: none.
 */
#include "record.h"
#include "retry.h"
#include "trace.h"

static CUresult finish(struct gs_state *state, const struct gs_request *request,
                       CUresult result, void **pp, size_t bytes)
{
    if (result == CUDA_SUCCESS) {
        gs_record_made(state, request, (uint64_t)(uintptr_t)*pp, bytes, NULL);
    } else {
        gs_record_refused(state, request);
    }
    return result;
}

GS_EXPORT CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_real()->cuMemAllocHost_v2(pp, bytesize);
    }
    struct gs_request request = {.context = gs_context_current(state),
                                 .kind = GS_MEMORY_PINNED,
                                 .api = GS_API_cuMemAllocHost_v2};
    CUresult result;
    do {
        result = gs_real()->cuMemAllocHost_v2(pp, bytesize);
    } while (gs_retry_after_trim(state, request.context, result));
    result = finish(state, &request, result, pp, bytesize);
    gs_leave();
    return result;
}

GS_EXPORT CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_real()->cuMemHostAlloc(pp, bytesize, Flags);
    }
    struct gs_request request = {.context = gs_context_current(state),
                                 .kind = GS_MEMORY_PINNED,
                                 .api = GS_API_cuMemHostAlloc};
    CUresult result;
    do {
        result = gs_real()->cuMemHostAlloc(pp, bytesize, Flags);
    } while (gs_retry_after_trim(state, request.context, result));
    result = finish(state, &request, result, pp, bytesize);
    gs_leave();
    return result;
}

GS_EXPORT CUresult cuMemFreeHost(void *p)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_real()->cuMemFreeHost(p);
    }
    struct gs_allocation was;
    uint64_t addr = (uint64_t)(uintptr_t)p;
    gs_trace_free(addr, GS_TRACE_DRIVER, NULL, GS_TRACE_UNORDERED);
    gs_record_unmade(state, addr, GS_API_cuMemFreeHost, &was);
    CUresult result = gs_real()->cuMemFreeHost(p);
    gs_record_free_result(state, addr, GS_API_cuMemFreeHost, &was, result);
    gs_leave();
    return result;
}
