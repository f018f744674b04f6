/*
 * past.c - gives the device work past the library, then frees memory.
 *                                                       past LIBRARY WORK MEMORY [ROUNDS]
 *
 *   LIBRARY  past_part.so, which finds the driver's functions in its symbol table
 *   WORK     known    kernels in a stream that the program created
 *            legacy   kernels in the default stream
 *            own      kernels in a stream that the part created
 *            counted  kernels launched as programs do, in the known stream
 *            none     nothing runs
 *   MEMORY   device, pinned or managed, freed while a kernel runs; or captured: device
 *            memory, while another stream captures
 *
 * Proves nothing by itself. The kernels touch no memory, so that the program is right
 * with any library in front.
 */
#include "launch.h"

#include <dlfcn.h>
#include <string.h>

#define SPIN_NS 150000000u /* longer than a busy machine takes from launch to free */

typedef CUresult past_launch_fn(CUfunction function, uint64_t nanoseconds,
                                CUstream stream);
typedef CUresult past_stream_fn(CUstream *out);

static struct app_kernels kernels;
static past_launch_fn *past_launch;
static gpu_stream known;
static CUstream own;

static void open_part(const char *path)
{
    void *part = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!part)
        app_fail("dlopen", dlerror());
    past_launch = (past_launch_fn *)dlsym(part, "past_launch");
    past_stream_fn *make = (past_stream_fn *)dlsym(part, "past_stream");
    if (!past_launch || !make)
        app_fail("dlsym", dlerror());
    APP_OK(make(&own));
}

static void work(const char *what)
{
    if (strcmp(what, "known") == 0)
        APP_OK(past_launch(kernels.spin, SPIN_NS, (CUstream)known));
    else if (strcmp(what, "legacy") == 0)
        APP_OK(past_launch(kernels.spin, SPIN_NS, NULL));
    else if (strcmp(what, "own") == 0)
        APP_OK(past_launch(kernels.spin, SPIN_NS, own));
    else if (strcmp(what, "counted") == 0)
        app_spin(&kernels, SPIN_NS, known);
}

APP_FRAME static void free_device(const char *what)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, 4096));
    APP_OK(gpu_sync());
    work(what);
    APP_OK(gpu_free(block));
}

APP_FRAME static void free_pinned(const char *what)
{
    void *block;

    APP_OK(gpu_malloc_host(&block, 4096));
    APP_OK(gpu_sync());
    work(what);
    APP_OK(gpu_free_host(block));
}

APP_FRAME static void free_managed(const char *what)
{
    gpu_ptr block;

    APP_OK(gpu_malloc_managed(&block, 4096));
    APP_OK(gpu_sync());
    work(what);
    APP_OK(gpu_free(block));
}

APP_FRAME static void free_captured(const char *what)
{
    gpu_stream captured;
    gpu_graph graph;
    gpu_ptr block;

    APP_OK(gpu_stream_create(&captured));
    APP_OK(gpu_malloc(&block, 4096));
    APP_OK(gpu_sync());
    work(what);
    APP_OK(gpu_begin_capture(captured, GPU_CAPTURE_RELAXED));
    APP_OK(gpu_free(block));
    APP_OK(gpu_end_capture(captured, &graph));
    APP_OK(gpu_graph_destroy(graph));
    APP_OK(gpu_stream_destroy(captured));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const char *what);
    } memories[] = {{"device", free_device},
                    {"pinned", free_pinned},
                    {"managed", free_managed},
                    {"captured", free_captured}};
    long rounds = argc > 4 ? atol(argv[4]) : 2;

    if (argc < 4)
        return 2;
    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&known));
    open_part(argv[1]);
    for (size_t i = 0; i < APP_COUNT(memories); i++) {
        for (long round = 0; strcmp(argv[3], memories[i].name) == 0 && round < rounds;
             round++)
            memories[i].run(argv[2]);
    }
    APP_OK(gpu_sync());
    APP_OK(gpu_stream_destroy(known));
    app_kernels_unload(&kernels);
    printf("past: %s, %s, %ld rounds\n", argv[2], argv[3], rounds);
    return 0;
}
