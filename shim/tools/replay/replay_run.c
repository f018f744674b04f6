/*
 * replay_run.c - carries a trace out, on one thread or on as many as it had.
 *
 * With threads, each carries out its own operations in order. A free waits for its
 * allocation, and nobody runs more than a window ahead of the slowest: else the memory
 * live at one time would have nothing to do with the trace's. The first operation of the
 * whole trace that is not done can always be done, so that nothing hangs.
 *
 * Owns:  the handles of the run.
 * Lock:  none; handles, positions and the outcome are atomic.
 */
#include "shim/tools/replay/replay_run.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

struct run {
    const struct gs_replay_trace *trace;
    const struct gs_replay_target *target;
    const struct gs_replay_config *config;
    uint64_t *handles; /* by id; atomic; 0: not allocated yet */
    size_t *positions; /* by thread: the operation it is at; atomic */
    uint32_t threads;
    bool failed;      /* atomic */
    size_t failed_at; /* written by whoever set `failed` */
    uint64_t ops;     /* atomic */
};

struct run_thread {
    struct run *run;
    const size_t *steps; /* its operations' numbers */
    size_t count;
    uint32_t number;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Carry out one operation whose allocation, if it is a free, is there. */
static bool step(struct run *run, size_t at)
{
    const struct gs_replay_op *op = &run->trace->ops[at];
    const struct gs_replay_target *target = run->target;
    uint64_t handle;

    switch (op->op) {
    case GS_TRACE_ALLOC:
        handle = target->allocate(target->self, op);
        __atomic_store_n(&run->handles[op->id], handle, __ATOMIC_RELEASE);
        return handle != 0;
    case GS_TRACE_FREE:
        handle = __atomic_load_n(&run->handles[op->id], __ATOMIC_ACQUIRE);
        target->release(target->self, op, handle);
        return true;
    default:
        if (target->synchronize) {
            target->synchronize(target->self, op);
        }
        return true;
    }
}

static void run_alone(struct run *run)
{
    size_t count = run->config->limit ? run->config->limit : run->trace->count;

    for (size_t i = 0; i < count; i++) {
        if (!step(run, i)) {
            run->failed = true;
            run->failed_at = i;
            return;
        }
        run->ops += run->trace->ops[i].op != GS_TRACE_SYNC;
    }
}

/* ---- with threads ----------------------------------------------------------------- */

static size_t slowest(const struct run *run)
{
    size_t least = SIZE_MAX;

    for (uint32_t i = 0; i < run->threads; i++) {
        size_t at = __atomic_load_n(&run->positions[i], __ATOMIC_ACQUIRE);

        least = at < least ? at : least;
    }
    return least;
}

static bool given_up(const struct run *run)
{
    return __atomic_load_n(&run->failed, __ATOMIC_RELAXED);
}

/* Until the operation may be carried out; *seen is how far everybody was known to be. */
static void wait_for_turn(const struct run *run, size_t at, size_t *seen)
{
    const struct gs_replay_op *op = &run->trace->ops[at];

    while (at - *seen > run->config->window && at > *seen && !given_up(run)) {
        *seen = slowest(run);
        if (at > *seen && at - *seen > run->config->window) {
            sched_yield();
        }
    }
    while (op->op == GS_TRACE_FREE && !given_up(run) &&
           __atomic_load_n(&run->handles[op->id], __ATOMIC_ACQUIRE) == 0) {
        sched_yield();
    }
}

static void *run_thread(void *argument)
{
    struct run_thread *thread = argument;
    struct run *run = thread->run;
    uint64_t ops = 0;
    size_t seen = 0;

    if (run->target->enter_thread) {
        run->target->enter_thread(run->target->self);
    }
    for (size_t i = 0; i < thread->count; i++) {
        size_t at = thread->steps[i];

        __atomic_store_n(&run->positions[thread->number], at, __ATOMIC_RELEASE);
        wait_for_turn(run, at, &seen);
        if (given_up(run)) {
            break;
        }
        if (!step(run, at)) {
            if (!__atomic_exchange_n(&run->failed, true, __ATOMIC_ACQ_REL)) {
                run->failed_at = at;
            }
            break;
        }
        ops += run->trace->ops[at].op != GS_TRACE_SYNC;
    }
    __atomic_store_n(&run->positions[thread->number], SIZE_MAX, __ATOMIC_RELEASE);
    __atomic_fetch_add(&run->ops, ops, __ATOMIC_RELAXED);
    return NULL;
}

/* Operations' numbers, each thread's in a row of its own; begins[t] is where t's begin.
 */
static size_t *sort_by_thread(const struct gs_replay_trace *trace, size_t *begins)
{
    size_t *steps = gs_replay_alloc(trace->count, sizeof(*steps));
    size_t *next = gs_replay_alloc(trace->threads + 1u, sizeof(*next));

    for (size_t i = 0; i < trace->count; i++) {
        begins[trace->ops[i].thread + 1]++;
    }
    for (uint32_t t = 0; t < trace->threads; t++) {
        begins[t + 1] += begins[t];
        next[t] = begins[t];
    }
    for (size_t i = 0; i < trace->count; i++) {
        steps[next[trace->ops[i].thread]++] = i;
    }
    free(next);
    return steps;
}

static void run_threads(struct run *run)
{
    uint32_t count = run->trace->threads;
    size_t *begins = gs_replay_alloc(count + 1u, sizeof(*begins));
    size_t *steps = sort_by_thread(run->trace, begins);
    struct run_thread *threads = gs_replay_alloc(count, sizeof(*threads));
    pthread_t *ids = gs_replay_alloc(count, sizeof(*ids));
    uint32_t started = 0;

    run->positions = gs_replay_alloc(count, sizeof(*run->positions));
    run->threads = count;
    for (uint32_t t = 0; t < count; t++) {
        threads[t] =
            (struct run_thread){run, steps + begins[t], begins[t + 1] - begins[t], t};
    }
    while (started < count &&
           pthread_create(&ids[started], NULL, run_thread, &threads[started]) == 0) {
        started++;
    }
    if (started < count) {
        gs_replay_fail("only %u of %u threads can be started", started, count);
    }
    for (uint32_t t = 0; t < count; t++) {
        pthread_join(ids[t], NULL);
    }
    free(run->positions);
    free(begins);
    free(steps);
    free(threads);
    free(ids);
}

void gs_replay_run(const struct gs_replay_trace *trace,
                   const struct gs_replay_target *target,
                   const struct gs_replay_config *config, struct gs_replay_result *result)
{
    struct run run = {.trace = trace, .target = target, .config = config};
    uint64_t begin;

    run.handles = config->handles;
    if (!run.handles) {
        run.handles = gs_replay_alloc(trace->allocations, sizeof(*run.handles));
    }
    begin = now_ns();
    if (config->threads) {
        run_threads(&run);
    } else {
        run_alone(&run);
    }
    *result = (struct gs_replay_result){.fits = !run.failed,
                                        .failed_at = run.failed_at,
                                        .ops = run.ops,
                                        .ns = now_ns() - begin};
    if (run.failed) {
        result->failed_bytes = trace->ops[run.failed_at].bytes;
    }
    if (!config->handles) {
        free(run.handles);
    }
}
