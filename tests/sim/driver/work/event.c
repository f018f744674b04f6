/*
 * event.c - events.
 * Owns:  events.   Lock: event->lock, inside no other.
 * Source: Driver API, "Event Management".
 */
#include "event.h"

#include <stdlib.h>

#include "capture.h"
#include "context.h"
#include "event_ipc.h"
#include "order.h"
#include "pool.h"

static void destroy(struct sim_object *object)
{
    struct sim_event *event = (struct sim_event *)object;

    sim_capture_release_event(event);
    sim_op_unref(event->op);
    if (event->share)
        sim_event_share_close(event->share);
    pthread_mutex_destroy(&event->lock);
    sim_object_unref(&event->context->object);
    free(event);
}

struct sim_event *sim_event_get(CUevent handle)
{
    return (struct sim_event *)sim_handle_get(handle, SIM_TYPE_EVENT);
}

void sim_event_put(struct sim_event *event)
{
    sim_object_unref(&event->object);
}

struct sim_op *sim_event_recorded(struct sim_event *event)
{
    pthread_mutex_lock(&event->lock);
    struct sim_op *op = event->op;
    if (op)
        sim_op_ref(op);
    pthread_mutex_unlock(&event->lock);
    return op;
}

void sim_event_set(struct sim_event *event, struct sim_op *op)
{
    if (sim_is_lax(SIM_RULE_event_newest) && event->op)
        return;
    sim_capture_forget_event(event);
    sim_op_ref(op);
    pthread_mutex_lock(&event->lock);
    struct sim_op *before = event->op;
    event->op = op;
    pthread_mutex_unlock(&event->lock);
    sim_op_unref(before);
}

CUresult sim_event_create(struct sim_context *context, unsigned flags,
                          struct sim_event_share *share, CUevent *out)
{
    struct sim_event *event = calloc(1, sizeof(*event));

    if (!event) {
        if (share)
            sim_event_share_close(share);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_object_init(&event->object, SIM_TYPE_EVENT, destroy);
    pthread_mutex_init(&event->lock, NULL);
    sim_object_ref(&context->object);
    event->context = context;
    event->context_id = sim_context_id(context);
    event->flags = flags;
    event->share = share;
    void *handle = sim_handle_open(&event->object);
    if (handle) {
        sim_context_adopt(context, &event->object);
        *out = handle;
    }
    sim_event_put(event);
    return handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_API(cuEventCreate, CUevent *out, unsigned int flags)
{
    struct sim_context *context;
    CUresult res = sim_enter_context(SIM_ID_cuEventCreate, &context);
    struct sim_event_share *share = NULL;

    if (res != CUDA_SUCCESS)
        return res;
    if (!out ||
        (flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |
                             CU_EVENT_INTERPROCESS)) ||
        ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS)
        res = sim_event_share_new(context->device, &share);
    return res == CUDA_SUCCESS ? sim_event_create(context, flags, share, out) : res;
}

void sim_event_begin_record(struct sim_event *event, struct sim_op *op)
{
    if (event->share)
        sim_event_share_begin(event->share, op);
}

bool sim_event_wait_in(struct sim_event *event, struct sim_op *op)
{
    struct sim_op *before = sim_event_recorded(event);
    bool fits = true;

    if (sim_is_lax(SIM_RULE_event_wait)) {
        sim_op_unref(before);
        return true;
    }
    if (sim_is_strict(SIM_RULE_event_unrecorded) && !before)
        return sim_context_depend(event->context, op) == CUDA_SUCCESS;
    if (sim_is_strict(SIM_RULE_event_wait) && before) {
        sim_sched_wait(before, false);
        sim_order_saw_op(before, false);
    }

    if (event->share && sim_event_share_is_elsewhere(event->share, before))
        sim_event_share_wait_in(event->share, op);
    else
        fits = sim_op_depend(op, before);
    sim_op_unref(before);
    return fits;
}

static CUresult end(enum sim_api api, CUevent handle)
{
    SIM_TRY(sim_enter(api));
    struct sim_object *closed = sim_handle_close(handle, SIM_TYPE_EVENT);
    if (!closed)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_context_disown(((struct sim_event *)closed)->context, closed);
    sim_object_unref(closed);
    return CUDA_SUCCESS;
}

SIM_API_ONE(cuEventDestroy, (CUevent event),
            SIM_JUDGED_OR(!event, CUDA_ERROR_INVALID_HANDLE, end(api, event)));

SIM_API_ONE(cuEventDestroy_v2, (CUevent event),
            SIM_JUDGED_OR(!event, CUDA_ERROR_INVALID_HANDLE, end(api, event)));

/* Record in a stream, captured or not; an external record is a node of its own. */
static CUresult record_in(enum sim_api api, struct sim_stream *stream,
                          struct sim_event *event, unsigned flags)
{
    bool captured = false;
    CUresult res = CUDA_SUCCESS;

    if (!flags)
        res = sim_capture_record(stream, event, &captured);
    if (res != CUDA_SUCCESS || captured)
        return res;
    struct sim_op *op = sim_op_new(SIM_OP_EVENT, api, NULL);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (flags) {
        res = sim_capture_submit_event(stream, op, event);
    } else {
        if (sim_is_strict(SIM_RULE_event_newest) && !sim_op_depend(op, event->op))
            res = CUDA_ERROR_OUT_OF_MEMORY;
        sim_event_begin_record(event, op);
        res = sim_submit(stream, op);
        if (res == CUDA_SUCCESS)
            sim_event_set(event, op);
    }
    sim_op_unref(op);
    return res;
}

static CUresult record(enum sim_api api, enum sim_variant variant, CUevent handle,
                       CUstream stream_handle, unsigned flags)
{
    struct sim_context *context;
    struct sim_stream *stream;

    SIM_TRY(sim_enter_context(api, &context));
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *event = sim_event_get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = sim_stream_get(context, stream_handle, variant, &stream);
    if (res != CUDA_SUCCESS)
        goto put_event;
    if (stream->context != event->context) {
        res = CUDA_ERROR_INVALID_HANDLE;
        goto put_stream;
    }
    res = record_in(api, stream, event, flags);
put_stream:
    sim_stream_put(stream);
put_event:
    sim_event_put(event);
    return res;
}

SIM_API_TWINS(cuEventRecord, ptsz, (CUevent event, CUstream stream),
              record(api, variant, event, stream, 0));

SIM_API_TWINS(cuEventRecordWithFlags, ptsz,
              (CUevent event, CUstream stream, unsigned int flags),
              record(api, variant, event, stream, flags));

CUresult sim_event_record_context(enum sim_api api, struct sim_context *context,
                                  CUevent handle)
{
    struct sim_event *event;

    SIM_TRY(sim_context_error(context));
    event = sim_event_get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->context != context) {
        sim_event_put(event);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    struct sim_op *op = NULL;
    CUresult res = sim_capture_check_context(context);
    if (res == CUDA_SUCCESS) {
        op = sim_op_new(SIM_OP_EVENT, api, NULL);
        if (op)
            sim_event_begin_record(event, op);
        res = op ? sim_context_mark(context, op) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (res == CUDA_SUCCESS)
        sim_event_set(event, op);
    sim_op_unref(op);
    sim_event_put(event);
    return res;
}

/* May the event be asked or waited for now? An event that no capture has is unsafe. */
static CUresult check_asking(struct sim_event *event)
{
    CUresult res = sim_capture_check_event(event);

    return res == CUDA_SUCCESS ? sim_capture_check_unsafe() : res;
}

/* Is the newest record done, here or in another process? */
static bool is_done(struct sim_event *event, struct sim_op *op)
{
    if (event->share && sim_event_share_is_elsewhere(event->share, op))
        return sim_event_share_is_done(event->share);
    if (sim_is_strict(SIM_RULE_event_query))
        return sim_context_wait(event->context) == CUDA_SUCCESS;
    return !op || sim_is_lax(SIM_RULE_event_query) || sim_op_done(op);
}

SIM_API(cuEventQuery, CUevent handle)
{
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    SIM_TRY(sim_enter(SIM_ID_cuEventQuery));
    struct sim_event *event = sim_event_get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = check_asking(event);
    if (res == CUDA_SUCCESS)
        res = sim_context_error(event->context);
    struct sim_op *op = sim_event_recorded(event);
    if (res == CUDA_SUCCESS && !is_done(event, op))
        res = CUDA_ERROR_NOT_READY;
    if (res == CUDA_SUCCESS && !sim_is_lax(SIM_RULE_event_query))
        sim_order_saw_op(op, true);
    sim_op_unref(op);
    sim_event_put(event);
    return res;
}

SIM_API(cuEventSynchronize, CUevent handle)
{
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    SIM_TRY(sim_enter(SIM_ID_cuEventSynchronize));
    struct sim_event *event = sim_event_get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = check_asking(event);
    if (res == CUDA_SUCCESS) {
        struct sim_op *op = sim_event_recorded(event);
        if (event->share && sim_event_share_is_elsewhere(event->share, op))
            sim_event_share_wait(event->share);
        else if (op && !sim_is_lax(SIM_RULE_event_sync))
            sim_sched_wait(op, false);
        if (op && sim_op_done(op))
            sim_pool_synchronized(op->frees);
        if (!sim_is_lax(SIM_RULE_event_sync))
            sim_order_saw_op(op, false);
        sim_op_unref(op);
        if (sim_is_strict(SIM_RULE_event_sync))
            res = sim_context_wait(event->context);
        res = sim_context_error(event->context);
        sim_pool_after_sync(event->context->device);
    }
    sim_event_put(event);
    return res;
}

/* When an event's operation finished. */
static CUresult finished_at(struct sim_event *event, uint64_t *ns)
{
    CUresult res = sim_capture_check_event(event);
    struct sim_op *op = sim_event_recorded(event);

    if (res != CUDA_SUCCESS)
        ;
    else if (!op || (event->flags & CU_EVENT_DISABLE_TIMING))
        res = CUDA_ERROR_INVALID_HANDLE;
    else if (!sim_op_done(op))
        res = CUDA_ERROR_NOT_READY;
    else
        *ns = op->finished_ns;
    if (res == CUDA_SUCCESS)
        sim_order_saw_op(op, true);
    sim_op_unref(op);
    return res;
}

static CUresult elapsed(enum sim_api api, float *out, CUevent start_handle,
                        CUevent end_handle)
{
    uint64_t start_ns = 0, end_ns = 0;

    SIM_TRY(sim_enter(api));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *start = sim_event_get(start_handle);
    struct sim_event *stop = sim_event_get(end_handle);
    CUresult res =
        start && stop ? finished_at(start, &start_ns) : CUDA_ERROR_INVALID_HANDLE;
    if (res == CUDA_SUCCESS)
        res = finished_at(stop, &end_ns);
    if (res == CUDA_SUCCESS)
        *out = (float)((double)((int64_t)(end_ns - start_ns)) / 1e6);
    if (start)
        sim_event_put(start);
    if (stop)
        sim_event_put(stop);
    return res;
}

SIM_API_ONE(cuEventElapsedTime, (float *out, CUevent start, CUevent stop),
            SIM_JUDGED_OR(!out || !start, CUDA_ERROR_INVALID_HANDLE,
                          elapsed(api, out, start, stop)));

SIM_API_ONE(cuEventElapsedTime_v2, (float *out, CUevent start, CUevent stop),
            elapsed(api, out, start, stop));

/* An operation that waits for the event, NULL without memory. */
static struct sim_op *make_wait(enum sim_api api, struct sim_event *event)
{
    struct sim_op *op = sim_op_new(SIM_OP_WAIT, api, NULL);

    if (op && !sim_event_wait_in(event, op)) {
        sim_op_unref(op);
        op = NULL;
    }
    return op;
}

CUresult sim_event_wait_context(enum sim_api api, struct sim_context *context,
                                CUevent handle)
{
    struct sim_event *event;

    SIM_TRY(sim_context_error(context));
    event = sim_event_get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = sim_capture_check_context(context);
    if (res == CUDA_SUCCESS && sim_capture_check_event(event) != CUDA_SUCCESS)
        res = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (res == CUDA_SUCCESS) {
        struct sim_op *op = make_wait(api, event);
        res = op ? sim_context_bar(context, op) : CUDA_ERROR_OUT_OF_MEMORY;
        sim_op_unref(op);
    }
    sim_event_put(event);
    return res;
}

/* Wait in a stream, captured or not; an external wait is a node of its own. */
static CUresult wait_in(enum sim_api api, struct sim_stream *stream,
                        struct sim_event *event, unsigned flags)
{
    bool captured = false;
    CUresult res = CUDA_SUCCESS;

    if (!flags)
        res = sim_capture_wait(stream, event, &captured);
    if (res != CUDA_SUCCESS || captured)
        return res;
    if (!flags)
        return sim_submit_drop(stream, make_wait(api, event));
    struct sim_op *op = sim_op_new(SIM_OP_WAIT, api, NULL);
    res = op ? sim_capture_submit_event(stream, op, event) : CUDA_ERROR_OUT_OF_MEMORY;
    sim_op_unref(op);
    return res;
}

static CUresult wait_event(enum sim_api api, enum sim_variant variant,
                           CUstream stream_handle, CUevent handle, unsigned flags)
{
    struct sim_context *context;
    struct sim_stream *stream;

    SIM_TRY(sim_enter_context(api, &context));
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *event = sim_event_get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = sim_stream_get(context, stream_handle, variant, &stream);
    if (res == CUDA_SUCCESS) {
        res = wait_in(api, stream, event, flags);
        sim_stream_put(stream);
    }
    sim_event_put(event);
    return res;
}

SIM_API_TWINS(cuStreamWaitEvent, ptsz,
              (CUstream stream, CUevent event, unsigned int flags),
              wait_event(api, variant, stream, event, flags));
