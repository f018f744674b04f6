/*
 * free_permit.c - asks the driver by freeing a piece of the library's own.
 *
 * The piece is allocated when it is needed, in the relaxed mode, in which no capture
 * minds. It is freed in the thread's own mode: that is the question.
 *
 * Owns:  nothing; the pieces are the contexts'.   Lock: none.
 */
#include "free_permit.h"

#include "announce.h"
#include "capture_gate.h"
#include "mutants.h"
#include "record.h"

#define PIECE_BYTES 16

/* A new piece of that context, or 0. */
static uint64_t get_piece(const struct gs_context *context, enum gs_permit kind)
{
    CUstreamCaptureMode mode;
    CUdeviceptr device = 0;
    void *pinned = NULL;
    bool pushed;
    if (!gs_relaxed_begin(&mode)) {
        return 0; /* a driver from before the modes */
    }
    gs_announce_begin("cuMemFree_v2", false);
    CUresult result = gs_context_push(context->handle, &pushed);
    if (result == CUDA_SUCCESS) {
        result = kind == GS_PERMIT_PINNED
                     ? gs_real()->cuMemHostAlloc(&pinned, PIECE_BYTES, 0)
                     : gs_real()->cuMemAlloc_v2(&device, PIECE_BYTES);
    }
    gs_context_pop(pushed);
    gs_announce_end();
    gs_relaxed_end(&mode);
    if (result != CUDA_SUCCESS) {
        return 0;
    }
    return kind == GS_PERMIT_PINNED ? (uint64_t)(uintptr_t)pinned : device;
}

static CUresult free_piece(uint64_t piece, enum gs_permit kind)
{
    return kind == GS_PERMIT_PINNED ? gs_real()->cuMemFreeHost((void *)(uintptr_t)piece)
                                    : gs_real()->cuMemFree_v2(piece);
}

/* A piece that was refused before, or 0. */
static uint64_t take_piece(struct gs_context *context, enum gs_permit kind)
{
    uint64_t piece = 0;
    for (unsigned i = 0; i < GS_PERMIT_PIECES && !piece; i++) {
        piece = __atomic_exchange_n(&context->permits[kind][i], 0, __ATOMIC_ACQ_REL);
    }
    return piece;
}

/* A piece that the driver did not take back, for the next question. Where there are
 * enough of them it is lost until its context ends: to make the driver take it now would
 * be a wait that native does not make. */
static void put_piece(struct gs_context *context, enum gs_permit kind, uint64_t piece)
{
    bool put = false;
    for (unsigned i = 0; i < GS_PERMIT_PIECES && !put; i++) {
        uint64_t none = 0;
        put = __atomic_compare_exchange_n(&context->permits[kind][i], &none, piece, false,
                                          __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
}

CUresult gs_permit_free(const struct gs_state *state, struct gs_context *context,
                        enum gs_permit kind)
{
    bool lazy = kind == GS_PERMIT_DEVICE && state->options.free_sync == GS_FREE_SYNC_LAZY;
    if (lazy || gs_mutant(GS_MUTANT_capture_forgiven)) {
        return CUDA_SUCCESS;
    }
    uint64_t piece = take_piece(context, kind) ?: get_piece(context, kind);
    if (!piece) {
        return CUDA_SUCCESS;
    }
    gs_announce_begin(kind == GS_PERMIT_PINNED ? "cuMemFreeHost" : "cuMemFree_v2", true);
    CUresult result = free_piece(piece, kind);
    gs_announce_end();
    if (!gs_refused_for_capture(result)) {
        return CUDA_SUCCESS;
    }
    put_piece(context, kind, piece);
    return result;
}
