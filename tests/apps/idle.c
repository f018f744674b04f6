/*
 * idle.c - frees of which the number of waits is known.   idle MODE [ROUNDS]
 *
 *   done    each free finds the device idle: the program has synchronized it
 *   busy    each free comes while a kernel runs on a non-blocking stream
 *   legacy  the default stream alone, waited for by a copy to the host
 *   pairs   allocations and frees alone
 *   stream  one stream, synchronized before each free
 *   graph   the same, with the launch of a graph
 *   peer    as done, but another context may access the memory
 *
 * Proves nothing by itself: the simulated driver's log tells how often the device was
 * synchronized.
 */
#include "launch.h"

#include <string.h>

#define COUNT ((size_t)1024)

static struct app_kernels kernels;
static gpu_stream stream;

static void done(gpu_ptr block)
{
    app_fill(&kernels, block, COUNT, 1, stream);
    APP_OK(gpu_sync());
}

static void busy(gpu_ptr block)
{
    app_fill(&kernels, block, COUNT, 1, stream);
}

static void legacy(gpu_ptr block)
{
    static uint32_t words[COUNT];

    app_fill(&kernels, block, COUNT, 1, NULL);
    APP_OK(gpu_get(words, block, COUNT * 4));
}

static void pairs(gpu_ptr block)
{
    (void)block;
}

static void one_stream(gpu_ptr block)
{
    app_fill(&kernels, block, COUNT, 1, stream);
    APP_OK(gpu_stream_sync(stream));
}

static gpu_exec exec;

static void make_graph(void)
{
    static gpu_ptr words;
    gpu_graph graph;

    APP_OK(gpu_malloc(&words, COUNT * 4));
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_GLOBAL));
    app_fill(&kernels, words, COUNT, 1, stream);
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_instantiate(&exec, graph));
    APP_OK(gpu_graph_destroy(graph));
    APP_OK(gpu_free(words));
}

static void graph(gpu_ptr block)
{
    app_fill(&kernels, block, COUNT, 1, stream);
    APP_OK(gpu_graph_launch(exec, stream));
    APP_OK(gpu_stream_sync(stream));
}

#if !APP_RUNTIME
/* Device 1 may access what device 0's context has. */
static void let_peer_in(void)
{
    CUcontext own, other;

    APP_OK(CU(cuCtxGetCurrent)(&own));
    APP_OK(CU(cuDevicePrimaryCtxRetain)(&other, 1));
    APP_OK(CU(cuCtxSetCurrent)(other));
    APP_OK(CU(cuCtxEnablePeerAccess)(own, 0));
    APP_OK(CU(cuCtxSetCurrent)(own));
}
#endif

static const struct mode {
    const char *name;
    void (*work)(gpu_ptr block);
} modes[] = {{"done", done}, {"busy", busy},         {"legacy", legacy}, {"pairs", pairs},
             {"peer", done}, {"stream", one_stream}, {"graph", graph}};

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : "done";
    long rounds = argc > 2 ? atol(argv[2]) : 10;
    const struct mode *mode = NULL;
    gpu_ptr block;

    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        if (strcmp(modes[i].name, wanted) == 0)
            mode = &modes[i];
    }
    if (!mode)
        return 2;
    app_gpu_start();
    app_kernels_load(&kernels);
    if (mode->work != legacy)
        APP_OK(gpu_stream_create(&stream));
    if (mode->work == graph)
        make_graph();
#if !APP_RUNTIME
    if (strcmp(wanted, "peer") == 0)
        let_peer_in();
#endif
    fprintf(stderr, "rounds\n");
    for (long i = 0; i < rounds; i++) {
        APP_OK(gpu_malloc(&block, COUNT * 4));
        mode->work(block);
        APP_OK(gpu_free(block));
    }
    fprintf(stderr, "end of rounds\n");
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("idle: %s, %ld rounds\n", wanted, rounds);
    return 0;
}
