/*
 * thread.c - per-thread state. One pointer of thread-local storage, initial-exec, so that
 * the library needs nothing but libc; a key's destructor releases the record.
 * Owns:  the records.   Lock: none; key_once for the key.
 */
#include "thread.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "context.h"
#include "green.h"
#include "oracle.h"
#include "stream.h"

struct default_stream {
    struct default_stream *next;
    struct sim_stream *stream; /* with a reference */
};

struct thread_state {
    struct sim_context **stack;
    size_t depth, room;
    struct default_stream *streams;
    bool in_host_function;
    struct oracle_line *line; /* NULL until the oracle asks */
    enum sim_api api;
    struct sim_layer layer;
};

static __thread struct thread_state *state; /* the thread's own */
static pthread_key_t key;                   /* immutable after key_once */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void release(void *argument)
{
    struct thread_state *old = argument;

    state = NULL;
    while (old->depth > 0) {
        struct sim_context *context = old->stack[--old->depth];
        sim_handle_let_go(&context->object);
        sim_object_unref(&context->object);
    }
    while (old->streams) {
        struct default_stream *entry = old->streams;
        old->streams = entry->next;
        sim_stream_close(entry->stream);
        sim_stream_put(entry->stream);
        free(entry);
    }
    if (old->line)
        oracle_line_end(old->line);
    free(old->stack);
    free(old);
}

static void make_key(void)
{
    pthread_key_create(&key, release);
}

/* The thread's record, made at its first use; NULL without memory. */
static struct thread_state *get_state(void)
{
    if (state)
        return state;
    struct thread_state *fresh = calloc(1, sizeof(*fresh));
    if (!fresh)
        return NULL;
    pthread_once(&key_once, make_key);
    pthread_setspecific(key, fresh);
    state = fresh;
    return fresh;
}

struct sim_context *sim_thread_top(void)
{
    return state && state->depth > 0 ? state->stack[state->depth - 1] : NULL;
}

struct sim_context *sim_thread_current(void)
{
    struct sim_context *top = sim_thread_top();

    return top && GS_UNLIKELY(top->green != NULL) ? top->green->primary : top;
}

CUresult sim_thread_push(struct sim_context *context)
{
    struct thread_state *self = get_state();

    if (!self)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (self->depth == self->room) {
        size_t room = self->room ? self->room * 2 : 8;
        struct sim_context **stack = realloc(self->stack, room * sizeof(*stack));
        if (!stack)
            return CUDA_ERROR_OUT_OF_MEMORY;
        self->stack = stack;
        self->room = room;
    }
    if (!sim_handle_hold(&context->object))
        return CUDA_ERROR_INVALID_CONTEXT;
    sim_object_ref(&context->object);
    self->stack[self->depth++] = context;
    return CUDA_SUCCESS;
}

struct sim_context *sim_thread_pop(void)
{
    struct sim_context *top = sim_thread_top();

    if (!top)
        return NULL;
    state->depth--;
    sim_handle_let_go(&top->object);
    return top;
}

/* Forget default streams of contexts that have died since. */
static void forget_stale(struct thread_state *self)
{
    for (struct default_stream **link = &self->streams; *link;) {
        struct default_stream *entry = *link;
        if (sim_context_lives(entry->stream->context, entry->stream->context_id)) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        sim_stream_put(entry->stream);
        free(entry);
    }
}

CUresult sim_thread_stream(struct sim_context *context, struct sim_stream **out)
{
    struct thread_state *self = get_state();

    if (!self)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (struct default_stream *entry = self->streams; entry; entry = entry->next) {
        if (entry->stream->context == context &&
            sim_context_lives(context, entry->stream->context_id)) {
            sim_object_ref(&entry->stream->object);
            *out = entry->stream;
            return CUDA_SUCCESS;
        }
    }
    forget_stale(self);
    struct default_stream *entry = calloc(1, sizeof(*entry));
    if (!entry)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult res = sim_stream_create(context, SIM_STREAM_THREAD, 0, 0, &entry->stream);
    if (res != CUDA_SUCCESS) {
        free(entry);
        return res;
    }
    entry->next = self->streams;
    self->streams = entry;
    sim_object_ref(&entry->stream->object);
    *out = entry->stream;
    return CUDA_SUCCESS;
}

void sim_set_in_host_function(bool inside)
{
    struct thread_state *self = get_state();

    if (self)
        self->in_host_function = inside;
}

bool sim_in_host_function(void)
{
    return state && state->in_host_function;
}

struct oracle_line *sim_thread_line(void)
{
    struct thread_state *self = oracle_on ? get_state() : NULL;

    if (!self)
        return NULL;
    if (!self->line)
        self->line = oracle_line_new(ORACLE_HOST, (uint64_t)syscall(SYS_gettid), NULL);
    return self->line;
}

void sim_thread_enters(enum sim_api api)
{
    struct thread_state *self = get_state();

    if (self)
        self->api = api;
}

const char *sim_thread_call(void)
{
    return state ? sim_api_name(state->api) : "the driver";
}

struct sim_layer *sim_thread_layer(void)
{
    struct thread_state *self = get_state();

    return self ? &self->layer : NULL;
}

bool sim_thread_owns(void)
{
    return state && state->layer.depth > 0 && state->layer.forwarded == 0;
}
