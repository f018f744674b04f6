/*
 * world.c - what programs share: the device, memory, kernels, threads.
 * Owns:  the primary context of device 0.   Lock: none; set up before any thread.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../sim/kernels/kernels.h"
#include "../sim/kernels/kernels_ptx.h"
#include "../sim/kernels/kernels_sm90_ptx.h"
#include "order.h"

static CUcontext context;
static CUmodule module, module_sm90;
static bool forgiving; /* set by a program that has one thread */

void expect(CUresult got, CUresult wanted, const char *text, const char *file, int line)
{
    if (got == wanted || (forgiving && got == CUDA_ERROR_ILLEGAL_ADDRESS))
        return;
    fprintf(stderr, "%s:%d: %s answered %d, not %d\n", file, line, text, (int)got,
            (int)wanted);
    _exit(1);
}

void forgive(void)
{
    forgiving = true;
}

void must(bool held, const char *text)
{
    if (held)
        return;
    fprintf(stderr, "not so: %s\n", text);
    _exit(1);
}

void world_begin(void)
{
    CUdevice device;

    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, gs_kernels_ptx));
    OK(cuModuleLoadData(&module_sm90, gs_kernels_sm90_ptx));
}

CUcontext world_context(void)
{
    return context;
}

CUcontext new_context(void)
{
    CUcontext made;
    CUdevice device;

    OK(cuCtxGetDevice(&device));
#if CUDA_VERSION >= 13000
    OK(cuCtxCreate(&made, NULL, 0, device));
#else
    OK(cuCtxCreate(&made, 0, device));
#endif
    return made;
}

CUstream new_stream(void)
{
    CUstream stream;

    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

CUstream blocking_stream(void)
{
    CUstream stream;

    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    return stream;
}

CUevent new_event(void)
{
    CUevent event = NULL;

    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

CUdeviceptr new_memory(void)
{
    CUdeviceptr memory = 0;

    OK(cuMemAlloc(&memory, BYTES));
    return memory;
}

CUdeviceptr new_block(size_t bytes)
{
    CUdeviceptr block;

    OK(cuMemAlloc(&block, bytes));
    return block;
}

uint32_t *new_pinned(void)
{
    void *memory;

    OK(cuMemHostAlloc(&memory, BYTES, 0));
    return memory;
}

uint32_t *new_flag(void)
{
    uint32_t *flag = new_pinned();

    *flag = 0;
    return flag;
}

void set_flag(uint32_t *flag)
{
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

void nap_us(long us)
{
    const struct timespec time = {0, us * 1000};

    nanosleep(&time, NULL);
}

static CUfunction kernel(const char *name)
{
    CUfunction function;

    if (cuModuleGetFunction(&function, module, name) != CUDA_SUCCESS)
        OK(cuModuleGetFunction(&function, module_sm90, name));
    return function;
}

static void launch(CUstream stream, const char *name, void **params)
{
    OK(cuLaunchKernel(kernel(name), 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

static void launch_overlapping(CUstream stream, const char *name, void **params)
{
    CUlaunchAttribute attribute = {
        .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = &attribute,
                             .numAttrs = 1};

    attribute.value.programmaticStreamSerializationAllowed = 1;
    OK(cuLaunchKernelEx(&config, kernel(name), params, NULL));
}

void fill(CUstream stream, CUdeviceptr memory, uint32_t seed)
{
    uint64_t count = WORDS;

    launch(stream, "gs_fill", (void *[]){&memory, &count, &seed});
}

CUfunction fill_kernel(void)
{
    return kernel("gs_fill");
}

void fill_by(const struct cudasim_behind *table, CUfunction function, CUstream stream,
             CUdeviceptr memory, uint32_t seed)
{
    uint64_t count = WORDS;
    void *params[] = {&memory, &count, &seed};

    OK(table->launch(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

void copy(CUstream stream, CUdeviceptr to, CUdeviceptr from)
{
    uint64_t count = WORDS;

    launch(stream, "gs_copy", (void *[]){&to, &from, &count});
}

void add(CUstream stream, CUdeviceptr to, CUdeviceptr from)
{
    uint64_t count = WORDS;

    launch(stream, "gs_add", (void *[]){&to, &from, &count});
}

void spin(CUstream stream)
{
    uint64_t ns = 1000000;

    launch(stream, "gs_spin", (void *[]){&ns});
}

void wait_for(CUstream stream, const uint32_t *flag)
{
    launch(stream, "gs_wait", (void *[]){&flag});
}

void overlapping_fill(CUstream stream, CUdeviceptr memory, uint32_t seed)
{
    uint64_t count = WORDS;

    launch_overlapping(stream, "gs_fill", (void *[]){&memory, &count, &seed});
}

void overlapping_copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, bool after)
{
    uint64_t count = WORDS;

    launch_overlapping(stream, after ? "gs_copy_after" : "gs_copy",
                       (void *[]){&to, &from, &count});
}

void must_hold(CUdeviceptr memory, uint32_t seed)
{
    uint32_t words[WORDS];
    bool held = true;

    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(words, memory, BYTES));
    for (unsigned i = 0; i < WORDS; i++)
        held = held && words[i] == gs_pattern(seed, i);
    must(held, "the memory holds the pattern");
}

void join(CUstream a, CUstream b)
{
    CUevent event = new_event();

    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    if (event) /* none was made on a device that has failed */
        OK(cuEventDestroy(event));
}

struct worker {
    pthread_t thread;
    void (*function)(void *);
    void *argument;
};

static void *work(void *argument)
{
    struct worker *worker = argument;

    OK(cuCtxSetCurrent(context));
    worker->function(worker->argument);
    return NULL;
}

struct worker *start_worker(void (*function)(void *), void *argument)
{
    struct worker *worker = malloc(sizeof(*worker));

    must(worker != NULL, "there is memory");
    worker->function = function;
    worker->argument = argument;
    must(pthread_create(&worker->thread, NULL, work, worker) == 0, "a thread starts");
    return worker;
}

void join_worker(struct worker *worker)
{
    pthread_join(worker->thread, NULL);
    free(worker);
}

extern cudasim_notify_function cudasim_notify;

void notify(const struct cudasim_note *note)
{
    must(cudasim_notify(note) == 0, "the note is known");
}

bool under_library(void)
{
    const char *preload = getenv("LD_PRELOAD"); /* NOLINT(concurrency-mt-unsafe) */

    return preload && strstr(preload, "gpushim");
}

bool free_is_lazy(void)
{
    const char *mode = getenv("GPUSHIM_FREE_SYNC"); /* NOLINT(concurrency-mt-unsafe) */

    return mode && strcmp(mode, "lazy") == 0 && under_library();
}
