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
PROGRAM(idle, green_context, RIGHT, "a green context's end is not its device's")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();
    CUdevResource resource;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUcontext view;

    OK(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevResourceGenerateDesc(&desc, &resource, 1));
    OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cuCtxFromGreenCtx(&view, green));
    fill(a, memory, 1);
    OK(cuCtxSetCurrent(view));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(world_context()));
    free_and_reuse(memory, b);
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

/* Where a library that is built for it (shim/order/mutants.def) lets a thread stay in a
   call that submits: before or after the driver's part. */
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
