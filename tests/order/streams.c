/*
 * streams.c - the order streams give, and the order they do not.
 * Source: CUDA Programming Guide, "Streams", "Default Stream".
 */
#include <semaphore.h>

#include "order.h"

PROGRAM(streams, one_after_the_other, RIGHT, "operations of one stream run in order")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 1);
    copy(a, out, memory);
    fill(a, memory, 2);
    must_hold(out, 1);
    must_hold(memory, 2);
}

PROGRAM(streams, two, RACE, "streams have no order between them")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 1);
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(streams, two_writers, RACE, "two writes without an order")
{
    CUdeviceptr memory = new_memory();

    fill(new_stream(), memory, 1);
    fill(new_stream(), memory, 2);
    OK(cuCtxSynchronize());
}

PROGRAM(streams, overwritten_while_read, RACE,
        "a read and a later write without an order")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    copy(a, out, memory);
    fill(b, memory, 1);
    OK(cuCtxSynchronize());
}

PROGRAM(streams, two_readers, RIGHT, "reads need no order")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), one = new_memory(), other = new_memory();

    fill(a, memory, 3);
    join(a, b);
    copy(a, one, memory);
    copy(b, other, memory);
    must_hold(one, 3);
    must_hold(other, 3);
}

PROGRAM(streams, halves, RIGHT, "two streams write neighbouring bytes")
{
    CUdeviceptr memory = new_memory();

    OK(cuMemsetD32Async(memory, 1, WORDS / 2, new_stream()));
    OK(cuMemsetD32Async(memory + BYTES / 2, 2, WORDS / 2, new_stream()));
    OK(cuCtxSynchronize());
}

PROGRAM(streams, halves_and_a_word, RACE, "they share one word")
{
    CUdeviceptr memory = new_memory();

    OK(cuMemsetD32Async(memory, 1, WORDS / 2 + 1, new_stream()));
    OK(cuMemsetD32Async(memory + BYTES / 2, 2, WORDS / 2, new_stream()));
    OK(cuCtxSynchronize());
}

PROGRAM(streams, columns, RIGHT, "two streams write columns of their own")
{
    CUdeviceptr memory = new_memory();

    OK(cuMemsetD2D32Async(memory, 64, 1, 8, 16, new_stream()));
    OK(cuMemsetD2D32Async(memory + 32, 64, 2, 8, 16, new_stream()));
    OK(cuCtxSynchronize());
}

PROGRAM(streams, tall_columns, RIGHT, "however many rows they have")
{
    CUdeviceptr memory;

    OK(cuMemAlloc(&memory, (size_t)64 * 2000));
    OK(cuMemsetD2D32Async(memory, 64, 1, 8, 2000, new_stream()));
    OK(cuMemsetD2D32Async(memory + 32, 64, 2, 8, 2000, new_stream()));
    OK(cuCtxSynchronize());
}

PROGRAM(streams, columns_that_meet, RACE, "they share a column")
{
    CUdeviceptr memory = new_memory();

    OK(cuMemsetD2D32Async(memory, 64, 1, 9, 16, new_stream()));
    OK(cuMemsetD2D32Async(memory + 32, 64, 2, 8, 15, new_stream()));
    OK(cuCtxSynchronize());
}

PROGRAM(streams, priorities, RACE, "a priority is a wish, not an order")
{
    CUstream high, low;
    CUdeviceptr memory = new_memory(), out = new_memory();

    OK(cuStreamCreateWithPriority(&high, CU_STREAM_NON_BLOCKING, -5));
    OK(cuStreamCreateWithPriority(&low, CU_STREAM_NON_BLOCKING, 0));
    fill(high, memory, 1);
    copy(low, out, memory);
    OK(cuCtxSynchronize());
}

/* ---- the default streams ----------------------------------------------------------- */

PROGRAM(legacy, behind_blocking, RIGHT, "the legacy stream waits for blocking streams")
{
    CUstream a = blocking_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 4);
    copy(CU_STREAM_LEGACY, out, memory);
    must_hold(out, 4);
}

PROGRAM(legacy, before_blocking, RIGHT, "blocking streams wait for the legacy stream")
{
    CUstream a = blocking_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(NULL, memory, 5);
    copy(a, out, memory);
    must_hold(out, 5);
}

PROGRAM(legacy, barrier, RIGHT, "work in the legacy stream orders two blocking streams")
{
    CUstream a = blocking_stream(), b = blocking_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 6);
    spin(NULL);
    copy(b, out, memory);
    must_hold(out, 6);
}

PROGRAM(legacy, no_barrier, RACE, "two blocking streams have no order of their own")
{
    CUstream a = blocking_stream(), b = blocking_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    spin(NULL);
    fill(a, memory, 6);
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(legacy, barrier_that_is_none, RACE, "work in a non-blocking stream is no barrier")
{
    CUstream a = blocking_stream(), b = blocking_stream(), other = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 6);
    spin(other);
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(legacy, before_non_blocking, RACE, "non-blocking streams do not wait for it")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(NULL, memory, 7);
    copy(a, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(legacy, behind_non_blocking, RACE, "it does not wait for non-blocking streams")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 7);
    copy(NULL, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(legacy, behind_destroyed, RIGHT, "a destroyed stream's work still comes first")
{
    CUstream a = blocking_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 8);
    OK(cuStreamDestroy(a));
    copy(NULL, out, memory);
    must_hold(out, 8);
}

PROGRAM(streams, destroyed, RACE, "destroying a stream waits for nothing")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 9);
    OK(cuStreamDestroy(a));
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(streams, made_again, RACE,
        "a stream in a destroyed one's place is another stream")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 9);
    OK(cuStreamDestroy(a));
    copy(new_stream(), out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(legacy, synchronized, RIGHT, "a wait for it is one for the blocking streams")
{
    CUstream a = blocking_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 8);
    OK(cuStreamSynchronize(NULL));
    copy(b, out, memory);
    must_hold(out, 8);
}

/* ---- per-thread default streams
 * -------------------------------------------------------- */

struct shared {
    CUdeviceptr memory;
    CUstream stream;
};

static void fill_there(void *argument)
{
    const struct shared *shared = argument;

    fill(shared->stream, shared->memory, 10);
}

/* A thread that fills, and stays: its default stream would end with it. */
struct stayer {
    struct shared shared;
    sem_t filled, leave;
};

static void fill_and_stay(void *argument)
{
    struct stayer *stayer = argument;

    fill_there(&stayer->shared);
    sem_post(&stayer->filled);
    sem_wait(&stayer->leave);
}

PROGRAM(per_thread, two_threads, RACE, "each thread's default stream is one of its own")
{
    struct stayer stayer = {.shared = {new_memory(), CU_STREAM_PER_THREAD}};
    CUdeviceptr out = new_memory();

    sem_init(&stayer.filled, 0, 0);
    sem_init(&stayer.leave, 0, 0);
    struct worker *worker = start_worker(fill_and_stay, &stayer);
    sem_wait(&stayer.filled);
    copy(CU_STREAM_PER_THREAD, out, stayer.shared.memory);
    OK(cuCtxSynchronize());
    sem_post(&stayer.leave);
    join_worker(worker);
}

PROGRAM(per_thread, then_legacy, RIGHT, "per-thread streams are blocking streams")
{
    struct shared shared = {new_memory(), CU_STREAM_PER_THREAD};
    CUdeviceptr out = new_memory();

    join_worker(start_worker(fill_there, &shared));
    copy(CU_STREAM_LEGACY, out, shared.memory);
    must_hold(out, 10);
}

PROGRAM(per_thread, with_a_barrier, RIGHT, "the legacy stream orders two of them")
{
    struct shared shared = {new_memory(), CU_STREAM_PER_THREAD};
    CUdeviceptr out = new_memory();

    join_worker(start_worker(fill_there, &shared));
    spin(CU_STREAM_LEGACY);
    copy(CU_STREAM_PER_THREAD, out, shared.memory);
    must_hold(out, 10);
}

PROGRAM(streams, one_of_two_threads, RIGHT, "a stream is in order whoever submits")
{
    struct shared shared = {new_memory(), new_stream()};
    CUdeviceptr out = new_memory();

    join_worker(start_worker(fill_there, &shared));
    copy(shared.stream, out, shared.memory);
    must_hold(out, 10);
}

/* ---- words that are written -------------------------------------------------------- */

/* The first form of the call, which alone has CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER. */
CUresult CUDAAPI write_word(CUstream stream, CUdeviceptr word, cuuint32_t value,
                            unsigned flags) __asm__("cuStreamWriteValue32");

/* A copy in one stream waits for a word that another one writes behind its work. */
static void work_then_word(unsigned flags)
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory(), word = new_memory();

    OK(cuMemsetD32(word, 0, 1));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32(a, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    copy(a, out, memory);
    fill(b, memory, 11);
    spin(b);
    OK(write_word(b, word, 1, flags));
    OK(cuCtxSynchronize());
}

PROGRAM(words, written_with_a_barrier, RIGHT, "a value is written behind a fence")
{
    work_then_word(CU_STREAM_WRITE_VALUE_DEFAULT);
}

PROGRAM(words, written_without_a_barrier, RACE,
        "NO_MEMORY_BARRIER: the write may overtake those before it")
{
    work_then_word(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
}

/* The work ended before the write was given; or only the stream waits for it. */
static void work_elsewhere_then_word(bool ended)
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory(), word = new_memory();

    OK(cuMemsetD32(word, 0, 1));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32(c, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    copy(c, out, memory);
    fill(b, memory, 11);
    if (ended)
        OK(cuStreamSynchronize(b));
    else
        join(b, a);
    OK(write_word(a, word, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
    OK(cuCtxSynchronize());
    if (ended)
        must_hold(out, 11);
}

PROGRAM(words, without_a_barrier_behind_the_host, RIGHT,
        "it overtakes no work that the host has seen the end of")
{
    work_elsewhere_then_word(true);
}

PROGRAM(words, without_a_barrier_behind_an_event, RACE,
        "a wait in its stream is no fence")
{
    work_elsewhere_then_word(false);
}

PROGRAM(words, behind_a_write_without_a_barrier, RIGHT,
        "an event behind it is behind all of the stream")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory(), word = new_memory();

    for (unsigned i = 0; i < 3; i++) {
        fill(b, memory, 11);
        OK(write_word(b, word, i, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
        join(b, a);
        copy(a, out, memory);
        join(a, b);
    }
    must_hold(out, 11);
}

PROGRAM(words, seen_without_a_barrier, RIGHT, "who sees it is behind the write itself")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr word = new_memory();

    OK(cuMemsetD32(word, 0, 1));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32(a, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuMemsetD32Async(word, 7, 1, a));
    OK(write_word(b, word, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
    OK(cuCtxSynchronize());
}

/* ---- allocations ------------------------------------------------------------------- */

static void device_memory(void)
{
    new_memory();
}

static void page_locked_memory(void)
{
    new_pinned();
}

/* An allocation between work of two streams. */
static void allocate_between(CUstream a, CUstream b, void (*allocate)(void))
{
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 17);
    allocate();
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(allocations, order_nothing, RACE, "an allocation orders nothing")
{
    allocate_between(blocking_stream(), blocking_stream(), device_memory);
}

PROGRAM_WITH(allocations, stand_between, RIGHT,
             "where an allocation stands between streams, it orders their work",
             "CUDASIM_ALLOC_WAITS=context")
{
    allocate_between(blocking_stream(), new_stream(), device_memory);
}

PROGRAM_WITH(allocations, of_pinned_memory_stand_between, RIGHT,
             "and so does one of page-locked memory", "CUDASIM_ALLOC_WAITS=context")
{
    allocate_between(new_stream(), new_stream(), page_locked_memory);
}

PROGRAM_WITH(allocations, before_both, RACE, "not work that both comes behind it",
             "CUDASIM_ALLOC_WAITS=context")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 17);
    copy(b, out, memory);
    device_memory();
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(allocations, wait_for_nothing_themselves, RIGHT,
             "the order is one on the device: the call returns",
             "CUDASIM_ALLOC_WAITS=context")
{
    uint32_t *flag = new_pinned();

    *flag = 0;
    wait_for(new_stream(), flag);
    device_memory();
    page_locked_memory();
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    OK(cuCtxSynchronize());
}
