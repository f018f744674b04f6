/*
 * retry.c - reclaims freed and idle memory of the pool before an allocation fails.
 * Owns:  the counts of repeated calls.   Lock: none; relaxed atomics.
 */
#include "retry.h"

#include "notify.h"
#include "captures.h"
#include "free_lazy.h"
#include "mem_limits.h"
#include "parts.h"
#include "gs_wait.h"

/* How long an allocation that would fail polls for blocks freed in stream order or, in
 * the lazy mode, for any freed block. Natively the order of the stream would make the
 * first available, and the free has waited for the others. The wait is bounded since the
 * running work may wait for this very thread. */
#define WAIT_NS      400000000ull
#define FIRST_NAP_NS 200000u
#define LAST_NAP_NS  50000000u
/* After a wait that found nothing, requests for at least the same size do not wait for
 * this time: a program that allocates until it is refused must not wait each time. */
#define PAUSE_NS 2000000000ull

static uint64_t paused_until, paused_bytes; /* atomic */

/* By device; the last row is for calls without a context. */
static uint64_t made_again[GS_MAX_DEVICES + 1];

static void count_again(int device)
{
    unsigned row = device < 0                ? GS_MAX_DEVICES
                   : device < GS_MAX_DEVICES ? (unsigned)device
                                             : GS_MAX_DEVICES - 1;
    __atomic_add_fetch(&made_again[row], 1, __ATOMIC_RELAXED);
}

uint64_t gs_retry_count(unsigned device)
{
    uint64_t count = __atomic_load_n(&made_again[device], __ATOMIC_RELAXED);
    if (device == 0) {
        count += __atomic_load_n(&made_again[GS_MAX_DEVICES], __ATOMIC_RELAXED);
    }
    return count;
}

void gs_retry_reset(void)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(made_again); i++) {
        __atomic_store_n(&made_again[i], 0, __ATOMIC_RELAXED);
    }
}

/* Whether some of the `before` pending bytes are no longer pending. */
static bool some_ready(struct gs_state *state, int device, uint64_t before)
{
    (void)gs_pool_idle_bytes(state->pool, device); /* queries the fences */
    return gs_pool_pending_bytes(state->pool, device) < before;
}

/* Waits for the context, for blocks freed during a capture: natively their free would
 * have waited. */
static CUresult wait_for(struct gs_state *state, const struct gs_context *context)
{
    bool in_use;
    gs_notify_begin("an allocation that is out of memory", true);
    CUresult result = gs_context_wait(state, context, GS_FREE_CONTEXT, &in_use);
    gs_notify_end();
    return result;
}

bool gs_retry_after_wait(struct gs_state *state, const struct gs_context *context,
                         CUresult result)
{
    if (result != CUDA_ERROR_OUT_OF_MEMORY || !state->pool || gs_captures_active()) {
        return false;
    }
    int device = context ? context->device : -1;
    uint64_t before = gs_pool_pending_bytes(state->pool, device);
    if (before == 0) {
        return false;
    }
    bool paused = before == __atomic_load_n(&paused_bytes, __ATOMIC_RELAXED) &&
                  gs_now_ns() < __atomic_load_n(&paused_until, __ATOMIC_RELAXED);
    if (some_ready(state, device, before)) {
        return true;
    }
    /* A possibly long wait is made only for blocks freed during a capture, whose own free
     * would have waited. */
    if (context && gs_context_take_unfenced(context) &&
        wait_for(state, context) != CUDA_SUCCESS) {
        return false;
    }
    if (paused) {
        return false;
    }
    /* Back off exponentially: polling too often can slow the device. */
    struct gs_wait wait = {.nap_ns = FIRST_NAP_NS,
                           .longest_ns = LAST_NAP_NS,
                           .until_ns = gs_now_ns() + WAIT_NS};
    while (gs_wait_step(&wait)) {
        if (some_ready(state, device, before)) {
            return true;
        }
    }
    __atomic_store_n(&paused_bytes, before, __ATOMIC_RELAXED);
    __atomic_store_n(&paused_until, gs_now_ns() + PAUSE_NS, __ATOMIC_RELAXED);
    return false;
}

static bool retry_after(struct gs_state *state, const struct gs_context *context,
                        size_t bytes, CUresult result)
{
    if (GS_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY) || !state->pool) {
        return false;
    }
    int device = context ? context->device : -1;
    if (context) {
        gs_lazy_mapped(context, GS_ERR_NOMEM, 0);
    }
    gs_parts_empty_quarantine(device); /* the quarantine's memory is idle then */
    bool trimmed = gs_pool_trim_step(state->pool, device, bytes) > 0;
    if (gs_parts_await_given(device) || trimmed) {
        count_again(device);
        return true;
    }
    if (gs_parts_trim(state) > 0) {
        return true;
    }
    if (!gs_retry_after_wait(state, context, result)) {
        return false;
    }
    /* Reclaims the blocks that have become ready, and those that must not be cached. */
    (void)gs_pool_trim(state->pool, device, SIZE_MAX);
    (void)gs_parts_await_given(device);
    count_again(device);
    return true;
}

bool gs_retry_after_trim(struct gs_state *state, const struct gs_context *context,
                         CUresult result)
{
    return retry_after(state, context, SIZE_MAX, result);
}

void gs_retry_refused(struct gs_state *state, int device, size_t bytes)
{
    if (state->pool && bytes <= gs_limits_most(device)) {
        gs_pool_set_refused(state->pool, device, bytes);
    }
}

bool gs_retry_for(struct gs_state *state, const struct gs_context *context, size_t bytes,
                  CUresult result)
{
    return GS_UNLIKELY(result == CUDA_ERROR_OUT_OF_MEMORY) && state->pool &&
           !(context && bytes > gs_limits_most(context->device)) &&
           retry_after(state, context, bytes, result);
}

bool gs_retry_needed(CUresult result)
{
    if (GS_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY)) {
        return false;
    }
    struct gs_state *state = gs_enter();
    if (!state) {
        return false;
    }
    bool needed = gs_retry_after_trim(state, gs_context_current(state), result);
    gs_leave();
    return needed;
}

/* Without a context the trim cannot report the memory shortage to the epochs. */
static void tell_all_mapped(struct gs_state *state)
{
    const struct gs_context *context;
    for (size_t i = 0; (context = gs_context_nth(state, i)) != NULL; i++) {
        gs_lazy_mapped(context, GS_ERR_NOMEM, 0);
    }
}

/* Whether any device of the program has this much memory. */
static bool any_has(struct gs_state *state, size_t bytes)
{
    const struct gs_context *context;
    for (size_t i = 0; (context = gs_context_nth(state, i)) != NULL; i++) {
        if (bytes <= gs_limits_most(context->device)) {
            return true;
        }
    }
    return bytes == 0;
}

bool gs_retry_on_all(struct gs_state *state, size_t bytes, CUresult result)
{
    if (GS_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY) || !any_has(state, bytes)) {
        return false;
    }
    tell_all_mapped(state);
    return gs_retry_after_trim(state, NULL, result);
}

bool gs_retry_everywhere(CUresult result)
{
    if (GS_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY)) {
        return false;
    }
    struct gs_state *state = gs_enter();
    if (!state) {
        return false;
    }
    bool needed = gs_retry_on_all(state, 0, result);
    gs_leave();
    return needed;
}
