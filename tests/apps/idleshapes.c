/*
 * idleshapes.c - shapes of programs that allocate and free in a loop: how many of their
 * frees find the GPU idle?   idleshapes SHAPE [ROUNDS]
 *
 *   cublaslt    the default stream, launches with attributes, then a synchronize of it
 *   triton      launches with attributes in one stream, then a synchronize of it
 *   stream      one stream, then a synchronize of it
 *   events      two streams that wait for each other by events, both synchronized
 *   torch       two streams, results read by a copy and a synchronize of the copy's
 *   graph       a graph launched in one stream, then a synchronize of it
 *   prefetch    managed memory prefetched in one stream, then a synchronize of it
 *   peer        a copy to another GPU in one stream, then a synchronize of it
 *   gpus        a thread for each GPU, each with a stream of its own
 *   peers       work on both GPUs, each with access to the other's memory
 *   per-thread  two threads in turn, each with its own default stream
 *   six         six streams, each with work, all synchronized
 *   new-stream  a stream created, used, synchronized and destroyed in each round
 *   event-sync  one stream, then a synchronize of an event behind its work
 *   new-graph   a graph instantiated, launched in one stream and destroyed in each round
 *   last-known  as triton, with the last attribute that the library knows
 *   unknown     as triton, with one that no version of CUDA has: anything may come of it
 *
 * Each frees once in a round, behind the synchronize. Proves nothing by itself: the
 * library's report has the share, the simulated driver's log has the waits.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "kernels_ptx.h"

#define BYTES ((size_t)4096)

static CUcontext contexts[2];
static CUstream streams[2];
static CUdeviceptr words;     /* lives as long as the program */
static CUdeviceptr elsewhere; /* on the other GPU */
static CUfunction fill;
static CUgraphExec exec;
static CUevent event;

static void set(CUdeviceptr memory, CUstream stream)
{
    APP_OK(cuMemsetD32Async(memory, 1, BYTES / 4, stream));
}

static CUresult launch_with(int id, CUdeviceptr memory, CUstream stream)
{
    uint64_t count = BYTES / 4, seed = 1;
    CUlaunchAttribute attribute = {.id = (CUlaunchAttributeID)id};
    CUlaunchConfig config = {1, 1, 1, 128, 1, 1, 0, stream, &attribute, 1};

    return cuLaunchKernelEx(&config, fill, (void *[]){&memory, &count, &seed}, NULL);
}

static void launch(CUdeviceptr memory, CUstream stream)
{
    APP_OK(launch_with(CU_LAUNCH_ATTRIBUTE_PRIORITY, memory, stream));
}

static void cublaslt(CUdeviceptr block)
{
    launch(block, NULL);
    APP_OK(cuStreamSynchronize(NULL));
}

static void triton(CUdeviceptr block)
{
    launch(block, streams[0]);
    APP_OK(cuStreamSynchronize(streams[0]));
}

/* LAST_ATTRIBUTE of shim/entries/entry_submit.c. */
enum { LAST_KNOWN = 16 };

static void last_known(CUdeviceptr block)
{
    APP_OK(launch_with(LAST_KNOWN, block, streams[0]));
    APP_OK(cuStreamSynchronize(streams[0]));
}

static void unknown(CUdeviceptr block)
{
    /* Whether the driver of today refuses it, or one of tomorrow knows it. */
    (void)launch_with(LAST_KNOWN + 1, block, streams[0]);
    APP_OK(cuStreamSynchronize(streams[0]));
}

static void one_stream(CUdeviceptr block)
{
    set(block, streams[0]);
    APP_OK(cuStreamSynchronize(streams[0]));
}

static void events(CUdeviceptr block)
{
    set(block, streams[0]);
    APP_OK(cuEventRecord(event, streams[0]));
    APP_OK(cuStreamWaitEvent(streams[1], event, 0));
    set(words, streams[1]);
    APP_OK(cuStreamSynchronize(streams[0]));
    APP_OK(cuStreamSynchronize(streams[1]));
}

static void torch(CUdeviceptr block)
{
    static uint32_t host[BYTES / 4];

    APP_OK(cuMemcpyHtoDAsync(words, host, BYTES, streams[1]));
    APP_OK(cuStreamSynchronize(streams[1]));
    set(block, NULL);
    APP_OK(cuMemcpyDtoHAsync(host, block, BYTES, NULL));
    APP_OK(cuStreamSynchronize(NULL));
}

static void graph(CUdeviceptr block)
{
    set(block, streams[0]);
    APP_OK(cuGraphLaunch(exec, streams[0]));
    APP_OK(cuStreamSynchronize(streams[0]));
}

static void prefetch(CUdeviceptr block)
{
    static CUdeviceptr managed;

    if (!managed)
        APP_OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    set(block, streams[0]);
#if CUDA_VERSION >= 13000
    CUmemLocation where = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    APP_OK(cuMemPrefetchAsync(managed, BYTES, where, 0, streams[0]));
#else
    APP_OK(cuMemPrefetchAsync(managed, BYTES, 0, streams[0]));
#endif
    APP_OK(cuStreamSynchronize(streams[0]));
}

static void peer(CUdeviceptr block)
{
    set(block, streams[0]);
    APP_OK(
        cuMemcpyPeerAsync(elsewhere, contexts[1], block, contexts[0], BYTES, streams[0]));
    APP_OK(cuStreamSynchronize(streams[0]));
}

static void peers(CUdeviceptr block)
{
    static bool begun;

    set(block, streams[0]);
    APP_OK(cuStreamSynchronize(streams[0]));
    APP_OK(cuCtxSetCurrent(contexts[1]));
    set(elsewhere, streams[1]);
    APP_OK(cuStreamSynchronize(streams[1]));
    if (!begun) /* a free there would wait likewise */
        APP_OK(cuCtxSynchronize());
    begun = true;
    APP_OK(cuCtxSetCurrent(contexts[0]));
}

static void let_peers_in(void)
{
    for (unsigned i = 0; i < 2; i++) {
        APP_OK(cuCtxSetCurrent(contexts[1 - i]));
        APP_OK(cuCtxEnablePeerAccess(contexts[i], 0));
    }
}

static void per_thread(CUdeviceptr block)
{
    set(block, CU_STREAM_PER_THREAD);
    APP_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

static void six(CUdeviceptr block)
{
    static CUstream more[6];

    for (unsigned i = 0; i < 6; i++) {
        if (!more[i])
            APP_OK(cuStreamCreate(&more[i], CU_STREAM_NON_BLOCKING));
        set(i ? words : block, more[i]);
    }
    for (unsigned i = 0; i < 6; i++)
        APP_OK(cuStreamSynchronize(more[i]));
}

static void new_stream(CUdeviceptr block)
{
    CUstream stream;

    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    set(block, stream);
    APP_OK(cuStreamSynchronize(stream));
    APP_OK(cuStreamDestroy(stream));
}

static void event_sync(CUdeviceptr block)
{
    set(block, streams[0]);
    APP_OK(cuEventRecord(event, streams[0]));
    APP_OK(cuEventSynchronize(event));
}

static void make_graph(void);

static void new_graph(CUdeviceptr block)
{
    if (exec)
        APP_OK(cuGraphExecDestroy(exec));
    make_graph();
    graph(block);
}

static const struct shape {
    const char *name;
    void (*work)(CUdeviceptr block);
    enum { ONE, EACH_GPU, IN_TURN } threads;
} shapes[] = {{"cublaslt", cublaslt, ONE},
              {"triton", triton, ONE},
              {"stream", one_stream, ONE},
              {"events", events, ONE},
              {"torch", torch, ONE},
              {"graph", graph, ONE},
              {"prefetch", prefetch, ONE},
              {"peer", peer, ONE},
              {"gpus", NULL, EACH_GPU},
              {"peers", peers, ONE},
              {"per-thread", per_thread, IN_TURN},
              {"six", six, ONE},
              {"new-stream", new_stream, ONE},
              {"event-sync", event_sync, ONE},
              {"new-graph", new_graph, ONE},
              {"last-known", last_known, ONE},
              {"unknown", unknown, ONE}};

static const struct shape *shape;
static long rounds = 1000;
static long turn; /* atomic: of two threads, whose it is */

static void one_round(void)
{
    CUdeviceptr block;

    APP_OK(cuMemAlloc(&block, BYTES));
    shape->work(block);
    APP_OK(cuMemFree(block));
}

static void *in_turn(void *which)
{
    APP_OK(cuCtxSetCurrent(contexts[0]));
    for (long i = 0; i < rounds / 2; i++) {
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) % 2 != (long)(intptr_t)which)
            sched_yield();
        one_round();
        __atomic_add_fetch(&turn, 1, __ATOMIC_ACQ_REL);
    }
    return NULL;
}

static void *each_gpu(void *which)
{
    CUdeviceptr block;
    CUstream stream = streams[(intptr_t)which];

    APP_OK(cuCtxSetCurrent(contexts[(intptr_t)which]));
    for (long i = 0; i < rounds / 2; i++) {
        APP_OK(cuMemAlloc(&block, BYTES));
        set(block, stream);
        APP_OK(cuStreamSynchronize(stream));
        APP_OK(cuMemFree(block));
    }
    return NULL;
}

static void two_threads(void *(*run)(void *))
{
    pthread_t threads[2];

    for (intptr_t i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, run, (void *)i) != 0)
            exit(1);
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void make_graph(void)
{
    CUgraph made;

    APP_OK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    set(words, streams[0]);
    APP_OK(cuStreamEndCapture(streams[0], &made));
    APP_OK(cuGraphInstantiate(&exec, made, 0));
    APP_OK(cuGraphDestroy(made));
}

static void start(void)
{
    CUmodule module;

    APP_OK(cuInit(0));
    for (int i = 1; i >= 0; i--) {
        APP_OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
        APP_OK(cuCtxSetCurrent(contexts[i]));
        if (shape->work != cublaslt)
            APP_OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        if (shape->threads != EACH_GPU && i == 1)
            APP_OK(cuMemAlloc(&elsewhere, BYTES));
    }
    if (shape->work == events)
        APP_OK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    APP_OK(cuModuleLoadData(&module, gs_kernels_ptx));
    APP_OK(cuModuleGetFunction(&fill, module, "gs_fill"));
    APP_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    APP_OK(cuMemAlloc(&words, BYTES));
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        if (argc > 1 && strcmp(shapes[i].name, argv[1]) == 0)
            shape = &shapes[i];
    }
    if (!shape)
        return 2;
    if (argc > 2)
        rounds = atol(argv[2]);
    start();
    if (shape->work == graph)
        make_graph();
    if (shape->work == peers)
        let_peers_in();
    fprintf(stderr, "rounds\n");
    if (shape->threads == ONE) {
        for (long i = 0; i < rounds; i++)
            one_round();
    } else {
        two_threads(shape->threads == EACH_GPU ? each_gpu : in_turn);
    }
    fprintf(stderr, "end of rounds\n");
    printf("idleshapes: %s, %ld rounds\n", shape->name, rounds);
    return 0;
}
