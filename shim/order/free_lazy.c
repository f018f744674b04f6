/*
 * free_lazy.c - frees a pooled block without a wait.
 * Owns:  `in_use`, `free_estimates`.   Lock: none; atomic.
 */
#include "shim/order/free_lazy.h"

#include <string.h>

#include "gs_clock.h"
#include "shim/memory/tell.h"
#include "shim/order/captures.h"
#include "shim/order/context_events.h"
#include "shim/order/free_wait.h"
#include "shim/state/epochs.h"
#include "shim/state/trim_hold.h"
#include "shim/trace/trace.h"

/* The shortest interval between two queries of a device's free memory. */
#define QUERY_NS ((uint64_t)1000000000)

static bool in_use; /* atomic: a free may have joined an epoch; never reset */

static bool is_lazy(const struct gs_state *state)
{
    return state->options.free_sync == GS_FREE_SYNC_LAZY;
}

void gs_lazy_start(const struct gs_options *options)
{
    in_use = options->free_sync == GS_FREE_SYNC_LAZY;
}

static void account(struct gs_state *state, struct gs_block *block, uint64_t addr,
                    enum gs_trace_how how)
{
    gs_tell_block_freed(state, block, GS_API_cuMemFree_v2, addr, how);
}

/* The epoch that a free has joined, for free_joined() once the free is recorded. */
struct joined {
    gs_fence fence;
    bool full;
};

static inline bool join(struct gs_state *state, struct gs_context *context,
                        const struct gs_block *block, struct joined *joined)
{
    return gs_context_events_work(state, context) &&
           gs_epochs_join(&context->epochs, gs_block_requested(block), &joined->fence,
                          &joined->full) == GS_OK;
}

/* Called when an epoch was closed. Collects the ready blocks for this thread's next
 * allocations, but makes no more driver calls than the frees justify. */
static void collect_ready(struct gs_context *context)
{
    size_t ready;
    do {
        ready = gs_epochs_worth_looking(&context->epochs)
                    ? gs_heap_collect_ready(context->heap)
                    : 0;
    } while (ready > 0);
}

static inline void free_joined(struct gs_context *context, struct gs_block *block,
                               const struct joined *joined)
{
    gs_block_free_fenced(block, joined->fence);
    if (GS_UNLIKELY(joined->full)) {
        if (!gs_known_proof_holds()) {
            gs_free_log_proof_end(gs_state_peek());
        }
        gs_epochs_close(&context->epochs);
        collect_ready(context);
    }
}

bool gs_free_into_epoch(struct gs_state *state, struct gs_block *block)
{
    struct gs_context *context = gs_heap_self(gs_block_heap(block));
    struct joined joined;
    __atomic_store_n(&in_use, true, __ATOMIC_RELAXED);
    bool done = join(state, context, block, &joined);
    if (done) {
        free_joined(context, block, &joined);
    }
    return done;
}

void gs_lazy_captures_end(struct gs_state *state)
{
    const struct gs_context *context;
    if (!gs_captures_ever() || gs_captures_active()) {
        return;
    }
    for (size_t i = 0; (context = gs_context_nth(state, i)) != NULL; i++) {
        gs_epochs_capture_ends(&((struct gs_context *)(uintptr_t)context)->epochs);
    }
}

bool gs_free_lazily(struct gs_state *state, struct gs_block *block, uint64_t addr)
{
    struct gs_context *context;
    struct joined joined;
    if (!is_lazy(state)) {
        return false;
    }
    context = gs_heap_self(gs_block_heap(block));
    if (gs_context_is_idle(&state->contexts, context)) {
        gs_free_found_idle(context);
        account(state, block, addr, GS_TRACE_READY);
        gs_block_free(block);
        return true;
    }
    if (!join(state, context, block, &joined)) {
        return false;
    }
    account(state, block, addr, GS_TRACE_HELD);
    gs_trim_thread_want();
    free_joined(context, block, &joined);
    return true;
}

uint64_t gs_lazy_wait_begin(struct gs_state *state, const struct gs_context *context)
{
    if (!context || !context->heap || !__atomic_load_n(&in_use, __ATOMIC_RELAXED) ||
        gs_context_accessor(&state->contexts, context->handle, 0)) {
        return 0;
    }
    return gs_heap_retire_begin(context->heap);
}

void gs_lazy_wait_end(const struct gs_context *context, uint64_t token)
{
    gs_heap_retire(context->heap, token);
}

/* The estimated free memory of a device: the driver's last answer minus the bytes taken
 * since. Some drivers take milliseconds to answer. */
static struct free_estimate {
    uint64_t bytes, next_query; /* atomic */
} free_estimates[GS_MAX_DEVICES];

static uint64_t free_after(struct free_estimate *room, size_t taken_bytes)
{
    uint64_t now = gs_now_coarse_ns();
    uint64_t at = __atomic_load_n(&room->next_query, __ATOMIC_RELAXED);
    uint64_t bytes = __atomic_load_n(&room->bytes, __ATOMIC_RELAXED);
    size_t free_bytes = 0, total;
    if (now < at) {
        return bytes > taken_bytes ? bytes - taken_bytes : 0;
    }
    __atomic_store_n(&room->next_query, now + QUERY_NS, __ATOMIC_RELAXED);
    return gs_real()->cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS ? free_bytes
                                                                           : 0;
}

void gs_lazy_mapped(const struct gs_context *context, enum gs_status status,
                    size_t taken_bytes)
{
    struct gs_epochs *epochs = &((struct gs_context *)(uintptr_t)context)->epochs;
    if (!__atomic_load_n(&in_use, __ATOMIC_RELAXED)) {
        return;
    }
    struct free_estimate *room = &free_estimates[gs_free_row(context)];
    uint64_t bytes = status == GS_OK ? free_after(room, taken_bytes) : 0;
    __atomic_store_n(&room->bytes, bytes, __ATOMIC_RELAXED);
    gs_epochs_headroom(epochs, (size_t)bytes);
}

void gs_lazy_reset(void)
{
    memset(free_estimates, 0, sizeof(free_estimates));
}
