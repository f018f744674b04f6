/*
 * record.c - adds thread, stack, device and call to the records of the tracker.
 * Owns:  nothing.   Lock: none; the tracker locks itself.
 */
#include "record.h"

#include "log.h"
#include "mem_limits.h"
#include "parts.h"

bool gs_record_watched;

/* Whether sums of all allocations are kept. Set at start, then constant. */
static bool is_tallied;

/* ---- what is left out ----------------------------------------------------------------
 */

void gs_record_watch(const struct gs_options *options, bool tallied)
{
    bool part = !options->track_start || options->track_signal[0];
    bool fewer = options->track_sample_bytes || options->track_min_bytes;
    is_tallied = tallied;
    __atomic_store_n(&gs_record_watched,
                     gs_tracing() || is_tallied ||
                         (options->track && (part || fewer || options->stack_free)),
                     __ATOMIC_RELAXED);
}

struct gs_sampling gs_record_sampling(const struct gs_options *options)
{
    struct gs_sampling sampling = {.distance_bytes = options->track_sample_bytes,
                                   .always_bytes = options->stack_always_bytes,
                                   .min_bytes = options->track_min_bytes};
    if (sampling.distance_bytes && options->stack == GS_UNWIND_OFF) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_TRACK_SAMPLE_BYTES=%llu: with "
                    "GPUSHIM_STACK=off there is nothing to sample",
                    (unsigned long long)sampling.distance_bytes);
        sampling.distance_bytes = 0;
    } else if (sampling.always_bytes && !sampling.distance_bytes) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_STACK_ALWAYS_BYTES=%llu: without "
                    "GPUSHIM_TRACK_SAMPLE_BYTES each allocation has a stack",
                    (unsigned long long)sampling.always_bytes);
    }
    if (sampling.always_bytes && sampling.always_bytes < sampling.min_bytes) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_STACK_ALWAYS_BYTES=%llu: less than "
                    "GPUSHIM_TRACK_MIN_BYTES; from there on it is",
                    (unsigned long long)sampling.always_bytes);
    }
    return sampling;
}

/* The stack of an allocation; or its substitute, if only some stacks are recorded. */
static __attribute__((noinline)) uint32_t
choose_stack(struct gs_state *state, enum gs_memory_kind kind, uint64_t bytes)
{
    uint32_t instead = gs_tracker_choose_stack(state->tracker, kind, bytes);
    return instead == 0 && state->stacks ? gs_stacks_capture(state->stacks) : instead;
}

static inline uint32_t stack_of(struct gs_state *state, enum gs_memory_kind kind,
                                uint64_t bytes)
{
    if (gs_watched()) {
        return choose_stack(state, kind, bytes);
    }
    return state->stacks ? gs_stacks_capture(state->stacks) : 0;
}

uint32_t gs_record_stack(struct gs_state *state, enum gs_memory_kind kind, uint64_t bytes)
{
    return stack_of(state, kind, bytes);
}

/* Whether recording is stopped now. */
static inline bool stopped(struct gs_state *state)
{
    return gs_watched() && !gs_tracker_records(state->tracker);
}

/* ---- the pool's memory and the driver's own ------------------------------------------
 */

static struct gs_free_site site_of(struct gs_state *state, enum gs_api api,
                                   bool with_stack)
{
    struct gs_free_site site = {.thread = gs_thread_id(), .api = gs_record_api(api)};
    if ((with_stack || state->options.stack_free) && state->stacks) {
        site.stack = gs_stacks_capture(state->stacks);
    }
    return site;
}

static void trace_made(const struct gs_call *request, uint64_t addr, size_t bytes)
{
    const struct gs_context *context = request->context;
    enum gs_trace_order order = GS_TRACE_UNORDERED;
    if (request->kind == GS_MEMORY_ASYNC) {
        order = request->per_thread ? GS_TRACE_ORDERED_PER_THREAD : GS_TRACE_ORDERED;
    }
    gs_trace_alloc(request->kind, addr, bytes, context ? context->owner : NULL,
                   context ? context->device : 0, request->stream, order);
}

void gs_record_missed(void)
{
    static struct gs_log_limit limit;
    gs_log_once(&limit, GS_LOG_WARN,
                "no host memory to record an allocation: the report will miss some");
}

/* Reports the allocation to the tracker; if `tallied`, also to the sums, if kept. */
static inline __attribute__((always_inline)) void
record(struct gs_state *state, const struct gs_call *request, uint64_t addr, size_t bytes,
       struct gs_block *block, uint32_t stack, bool tallied)
{
    struct gs_allocation allocation = {
        .addr = addr,
        .bytes = bytes,
        .context =
            (uint64_t)(uintptr_t)(request->context ? request->context->owner : NULL),
        .stream = (uint64_t)(uintptr_t)request->stream,
        .thread = gs_thread_id(),
        .stack = stack,
        .device = (int16_t)(request->context ? request->context->device : 0),
        .api = gs_record_api(request->api),
        .kind = (uint8_t)request->kind,
    };
    uint32_t id = 0;
    if (tallied) {
        gs_tracker_tally(state->tracker, &allocation);
    }
    if (gs_tracker_add(state->tracker, &allocation, block != NULL, &id) != GS_OK) {
        gs_record_missed();
        return;
    }
    if (block) {
        gs_block_set_tag(block, id);
    }
}

/* Out of line, so that its arguments cost nothing while all of this is off. */
static __attribute__((noinline)) void made_watched(struct gs_state *state,
                                                   const struct gs_call *request,
                                                   uint64_t addr, size_t bytes,
                                                   struct gs_block *block)
{
    if (gs_tracing()) {
        trace_made(request, addr, bytes);
    }
    if (!state->tracker) {
        return;
    }
    if (!gs_tracker_records(state->tracker)) {
        gs_tracker_pass(state->tracker, addr, block != NULL);
        return;
    }
    record(state, request, addr, bytes, block, choose_stack(state, request->kind, bytes),
           true);
}

uint32_t gs_record_watched_block(struct gs_state *state, const struct gs_call *request,
                                 uint64_t addr, size_t bytes, struct gs_block *block)
{
    if (gs_tracing() || is_tallied || !state->tracker) {
        made_watched(state, request, addr, bytes, block);
        return gs_block_tag(block);
    }
    if (!gs_tracker_records(state->tracker)) {
        gs_tracker_pass(state->tracker, addr, true);
        return 0;
    }
    struct gs_tracked_who who = {.thread = gs_thread_id(),
                                 .stack = choose_stack(state, request->kind, bytes)};
    struct gs_tracked_how how = {.device = (int16_t)request->context->device,
                                 .api = gs_record_api(request->api),
                                 .kind = request->kind};
    uint32_t tag =
        gs_tracker_add_block(state->tracker, addr, bytes,
                             (uint64_t)(uintptr_t)request->context->owner, who, how);
    if (GS_UNLIKELY(tag == 0)) {
        gs_record_missed();
    }
    return tag;
}

/* Whether the kind of memory is on the device: a full GPU does not explain a failed
 * allocation of host memory. */
static bool takes_device_memory(enum gs_memory_kind kind)
{
    return kind != GS_MEMORY_PINNED && kind != GS_MEMORY_REGISTERED &&
           kind != GS_MEMORY_PHYSICAL_HOST;
}

void gs_record_alloc(struct gs_state *state, const struct gs_call *request, uint64_t addr,
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
        gs_limits_record(request->kind == GS_MEMORY_ASYNC ? GS_CHARGE_DEVICE
                                                          : GS_CHARGE_CONTEXT,
                         addr, bytes, request->context->device, request->context->owner);
    }
    if (gs_watched()) {
        made_watched(state, request, addr, bytes, block);
    } else if (state->tracker) {
        record(state, request, addr, bytes, block,
               state->stacks ? gs_stacks_capture(state->stacks) : 0, false);
    }
}

static void refused(struct gs_state *state, enum gs_memory_kind kind, enum gs_api api,
                    int device, size_t bytes, CUresult result)
{
    if (state->tracker && !stopped(state)) {
        gs_tracker_add_failed(state->tracker, device, kind);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY && takes_device_memory(kind)) {
        gs_parts_refused(state, device, api, bytes);
    }
}

void gs_record_refused(struct gs_state *state, const struct gs_call *request,
                       size_t bytes, CUresult result)
{
    gs_parts_context_error(request->context, result);
    refused(state, request->kind, request->api,
            request->context ? request->context->device : 0, bytes, result);
}

void gs_record_watched_end(struct gs_state *state, uint32_t id, enum gs_api api,
                           uint64_t addr, enum gs_trace_how how)
{
    gs_trace_free(addr, how, NULL, GS_TRACE_UNORDERED);
    if (!state->tracker || id == 0) {
        return;
    }
    if (state->options.stack_free) {
        struct gs_free_site site = site_of(state, api, true);
        gs_tracker_remove(state->tracker, id, &site);
    } else {
        gs_tracker_remove_block(state->tracker, id, gs_thread_id(), gs_record_api(api));
    }
}

void gs_record_undone(struct gs_state *state, uint64_t addr, enum gs_api api,
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

/* ---- beside the pool's memory and the driver's own ----------------------------------
 */

uint32_t gs_record_noted(struct gs_state *state, const struct gs_note *note, bool indexed)
{
    uint32_t id = 0;
    if (takes_device_memory(note->kind)) {
        gs_record_served(state, note->device, note->bytes);
    }
    if (!gs_key_is_handle(note->key) && state->pool) {
        gs_pool_displace(state->pool, note->key);
    }
    if (!state->tracker) {
        return 0;
    }
    if (stopped(state)) {
        gs_tracker_pass(state->tracker, note->key, indexed);
        return 0;
    }
    struct gs_allocation allocation = {
        .addr = note->key,
        .bytes = note->bytes,
        .context = (uint64_t)(uintptr_t)note->context,
        .thread = gs_thread_id(),
        .stack = stack_of(state, note->kind, note->bytes),
        .device = (int16_t)note->device,
        .api = gs_record_api(note->api),
        .kind = (uint8_t)note->kind,
    };
    if (gs_tracker_add(state->tracker, &allocation, indexed, &id) != GS_OK) {
        gs_record_missed();
        return 0;
    }
    return indexed ? id : 0;
}

void gs_record_note_refused(struct gs_state *state, const struct gs_note *note,
                            CUresult result)
{
    refused(state, note->kind, note->api, note->device, note->bytes, result);
}

void gs_record_note_ended(struct gs_state *state, uint32_t record, enum gs_api api)
{
    if (state->tracker && record != 0) {
        struct gs_free_site site = site_of(state, api, false);
        gs_tracker_remove(state->tracker, record, &site);
    }
}

void gs_record_note_leaves(struct gs_state *state, uint64_t key, enum gs_api api,
                           struct gs_allocation *was)
{
    was->addr = 0;
    if (state->tracker) {
        struct gs_free_site site = site_of(state, api, false);
        if (gs_tracker_remove_address(state->tracker, key, &site, was) != GS_OK) {
            was->addr = 0;
        }
    }
}

bool gs_record_unknown(CUresult result)
{
    return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE ||
           result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

void gs_record_note_left(struct gs_state *state, uint64_t key, enum gs_api api,
                         const struct gs_allocation *was, CUresult result)
{
    bool refused = gs_refused(result) || gs_refused_for_capture(result) ||
                   gs_record_unknown(result) || result == CUDA_ERROR_ARRAY_IS_MAPPED;
    if (!refused) {
        gs_pool_freed_elsewhere();
    }
    if (!state->tracker || !refused) {
        return; /* ended, or lost with its context */
    }
    if (was->addr != 0 && gs_tracker_restore(state->tracker, was) != GS_OK) {
        gs_record_missed();
    }
    if (gs_record_unknown(result)) {
        gs_record_bad_free(state, key, api);
    }
}

/* ---- what the driver's answers mean --------------------------------------------------
 */

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
    if (!refused) {
        gs_pool_freed_elsewhere();
    }
    gs_limits_left(!refused);
    if (GS_UNLIKELY(result != CUDA_SUCCESS)) {
        gs_parts_context_error(gs_context_current_known(state), result);
    }
    if (refused) {
        gs_trace_free_refused(addr);
    }
    if (!state->tracker || !refused) {
        return; /* freed, or lost with its context: it cannot be freed any more */
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
    if (state->tracker && !stopped(state)) {
        struct gs_free_site site = site_of(state, api, true);
        int device = gs_thread.context ? gs_thread.context->device : 0;
        gs_tracker_error_free(state->tracker, addr, device, &site);
    }
}

void gs_record_not_idle(struct gs_state *state, const struct gs_context *context,
                        CUstream stream, uint64_t waited_ns, enum gs_api api)
{
    if (state->tracker && !stopped(state)) {
        struct gs_free_site site = site_of(state, api, true);
        gs_tracker_error_not_idle(state->tracker, context->device,
                                  (uint64_t)(uintptr_t)stream, waited_ns, &site);
    }
}

void gs_record_context_lost(struct gs_state *state, CUcontext handle)
{
    /* Stream-ordered memory survives its context (CUDA driver API, cuCtxDestroy). Other
     * memory that survives is recorded without a context. */
    unsigned kinds = 1u << GS_MEMORY_DEVICE | 1u << GS_MEMORY_MANAGED |
                     1u << GS_MEMORY_PINNED | 1u << GS_MEMORY_ARRAY |
                     1u << GS_MEMORY_REGISTERED | 1u << GS_MEMORY_IMPORTED |
                     1u << GS_MEMORY_MAPPED;
    gs_trace_context_end(handle);
    if (state->tracker) {
        gs_tracker_lose_context(state->tracker, (uint64_t)(uintptr_t)handle, kinds);
    }
}
