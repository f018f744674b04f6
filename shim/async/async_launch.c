/*
 * async_launch.c - kernels that may start before the previous one has ended, and memory
 * that was handed out between the two (docs/async.md, "Kernels that overlap").
 *
 * Owns:  the copy of the launch that a thread makes.   Lock: none of its own.
 */
#include "shim/async/async_internal.h"
#include "shim/order/captures.h"
#include "tracker/host_memory.h"

/* A launch has some twenty attributes, each at most once. */
#define MAX_ATTRIBUTES 32u

/* Mapped for the launch: thread-local memory is part of the thread's stack, which may be
 * small. */
struct in_order {
    CUlaunchConfig config;
    CUlaunchAttribute attributes[MAX_ATTRIBUTES];
    struct gs_async_heap *heap; /* of the stream of the launch */
};

/* The launch in progress, else NULL. */
static _Thread_local struct in_order *launching
    __attribute__((tls_model("initial-exec")));

static bool overlaps(const CUlaunchAttribute *attribute)
{
    return attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
           attribute->value.programmaticStreamSerializationAllowed;
}

static struct gs_async_heap *heap_of_launch(CUstream stream)
{
    CUcontext now = NULL;
    stream = gs_async_stream(stream);
    if (!stream && gs_real()->cuCtxGetCurrent(&now) != CUDA_SUCCESS) {
        return NULL;
    }
    gs_mutex_lock(&gs_async_lock);
    struct gs_async_heap *heap = gs_async_heaps;
    while (heap &&
           (heap->ended || heap->stream != stream || (!stream && heap->home != now))) {
        heap = heap->next;
    }
    gs_mutex_unlock(&gs_async_lock);
    return heap;
}

const CUlaunchConfig *gs_async_launch_in_order(const CUlaunchConfig *config,
                                               bool per_thread)
{
    struct gs_async_heap *heap;
    unsigned found = 0;
    if (!config->attrs || config->hStream == CU_STREAM_PER_THREAD ||
        (per_thread && !config->hStream)) {
        return config;
    }
    while (found < config->numAttrs && !overlaps(&config->attrs[found])) {
        found++;
    }
    if (found == config->numAttrs || config->numAttrs > MAX_ATTRIBUTES ||
        gs_captures_stream(config->hStream, false) ||
        !(heap = heap_of_launch(config->hStream)) ||
        !__atomic_exchange_n(&heap->handed_out, false, __ATOMIC_ACQ_REL)) {
        return config;
    }
    struct in_order *copy = gs_host_map(sizeof(*copy));
    if (!copy) {
        /* The kernel that it must not overlap with ends first. */
        (void)gs_real()->cuStreamSynchronize(config->hStream);
        return config;
    }
    copy->config = *config;
    copy->config.attrs = copy->attributes;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        copy->attributes[i] = config->attrs[i];
        if (overlaps(&copy->attributes[i])) {
            copy->attributes[i].value.programmaticStreamSerializationAllowed = 0;
        }
    }
    copy->heap = heap;
    launching = copy;
    return &copy->config;
}

void gs_async_launched(const CUlaunchConfig *launched, CUresult result)
{
    struct in_order *copy = launching;
    if (GS_LIKELY(!copy) || launched != &copy->config) {
        return;
    }
    launching = NULL;
    if (result != CUDA_SUCCESS) {
        __atomic_store_n(&copy->heap->handed_out, true, __ATOMIC_RELEASE);
    }
    gs_host_unmap(copy, sizeof(*copy));
}
