/*
 * odd.c - longer programs that put several rules together, as real ones do: orders that
 * go through many streams, threads that come and go, words, graphs, contexts.
 * Source: CUDA Programming Guide, "Streams", "Default Stream", "CUDA Graphs"; Driver API,
 * "Stream Memory Operations", "Virtual Memory Management", "Green Contexts".
 */
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "order.h"

#define RELAY 40

/* Hand two buffers along many streams with one event; one link may be left out. */
static void relay(unsigned without)
{
    CUdeviceptr memory[2] = {new_memory(), new_memory()};
    CUevent event = new_event();
    CUstream streams[RELAY];

    for (unsigned i = 0; i < RELAY; i++)
        streams[i] = new_stream();
    fill(streams[0], memory[0], 1);
    for (unsigned i = 0; i < 2 * RELAY; i++) {
        CUstream next = streams[(i + 1) % RELAY];
        OK(cuEventRecord(event, streams[i % RELAY]));
        if (i != without)
            OK(cuStreamWaitEvent(next, event, 0));
        copy(next, memory[(i + 1) & 1], memory[i & 1]);
    }
    OK(cuCtxSynchronize());
}

PROGRAM(odd, relay, RIGHT, "one event, recorded again, along forty streams")
{
    relay(2 * RELAY);
}

PROGRAM(odd, broken_relay, RACE, "one of eighty links is missing")
{
    relay(RELAY / 2);
}

/* Blocking streams that live for one operation, the legacy stream in between. */
static void come_and_go(unsigned rounds, unsigned without)
{
    CUdeviceptr memory = new_memory(), out = new_memory();

    for (unsigned i = 0; i < rounds; i++) {
        CUstream a = blocking_stream();
        fill(a, memory, i);
        OK(cuStreamDestroy(a));
        if (i != without)
            spin(NULL);
        CUstream b = blocking_stream();
        copy(b, out, memory);
        OK(cuStreamDestroy(b));
        spin(NULL);
    }
    OK(cuCtxSynchronize());
}

PROGRAM(odd, streams_come_and_go, RIGHT, "the legacy stream covers streams that are gone")
{
    come_and_go(20, 20);
}

PROGRAM(odd, streams_come_and_go_alone, RACE, "it is left out once")
{
    come_and_go(10, 7);
}

/* ---- threads ----------------------------------------------------------------------- */

struct pair {
    CUdeviceptr memory, out;
    bool waits;
};

static void fill_and_end(void *argument)
{
    const struct pair *pair = argument;

    fill(CU_STREAM_PER_THREAD, pair->memory, 2);
    if (pair->waits)
        OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

static void copy_and_end(void *argument)
{
    const struct pair *pair = argument;

    copy(CU_STREAM_PER_THREAD, pair->out, pair->memory);
}

PROGRAM(odd, threads_end, RIGHT, "a thread waits for its stream and ends")
{
    struct pair pair = {new_memory(), new_memory(), true};

    for (unsigned i = 0; i < 6; i++) {
        join_worker(start_worker(fill_and_end, &pair));
        join_worker(start_worker(copy_and_end, &pair));
        spin(CU_STREAM_LEGACY);
    }
    must_hold(pair.out, 2);
}

PROGRAM(odd, threads_end_early, RACE, "the end of a thread waits for nothing")
{
    struct pair pair = {new_memory(), new_memory(), false};

    join_worker(start_worker(fill_and_end, &pair));
    join_worker(start_worker(copy_and_end, &pair));
    OK(cuCtxSynchronize());
}

struct free_list {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    CUdeviceptr memory[4]; /* lock */
    unsigned count;        /* lock */
};

static void produce(void *argument)
{
    struct free_list *free_list = argument;
    CUstream stream = new_stream();

    for (unsigned i = 0; i < 6; i++) {
        CUdeviceptr memory = new_memory();
        fill(stream, memory, i);
        OK(cuStreamSynchronize(stream));
        pthread_mutex_lock(&free_list->lock);
        while (free_list->count == 4)
            pthread_cond_wait(&free_list->moved, &free_list->lock);
        free_list->memory[free_list->count++] = memory;
        pthread_cond_broadcast(&free_list->moved);
        pthread_mutex_unlock(&free_list->lock);
    }
}

static void consume(void *argument)
{
    struct free_list *free_list = argument;
    CUstream stream = new_stream();
    CUdeviceptr out = new_memory();

    for (unsigned i = 0; i < 6; i++) {
        pthread_mutex_lock(&free_list->lock);
        while (free_list->count == 0)
            pthread_cond_wait(&free_list->moved, &free_list->lock);
        CUdeviceptr memory = free_list->memory[--free_list->count];
        pthread_cond_broadcast(&free_list->moved);
        pthread_mutex_unlock(&free_list->lock);
        copy(stream, out, memory);
        fill(stream, memory, i);
        OK(cuMemFree(memory));
    }
}

PROGRAM(odd, free_list, RIGHT,
        "buffers made by three threads, used and freed by three others")
{
    static struct free_list free_list = {
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0};
    struct worker *workers[6];

    for (unsigned i = 0; i < 6; i++)
        workers[i] = start_worker(i & 1 ? consume : produce, &free_list);
    for (unsigned i = 0; i < 6; i++)
        join_worker(workers[i]);
}

/* ---- host functions, words --------------------------------------------------------- */

static void CUDA_CB post(void *argument)
{
    sem_post(argument);
}

static void CUDA_CB await(void *argument)
{
    while (sem_wait(argument) != 0)
        ;
}

PROGRAM(odd, functions_signal, RIGHT, "host functions of two streams take turns")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    static sem_t there, back;

    must(sem_init(&there, 0, 0) == 0 && sem_init(&back, 0, 0) == 0, "semaphores");
    for (unsigned i = 0; i < 3; i++) {
        fill(a, memory, i);
        OK(cuLaunchHostFunc(a, post, &there));
        OK(cuLaunchHostFunc(b, await, &there));
        copy(b, out, memory);
        OK(cuLaunchHostFunc(b, post, &back));
        OK(cuLaunchHostFunc(a, await, &back));
    }
    must_hold(out, 2);
}

/* Two streams take turns by words; one answer may not be waited for. */
static void ping_pong(unsigned without)
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory(), word = new_memory();

    OK(cuMemsetD32(word, 0, 2));
    OK(cuCtxSynchronize());
    for (unsigned i = 1; i <= 8; i++) {
        fill(a, memory, i);
        OK(cuStreamWriteValue32(a, word, i, 0));
        OK(cuStreamWaitValue32(b, word, i, CU_STREAM_WAIT_VALUE_GEQ));
        copy(b, out, memory);
        OK(cuStreamWriteValue32(b, word + 4, i, 0));
        if (i != without)
            OK(cuStreamWaitValue32(a, word + 4, i, CU_STREAM_WAIT_VALUE_GEQ));
    }
    OK(cuCtxSynchronize());
}

PROGRAM(odd, ping_pong, RIGHT, "two streams take turns by words")
{
    ping_pong(0);
}

PROGRAM(odd, ping_without_pong, RACE, "one answer is not waited for")
{
    ping_pong(4);
}

/* ---- graphs ------------------------------------------------------------------------ */

/* An executable graph that copies. */
static CUgraphExec copying_graph(CUstream stream, CUdeviceptr to, CUdeviceptr from)
{
    CUgraph graph;
    CUgraphExec exec;

    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    copy(stream, to, from);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

PROGRAM(odd, replayed_elsewhere, RACE,
        "the launch in another stream is not waited for by a writer in the first")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();
    CUgraphExec exec = copying_graph(a, new_memory(), memory);

    OK(cuGraphLaunch(exec, a));
    OK(cuGraphLaunch(exec, b));
    fill(a, memory, 3);
    OK(cuCtxSynchronize());
}

PROGRAM(odd, address_used_again, RIGHT, "a graph works on whatever lies at its addresses")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    CUgraphExec exec = copying_graph(a, out, memory);

    OK(cuGraphLaunch(exec, a));
    OK(cuMemFree(memory));
    CUdeviceptr next = new_memory();
    must(next == memory, "the address is used again");
    fill(a, next, 4);
    OK(cuGraphLaunch(exec, a));
    must_hold(out, 4);
}

PROGRAM(odd, address_gone, NO_ALLOCATION, "a graph's memory was freed before its launch")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory();
    CUgraphExec exec = copying_graph(a, new_memory(), memory);

    OK(cuMemFree(memory));
    forgive();
    OK(cuGraphLaunch(exec, a));
    OK(cuCtxSynchronize());
}

/* ---- contexts ---------------------------------------------------------------------- */

static CUcontext second_context(CUstream *stream)
{
    CUcontext context = new_context();

    *stream = new_stream();
    OK(cuCtxPopCurrent(NULL));
    return context;
}

/* Fill here, copy in another context of the device. */
static void copy_there(bool waits)
{
    CUstream a = new_stream(), b;
    CUdeviceptr memory = new_memory(), out = new_memory();
    CUevent event = new_event();
    CUcontext other = second_context(&b);

    fill(a, memory, 5);
    OK(cuEventRecord(event, a));
    OK(cuCtxPushCurrent(other));
    if (waits)
        OK(cuStreamWaitEvent(b, event, 0));
    OK(cuMemcpyDtoDAsync(out, memory, BYTES, b));
    OK(cuCtxSynchronize());
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxSynchronize());
}

PROGRAM(odd, contexts, RIGHT, "an event orders streams of two contexts of a device")
{
    copy_there(true);
}

PROGRAM(odd, contexts_without, RACE, "two contexts of a device have no order")
{
    copy_there(false);
}

/* ---- what waits for ever, and what does not ---------------------------------------- */

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;

static void set_behind_door(void *argument)
{
    pthread_mutex_lock(&door);
    __atomic_store_n((uint32_t *)argument, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&door);
}

PROGRAM(odd, lock_and_kernel, PROGRAM_BLOCKS,
        "who would release the kernel waits for a lock of the one who waits for it")
{
    CUstream a = new_stream();
    uint32_t *flag = new_pinned();

    *flag = 0;
    wait_for(a, flag);
    pthread_mutex_lock(&door);
    struct worker *worker = start_worker(set_behind_door, flag);
    OK(cuStreamSynchronize(a));
    pthread_mutex_unlock(&door);
    join_worker(worker);
}

PROGRAM(odd, words_in_a_circle, PROGRAM_BLOCKS, "two streams wait for each other's word")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr word = new_memory();

    OK(cuMemsetD32(word, 0, 2));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32(a, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWriteValue32(a, word + 4, 1, 0));
    OK(cuStreamWaitValue32(b, word + 4, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWriteValue32(b, word, 1, 0));
    OK(cuCtxSynchronize());
}

static void CUDA_CB sleep_for_ever(void *argument)
{
    (void)argument;
    for (;;)
        pause();
}

PROGRAM(odd, ends_all_the_same, RIGHT, "a program may end while the device is at work")
{
    uint32_t *flag = new_pinned();

    *flag = 0;
    wait_for(new_stream(), flag);
    OK(cuLaunchHostFunc(new_stream(), sleep_for_ever, NULL));
}

PROGRAM_WITH(odd, full_beside_a_kernel, RIGHT,
             "a full device answers, whatever kernel runs", "CUDASIM_MEMORY=16M")
{
    CUstream a = new_stream();
    uint32_t *flag = new_pinned();
    CUdeviceptr memory[32];
    unsigned count = 0;

    *flag = 0;
    wait_for(a, flag);
    while (count < 32 && cuMemAlloc(&memory[count], 1 << 20) == CUDA_SUCCESS)
        count++;
    must(count > 0 && count < 32, "the device is full");
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    while (count > 0)
        OK(cuMemFree(memory[--count]));
}
