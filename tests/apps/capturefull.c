/*
 * capturefull.c - frees most of a full device while a stream captures, and takes as much
 * again.   capturefull [BYTES [thread | held]]
 *
 * The blocks (of 1,000,000 bytes) are those of before the capture, and a kernel that is
 * still running has written them. `thread`: another thread frees and allocates. `held`:
 * work that waits for the allocations is submitted between the two. Proves
 * that memory freed during a capture serves the next allocation, as natively, and that
 * the capture stays valid.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

#define MOST ((size_t)40 << 20)

static gpu_ptr blocks[1024];
static CUstream other;
static size_t bytes = 1000000, count;
static unsigned refused;
static bool held;
static volatile int allocated; /* atomic */

static void CUDA_CB await_allocations(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&allocated, __ATOMIC_ACQUIRE))
        usleep(1000);
}

static void *replace_all(void *unused)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    (void)unused;
    app_gpu_thread();
    APP_OK(cuThreadExchangeStreamCaptureMode(&mode));
    for (size_t i = 0; i < count; i++)
        APP_OK(gpu_free(blocks[i]));
    if (held)
        APP_OK(cuLaunchHostFunc(other, await_allocations, NULL));
    for (size_t i = 0; i < count; i++) {
        blocks[i] = 0;
        refused += gpu_malloc(&blocks[i], bytes) != 0;
    }
    __atomic_store_n(&allocated, 1, __ATOMIC_RELEASE);
    return NULL;
}

int main(int argc, char **argv)
{
    struct app_kernels kernels;
    gpu_stream worker, captured;
    gpu_ptr words;
    gpu_graph graph;
    pthread_t thread;

    if (argc > 1)
        bytes = (size_t)atol(argv[1]);
    count = MOST / bytes;
    app_expect(count <= sizeof(blocks) / sizeof(*blocks), "few enough blocks");
    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&worker));
    APP_OK(gpu_stream_create(&captured));
    APP_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    APP_OK(gpu_malloc(&words, 4096));
    for (size_t i = 0; i < count; i++) {
        APP_OK(gpu_malloc(&blocks[i], bytes));
        app_fill(&kernels, blocks[i], bytes / 4, (uint32_t)i, worker);
    }
    APP_OK(gpu_begin_capture(captured, GPU_CAPTURE_RELAXED));
    app_fill(&kernels, words, 1024, 1, captured);
    held = argc > 2 && strcmp(argv[2], "held") == 0;
    if (argc > 2 && !held) {
        app_expect(!pthread_create(&thread, NULL, replace_all, NULL), "a thread");
        pthread_join(thread, NULL);
    } else {
        replace_all(NULL);
    }
    APP_OK(gpu_end_capture(captured, &graph));
    APP_OK(gpu_graph_destroy(graph));
    printf("capturefull: %u of %zu refused\n", refused, count);
    for (size_t i = 0; i < count; i++)
        APP_OK(gpu_free(blocks[i]));
    APP_OK(cuStreamDestroy(other));
    APP_OK(gpu_free(words));
    APP_OK(gpu_stream_destroy(worker));
    APP_OK(gpu_stream_destroy(captured));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    return 0;
}
