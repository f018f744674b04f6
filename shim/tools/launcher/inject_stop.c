/*
 * inject_stop.c - stops every thread of a process, until gs_stop_end.
 *
 * A thread of ours traces them all. When it ends, however it does, the kernel detaches it
 * and they run on.
 *
 * Owns: struct gs_stop.   Lock: none; it is the tracing thread's, up to `is_ready` and
 * after `is_over`.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>

#include "gs_clock.h"
#include "gs_grow.h"
#include "shim/tools/launcher/inject.h"
#include "shim/tools/launcher/inject_parts.h"

#define NS_PER_MS UINT64_C(1000000)
#define STOP_NS   (10000 * NS_PER_MS) /* for all to stop */
#define LOOK_NS   (5 * NS_PER_MS)     /* then the thread's state is looked at */

struct held {
    pid_t tid;
    bool is_stopped; /* false: in the kernel; it stops before it runs the program */
    bool reads_on;   /* its read was cut short */
    uint64_t stack, thread; /* pointers, once it is stopped */
};

struct gs_stop {
    pid_t pid;
    pthread_t thread;
    sem_t is_ready, is_over;
    const char *why; /* NULL: all are stopped */
    struct held *held;
    size_t count, room;
    bool has_more; /* the last pass found new threads */
};

static bool hold(pid_t tid, void *arg)
{
    struct gs_stop *stop = arg;
    for (size_t i = 0; i < stop->count; i++) {
        if (stop->held[i].tid == tid) {
            return true;
        }
    }
    if (!gs_grow(&stop->held, stop->count, &stop->room, sizeof(*stop->held))) {
        stop->why = "out of memory";
        return false;
    }
    int error = gs_traced_begin(tid);
    if (error == 0) {
        stop->held[stop->count++] = (struct held){.tid = tid};
        stop->has_more = true;
    } else if (gs_inject_state(tid) && !strchr("ZX", gs_inject_state(tid))) {
        stop->why = gs_inject_no_trace(tid, error);
    }
    return stop->why == NULL;
}

static void keep_waiting(struct held *held)
{
    struct gs_traced thread = {.tid = held->tid};
    if (!gs_traced_get(&thread)) {
        return;
    }
    held->stack = gs_arch_stack(&thread.regs);
    held->thread = gs_arch_tls(&thread.regs);
    if (gs_arch_keep_waiting(&thread.regs)) {
        (void)gs_traced_set(held->tid, &thread.regs);
    } else {
        held->reads_on = gs_rest_is_due(&thread);
    }
}

/* Reads what its stop has left out. */
static void read_on(const struct held *held)
{
    struct gs_traced thread = {.tid = held->tid};
    if (gs_traced_get(&thread)) {
        gs_rest_read(&thread);
        (void)gs_traced_set(held->tid, &thread.regs);
    }
}

/* Waits for one to stop. Returns NULL or the reason. */
static const char *await(struct held *held, uint64_t until_ns)
{
    while (!held->is_stopped) {
        switch (gs_traced_wait(held->tid, PTRACE_CONT, gs_now_ns() + LOOK_NS)) {
        case GS_EVENT_END:
            held->tid = 0;
            return NULL;
        case GS_EVENT_TIME:
            if (gs_inject_state(held->tid) == 'D') {
                return NULL;
            }
            if (gs_now_ns() >= until_ns) {
                return gs_inject_reason("its thread %d does not stop", (int)held->tid);
            }
            break;
        case GS_EVENT_STOP:
        case GS_EVENT_CALL:
            keep_waiting(held);
            held->is_stopped = true;
            break;
        }
    }
    return NULL;
}

static void hold_all(struct gs_stop *stop)
{
    uint64_t until_ns = gs_now_ns() + STOP_NS;
    do {
        stop->has_more = false;
        if (!gs_inject_threads(stop->pid, hold, stop)) {
            stop->why = "it has ended";
        }
        /* One that creates a thread is stopped before the list is read again. */
        for (size_t i = 0; i < stop->count && !stop->why; i++) {
            if (stop->held[i].tid) {
                stop->why = await(&stop->held[i], until_ns);
            }
        }
    } while (stop->has_more && !stop->why);
}

static void let_all_go(struct gs_stop *stop)
{
    for (size_t i = 0; i < stop->count; i++) {
        struct held *held = &stop->held[i];
        if (held->tid && !held->is_stopped &&
            gs_traced_wait(held->tid, PTRACE_CONT, 1) == GS_EVENT_STOP) {
            keep_waiting(held);
            held->is_stopped = true;
        }
        if (held->tid && held->is_stopped && !held->reads_on) {
            (void)gs_traced_go(held->tid, PTRACE_DETACH);
        }
    }
    for (size_t i = 0; i < stop->count; i++) { /* while all others run */
        if (stop->held[i].tid && stop->held[i].reads_on) {
            read_on(&stop->held[i]);
            (void)gs_traced_go(stop->held[i].tid, PTRACE_DETACH);
        }
    }
}

static void await_post(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0 && errno == EINTR) {
    }
}

static void *hold_them(void *arg)
{
    struct gs_stop *stop = arg;
    hold_all(stop);
    (void)sem_post(&stop->is_ready);
    if (!stop->why) {
        await_post(&stop->is_over);
    }
    let_all_go(stop);
    return NULL;
}

static void end(struct gs_stop *stop)
{
    (void)pthread_join(stop->thread, NULL);
    (void)sem_destroy(&stop->is_ready);
    (void)sem_destroy(&stop->is_over);
    free(stop->held);
    free(stop);
}

const char *gs_stop_begin(pid_t pid, struct gs_stop **out)
{
    const char *why = gs_arch_refuse();
    if (!why) {
        why = gs_inject_refuse(pid);
    }
    if (why) {
        return why;
    }
    struct gs_stop *stop = calloc(1, sizeof(*stop));
    if (!stop) {
        return "out of memory";
    }
    stop->pid = pid;
    (void)sem_init(&stop->is_ready, 0, 0);
    (void)sem_init(&stop->is_over, 0, 0);
    if (pthread_create(&stop->thread, NULL, hold_them, stop) != 0) {
        free(stop);
        return "no thread can be created here";
    }
    await_post(&stop->is_ready);
    why = stop->why;
    if (why) {
        end(stop);
        return why;
    }
    *out = stop;
    return NULL;
}

bool gs_stop_stack(const struct gs_stop *stop, size_t i, uint64_t *stack,
                   uint64_t *thread)
{
    if (i >= stop->count) {
        return false;
    }
    *stack = stop->held[i].stack;
    *thread = stop->held[i].thread;
    return true;
}

void gs_stop_end(struct gs_stop *stop)
{
    if (!stop) {
        return;
    }
    (void)sem_post(&stop->is_over);
    end(stop);
}
