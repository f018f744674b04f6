/*
 * through_device.c - a trace through the CUDA driver: a GPU's, the simulated one, or
 * either with the library preloaded.
 *
 * Device memory comes from cuMemAlloc, stream-ordered memory from cuMemAllocAsync on a
 * stream for each of the trace's, managed and pinned memory from their calls. The driver
 * is loaded at run time, so that the other ways need none.
 *
 * Owns: one context on each device used, its streams.   Lock: none, immutable while it
 * runs.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>

#include "through_device.h"

/* X(name to call it by, symbol of its present version) */
#define DRIVER_FUNCTIONS(X)                                                              \
    X(cuInit, "cuInit")                                                                  \
    X(cuDeviceGetCount, "cuDeviceGetCount")                                              \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")                              \
    X(cuCtxSetCurrent, "cuCtxSetCurrent")                                                \
    X(cuCtxSynchronize, "cuCtxSynchronize")                                              \
    X(cuStreamCreate, "cuStreamCreate")                                                  \
    X(cuStreamSynchronize, "cuStreamSynchronize")                                        \
    X(cuMemAlloc, "cuMemAlloc_v2")                                                       \
    X(cuMemFree, "cuMemFree_v2")                                                         \
    X(cuMemAllocAsync, "cuMemAllocAsync")                                                \
    X(cuMemFreeAsync, "cuMemFreeAsync")                                                  \
    X(cuMemAllocManaged, "cuMemAllocManaged")                                            \
    X(cuMemAllocHost, "cuMemAllocHost_v2")                                               \
    X(cuMemFreeHost, "cuMemFreeHost")                                                    \
    X(cuMemsetD8Async, "cuMemsetD8Async")

struct driver {
#define FIELD(name, symbol) __typeof__(name) *name;
    DRIVER_FUNCTIONS(FIELD)
#undef FIELD
    CUcontext contexts[GS_REPLAY_DEVICES];
    CUstream *streams; /* device * stream_count + stream */
    uint32_t stream_count;
    int devices;
    bool touch;
    uint64_t calls; /* atomic */
};

static bool load(struct driver *driver, const char **why)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

    *why = "there is no libcuda.so.1";
    if (!library)
        return false;
    *why = "libcuda.so.1 lacks a function";
#define FIND(name, symbol)                                                               \
    driver->name = (__typeof__(name) *)dlsym(library, symbol);                           \
    if (!driver->name)                                                                   \
        *why = "libcuda.so.1 lacks " symbol;
    DRIVER_FUNCTIONS(FIND)
#undef FIND
#define CHECK(name, symbol) &&driver->name
    return true DRIVER_FUNCTIONS(CHECK);
#undef CHECK
}

static CUcontext context_of(const struct driver *driver, const struct gs_replay_op *op)
{
    return driver->contexts[op->device % driver->devices];
}

static CUstream stream_of(const struct driver *driver, const struct gs_replay_op *op)
{
    return driver
        ->streams[(uint32_t)(op->device % driver->devices) * driver->stream_count +
                  op->stream];
}

/* Devices, contexts and streams that the trace needs. */
static bool prepare(struct driver *driver, const struct gs_replay_trace *trace,
                    const char **why)
{
    unsigned highest = 0;

    *why = "the driver does not start";
    if (driver->cuInit(0) != CUDA_SUCCESS ||
        driver->cuDeviceGetCount(&driver->devices) != CUDA_SUCCESS || driver->devices < 1)
        return false;
    if (driver->devices > GS_REPLAY_DEVICES)
        driver->devices = GS_REPLAY_DEVICES;
    for (size_t i = 0; i < trace->count; i++)
        highest = trace->ops[i].device > highest ? trace->ops[i].device : highest;
    if ((int)highest + 1 < driver->devices)
        driver->devices = (int)highest + 1;
    driver->stream_count = trace->streams ? trace->streams : 1;
    driver->streams = gs_replay_alloc((size_t)driver->devices * driver->stream_count,
                                      sizeof(*driver->streams));
    *why = "the driver gives no context or stream";
    for (int device = 0; device < driver->devices; device++) {
        if (driver->cuDevicePrimaryCtxRetain(&driver->contexts[device], device) !=
                CUDA_SUCCESS ||
            driver->cuCtxSetCurrent(driver->contexts[device]) != CUDA_SUCCESS)
            return false;
        for (uint32_t s = 0; s < driver->stream_count; s++)
            if (driver->cuStreamCreate(
                    &driver->streams[(uint32_t)device * driver->stream_count + s],
                    CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
                return false;
    }
    return driver->cuCtxSetCurrent(driver->contexts[0]) == CUDA_SUCCESS;
}

static void require(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "replay: %s failed with %d\n", what, (int)result);
    exit(2);
}

static void enter(struct driver *driver, const struct gs_replay_op *op)
{
    if (driver->devices > 1)
        require(driver->cuCtxSetCurrent(context_of(driver, op)), "cuCtxSetCurrent");
}

static uint64_t allocate(void *self, const struct gs_replay_op *op)
{
    struct driver *driver = self;
    size_t bytes = op->bytes ? op->bytes : 1;
    CUdeviceptr address = 0;
    void *host = NULL;
    CUresult result;

    enter(driver, op);
    __atomic_fetch_add(&driver->calls, 1, __ATOMIC_RELAXED);
    switch (op->kind) {
    case GS_TRACE_KIND_ASYNC:
        result = driver->cuMemAllocAsync(&address, bytes, stream_of(driver, op));
        break;
    case GS_TRACE_KIND_MANAGED:
        result = driver->cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL);
        break;
    case GS_TRACE_KIND_PINNED:
        result = driver->cuMemAllocHost(&host, bytes);
        return result == CUDA_SUCCESS ? (uint64_t)(uintptr_t)host : 0;
    default:
        result = driver->cuMemAlloc(&address, bytes);
        break;
    }
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        require(result, "an allocation");
    if (result == CUDA_SUCCESS && driver->touch)
        require(driver->cuMemsetD8Async(address, 1, bytes < 64 ? bytes : 64,
                                        stream_of(driver, op)),
                "cuMemsetD8Async");
    return result == CUDA_SUCCESS ? address : 0;
}

static void release(void *self, const struct gs_replay_op *op, uint64_t handle)
{
    struct driver *driver = self;

    enter(driver, op);
    __atomic_fetch_add(&driver->calls, 1, __ATOMIC_RELAXED);
    if (op->kind == GS_TRACE_KIND_PINNED)
        require(driver->cuMemFreeHost((void *)(uintptr_t)handle), "cuMemFreeHost");
    else if (op->kind == GS_TRACE_KIND_ASYNC)
        require(driver->cuMemFreeAsync(handle, stream_of(driver, op)), "cuMemFreeAsync");
    else
        require(driver->cuMemFree(handle), "cuMemFree");
}

static void synchronize(void *self, const struct gs_replay_op *op)
{
    struct driver *driver = self;

    enter(driver, op);
    if (op->how == GS_TRACE_SYNC_CONTEXT)
        require(driver->cuCtxSynchronize(), "cuCtxSynchronize");
    else
        require(driver->cuStreamSynchronize(stream_of(driver, op)),
                "cuStreamSynchronize");
}

static void enter_thread(void *self)
{
    struct driver *driver = self;

    require(driver->cuCtxSetCurrent(driver->contexts[0]), "cuCtxSetCurrent");
}

bool gs_replay_through_device(const struct gs_replay_trace *trace, bool touch,
                              const struct gs_replay_config *config,
                              struct gs_replay_outcome *out, const char **why)
{
    struct driver driver = {.touch = touch};
    struct gs_replay_target target = {.self = &driver,
                                      .allocate = allocate,
                                      .release = release,
                                      .synchronize = synchronize,
                                      .enter_thread = enter_thread};

    *out = (struct gs_replay_outcome){0};
    if (!load(&driver, why) || !prepare(&driver, trace, why)) {
        free(driver.streams);
        return false;
    }
    gs_replay_run(trace, &target, config, &out->run);
    out->calls = driver.calls;
    free(driver.streams);
    return true;
}
