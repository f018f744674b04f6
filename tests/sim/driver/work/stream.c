/*
 * stream.c - streams and the order between them.
 *
 * Order is expressed as dependencies between operations, found at submission: the legacy
 * stream's operation waits for the newest one of every blocking stream, theirs for the
 * newest one of the legacy stream, everybody for the context's barrier.
 *
 * Owns:  streams.   Lock: context->lock, taken before a queue's lock.
 * Source: CUDA Programming Guide, "Default Stream"; Driver API, "Stream synchronization
 *         behavior".
 */
#include "stream.h"

#include <stdlib.h>

#include "capture.h"
#include "context.h"
#include "thread.h"

static atomic_ullong last_stream_id; /* atomic */

static void destroy(struct sim_object *object)
{
    struct sim_stream *stream = (struct sim_stream *)object;

    sim_op_unref(stream->last);
    sim_sched_destroy(&stream->queue);
    free(stream->tail_handles);
    free(stream->tail_edges);
    sim_object_unref(&stream->context->object);
    free(stream);
}

CUresult sim_stream_create(struct sim_context *context, enum sim_stream_kind kind,
                           unsigned flags, int priority, struct sim_stream **out)
{
    struct sim_stream *stream = calloc(1, sizeof(*stream));

    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_object_init(&stream->object, SIM_TYPE_STREAM, destroy);
    sim_object_ref(&context->object);
    stream->context = context;
    stream->context_id = sim_context_id(context);
    stream->id = 1 + atomic_fetch_add(&last_stream_id, 1);
    stream->kind = kind;
    stream->flags = flags;
    stream->priority = priority;
    sim_sched_init(&stream->queue);
    sim_object_ref(&stream->object); /* the list's */
    pthread_mutex_lock(&context->lock);
    stream->listed = true;
    stream->next = context->streams;
    if (stream->next)
        stream->next->prev = stream;
    context->streams = stream;
    pthread_mutex_unlock(&context->lock);
    *out = stream;
    return CUDA_SUCCESS;
}

void sim_stream_put(struct sim_stream *stream)
{
    sim_object_unref(&stream->object);
}

CUresult sim_stream_get(struct sim_context *context, CUstream handle,
                        enum sim_variant variant, struct sim_stream **out)
{
    if (handle == CU_STREAM_PER_THREAD || (!handle && variant == SIM_PER_THREAD))
        return sim_thread_stream(context, out);
    if (!handle || handle == CU_STREAM_LEGACY)
        return sim_context_legacy(context, out);
    struct sim_object *object = sim_handle_get(handle, SIM_TYPE_STREAM);
    if (!object)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (struct sim_stream *)object;
    return CUDA_SUCCESS;
}

CUresult sim_stream_get_own(struct sim_context *context, CUstream handle,
                            enum sim_variant variant, struct sim_stream **out)
{
    struct sim_stream *stream;
    CUresult res = sim_stream_get(context, handle, variant, &stream);

    if (res != CUDA_SUCCESS)
        return res;
    if (stream->context != context) {
        sim_stream_put(stream);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *out = stream;
    return CUDA_SUCCESS;
}

/* Add what the order between streams asks for. Needs the context's lock. */
static bool add_order(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_context *context = stream->context;

    if (stream->kind != SIM_STREAM_INTERNAL && !sim_op_depend(op, context->barrier))
        return false;
    if (stream->kind == SIM_STREAM_LEGACY) {
        for (struct sim_stream *other = context->streams; other; other = other->next) {
            if (sim_stream_is_blocking(other) && !sim_op_depend(op, other->last))
                return false;
        }
    } else if (sim_stream_is_blocking(stream) && context->legacy) {
        return sim_op_depend(op, context->legacy->last);
    }
    return true;
}

static CUresult enqueue(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_context *context = stream->context;
    CUresult res = CUDA_SUCCESS;
    struct sim_op *before = NULL;

    sim_object_ref(&stream->object);
    op->stream = stream;
    pthread_mutex_lock(&context->lock);
    if (!stream->listed) {
        res = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    } else if (!add_order(stream, op)) {
        res = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        before = stream->last;
        sim_op_ref(op);
        stream->last = op;
        sim_sched_enqueue(stream, op);
    }
    pthread_mutex_unlock(&context->lock);
    sim_op_unref(before);
    return res;
}

CUresult sim_submit(struct sim_stream *stream, struct sim_op *op)
{
    bool captured = false;
    CUresult res = sim_capture_submit(stream, op, &captured);

    if (res != CUDA_SUCCESS || captured)
        return res;
    res = sim_sched_prepare(stream);
    return res == CUDA_SUCCESS ? enqueue(stream, op) : res;
}

CUresult sim_submit_drop(struct sim_stream *stream, struct sim_op *op)
{
    CUresult res = op ? sim_submit(stream, op) : CUDA_ERROR_OUT_OF_MEMORY;

    sim_op_unref(op);
    return res;
}

CUresult sim_submit_wait(struct sim_stream *stream, struct sim_op *op)
{
    bool captured = false;
    CUresult res = sim_capture_submit(stream, op, &captured);

    if (res != CUDA_SUCCESS || captured)
        return res;
    res = enqueue(stream, op);
    if (res != CUDA_SUCCESS)
        return res;
    sim_sched_wait(op, true);
    return sim_context_error(stream->context);
}

/* The newest operation with a reference, NULL if all are done. */
static struct sim_op *pending(struct sim_stream *stream)
{
    struct sim_op *op;

    pthread_mutex_lock(&stream->context->lock);
    op = stream->last;
    if (op && sim_op_done(op))
        op = NULL;
    if (op)
        sim_op_ref(op);
    pthread_mutex_unlock(&stream->context->lock);
    return op;
}

CUresult sim_stream_wait(struct sim_stream *stream)
{
    struct sim_op *op = pending(stream);

    if (op)
        sim_sched_wait(op, false);
    sim_op_unref(op);
    return sim_context_error(stream->context);
}

bool sim_stream_idle(struct sim_stream *stream)
{
    struct sim_op *op = pending(stream);

    sim_op_unref(op);
    return op == NULL;
}

void sim_stream_close(struct sim_stream *stream)
{
    sim_capture_drop_stream(stream);
    sim_sched_close(stream);
}

void sim_stream_drained(struct sim_stream *stream)
{
    struct sim_context *context = stream->context;

    pthread_mutex_lock(&context->lock);
    bool listed = stream->listed;
    struct sim_op *last = stream->last; /* the two refer to each other */
    stream->last = NULL;
    if (listed) {
        if (stream->prev)
            stream->prev->next = stream->next;
        else
            context->streams = stream->next;
        if (stream->next)
            stream->next->prev = stream->prev;
        stream->listed = false;
    }
    pthread_mutex_unlock(&context->lock);
    sim_op_unref(last);
    if (listed)
        sim_stream_put(stream); /* the list's */
}
