/*
 * record.c - adds thread, stack, device and call to the records of the tracker.
 * Owns:  the lifetimes by call site.   Lock: none; they and the tracker lock themselves.
 */
#include "shim/record.h"

#include <stdio.h>

#include "pool/hit.h"
#include "shim/link/real.h"
#include "shim/settings/environment.h"
#include "shim/settings/log.h"
#include "tracker/churn.h"
#include "tracker/pinned_uses.h"
#include "tracker/report/text/text.h"
#include "tracker/stacks/scopes.h"

bool gs_record_detailed;

/* True if sums of all allocations are kept. Set at start, then constant. */
static bool is_tallied;
static bool is_part; /* likewise: allocations are recorded at times, or after a delay */
static bool is_sampled; /* some allocations get no stack: atomic */
static bool is_scoped;  /* a scope was begun: atomic, for good */
static bool is_logged;  /* GPUSHIM_VERBOSE=3: a line for each allocation and free */
static struct gs_churn *churn;        /* GPUSHIM_CHECK=churn; likewise */
static struct gs_pinned_uses *pinned; /* GPUSHIM_CHECK=transfers; likewise */
static gs_record_freed pinned_freed;  /* likewise; NULL: nobody asks */

/* ---- sampling and windows ------------------------------------------------------- */

void gs_record_trace_changed(void)
{
    __atomic_store_n(&gs_record_detailed,
                     gs_tracing() || is_tallied || is_part ||
                         __atomic_load_n(&is_sampled, __ATOMIC_RELAXED) ||
                         __atomic_load_n(&is_scoped, __ATOMIC_RELAXED),
                     __ATOMIC_RELAXED);
}

static void count_begun(void *tracker, uint32_t scope, uint32_t around)
{
    gs_tracker_scope_begun(tracker, scope, around);
}

void gs_record_scope_begun(void)
{
    struct gs_state *state = __atomic_load_n(&gs_state_roots.ready, __ATOMIC_ACQUIRE);
    if (GS_UNLIKELY(!__atomic_load_n(&is_scoped, __ATOMIC_RELAXED))) {
        __atomic_store_n(&is_scoped, true, __ATOMIC_RELAXED);
        gs_record_trace_changed();
    }
    if (state && state->tracker && state->stacks) {
        (void)gs_scopes_number(state->stacks, count_begun, state->tracker);
    }
}

/* The stack of an allocation for its record: with the scope of the thread, if any. */
static uint32_t in_scope(struct gs_state *state, uint32_t stack)
{
    uint32_t scope =
        state->stacks ? gs_scopes_number(state->stacks, count_begun, state->tracker) : 0;
    if (scope && !gs_stack_left_out(stack) && !gs_scopes_have(stack)) {
        gs_tracker_scope_missed(state->tracker, scope); /* no room for its stack */
        return stack;
    }
    if (scope && !gs_stack_left_out(stack)) {
        gs_scopes_settle(stack);
    }
    return scope ? gs_tracker_scope_stack(state->tracker, stack, scope) : stack;
}

static void set_sampled(const struct gs_options *options)
{
    bool fewer = options->track_sample_bytes || options->track_min_bytes;
    __atomic_store_n(&is_sampled, options->track && fewer, __ATOMIC_RELAXED);
}

void gs_record_configure(const struct gs_options *options, bool tallied)
{
    is_tallied = tallied;
    is_part = options->track && (!options->track_start || options->track_signal[0] ||
                                 gs_environment_is_replaced());
    set_sampled(options);
    is_logged = gs_log_enabled(GS_LOG_DEBUG);
    churn = options->track && options->check_churn ? gs_churn_create() : NULL;
    pinned = options->track && options->check_transfers ? gs_pinned_uses_create() : NULL;
    if (is_logged || churn || pinned) {
        gs_trace_stay_on();
    }
    gs_record_trace_changed();
}

void gs_record_reset(void)
{
    churn = NULL;
    pinned = NULL;
}

struct gs_churn *gs_record_churn(void)
{
    return churn;
}

void gs_record_watch_pinned(gs_record_freed freed)
{
    pinned_freed = freed;
}

struct gs_pinned_uses *gs_record_pinned(void)
{
    return pinned;
}

struct gs_sampling gs_record_sampling(const struct gs_options *options)
{
    struct gs_sampling sampling = {.distance_bytes = options->track_sample_bytes,
                                   .always_bytes = options->stack_always_bytes,
                                   .min_bytes = options->track_min_bytes};
    if (sampling.distance_bytes && options->stack == GS_UNWIND_OFF) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_STACK=sample:%llu: with "
                    "GPUSHIM_STACK=off there is nothing to sample",
                    (unsigned long long)sampling.distance_bytes);
        sampling.distance_bytes = 0;
    } else if (sampling.always_bytes && !sampling.distance_bytes) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_STACK=always:%llu: without "
                    "GPUSHIM_STACK=sample each allocation has a stack",
                    (unsigned long long)sampling.always_bytes);
    }
    if (sampling.always_bytes && sampling.always_bytes < sampling.min_bytes) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_STACK=always:%llu: less than "
                    "GPUSHIM_STACK=min; from there on it is",
                    (unsigned long long)sampling.always_bytes);
    }
    return sampling;
}

void gs_record_sampling_changed(struct gs_state *state)
{
    const struct gs_sampling sampling = gs_record_sampling(&state->options);
    gs_tracker_sample(state->tracker, &sampling);
    set_sampled(&state->options);
    gs_record_trace_changed();
}

/* choose_stack if only some stacks are recorded. */
static __attribute__((noinline)) uint32_t
choose_sampled(struct gs_state *state, enum gs_memory_kind kind, uint64_t bytes)
{
    uint32_t instead = gs_tracker_choose_stack(state->tracker, kind, bytes);
    return instead == 0 && state->stacks ? gs_stacks_capture(state->stacks) : instead;
}

/* The stack of an allocation; or its substitute, if only some stacks are recorded. */
static inline uint32_t choose_stack(struct gs_state *state, enum gs_memory_kind kind,
                                    uint64_t bytes)
{
    if (__atomic_load_n(&is_sampled, __ATOMIC_RELAXED)) {
        return choose_sampled(state, kind, bytes);
    }
    return state->stacks ? gs_stacks_capture(state->stacks) : 0;
}

/* Returns true if recording is stopped now. */
static inline bool is_stopped(struct gs_state *state)
{
    return gs_record_is_detailed() && !gs_tracker_records(state->tracker);
}

uint32_t gs_record_part_stack(struct gs_state *state)
{
    bool scoped = __atomic_load_n(&is_scoped, __ATOMIC_RELAXED);
    uint32_t stack = GS_STACK_NOT_SAMPLED;
    if (!state->stacks || is_stopped(state)) {
        return 0;
    }
    if (!__atomic_load_n(&is_sampled, __ATOMIC_RELAXED)) {
        stack = gs_stacks_capture(state->stacks);
    }
    if (scoped && !gs_scopes_are_settled(stack)) {
        stack = in_scope(state, stack);
    }
    return stack == GS_STACK_NOT_SAMPLED ? 0 : stack;
}

/* ---- allocations ---------------------------------------------------------------- */

#define SET(kind) (1u << GS_MEMORY_##kind)
/* Kinds that both host and device may read and write, besides pinned memory. */
#define SHARED                                                                           \
    (SET(MANAGED) | SET(REGISTERED) | SET(PHYSICAL_HOST) | SET(IMPORTED) | SET(MAPPED))
/* Kinds that are traced (docs/traces.md), and whose lifetimes are known. */
#define TRACED (SET(DEVICE) | SET(ASYNC) | SET(MANAGED) | SET(PINNED))

static void trace_made(const struct gs_call *call, uint64_t addr, size_t bytes,
                       uint32_t stack)
{
    enum gs_trace_order order = GS_TRACE_UNORDERED;
    if (call->kind == GS_MEMORY_ASYNC) {
        order = call->per_thread ? GS_TRACE_ORDERED_PER_THREAD : GS_TRACE_ORDERED;
    }
    gs_trace_alloc(call->kind, addr, bytes, call->owner, gs_call_device(call),
                   call->stream, order, stack);
}

void gs_record_missed(void)
{
    static struct gs_log_limit limit;
    gs_log_once(&limit, GS_LOG_WARN,
                "no host memory to record an allocation: the report will miss some");
}

static inline struct gs_allocation
allocation_of_call(const struct gs_call *call, uint64_t key, size_t bytes, uint32_t stack)
{
    return (struct gs_allocation){.addr = key,
                                  .bytes = bytes,
                                  .context = (uint64_t)(uintptr_t)call->owner,
                                  .stream = (uint64_t)(uintptr_t)call->stream,
                                  .thread = gs_thread_id(),
                                  .stack = stack,
                                  .device = (int16_t)gs_call_device(call),
                                  .api = gs_record_api(call->api),
                                  .kind = (uint8_t)call->kind};
}

struct gs_allocation gs_record_describe(struct gs_state *state,
                                        const struct gs_call *call, uint64_t key,
                                        size_t bytes)
{
    uint32_t stack = choose_stack(state, call->kind, bytes);
    return allocation_of_call(call, key, bytes,
                              gs_record_is_detailed() ? in_scope(state, stack) : stack);
}

/* Reports the allocation to the tracker. `watched`: it may be in a scope, and counts for
 * the sums by call site, if kept; `lives`: its lifetime does, too. */
static inline __attribute__((always_inline)) uint32_t
record(struct gs_state *state, const struct gs_call *call, uint64_t key, size_t bytes,
       struct gs_block *block, uint32_t stack, bool watched, bool lives)
{
    struct gs_allocation allocation = allocation_of_call(call, key, bytes, stack);
    bool by_id = block || call->by_id;
    enum gs_status status;
    uint32_t id = 0;
    if (watched) {
        gs_tracker_tally(state->tracker, &allocation);
    }
    if (lives && churn) {
        gs_churn_add(churn, &allocation);
    }
    if (lives && pinned && call->kind == GS_MEMORY_PINNED) {
        gs_pinned_uses_add(pinned, &allocation);
    }
    if (watched && __atomic_load_n(&is_scoped, __ATOMIC_RELAXED)) {
        allocation.stack = in_scope(state, stack);
        status = gs_tracker_add_scoped(state->tracker, &allocation, by_id, &id);
    } else {
        status = gs_tracker_add(state->tracker, &allocation, by_id, &id);
    }
    if (status != GS_OK) {
        gs_record_missed();
        return 0;
    }
    if (block) {
        gs_block_set_tag_late(block, key, id);
    }
    return id;
}

/* Logs the line of an allocation for GPUSHIM_VERBOSE=3. */
static __attribute__((cold, noinline)) void log_alloc(const struct gs_call *call,
                                                      uint64_t key, size_t bytes)
{
    char size[24], on_device[24] = "";
    const char *scope;
    size_t length = gs_scopes_current(&scope);
    if (!gs_call_is_on_host(call) && call->device >= 0) {
        (void)snprintf(on_device, sizeof(on_device), ", GPU %d", call->device);
    }
    gs_log_line(GS_LOG_DEBUG, "alloc 0x%llx, %s, by %s%s, thread %u%s%.*s",
                (unsigned long long)key, gs_text_bytes(bytes, size),
                gs_api_name(gs_record_api(call->api)), on_device, gs_thread_id(),
                length > 0 ? ", scope " : "", (int)length, scope);
}

/* Out of line, so that its arguments cost nothing while all of this is off. */
static __attribute__((noinline)) uint32_t made_watched(struct gs_state *state,
                                                       const struct gs_call *call,
                                                       uint64_t key, size_t bytes,
                                                       struct gs_block *block)
{
    bool traced = (TRACED >> call->kind & 1u) != 0;
    bool records = state->tracker && gs_tracker_records(state->tracker);
    if (pinned && (SHARED >> call->kind & 1u) != 0) {
        gs_pinned_uses_give_up(pinned);
    }
    uint32_t stack = records ? choose_stack(state, call->kind, bytes) : 0;
    if (gs_tracing() && traced) {
        trace_made(call, key, bytes, stack);
    }
    if (gs_tracing() && is_logged) {
        log_alloc(call, key, bytes);
    }
    if (!state->tracker) {
        return 0;
    }
    if (!records) {
        gs_tracker_pass(state->tracker, key, block || call->by_id);
        return 0;
    }
    return record(state, call, key, bytes, block, stack, true, traced);
}

/* The record of a block that may be in a scope. */
static inline void record_scoped(struct gs_state *state, const struct gs_call *call,
                                 uint64_t addr, size_t bytes, struct gs_block *block,
                                 uint32_t stack)
{
    if (GS_UNLIKELY(!gs_scopes_are_settled(stack))) {
        stack = in_scope(state, stack);
    }
    gs_block_set_tag_late(block, addr,
                          gs_record_add_block(state, call, addr, bytes, stack, true));
}

void gs_record_detailed_block(struct gs_state *state, const struct gs_call *call,
                              uint64_t addr, size_t bytes, struct gs_block *block)
{
    if (gs_tracing() || is_tallied || !state->tracker) {
        (void)made_watched(state, call, addr, bytes, block);
        return;
    }
    if (!gs_tracker_records(state->tracker)) {
        gs_tracker_pass(state->tracker, addr, true);
        return;
    }
    uint32_t stack = choose_stack(state, call->kind, bytes);
    if (__atomic_load_n(&is_scoped, __ATOMIC_RELAXED)) {
        record_scoped(state, call, addr, bytes, block, stack);
    } else {
        block->live.tag = gs_record_add_block(state, call, addr, bytes, stack, false);
    }
}

uint32_t gs_record_alloc(struct gs_state *state, const struct gs_call *call, uint64_t key,
                         size_t bytes, struct gs_block *block)
{
    if (gs_record_is_detailed()) {
        return made_watched(state, call, key, bytes, block);
    }
    return state->tracker ? record(state, call, key, bytes, block,
                                   state->stacks ? gs_stacks_capture(state->stacks) : 0,
                                   false, false)
                          : 0;
}

void gs_record_refused(struct gs_state *state, const struct gs_call *call)
{
    if (!is_stopped(state)) {
        gs_tracker_add_failed(state->tracker, gs_call_device(call), call->kind);
    }
}

/* ---- frees ---------------------------------------------------------------------- */

/* Ends the lifetime of an allocation, of the kinds that made_watched adds. */
static void end_life(struct gs_state *state, const struct gs_allocation *allocation)
{
    if (churn && (TRACED >> allocation->kind & 1u) != 0) {
        gs_churn_end(churn, allocation, gs_tracker_now(state->tracker));
    }
    if (pinned && allocation->kind == GS_MEMORY_PINNED) {
        if (pinned_freed) {
            pinned_freed(allocation->addr, allocation->bytes);
        }
        gs_pinned_uses_end(pinned, allocation->addr);
    }
}

/* The driver has refused the free. What it would have freed may have been used. */
static void go_on_living(struct gs_state *state, const struct gs_allocation *allocation)
{
    if (churn && (TRACED >> allocation->kind & 1u) != 0) {
        gs_churn_take_back(churn, allocation, gs_tracker_now(state->tracker));
    }
    if (pinned && allocation->kind == GS_MEMORY_PINNED) {
        gs_pinned_uses_give_up(pinned);
    }
}

static void trace_free(const struct gs_freeing *freeing)
{
    if (freeing->how != GS_TRACE_HOW_NONE) {
        gs_trace_free(freeing->key, freeing->how, freeing->stream, freeing->order);
    }
    if (is_logged && freeing->key != 0) {
        gs_log_line(GS_LOG_DEBUG, "free 0x%llx by %s, thread %u",
                    (unsigned long long)freeing->key,
                    gs_api_name(gs_record_api(freeing->api)), gs_thread_id());
    }
}

void gs_record_trace_free(struct gs_state *state, const struct gs_freeing *freeing)
{
    struct gs_allocation was;

    trace_free(freeing);
    if ((churn || pinned) &&
        gs_tracker_look_up(state->tracker, freeing->key, &was) == GS_OK) {
        end_life(state, &was);
    }
}

/* The same for a block of the pool. */
static __attribute__((cold, noinline)) void end_block(struct gs_state *state, uint32_t id)
{
    struct gs_allocation was;

    if ((churn || pinned) && gs_tracker_get(state->tracker, id, &was) == GS_OK) {
        end_life(state, &was);
    }
}

void gs_record_detailed_end(struct gs_state *state, uint32_t id, enum gs_api api,
                            uint64_t addr, enum gs_trace_how how)
{
    if (gs_tracing()) {
        end_block(state, id);
        trace_free(&(struct gs_freeing){
            .key = addr, .how = how, .order = GS_TRACE_UNORDERED, .api = api});
    }
    if (!state->tracker || id == 0) {
        return;
    }
    gs_tracker_remove_block(state->tracker, id, gs_thread_id(), gs_record_api(api));
}

void gs_record_remove(struct gs_state *state, struct gs_freeing *freeing)
{
    freeing->was.addr = 0;
    if (!state->tracker || freeing->key == 0) {
        return;
    }
    struct gs_free_site site = gs_record_site(state, freeing->api, false);
    if (gs_tracker_remove_address(state->tracker, freeing->key, &site, &freeing->was) !=
        GS_OK) {
        freeing->was.addr = 0;
    }
}

void gs_record_restore(struct gs_state *state, const struct gs_allocation *was)
{
    if (was->addr != 0 && gs_tracker_restore(state->tracker, was) != GS_OK) {
        gs_record_missed();
    }
}

void gs_record_free_refused(struct gs_state *state, const struct gs_freeing *freeing,
                            CUresult result)
{
    if (freeing->was.addr != 0) {
        go_on_living(state, &freeing->was);
    }
    gs_record_restore(state, &freeing->was);
    /* In a free by address an invalid handle means the stream. */
    if (gs_record_unknown(result) &&
        (gs_key_is_handle(freeing->key) || result != CUDA_ERROR_INVALID_HANDLE)) {
        gs_record_bad_free(state, freeing->key, freeing->api);
    }
}

/* ---- the driver's answers ------------------------------------------------------- */

bool gs_record_unknown(CUresult result)
{
    return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE ||
           result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
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
    case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
    case CUDA_ERROR_ARRAY_IS_MAPPED:
        return true;
    default:
        return false;
    }
}

void gs_record_bad_free(struct gs_state *state, uint64_t addr, enum gs_api api)
{
    if (state->tracker && !is_stopped(state)) {
        struct gs_free_site site = gs_record_site(state, api, true);
        int device = gs_thread.context ? gs_thread.context->device : 0;
        gs_tracker_error_free(state->tracker, addr, device, &site);
    }
}

void gs_record_not_idle(struct gs_state *state, const struct gs_context *context,
                        CUstream stream, uint64_t waited_ns, enum gs_api api)
{
    if (state->tracker && !is_stopped(state)) {
        struct gs_free_site site = gs_record_site(state, api, true);
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
