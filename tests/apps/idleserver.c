/*
 * idleserver.c - a server that frees much memory once, and from then on only serves.
 *                idleserver SHAPE FILE [MIB]
 *
 * Takes and frees MIB of device memory (40), as much managed and twice as much pinned
 * memory, then serves requests until FILE is there. A request of each SHAPE:
 *
 *   stream    work in one stream, then a synchronize of it
 *   blocking  the same with a blocking stream
 *   event     the same, waited for by an event
 *   query     the same, queried until it is done
 *   context   the same, then a synchronize of the context
 *   legacy    the same with the default stream
 *   two       work in two streams, then a synchronize of both
 *   late      one stream, created after the last free
 *   graph     the launch of a graph, then a synchronize of its stream
 *   threads   four threads with a stream each
 *   covered   work in one stream, which another stream waits for; a synchronize of that
 *   hot       as late, and the next request follows at once
 *   none      no request at all
 *
 * Says when the memory is free, and how much host memory is left of it at the end.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"

#define MIB     ((size_t)1 << 20)
#define BYTES   ((size_t)4096)
#define BLOCKS  8u
#define THREADS 4

static const char *shape, *stop_file;
static CUdeviceptr words;
static CUstream streams[2];
static CUevent event;
static CUgraphExec exec;

static bool is_shape(const char *name)
{
    return strcmp(shape, name) == 0;
}

static bool is_over(void)
{
    return access(stop_file, F_OK) == 0;
}

static void pause_ms(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

static size_t resident_mib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    app_expect(file && fscanf(file, "%*s %lu", &pages) == 1, "/proc/self/statm");
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE) / MIB;
}

/* Uses and frees memory of each kind, large and small blocks. */
static void take_and_free(size_t bytes)
{
    CUdeviceptr blocks[BLOCKS], small[BLOCKS], managed;
    void *pinned;

    for (unsigned i = 0; i < BLOCKS; i++) {
        APP_OK(cuMemAlloc(&blocks[i], bytes / BLOCKS - MIB / 2));
        APP_OK(cuMemAlloc(&small[i], MIB / 4));
    }
    APP_OK(cuMemHostAlloc(&pinned, 2 * bytes, 0));
    APP_OK(cuMemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL));
    memset(pinned, 1, 2 * bytes);
    memset((void *)(uintptr_t)managed, 1, bytes);
    APP_OK(cuMemcpyHtoDAsync(blocks[0], pinned, BYTES, streams[0]));
    APP_OK(cuStreamSynchronize(streams[0]));
    for (unsigned i = 0; i < BLOCKS; i++) {
        APP_OK(cuMemFree(blocks[i]));
        APP_OK(cuMemFree(small[i]));
    }
    APP_OK(cuMemFree(managed));
    APP_OK(cuMemFreeHost(pinned));
}

static void make_graph(void)
{
    CUgraph graph;

    APP_OK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    APP_OK(cuMemsetD8Async(words, 0, BYTES, streams[0]));
    APP_OK(cuStreamEndCapture(streams[0], &graph));
    APP_OK(cuGraphInstantiate(&exec, graph, 0));
    APP_OK(cuGraphDestroy(graph));
}

static void set(CUdeviceptr memory, CUstream stream)
{
    APP_OK(cuMemsetD8Async(memory, 0, BYTES, stream));
}

static void request(CUstream stream)
{
    CUresult result;

    if (is_shape("graph"))
        APP_OK(cuGraphLaunch(exec, stream));
    else
        set(words, stream);
    if (is_shape("two")) {
        set(words + BYTES, streams[1]);
        APP_OK(cuStreamSynchronize(streams[1]));
    }
    if (is_shape("event") || is_shape("covered"))
        APP_OK(cuEventRecord(event, stream));
    if (is_shape("event")) {
        APP_OK(cuEventSynchronize(event));
    } else if (is_shape("covered")) {
        APP_OK(cuStreamWaitEvent(streams[1], event, 0));
        APP_OK(cuStreamSynchronize(streams[1]));
    } else if (is_shape("query")) {
        while ((result = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
            ;
        APP_OK(result);
    } else if (is_shape("context")) {
        APP_OK(cuCtxSynchronize());
    } else {
        APP_OK(cuStreamSynchronize(stream));
    }
}

static void *serve_in_thread(void *offset)
{
    CUstream stream;

    app_gpu_thread();
    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    while (!is_over()) {
        set(words + BYTES * (uintptr_t)offset, stream);
        APP_OK(cuStreamSynchronize(stream));
        pause_ms(2);
    }
    APP_OK(cuStreamDestroy(stream));
    return NULL;
}

static void serve_in_threads(void)
{
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        app_expect(!pthread_create(&threads[i], NULL, serve_in_thread, (void *)i),
                   "thread");
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void serve(void)
{
    if (is_shape("late") || is_shape("hot")) {
        APP_OK(cuStreamDestroy(streams[0]));
        APP_OK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
    }
    if (is_shape("graph"))
        make_graph();
    if (is_shape("threads"))
        serve_in_threads();
    while (!is_over()) {
        if (!is_shape("none"))
            request(is_shape("legacy") ? NULL : streams[0]);
        if (!is_shape("hot"))
            pause_ms(2);
    }
}

int main(int argc, char **argv)
{
    size_t bytes = (argc > 3 ? (size_t)atol(argv[3]) : 40) * MIB, before, left;

    if (argc < 3)
        return 2;
    shape = argv[1];
    stop_file = argv[2];
    app_gpu_start();
    APP_OK(cuMemAlloc(&words, BYTES * THREADS));
    APP_OK(cuStreamCreate(&streams[0], is_shape("blocking") ? CU_STREAM_DEFAULT
                                                            : CU_STREAM_NON_BLOCKING));
    APP_OK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    APP_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    before = resident_mib();
    take_and_free(bytes);
    printf("freed\n");
    fflush(stdout);
    serve();
    left = resident_mib();
    printf("host memory left: %s\n", left > before + bytes / MIB / 2 ? "much" : "none");
    if (exec)
        APP_OK(cuGraphExecDestroy(exec));
    APP_OK(cuMemFree(words));
    APP_OK(cuEventDestroy(event));
    APP_OK(cuStreamDestroy(streams[0]));
    APP_OK(cuStreamDestroy(streams[1]));
    app_gpu_stop();
    return 0;
}
