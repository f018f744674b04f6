/*
 * host.c - order that goes through the host: waits, copies that wait, host functions.
 * Source: Driver API, "API synchronization behavior", "Stream synchronization behavior",
 * cuLaunchHostFunc.
 */
#include <pthread.h>

#include "order.h"

PROGRAM(host, stream_synchronized, RIGHT, "what comes after a wait is behind it")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 1);
    OK(cuStreamSynchronize(a));
    copy(b, out, memory);
    must_hold(out, 1);
}

PROGRAM(host, other_stream_synchronized, RACE, "a wait for a stream is for that stream")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 1);
    spin(c);
    OK(cuStreamSynchronize(c));
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(host, event_synchronized, RIGHT, "a wait for an event")
{
    CUstream a = new_stream(), b = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 2);
    OK(cuEventRecord(event, a));
    OK(cuEventSynchronize(event));
    copy(b, out, memory);
    must_hold(out, 2);
}

PROGRAM(host, other_event_synchronized, RACE,
        "a wait for an event is for what it captured")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 2);
    spin(c);
    OK(cuEventRecord(event, c));
    OK(cuEventSynchronize(event));
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(host, context_synchronized, RIGHT, "a wait for everything")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 3);
    OK(cuCtxSynchronize());
    copy(b, out, memory);
    must_hold(out, 3);
}

PROGRAM(host, polled, RIGHT, "a stream seen idle")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 4);
    while (cuStreamQuery(a) == CUDA_ERROR_NOT_READY)
        ;
    copy(b, out, memory);
    must_hold(out, 4);
}

PROGRAM(host, other_polled, RACE, "another stream seen idle says nothing")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 4);
    spin(c);
    while (cuStreamQuery(c) == CUDA_ERROR_NOT_READY)
        ;
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(host, event_polled, RIGHT, "an event seen complete")
{
    CUstream a = new_stream(), b = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 4);
    OK(cuEventRecord(event, a));
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        ;
    copy(b, out, memory);
    must_hold(out, 4);
}

PROGRAM(host, other_event_polled, RACE, "another event seen complete says nothing")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 4);
    OK(cuEventRecord(event, c));
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        ;
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

/* ---- copies ------------------------------------------------------------------------ */

PROGRAM(copies, to_pageable, RIGHT, "a copy to pageable memory returns when it is done")
{
    CUstream b = new_stream();
    CUdeviceptr memory = new_memory();
    uint32_t words[WORDS];

    fill(NULL, memory, 5);
    OK(cuMemcpyDtoH(words, memory, BYTES));
    fill(b, memory, 6);
    must_hold(memory, 6);
}

PROGRAM(copies, to_pageable_async, MASKED,
        "an asynchronous one might be synchronous: no program may lean on it")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();
    static uint32_t words[WORDS];

    OK(cuMemcpyDtoHAsync(words, memory, BYTES, a));
    fill(b, memory, 6);
    OK(cuCtxSynchronize());
}

PROGRAM(copies, to_pinned, RACE, "an asynchronous copy to pinned memory does not wait")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();
    uint32_t *words = new_pinned();

    OK(cuMemcpyDtoHAsync(words, memory, BYTES, a));
    fill(b, memory, 6);
    OK(cuCtxSynchronize());
}

PROGRAM(copies, to_pinned_synchronous, RIGHT, "a synchronous one does")
{
    CUstream b = new_stream();
    CUdeviceptr memory = new_memory();
    uint32_t *words = new_pinned();

    OK(cuMemcpyDtoH(words, memory, BYTES));
    fill(b, memory, 6);
    must_hold(memory, 6);
}

PROGRAM(copies, from_pinned, RACE,
        "an asynchronous copy from pinned memory does not wait")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    OK(cuMemcpyHtoDAsync(memory, new_pinned(), BYTES, a));
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(copies, from_pinned_synchronous, RIGHT,
        "a copy from pinned memory is synchronous with respect to the host")
{
    CUstream b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    OK(cuMemcpyHtoD(memory, new_pinned(), BYTES));
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(copies, from_pageable, RACE,
        "the transfer from the staging memory may not have completed")
{
    CUstream b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    uint32_t words[WORDS] = {0};

    OK(cuMemcpyHtoD(memory, words, BYTES));
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(copies, from_pageable_then_legacy, RIGHT, "it has its place in the legacy stream")
{
    CUdeviceptr memory = new_memory(), out = new_memory();
    uint32_t words[WORDS] = {0};

    OK(cuMemcpyHtoD(memory, words, BYTES));
    words[0] = 1; /* staged: the source may be used again */
    copy(NULL, out, memory);
    OK(cuMemcpyDtoH(words, out, BYTES));
    must(words[0] == 0, "the copy took what was there when it was called");
}

PROGRAM(copies, on_the_device, RACE, "a copy within the device does not wait")
{
    CUstream b = new_stream();
    CUdeviceptr memory = new_memory(), to = new_memory(), out = new_memory();

    OK(cuMemcpyDtoD(to, memory, BYTES));
    copy(b, out, to);
    OK(cuCtxSynchronize());
}

PROGRAM(copies, between_hosts, RIGHT, "host to host is synchronous, whatever the call")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr out = new_memory();
    uint32_t *from = new_pinned(), *to = new_pinned();
    CUdeviceptr seen;

    OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, BYTES, a));
    OK(cuMemHostGetDevicePointer(&seen, to, 0));
    copy(b, out, seen);
    OK(cuCtxSynchronize());
}

PROGRAM(copies, set, RACE, "a set of device memory does not wait")
{
    CUstream b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    OK(cuMemsetD32(memory, 7, WORDS));
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(copies, set_of_pinned, RIGHT, "a set of pinned memory does")
{
    CUstream b = new_stream();
    CUdeviceptr out = new_memory();
    uint32_t *words = new_pinned();
    CUdeviceptr seen;

    OK(cuMemHostGetDevicePointer(&seen, words, 0));
    OK(cuMemsetD32(seen, 7, WORDS));
    copy(b, out, seen);
    OK(cuCtxSynchronize());
}

/* ---- host functions ---------------------------------------------------------------- */

static void CUDA_CB raise_flag(void *argument)
{
    __atomic_store_n((int *)argument, 1, __ATOMIC_RELEASE);
}

static void CUDA_CB await_flag(void *argument)
{
    while (!__atomic_load_n((int *)argument, __ATOMIC_ACQUIRE))
        nap_us(100);
}

PROGRAM(host_function, in_order, RIGHT, "what follows it waits for it")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    static int flag;

    fill(a, memory, 8);
    OK(cuLaunchHostFunc(a, raise_flag, &flag));
    copy(a, out, memory);
    must_hold(out, 8);
    must(flag == 1, "the function ran");
}

PROGRAM(host_function, tells_the_host, RIGHT,
        "what it tells the host is known from then on")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    static int flag;

    fill(a, memory, 8);
    OK(cuLaunchHostFunc(a, raise_flag, &flag));
    while (!__atomic_load_n(&flag, __ATOMIC_ACQUIRE))
        nap_us(100);
    copy(b, out, memory);
    must_hold(out, 8);
}

PROGRAM(host_function, waits_for_the_host, RIGHT,
        "it may wait for the thread that launched it")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    static int flag;

    OK(cuLaunchHostFunc(a, await_flag, &flag));
    copy(a, out, memory);
    fill(b, memory, 9);
    OK(cuStreamSynchronize(b));
    raise_flag(&flag);
    must_hold(out, 9);
}

struct meeting {
    int come, gone;
};

static void CUDA_CB meet(void *argument)
{
    struct meeting *meeting = argument;

    await_flag(&meeting->come);
    raise_flag(&meeting->gone);
}

PROGRAM(host_function, told_too_early, RACE,
        "what the host learned after it had returned")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    static struct meeting meeting;

    OK(cuLaunchHostFunc(a, meet, &meeting));
    copy(a, out, memory);
    raise_flag(&meeting.come);
    await_flag(&meeting.gone);
    for (unsigned i = 0; i < 5; i++)
        nap_us(100); /* it returns */
    fill(b, memory, 9);
    OK(cuStreamSynchronize(b));
    OK(cuCtxSynchronize());
}

PROGRAM(host_function, of_another_stream, RACE, "it orders nothing but its own stream")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    static int flag;

    fill(a, memory, 9);
    OK(cuLaunchHostFunc(b, raise_flag, &flag));
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

/* ---- several threads --------------------------------------------------------------- */

struct baton {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int turn; /* lock */
    CUdeviceptr memory[2];
    CUstream streams[2];
};

/* Take turns: read what the other wrote, behind a wait, and write. */
static void play(struct baton *baton, int self)
{
    for (int round = 0; round < 4; round++) {
        pthread_mutex_lock(&baton->lock);
        while (baton->turn % 2 != self)
            pthread_cond_wait(&baton->moved, &baton->lock);
        copy(baton->streams[self], baton->memory[self], baton->memory[!self]);
        OK(cuStreamSynchronize(baton->streams[self]));
        baton->turn++;
        pthread_cond_signal(&baton->moved);
        pthread_mutex_unlock(&baton->lock);
    }
}

static void play_second(void *argument)
{
    play(argument, 1);
}

PROGRAM(threads, taking_turns, RIGHT, "two threads, a lock and a wait")
{
    static struct baton baton = {
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, {0}, {0}};

    for (unsigned i = 0; i < 2; i++) {
        baton.memory[i] = new_memory();
        baton.streams[i] = new_stream();
        fill(baton.streams[i], baton.memory[i], 14);
        OK(cuStreamSynchronize(baton.streams[i]));
    }
    struct worker *worker = start_worker(play_second, &baton);
    play(&baton, 0);
    join_worker(worker);
    must_hold(baton.memory[0], 14);
}

struct crowd {
    CUdeviceptr memory;
    CUstream stream;
};

static void one_of_the_crowd(void *argument)
{
    struct crowd *crowd = argument;

    for (unsigned i = 0; i < 5; i++) {
        CUdeviceptr own = new_memory();
        copy(crowd->stream, own, crowd->memory);
        fill(crowd->stream, own, i);
        OK(cuMemFree(own));
    }
}

PROGRAM(threads, crowd, RIGHT, "four threads that read one buffer and free their own")
{
    CUdeviceptr memory = new_memory();
    struct crowd crowd[4];
    struct worker *workers[4];

    fill(NULL, memory, 15);
    OK(cuCtxSynchronize());
    for (unsigned i = 0; i < 4; i++) {
        crowd[i] = (struct crowd){memory, new_stream()};
        workers[i] = start_worker(one_of_the_crowd, &crowd[i]);
    }
    for (unsigned i = 0; i < 4; i++)
        join_worker(workers[i]);
    must_hold(memory, 15);
}
