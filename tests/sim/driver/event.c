/*
 * event.c - events.
 * Owns:  events.   Lock: event->lock, inside no other.
 * Source: Driver API, "Event Management".
 */
#include "event.h"

#include <stdlib.h>

#include "context.h"
#include "pool.h"

static void destroy(struct sim_object *object)
{
    struct sim_event *event = (struct sim_event *)object;

    sim_op_unref(event->op);
    pthread_mutex_destroy(&event->lock);
    sim_object_unref(&event->context->object);
    free(event);
}

static struct sim_event *get(CUevent handle)
{
    return (struct sim_event *)sim_handle_get(handle, SIM_TYPE_EVENT);
}

static void put(struct sim_event *event)
{
    sim_object_unref(&event->object);
}

/* The operation last recorded, with a reference; NULL if none. */
static struct sim_op *recorded(struct sim_event *event)
{
    pthread_mutex_lock(&event->lock);
    struct sim_op *op = event->op;
    if (op)
        sim_op_ref(op);
    pthread_mutex_unlock(&event->lock);
    return op;
}

static void set_recorded(struct sim_event *event, struct sim_op *op)
{
    sim_op_ref(op);
    pthread_mutex_lock(&event->lock);
    struct sim_op *before = event->op;
    event->op = op;
    pthread_mutex_unlock(&event->lock);
    sim_op_unref(before);
}

SIM_API(cuEventCreate, CUevent *out, unsigned int flags)
{
    struct sim_context *context;
    CUresult res = sim_enter_context(SIM_ID_cuEventCreate, &context);

    if (res != CUDA_SUCCESS)
        return res;
    if (!out ||
        (flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |
                             CU_EVENT_INTERPROCESS)) ||
        ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *event = calloc(1, sizeof(*event));
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_object_init(&event->object, SIM_TYPE_EVENT, destroy);
    pthread_mutex_init(&event->lock, NULL);
    sim_object_ref(&context->object);
    event->context = context;
    event->context_id = sim_context_id(context);
    event->flags = flags;
    void *handle = sim_handle_open(&event->object);
    if (handle) {
        sim_context_adopt(context, &event->object);
        *out = handle;
    }
    put(event);
    return handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult end(enum sim_api api, CUevent handle)
{
    CUresult res = sim_enter(api);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_object *closed = sim_handle_close(handle, SIM_TYPE_EVENT);
    if (!closed)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_context_disown(((struct sim_event *)closed)->context, closed);
    sim_object_unref(closed);
    return CUDA_SUCCESS;
}

SIM_API(cuEventDestroy, CUevent event)
{
    return end(SIM_ID_cuEventDestroy, event);
}

SIM_API(cuEventDestroy_v2, CUevent event)
{
    return end(SIM_ID_cuEventDestroy_v2, event);
}

static CUresult record(enum sim_api api, enum sim_variant variant, CUevent handle,
                       CUstream stream_handle, unsigned flags)
{
    struct sim_context *context;
    struct sim_stream *stream;
    CUresult res = sim_enter_context(api, &context);

    if (res != CUDA_SUCCESS)
        return res;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *event = get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    res = sim_stream_get(context, stream_handle, variant, &stream);
    if (res != CUDA_SUCCESS)
        goto put_event;
    if (stream->context != event->context) {
        res = CUDA_ERROR_INVALID_HANDLE;
        goto put_stream;
    }
    struct sim_op *op = sim_op_new(SIM_OP_EVENT, api, NULL);
    res = op ? sim_submit(stream, op) : CUDA_ERROR_OUT_OF_MEMORY;
    if (res == CUDA_SUCCESS)
        set_recorded(event, op);
    sim_op_unref(op);
put_stream:
    sim_stream_put(stream);
put_event:
    put(event);
    return res;
}

SIM_API(cuEventRecord, CUevent event, CUstream stream)
{
    return record(SIM_ID_cuEventRecord, SIM_LEGACY, event, stream, 0);
}

SIM_API(cuEventRecord_ptsz, CUevent event, CUstream stream)
{
    return record(SIM_ID_cuEventRecord_ptsz, SIM_PER_THREAD, event, stream, 0);
}

SIM_API(cuEventRecordWithFlags, CUevent event, CUstream stream, unsigned int flags)
{
    return record(SIM_ID_cuEventRecordWithFlags, SIM_LEGACY, event, stream, flags);
}

SIM_API(cuEventRecordWithFlags_ptsz, CUevent event, CUstream stream, unsigned int flags)
{
    return record(SIM_ID_cuEventRecordWithFlags_ptsz, SIM_PER_THREAD, event, stream,
                  flags);
}

CUresult sim_event_record_context(enum sim_api api, struct sim_context *context,
                                  CUevent handle)
{
    CUresult res = sim_context_error(context);
    struct sim_event *event;

    if (res != CUDA_SUCCESS)
        return res;
    event = get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->context != context) {
        put(event);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    struct sim_op *op = sim_op_new(SIM_OP_EVENT, api, NULL);
    res = op ? sim_context_mark(context, op) : CUDA_ERROR_OUT_OF_MEMORY;
    if (res == CUDA_SUCCESS)
        set_recorded(event, op);
    sim_op_unref(op);
    put(event);
    return res;
}

SIM_API(cuEventQuery, CUevent handle)
{
    CUresult res = sim_enter(SIM_ID_cuEventQuery);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_event *event = get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    res = sim_context_error(event->context);
    struct sim_op *op = recorded(event);
    if (res == CUDA_SUCCESS && op && !sim_op_done(op))
        res = CUDA_ERROR_NOT_READY;
    sim_op_unref(op);
    put(event);
    return res;
}

SIM_API(cuEventSynchronize, CUevent handle)
{
    CUresult res = sim_enter(SIM_ID_cuEventSynchronize);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_event *event = get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_op *op = recorded(event);
    if (op)
        sim_sched_wait(op, false);
    sim_op_unref(op);
    res = sim_context_error(event->context);
    sim_pool_after_sync(event->context->device);
    put(event);
    return res;
}

/* When an event's operation finished. */
static CUresult finished_at(struct sim_event *event, uint64_t *ns)
{
    struct sim_op *op = recorded(event);
    CUresult res = CUDA_SUCCESS;

    if (!op || (event->flags & CU_EVENT_DISABLE_TIMING))
        res = CUDA_ERROR_INVALID_HANDLE;
    else if (!sim_op_done(op))
        res = CUDA_ERROR_NOT_READY;
    else
        *ns = op->finished_ns;
    sim_op_unref(op);
    return res;
}

static CUresult elapsed(enum sim_api api, float *out, CUevent start_handle,
                        CUevent end_handle)
{
    CUresult res = sim_enter(api);
    uint64_t start_ns = 0, end_ns = 0;

    if (res != CUDA_SUCCESS)
        return res;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *start = get(start_handle);
    struct sim_event *stop = get(end_handle);
    res = start && stop ? finished_at(start, &start_ns) : CUDA_ERROR_INVALID_HANDLE;
    if (res == CUDA_SUCCESS)
        res = finished_at(stop, &end_ns);
    if (res == CUDA_SUCCESS)
        *out = (float)((double)((int64_t)(end_ns - start_ns)) / 1e6);
    if (start)
        put(start);
    if (stop)
        put(stop);
    return res;
}

SIM_API(cuEventElapsedTime, float *out, CUevent start, CUevent stop)
{
    return elapsed(SIM_ID_cuEventElapsedTime, out, start, stop);
}

SIM_API(cuEventElapsedTime_v2, float *out, CUevent start, CUevent stop)
{
    return elapsed(SIM_ID_cuEventElapsedTime_v2, out, start, stop);
}

/* An operation that waits for the event, NULL without memory. */
static struct sim_op *make_wait(enum sim_api api, struct sim_event *event)
{
    struct sim_op *op = sim_op_new(SIM_OP_WAIT, api, NULL);
    struct sim_op *before = recorded(event);

    if (op && !sim_op_depend(op, before)) {
        sim_op_unref(op);
        op = NULL;
    }
    sim_op_unref(before);
    return op;
}

CUresult sim_event_wait_context(enum sim_api api, struct sim_context *context,
                                CUevent handle)
{
    CUresult res = sim_context_error(context);
    struct sim_event *event;

    if (res != CUDA_SUCCESS)
        return res;
    event = get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_op *op = make_wait(api, event);
    res = op ? sim_context_bar(context, op) : CUDA_ERROR_OUT_OF_MEMORY;
    sim_op_unref(op);
    put(event);
    return res;
}

static CUresult wait_event(enum sim_api api, enum sim_variant variant,
                           CUstream stream_handle, CUevent handle, unsigned flags)
{
    struct sim_context *context;
    struct sim_stream *stream;
    CUresult res = sim_enter_context(api, &context);

    if (res != CUDA_SUCCESS)
        return res;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *event = get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    res = sim_stream_get(context, stream_handle, variant, &stream);
    if (res == CUDA_SUCCESS) {
        res = sim_submit_drop(stream, make_wait(api, event));
        sim_stream_put(stream);
    }
    put(event);
    return res;
}

SIM_API(cuStreamWaitEvent, CUstream stream, CUevent event, unsigned int flags)
{
    return wait_event(SIM_ID_cuStreamWaitEvent, SIM_LEGACY, stream, event, flags);
}

SIM_API(cuStreamWaitEvent_ptsz, CUstream stream, CUevent event, unsigned int flags)
{
    return wait_event(SIM_ID_cuStreamWaitEvent_ptsz, SIM_PER_THREAD, stream, event,
                      flags);
}
