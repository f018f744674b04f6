/*
 * context.c - the life of contexts and what they own.
 * Owns:  contexts.   Lock: context->lock; no other lock of the driver is held around it
 * except a device's.
 * Source: Driver API, "Context Management", "Primary Context Management".
 */
#include "context.h"

#include <stdlib.h>

#include "config.h"
#include "device.h"
#include "green.h"
#include "order.h"
#include "pool.h"
#include "stream.h"
#include "vmm_range.h"

#define MAX_WAITED 64 /* contexts of one device a free waits for */

static atomic_ullong last_context_id; /* atomic */

static const size_t default_limits[SIM_LIMITS] = {
    [CU_LIMIT_STACK_SIZE] = 1024,
    [CU_LIMIT_PRINTF_FIFO_SIZE] = GS_MIB,
    [CU_LIMIT_MALLOC_HEAP_SIZE] = 8 * GS_MIB,
    [CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
    [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
    [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
};

static struct sim_context *contexts; /* contexts_lock; linked through next_context */
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_context *retired; /* retired_lock; linked through retired_next */
static struct sim_context *made;    /* retired_lock; linked through made_before */
static pthread_mutex_t retired_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * The memory of a context is never given back but reused for another: allocations name
 * their context by address and id, and the address must stay safe to look at.
 */
static void destroy(struct sim_object *object)
{
    struct sim_context *context = (struct sim_context *)object;

    pthread_mutex_lock(&contexts_lock);
    struct sim_context **link = &contexts;
    while (*link && *link != context)
        link = &(*link)->next_context;
    if (*link)
        *link = context->next_context;
    pthread_mutex_unlock(&contexts_lock);
    pthread_mutex_lock(&retired_lock);
    context->retired_next = retired;
    retired = context;
    pthread_mutex_unlock(&retired_lock);
}

static struct sim_context *new_context(void)
{
    pthread_mutex_lock(&retired_lock);
    struct sim_context *context = retired;
    if (context)
        retired = context->retired_next;
    pthread_mutex_unlock(&retired_lock);
    if (context)
        return context;
    context = calloc(1, sizeof(*context));
    if (!context)
        return NULL;
    pthread_mutex_init(&context->lock, NULL);
    pthread_mutex_lock(&retired_lock);
    context->made_before = made;
    made = context;
    pthread_mutex_unlock(&retired_lock);
    return context;
}

static void begin_life(struct sim_context *context)
{
    for (unsigned i = 0; i < SIM_LIMITS; i++)
        context->limits[i] = default_limits[i];
    context->cache_config = 0;
    context->shared_config = 0;
    context->peer_count = 0;
    atomic_store(&context->error, CUDA_SUCCESS);
    atomic_store(&context->id, 1 + atomic_fetch_add(&last_context_id, 1));
    atomic_store_explicit(&context->alive, true, memory_order_release);
    if (sim_device_is_lost(context->device)) /* meanwhile */
        sim_context_set_error(context, SIM_DEVICE_LOST);
}

CUresult sim_context_create(int device, bool primary, unsigned flags,
                            unsigned api_version, struct sim_context **out)
{
    if (sim_device_is_lost(device))
        return SIM_DEVICE_LOST;
    struct sim_context *context = new_context();
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_object_init(&context->object, SIM_TYPE_CONTEXT, destroy);
    context->device = device;
    context->primary = primary;
    context->api_version = api_version;
    atomic_store(&context->flags, flags);
    sim_heap_init(&context->heap, sim_device_space(device), false);
    if (!primary)
        begin_life(context);
    if (!sim_handle_open(&context->object)) {
        sim_object_unref(&context->object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&contexts_lock);
    context->next_context = contexts;
    contexts = context;
    pthread_mutex_unlock(&contexts_lock);
    *out = context;
    return CUDA_SUCCESS;
}

void sim_context_visit(int device,
                       void (*visit)(struct sim_context *context, void *argument),
                       void *argument)
{
    pthread_mutex_lock(&contexts_lock);
    for (struct sim_context *context = contexts; context;
         context = context->next_context) {
        if (context->device == device && atomic_load(&context->alive))
            visit(context, argument);
    }
    pthread_mutex_unlock(&contexts_lock);
}

void sim_context_revive(struct sim_context *context)
{
    begin_life(context);
}

/* Close every stream; each leaves the list by itself once it is drained. */
static void end_streams(struct sim_context *context)
{
    for (;;) {
        pthread_mutex_lock(&context->lock);
        struct sim_stream *stream = context->streams;
        while (stream && stream->queue.closing)
            stream = stream->next;
        if (stream)
            sim_object_ref(&stream->object);
        pthread_mutex_unlock(&context->lock);
        if (!stream)
            break;
        if (stream->object.handle) {
            struct sim_object *closed =
                sim_handle_close(stream->object.handle, SIM_TYPE_STREAM);
            if (closed)
                sim_object_unref(closed);
        }
        sim_stream_close(stream);
        sim_stream_put(stream);
    }
}

static void drop_own_streams(struct sim_context *context)
{
    struct sim_stream *own[3];
    struct sim_op *barrier;

    pthread_mutex_lock(&context->lock);
    own[0] = context->legacy;
    own[1] = context->marks;
    own[2] = context->barriers;
    context->legacy = NULL;
    context->marks = NULL;
    context->barriers = NULL;
    barrier = context->barrier;
    context->barrier = NULL;
    pthread_mutex_unlock(&context->lock);
    sim_op_unref(barrier);
    for (unsigned i = 0; i < GS_ARRAY_LEN(own); i++) {
        if (own[i])
            sim_stream_put(own[i]);
    }
}

static void end_children(struct sim_context *context)
{
    for (;;) {
        pthread_mutex_lock(&context->lock);
        struct sim_object *child = context->children;
        if (child)
            sim_object_ref(child);
        pthread_mutex_unlock(&context->lock);
        if (!child)
            return;
        struct sim_object *closed = sim_handle_close(child->handle, child->type);
        if (closed)
            sim_object_unref(closed);
        sim_context_disown(context, child);
        sim_object_unref(child);
    }
}

bool sim_context_end(struct sim_context *context)
{
    bool alive = true;

    CUresult res = sim_context_wait(context);
    (void)res; /* a context may end with its error */
    if (!atomic_compare_exchange_strong(&context->alive, &alive, false))
        return false;
    end_streams(context);
    end_children(context);
    drop_own_streams(context);
    sim_host_remove_context(context, sim_context_id(context));
    sim_range_remove_context(context, sim_context_id(context));
    sim_heap_clear(&context->heap);
    return true;
}

struct sim_context *sim_context_get_any(CUcontext handle)
{
    return (struct sim_context *)sim_handle_get(handle, SIM_TYPE_CONTEXT);
}

struct sim_context *sim_context_get(CUcontext handle)
{
    struct sim_context *context = sim_context_get_any(handle);

    if (!context || !context->green)
        return context;
    struct sim_context *primary = context->green->primary;
    sim_object_ref(&primary->object);
    sim_context_put(context);
    return primary;
}

void sim_context_put(struct sim_context *context)
{
    sim_object_unref(&context->object);
}

CUcontext sim_context_handle(const struct sim_context *context)
{
    return (CUcontext)context->object.handle;
}

/* One of the context's own streams, made at first use; a reference for the caller. */
static CUresult own_stream(struct sim_context *context, struct sim_stream **field,
                           enum sim_stream_kind kind, struct sim_stream **out)
{
    struct sim_stream *stream;

    pthread_mutex_lock(&context->lock);
    stream = *field;
    if (stream)
        sim_object_ref(&stream->object);
    pthread_mutex_unlock(&context->lock);
    if (stream) {
        *out = stream;
        return CUDA_SUCCESS;
    }

    SIM_TRY(sim_stream_create(context, kind, 0, 0, &stream));
    pthread_mutex_lock(&context->lock);
    struct sim_stream *first = *field;
    if (!first)
        *field = stream;
    sim_object_ref(first ? &first->object : &stream->object);
    pthread_mutex_unlock(&context->lock);
    if (first) { /* another thread was faster */
        sim_stream_close(stream);
        sim_stream_put(stream);
    }
    *out = first ? first : stream;
    return CUDA_SUCCESS;
}

CUresult sim_context_legacy(struct sim_context *context, struct sim_stream **out)
{
    return own_stream(context, &context->legacy, SIM_STREAM_LEGACY, out);
}

/* Which streams of a context are meant. */
enum which {
    WHICH_ALL,      /* the internal ones too: an event of the context is done as well */
    WHICH_PROGRAMS, /* internal ones carry no work, only the order of the others */
    WHICH_BLOCKING, /* the legacy stream and those that order with it */
};

static bool is_meant(const struct sim_stream *stream, enum which which)
{
    switch (which) {
    case WHICH_ALL:
        return true;
    case WHICH_PROGRAMS:
        return stream->kind != SIM_STREAM_INTERNAL;
    case WHICH_BLOCKING:
        break;
    }
    return stream->kind == SIM_STREAM_LEGACY || sim_stream_is_blocking(stream);
}

static CUresult depend(struct sim_context *context, struct sim_op *op, enum which which)
{
    bool fits = true;

    pthread_mutex_lock(&context->lock);
    sim_order_after_gone(op, context, which == WHICH_BLOCKING);
    for (struct sim_stream *stream = context->streams; stream && fits;
         stream = stream->next) {
        if (is_meant(stream, which))
            fits = sim_op_depend_on_stream(op, stream);
    }
    pthread_mutex_unlock(&context->lock);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_context_depend(struct sim_context *context, struct sim_op *op)
{
    return depend(context, op, WHICH_PROGRAMS);
}

/* Wait for what was submitted to those streams before; the calling thread knows then. */
static CUresult wait(struct sim_context *context, enum which which)
{
    struct sim_op *all = sim_op_new(SIM_OP_MARK, (enum sim_api)0, NULL);

    if (!all)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult res = depend(context, all, which);
    for (unsigned i = 0; res == CUDA_SUCCESS && i < all->dep_count; i++)
        sim_sched_wait(all->deps[i], false);
    if (res == CUDA_SUCCESS) {
        sim_pool_synchronized(all->frees);
        sim_order_saw_op(all, false);
    }
    sim_op_unref(all);
    return res == CUDA_SUCCESS ? sim_context_error(context) : res;
}

CUresult sim_context_wait(struct sim_context *context)
{
    return wait(context, WHICH_ALL);
}

CUresult sim_context_wait_blocking(struct sim_context *context)
{
    return wait(context, WHICH_BLOCKING);
}

bool sim_context_blocking_idle(struct sim_context *context)
{
    struct sim_op *all = sim_op_new(SIM_OP_MARK, (enum sim_api)0, NULL);
    bool idle = all && depend(context, all, WHICH_BLOCKING) == CUDA_SUCCESS &&
                all->dep_count == 0;

    if (idle)
        sim_order_saw_op(all, true);
    sim_op_unref(all);
    return idle;
}

struct found_contexts {
    struct sim_context *contexts[MAX_WAITED];
    unsigned count;
};

static void find_context(struct sim_context *context, void *argument)
{
    struct found_contexts *found = argument;

    if (found->count == MAX_WAITED)
        return;
    sim_object_ref(&context->object);
    found->contexts[found->count++] = context;
}

/* The work of all contexts of a device but one. */
static void wait_for_others(int device, const struct sim_context *but)
{
    struct found_contexts found = {.count = 0};

    sim_context_visit(device, find_context, &found);
    while (found.count > 0) {
        struct sim_context *other = found.contexts[--found.count];
        CUresult res = other == but ? CUDA_SUCCESS : sim_context_wait(other);
        (void)res; /* another context's error is not this call's */
        sim_context_put(other);
    }
}

CUresult sim_context_synchronize(struct sim_context *context)
{
    for (int i = 0; i < SIM_MAX_DEVICES && sim_is_strict(SIM_RULE_context_sync); i++)
        wait_for_others(i, context);
    return wait(context, sim_is_lax(SIM_RULE_context_sync) ? WHICH_BLOCKING : WHICH_ALL);
}

CUresult sim_context_wait_for_free(struct sim_context *context, enum gs_free_kind kind,
                                   size_t bytes)
{
    enum sim_rule rule =
        kind == GS_FREE_pinned ? SIM_RULE_host_free_waits : SIM_RULE_free_waits;

    if (sim_is_lax(rule))
        return sim_context_error(context);
    for (int i = 0; i < SIM_MAX_DEVICES && sim_is_strict(rule); i++)
        wait_for_others(i, context);

    switch (gs_free_waits_of(&sim_config()->free_waits, kind, bytes)) {
    case GS_FREE_BLOCKING:
        return wait(context, WHICH_BLOCKING);
    case GS_FREE_NONE:
        return sim_context_error(context);
    case GS_FREE_DEVICE:
        wait_for_others(context->device, context);
        break;
    default:
        break;
    }
    return sim_context_wait(context);
}

/* All that is submitted later waits for it. */
static void set_barrier(struct sim_context *context, struct sim_op *op)
{
    sim_op_ref(op);
    pthread_mutex_lock(&context->lock);
    struct sim_op *before = context->barrier;
    context->barrier = op;
    pthread_mutex_unlock(&context->lock);
    sim_op_unref(before);
}

CUresult sim_context_mark(struct sim_context *context, struct sim_op *op)
{
    struct sim_stream *stream;

    SIM_TRY(own_stream(context, &context->marks, SIM_STREAM_INTERNAL, &stream));
    CUresult res =
        depend(context, op,
               sim_is_lax(SIM_RULE_context_record) ? WHICH_BLOCKING : WHICH_PROGRAMS);
    if (res == CUDA_SUCCESS)
        res = sim_submit(stream, op);
    if (res == CUDA_SUCCESS && sim_is_strict(SIM_RULE_context_record))
        set_barrier(context, op);
    sim_stream_put(stream);
    return res;
}

CUresult sim_context_bar(struct sim_context *context, struct sim_op *op)
{
    struct sim_stream *stream;
    CUresult res = own_stream(context, &context->barriers, SIM_STREAM_INTERNAL, &stream);

    if (res != CUDA_SUCCESS)
        return res;
    if (sim_is_strict(SIM_RULE_context_wait))
        res = sim_context_depend(context, op);
    if (res == CUDA_SUCCESS)
        res = sim_submit(stream, op);
    if (res == CUDA_SUCCESS)
        set_barrier(context, op); /* the stream orders it behind the one before */
    sim_stream_put(stream);
    return res;
}

CUresult sim_context_stand_between(enum sim_api api, struct sim_context *context)
{
    if (sim_config()->alloc_waits == SIM_ALLOC_WAITS_NONE)
        return CUDA_SUCCESS;
    struct sim_op *op = sim_op_new(SIM_OP_MARK, api, NULL);
    CUresult res = op ? sim_context_depend(context, op) : CUDA_ERROR_OUT_OF_MEMORY;
    if (res == CUDA_SUCCESS)
        res = sim_context_bar(context, op);
    sim_op_unref(op);
    return res;
}

void sim_context_adopt(struct sim_context *context, struct sim_object *child)
{
    sim_object_ref(child);
    pthread_mutex_lock(&context->lock);
    child->prev = NULL;
    child->next = context->children;
    if (child->next)
        child->next->prev = child;
    context->children = child;
    pthread_mutex_unlock(&context->lock);
}

void sim_context_disown(struct sim_context *context, struct sim_object *child)
{
    pthread_mutex_lock(&context->lock);
    bool listed = child->prev || context->children == child;
    if (listed) {
        if (child->prev)
            child->prev->next = child->next;
        else
            context->children = child->next;
        if (child->next)
            child->next->prev = child->prev;
        child->next = NULL;
        child->prev = NULL;
    }
    pthread_mutex_unlock(&context->lock);
    if (listed)
        sim_object_unref(child);
}

bool sim_context_may_access(struct sim_context *context, const struct sim_alloc *alloc)
{
    bool allowed = false;

    if (sim_memory_is_of_pool(alloc))
        return sim_pool_allows(alloc, context->device);
    if (!sim_memory_is_device_kind(alloc))
        return true;
    if (alloc->context == context && alloc->context_id == sim_context_id(context))
        return true;
    pthread_mutex_lock(&context->lock);
    for (unsigned i = 0; i < context->peer_count && !allowed; i++) {
        const struct sim_peer *peer = &context->peers[i];
        allowed = peer->context == alloc->context && peer->id == alloc->context_id;
    }
    pthread_mutex_unlock(&context->lock);
    return allowed;
}

void sim_context_set_error(struct sim_context *context, CUresult error)
{
    int none = CUDA_SUCCESS;

    atomic_compare_exchange_strong(&context->error, &none, (int)error);
}

void sim_context_fail_all(int device, CUresult error)
{
    pthread_mutex_lock(&retired_lock);
    for (struct sim_context *context = made; context; context = context->made_before) {
        if (context->device == device && atomic_load(&context->alive))
            sim_context_set_error(context, error);
    }
    pthread_mutex_unlock(&retired_lock);
}
