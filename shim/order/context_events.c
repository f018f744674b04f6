/*
 * context_events.c - events that cover the work of a context.
 *
 * Stream events. `gather` is a stream of the library's own, for which no other stream
 * waits. `gather` waits for an event of each living stream; the event of the
 * context is recorded in `gather` after these waits. The legacy stream is covered by way
 * of `legacy`, a blocking stream of the library's own: `legacy` waits for the work of the
 * legacy stream. An event in the legacy stream itself would order the program's blocking
 * streams after each other, which natively nothing does. Since no stream waits for
 * `gather`, its waits delay no work.
 *
 * Owns:  the two streams of each context that needed them.
 * Lock:  helpers_lock for their list.
 * Source: CUDA Driver API, cuCtxRecordEvent, Stream synchronization behavior
 */
#include "shim/order/context_events.h"

#include <stdlib.h>

#include "gs_locks.h"
#include "shim/link/known_functions.h"
#include "shim/link/notify.h"
#include "shim/order/capture_gate.h"
#include "shim/order/captures.h"
#include "shim/order/fences.h"
#include "shim/order/own_handles.h"
#include "shim/order/single_order.h"
#include "shim/order/streams.h"
#include "shim/order/verify.h"
#include "shim/order/visit.h"
#include "shim/record.h"
#include "shim/state/context_switch.h"
#include "shim/state/submissions.h"
#include "shim/state/sync_proof.h"

/* Limits on the contexts of one event and the streams of one context; beyond these a free
 * waits. */
#define MAX_CONTEXTS 16u
#define MAX_STREAMS  240u

struct event {
    unsigned count;
    gs_fence fences[MAX_CONTEXTS];
};

struct helpers {
    CUcontext context;
    CUstream gather, legacy;
    struct helpers *next;
};

static struct gs_mutex helpers_lock = GS_MUTEX(GS_RANK_HELPER_STREAMS);
static struct helpers *all_helpers; /* under helpers_lock */

static struct event *event_of(uint64_t event)
{
    return (struct event *)(uintptr_t)event;
}

/* ---- the kind of event ------------------------------------------------------------- */

static bool has_context_events(void)
{
    static int known; /* atomic: 0: not queried; 1: yes; -1: no */
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    int version = 0;
    if (GS_UNLIKELY(answer == 0)) {
        bool new_enough = gs_real()->cuDriverGetVersion &&
                          gs_real()->cuDriverGetVersion(&version) == CUDA_SUCCESS &&
                          version >= 12050 && gs_real_exports("cuCtxRecordEvent");
        answer = new_enough ? 1 : -1;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer > 0;
}

static bool has_stream_events(void)
{
    return gs_streams_proof_holds() && gs_known_proof_holds() &&
           !(gs_submissions_snapshot(GS_COUNT_ALL, 0).streams & GS_STREAMS_UNCOVERED);
}

bool gs_context_events_whole(void)
{
    return has_context_events();
}

bool gs_context_events_work(struct gs_state *state, const struct gs_context *context)
{
    return (has_context_events() || has_stream_events()) &&
           !gs_context_accessor(&state->contexts, context->handle, MAX_CONTEXTS - 1);
}

/* Whether a block may be held back until an event is complete. If so, events must also
 * cover the remaining work of destroyed streams. */
static bool may_cover(const struct gs_state *state)
{
    return state->options.free_sync == GS_FREE_SYNC_LAZY || gs_captures_ever() ||
           __atomic_load_n(&state->contexts.shared.count, __ATOMIC_ACQUIRE) > 0;
}

/* ---- by an event of each stream ---------------------------------------------------- */

static const struct helpers *find_helpers(CUcontext context)
{
    gs_mutex_lock(&helpers_lock);
    const struct helpers *found = all_helpers;
    while (found && found->context != context) {
        found = found->next;
    }
    gs_mutex_unlock(&helpers_lock);
    return found;
}

/* Called with the context current. */
static const struct helpers *make_helpers(CUcontext context)
{
    const struct gs_real *real = gs_real();
    struct helpers *made = calloc(1, sizeof(*made));
    if (!made) {
        return NULL;
    }
    made->context = context;
    if (gs_own_stream_create(&made->gather, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
        goto no_gather;
    }
    if (gs_own_stream_create(&made->legacy, CU_STREAM_DEFAULT) != CUDA_SUCCESS) {
        goto no_legacy;
    }
    gs_mutex_lock(&helpers_lock);
    made->next = all_helpers;
    all_helpers = made;
    gs_mutex_unlock(&helpers_lock);
    return made;

no_legacy:
    real->cuStreamDestroy_v2(made->gather);
no_gather:
    free(made);
    return NULL;
}

/* The streams of the context, which is current; NULL: they cannot be made. */
static const struct helpers *helpers_of(CUcontext context)
{
    const struct helpers *found = find_helpers(context);
    return found ? found : make_helpers(context);
}

/* Called with the context current and the capture gate entered. */
static CUresult record_streams_here(CUcontext context, gs_fence *out)
{
    CUstream streams[MAX_STREAMS];
    size_t count = gs_streams_of(context, streams, MAX_STREAMS);
    const struct helpers *helpers = helpers_of(context);
    if (!helpers || count > MAX_STREAMS) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = gs_fence_order_streams(context, helpers->legacy, helpers->gather);
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
        result = gs_fence_order_streams(context, streams[i], helpers->gather);
    }
    if (result == CUDA_SUCCESS) {
        result = gs_fence_record_in(context, helpers->gather, false, out);
    }
    return result;
}

static CUresult record_streams(CUcontext context, gs_fence *out)
{
    bool pushed;
    CUresult result = gs_context_push(context, &pushed);
    if (result == CUDA_SUCCESS) {
        result = record_streams_here(context, out);
    }
    gs_context_pop(pushed);
    return result;
}

/* ---- the operations ---------------------------------------------------------------- */

static CUresult record_context(CUcontext context, gs_fence *out)
{
    if (has_context_events()) {
        return gs_fence_record_context(context, out);
    }
    return has_stream_events() ? record_streams(context, out) : CUDA_ERROR_NOT_READY;
}

static bool is_gone(CUresult result)
{
    return result == CUDA_ERROR_INVALID_CONTEXT ||
           result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* Called with the capture gate entered. */
static CUresult record_all(struct gs_state *state, CUcontext owner, struct event *event)
{
    CUresult result = record_context(owner, &event->fences[0]);
    CUcontext other;
    event->count = result == CUDA_SUCCESS;
    for (unsigned i = 0;
         result == CUDA_SUCCESS &&
         (other = gs_context_accessor(&state->contexts, owner, i)) != NULL;
         i++) {
        if (event->count == MAX_CONTEXTS) {
            return CUDA_ERROR_NOT_READY;
        }
        result = record_context(other, &event->fences[event->count]);
        event->count += result == CUDA_SUCCESS;
        if (is_gone(result)) { /* the context runs nothing any more */
            result = CUDA_SUCCESS;
        }
    }
    return result;
}

static void event_release(void *self, uint64_t event)
{
    (void)self;
    for (unsigned i = 0; i < event_of(event)->count; i++) {
        gs_fence_release(event_of(event)->fences[i]);
    }
    free(event_of(event));
}

/* The status for an event that was not recorded: a temporary refusal, or a failed
 * context. */
static enum gs_status status_of(CUresult result)
{
    switch (result) {
    case CUDA_SUCCESS:
        return GS_OK;
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_NOT_READY:
    case CUDA_ERROR_NOT_PERMITTED: /* in a host function */
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_FOUND:
        return GS_ERR_TIMEOUT;
    default:
        return gs_refused_for_capture(result) ? GS_ERR_TIMEOUT : GS_ERR_BACKEND;
    }
}

static enum gs_status event_record(void *self, uint64_t *out)
{
    const struct gs_context *context = self;
    struct gs_state *state = gs_state_peek();
    if (!state || !gs_gate_enter()) {
        return GS_ERR_TIMEOUT;
    }
    enum gs_status status = GS_ERR_TIMEOUT;
    struct event *event = calloc(1, sizeof(*event));
    if (event) {
        status = status_of(GS_ON_BEHALF("cuMemFree_v2", false,
                                        record_all(state, context->handle, event)));
        if (status != GS_OK) {
            event_release(self, (uint64_t)(uintptr_t)event);
        }
    }
    gs_gate_leave();
    if (status == GS_OK) {
        *out = (uint64_t)(uintptr_t)event;
    }
    return status;
}

CUresult gs_context_events_wait(CUcontext context)
{
    gs_fence fence;
    if (!has_context_events()) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!gs_gate_enter()) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    CUresult result = gs_fence_record_context(context, &fence);
    gs_gate_leave();
    if (result == CUDA_SUCCESS) {
        result = gs_fence_wait(fence);
        gs_fence_release(fence);
    }
    return result;
}

static enum gs_status event_query(void *self, uint64_t event)
{
    enum gs_status status = GS_OK;
    (void)self;
    for (unsigned i = 0; status == GS_OK && i < event_of(event)->count; i++) {
        status = gs_fence_query(event_of(event)->fences[i]);
    }
    return status;
}

static bool event_orders(void *self, gs_fence epoch)
{
    struct gs_state *state = gs_state_peek();
    return state && gs_single_order_accept(state, self, epoch);
}

const struct gs_event_ops gs_context_event_ops = {
    .record = event_record,
    .query = event_query,
    .release = event_release,
    .orders = event_orders,
};

void gs_context_event_wait(uint64_t event)
{
    for (unsigned i = 0; i < event_of(event)->count; i++) {
        gs_fence_wait(event_of(event)->fences[i]);
    }
}

void gs_context_event_notify(uint64_t event, uint64_t addr)
{
    const struct event *own = event_of(event);
    for (unsigned i = 0; i < own->count; i++) {
        gs_notify_proof_of(addr, gs_fence_event(own->fences[i]), own->count - i - 1);
    }
}

/* ---- the end of streams and contexts ----------------------------------------------- */

/* Orders `gather` of the context after the stream's last work. Returns whether this
 * worked. */
static bool order_last(CUcontext context, CUstream stream)
{
    struct gs_visit visit;
    bool done = false;
    if (!gs_gate_enter()) {
        return false;
    }
    if (gs_visit_begin(&visit, "cuStreamDestroy_v2", context, false) == CUDA_SUCCESS) {
        const struct helpers *helpers = helpers_of(context);
        done = helpers &&
               gs_fence_order_streams(context, stream, helpers->gather) == CUDA_SUCCESS;
    }
    gs_visit_end(&visit);
    gs_gate_leave();
    return done;
}

/* The stream leaves the table after `gather` waits for it, so that no event can miss it,
 * and before the driver releases the handle. */
CUcontext gs_context_events_stream_ends(CUstream stream)
{
    const struct gs_state *state = gs_state_peek();
    if (state && may_cover(state) && !has_context_events() && has_stream_events()) {
        CUcontext context = gs_streams_find(stream);
        if (context && !order_last(context, stream)) {
            gs_streams_end_proof();
        }
    }
    return gs_verify_stream_ends(stream);
}

void gs_context_events_context_ends(CUcontext context)
{
    gs_streams_end_context(context);
    gs_mutex_lock(&helpers_lock);
    for (struct helpers **link = &all_helpers; *link;) {
        struct helpers *helpers = *link;
        if (helpers->context == context) {
            *link = helpers->next;
            free(helpers);
        } else {
            link = &helpers->next;
        }
    }
    gs_mutex_unlock(&helpers_lock);
}

void gs_context_events_reset(void)
{
    gs_mutex_init(&helpers_lock, GS_RANK_HELPER_STREAMS);
    all_helpers = NULL;
}
