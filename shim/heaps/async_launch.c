/*
 * async_launch.c - kernels that may start before the one in front of them has ended, and
 * memory that was handed out between the two (docs/async.md, "Kernels that overlap").
 *
 * Owns:  a thread's copy of the launch it is making.   Lock: none of its own.
 */
#include "async_internal.h"

/* A launch has some twenty attributes, each at most once. */
#define MAX_ATTRIBUTES 32u

/* Too large for the little room that is reserved for a library loaded late: made for the
 * thread when it first needs it. */
static _Thread_local struct {
    CUlaunchConfig config;
    CUlaunchAttribute attributes[MAX_ATTRIBUTES];
    struct gs_async_heap *heap; /* of the stream that it is launched in */
} in_order __attribute__((tls_model("global-dynamic")));

/* &in_order.config while it is being launched, else NULL. */
static _Thread_local const CUlaunchConfig *launching
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
    pthread_mutex_lock(&gs_async_lock);
    struct gs_async_heap *heap = gs_async_heaps;
    while (heap &&
           (heap->ended || heap->stream != stream || (!stream && heap->home != now))) {
        heap = heap->next;
    }
    pthread_mutex_unlock(&gs_async_lock);
    return heap;
}

const CUlaunchConfig *gs_async_launch_in_order(const CUlaunchConfig *config,
                                               bool per_thread)
{
    struct gs_async_heap *heap;
    unsigned found = 0;
    if (!config->attrs || config->hStream == CU_STREAM_PER_THREAD ||
        (per_thread && !config->hStream) || gs_mutant(GS_MUTANT_async_overlap)) {
        return config;
    }
    while (found < config->numAttrs && !overlaps(&config->attrs[found])) {
        found++;
    }
    if (found == config->numAttrs || config->numAttrs > MAX_ATTRIBUTES ||
        gs_async_captures(config->hStream) || !(heap = heap_of_launch(config->hStream)) ||
        !__atomic_exchange_n(&heap->handed_out, false, __ATOMIC_ACQ_REL)) {
        return config;
    }
    in_order.config = *config;
    in_order.config.attrs = in_order.attributes;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        in_order.attributes[i] = config->attrs[i];
        if (overlaps(&in_order.attributes[i])) {
            in_order.attributes[i].value.programmaticStreamSerializationAllowed = 0;
        }
    }
    in_order.heap = heap;
    launching = &in_order.config;
    return launching;
}

void gs_async_launched(const CUlaunchConfig *launched, CUresult result)
{
    if (GS_LIKELY(!launching) || launched != launching) {
        return;
    }
    launching = NULL;
    if (result != CUDA_SUCCESS) {
        __atomic_store_n(&in_order.heap->handed_out, true, __ATOMIC_RELEASE);
    }
}
