/*
 * contexts.c - the map of contexts, their heaps' backend, and the wait of a free.
 * Owns:  struct gs_contexts of the state.
 * Lock:  contexts->lock for the map; never held across a driver call.
 */
#include "contexts.h"

#include <stdlib.h>

#include "log.h"
#include "state.h"

void gs_contexts_init(struct gs_contexts *contexts)
{
    *contexts = (struct gs_contexts){.generation = 1};
    pthread_mutex_init(&contexts->lock, NULL);
}

/* ---- sets of handles; contexts->lock is held ------------------------------------- */

static bool set_has(const struct gs_context_set *set, CUcontext handle)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->items[i] == handle) {
            return true;
        }
    }
    return false;
}

static void set_add(struct gs_context_set *set, CUcontext handle)
{
    if (set_has(set, handle)) {
        return;
    }
    CUcontext *grown = reallocarray(set->items, set->count + 1, sizeof(CUcontext));
    if (grown) {
        set->items = grown;
        set->items[set->count] = handle;
        __atomic_store_n(&set->count, set->count + 1, __ATOMIC_RELEASE);
    }
}

static void set_remove(struct gs_context_set *set, CUcontext handle)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->items[i] == handle) {
            set->items[i] = set->items[set->count - 1];
            __atomic_store_n(&set->count, set->count - 1, __ATOMIC_RELEASE);
            return;
        }
    }
}

/* ---- the backend ---------------------------------------------------------------- */

/* Make `handle` current if it is not. *pushed tells whether pop_context is due. */
static CUresult push_context(CUcontext handle, bool *pushed)
{
    const struct gs_real *real = gs_real();
    CUcontext now = NULL;
    *pushed = false;
    CUresult result = real->cuCtxGetCurrent(&now);
    if (result != CUDA_SUCCESS || now == handle) {
        return result;
    }
    result = real->cuCtxPushCurrent_v2(handle);
    *pushed = result == CUDA_SUCCESS;
    return result;
}

static void pop_context(bool pushed)
{
    CUcontext popped;
    if (pushed) {
        gs_real()->cuCtxPopCurrent_v2(&popped);
    }
}

static enum gs_status backend_map(void *self, size_t bytes, uint64_t *addr, int *native)
{
    const struct gs_context *context = self;
    CUdeviceptr found = 0;
    bool pushed;
    CUresult result = push_context(context->handle, &pushed);
    if (result == CUDA_SUCCESS) {
        result = gs_real()->cuMemAlloc_v2(&found, bytes);
    }
    pop_context(pushed);
    if (result == CUDA_SUCCESS) {
        *addr = found;
        return GS_OK;
    }
    *native = (int)result;
    return result == CUDA_ERROR_OUT_OF_MEMORY ? GS_ERR_NOMEM : GS_ERR_BACKEND;
}

static void backend_unmap(void *self, uint64_t addr, size_t bytes)
{
    const struct gs_context *context = self;
    static struct gs_log_limit limit;
    bool pushed;
    CUresult result = push_context(context->handle, &pushed);
    if (result == CUDA_SUCCESS) {
        result = gs_real()->cuMemFree_v2(addr);
    }
    pop_context(pushed);
    if (result != CUDA_SUCCESS) {
        gs_log_once(&limit, GS_LOG_INFO,
                    "the driver did not take %zu bytes back (error %d)", bytes,
                    (int)result);
    }
}

static enum gs_status backend_fence_query(void *self, gs_fence fence)
{
    (void)self;
    CUresult result = gs_real()->cuEventQuery((CUevent)(uintptr_t)fence);
    if (result == CUDA_SUCCESS) {
        return GS_OK;
    }
    return result == CUDA_ERROR_NOT_READY ? GS_ERR_TIMEOUT : GS_ERR_BACKEND;
}

static void backend_fence_release(void *self, gs_fence fence)
{
    (void)self;
    gs_real()->cuEventDestroy_v2((CUevent)(uintptr_t)fence);
}

const struct gs_backend gs_context_backend = {
    .map = backend_map,
    .unmap = backend_unmap,
    .fence_query = backend_fence_query,
    .fence_release = backend_fence_release,
};

/* ---- the map -------------------------------------------------------------------- */

/* contexts->lock is held. */
static struct gs_context *find_entry(const struct gs_contexts *contexts, CUcontext handle)
{
    struct gs_context *entry = contexts->entries;
    while (entry && entry->handle != handle) {
        entry = entry->next;
    }
    return entry;
}

/* contexts->lock is held. */
static void remove_entry(struct gs_contexts *contexts, struct gs_context *entry)
{
    struct gs_context **link = &contexts->entries;
    while (*link && *link != entry) {
        link = &(*link)->next;
    }
    if (*link) {
        *link = entry->next;
    }
}

/* Whether `handle` is the device's primary context. Never creates one. */
static bool is_primary(CUcontext handle, CUdevice device)
{
    const struct gs_real *real = gs_real();
    unsigned flags;
    int active = 0;
    CUcontext primary = NULL;
    if (!real->cuDevicePrimaryCtxGetState || !real->cuDevicePrimaryCtxRetain ||
        real->cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS ||
        !active || real->cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS) {
        return false;
    }
    real->cuDevicePrimaryCtxRelease_v2(device);
    return primary == handle;
}

static void note_device(struct gs_state *state, CUdevice device, int ordinal)
{
    char name[GS_DEVICE_NAME_BYTES] = "";
    if (gs_real()->cuDeviceGetName(name, sizeof(name), device) != CUDA_SUCCESS) {
        name[0] = '\0';
    }
    pthread_mutex_lock(&state->contexts.lock);
    if (ordinal >= 0 && ordinal < GS_MAX_DEVICES) {
        __builtin_memcpy(state->device_names[ordinal], name, sizeof(name));
        if (ordinal >= state->device_count) {
            __atomic_store_n(&state->device_count, ordinal + 1, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&state->contexts.lock);
}

/* A new entry for the current context; all driver calls are made here, before the lock.
 */
static struct gs_context *make_entry(struct gs_state *state, CUcontext handle)
{
    CUdevice device = 0;
    if (gs_real()->cuCtxGetDevice(&device) != CUDA_SUCCESS) {
        return NULL;
    }
    struct gs_context *entry = calloc(1, sizeof(*entry));
    if (!entry) {
        return NULL;
    }
    entry->handle = handle;
    entry->device = (int)device;
    entry->primary = is_primary(handle, device);
    note_device(state, device, entry->device);
    return entry;
}

/* Enter `entry` unless another thread was faster; returns the one in the map. */
static struct gs_context *enter_entry(struct gs_state *state, struct gs_context *entry)
{
    struct gs_contexts *contexts = &state->contexts;
    struct gs_context *found = NULL;
    pthread_mutex_lock(&contexts->lock);
    found = find_entry(contexts, entry->handle);
    if (!found) {
        if (state->pool && !set_has(&contexts->unpooled, entry->handle) &&
            gs_heap_create(state->pool, &gs_context_backend, entry, entry->device,
                           &entry->heap) != GS_OK) {
            entry->heap = NULL;
        }
        entry->next = contexts->entries;
        contexts->entries = entry;
        found = entry;
    }
    pthread_mutex_unlock(&contexts->lock);
    if (found != entry) {
        free(entry);
    }
    return found;
}

const struct gs_context *gs_context_find(struct gs_state *state, CUcontext handle)
{
    struct gs_context *found = NULL;
    pthread_mutex_lock(&state->contexts.lock);
    found = find_entry(&state->contexts, handle);
    pthread_mutex_unlock(&state->contexts.lock);
    return found;
}

const struct gs_context *gs_context_current(struct gs_state *state)
{
    CUcontext handle = NULL;
    if (gs_real()->cuCtxGetCurrent(&handle) != CUDA_SUCCESS || !handle) {
        return NULL;
    }
    uint64_t generation = __atomic_load_n(&state->contexts.generation, __ATOMIC_ACQUIRE);
    if (GS_LIKELY(gs_thread.context && gs_thread.context->handle == handle &&
                  gs_thread.context_generation == generation)) {
        return gs_thread.context;
    }
    const struct gs_context *found = gs_context_find(state, handle);
    if (!found) {
        struct gs_context *entry = make_entry(state, handle);
        found = entry ? enter_entry(state, entry) : NULL;
    }
    gs_thread.context = found;
    gs_thread.context_generation = generation;
    return found;
}

const struct gs_context *gs_context_primary(struct gs_state *state, int device)
{
    struct gs_context *found = NULL;
    struct gs_context *entry;
    pthread_mutex_lock(&state->contexts.lock);
    for (entry = state->contexts.entries; entry; entry = entry->next) {
        if (entry->primary && entry->device == device) {
            found = entry;
        }
    }
    pthread_mutex_unlock(&state->contexts.lock);
    return found;
}

void gs_context_end(struct gs_state *state, CUcontext handle)
{
    struct gs_contexts *contexts = &state->contexts;
    struct gs_context *found = NULL;
    pthread_mutex_lock(&contexts->lock);
    found = find_entry(contexts, handle);
    if (found) {
        remove_entry(contexts, found);
        __atomic_add_fetch(&contexts->generation, 1, __ATOMIC_RELEASE);
    }
    set_remove(&contexts->unpooled, handle);
    set_remove(&contexts->shared, handle);
    pthread_mutex_unlock(&contexts->lock);
    if (found && found->heap) {
        gs_heap_kill(found->heap);
    }
}

void gs_context_never_pool(struct gs_state *state, CUcontext handle)
{
    pthread_mutex_lock(&state->contexts.lock);
    set_add(&state->contexts.unpooled, handle);
    pthread_mutex_unlock(&state->contexts.lock);
}

void gs_context_share(struct gs_state *state, CUcontext handle)
{
    pthread_mutex_lock(&state->contexts.lock);
    set_add(&state->contexts.shared, handle);
    pthread_mutex_unlock(&state->contexts.lock);
}

static bool is_shared(struct gs_state *state, CUcontext handle)
{
    struct gs_contexts *contexts = &state->contexts;
    if (GS_LIKELY(__atomic_load_n(&contexts->shared.count, __ATOMIC_ACQUIRE) == 0)) {
        return false;
    }
    pthread_mutex_lock(&contexts->lock);
    bool shared = set_has(&contexts->shared, handle);
    pthread_mutex_unlock(&contexts->lock);
    return shared;
}

/* ---- the wait of a free ---------------------------------------------------------- */

static CUresult synchronize(CUcontext handle)
{
    bool pushed;
    CUresult result = push_context(handle, &pushed);
    if (result == CUDA_SUCCESS) {
        result = gs_real()->cuCtxSynchronize();
    }
    pop_context(pushed);
    return result;
}

/* Handles of all contexts but one; at most `max`. */
static size_t other_contexts(struct gs_state *state, CUcontext but, CUcontext *out,
                             size_t max)
{
    size_t count = 0;
    struct gs_context *entry;
    pthread_mutex_lock(&state->contexts.lock);
    for (entry = state->contexts.entries; entry; entry = entry->next) {
        if (entry->handle != but && count < max) {
            out[count++] = entry->handle;
        }
    }
    pthread_mutex_unlock(&state->contexts.lock);
    return count;
}

CUresult gs_context_wait(struct gs_state *state, const struct gs_context *context)
{
    CUcontext others[GS_MAX_DEVICES];
    uint64_t token = gs_heap_retire_begin(context->heap);
    CUresult result = synchronize(context->handle);
    if (result == CUDA_SUCCESS && is_shared(state, context->handle)) {
        size_t count =
            other_contexts(state, context->handle, others, GS_ARRAY_LEN(others));
        for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
            result = synchronize(others[i]);
        }
    }
    if (result == CUDA_SUCCESS) {
        gs_heap_retire(context->heap, token);
    }
    return result;
}
