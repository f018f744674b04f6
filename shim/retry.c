/*
 * retry.c - what is freed or idle in the pool never makes an allocation fail.
 * Owns:  nothing.   Lock: none.
 */
#include "retry.h"

#include <time.h>

#include "announce.h"
#include "captures.h"

/* How long an allocation that would fail waits for blocks freed in stream order. Native
 * would find them by the stream's order; a longer wait could be for this very thread. */
#define WAIT_ROUNDS   200
#define WAIT_ROUND_NS 1000000

static uint64_t pending_bytes(struct gs_state *state, int device)
{
    struct gs_pool_stats stats;
    gs_pool_stats(state->pool, device, &stats);
    return stats.pending_bytes;
}

/* For blocks freed during a capture, whose own free would have waited. */
static CUresult wait_for(struct gs_state *state, const struct gs_context *context)
{
    gs_announce_begin("an allocation that is out of memory", true);
    CUresult result = gs_context_wait(state, context);
    gs_announce_end();
    return result;
}

bool gs_retry_after_wait(struct gs_state *state, const struct gs_context *context,
                         CUresult result)
{
    if (result != CUDA_ERROR_OUT_OF_MEMORY || !state->pool || gs_captures_active()) {
        return false;
    }
    int device = context ? context->device : -1;
    uint64_t before = pending_bytes(state, device);
    if (before == 0) {
        return false;
    }
    struct timespec round = {.tv_nsec = WAIT_ROUND_NS};
    for (int i = 0; i < WAIT_ROUNDS; i++) {
        (void)gs_pool_idle_bytes(state->pool, device); /* asks after the fences */
        if (pending_bytes(state, device) < before) {
            return true;
        }
        /* Only blocks freed during a capture are worth a wait that may be long: their own
           free would have made it. */
        if (i == 0 && context && gs_context_take_unfenced(context) &&
            wait_for(state, context) != CUDA_SUCCESS) {
            return false;
        }
        nanosleep(&round, NULL);
    }
    return false;
}

bool gs_retry_after_trim(struct gs_state *state, const struct gs_context *context,
                         CUresult result)
{
    if (GS_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY) || !state->pool) {
        return false;
    }
    int device = context ? context->device : -1;
    do {
        if (!gs_captures_active() && gs_pool_trim(state->pool, device, SIZE_MAX) > 0) {
            return true;
        }
    } while (gs_retry_after_wait(state, context, result));
    return false;
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
