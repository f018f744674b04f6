/*
 * fences.c - events that report when a freed block may be reused.
 *
 * Events are created once and recorded many times: a released fence becomes a spare of
 * its context.
 *
 * Owns:  every fence that is not released, in one list, and the spares in another.
 * Lock:  fences_lock for the lists and the states.
 */
#include "shim/order/fences.h"

#include "gs_locks.h"
#include "shim/state/context_switch.h"
#include "shim/state/trim_hold.h"

#include <stdlib.h>
#include <string.h>

#include "gs_uncancelled.h"
#include "shim/link/notify.h"
#include "shim/order/capture_gate.h"
#include "shim/order/own_handles.h"
#include "shim/parts.h"
#include "shim/record.h"
#include "shim/state/contexts.h"

enum fence_state { FENCE_ALIVE, FENCE_FROZEN, FENCE_OVER };

struct event_fence {
    CUevent event;
    CUcontext context;
    enum fence_state state;         /* under fences_lock */
    struct event_fence *next;       /* under fences_lock */
    struct event_fence **back_link; /* under fences_lock: the pointer to this fence */
};

static struct gs_mutex fences_lock = GS_MUTEX(GS_RANK_FENCES);
static struct event_fence *fences; /* under fences_lock */

/* Limit on spares: enough for the steady state of epochs. */
#define MAX_SPARES 64

static struct event_fence *spares; /* under fences_lock: linked by next, never alive */
static unsigned spare_count;       /* under fences_lock */

/* ---- lists; fences_lock is held ---------------------------------------------------- */

static void link_fence(struct event_fence *fence)
{
    fence->next = fences;
    fence->back_link = &fences;
    if (fences) {
        fences->back_link = &fence->next;
    }
    fences = fence;
}

static void unlink_fence(struct event_fence *fence)
{
    *fence->back_link = fence->next;
    if (fence->next) {
        fence->next->back_link = fence->back_link;
    }
}

/* Takes a spare of the context off its list; NULL: none. */
static struct event_fence *take_spare(CUcontext context)
{
    struct event_fence **link = &spares;
    while (*link && ((*link)->context != context || (*link)->state != FENCE_ALIVE)) {
        link = &(*link)->next;
    }
    struct event_fence *found = *link;
    if (found) {
        *link = found->next;
        spare_count--;
    }
    return found;
}

/* ---- events ------------------------------------------------------------------------ */

/* The event's waits block or spin as the program has chosen for the context. */
static unsigned event_flags(void)
{
    unsigned flags = 0;
    bool blocks = gs_real()->cuCtxGetFlags &&
                  gs_real()->cuCtxGetFlags(&flags) == CUDA_SUCCESS &&
                  (flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC;
    return CU_EVENT_DISABLE_TIMING | (blocks ? CU_EVENT_BLOCKING_SYNC : 0);
}

/* A fence with an event of the context, not recorded yet. */
static CUresult get_unrecorded(CUcontext context, struct event_fence **out)
{
    gs_mutex_lock(&fences_lock);
    struct event_fence *fence = take_spare(context);
    gs_mutex_unlock(&fences_lock);
    bool pushed;
    if (fence) {
        *out = fence;
        return CUDA_SUCCESS;
    }
    fence = calloc(1, sizeof(*fence));
    if (!fence) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    fence->context = context;
    CUresult result = gs_context_push(context, &pushed);
    if (result == CUDA_SUCCESS) {
        result = gs_real()->cuEventCreate(&fence->event, event_flags());
        gs_context_pop(pushed);
    }
    if (result != CUDA_SUCCESS) {
        free(fence);
        return result;
    }
    gs_own_event_add(fence->event);
    *out = fence;
    return CUDA_SUCCESS;
}

/* The driver may give the handle to another event as soon as this one is destroyed. */
static void destroy_event(const struct event_fence *fence)
{
    gs_own_event_remove(fence->event);
    gs_real()->cuEventDestroy_v2(fence->event);
}

/* Hands out a fence that was recorded, or destroys it on any other result. */
static CUresult hand_out(struct event_fence *fence, CUresult result, gs_fence *out)
{
    if (result != CUDA_SUCCESS) {
        destroy_event(fence);
        free(fence);
        return result;
    }
    gs_mutex_lock(&fences_lock);
    link_fence(fence);
    gs_mutex_unlock(&fences_lock);
    *out = (gs_fence)(uintptr_t)fence;
    return CUDA_SUCCESS;
}

/* ---- recording --------------------------------------------------------------------- */

/* Counts the recording of an event while the idle proof is verified: there an event of
 * the library's own shows as work of its stream. */
static struct gs_calls *count_begin(void)
{
    struct gs_calls *own = NULL;
    if (gs_known_proof_is_verified()) {
        own = gs_submissions_turn_away();
    }
    return own;
}

static CUresult count_end(struct gs_calls *own, CUresult result)
{
    if (own) {
        gs_submissions_add(&own->ended);
    }
    return result;
}

CUresult gs_fence_record_in(CUcontext context, CUstream stream, bool per_thread,
                            gs_fence *out)
{
    __typeof__(cuEventRecord) *record_event =
        per_thread ? gs_real()->cuEventRecord_ptsz : gs_real()->cuEventRecord;
    struct event_fence *fence = NULL;
    bool pushed;
    CUresult result = get_unrecorded(context, &fence);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = gs_context_push(context, &pushed);
    if (result == CUDA_SUCCESS) {
        struct gs_calls *own = count_begin();
        result = count_end(own, record_event(fence->event, stream));
        gs_context_pop(pushed);
    }
    return hand_out(fence, result, out);
}

static CUresult record_here(CUstream stream, bool per_thread, gs_fence *out)
{
    CUcontext context = NULL;
    CUresult result = gs_stream_context(stream, &context);
    if (result == CUDA_SUCCESS) {
        /* If a stream captures, the caller has checked that it is not this one. */
        bool alone = gs_gate_enter();
        result = gs_fence_record_in(context, stream, per_thread, out);
        if (alone) {
            gs_gate_leave();
        }
    }
    return result;
}

CUresult gs_fence_record(CUstream stream, bool per_thread, gs_fence *out)
{
    return GS_ON_BEHALF("cuMemFreeAsync", false, record_here(stream, per_thread, out));
}

CUresult gs_fence_record_context(CUcontext context, gs_fence *out)
{
    struct event_fence *fence = NULL;
    CUresult result = get_unrecorded(context, &fence);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct gs_calls *own = count_begin();
    result = count_end(own, gs_real()->cuCtxRecordEvent(context, fence->event));
    return hand_out(fence, result, out);
}

/* ---- queries ----------------------------------------------------------------------- */

static enum fence_state state_of(const struct event_fence *fence)
{
    gs_mutex_lock(&fences_lock);
    enum fence_state state = fence->state;
    gs_mutex_unlock(&fences_lock);
    return state;
}

/* Queries an event in the relaxed mode. While a stream captures, other modes forbid the
 * query; and the event must have been recorded outside the capture, as all events of
 * fences were. */
static CUresult query_relaxed(CUevent event)
{
    CUstreamCaptureMode mode;
    if (!gs_relaxed_begin(&mode)) {
        return CUDA_ERROR_NOT_READY;
    }
    CUresult result = gs_real()->cuEventQuery(event);
    gs_relaxed_end(&mode);
    return result;
}

static CUresult query_event(CUevent event)
{
    if (!gs_gate_enter()) {
        return query_relaxed(event);
    }
    CUresult result = gs_real()->cuEventQuery(event);
    gs_gate_leave();
    return result;
}

enum gs_status gs_fence_query(gs_fence handle)
{
    const struct event_fence *fence = (const struct event_fence *)(uintptr_t)handle;
    switch (state_of(fence)) {
    case FENCE_OVER:
        return GS_OK;
    case FENCE_FROZEN:
        return GS_ERR_TIMEOUT;
    default:
        break;
    }
    CUresult result = GS_ON_BEHALF("a poll of fences", false, query_event(fence->event));
    switch (result) {
    case CUDA_SUCCESS:
        return GS_OK;
    case CUDA_ERROR_NOT_READY:
    case CUDA_ERROR_NOT_PERMITTED: /* in a host function, where queries are forbidden */
        return GS_ERR_TIMEOUT;
    default:
        /* A refusal because of a capture reports nothing about the work. */
        return gs_refused_for_capture(result) ? GS_ERR_TIMEOUT : GS_ERR_BACKEND;
    }
}

bool gs_fence_is_of(gs_fence handle, CUcontext context)
{
    return ((const struct event_fence *)(uintptr_t)handle)->context == context;
}

CUresult gs_fence_wait(gs_fence handle)
{
    const struct event_fence *fence = (const struct event_fence *)(uintptr_t)handle;
    CUstreamCaptureMode mode;
    bool pushed;
    if (state_of(fence) != FENCE_ALIVE) {
        return CUDA_SUCCESS;
    }
    CUresult result = gs_context_push(fence->context, &pushed);
    if (result == CUDA_SUCCESS) {
        bool relaxed = gs_relaxed_begin(&mode);
        int before = gs_uncancelled_begin(); /* the native call may not block */
        result = gs_real()->cuEventSynchronize(fence->event);
        gs_uncancelled_end(before);
        if (relaxed) {
            gs_relaxed_end(&mode);
        }
        gs_context_pop(pushed);
    }
    return result;
}

CUevent gs_fence_event(gs_fence handle)
{
    const struct event_fence *fence = (const struct event_fence *)(uintptr_t)handle;
    return state_of(fence) == FENCE_OVER ? NULL : fence->event;
}

CUresult gs_fence_order(CUcontext context, CUstream stream, gs_fence fence)
{
    CUevent event = gs_fence_event(fence);
    bool pushed;
    if (!event) {
        return CUDA_SUCCESS; /* its context has ended, and its work with it */
    }
    CUresult result = gs_context_push(context, &pushed);
    if (result == CUDA_SUCCESS) {
        result = gs_real()->cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT);
    }
    gs_context_pop(pushed);
    return result;
}

CUresult gs_fence_order_streams(CUcontext context, CUstream earlier, CUstream later)
{
    gs_fence fence;
    CUresult result = gs_fence_record_in(context, earlier, false, &fence);
    if (result == CUDA_SUCCESS) {
        result = gs_fence_order(context, later, fence);
        gs_fence_release(fence);
    }
    return result;
}

void gs_fence_release(gs_fence handle)
{
    struct event_fence *fence = (struct event_fence *)(uintptr_t)handle;
    gs_mutex_lock(&fences_lock);
    unlink_fence(fence);
    bool alive = fence->state == FENCE_ALIVE;
    bool kept = alive && spare_count < MAX_SPARES;
    if (kept) {
        fence->next = spares;
        spares = fence;
        spare_count++;
    }
    gs_mutex_unlock(&fences_lock);
    if (kept) {
        return;
    }
    if (alive) {
        destroy_event(fence);
    }
    free(fence);
}

/* ---- the end of contexts ----------------------------------------------------------- */

/* Drops the spares of a context. Their events ended with the context and are not
 * destroyed: the handles may belong to another context by now. */
static void forget_spares(CUcontext context)
{
    struct event_fence **link = &spares;
    while (*link) {
        struct event_fence *fence = *link;
        if (fence->context == context) {
            *link = fence->next;
            spare_count--;
            gs_own_event_remove(fence->event);
            free(fence);
        } else {
            link = &fence->next;
        }
    }
}

/* Moves the context's fences from one state to another. While a call may end the context,
 * the table of own events lacks its events: before the call returns, their handles may be
 * another context's. fences_lock is held. */
static void change_all(struct event_fence *list, CUcontext context, enum fence_state from,
                       enum fence_state to)
{
    for (struct event_fence *fence = list; fence; fence = fence->next) {
        if (fence->context != context || fence->state != from) {
            continue;
        }
        fence->state = to;
        if (to == FENCE_FROZEN) {
            gs_own_event_remove(fence->event);
        } else if (to == FENCE_ALIVE) {
            gs_own_event_add(fence->event);
        }
    }
}

static void change_fences(CUcontext context, enum fence_state from, enum fence_state to)
{
    gs_mutex_lock(&fences_lock);
    change_all(fences, context, from, to);
    change_all(spares, context, from, to);
    if (to == FENCE_OVER) {
        forget_spares(context);
    }
    gs_mutex_unlock(&fences_lock);
}

/* The calls in progress that may end a context, by context. Only the first 32 contexts
 * are counted. Under fences_lock. */
static struct {
    CUcontext context; /* NULL: unused entry */
    unsigned count;
} freezers[32];

/* Adds change_by to the calls in progress that may end the context. Returns the new
 * count. */
static unsigned count_freezers(CUcontext context, int change_by)
{
    size_t at = GS_ARRAY_LEN(freezers);
    unsigned count = 0;
    gs_mutex_lock(&fences_lock);
    for (size_t i = 0; i < GS_ARRAY_LEN(freezers); i++) {
        if (freezers[i].context == context ||
            (!freezers[i].context && at == GS_ARRAY_LEN(freezers))) {
            at = i;
        }
    }
    if (at < GS_ARRAY_LEN(freezers) && (freezers[at].context || change_by > 0)) {
        freezers[at].count += (unsigned)change_by;
        count = freezers[at].count;
        freezers[at].context = count > 0 ? context : NULL;
    }
    gs_mutex_unlock(&fences_lock);
    return count;
}

bool gs_fences_are_frozen(CUcontext context)
{
    return count_freezers(context, 0) > 0;
}

void gs_fences_freeze(CUcontext context)
{
    (void)count_freezers(context, 1);
    gs_trim_pass();
    gs_parts_freeze(context);
    change_fences(context, FENCE_ALIVE, FENCE_FROZEN);
}

void gs_fences_thaw(CUcontext context, bool destroyed)
{
    if (count_freezers(context, -1) > 0 && !destroyed) {
        return; /* another call may still be ending the context */
    }
    change_fences(context, FENCE_FROZEN, destroyed ? FENCE_OVER : FENCE_ALIVE);
    gs_parts_thaw(context, destroyed);
}

void gs_fences_reset(void)
{
    gs_mutex_init(&fences_lock, GS_RANK_FENCES);
    fences = NULL;
    spares = NULL;
    spare_count = 0;
    memset(freezers, 0, sizeof(freezers));
}
