/*
 * sched_threads.c - the scheduler of CUDASIM_SCHEDULE=threads: a worker thread per
 * stream, started with the stream's first asynchronous operation; real concurrency, real
 * time.
 *
 * A synchronous call runs its own operation when its turn comes, so a program that never
 * enqueues anything asynchronous has no extra thread. Workers are detached, block every
 * signal and own nothing that process exit would have to clean up.
 *
 * Owns:  the queues.   Lock: queue->lock, inside a context's lock.
 */
#include "sched.h"

#include <signal.h>

#include "context.h"
#include "order.h"
#include "stream.h"

void sim_sched_point(void)
{
}

void sim_sched_init(struct sim_queue *queue)
{
    *queue = (struct sim_queue){0};
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->work, NULL);
    pthread_cond_init(&queue->finished, NULL);
}

void sim_sched_destroy(struct sim_queue *queue)
{
    pthread_cond_destroy(&queue->finished);
    pthread_cond_destroy(&queue->work);
    pthread_mutex_destroy(&queue->lock);
}

/* Run the head, which the caller has claimed (queue->running). Called without locks. */
static void run_head(struct sim_queue *queue, struct sim_op *op)
{
    struct sim_context *context = op->stream->context;
    CUresult res = CUDA_SUCCESS;

    for (unsigned i = 0; i < op->dep_count; i++)
        sim_sched_wait(op->deps[i], false);
    if (op->run && (op->run_on_error || sim_context_error(context) == CUDA_SUCCESS)) {
        sim_order_runs(op);
        res = op->run(op);
    }
    if (res != CUDA_SUCCESS)
        sim_context_set_error(context, res);
    op->finished_ns = sim_now_ns();
    sim_order_done(op);
    sim_op_release(op);

    pthread_mutex_lock(&queue->lock);
    queue->head = op->next;
    if (!queue->head)
        queue->tail = NULL;
    queue->running = false;
    atomic_store_explicit(&op->done, true, memory_order_release);
    if (queue->waiters)
        pthread_cond_broadcast(&queue->finished);
    if (queue->worker_sleeps && (queue->head || queue->closing))
        pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->lock);
    sim_op_unref(op);
}

/* Run what is queued until the stream is closed and nothing is left. */
static void drain(struct sim_queue *queue)
{
    for (;;) {
        pthread_mutex_lock(&queue->lock);
        while (queue->running || (!queue->head && !queue->closing)) {
            queue->worker_sleeps = true;
            pthread_cond_wait(&queue->work, &queue->lock);
            queue->worker_sleeps = false;
        }
        struct sim_op *op = queue->head;
        if (op)
            queue->running = true;
        pthread_mutex_unlock(&queue->lock);
        if (!op)
            return;
        run_head(queue, op);
    }
}

static void *work(void *argument)
{
    struct sim_stream *stream = argument;

    drain(&stream->queue);
    sim_stream_drained(stream);
    drain(&stream->queue); /* what came in before it left its context's list */
    sim_stream_put(stream);
    return NULL;
}

/* A detached thread that no signal of the program is delivered to. */
static bool start_worker(struct sim_stream *stream)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, &attributes, work, stream) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

CUresult sim_sched_prepare(struct sim_stream *stream)
{
    struct sim_queue *queue = &stream->queue;

    pthread_mutex_lock(&queue->lock);
    bool start = !queue->has_worker && !queue->closing;
    bool closed = !queue->has_worker && queue->closing;
    if (start)
        queue->has_worker = true;
    pthread_mutex_unlock(&queue->lock);
    if (closed)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!start)
        return CUDA_SUCCESS;
    sim_object_ref(&stream->object);
    if (start_worker(stream))
        return CUDA_SUCCESS;
    pthread_mutex_lock(&queue->lock);
    queue->has_worker = false;
    pthread_mutex_unlock(&queue->lock);
    sim_stream_put(stream);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_sched_enqueue(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_queue *queue = &stream->queue;

    sim_op_ref(op);
    pthread_mutex_lock(&queue->lock);
    if (queue->tail)
        queue->tail->next = op;
    else
        queue->head = op;
    queue->tail = op;
    if (queue->worker_sleeps && !queue->running)
        pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->lock);
}

void sim_sched_wait(struct sim_op *op, bool helps)
{
    struct sim_queue *queue = &op->stream->queue;

    if (sim_op_done(op))
        return;
    pthread_mutex_lock(&queue->lock);
    while (!sim_op_done(op)) {
        if (helps && !queue->running && queue->head == op) {
            queue->running = true;
            pthread_mutex_unlock(&queue->lock);
            run_head(queue, op);
            return;
        }
        queue->waiters++;
        pthread_cond_wait(&queue->finished, &queue->lock);
        queue->waiters--;
    }
    pthread_mutex_unlock(&queue->lock);
}

void sim_sched_close(struct sim_stream *stream)
{
    struct sim_queue *queue = &stream->queue;

    pthread_mutex_lock(&queue->lock);
    queue->closing = true;
    if (queue->worker_sleeps)
        pthread_cond_signal(&queue->work);
    bool has_worker = queue->has_worker;
    pthread_mutex_unlock(&queue->lock);
    if (!has_worker)
        sim_stream_drained(stream);
}
