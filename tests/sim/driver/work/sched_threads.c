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
#include <sys/prctl.h>
#include <time.h>

#include "config.h"
#include "context.h"
#include "gs_uncancelled.h"
#include "order.h"
#include "stream.h"

#define LOOK_NS 20000000 /* between two looks whether anything has ended */
#define SPIN_NS 20000    /* the end of a spin is not slept through */

#define NEVER_POLL_NS 1000000 /* of an operation that never ends: is the device lost? */

/* Since when a thread has waited without anything having ended. */
struct patience {
    uint64_t since_ns;
    uint64_t ended;
};

static atomic_ullong ended_count; /* atomic: operations that have ended */

static void point(void)
{
}

static void init(struct sim_queue *queue)
{
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->work, NULL);
    pthread_cond_init(&queue->finished, NULL);
}

static void destroy(struct sim_queue *queue)
{
    pthread_cond_destroy(&queue->finished);
    pthread_cond_destroy(&queue->work);
    pthread_mutex_destroy(&queue->lock);
}

/* A host thread waits: for ever, or, with CUDASIM_HANG, until for so long nothing has
 * ended. Needs queue->lock; false: it is a hang. */
static bool wait_a_while(struct sim_queue *queue, struct patience *patience)
{
    struct timespec time;

    if (!sim_config()->hang_ms) {
        pthread_cond_wait(&queue->finished, &queue->lock);
        return true;
    }
    uint64_t ended = atomic_load(&ended_count), now = sim_now_ns();
    if (!patience->since_ns || ended != patience->ended)
        *patience = (struct patience){now, ended};
    clock_gettime(CLOCK_REALTIME, &time); /* the condition's clock */
    time.tv_nsec += LOOK_NS;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&queue->finished, &queue->lock, &time);
    return now - patience->since_ns < sim_config()->hang_ms * 1000000;
}

/* The operation at the end of the chain of those that wait for each other, with a
 * reference, or NULL. */
static struct sim_op *find_culprit(struct sim_op *awaited)
{
    struct sim_op *op = awaited;

    sim_op_ref(op);
    while (op && !sim_op_done(op)) {
        struct sim_queue *queue = &op->stream->queue;
        pthread_mutex_lock(&queue->lock);
        struct sim_op *before = queue->waits_for ? queue->waits_for : queue->head;
        bool found = !queue->waits_for;
        if (before)
            sim_op_ref(before);
        pthread_mutex_unlock(&queue->lock);
        sim_op_unref(op);
        op = before;
        if (found)
            return op;
    }
    sim_op_unref(op);
    return NULL;
}

static void wait_done(struct sim_op *op)
{
    struct sim_queue *queue = &op->stream->queue;

    pthread_mutex_lock(&queue->lock);
    while (!sim_op_done(op)) {
        queue->waiters++;
        pthread_cond_wait(&queue->finished, &queue->lock);
        queue->waiters--;
    }
    pthread_mutex_unlock(&queue->lock);
}

/* Wait for what the head depends on; queue->waits_for says so meanwhile. */
static void wait_for_deps(struct sim_queue *queue, struct sim_op *op)
{
    for (unsigned i = 0; i < op->dep_count; i++) {
        if (sim_op_done(op->deps[i]))
            continue;
        pthread_mutex_lock(&queue->lock);
        queue->waits_for = op->deps[i];
        pthread_mutex_unlock(&queue->lock);
        wait_done(op->deps[i]);
        pthread_mutex_lock(&queue->lock);
        queue->waits_for = NULL;
        pthread_mutex_unlock(&queue->lock);
    }
}

/* Run the head, which the caller has claimed (queue->running). Called without locks. */
static void run_head(struct sim_queue *queue, struct sim_op *op)
{
    struct sim_context *context = op->stream->context;
    CUresult res = CUDA_SUCCESS;

    wait_for_deps(queue, op);
    while (op->never_ends && sim_context_error(context) == CUDA_SUCCESS)
        nanosleep(&(const struct timespec){0, NEVER_POLL_NS}, NULL);
    /* Once a free has run, another thread may have its memory, behind the free. */
    bool frees = sim_order_is_free(op);
    if (frees)
        sim_order_done(op);
    if (op->run && (op->run_on_error || sim_context_error(context) == CUDA_SUCCESS)) {
        sim_order_runs(op);
        res = op->run(op);
    }
    if (res != CUDA_SUCCESS)
        sim_context_set_error(context, res);
    op->finished_ns = sim_now_ns();
    if (!frees)
        sim_order_done(op);
    sim_op_release(op);

    pthread_mutex_lock(&queue->lock);
    queue->head = op->next;
    if (!queue->head)
        queue->tail = NULL;
    queue->running = false;
    atomic_fetch_add_explicit(&ended_count, 1, memory_order_relaxed);
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
    char name[16]; /* as the kernel keeps it */
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    prctl(PR_GET_NAME, name);
    prctl(PR_SET_NAME, "cudasim"); /* inherited: a driver's threads are told by it */
    bool started = pthread_create(&thread, &attributes, work, stream) == 0;
    prctl(PR_SET_NAME, name);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

static CUresult prepare(struct sim_stream *stream)
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

static void enqueue(struct sim_stream *stream, struct sim_op *op)
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

static void wait_or_help(struct sim_op *op, bool helps)
{
    struct sim_queue *queue = &op->stream->queue;
    struct patience patience = {0};

    pthread_mutex_lock(&queue->lock);
    while (!sim_op_done(op)) {
        if (helps && !queue->running && queue->head == op) {
            queue->running = true;
            pthread_mutex_unlock(&queue->lock);
            run_head(queue, op);
            return;
        }
        queue->waiters++;
        bool goes_on = wait_a_while(queue, &patience);
        queue->waiters--;
        if (!goes_on && !sim_op_done(op)) {
            pthread_mutex_unlock(&queue->lock);
            sim_liveness_hang(op, find_culprit(op));
        }
    }
    pthread_mutex_unlock(&queue->lock);
}

/* As a driver's own waits, no point of cancellation: the thread would keep the lock. */
static void wait(struct sim_op *op)
{
    int before = gs_uncancelled_begin();

    wait_or_help(op, false);
    gs_uncancelled_end(before);
}

static void help(struct sim_op *op)
{
    int before = gs_uncancelled_begin();

    wait_or_help(op, true);
    gs_uncancelled_end(before);
}

static void close_queue(struct sim_stream *stream)
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

/* The worker sleeps: the stream is busy, the processor is not. */
static void spin(uint64_t ns)
{
    const uint64_t end = sim_now_ns() + ns;

    for (uint64_t now = sim_now_ns(); now < end; now = sim_now_ns()) {
        if (end - now <= 2 * SPIN_NS)
            continue;
        uint64_t rest = end - now - SPIN_NS;
        const struct timespec time = {(time_t)(rest / 1000000000u),
                                      (long)(rest % 1000000000u)};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    }
}

const struct sim_scheduler sim_sched_threads = {
    .init = init,
    .destroy = destroy,
    .prepare = prepare,
    .enqueue = enqueue,
    .wait = wait,
    .help = help,
    .close = close_queue,
    .point = point,
    .spin = spin,
};
