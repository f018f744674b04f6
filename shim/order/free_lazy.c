/*
 * free_lazy.c - the free of a pooled block in the lazy mode.
 * Owns:  nothing.   Lock: none.
 */
#include "free_lazy.h"

#include "announce.h"
#include "captures.h"
#include "epochs.h"
#include "free_wait.h"
#include "marks.h"
#include "mutants.h"
#include "record.h"
#include "trace.h"

static bool is_lazy(const struct gs_state *state)
{
    return state->options.free_sync == GS_FREE_SYNC_LAZY;
}

static void account(struct gs_state *state, struct gs_block *block, uint64_t addr,
                    enum gs_trace_how how)
{
    gs_record_block_ends(state, block, GS_API_cuMemFree_v2, addr, how);
    gs_announce_take_back("cuMemFree_v2", addr);
}

/* What a free joins: park() with it once its books are done. */
struct joined {
    gs_fence fence;
    bool full;
};

static inline bool join(struct gs_state *state, struct gs_context *context,
                        const struct gs_block *block, struct joined *joined)
{
    return gs_marks_work(state, context) &&
           gs_epochs_join(&context->epochs, gs_block_requested(block), &joined->fence,
                          &joined->full) == GS_OK;
}

/* An epoch was closed: what is ready by now is had for this thread's next allocations, as
 * far as that takes no more calls of the driver than the frees are good for. */
static void bring_back(struct gs_context *context)
{
    size_t ready;
    do {
        ready =
            gs_epochs_worth_looking(&context->epochs) ? gs_heap_ripen(context->heap) : 0;
    } while (ready > 0);
}

static inline void park(struct gs_context *context, struct gs_block *block,
                        const struct joined *joined)
{
    gs_block_park_fenced(block, joined->fence);
    if (GS_UNLIKELY(joined->full)) {
        gs_epochs_close(&context->epochs);
        bring_back(context);
    }
}

bool gs_free_into_epoch(struct gs_state *state, struct gs_block *block)
{
    struct gs_context *context = gs_heap_self(gs_block_heap(block));
    struct joined joined;
    bool done = join(state, context, block, &joined);
    if (done) {
        park(context, block, &joined);
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
        gs_block_park(block);
        return true;
    }
    if (!join(state, context, block, &joined)) {
        return false;
    }
    account(state, block, addr, GS_TRACE_HELD);
    park(context, block, &joined);
    return true;
}

uint64_t gs_lazy_wait_begin(struct gs_state *state, const struct gs_context *context)
{
    if (!is_lazy(state) || !context || !context->heap ||
        gs_context_accessor(&state->contexts, context->handle, 0)) {
        return 0;
    }
    return gs_heap_retire_begin(context->heap);
}

void gs_lazy_wait_end(const struct gs_context *context, uint64_t token)
{
    if (gs_mutant(GS_MUTANT_retired_after)) {
        token = gs_heap_retire_begin(context->heap);
    }
    gs_heap_retire(context->heap, token);
}

void gs_lazy_mapped(const struct gs_context *context, enum gs_status status)
{
    const struct gs_state *state = gs_state_peek();
    struct gs_epochs *epochs = &((struct gs_context *)(uintptr_t)context)->epochs;
    size_t room = 0, total;
    if (!state || !is_lazy(state)) {
        return;
    }
    if (status == GS_OK && gs_real()->cuMemGetInfo_v2(&room, &total) != CUDA_SUCCESS) {
        room = 0;
    }
    gs_epochs_room(epochs, room);
}
