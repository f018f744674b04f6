/*
 * sim_calls.c - driver calls a second on the simulated device, one thread, by schedule.
 *
 *   sim_calls [ROUNDS [SEEDS]]     20000 rounds of ten calls; hostile with seeds 0 to 7
 *
 * A round is the traffic of a program that does hardly any work: two launches on a few
 * words in two streams with an event between them, two queries, an allocation and a free,
 * and a stream-ordered pair. A line a run:
 *
 *   threads 0 412345        schedule, seed, calls a second
 *
 * Each run is a process of its own: the driver reads its variables once. Ends with 1 if a
 * call fails. Owns: nothing.   Lock: none.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

#define CALLS_A_ROUND 10
#define WORDS         16

static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                          ".visible .entry gs_fill(.param .u64 a) { ret; }\n";

struct scene {
    CUstream first, second;
    CUevent event;
    CUfunction fill;
    CUdeviceptr words;
};

static void need(CUresult res, const char *what)
{
    if (res == CUDA_SUCCESS || res == CUDA_ERROR_NOT_READY)
        return;
    fprintf(stderr, "sim_calls: %s: error %d\n", what, (int)res);
    exit(1);
}

static void make(struct scene *scene)
{
    CUcontext context;
    CUmodule module;

    need(cuInit(0), "cuInit");
    need(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    need(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    need(cuStreamCreate(&scene->first, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    need(cuStreamCreate(&scene->second, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    need(cuEventCreate(&scene->event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    need(cuModuleLoadData(&module, ptx), "cuModuleLoadData");
    need(cuModuleGetFunction(&scene->fill, module, "gs_fill"), "cuModuleGetFunction");
    need(cuMemAlloc(&scene->words, 2 * WORDS * 4), "cuMemAlloc");
}

static void fill(const struct scene *scene, CUstream stream, CUdeviceptr words)
{
    uint64_t count = WORDS;
    uint32_t seed = 1;
    void *params[] = {&words, &count, &seed};

    need(cuLaunchKernel(scene->fill, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL),
         "cuLaunchKernel");
}

static void play_round(const struct scene *scene)
{
    CUdeviceptr block, ordered;

    need(cuMemAlloc(&block, 4096), "cuMemAlloc");
    fill(scene, scene->first, scene->words);
    need(cuEventRecord(scene->event, scene->first), "cuEventRecord");
    need(cuStreamWaitEvent(scene->second, scene->event, 0), "cuStreamWaitEvent");
    fill(scene, scene->second, scene->words + WORDS * 4);
    need(cuEventQuery(scene->event), "cuEventQuery");
    need(cuMemAllocAsync(&ordered, 4096, scene->second), "cuMemAllocAsync");
    need(cuMemFreeAsync(ordered, scene->second), "cuMemFreeAsync");
    need(cuStreamQuery(scene->second), "cuStreamQuery");
    need(cuMemFree(block), "cuMemFree");
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* In a child: one schedule, one seed. */
static int measure(const char *schedule, unsigned seed, unsigned long rounds)
{
    struct scene scene;
    char text[16];

    snprintf(text, sizeof(text), "%u", seed);
    setenv("CUDASIM_SCHEDULE", schedule, 1);
    setenv("CUDASIM_SEED", text, 1);
    setenv("CUDASIM_ORACLE", "0", 0);
    make(&scene);
    for (unsigned long i = 0; i < rounds / 10; i++)
        play_round(&scene);
    double start = now();
    for (unsigned long i = 0; i < rounds; i++)
        play_round(&scene);
    double seconds = now() - start;
    need(cuCtxSynchronize(), "cuCtxSynchronize");
    printf("%s %u %.0f\n", schedule, seed, (double)rounds * CALLS_A_ROUND / seconds);
    return fflush(stdout) == 0 ? 0 : 1;
}

static int run(const char *schedule, unsigned seed, unsigned long rounds)
{
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(measure(schedule, seed, rounds));
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;
    unsigned long seeds = argc > 2 ? strtoul(argv[2], NULL, 10) : 8;
    int worst = run("threads", 0, rounds);

    for (unsigned seed = 0; seed < seeds; seed++)
        worst |= run("hostile", seed, rounds);
    return worst;
}
