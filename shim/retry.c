/*
 * retry.c - what is freed or idle in the pool never makes an allocation fail.
 * Owns:  nothing.   Lock: none.
 */
#include "retry.h"

#include <time.h>

#include "announce.h"
#include "captures.h"
#include "free_lazy.h"
#include "mutants.h"

/* How long an allocation that would fail polls for blocks freed in stream order, or, in
 * the lazy mode, at all. Native would find the first by the stream's order and has waited
 * for the others; a wait without an end could be for this very thread. */
#define WAIT_NS      400000000
#define FIRST_NAP_NS 200000
#define LAST_NAP_NS  50000000

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
    if (gs_mutant(GS_MUTANT_waits_when_full) && context && pending_bytes(state, -1)) {
        return wait_for(state, context) == CUDA_SUCCESS;
    }
    int device = context ? context->device : -1;
    uint64_t before = pending_bytes(state, device);
    if (before == 0) {
        return false;
    }
    /* Ever longer naps: who asks too often may keep the device from going on. */
    struct timespec nap = {.tv_nsec = FIRST_NAP_NS};
    for (long waited = 0; waited < WAIT_NS; waited += nap.tv_nsec) {
        (void)gs_pool_idle_bytes(state->pool, device); /* asks after the fences */
        if (pending_bytes(state, device) < before) {
            return true;
        }
        /* Only blocks freed during a capture are worth a wait that may be long: their own
           free would have made it. */
        if (waited == 0 && context && gs_context_take_unfenced(context) &&
            wait_for(state, context) != CUDA_SUCCESS) {
            return false;
        }
        nap.tv_nsec = waited < FIRST_NAP_NS ? FIRST_NAP_NS : waited;
        nap.tv_nsec = nap.tv_nsec < LAST_NAP_NS ? nap.tv_nsec : LAST_NAP_NS;
        nanosleep(&nap, NULL);
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
    if (context) {
        gs_lazy_mapped(context, GS_ERR_NOMEM);
    }
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
