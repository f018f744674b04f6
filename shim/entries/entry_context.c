/*
 * entry_context.c - the life of contexts: a heap ends with its context.
 *
 * Idle memory of the pool must not make a context's creation fail, so a failed call is
 * repeated after idle memory was reclaimed.
 *
 * Only the driver knows whether a call has ended a context, so the heap ends after the
 * call. If another context gets memory at the same addresses in between, its records and
 * segments replace those of the dead heap (record.c, and the pool for its own segments).
 *
 * Owns:  nothing.   Lock: none; the context map locks itself.
 */
#include "shim/async/async_policy.h"
#include "shim/checks/redzones.h"
#include "shim/heaps/moving_pages.h"
#include "shim/ipc/ipc_imports.h"
#include "shim/limits/mem_limits.h"
#include "shim/order/captures.h"
#include "shim/order/context_events.h"
#include "shim/order/fences.h"
#include "shim/order/free_lazy.h"
#include "shim/order/single_order.h"
#include "shim/parts.h"
#include "shim/record.h"
#include "shim/report/interim.h"
#include "shim/state/all_contexts.h"
#include "shim/state/cuda_start.h"

/* ---- create ---------------------------------------------------------------------- */

/* Registers a created context: it may use pinned and managed memory. */
static void context_created(CUresult result, const CUcontext *pctx)
{
    gs_cuda_start_record(GS_CUDA_HAS_CONTEXT, "cuCtxCreate", result);
    if (result == CUDA_SUCCESS) {
        gs_all_contexts_add(*pctx);
    }
}

static void context_retained(CUresult result, const CUcontext *pctx, CUdevice dev)
{
    gs_cuda_start_record(GS_CUDA_HAS_CONTEXT, "cuDevicePrimaryCtxRetain", result);
    if (result == CUDA_SUCCESS) {
        gs_all_contexts_add_primary(*pctx, dev);
        gs_all_contexts_use_more(dev);
    }
}

/* ---- destroy --------------------------------------------------------------------- */

static void forget_context(struct gs_state *state, CUcontext ctx)
{
    gs_captures_context_ends(ctx);
    gs_imports_context_ends(ctx);
    gs_fences_thaw(ctx, true);
    gs_context_events_context_ends(ctx);
    gs_parts_context_lost(state, ctx);
}

/* Ends the entry of a destroyed context. If another thread has created a context with the
 * same handle since, that context's entry is not `was`, and stays. */
static void context_ended(struct gs_state *state, CUcontext ctx,
                          const struct gs_context *was)
{
    if (!gs_context_end(state, ctx, was, forget_context)) {
        gs_fences_thaw(ctx, false);
    }
    gs_lazy_captures_end(state);
}

/*
 * Two threads may each see an end of the same primary context, and its handle is always
 * the same: so a query of the driver shows which context has the handle. (A destroyed
 * context must not be queried.) Facts known by the handle alone may already belong to the
 * next context.
 */
static void primary_ended(struct gs_state *state, CUcontext ctx)
{
    const struct gs_context *entry = gs_context_find(state, ctx);
    bool again = gs_context_is_another(entry, ctx);
    if (gs_context_is_alive(entry) || (again && !entry) ||
        !gs_context_end(state, ctx, entry,
                        again ? gs_parts_context_lost : forget_context) ||
        again) {
        gs_fences_thaw(ctx, false);
    }
    gs_lazy_captures_end(state);
}

static CUresult destroy_context(__typeof__(cuCtxDestroy_v2) *real_destroy, CUcontext ctx)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return real_destroy(ctx);
    }
    const struct gs_context *context = ctx ? gs_context_find(state, ctx) : NULL;
    if (context) {
        gs_interim_context_ends(state, context->device);
    }
    gs_redzones_context_ends(state, ctx);
    gs_fences_freeze(ctx);
    gs_contexts_changed(state);
    CUresult result = real_destroy(ctx);
    if (ctx && result == CUDA_SUCCESS) {
        context_ended(state, ctx, context);
    } else {
        gs_fences_thaw(ctx, false);
    }
    gs_leave();
    return result;
}

/* Releases one use; the context ends with its last one. */
GS_EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
    struct gs_state *state = gs_enter();
    unsigned version;
    if (!state) {
        return gs_real()->cuCtxDetach(ctx);
    }
    const struct gs_context *was = ctx ? gs_context_find(state, ctx) : NULL;
    gs_redzones_context_ends(state, ctx);
    gs_fences_freeze(ctx);
    gs_contexts_changed(state);
    CUresult result = gs_real()->cuCtxDetach(ctx);
    if (ctx && result == CUDA_SUCCESS &&
        !(gs_real()->cuCtxGetApiVersion &&
          gs_real()->cuCtxGetApiVersion(ctx, &version) == CUDA_SUCCESS)) {
        context_ended(state, ctx, was);
    } else {
        gs_fences_thaw(ctx, false);
    }
    gs_leave();
    return result;
}

/* ---- primary contexts ------------------------------------------------------------ */

/* A device's primary context as far as it is known, or NULL. A context that was retained
 * and never used has no entry. */
static CUcontext primary_of(struct gs_state *state, CUdevice dev)
{
    const struct gs_context *context = gs_context_primary(state, (int)dev);
    return context ? context->handle : gs_all_contexts_primary((int)dev);
}

/* Called after a use was released. Only the driver knows whether it was the last one. */
static void primary_released(struct gs_state *state, CUdevice dev, CUcontext primary)
{
    unsigned flags;
    int active = 1;
    bool last =
        gs_real()->cuDevicePrimaryCtxGetState &&
        gs_real()->cuDevicePrimaryCtxGetState(dev, &flags, &active) == CUDA_SUCCESS &&
        !active;
    if (last) {
        primary_ended(state, primary);
    } else {
        gs_fences_thaw(primary, false);
    }
}

static CUresult release_primary(__typeof__(cuDevicePrimaryCtxRelease_v2) *real_release,
                                CUdevice dev)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return real_release(dev);
    }
    CUcontext primary = primary_of(state, dev);
    unsigned uses = gs_all_contexts_use_less(dev);
    if (primary) {
        gs_redzones_use_ends(state, primary, dev, uses == 0);
        gs_fences_freeze(primary);
    }
    gs_contexts_changed(state);
    CUresult result = real_release(dev);
    gs_contexts_changed(state);
    if (primary && result == CUDA_SUCCESS) {
        primary_released(state, dev, primary);
    } else if (primary) {
        gs_fences_thaw(primary, false);
    }
    gs_leave();
    return result;
}

static CUresult reset_primary(__typeof__(cuDevicePrimaryCtxReset_v2) *real_reset,
                              CUdevice dev)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return real_reset(dev);
    }
    CUcontext primary = primary_of(state, dev);
    if (primary && gs_context_owns(state, primary)) {
        gs_interim_context_ends(state, (int)dev);
    }
    if (primary) {
        gs_redzones_context_ends(state, primary);
        gs_fences_freeze(primary);
    }
    gs_contexts_changed(state);
    CUresult result = real_reset(dev);
    if (primary && result == CUDA_SUCCESS) {
        primary_ended(state, primary);
    } else if (primary) {
        gs_fences_thaw(primary, false);
    }
    gs_leave();
    return result;
}

/* ---- peers ----------------------------------------------------------------------- */

/* The current context may access the memory of `owner` from now on. */
static void share_with(CUcontext owner)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return;
    }
    const struct gs_context *context = gs_context_current(state);
    if (context) {
        gs_context_share(state, owner, context->handle);
    }
    gs_leave();
}

/* ---- green contexts -------------------------------------------------------------- */

static void view_created(CUresult result, const CUcontext *view, CUgreenCtx green)
{
    GS_WITHIN(result == CUDA_SUCCESS ? gs_enter() : NULL, {
        gs_context_view(state, *view, green);
        gs_async_note_green(state);
    });
}

static void forget_view(struct gs_state *state, CUcontext view)
{
    (void)state;
    gs_captures_context_ends(view);
    gs_imports_context_ends(view);
    gs_limits_context_lost(view);
}

/* A green context uses its device's primary context, which ends with its last use. The
 * call does not name the device, so all known ones are checked. */
GS_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_real()->cuGreenCtxDestroy(hCtx);
    }
    CUcontext primaries[GS_MAX_DEVICES];
    CUcontext view = gs_context_find_view(state, hCtx);
    for (int dev = 0; dev < GS_MAX_DEVICES; dev++) {
        primaries[dev] = primary_of(state, dev);
        if (primaries[dev]) {
            gs_redzones_use_ends(state, primaries[dev], dev,
                                 gs_all_contexts_uses(dev) == 0);
            gs_fences_freeze(primaries[dev]);
        }
    }
    gs_contexts_changed(state);
    CUresult result = gs_real()->cuGreenCtxDestroy(hCtx);
    gs_contexts_changed(state);
    for (int dev = 0; dev < GS_MAX_DEVICES; dev++) {
        if (primaries[dev]) {
            primary_released(state, dev, primaries[dev]);
        }
    }
    bool gone = !gs_refused(result) || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (gone) {
        gs_captures_green_ends(hCtx);
    }
    if (gone && view) {
        (void)gs_context_end(state, view, gs_context_find(state, view), forget_view);
    }
    gs_lazy_captures_end(state);
    gs_leave();
    return result;
}

#define GS_FILE_context ,
#include "shim/entries/forward.h"
