/*
 * green.c - green contexts.
 * Owns:  green contexts and their views.   Lock: the primary context's.
 * Source: Driver API, "Green Contexts".
 */
#include "green.h"

#include <stdlib.h>

#include "capture.h"
#include "event.h"
#include "order.h"
#include "stream.h"
#include "thread.h"

static atomic_ullong last_green_id; /* atomic */

static void destroy(struct sim_object *object)
{
    struct sim_green *green = (struct sim_green *)object;

    sim_op_unref(green->barrier);
    sim_context_put(green->primary);
    free(green);
}

static void destroy_view(struct sim_object *object)
{
    struct sim_context *view = (struct sim_context *)object;

    sim_green_put(view->green);
    free(view);
}

struct sim_green *sim_green_get(CUgreenCtx handle)
{
    return (struct sim_green *)sim_handle_get(handle, SIM_TYPE_GREEN);
}

void sim_green_put(struct sim_green *green)
{
    sim_object_unref(&green->object);
}

struct sim_green *sim_green_of(CUcontext handle)
{
    struct sim_context *view = sim_context_get_any(handle);
    struct sim_green *green = view ? view->green : NULL;

    if (green)
        sim_object_ref(&green->object);
    if (view)
        sim_context_put(view);
    return green;
}

bool sim_green_lives(const struct sim_green *green)
{
    return !atomic_load_explicit(&green->ended, memory_order_acquire) &&
           sim_context_lives(green->primary, green->primary_id);
}

struct sim_green *sim_green_current(void)
{
    const struct sim_context *top = sim_thread_top();

    return top ? top->green : NULL;
}

/* A handle under which the green context can be made current. False without memory. */
static bool make_view(struct sim_green *green)
{
    struct sim_context *view = calloc(1, sizeof(*view));

    if (!view)
        return false;
    sim_object_init(&view->object, SIM_TYPE_CONTEXT, destroy_view);
    sim_object_ref(&green->object);
    view->green = green;
    view->device = green->primary->device;
    green->view = sim_handle_open(&view->object);
    sim_object_unref(&view->object);
    return green->view != NULL;
}

void sim_green_adopt(struct sim_green *green, struct sim_stream *stream)
{
    sim_object_ref(&green->object);
    pthread_mutex_lock(&green->primary->lock);
    stream->green = green;
    pthread_mutex_unlock(&green->primary->lock);
}

CUresult sim_green_create(struct sim_context *primary, uint64_t multiprocessors,
                          struct sim_green **out)
{
    struct sim_green *green = calloc(1, sizeof(*green));

    if (!green)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_object_init(&green->object, SIM_TYPE_GREEN, destroy);
    sim_object_ref(&primary->object);
    green->primary = primary;
    green->primary_id = sim_context_id(primary);
    green->id = 1 + atomic_fetch_add(&last_green_id, 1);
    green->multiprocessors = multiprocessors;
    CUresult res = sim_stream_create(primary, SIM_STREAM_USER, CU_STREAM_NON_BLOCKING, 0,
                                     &green->stream);
    if (res == CUDA_SUCCESS) {
        sim_green_adopt(green, green->stream);
        if (!make_view(green) || !sim_handle_open(&green->object))
            res = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (res == CUDA_SUCCESS) {
        *out = green;
    } else {
        sim_green_end(green);
        sim_green_put(green);
    }
    return res;
}

/* Let go of a stream of its own; what is queued still runs. */
static void drop_stream(struct sim_green *green, struct sim_stream **field)
{
    pthread_mutex_lock(&green->primary->lock);
    struct sim_stream *stream = *field;
    *field = NULL;
    pthread_mutex_unlock(&green->primary->lock);
    if (!stream)
        return;
    sim_stream_close(stream);
    sim_stream_put(stream);
}

void sim_green_end(struct sim_green *green)
{
    struct sim_object *view = sim_handle_close(green->view, SIM_TYPE_CONTEXT);

    atomic_store_explicit(&green->ended, true, memory_order_release);
    if (view)
        sim_object_unref(view);
    drop_stream(green, &green->stream);
    drop_stream(green, &green->marks);
    drop_stream(green, &green->barriers);
}

/* One of its own streams with a reference, made at first use. */
static CUresult own_stream(struct sim_green *green, struct sim_stream **field,
                           struct sim_stream **out)
{
    struct sim_stream *fresh = NULL;

    SIM_TRY(sim_stream_create(green->primary, SIM_STREAM_INTERNAL, 0, 0, &fresh));
    pthread_mutex_lock(&green->primary->lock);
    bool used = !*field;
    if (used)
        *field = fresh;
    *out = *field;
    sim_object_ref(&(*out)->object);
    pthread_mutex_unlock(&green->primary->lock);
    if (!used) {
        sim_stream_close(fresh);
        sim_stream_put(fresh);
    }
    return CUDA_SUCCESS;
}

CUresult sim_green_stream(struct sim_green *green, struct sim_stream **out)
{
    pthread_mutex_lock(&green->primary->lock);
    *out = green->stream;
    if (*out)
        sim_object_ref(&(*out)->object);
    pthread_mutex_unlock(&green->primary->lock);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* Make the operation wait for all work of its streams so far. */
static CUresult depend(struct sim_green *green, struct sim_op *op)
{
    bool fits = true;

    pthread_mutex_lock(&green->primary->lock);
    for (struct sim_stream *stream = green->primary->streams; stream && fits;
         stream = stream->next) {
        if (stream->green == green)
            fits = sim_op_depend_on_stream(op, stream);
    }
    pthread_mutex_unlock(&green->primary->lock);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* May a call go on that concerns all its streams? */
static CUresult check(const struct sim_green *green)
{
    if (!sim_green_lives(green))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return sim_context_error(green->primary);
}

CUresult sim_green_wait(struct sim_green *green)
{
    struct sim_op *all = sim_op_new(SIM_OP_MARK, (enum sim_api)0, NULL);
    CUresult res = all ? check(green) : CUDA_ERROR_OUT_OF_MEMORY;

    if (res == CUDA_SUCCESS)
        res = sim_capture_check_green(green);
    if (res == CUDA_SUCCESS)
        res = depend(green, all);
    for (unsigned i = 0; res == CUDA_SUCCESS && i < all->dep_count; i++)
        sim_sched_wait(all->deps[i], false);
    if (res == CUDA_SUCCESS) {
        sim_order_saw_op(all, false);
        res = sim_context_error(green->primary);
    }
    sim_op_unref(all);
    return res;
}

/* Submit an event's record or wait to one of its own streams. */
static CUresult submit(struct sim_green *green, struct sim_stream **field,
                       struct sim_op *op)
{
    struct sim_stream *stream;

    SIM_TRY(own_stream(green, field, &stream));
    CUresult res = sim_submit(stream, op);
    sim_stream_put(stream);
    return res;
}

/* The event of a handle, with a reference; own: it must be of the same primary context.
 */
static CUresult get_event(const struct sim_green *green, CUevent handle, bool own,
                          struct sim_event **out)
{
    SIM_TRY(check(green));
    struct sim_event *event = sim_event_get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (own && event->context != green->primary) {
        sim_event_put(event);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *out = event;
    return CUDA_SUCCESS;
}

CUresult sim_green_record(enum sim_api api, struct sim_green *green, CUevent handle)
{
    struct sim_event *event;

    SIM_TRY(get_event(green, handle, true, &event));
    struct sim_op *op = sim_op_new(SIM_OP_EVENT, api, NULL);
    CUresult res = op ? sim_capture_check_green(green) : CUDA_ERROR_OUT_OF_MEMORY;
    if (res == CUDA_SUCCESS)
        res = depend(green, op);
    if (res == CUDA_SUCCESS) {
        sim_event_begin_record(event, op);
        res = submit(green, &green->marks, op);
    }
    if (res == CUDA_SUCCESS)
        sim_event_set(event, op);
    sim_op_unref(op);
    sim_event_put(event);
    return res;
}

/* Everything later in its streams waits for the operation. */
static void bar(struct sim_green *green, struct sim_op *op)
{
    sim_op_ref(op);
    pthread_mutex_lock(&green->primary->lock);
    struct sim_op *before = green->barrier;
    green->barrier = op; /* its stream orders it behind the one before */
    pthread_mutex_unlock(&green->primary->lock);
    sim_op_unref(before);
}

CUresult sim_green_wait_event(enum sim_api api, struct sim_green *green, CUevent handle)
{
    struct sim_event *event;

    SIM_TRY(get_event(green, handle, false, &event));
    struct sim_op *op = sim_op_new(SIM_OP_WAIT, api, NULL);
    CUresult res = op ? sim_capture_check_green(green) : CUDA_ERROR_OUT_OF_MEMORY;
    if (res == CUDA_SUCCESS && sim_capture_check_event(event) != CUDA_SUCCESS)
        res = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (res == CUDA_SUCCESS && !sim_event_wait_in(event, op))
        res = CUDA_ERROR_OUT_OF_MEMORY;
    if (res == CUDA_SUCCESS)
        res = submit(green, &green->barriers, op);
    if (res == CUDA_SUCCESS)
        bar(green, op);
    sim_op_unref(op);
    sim_event_put(event);
    return res;
}
