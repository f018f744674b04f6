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
#include "fault.h"
#include "frees.h"
#include "green.h"
#include "order.h"
#include "pool.h"
#include "thread.h"

static atomic_ullong last_stream_id; /* atomic */

static void destroy(struct sim_object *object)
{
    struct sim_stream *stream = (struct sim_stream *)object;

    sim_op_unref(stream->last);
    sim_order_stream_end(stream);
    sim_sched_destroy(&stream->queue);
    free(stream->tail_handles);
    free(stream->tail_edges);
    free(stream->attributes);
    if (stream->green)
        sim_green_put(stream->green);
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
    atomic_init(&stream->priority, priority);
    sim_sched_init(&stream->queue);
    sim_order_stream_new(stream);
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
    struct sim_green *green = sim_green_current();

    if (handle == CU_STREAM_PER_THREAD || (!handle && variant == SIM_PER_THREAD))
        return green ? CUDA_ERROR_INVALID_HANDLE : sim_thread_stream(context, out);
    if (!handle || handle == CU_STREAM_LEGACY)
        return green ? sim_green_stream(green, out) : sim_context_legacy(context, out);
    struct sim_object *object = sim_handle_get(handle, SIM_TYPE_STREAM);
    if (!object)
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_stream *stream = (struct sim_stream *)object;
    CUresult res = stream->green && !sim_green_lives(stream->green)
                       ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                       : sim_context_error(stream->context);
    if (res == CUDA_SUCCESS)
        *out = stream;
    else
        sim_stream_put(stream);
    return res;
}

CUresult sim_stream_get_own(struct sim_context *context, CUstream handle,
                            enum sim_variant variant, struct sim_stream **out)
{
    struct sim_stream *stream;

    SIM_TRY(sim_stream_get(context, handle, variant, &stream));
    if (stream->context != context) {
        sim_stream_put(stream);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *out = stream;
    return CUDA_SUCCESS;
}

bool sim_op_depend_on_stream(struct sim_op *op, const struct sim_stream *stream)
{
    sim_order_after_stream(op, stream);
    return op->point || sim_op_depend(op, stream->last);
}

/* Is the operation, by a rule that is bent, behind all work of its context? */
static bool is_behind_all(const struct sim_op *op)
{
    switch (op->kind) {
    case SIM_OP_EVENT:
        return sim_is_strict(SIM_RULE_event_record);
    case SIM_OP_HOST:
        return sim_is_strict(SIM_RULE_host_function);
    case SIM_OP_MEMOP:
        return op->memop.waits && sim_is_strict(SIM_RULE_wait_value);
    default:
        return false;
    }
}

/* Does it, by a rule that is bent, not wait for the one before it in its stream? */
static bool is_loose(const struct sim_op *op, const struct sim_op *before)
{
    return sim_is_lax(SIM_RULE_in_stream) ||
           (op->kind == SIM_OP_EVENT && sim_is_lax(SIM_RULE_event_record)) ||
           (op->api == SIM_ID_cuMemcpyPeerAsync && sim_is_lax(SIM_RULE_peer_copy)) ||
           (before && before->kind == SIM_OP_HOST &&
            sim_is_lax(SIM_RULE_host_function)) ||
           (before && before->overlap != ORACLE_IN_ORDER &&
            sim_is_lax(SIM_RULE_behind_overlap));
}

/* May the operation run beside the one before it, by the documents and by rules that
 * are bent? */
static void settle_overlap(struct sim_op *op, const struct sim_op *before)
{
    bool behind_one = before && before->overlap != ORACLE_IN_ORDER;

    if (op->kind == SIM_OP_KERNEL && (!before || before->kind != SIM_OP_KERNEL))
        op->overlap = ORACLE_IN_ORDER; /* a kernel may overlap a kernel, nothing else */
    if (is_loose(op, before) ||
        (op->overlap == ORACLE_OVERLAPS_WAITS && sim_is_lax(SIM_RULE_overlap)))
        op->overlap = ORACLE_OVERLAPS;
    if (sim_is_strict(SIM_RULE_overlap) ||
        (behind_one && sim_is_strict(SIM_RULE_behind_overlap)))
        op->overlap = ORACLE_IN_ORDER;
}

/* Is work of `stream` behind that of `other`, were one of them the legacy stream? */
static bool is_behind(const struct sim_stream *stream, const struct sim_stream *other)
{
    if (stream->kind == SIM_STREAM_LEGACY) {
        if (sim_is_lax(SIM_RULE_legacy_waits))
            return false;
        return sim_stream_is_blocking(other) ||
               (sim_is_strict(SIM_RULE_legacy_waits) && other->kind == SIM_STREAM_USER);
    }
    if (other->kind != SIM_STREAM_LEGACY)
        return sim_is_strict(SIM_RULE_per_thread) && stream->kind == SIM_STREAM_THREAD &&
               other->kind == SIM_STREAM_THREAD;
    if (sim_is_lax(SIM_RULE_blocking_waits))
        return false;
    return sim_stream_is_blocking(stream) ||
           (sim_is_strict(SIM_RULE_blocking_waits) && stream->kind == SIM_STREAM_USER);
}

/* Does the context's barrier hold for the stream? */
static bool has_barrier(const struct sim_stream *stream)
{
    return (stream->kind != SIM_STREAM_INTERNAL || stream == stream->context->marks) &&
           (!sim_is_lax(SIM_RULE_context_wait) || sim_stream_is_blocking(stream));
}

/* Add what the order between streams asks for. Needs the context's lock. */
static bool add_order(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_context *context = stream->context;
    bool all = sim_is_strict(SIM_RULE_in_stream) || is_behind_all(op);

    if (has_barrier(stream) && !sim_op_depend(op, context->barrier))
        return false;
    if (stream->green && !sim_op_depend(op, stream->green->barrier))
        return false;
    settle_overlap(op, stream->last);
    if (stream->kind == SIM_STREAM_LEGACY && !sim_is_lax(SIM_RULE_destroyed))
        sim_order_after_gone(op, context, true);
    if (!all && stream->kind != SIM_STREAM_LEGACY &&
        !sim_is_strict(SIM_RULE_per_thread)) {
        if (!context->legacy || !is_behind(stream, context->legacy))
            return true;
        return sim_op_depend_on_stream(op, context->legacy);
    }
    for (struct sim_stream *other = context->streams; other; other = other->next) {
        if (other != stream && other->kind != SIM_STREAM_INTERNAL &&
            (all || is_behind(stream, other)) && !sim_op_depend_on_stream(op, other))
            return false;
    }
    return true;
}

/* Behind the frees its stream is behind; one itself is the next. Needs the context's
 * lock. */
static void add_frees(struct sim_stream *stream, struct sim_op *op)
{
    if (stream->last)
        sim_frees_join(&op->frees, stream->last->frees);
    if (op->kind != SIM_OP_FREE)
        return;
    op->free_number = ++stream->free_count;
    sim_frees_add(&op->frees, (struct sim_free_point){stream->id, op->free_number});
}

struct sim_op *sim_stream_past(struct sim_stream *stream)
{
    struct sim_op *op = sim_op_new(SIM_OP_MARK, (enum sim_api)0, NULL);

    if (!op)
        return NULL;
    pthread_mutex_lock(&stream->context->lock);
    bool fits = add_order(stream, op);
    add_frees(stream, op);
    pthread_mutex_unlock(&stream->context->lock);
    if (fits)
        return op;
    sim_op_unref(op);
    return NULL;
}

/* Give the operation its place. Needs the context's lock.
 * Out: *before  what was the newest one, to be dropped without locks */
static CUresult take_place(struct sim_stream *stream, struct sim_op *op,
                           struct sim_op **before)
{
    if (!stream->listed)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!add_order(stream, op))
        return CUDA_ERROR_OUT_OF_MEMORY;
    add_frees(stream, op);
    *before = stream->last;
    sim_op_ref(op);
    stream->last = op;
    sim_order_submit(stream, op);
    if (op->kind == SIM_OP_FREE)
        sim_memory_queue_free(op);
    sim_sched_enqueue(stream, op);
    return CUDA_SUCCESS;
}

/* It becomes an operation of the stream, by the calling thread. */
static void assign(struct sim_stream *stream, struct sim_op *op)
{
    sim_object_ref(&stream->object);
    op->stream = stream;
    op->own = sim_thread_owns();
    op->never_ends = sim_fault_armed && sim_fault_takes_never();
}

static CUresult enqueue(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_context *context = stream->context;
    struct sim_op *before = NULL;

    assign(stream, op);
    pthread_mutex_lock(&context->lock);
    CUresult res = take_place(stream, op, &before);
    pthread_mutex_unlock(&context->lock);
    sim_op_unref(before);
    return res;
}

/* Needs the context's lock. */
static CUresult place_behind(struct sim_place *places, size_t index)
{
    struct sim_place *place = &places[index];

    for (size_t i = 0; i < place->after_count; i++) {
        if (!sim_op_depend(place->op, places[place->after[i]].op))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return take_place(place->stream, place->op, &place->before);
}

CUresult sim_submit_together(struct sim_context *context, struct sim_place *places,
                             size_t count)
{
    CUresult res = CUDA_SUCCESS;

    for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++) {
        places[i].before = NULL;
        assign(places[i].stream, places[i].op);
        res = sim_sched_prepare(places[i].stream);
    }
    if (res != CUDA_SUCCESS)
        return res;
    pthread_mutex_lock(&context->lock);
    for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++)
        res = place_behind(places, i);
    pthread_mutex_unlock(&context->lock);
    for (size_t i = 0; i < count; i++)
        sim_op_unref(places[i].before);
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

static CUresult submit_wait(struct sim_stream *stream, struct sim_op *op, bool promised)
{
    bool captured = false;
    CUresult res = sim_capture_submit(stream, op, &captured);

    if (res != CUDA_SUCCESS || captured)
        return res;
    SIM_TRY(enqueue(stream, op));
    sim_sched_wait(op, true);
    if (promised) {
        sim_pool_synchronized(op->frees);
        sim_order_saw_op(op, false);
    } else {
        sim_order_happened_to_see(op);
    }
    return sim_context_error(stream->context);
}

CUresult sim_submit_wait(struct sim_stream *stream, struct sim_op *op)
{
    return submit_wait(stream, op, true);
}

CUresult sim_submit_may_wait(struct sim_stream *stream, struct sim_op *op)
{
    return submit_wait(stream, op, false);
}

/* The newest operation with a reference, NULL if there is none. */
static struct sim_op *newest(struct sim_stream *stream)
{
    pthread_mutex_lock(&stream->context->lock);
    struct sim_op *op = stream->last;
    if (op)
        sim_op_ref(op);
    pthread_mutex_unlock(&stream->context->lock);
    return op;
}

CUresult sim_stream_wait(struct sim_stream *stream)
{
    if (sim_is_lax(SIM_RULE_stream_sync))
        return sim_context_error(stream->context);
    if (sim_is_strict(SIM_RULE_stream_sync))
        return sim_context_wait(stream->context);
    if (stream->kind == SIM_STREAM_LEGACY) /* it stands for the blocking streams, too */
        return sim_context_wait_blocking(stream->context);
    struct oracle_op *all = sim_order_all_of_stream(stream);
    struct sim_op *op = newest(stream);

    if (op) {
        sim_sched_wait(op, false);
        sim_pool_synchronized(op->frees);
    }
    sim_op_unref(op);
    sim_order_saw(all, false);
    return sim_context_error(stream->context);
}

bool sim_stream_idle(struct sim_stream *stream)
{
    if (sim_is_lax(SIM_RULE_stream_query))
        return true;
    if (sim_is_strict(SIM_RULE_stream_query))
        return sim_context_wait(stream->context) == CUDA_SUCCESS;
    if (stream->kind == SIM_STREAM_LEGACY)
        return sim_context_blocking_idle(stream->context);
    struct oracle_op *all = sim_order_all_of_stream(stream);
    struct sim_op *op = newest(stream);
    bool idle = !op || sim_op_done(op);

    sim_op_unref(op);
    if (idle)
        sim_order_saw(all, true);
    else
        sim_order_drop(all);
    return idle;
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
    if (listed)
        sim_order_stream_gone(stream);
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
