/*
 * suite.c - what cases share: the device, its context, kernels, work that does not end,
 * calls that may block.
 * Owns:  the primary context of device 0 and the module of the test kernels.
 * Lock:  none; cases run on one thread. A pending call has its own.
 */
#include "suite.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "../kernels_ptx.h"

static CUdevice device;
static CUcontext context;
static CUmodule module; /* loaded at the first use */

bool suite_start(void)
{
    return cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
           cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS &&
           cuCtxSetCurrent(context) == CUDA_SUCCESS;
}

bool suite_tidy(void)
{
    CUcontext now = NULL, popped;

    while (cuCtxGetCurrent(&now) == CUDA_SUCCESS && now && now != context)
        cuCtxPopCurrent(&popped);
    return cuCtxSetCurrent(context) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS;
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

void *driver_function(const char *symbol)
{
    return dlsym(RTLD_DEFAULT, symbol);
}

CUfunction kernel(const char *name)
{
    CUfunction function = NULL;

    if (!module)
        CHECK_OK(cuModuleLoadData(&module, gs_kernels_ptx));
    if (module)
        CHECK_OK(cuModuleGetFunction(&function, module, name));
    return function;
}

CUresult launch(CUfunction function, CUstream stream, void **params)
{
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

bool block_stream(struct blocker *blocker, CUstream stream)
{
    void *page = NULL;
    CUdeviceptr seen = 0;

    blocker->stream = stream;
    if (!CHECK_OK(cuMemHostAlloc(&page, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP)))
        return false;
    blocker->flag = page;
    __atomic_store_n(blocker->flag, 0, __ATOMIC_RELEASE);
    void *params[] = {&seen};
    return CHECK_OK(cuMemHostGetDevicePointer(&seen, page, 0)) &&
           CHECK_OK(launch(kernel("gs_wait"), stream, params));
}

void unblock(struct blocker *blocker)
{
    __atomic_store_n(blocker->flag, 1, __ATOMIC_RELEASE);
}

void end_block(struct blocker *blocker)
{
    unblock(blocker);
    CHECK_OK(cuStreamSynchronize(blocker->stream));
    CHECK_OK(cuMemFreeHost(blocker->flag));
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

    if (!pending)
        abort();
    pthread_mutex_init(&pending->lock, NULL);
    pthread_cond_init(&pending->done, NULL);
    pending->function = function;
    pending->argument = argument;
    if (pthread_create(&pending->thread, NULL, call, pending) != 0)
        abort();
    return pending;
}

bool came_back(struct pending_call *pending, unsigned ms)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
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
