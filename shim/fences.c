/*
 * fences.c - events that say when a freed block may be reused, and their contexts.
 * Owns:  every fence that is not released yet, in one list.
 * Lock:  fences_lock for the list and the states.
 */
#include "fences.h"

#include "announce.h"

#include <pthread.h>
#include <stdlib.h>

enum fence_state { FENCE_ALIVE, FENCE_FROZEN, FENCE_OVER };

struct event_fence {
    CUevent event;
    CUcontext context;
    enum fence_state state;         /* under fences_lock */
    struct event_fence *next;       /* under fences_lock */
    struct event_fence **back_link; /* under fences_lock: what points here */
};

static pthread_mutex_t fences_lock = PTHREAD_MUTEX_INITIALIZER;
static struct event_fence *fences; /* under fences_lock */

/* Create and record in the stream's context, made current for it. */
static CUresult record(CUstream stream, bool per_thread, struct event_fence *fence)
{
    const struct gs_real *real = gs_real();
    __typeof__(cuEventRecord) *record_event =
        per_thread ? real->cuEventRecord_ptsz : real->cuEventRecord;
    CUcontext popped;
    CUresult result = real->cuCtxGetCurrent(&fence->context);

    if (result == CUDA_SUCCESS && stream && stream != CU_STREAM_LEGACY &&
        stream != CU_STREAM_PER_THREAD && real->cuStreamGetCtx) {
        result = real->cuStreamGetCtx(stream, &fence->context);
    }
    if (result == CUDA_SUCCESS) {
        result = real->cuCtxPushCurrent_v2(fence->context);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = real->cuEventCreate(&fence->event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) {
        result = record_event(fence->event, stream);
        if (result != CUDA_SUCCESS) {
            real->cuEventDestroy_v2(fence->event);
        }
    }
    real->cuCtxPopCurrent_v2(&popped);
    return result;
}

CUresult gs_fence_record(CUstream stream, bool per_thread, gs_fence *out)
{
    struct event_fence *fence = calloc(1, sizeof(*fence));
    if (!fence) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    gs_announce_begin("cuMemFreeAsync", false);
    CUresult result = record(stream, per_thread, fence);
    gs_announce_end();
    if (result != CUDA_SUCCESS) {
        free(fence);
        return result;
    }
    pthread_mutex_lock(&fences_lock);
    fence->next = fences;
    fence->back_link = &fences;
    if (fences) {
        fences->back_link = &fence->next;
    }
    fences = fence;
    pthread_mutex_unlock(&fences_lock);
    *out = (gs_fence)(uintptr_t)fence;
    return CUDA_SUCCESS;
}

static enum fence_state state_of(const struct event_fence *fence)
{
    pthread_mutex_lock(&fences_lock);
    enum fence_state state = fence->state;
    pthread_mutex_unlock(&fences_lock);
    return state;
}

enum gs_status gs_fence_query(gs_fence handle)
{
    const struct event_fence *fence = (const struct event_fence *)(uintptr_t)handle;
    switch (state_of(fence)) {
    case FENCE_OVER:
        return GS_OK;
    case FENCE_FROZEN:
        return GS_ERR_TIMEOUT;
    default:
        break;
    }
    gs_announce_begin("a poll of fences", false);
    CUresult result = gs_real()->cuEventQuery(fence->event);
    gs_announce_end();
    if (result == CUDA_SUCCESS) {
        return GS_OK;
    }
    return result == CUDA_ERROR_NOT_READY ? GS_ERR_TIMEOUT : GS_ERR_BACKEND;
}

CUevent gs_fence_event(gs_fence handle)
{
    const struct event_fence *fence = (const struct event_fence *)(uintptr_t)handle;
    return state_of(fence) == FENCE_OVER ? NULL : fence->event;
}

void gs_fence_release(gs_fence handle)
{
    struct event_fence *fence = (struct event_fence *)(uintptr_t)handle;
    pthread_mutex_lock(&fences_lock);
    *fence->back_link = fence->next;
    if (fence->next) {
        fence->next->back_link = fence->back_link;
    }
    bool alive = fence->state == FENCE_ALIVE;
    pthread_mutex_unlock(&fences_lock);
    if (alive) {
        gs_real()->cuEventDestroy_v2(fence->event);
    }
    free(fence);
}

static void change(CUcontext context, enum fence_state from, enum fence_state to)
{
    pthread_mutex_lock(&fences_lock);
    for (struct event_fence *fence = fences; fence; fence = fence->next) {
        if (fence->context == context && fence->state == from) {
            fence->state = to;
        }
    }
    pthread_mutex_unlock(&fences_lock);
}

void gs_fences_freeze(CUcontext context)
{
    change(context, FENCE_ALIVE, FENCE_FROZEN);
}

void gs_fences_thaw(CUcontext context, bool destroyed)
{
    change(context, FENCE_FROZEN, destroyed ? FENCE_OVER : FENCE_ALIVE);
}

void gs_fences_reset(void)
{
    pthread_mutex_init(&fences_lock, NULL);
    fences = NULL;
}
