/*
 * crowd.c - many threads on a device that is too small for them.
 *
 *   crowd [SEED [THREADS [STEPS [WITH...]]]]      16 threads of 300 steps
 *
 *   WITH  captures   streams capture meanwhile, each in its thread's own mode or relaxed
 *         infos      all threads ask how much is free
 *         contexts   contexts come and go beside the others
 *
 * Each thread allocates, fills, checks and frees blocks of its own, from 512 bytes to
 * 4 MiB, with work of its own stream under way. Refusals are expected: the device is full
 * most of the time. On stderr: how many requests were made and refused, and for how long
 * the slowest took, to be laid beside those of a run without the library.
 */
#include <pthread.h>
#include <time.h>

#include "launch.h"

#define THREADS_MAX 64
#define HELD        12
#define LOG_MIN     9
#define LOG_MAX     22

enum { OUT_OF_MEMORY = 2 };
#define GPU_CAPTURE_THREAD_LOCAL 1 /* the same in both APIs */

enum { CAPTURES = 1, INFOS = 2, CONTEXTS = 4 };

struct held {
    gpu_ptr block;
    size_t bytes;
    uint32_t seed;
};

struct worker {
    pthread_t id;
    uint64_t random;
    gpu_stream stream;
    struct held held[HELD];
    unsigned asked, refused;
    uint64_t slowest_ns;
};

static struct app_kernels kernels;
static struct worker workers[THREADS_MAX];
static int steps = 300;
static unsigned with;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void forget_error(void)
{
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
}

/* The stream is this thread's own: nobody else touches the block or the order. */
static void drop(struct worker *worker, struct held *held)
{
    if (!held->bytes)
        return;
    if (held->bytes >= 4) {
        uint32_t word[2] = {0};
        size_t last = held->bytes / 4 * 4 - 4;

        APP_OK(gpu_get_async(&word[0], held->block, 4, worker->stream));
        APP_OK(gpu_get_async(&word[1], gpu_from_address(gpu_address(held->block) + last),
                             4, worker->stream));
        APP_OK(gpu_stream_sync(worker->stream));
        app_expect(word[0] != 0 || word[1] != 0, "a block lost what was written to it");
        if (app_random(&worker->random) % 8 == 0) /* freed with work on it under way */
            app_fill(&kernels, held->block, held->bytes / 4, held->seed, worker->stream);
    }
    APP_OK(gpu_free(held->block));
    held->bytes = 0;
}

static void take(struct worker *worker, struct held *held)
{
    unsigned log =
        LOG_MIN + (unsigned)(app_random(&worker->random) % (LOG_MAX - LOG_MIN));
    size_t bytes = ((size_t)1 << log) + app_random(&worker->random) % ((size_t)1 << log);
    uint64_t began = now_ns(), took;
    int code = (int)gpu_malloc(&held->block, bytes);

    took = now_ns() - began;
    if (took > worker->slowest_ns)
        worker->slowest_ns = took;
    worker->asked++;
    if (code == OUT_OF_MEMORY) {
        worker->refused++;
        forget_error();
        return;
    }
    app_check(code, "allocate", __FILE__, __LINE__);
    held->bytes = bytes;
    held->seed = (uint32_t)app_random(&worker->random) | 1;
    app_fill(&kernels, held->block, bytes / 4, held->seed, worker->stream);
}

/* A graph of one fill; an allocation or a free of this thread's falls into the capture.
 */
static void capture(struct worker *worker, struct held *held)
{
    bool relaxed = app_random(&worker->random) % 2;
    gpu_graph graph;
    gpu_exec exec;

    if (held->bytes < 4)
        return;
    if (relaxed)
        APP_OK(gpu_begin_capture(worker->stream, GPU_CAPTURE_RELAXED));
    else
        APP_OK(gpu_begin_capture(worker->stream, GPU_CAPTURE_THREAD_LOCAL));
    app_fill(&kernels, held->block, held->bytes / 4, held->seed, worker->stream);
    if (relaxed) {
        struct held another = {0};
        int code = (int)gpu_malloc(&another.block, 4096);

        if (code == OUT_OF_MEMORY)
            forget_error();
        else
            app_check(code, "allocate while capturing", __FILE__, __LINE__);
        if (code == 0)
            APP_OK(gpu_free(another.block));
    }
    APP_OK(gpu_end_capture(worker->stream, &graph));
    APP_OK(gpu_instantiate(&exec, graph));
    APP_OK(gpu_graph_launch(exec, worker->stream));
    APP_OK(gpu_stream_sync(worker->stream));
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(graph));
}

static void come_and_go(void)
{
    CUcontext context;
    CUdeviceptr block;
#if CUDA_VERSION >= 13000
    int code = (int)CU(cuCtxCreate)(&context, NULL, 0, 0);
#else
    int code = (int)CU(cuCtxCreate)(&context, 0, 0);
#endif

    if (code == OUT_OF_MEMORY)
        return;
    app_check(code, "cuCtxCreate", __FILE__, __LINE__);
    if (CU(cuMemAlloc)(&block, 64 * APP_KIB) == CUDA_SUCCESS && workers[0].random % 2)
        APP_OK(CU(cuMemFree)(block));
    APP_OK(CU(cuCtxDestroy)(context));
}

static void *run(void *argument)
{
    struct worker *worker = argument;
    bool first = worker == workers;

    app_gpu_thread();
    APP_OK(gpu_stream_create(&worker->stream));
    for (int step = 0; step < steps; step++) {
        struct held *held = &worker->held[app_random(&worker->random) % HELD];
        unsigned what = (unsigned)(app_random(&worker->random) % 32);
        size_t room, total;

        if (what == 0 && with & CAPTURES)
            capture(worker, held);
        else if (what == 1 && with & INFOS)
            APP_OK(gpu_mem_info(&room, &total));
        else if (what == 2 && with & CONTEXTS && first)
            come_and_go();
        else if (held->bytes)
            drop(worker, held);
        else
            take(worker, held);
    }
    for (int i = 0; i < HELD; i++)
        drop(worker, &worker->held[i]);
    APP_OK(gpu_stream_destroy(worker->stream));
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    int threads = argc > 2 ? atoi(argv[2]) : 16;
    unsigned asked = 0, refused = 0;
    uint64_t slowest_ns = 0, began;

    steps = argc > 3 ? atoi(argv[3]) : steps;
    for (int i = 4; i < argc; i++)
        with |= !strcmp(argv[i], "captures")   ? CAPTURES
                : !strcmp(argv[i], "infos")    ? INFOS
                : !strcmp(argv[i], "contexts") ? CONTEXTS
                                               : 0;
    if (threads < 1 || threads > THREADS_MAX)
        app_fail("crowd", "1 to 64 threads");
    app_gpu_start();
    app_kernels_load(&kernels);
    began = now_ns();
    for (int i = 0; i < threads; i++) {
        workers[i].random = (seed + 1) * 0x9e3779b97f4a7c15u + (uint64_t)i * 2654435761u;
        app_check(pthread_create(&workers[i].id, NULL, run, &workers[i]),
                  "pthread_create", __FILE__, __LINE__);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].id, NULL);
        asked += workers[i].asked;
        refused += workers[i].refused;
        if (workers[i].slowest_ns > slowest_ns)
            slowest_ns = workers[i].slowest_ns;
    }
    fprintf(stderr, "crowd: %u asked, %u refused, slowest %llu us, %llu ms in all\n",
            asked, refused, (unsigned long long)(slowest_ns / 1000),
            (unsigned long long)((now_ns() - began) / 1000000));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("crowd: %d threads of %d steps\n", threads, steps);
    return 0;
}
