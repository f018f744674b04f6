/*
 * suite.c - what cases share: the device, its context, kernels, work that does not end,
 * calls that may block.
 * Owns:  the primary context of device 0, the test kernels, the page of flags.
 * Lock:  none; cases run on one thread. A pending call has its own.
 */
#include "suite.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../kernels/kernels_ptx.h"

/* The flags of blockers lie in one pinned page, each in a line of its own: taking pinned
 * memory, or giving it back, may wait for a kernel that runs. */
#define FLAGS      32
#define FLAG_WORDS 16

static CUdevice device;
static CUcontext context;
static CUmodule module;

static const char *const kernel_names[] = {"gs_fill", "gs_check", "gs_copy",
                                           "gs_add",  "gs_spin",  "gs_wait"};
static CUfunction kernels[GS_ARRAY_LEN(kernel_names)];
static uint32_t *flags;
static CUdeviceptr flags_seen; /* by the device */
static bool flag_taken[FLAGS];
static unsigned returns_ms = UINT_MAX; /* at most for a call; immutable after the start */

/* The memory of flags; the test kernels, each launched once: a driver that loads code
 * lazily may wait, at the first launch, for a kernel that runs. */
static bool prepare(void)
{
    uint64_t nothing = 0, count = 0, seed = 0;
    void *page = NULL;

    if (cuMemHostAlloc(&page, FLAGS * FLAG_WORDS * sizeof(uint32_t),
                       CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS ||
        cuMemHostGetDevicePointer(&flags_seen, page, 0) != CUDA_SUCCESS ||
        cuModuleLoadData(&module, gs_kernels_ptx) != CUDA_SUCCESS)
        return false;
    flags = page;
    flags[0] = 1;
    for (size_t i = 0; i < GS_ARRAY_LEN(kernel_names); i++) {
        bool waits = strcmp(kernel_names[i], "gs_wait") == 0;
        void *params[] = {waits ? (void *)&flags_seen : &nothing, &count, &seed,
                          &flags_seen};
        if (cuModuleGetFunction(&kernels[i], module, kernel_names[i]) != CUDA_SUCCESS ||
            launch(kernels[i], NULL, params) != CUDA_SUCCESS)
            return false;
    }
    return cuCtxSynchronize() == CUDA_SUCCESS;
}

bool suite_start(void)
{
    /* As many queues as streams, so that a kernel that runs until it is let go holds up
     * nothing but what the documents say; all code there from the start. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return false;
    if (prepare())
        return true;
    fputs("conformance: the test kernels do not run on this device\n", stderr);
    return false;
}

bool suite_tidy(void)
{
    CUcontext now = NULL, popped;

    while (cuCtxGetCurrent(&now) == CUDA_SUCCESS && now && now != context)
        cuCtxPopCurrent(&popped);
    return cuCtxSetCurrent(context) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS;
}

void suite_set_returns_ms(unsigned ms)
{
    returns_ms = ms;
}

unsigned returns_within(unsigned ms)
{
    return ms < returns_ms ? ms : returns_ms;
}

CUdevice the_device(void)
{
    return device;
}

CUcontext the_context(void)
{
    return context;
}

int driver_version(void)
{
    int version = 0;

    CHECK_OK(cuDriverGetVersion(&version));
    return version;
}

int device_attribute(CUdevice_attribute attribute)
{
    int value = 0;

    CHECK_OK(cuDeviceGetAttribute(&value, attribute, device));
    return value;
}

bool device_has(CUdevice_attribute attribute, const char *what)
{
    if (device_attribute(attribute))
        return true;
    skip(what);
    return false;
}

void *driver_function(const char *symbol)
{
    return dlsym(RTLD_DEFAULT, symbol);
}

CUfunction kernel(const char *name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(kernel_names); i++) {
        if (strcmp(kernel_names[i], name) == 0)
            return kernels[i];
    }
    CHECK(!"a kernel of tests/sim/kernels/kernels.h");
    return NULL;
}

CUresult launch(CUfunction function, CUstream stream, void **params)
{
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

bool block_stream(struct blocker *blocker, CUstream stream)
{
    unsigned slot = 0;

    blocker->flag = NULL;
    blocker->stream = stream;
    while (slot < FLAGS && flag_taken[slot])
        slot++;
    if (!CHECK(slot < FLAGS))
        return false;
    CUdeviceptr seen = flags_seen + slot * FLAG_WORDS * sizeof(uint32_t);
    void *params[] = {&seen};
    __atomic_store_n(&flags[slot * FLAG_WORDS], 0, __ATOMIC_RELEASE);
    if (!CHECK_OK(launch(kernel("gs_wait"), stream, params)))
        return false;
    flag_taken[slot] = true;
    blocker->flag = &flags[slot * FLAG_WORDS];
    return true;
}

void unblock(struct blocker *blocker)
{
    if (blocker->flag)
        __atomic_store_n(blocker->flag, 1, __ATOMIC_RELEASE);
}

void end_block(struct blocker *blocker)
{
    unblock(blocker);
    CHECK_OK(cuStreamSynchronize(blocker->stream));
    if (blocker->flag)
        flag_taken[(blocker->flag - flags) / FLAG_WORDS] = false;
    blocker->flag = NULL;
}

struct pending_call {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool is_done; /* lock */
    void (*function)(void *);
    void *argument;
};

static void *call(void *argument)
{
    struct pending_call *pending = argument;

    if (cuCtxSetCurrent(context) == CUDA_SUCCESS)
        pending->function(pending->argument);
    pthread_mutex_lock(&pending->lock);
    pending->is_done = true;
    pthread_cond_signal(&pending->done);
    pthread_mutex_unlock(&pending->lock);
    return NULL;
}

struct pending_call *start_call(void (*function)(void *), void *argument)
{
    struct pending_call *pending = calloc(1, sizeof(*pending));
    pthread_condattr_t attributes;

    if (!pending)
        abort();
    pthread_mutex_init(&pending->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pending->done, &attributes);
    pthread_condattr_destroy(&attributes);
    pending->function = function;
    pending->argument = argument;
    if (pthread_create(&pending->thread, NULL, call, pending) != 0)
        abort();
    return pending;
}

bool came_back(struct pending_call *pending, unsigned ms)
{
    struct timespec end;

    ms = returns_within(ms);
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += ms / 1000;
    end.tv_nsec += (long)(ms % 1000) * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&pending->lock);
    while (!pending->is_done &&
           pthread_cond_timedwait(&pending->done, &pending->lock, &end) == 0)
        ;
    bool done = pending->is_done;
    pthread_mutex_unlock(&pending->lock);
    return done;
}

void join_call(struct pending_call *pending)
{
    pthread_join(pending->thread, NULL);
    pthread_cond_destroy(&pending->done);
    pthread_mutex_destroy(&pending->lock);
    free(pending);
}
