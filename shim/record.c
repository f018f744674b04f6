/*
 * record.c - fills in thread, stack, device and call for the tracker.
 * Owns:  nothing.   Lock: none; the tracker locks itself.
 */
#include "record.h"

#include "mem_limits.h"
#include "log.h"

static struct gs_free_site site_of(struct gs_state *state, enum gs_api api,
                                   bool with_stack)
{
    struct gs_free_site site = {.thread = gs_thread_id(), .api = gs_record_api(api)};
    if (with_stack && state->stacks) {
        site.stack = gs_stacks_capture(state->stacks);
    }
    return site;
}

/* Out of line, so that nothing is put together for it where it is off. */
static __attribute__((noinline)) void trace_made(const struct gs_call *request,
                                                 uint64_t addr, size_t bytes)
{
    const struct gs_context *context = request->context;
    enum gs_trace_order order = GS_TRACE_UNORDERED;
    if (request->kind == GS_MEMORY_ASYNC) {
        order = request->per_thread ? GS_TRACE_ORDERED_PER_THREAD : GS_TRACE_ORDERED;
    }
    gs_trace_alloc(request->kind, addr, bytes, context ? context->handle : NULL,
                   context ? context->device : 0, request->stream, order);
}

void gs_record_missed(void)
{
    static struct gs_log_limit limit;
    gs_log_once(&limit, GS_LOG_WARN,
                "no host memory to record an allocation: the report will miss some");
}

void gs_record_made(struct gs_state *state, const struct gs_call *request, uint64_t addr,
                    size_t bytes, struct gs_block *block)
{
    if (!block && state->pool && request->kind != GS_MEMORY_PINNED) {
        gs_pool_displace(state->pool, addr);
    }
    if (!block && state->host_pool && request->kind == GS_MEMORY_PINNED) {
        gs_pool_displace(state->host_pool, addr);
    }
    if (GS_UNLIKELY(gs_limits_charging) && !block && request->context &&
        !request->charged &&
        (request->kind == GS_MEMORY_DEVICE || request->kind == GS_MEMORY_ASYNC)) {
        gs_limits_note(request->kind == GS_MEMORY_ASYNC ? GS_CHARGE_DEVICE
                                                        : GS_CHARGE_CONTEXT,
                       addr, bytes, request->context->device, request->context->handle);
    }
    if (gs_tracing()) {
        trace_made(request, addr, bytes);
    }
    if (!state->tracker) {
        return;
    }
    struct gs_allocation allocation = {
        .addr = addr,
        .bytes = bytes,
        .context =
            (uint64_t)(uintptr_t)(request->context ? request->context->handle : NULL),
        .stream = (uint64_t)(uintptr_t)request->stream,
        .thread = gs_thread_id(),
        .stack = state->stacks ? gs_stacks_capture(state->stacks) : 0,
        .device = (int16_t)(request->context ? request->context->device : 0),
        .api = gs_record_api(request->api),
        .kind = (uint8_t)request->kind,
    };
    uint32_t id = 0;
    if (gs_tracker_add(state->tracker, &allocation, block != NULL, &id) != GS_OK) {
        gs_record_missed();
        return;
    }
    if (block) {
        gs_block_set_tag(block, id);
    }
}

void gs_record_refused(struct gs_state *state, const struct gs_call *request)
{
    if (state->tracker) {
        gs_tracker_add_failed(state->tracker,
                              request->context ? request->context->device : 0,
                              request->kind);
    }
}

void gs_record_unmade(struct gs_state *state, uint64_t addr, enum gs_api api,
                      struct gs_allocation *was)
{
    was->addr = 0;
    gs_limits_leave(GS_CHARGE_CONTEXT, addr);
    if (state->tracker && addr != 0) {
        struct gs_free_site site = site_of(state, api, false);
        if (gs_tracker_remove_address(state->tracker, addr, &site, was) != GS_OK) {
            was->addr = 0;
        }
    }
}

bool gs_error_refuses(CUresult error)
{
    switch (error) {
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_INITIALIZED:
        return true;
    default:
        return false;
    }
}

void gs_record_free_result(struct gs_state *state, uint64_t addr, enum gs_api api,
                           const struct gs_allocation *was, CUresult result)
{
    bool refused = gs_refused(result) || gs_refused_for_capture(result);
    gs_limits_left(!refused);
    if (refused) {
        gs_trace_free_refused(addr);
    }
    if (!state->tracker || !refused) {
        return; /* freed, or lost with its context: nobody can free it any more */
    }
    if (was->addr != 0 && gs_tracker_restore(state->tracker, was) != GS_OK) {
        gs_record_missed();
    }
    if (result == CUDA_ERROR_INVALID_VALUE) {
        gs_record_bad_free(state, addr, api);
    }
}

void gs_record_bad_free(struct gs_state *state, uint64_t addr, enum gs_api api)
{
    if (state->tracker) {
        struct gs_free_site site = site_of(state, api, true);
        int device = gs_thread.context ? gs_thread.context->device : 0;
        gs_tracker_error_free(state->tracker, addr, device, &site);
    }
}

void gs_record_context_lost(struct gs_state *state, CUcontext handle)
{
    /* Stream-ordered memory survives its context (CUDA driver API, cuCtxDestroy). */
    unsigned kinds =
        1u << GS_MEMORY_DEVICE | 1u << GS_MEMORY_MANAGED | 1u << GS_MEMORY_PINNED;
    gs_trace_context_end(handle);
    if (state->tracker) {
        gs_tracker_lose_context(state->tracker, (uint64_t)(uintptr_t)handle, kinds);
    }
}
