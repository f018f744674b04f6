/*
 * free_wait.c - the wait of a free of pooled memory.
 *
 * Natively a free waits for all work of its context (docs/free.md, "What a native free
 * waits for"), and programs rely on this wait. The wait is left out if no work was
 * submitted since the context was last found complete (submissions.h). No error is missed
 * then: the wait that found the context complete returned the code of all earlier work.
 *
 * Owns:  the sums of waits.   Lock: none; relaxed atomics.   Design: docs/free.md
 */
#include "shim/order/free_wait.h"

#include "gs_clock.h"
#include "gs_uncancelled.h"
#include "shim/link/known_functions.h"
#include "shim/link/notify.h"
#include "shim/order/context_events.h"
#include "shim/order/context_wait.h"
#include "shim/settings/log.h"
#include "shim/state/context_switch.h"
#include "shim/state/submissions.h"

static struct {
    uint64_t waited, waited_ns; /* atomic */
} sums[GS_MAX_DEVICES];

void gs_free_log_proof_end(const struct gs_state *state)
{
    static struct gs_log_limit limit;
    const char *name = gs_known_ended_by();
    if (name[0]) {
        gs_log_once(
            &limit, GS_LOG_INFO,
            "%s may submit GPU work that gpushim cannot count: from now on %s", name,
            state->options.free_sync == GS_FREE_SYNC_LAZY ? "no free finds the GPU idle"
                                                          : "every free waits");
    }
}

static inline __attribute__((always_inline)) void
count_wait(const struct gs_context *context, uint64_t began)
{
    unsigned row = gs_free_row(context);
    __atomic_add_fetch(&sums[row].waited, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&sums[row].waited_ns, gs_now_ns() - began, __ATOMIC_RELAXED);
}

/* Waits on behalf of a free of this memory by the program's `call`. */
static inline __attribute__((always_inline)) CUresult
wait_noted(struct gs_state *state, const struct gs_context *context, const char *call,
           uint64_t addr, size_t bytes, bool *in_use)
{
    gs_notify_free(call, addr, bytes);
    CUresult result = gs_context_wait(state, context, in_use);
    gs_notify_end();
    return result;
}

static GS_NOINLINE CUresult wait_for_context(struct gs_state *state,
                                             const struct gs_context *context,
                                             const struct gs_block *block, bool *in_use)
{
    uint64_t began = gs_now_ns();
    if (GS_UNLIKELY(!gs_known_proof_holds())) {
        gs_free_log_proof_end(state);
    }
    CUresult result = wait_noted(state, context, "cuMemFree_v2", gs_block_addr(block),
                                 gs_block_requested(block), in_use);
    count_wait(context, began);
    return result;
}

CUresult gs_free_wait_other(struct gs_state *state, const struct gs_context *context,
                            const char *call, uint64_t addr, size_t bytes)
{
    bool in_use;
    CUresult result = wait_noted(state, context, call, addr, bytes, &in_use);
    if (!gs_known_proof_holds()) {
        gs_free_log_proof_end(state);
    }
    return result;
}

CUresult gs_free_in_driver(const struct gs_context *context, uint64_t addr, size_t bytes)
{
    uint64_t began = gs_now_ns();
    bool pushed;
    int before = gs_uncancelled_begin();
    gs_notify_free("cuMemFree_v2", addr, bytes);
    CUresult result = gs_context_push(context->handle, &pushed);
    if (result == CUDA_SUCCESS) {
        result = gs_real()->cuMemFree_v2(addr);
    }
    gs_context_pop(pushed);
    gs_notify_end();
    gs_uncancelled_end(before);
    count_wait(context, began);
    return result;
}

CUresult gs_free_wait(struct gs_state *state, const struct gs_block *block, bool *idle,
                      bool *in_use)
{
    const struct gs_context *context = gs_heap_self(gs_block_heap(block));
    *in_use = false;
    *idle = gs_free_finds_idle(state, context);
    return *idle ? CUDA_SUCCESS : wait_for_context(state, context, block, in_use);
}

void gs_free_stats(unsigned device, struct gs_free_stats *out)
{
    *out = (struct gs_free_stats){
        .waited = __atomic_load_n(&sums[device].waited, __ATOMIC_RELAXED),
        .waited_ns = __atomic_load_n(&sums[device].waited_ns, __ATOMIC_RELAXED),
        .found_idle = gs_submissions_idle_frees(device)};
}

void gs_free_stats_reset(void)
{
    for (size_t i = 0; i < GS_MAX_DEVICES; i++) {
        __atomic_store_n(&sums[i].waited, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&sums[i].waited_ns, 0, __ATOMIC_RELAXED);
    }
}
