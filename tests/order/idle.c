/*
 * idle.c - frees after which a layer must have waited, and frees that may wait for
 * nothing, because the context is known to be idle: natively all of them wait.
 *
 * Each program is right. A layer that leaves out a wait wrongly makes it wrong.
 * Source: Driver API, "API synchronization behavior", "Stream synchronization behavior",
 * cuCtxSynchronize; docs/free.md.
 */
#include <time.h>

#include "order.h"

static void pause_a_little(void)
{
    const struct timespec time = {0, 1000000};

    nanosleep(&time, NULL);
}

/* Give the memory to another owner, in another stream: whoever used it last has ended. */
static void free_and_reuse(CUdeviceptr memory, CUstream next)
{
    CUdeviceptr reused;

    OK(cuMemFree(memory));
    reused = new_memory();
    must(reused == memory || memory == 0 || free_is_lazy(),
         "the address is used again at once");
    fill(next, reused, 2);
    must_hold(reused, 2);
}

/* ---- the skip is right ------------------------------------------------------------- */

PROGRAM(idle, synchronized, RIGHT, "nothing runs behind a synchronize")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();

    fill(a, memory, 1);
    OK(cuCtxSynchronize());
    free_and_reuse(memory, b);
}

PROGRAM(idle, freed_twice, RIGHT, "nothing runs behind a free either")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory();

    fill(a, memory, 1);
    OK(cuMemFree(other));
    free_and_reuse(memory, b);
}

PROGRAM(idle, copied_to_the_host, RIGHT, "a copy to the host is behind all of its stream")
{
    CUdeviceptr memory = new_memory();
    uint32_t words[WORDS];

    fill(NULL, memory, 1);
    OK(cuMemcpyDtoH(words, memory, BYTES));
    free_and_reuse(memory, new_stream());
}

PROGRAM(idle, synchronized_legacy, RIGHT, "the only stream is synchronized")
{
    CUdeviceptr memory = new_memory();

    fill(NULL, memory, 1);
    OK(cuStreamSynchronize(NULL));
    free_and_reuse(memory, new_stream());
}

PROGRAM(idle, synchronized_by_name, RIGHT, "and so by its other handle")
{
    CUdeviceptr memory = new_memory();

    fill(CU_STREAM_LEGACY, memory, 1);
    OK(cuStreamSynchronize(CU_STREAM_LEGACY));
    free_and_reuse(memory, new_stream());
}

/* ---- streams that are synchronized alone ------------------------------------------- */

/* Work of one call that counts: fill() looks its kernel up. */
static void set_words(CUstream stream, CUdeviceptr memory)
{
    OK(cuMemsetD32Async(memory, 1, WORDS, stream));
}

/* The stream is synchronized, and then the context: from now on a synchronize of the
   stream may prove that everything is complete. */
static void watch_stream(CUstream stream)
{
    set_words(stream, new_memory());
    OK(cuStreamSynchronize(stream));
    OK(cuCtxSynchronize());
}

PROGRAM(idle, stream_synchronized, RIGHT, "the one stream in use is synchronized")
{
    CUstream a = new_stream(), b = new_stream();

    watch_stream(a);
    for (unsigned i = 0; i < 3; i++) {
        CUdeviceptr memory = new_memory();
        set_words(a, memory);
        OK(cuStreamSynchronize(a));
        free_and_reuse(memory, b);
    }
}

PROGRAM(idle, two_streams_synchronized, RIGHT, "and so with each of two")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory();

    watch_stream(a);
    watch_stream(b);
    set_words(a, memory);
    set_words(b, other);
    OK(cuStreamSynchronize(b));
    OK(cuStreamSynchronize(a));
    free_and_reuse(memory, c);
}

PROGRAM(idle, one_stream_of_two_synchronized, RIGHT, "the other stream still runs")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory();

    watch_stream(a);
    watch_stream(b);
    set_words(a, memory);
    set_words(b, other);
    OK(cuStreamSynchronize(b));
    free_and_reuse(memory, c);
}

PROGRAM(idle, stream_synchronized_then_used, RIGHT, "work behind the synchronize")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory();

    watch_stream(a);
    set_words(a, other);
    OK(cuStreamSynchronize(a));
    set_words(a, memory);
    free_and_reuse(memory, b);
}

PROGRAM(idle, stream_handle_used_again, RIGHT,
        "a new stream's end is not that of the one whose handle it has")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory();

    watch_stream(a);
    set_words(a, memory);
    OK(cuStreamDestroy(a));
    a = new_stream();
    set_words(a, other);
    OK(cuStreamSynchronize(a));
    free_and_reuse(memory, b);
}

/* A thread keeps the calls of six streams apart. */
PROGRAM(idle, more_streams_than_rows, RIGHT, "so many streams that some are forgotten")
{
    enum { ROWS = 6 };
    CUstream watched = new_stream(), others[ROWS], next = new_stream();
    CUdeviceptr memory = new_memory();

    watch_stream(watched);
    for (unsigned i = 0; i < ROWS; i++) {
        others[i] = new_stream();
        set_words(others[i], new_memory());
    }
    watch_stream(others[ROWS - 1]);
    set_words(others[0], memory);
    set_words(others[2], new_memory());
    set_words(watched, new_memory());
    OK(cuStreamSynchronize(watched));
    free_and_reuse(memory, next);
}

PROGRAM(idle, overlapping_launch_waited_for, RIGHT,
        "a synchronize waits for a kernel that overlaps the one in front of it, too")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory();

    watch_stream(a);
    OK(cuStreamSynchronize(NULL)); /* watched, too: fill looks its kernel up */
    watch_stream(a);
    fill(a, other, 1);
    overlapping_fill(a, memory, 1);
    OK(cuStreamSynchronize(a));
    OK(cuStreamSynchronize(NULL));
    free_and_reuse(memory, b);
}

PROGRAM(idle, graph_waited_for, RIGHT, "and for a graph")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();
    CUgraph graph;
    CUgraphExec exec;

    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    set_words(a, memory);
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    watch_stream(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuStreamSynchronize(a));
    free_and_reuse(memory, b);
}

PROGRAM(idle, graph_in_another_stream, RIGHT, "a graph in another stream still runs")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();
    CUgraph graph;
    CUgraphExec exec;

    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    set_words(a, memory);
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    watch_stream(a);
    watch_stream(b);
    OK(cuGraphLaunch(exec, a));
    OK(cuStreamSynchronize(b));
    free_and_reuse(memory, b);
}

/* Managed memory, moved to the device: no kernel, set or copy that uses it. */
static void prefetch(CUstream stream, CUdeviceptr memory)
{
    CUdevice device;

    OK(cuCtxGetDevice(&device));
#if CUDA_VERSION >= 13000
    const CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    OK(cuMemPrefetchAsync(memory, BYTES, place, 0, stream));
#else
    OK(cuMemPrefetchAsync(memory, BYTES, device, stream));
#endif
}

PROGRAM(idle, prefetch_in_another_stream, RIGHT,
        "a prefetch in another stream still runs")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory(), managed;

    OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    watch_stream(a);
    watch_stream(b);
    prefetch(a, managed);
    set_words(b, other);
    OK(cuStreamSynchronize(b));
    OK(cuMemFree(memory));
    must(free_is_lazy() || cuStreamQuery(a) == CUDA_SUCCESS, "the free waited for it");
}

PROGRAM_WITH(idle, peer_copy_in_another_stream, RIGHT,
             "a copy to another device in another stream still reads",
             "CUDASIM_DEVICES=2")
{
    CUstream a = new_stream(), b = new_stream(), next = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory(), far;
    CUcontext there;

    OK(cuDevicePrimaryCtxRetain(&there, 1));
    OK(cuCtxPushCurrent(there));
    far = new_memory();
    OK(cuCtxPopCurrent(&there));
    watch_stream(a);
    watch_stream(b);
    OK(cuMemcpyPeerAsync(far, there, memory, world_context(), BYTES, a));
    set_words(b, other);
    OK(cuStreamSynchronize(b));
    free_and_reuse(memory, next);
}

/* ---- the wait is needed: work behind the wait -------------------------------------- */

PROGRAM(idle, launched_behind_a_wait, RIGHT, "a kernel after the synchronize")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();

    OK(cuCtxSynchronize());
    fill(a, memory, 1);
    free_and_reuse(memory, b);
}

PROGRAM(idle, set_behind_a_wait, RIGHT, "a set after it")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();

    OK(cuCtxSynchronize());
    OK(cuMemsetD32Async(memory, 1, WORDS, a));
    free_and_reuse(memory, b);
}

PROGRAM(idle, copied_behind_a_wait, RIGHT, "a copy after it")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();
    uint32_t *words = new_pinned();

    OK(cuCtxSynchronize());
    OK(cuMemcpyHtoDAsync(memory, words, BYTES, a));
    free_and_reuse(memory, b);
}

PROGRAM(idle, graph_behind_a_wait, RIGHT, "a graph launched after it")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();
    CUgraph graph;
    CUgraphExec exec;

    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    fill(a, memory, 1);
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuCtxSynchronize());
    OK(cuGraphLaunch(exec, a));
    free_and_reuse(memory, b);
}

static void CUDA_CB raise_flag(void *flag)
{
    pause_a_little();
    __atomic_store_n((int *)flag, 1, __ATOMIC_RELEASE);
}

PROGRAM(idle, host_function_behind_a_wait, RIGHT, "a host function has returned, too")
{
    CUstream a = new_stream();
    CUdeviceptr other = new_memory();
    int flag = 0;

    OK(cuCtxSynchronize());
    OK(cuLaunchHostFunc(a, raise_flag, &flag));
    OK(cuMemFree(other));
    must(__atomic_load_n(&flag, __ATOMIC_ACQUIRE) == 1, "the free waited for it");
}

static void CUDA_CB raise_flag_too(CUstream stream, CUresult status, void *flag)
{
    (void)stream, (void)status;
    raise_flag(flag);
}

PROGRAM(idle, callback_behind_a_wait, RIGHT, "a callback has, too")
{
    CUstream a = new_stream();
    CUdeviceptr other = new_memory();
    int flag = 0;

    OK(cuCtxSynchronize());
    OK(cuStreamAddCallback(a, raise_flag_too, &flag, 0));
    OK(cuMemFree(other));
    must(__atomic_load_n(&flag, __ATOMIC_ACQUIRE) == 1, "the free waited for it");
}

PROGRAM(idle, event_behind_a_wait, RIGHT, "an event recorded before the free is complete")
{
    CUstream a = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), other = new_memory();

    fill(a, memory, 1);
    OK(cuCtxSynchronize());
    OK(cuEventRecord(event, a));
    OK(cuMemFree(other));
    OK(cuEventQuery(event));
}

PROGRAM(idle, word_behind_a_wait, RIGHT, "a word that the stream writes is written")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr word = new_memory();

    OK(cuCtxSynchronize());
    OK(cuStreamWriteValue32(a, word, 7, 0));
    free_and_reuse(word, b);
}

PROGRAM(idle, leaned_on, RIGHT, "a program that reads its results after a free")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory();
    uint32_t *words = new_pinned();

    OK(cuCtxSynchronize());
    fill(a, memory, 1);
    OK(cuMemcpyDtoHAsync(words, memory, BYTES, a));
    OK(cuMemFree(other));
    NOTE(.kind = CUDASIM_HOST_READS, .address = (uintptr_t)words, .bytes = BYTES);
}

/* ---- the wait is needed: what was waited for was not everything -------------------- */

PROGRAM(idle, copied_beside_a_stream, RIGHT,
        "a copy to the host is not behind a non-blocking stream")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory();
    uint32_t words[WORDS];

    fill(a, memory, 1);
    OK(cuMemsetD32(other, 1, WORDS));
    OK(cuMemcpyDtoH(words, other, BYTES));
    free_and_reuse(memory, b);
}

PROGRAM(idle, copied_then_a_stream, RIGHT, "a stream comes into use after such a copy")
{
    CUdeviceptr memory = new_memory();
    uint32_t words[WORDS];

    fill(NULL, memory, 1);
    OK(cuMemcpyDtoH(words, memory, BYTES));
    CUstream a = new_stream();
    fill(a, memory, 3);
    OK(cuMemcpyDtoH(words, memory + BYTES / 2, 0));
    free_and_reuse(memory, new_stream());
}

PROGRAM(idle, copied_nothing, RIGHT, "a copy of no bytes waits for nothing")
{
    CUdeviceptr memory = new_memory();
    uint32_t word;

    fill(NULL, memory, 1);
    OK(cuMemcpyDtoH(&word, memory, 0));
    free_and_reuse(memory, new_stream());
}

PROGRAM(idle, set_behind_a_copy, RIGHT, "work after the copy to the host")
{
    CUdeviceptr memory = new_memory();
    uint32_t words[WORDS];

    fill(NULL, memory, 1);
    OK(cuMemcpyDtoH(words, memory, BYTES));
    OK(cuMemsetD32Async(memory, 3, WORDS, NULL));
    free_and_reuse(memory, new_stream());
}

PROGRAM(idle, copied_within_the_device, RIGHT,
        "a copy within the device may be on its way yet")
{
    CUdeviceptr memory = new_memory(), other = new_memory();

    fill(NULL, memory, 1);
    OK(cuMemcpyDtoD(other, memory, BYTES));
    free_and_reuse(memory, new_stream());
}

PROGRAM(idle, synchronized_beside_a_stream, RIGHT,
        "the legacy stream's end is not a non-blocking stream's")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();

    fill(a, memory, 1);
    OK(cuStreamSynchronize(NULL));
    free_and_reuse(memory, b);
}

static void fill_per_thread(void *memory)
{
    fill(CU_STREAM_PER_THREAD, *(CUdeviceptr *)memory, 1);
}

PROGRAM(idle, copied_then_per_thread, RIGHT, "another thread's default stream")
{
    CUdeviceptr memory = new_memory(), other = new_memory();
    uint32_t words[WORDS];

    fill(NULL, other, 1);
    OK(cuMemcpyDtoH(words, other, BYTES));
    join_worker(start_worker(fill_per_thread, &memory));
    free_and_reuse(memory, new_stream());
}

#if CUDA_VERSION >= 12040
static CUcontext new_green(void)
{
    CUdevResource resource;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUcontext view;

    OK(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevResourceGenerateDesc(&desc, &resource, 1));
    OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cuCtxFromGreenCtx(&view, green));
    return view;
}

PROGRAM(idle, green_context, RIGHT, "a green context's end is not its device's")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();
    CUcontext view = new_green();

    fill(a, memory, 1);
    OK(cuCtxSetCurrent(view));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(world_context()));
    free_and_reuse(memory, b);
}

PROGRAM(idle, green_default_stream, RIGHT,
        "nor is the primary context's default stream a green context's")
{
    CUdeviceptr memory = new_memory();
    CUcontext view = new_green();

    OK(cuCtxSetCurrent(view));
    OK(cuMemsetD32Async(memory, 1, WORDS, NULL));
    OK(cuCtxSetCurrent(world_context()));
    OK(cuStreamSynchronize(NULL));
    free_and_reuse(memory, new_stream());
}

/* The memory of a green context is the primary context's: freed memory of the one serves
   the other, after all work of both. */
PROGRAM(idle, green_memory, RIGHT,
        "a free in a green context waits for the primary one's")
{
    CUstream a = new_stream();
    CUcontext view = new_green();
    CUdeviceptr memory, reused;

    OK(cuCtxSetCurrent(view));
    memory = new_memory();
    fill(a, memory, 1);
    OK(cuMemFree(memory));
    reused = new_memory();
    must(reused == memory || memory == 0 || free_is_lazy(), "the address is used again");
    fill(NULL, reused, 2);
    OK(cuMemFree(reused));
    OK(cuCtxSetCurrent(world_context()));
    memory = new_memory();
    must(memory == reused || reused == 0 || free_is_lazy(), "and in the primary context");
    fill(a, memory, 3);
    must_hold(memory, 3);
}
#endif

PROGRAM(idle, refused_during_a_capture, RIGHT,
        "a synchronize that a capture refuses has waited for nothing")
{
    CUstream a = new_stream(), b = new_stream(), captured = new_stream();
    CUdeviceptr memory = new_memory();
    CUgraph graph;

    fill(a, memory, 1);
    OK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    must(cuCtxSynchronize() != CUDA_SUCCESS, "it is refused");
    must(cuStreamEndCapture(captured, &graph) != CUDA_SUCCESS, "the capture is lost");
    free_and_reuse(memory, b);
}

/* ---- the wait is needed: several threads ------------------------------------------- */

struct shared {
    CUstream a, b;
    CUdeviceptr memory;
    uint32_t *flag;
    int entered; /* atomic */
    CUgraphExec exec;
};

static void synchronize_stream(void *argument)
{
    struct shared *shared = argument;

    __atomic_store_n(&shared->entered, 1, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(shared->b));
}

static void synchronize(void *argument)
{
    struct shared *shared = argument;

    __atomic_store_n(&shared->entered, 1, __ATOMIC_RELEASE);
    OK(cuCtxSynchronize());
}

PROGRAM(idle, given_during_a_wait, RIGHT,
        "another thread's synchronize was entered before the work was given")
{
    struct shared shared = {new_stream(), new_stream(), new_memory(), new_pinned(), 0,
                            NULL};

    *shared.flag = 0;
    wait_for(shared.b, shared.flag);
    struct worker *worker = start_worker(synchronize, &shared);
    while (!__atomic_load_n(&shared.entered, __ATOMIC_ACQUIRE))
        pause_a_little();
    pause_a_little();
    fill(shared.a, shared.memory, 1);
    __atomic_store_n(shared.flag, 1, __ATOMIC_RELEASE);
    join_worker(worker);
    free_and_reuse(shared.memory, shared.b);
}

PROGRAM(idle, given_during_a_stream_wait, RIGHT,
        "and so with a synchronize of the stream that it was given to")
{
    struct shared shared = {NULL, new_stream(), new_memory(), new_pinned(), 0, NULL};
    CUstream next = new_stream();

    watch_stream(shared.b);
    OK(cuStreamSynchronize(NULL)); /* watched, too: wait_for looks its kernel up */
    watch_stream(shared.b);
    *shared.flag = 0;
    wait_for(shared.b, shared.flag);
    OK(cuStreamSynchronize(NULL));
    struct worker *worker = start_worker(synchronize_stream, &shared);
    while (!__atomic_load_n(&shared.entered, __ATOMIC_ACQUIRE))
        pause_a_little();
    pause_a_little();
    set_words(shared.b, shared.memory);
    __atomic_store_n(shared.flag, 1, __ATOMIC_RELEASE);
    join_worker(worker);
    free_and_reuse(shared.memory, next);
}

/* One thread's default stream, and the other's. */
struct two_threads {
    CUdeviceptr memory;
    int given, seen; /* atomic */
};

static void set_per_thread(void *argument)
{
    struct two_threads *both = argument;

    set_words(CU_STREAM_PER_THREAD, both->memory);
    __atomic_store_n(&both->given, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&both->seen, __ATOMIC_ACQUIRE))
        pause_a_little();
}

PROGRAM(idle, per_thread_streams_of_two_threads, RIGHT,
        "the end of this thread's default stream is not that of another thread's")
{
    struct two_threads both = {new_memory(), 0, 0};
    CUdeviceptr other = new_memory();

    watch_stream(CU_STREAM_PER_THREAD);
    struct worker *worker = start_worker(set_per_thread, &both);
    while (!__atomic_load_n(&both.given, __ATOMIC_ACQUIRE))
        pause_a_little();
    set_words(CU_STREAM_PER_THREAD, other);
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    free_and_reuse(both.memory, new_stream());
    __atomic_store_n(&both.seen, 1, __ATOMIC_RELEASE);
    join_worker(worker);
}

/* Where a library that is built for it (tests/order/broken/mutants.h) lets a thread stay
   in a call that submits: before or after the driver's part. */
static struct {
    int wanted; /* atomic: 1: before, 2: after */
    int there;  /* atomic */
    int go_on;  /* atomic */
} linger;

GS_EXPORT void gs_order_linger(bool after);
GS_EXPORT void gs_order_linger(bool after)
{
    int wanted = after ? 2 : 1;

    if (!__atomic_compare_exchange_n(&linger.wanted, &wanted, 0, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return;
    __atomic_store_n(&linger.there, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&linger.go_on, __ATOMIC_ACQUIRE))
        pause_a_little();
}

/* Until a thread stays there, or for a while: most libraries let none. */
static void wait_until_there(void)
{
    for (unsigned i = 0; i < 20 && !__atomic_load_n(&linger.there, __ATOMIC_ACQUIRE); i++)
        pause_a_little();
}

static void launch(void *argument)
{
    struct shared *shared = argument;

    fill(shared->a, shared->memory, 1);
}

static void set(void *argument)
{
    struct shared *shared = argument;

    OK(cuMemsetD32Async(shared->memory, 1, WORDS, shared->a));
}

PROGRAM(idle, launched_during_a_wait, RIGHT, "a launch and a synchronize side by side")
{
    struct shared shared = {new_stream(), new_stream(), new_memory(), NULL, 0, NULL};

    linger.wanted = 1;
    struct worker *worker = start_worker(set, &shared);
    wait_until_there();
    OK(cuCtxSynchronize());
    __atomic_store_n(&linger.go_on, 1, __ATOMIC_RELEASE);
    join_worker(worker);
    free_and_reuse(shared.memory, shared.b);
}

static void launch_graph(void *argument)
{
    struct shared *shared = argument;

    OK(cuGraphLaunch(shared->exec, shared->a));
}

PROGRAM(
    idle, seen_before_its_launch_returned, RIGHT,
    "work whose beginning was seen is waited for, whether its call has returned or not")
{
    struct shared shared = {new_stream(), new_stream(), new_memory(), new_pinned(), 0,
                            NULL};
    CUgraph graph;

    *shared.flag = 0;
    OK(cuStreamBeginCapture(shared.a, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamWriteValue32(shared.a, (CUdeviceptr)(uintptr_t)shared.flag, 1, 0));
    fill(shared.a, shared.memory, 1);
    OK(cuStreamEndCapture(shared.a, &graph));
    OK(cuGraphInstantiate(&shared.exec, graph, 0));
    OK(cuCtxSynchronize());
    linger.wanted = 2;
    struct worker *worker = start_worker(launch_graph, &shared);
    while (!__atomic_load_n(shared.flag, __ATOMIC_ACQUIRE))
        pause_a_little();
    NOTE(.kind = CUDASIM_HOST_SAW, .address = (uintptr_t)shared.flag, .bytes = 4);
    free_and_reuse(shared.memory, shared.b);
    __atomic_store_n(&linger.go_on, 1, __ATOMIC_RELEASE);
    join_worker(worker);
}

static void give_back(void *argument)
{
    OK(cuMemFree(((struct shared *)argument)->memory));
}

PROGRAM(idle, by_three_threads, RIGHT,
        "one synchronizes, the next launches, the third frees")
{
    struct shared shared = {new_stream(), new_stream(), new_memory(), NULL, 0, NULL};

    fill(shared.a, shared.memory, 3);
    join_worker(start_worker(synchronize, &shared));
    join_worker(start_worker(launch, &shared));
    join_worker(start_worker(give_back, &shared));
    CUdeviceptr reused = new_memory();
    fill(shared.b, reused, 2);
    must_hold(reused, 2);
}

PROGRAM(idle, launched_while_freed, RIGHT,
        "frees of one thread beside launches of another")
{
    struct shared shared = {new_stream(), new_stream(), 0, NULL, 0, NULL};

    for (unsigned i = 0; i < 8; i++) {
        CUdeviceptr other = new_memory();
        shared.memory = new_memory();
        struct worker *worker = start_worker(launch, &shared);
        OK(cuMemFree(other));
        join_worker(worker);
        OK(cuMemFree(shared.memory));
        CUdeviceptr reused[2] = {new_memory(), new_memory()};
        fill(shared.b, reused[0], 2);
        fill(shared.b, reused[1], 2);
        must_hold(reused[0], 2);
        must_hold(reused[1], 2);
        OK(cuMemFree(reused[0]));
        OK(cuMemFree(reused[1]));
    }
}
