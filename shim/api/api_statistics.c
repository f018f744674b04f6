/*
 * api_statistics.c - the statistics of gpushim.h, from the tracker's and the pool's.
 * Owns:  nothing.   Lock: none.
 */
#include <string.h>

#include "shim/api/api.h"
#include "shim/state/context_switch.h"
#include "shim/state/state.h"
#include "tracker/stacks/scopes.h"

static void add_tensors(struct gs_tracker *tracker, int device,
                        struct gpushim_statistics *out)
{
    uint64_t live_bytes, peak_bytes;
    gs_tracker_part_bytes(tracker, device, &live_bytes, &peak_bytes);
    out->tensor_bytes += live_bytes;
    if (peak_bytes > out->tensor_peak_bytes) {
        out->tensor_peak_bytes = peak_bytes;
    }
}

/* Adds the rows of allocations that `device` names. */
static void add_totals(struct gs_state *state, int device, struct gpushim_statistics *out)
{
    int first = device, last = device;
    if (!state->tracker) {
        return;
    }
    if (device == GPUSHIM_ALL_DEVICES) {
        first = 0;
        last = __atomic_load_n(&state->device_count, __ATOMIC_RELAXED) - 1;
    }
    for (int row = first; row <= last; row++) {
        struct gs_tracker_totals totals;
        gs_tracker_get_totals(state->tracker, row, &totals);
        out->allocs += totals.allocs;
        out->frees += totals.frees;
        out->failed += totals.failed;
        out->live_bytes += totals.live_bytes;
        out->live_count += totals.live_count;
        out->peak_bytes =
            totals.peak_bytes > out->peak_bytes ? totals.peak_bytes : out->peak_bytes;
        if (row >= 0) {
            add_tensors(state->tracker, row, out);
        }
    }
}

static void add_pool(struct gs_state *state, int device, struct gpushim_statistics *out)
{
    static_assert(GPUSHIM_CLASSES == GS_POOL_CLASSES, "programs make room for them");
    int heaps = device == GPUSHIM_ALL_DEVICES ? -1 : device;
    struct gs_pool_stats pool;
    gs_pool_stats(state->pool, heaps, &pool);
    out->hits = pool.hits;
    out->misses = pool.misses;
    out->thread_hits = pool.thread_hits;
    out->stream_hits = pool.stream_hits;
    out->global_hits = pool.global_hits;
    out->segments_mapped = pool.segments_mapped;
    out->segments_unmapped = pool.segments_unmapped;
    out->driver_calls = pool.driver_calls;
    out->driver_ns = pool.driver_ns;
    out->reserved_bytes = pool.reserved_bytes;
    out->reserved_peak_bytes = pool.reserved_peak_bytes;
    out->used_bytes = pool.used_bytes;
    out->pending_bytes = pool.pending_bytes;
    out->cached_bytes = pool.thread_bytes + pool.stream_bytes + pool.global_bytes;
    out->idle_bytes = pool.reserved_bytes > pool.used_bytes + pool.pending_bytes
                          ? pool.reserved_bytes - pool.used_bytes - pool.pending_bytes
                          : 0;
}

/* The class statistics are too large for a stack. NULL: no memory. */
static struct gs_pool_class_stats *take_classes(struct gs_state *state, int device)
{
    struct gs_pool_class_stats *classes = malloc(sizeof(*classes));
    if (classes) {
        gs_pool_class_stats(state->pool, device == GPUSHIM_ALL_DEVICES ? -1 : device,
                            classes);
    }
    return classes;
}

/* The device's free memory, as the program sees it. */
static void add_device(struct gs_state *state, int device, struct gpushim_statistics *out)
{
    const struct gs_context *context = gs_context_current_known(state);
    size_t free_bytes, total_bytes;
    bool pushed;
    if (!context || context->device != device) {
        context = gs_context_primary(state, device);
    }
    if (!context || gs_context_push(context->handle, &pushed) != CUDA_SUCCESS) {
        return;
    }
    gs_leave(); /* the program's own call: with its limit, and idle memory as free */
    if (cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS) {
        out->device_free_bytes = free_bytes;
        out->device_total_bytes = total_bytes;
    }
    (void)gs_enter();
    gs_context_pop(pushed);
}

/* Runs in the library: gs_enter has been called. */
static gpushim_result fill(struct gs_state *state, int device,
                           struct gpushim_statistics *out)
{
    add_totals(state, device, out);
    if (!state->pool || (device < 0 && device != GPUSHIM_ALL_DEVICES)) {
        return GPUSHIM_OK;
    }
    add_pool(state, device, out);
    struct gs_pool_class_stats *classes = take_classes(state, device);
    if (!classes) {
        return GPUSHIM_NO_MEMORY;
    }
    out->holes = classes->holes.count;
    out->hole_bytes = classes->holes.bytes;
    out->largest_hole_bytes = classes->holes.largest_bytes;
    free(classes);
    return GPUSHIM_OK;
}

gpushim_result gs_api_statistics(int device, struct gpushim_statistics *out)
{
    struct gpushim_statistics all = {.size = sizeof(all)};
    struct gs_state *state;
    if (!out || out->size < sizeof(out->size) ||
        (device < GPUSHIM_IMPORTED && device != GPUSHIM_ALL_DEVICES) ||
        device >= GS_MAX_DEVICES) {
        return GPUSHIM_INVALID;
    }
    if (!gs_state_peek() || !(state = gs_enter())) {
        return GPUSHIM_INACTIVE;
    }
    gpushim_result result = fill(state, device, &all);
    if (device >= 0) {
        add_device(state, device, &all);
    }
    gs_leave();
    all.size = out->size < sizeof(all) ? out->size : sizeof(all);
    memcpy(out, &all, all.size);
    return result;
}

gpushim_result gs_api_classes(int device, struct gpushim_class *out, size_t class_bytes,
                              size_t capacity)
{
    struct gs_state *state;
    if (!out || (device < 0 && device != GPUSHIM_ALL_DEVICES) ||
        device >= GS_MAX_DEVICES) {
        return GPUSHIM_INVALID;
    }
    if (!gs_state_peek() || !(state = gs_enter())) {
        return GPUSHIM_INACTIVE;
    }
    struct gs_pool_class_stats *classes =
        state->pool ? take_classes(state, device) : NULL;
    size_t count = classes ? gs_pool_classes_by_user(state->pool, classes->classes) : 0;
    for (size_t i = 0; i < capacity && i < count; i++) {
        const struct gs_pool_class *from = &classes->classes[i];
        struct gpushim_class to = {.bytes = from->bytes,
                                   .hits = from->hits,
                                   .misses = from->misses,
                                   .live = from->live,
                                   .live_bytes = from->live_bytes,
                                   .cached = from->cached,
                                   .cached_bytes = from->cached_bytes,
                                   .rounding_bytes = from->rounding_bytes};
        memcpy((char *)out + i * class_bytes, &to,
               class_bytes < sizeof(to) ? class_bytes : sizeof(to));
    }
    gpushim_result result = classes       ? GPUSHIM_OK
                            : state->pool ? GPUSHIM_NO_MEMORY
                                          : GPUSHIM_OFF;
    free(classes);
    gs_leave();
    return result;
}

static gpushim_result fill_scope(struct gs_state *state, const char *path, int device,
                                 struct gpushim_scope_totals *out)
{
    const int rows = device == GPUSHIM_ALL_DEVICES ? GS_SCOPE_ALL : device;
    struct gs_scope_totals totals;
    if (!state->tracker || !state->stacks) {
        return GPUSHIM_OFF;
    }
    uint32_t scope = gs_tracker_scope_find(state->tracker, path);
    if (!gs_tracker_scope_totals(state->tracker, scope, rows, &totals)) {
        return GPUSHIM_NOT_FOUND;
    }
    out->begun = totals.begun;
    out->allocs = totals.allocs;
    out->alloc_bytes = totals.alloc_bytes;
    out->frees = totals.frees;
    out->free_bytes = totals.free_bytes;
    out->live_count = totals.live_count;
    out->live_bytes = totals.live_bytes;
    out->peak_bytes = totals.peak_bytes;
    out->lost_count = totals.lost_count;
    out->lost_bytes = totals.lost_bytes;
    out->missed = totals.missed;
    return GPUSHIM_OK;
}

gpushim_result gs_api_scope_statistics(const char *path, int device,
                                       struct gpushim_scope_totals *out)
{
    struct gpushim_scope_totals all = {.size = sizeof(all)};
    struct gs_state *state;
    if (!out || out->size < sizeof(out->size) || !path || !path[0] ||
        (device < GPUSHIM_IMPORTED && device != GPUSHIM_ALL_DEVICES) ||
        device >= GS_MAX_DEVICES) {
        return GPUSHIM_INVALID;
    }
    if (!gs_state_peek() || !(state = gs_enter())) {
        return GPUSHIM_INACTIVE;
    }
    gpushim_result result = fill_scope(state, path, device, &all);
    gs_leave();
    all.size = out->size < sizeof(all) ? out->size : sizeof(all);
    memcpy(out, &all, all.size);
    return result;
}

gpushim_result gs_api_scope_path(char *out, size_t capacity)
{
    char path[GS_SCOPE_PATH_SIZE];
    if (!out || capacity == 0) {
        return GPUSHIM_INVALID;
    }
    bool any = gs_scopes_current_path(path);
    size_t length = strlen(path);
    if (length >= capacity) {
        return GPUSHIM_INVALID;
    }
    memcpy(out, path, length + 1);
    return any ? GPUSHIM_OK : GPUSHIM_NOT_FOUND;
}
