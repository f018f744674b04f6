/*
 * waits.c - waits that something ends, and waits that nothing can end: the layer's, where
 * native does not wait, or the program's own.
 * Source: docs/simulator.md, "Two schedules", "The oracle".
 */
#include <pthread.h>
#include <time.h>

#include "layer.h"

static void CUDA_CB await(void *argument)
{
    const struct timespec pause = {0, 1000000};

    while (!__atomic_load_n((volatile int *)argument, __ATOMIC_ACQUIRE))
        nanosleep(&pause, NULL);
}

/* Something on the device that ends when the host says so. */
static uint32_t *hold(CUstream stream)
{
    uint32_t *flag = new_pinned();

    *flag = 0;
    wait_for(stream, flag);
    return flag;
}

PROGRAM(waits, alloc_does_not, RIGHT, "work goes on while a persistent kernel runs")
{
    CUstream a = new_stream(), b = new_stream();
    uint32_t *flag = hold(a);

    begin_layer();
    fill(b, hand_out(0), 1);
    OK(cuStreamSynchronize(b));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    must_hold(segment, 1);
}

PROGRAM(waits, native_alloc_does_not, RIGHT, "nor does the driver's own allocation wait")
{
    CUstream a = new_stream(), b = new_stream();
    uint32_t *flag = hold(a);
    CUdeviceptr memory = new_memory();

    fill(b, memory, 1);
    OK(cuStreamSynchronize(b));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    must_hold(memory, 1);
}

PROGRAM(waits, alloc_does, LAYER_BLOCKS,
        "an allocation waits for a kernel that waits for us")
{
    CUstream a = new_stream();
    uint32_t *flag = hold(a);

    begin_layer();
    enter_alloc();
    OK(cuCtxSynchronize());
    leave();
    hand_out(0);
    *flag = 1;
}

PROGRAM(waits, alloc_does_for_a_fence, LAYER_BLOCKS,
        "by way of a fence behind that kernel")
{
    CUstream a = new_stream();
    CUevent event;

    begin_layer();
    CUdeviceptr block = hand_out(0);
    uint32_t *flag = hold(a);
    event = fence();
    take_back(block);
    enter_alloc();
    OK(cuEventSynchronize(event));
    leave();
    hand_out(0);
    *flag = 1;
}

PROGRAM_WITH(waits, alloc_does_for_a_host_function, LAYER_BLOCKS,
             "that waits for this thread", "CUDASIM_HANG=20")
{
    CUstream a = new_stream();
    static volatile int flag;

    begin_layer();
    OK(cuLaunchHostFunc(a, await, (void *)(uintptr_t)&flag));
    enter_alloc();
    OK(cuCtxSynchronize());
    leave();
    flag = 1;
}

PROGRAM(waits, alloc_does_for_a_word, LAYER_BLOCKS, "that this thread writes later")
{
    CUstream a = new_stream();
    uint32_t *word = new_pinned();

    begin_layer();
    word[0] = 0;
    OK(cuStreamWaitValue32(a, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
    enter_alloc();
    OK(cuCtxSynchronize());
    leave();
    word[0] = 1;
}

PROGRAM(waits, free_does, PROGRAM_BLOCKS, "a native free would wait for it as well")
{
    CUstream a = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out(0);
    uint32_t *flag = hold(a);
    enter_free();
    OK(cuCtxSynchronize());
    leave();
    take_back(block);
    *flag = 1;
}

PROGRAM(waits, program_does, PROGRAM_BLOCKS, "the program's own deadlock")
{
    CUstream a = new_stream();
    uint32_t *flag = hold(a);

    OK(cuStreamSynchronize(a));
    *flag = 1;
}

PROGRAM(waits, native_free_does, PROGRAM_BLOCKS, "cuMemFree waits for the whole context")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory();
    uint32_t *flag = hold(a);

    OK(cuMemFree(memory));
    *flag = 1;
}

static void poll_for_ever(void *argument)
{
    CUstream stream = argument;

    for (;;)
        (void)cuStreamQuery(stream);
}

PROGRAM(waits, beside_one_that_polls, PROGRAM_BLOCKS, "a thread that polls ends nothing")
{
    CUstream a = new_stream();
    uint32_t *flag = hold(a);

    (void)start_worker(poll_for_ever, a);
    OK(cuStreamSynchronize(a));
    *flag = 1;
}

static void sleep_ms(unsigned ms)
{
    const struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&time, NULL);
}

static void release_late(void *argument)
{
    sleep_ms(80);
    __atomic_store_n((uint32_t *)argument, 1, __ATOMIC_RELEASE);
}

PROGRAM_WITH(waits, one_that_sleeps_releases, RIGHT,
             "a thread that sleeps for a time goes on by itself", "CUDASIM_HANG=25")
{
    CUstream a = new_stream();
    uint32_t *flag = hold(a);
    struct worker *worker = start_worker(release_late, flag);

    OK(cuStreamSynchronize(a));
    join_worker(worker);
}

static void sleep_for_ever(void *argument)
{
    (void)argument;
    for (;;)
        sleep_ms(5);
}

PROGRAM_WITH(waits, beside_one_that_sleeps, PROGRAM_BLOCKS,
             "a thread that does nothing but sleep ends nothing", "CUDASIM_HANG=10")
{
    CUstream a = new_stream();
    uint32_t *flag = hold(a);

    (void)start_worker(sleep_for_ever, NULL);
    OK(cuStreamSynchronize(a));
    *flag = 1;
}

static void lock_twice(void *argument)
{
    pthread_mutex_t *lock = argument;

    pthread_mutex_lock(lock);
    pthread_mutex_lock(lock);
}

PROGRAM_WITH(waits, beside_one_that_is_stuck, PROGRAM_BLOCKS,
             "a thread that waits for nobody knows what ends nothing", "CUDASIM_HANG=20")
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    CUstream a = new_stream();
    uint32_t *flag = hold(a);

    (void)start_worker(lock_twice, &lock);
    OK(cuStreamSynchronize(a));
    *flag = 1;
}

static void release(void *argument)
{
    uint32_t *flag = argument;
    CUstream b = new_stream();

    fill(b, new_memory(), 1);
    OK(cuStreamSynchronize(b));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

PROGRAM(waits, another_thread_releases, RIGHT,
        "a wait that another thread ends is none too many")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory();
    uint32_t *flag = hold(a);
    struct worker *worker = start_worker(release, flag);

    OK(cuMemFree(memory));
    join_worker(worker);
}

PROGRAM(waits, collective, RIGHT, "kernels that wait for each other's launch")
{
    CUstream a = new_stream(), b = new_stream();
    uint32_t *flags = new_pinned();

    begin_layer();
    flags[0] = 0;
    wait_for(a, &flags[0]);
    CUdeviceptr block = hand_out(0);
    OK(cuStreamWriteValue32(b, (CUdeviceptr)(uintptr_t)flags, 1, 0));
    fill(b, block, 1);
    OK(cuStreamSynchronize(a));
    must_hold(block, 1);
}
