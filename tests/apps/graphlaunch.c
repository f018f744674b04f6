/*
 * graphlaunch.c - launches of a graph alone.   graphlaunch COUNT KIND
 *
 *   plain    a graph without memory, in a process without graph memory
 *   beside   the same, beside another one with memory
 *   inside   a graph that allocates and frees
 *   auto     a graph that allocates, whose next launch frees
 *
 * Proves nothing by itself: an instruction counter gives the cost of one launch.
 */
#include "launch.h"

#define COUNT ((size_t)64)

static struct app_kernels kernels;
static gpu_stream stream;

/* A graph with a kernel, and with memory where that is asked for. */
static gpu_exec make(gpu_ptr block, bool allocates, bool frees)
{
    gpu_ptr memory;
    gpu_graph graph;
    gpu_exec exec;

    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    if (allocates)
        APP_OK(gpu_malloc_async(&memory, COUNT * 4, stream));
    app_fill(&kernels, block, COUNT, 1, stream);
    if (frees)
        APP_OK(gpu_free_async(memory, stream));
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_instantiate_flags(&exec, graph, frees ? 0 : GPU_GRAPH_AUTO_FREE));
    APP_OK(gpu_graph_destroy(graph));
    return exec;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 100;
    const char *kind = argc > 2 ? argv[2] : "plain";
    bool inside = strcmp(kind, "inside") == 0;
    gpu_exec exec, other = NULL;
    gpu_ptr block;

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_malloc(&block, COUNT * 4));
    if (strcmp(kind, "beside") == 0)
        other = make(block, true, true);
    exec = make(block, inside || strcmp(kind, "auto") == 0, inside);
    for (long i = 0; i < count; i++) {
        app_round(i, count);
        APP_OK(gpu_graph_launch(exec, stream));
    }
    app_count_ends();
    APP_OK(gpu_sync());
    APP_OK(gpu_exec_destroy(exec));
    if (other)
        APP_OK(gpu_exec_destroy(other));
    APP_OK(gpu_free(block));
    APP_OK(gpu_stream_destroy(stream));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("graphlaunch: %ld\n", count);
    return 0;
}
