/*
 * contexts.c - the map of contexts, and the access of contexts to each other's memory.
 * Owns:  struct gs_contexts of the state.
 * Lock:  contexts->lock for the map; around it contexts->ending to add or end an entry.
 *        Neither is ever held across a driver call.
 */
#include "shim/state/contexts.h"

#include <stdlib.h>
#include <string.h>

#include "gs_uncancelled.h"
#include "shim/parts.h"
#include "shim/state/all_contexts.h"
#include "shim/state/context_switch.h"
#include "shim/state/state.h"

void gs_contexts_init(struct gs_contexts *contexts, const struct gs_backend *backend,
                      const struct gs_event_ops *event_ops)
{
    *contexts =
        (struct gs_contexts){.generation = 1, .backend = backend, .event_ops = event_ops};
    gs_mutex_init(&contexts->ending, GS_RANK_ENDING);
    gs_mutex_init(&contexts->lock, GS_RANK_CONTEXTS);
}

/* ---- sets of handles; contexts->lock is held ------------------------------------- */

static bool set_has(const struct gs_context_set *set, struct gs_context_pair pair)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->items[i].owner == pair.owner && set->items[i].other == pair.other) {
            return true;
        }
    }
    return false;
}

static void set_add(struct gs_context_set *set, struct gs_context_pair pair)
{
    if (set_has(set, pair)) {
        return;
    }
    struct gs_context_pair *grown =
        reallocarray(set->items, set->count + 1, sizeof(*grown));
    if (grown) {
        set->items = grown;
        set->items[set->count] = pair;
        __atomic_store_n(&set->count, set->count + 1, __ATOMIC_RELEASE);
    }
}

/* The `other` of the owner's first pair, or NULL. */
static CUcontext set_find(const struct gs_context_set *set, CUcontext owner)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->items[i].owner == owner) {
            return set->items[i].other;
        }
    }
    return NULL;
}

/* Removes every pair that includes the context. */
static void set_remove(struct gs_context_set *set, CUcontext handle)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (set->items[i].owner != handle && set->items[i].other != handle) {
            set->items[kept++] = set->items[i];
        }
    }
    __atomic_store_n(&set->count, kept, __ATOMIC_RELEASE);
}

/* ---- the map -------------------------------------------------------------------- */

#define FIRST_BUCKET_BITS 6

/* contexts->lock is held, as in the functions below. There are buckets. */
static struct gs_context **bucket_of(const struct gs_contexts *contexts, CUcontext handle)
{
    uint64_t hash = (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15u;
    return &contexts->buckets[hash >> (64 - contexts->bucket_bits)];
}

static struct gs_context *find_entry(const struct gs_contexts *contexts, CUcontext handle)
{
    if (!contexts->buckets) {
        return NULL;
    }
    struct gs_context *entry = *bucket_of(contexts, handle);
    while (entry && entry->handle != handle) {
        entry = entry->same_hash;
    }
    return entry;
}

/* Makes as many buckets as entries. Returns false if there are none at all. */
static bool grow_buckets(struct gs_contexts *contexts)
{
    if (contexts->buckets && contexts->entry_count < (size_t)1 << contexts->bucket_bits) {
        return true;
    }
    unsigned bits = contexts->buckets ? contexts->bucket_bits + 1 : FIRST_BUCKET_BITS;
    struct gs_context **larger = calloc((size_t)1 << bits, sizeof(struct gs_context *));
    if (!larger) {
        return contexts->buckets != NULL; /* longer chains are only slower */
    }
    free(contexts->buckets);
    contexts->buckets = larger;
    contexts->bucket_bits = bits;
    for (struct gs_context *entry = contexts->entries; entry; entry = entry->next) {
        struct gs_context **bucket = bucket_of(contexts, entry->handle);
        entry->same_hash = *bucket;
        *bucket = entry;
    }
    return true;
}

/* Returns false without memory. */
static bool insert_entry(struct gs_contexts *contexts, struct gs_context *entry)
{
    if (!grow_buckets(contexts)) {
        return false;
    }
    struct gs_context **bucket = bucket_of(contexts, entry->handle);
    entry->same_hash = *bucket;
    *bucket = entry;
    entry->next = contexts->entries;
    entry->link = &contexts->entries;
    if (entry->next) {
        entry->next->link = &entry->next;
    }
    contexts->entries = entry;
    contexts->entry_count++;
    contexts->view_count += entry->owner != entry->handle;
    contexts->at = NULL;
    return true;
}

static void remove_entry(struct gs_contexts *contexts, struct gs_context *entry)
{
    struct gs_context **same = bucket_of(contexts, entry->handle);
    while (*same != entry) {
        same = &(*same)->same_hash;
    }
    *same = entry->same_hash;
    *entry->link = entry->next;
    if (entry->next) {
        entry->next->link = entry->link;
    }
    contexts->entry_count--;
    contexts->view_count -= entry->owner != entry->handle;
    contexts->at = NULL;
}

/* The device's primary context; NULL if not active. Does not create one. */
static CUcontext primary_of(CUdevice device)
{
    const struct gs_real *real = gs_real();
    unsigned flags;
    int active = 0;
    CUcontext primary = NULL;
    if (!real->cuDevicePrimaryCtxGetState || !real->cuDevicePrimaryCtxRetain ||
        real->cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS ||
        !active || real->cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS) {
        return NULL;
    }
    real->cuDevicePrimaryCtxRelease_v2(device);
    return primary;
}

/* Writes it as NVML and DCGM have it; "": not known. */
static void name_uuid(CUdevice device, char out[GS_DEVICE_UUID_BYTES])
{
    const struct gs_real *real = gs_real();
    CUuuid uuid;
    size_t length = 4;
    strcpy(out, "GPU-");
    if (!real->cuDeviceGetUuid || real->cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS) {
        out[0] = '\0';
        return;
    }
    for (unsigned i = 0; i < sizeof(uuid.bytes); i++) {
        static const char digits[] = "0123456789abcdef";
        unsigned char byte = (unsigned char)uuid.bytes[i];
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            out[length++] = '-';
        }
        out[length++] = digits[byte >> 4];
        out[length++] = digits[byte & 15];
    }
    out[length] = '\0';
}

/* Records the device's name, bus id and UUID for reports, once. */
static void record_device(struct gs_state *state, CUdevice device, int ordinal)
{
    const struct gs_real *real = gs_real();
    char name[GS_DEVICE_NAME_BYTES] = "", bus[GS_DEVICE_BUS_BYTES] = "",
         uuid[GS_DEVICE_UUID_BYTES];
    if (real->cuDeviceGetName(name, sizeof(name), device) != CUDA_SUCCESS) {
        name[0] = '\0';
    }
    if (!real->cuDeviceGetPCIBusId ||
        real->cuDeviceGetPCIBusId(bus, sizeof(bus), device) != CUDA_SUCCESS) {
        bus[0] = '\0';
    }
    name_uuid(device, uuid);
    gs_mutex_lock(&state->contexts.lock);
    if (ordinal >= 0 && ordinal < GS_MAX_DEVICES) {
        if (!state->device_named[ordinal]) {
            __builtin_memcpy(state->device_names[ordinal], name, sizeof(name));
            __builtin_memcpy(state->device_buses[ordinal], bus, sizeof(bus));
            __builtin_memcpy(state->device_uuids[ordinal], uuid, sizeof(uuid));
            __atomic_store_n(&state->device_named[ordinal], true, __ATOMIC_RELEASE);
        }
        gs_parts_device_named(ordinal, name, bus, uuid);
        if (ordinal >= state->device_count) {
            __atomic_store_n(&state->device_count, ordinal + 1, __ATOMIC_RELEASE);
        }
    }
    gs_mutex_unlock(&state->contexts.lock);
}

/* The driver's id of the context (since CUDA 12.0), which distinguishes contexts with a
 * recycled handle. */
static unsigned long long context_id(CUcontext handle)
{
    unsigned long long id = 0;
    if (!gs_real()->cuCtxGetId || gs_real()->cuCtxGetId(handle, &id) != CUDA_SUCCESS) {
        return 0;
    }
    return id;
}

/* Whether the context was destroyed or reset. A primary context that was reset stays
 * current, and may revive with the same handle: an entry made in between would not be
 * known as primary, and would outlive the context. */
static bool has_ended(CUcontext handle)
{
    unsigned long long id;
    return gs_real()->cuCtxGetId && gs_real()->cuCtxGetId(handle, &id) != CUDA_SUCCESS;
}

CUgreenCtx gs_context_green(struct gs_state *state, CUcontext view)
{
    gs_mutex_lock(&state->contexts.lock);
    CUcontext green = set_find(&state->contexts.views, view);
    gs_mutex_unlock(&state->contexts.lock);
    return (CUgreenCtx)green;
}

/* A new entry for the current context; makes all driver calls before the lock is
 * taken. */
static struct gs_context *make_entry(struct gs_state *state, CUcontext handle)
{
    CUdevice device = 0;
    CUcontext primary;
    if (gs_real()->cuCtxGetDevice(&device) != CUDA_SUCCESS || has_ended(handle)) {
        return NULL;
    }
    struct gs_context *entry = calloc(1, sizeof(*entry));
    if (!entry) {
        return NULL;
    }
    primary = primary_of(device);
    entry->handle = handle;
    entry->owner = primary && gs_context_green(state, handle) ? primary : handle;
    entry->device = (int)device;
    entry->seen.device = gs_submissions_count_of(entry->device);
    gs_submissions_add_device(entry->device);
    entry->primary = primary == handle;
    entry->id = context_id(handle);
    gs_epochs_init(&entry->epochs, state->contexts.event_ops, entry);
    record_device(state, device, entry->device);
    gs_parts_context_found(state, entry);
    return entry;
}

/* Adds `entry` unless another thread has added one; returns the one in the map; NULL: no
 * memory. */
static struct gs_context *add_entry(struct gs_state *state, struct gs_context *entry)
{
    struct gs_contexts *contexts = &state->contexts;
    struct gs_context *found = NULL;
    gs_mutex_lock(&contexts->ending);
    gs_mutex_lock(&contexts->lock);
    found = find_entry(contexts, entry->handle);
    if (!found && insert_entry(contexts, entry)) {
        if (state->pool && !set_find(&contexts->views, entry->handle) &&
            gs_heap_create(state->pool, contexts->backend, entry, entry->device,
                           &entry->heap) != GS_OK) {
            entry->heap = NULL;
        }
        __atomic_add_fetch(&contexts->entered, 1, __ATOMIC_RELEASE);
        found = entry;
    }
    gs_mutex_unlock(&contexts->lock);
    gs_mutex_unlock(&contexts->ending);
    if (found != entry) {
        free(entry);
    }
    if (!found) {
        return NULL;
    }
    gs_all_contexts_add(found->handle);
    if (found->primary || found->owner != found->handle) {
        gs_all_contexts_add_primary(found->owner, found->device);
    }
    if (found == entry) {
        gs_parts_context_added(state);
    }
    return found;
}

const struct gs_context *gs_context_find(struct gs_state *state, CUcontext handle)
{
    struct gs_context *found = NULL;
    gs_mutex_lock(&state->contexts.lock);
    found = find_entry(&state->contexts, handle);
    gs_mutex_unlock(&state->contexts.lock);
    return found;
}

/* Finds the entry of a context other than the thread's last one. */
static __attribute__((noinline)) const struct gs_context *
meet(struct gs_state *state, CUcontext handle, uint64_t generation)
{
    int before = gs_uncancelled_begin(); /* make_entry reads files */
    const struct gs_context *found = gs_context_find(state, handle);
    if (found && found->id != 0 && found->id != context_id(handle)) {
        /* Another context has the same handle: the old one ended without a notice. */
        (void)gs_context_end(state, handle, found, gs_parts_context_lost);
        found = NULL;
    }
    if (!found) {
        struct gs_context *entry = make_entry(state, handle);
        found = entry ? add_entry(state, entry) : NULL;
    }
    gs_thread.context = found;
    gs_thread.context_generation = generation;
    gs_uncancelled_end(before);
    return found;
}

const struct gs_context *gs_context_current(struct gs_state *state)
{
    CUcontext handle = NULL;
    if (GS_UNLIKELY(gs_real_now()->cuCtxGetCurrent(&handle) != CUDA_SUCCESS || !handle)) {
        return NULL;
    }
    uint64_t generation = __atomic_load_n(&state->contexts.generation, __ATOMIC_ACQUIRE);
    const struct gs_context *last = gs_thread.context;
    if (GS_LIKELY(last && last->handle == handle &&
                  gs_thread.context_generation == generation)) {
        return last;
    }
    return meet(state, handle, generation);
}

const struct gs_context *gs_context_current_known(struct gs_state *state)
{
    CUcontext handle = NULL;
    if (gs_real()->cuCtxGetCurrent(&handle) != CUDA_SUCCESS || !handle) {
        return NULL;
    }
    uint64_t generation = __atomic_load_n(&state->contexts.generation, __ATOMIC_ACQUIRE);
    if (gs_thread.context && gs_thread.context->handle == handle &&
        gs_thread.context_generation == generation) {
        return gs_thread.context;
    }
    return gs_context_find(state, handle);
}

/* The entry of a context that need not be current, added to the map if new; NULL: it has
 * ended, or no memory. */
static const struct gs_context *find_or_meet(struct gs_state *state, CUcontext handle)
{
    bool pushed;
    const struct gs_context *found = gs_context_find(state, handle);
    if (!found && gs_context_push(handle, &pushed) == CUDA_SUCCESS) {
        found = gs_context_current(state);
        gs_context_pop(pushed);
    }
    return found;
}

const struct gs_context *gs_context_of_stream(struct gs_state *state,
                                              const struct gs_context *current,
                                              CUstream stream)
{
    CUcontext home = NULL;
    if (GS_LIKELY(gs_all_contexts_are_one()) || !current ||
        gs_stream_context(stream, &home) != CUDA_SUCCESS || home == current->handle) {
        return current;
    }
    const struct gs_context *found = find_or_meet(state, home);
    return found ? found : current;
}

const struct gs_context *gs_context_of_view(struct gs_state *state,
                                            const struct gs_context *view)
{
    const struct gs_context *found = find_or_meet(state, view->owner);
    return found && found->primary ? found : view;
}

bool gs_contexts_are_one(const struct gs_state *state)
{
    return state && __atomic_load_n(&state->contexts.entered, __ATOMIC_ACQUIRE) == 1;
}

const struct gs_context *gs_context_nth(struct gs_state *state, size_t index)
{
    struct gs_contexts *contexts = &state->contexts;
    gs_mutex_lock(&contexts->lock);
    bool follows = contexts->at && contexts->at_index <= index;
    struct gs_context *entry = follows ? contexts->at : contexts->entries;
    for (size_t i = follows ? contexts->at_index : 0; entry && i < index; i++) {
        entry = entry->next;
    }
    contexts->at = entry;
    contexts->at_index = index;
    gs_mutex_unlock(&contexts->lock);
    return entry;
}

const struct gs_context *gs_context_primary(struct gs_state *state, int device)
{
    struct gs_context *found = NULL;
    struct gs_context *entry;
    gs_mutex_lock(&state->contexts.lock);
    for (entry = state->contexts.entries; entry; entry = entry->next) {
        if (entry->primary && entry->device == device) {
            found = entry;
        }
    }
    gs_mutex_unlock(&state->contexts.lock);
    return found;
}

CUcontext gs_context_owner(struct gs_state *state, CUcontext handle)
{
    const struct gs_context *context = gs_context_find(state, handle);
    return context ? context->owner : handle;
}

bool gs_context_owns(struct gs_state *state, CUcontext owner)
{
    gs_mutex_lock(&state->contexts.lock);
    const struct gs_context *entry = state->contexts.entries;
    while (entry && entry->owner != owner) {
        entry = entry->next;
    }
    gs_mutex_unlock(&state->contexts.lock);
    return entry != NULL;
}

/* The views of a primary context end with it, though their handles do not. contexts->lock
 * is held. */
static void end_views(const struct gs_contexts *contexts, CUcontext primary)
{
    const struct gs_context *entry = contexts->view_count ? contexts->entries : NULL;
    for (; entry; entry = entry->next) {
        if (entry->owner == primary && entry->handle != primary) {
            gs_all_contexts_remove(entry->handle);
        }
    }
}

bool gs_context_is_alive(const struct gs_context *context)
{
    return context && context->id != 0 && context_id(context->handle) == context->id;
}

bool gs_context_is_another(const struct gs_context *was, CUcontext handle)
{
    unsigned long long id = context_id(handle);
    return id != 0 && !(was && was->id == id);
}

/* Removes the entry from the map; contexts->ending is held. */
static void take_out(struct gs_contexts *contexts, CUcontext handle,
                     struct gs_context *entry)
{
    gs_mutex_lock(&contexts->lock);
    if (entry) {
        remove_entry(contexts, entry);
        __atomic_add_fetch(&contexts->generation, 1, __ATOMIC_RELEASE);
    }
    end_views(contexts, handle);
    set_remove(&contexts->views, handle);
    set_remove(&contexts->shared, handle);
    gs_mutex_unlock(&contexts->lock);
}

bool gs_context_end(struct gs_state *state, CUcontext handle,
                    const struct gs_context *was,
                    void (*forget)(struct gs_state *, CUcontext))
{
    struct gs_contexts *contexts = &state->contexts;
    struct gs_context *found;
    gs_mutex_lock(&contexts->ending);
    found = (struct gs_context *)gs_context_find(state, handle);
    if (found != was) {
        gs_mutex_unlock(&contexts->ending);
        return false;
    }
    forget(state, handle);
    gs_all_contexts_remove(handle);
    take_out(contexts, handle, found);
    gs_mutex_unlock(&contexts->ending);
    if (found && found->heap) {
        gs_heap_kill(found->heap);
        gs_parts_heap_ended(found);
    }
    if (found) {
        gs_parts_context_ended(found);
        gs_epochs_end(&found->epochs);
    }
    if (found && found->heap) {
        gs_heap_end(found->heap);
    }
    return true;
}

void gs_context_view(struct gs_state *state, CUcontext view, CUgreenCtx green)
{
    struct gs_context_pair pair = {view, (CUcontext)green};
    gs_mutex_lock(&state->contexts.lock);
    set_add(&state->contexts.views, pair);
    gs_mutex_unlock(&state->contexts.lock);
}

CUcontext gs_context_find_view(struct gs_state *state, CUgreenCtx green)
{
    const struct gs_context_set *views = &state->contexts.views;
    CUcontext found = NULL;
    gs_mutex_lock(&state->contexts.lock);
    for (size_t i = 0; i < views->count; i++) {
        if (views->items[i].other == (CUcontext)green) {
            found = views->items[i].owner;
        }
    }
    gs_mutex_unlock(&state->contexts.lock);
    return found;
}

void gs_context_share(struct gs_state *state, CUcontext owner, CUcontext other)
{
    struct gs_context_pair pair = {owner, other};
    gs_mutex_lock(&state->contexts.lock);
    set_add(&state->contexts.shared, pair);
    gs_mutex_unlock(&state->contexts.lock);
}

void gs_contexts_changed(struct gs_state *state)
{
    __atomic_add_fetch(&state->contexts.generation, 1, __ATOMIC_ACQ_REL);
    gs_sync_proof_context_ends();
}

/* Returns true if no work was submitted to the context's device since it was found
 * complete. */
static bool is_complete(const struct gs_context *context)
{
    return gs_submissions_idle_on(&context->device_idle_at, context->seen.device);
}

static bool accessors_are_complete(struct gs_contexts *contexts, CUcontext owner)
{
    CUcontext handle;
    for (size_t i = 0; (handle = gs_context_accessor(contexts, owner, i)) != NULL; i++) {
        gs_mutex_lock(&contexts->lock);
        const struct gs_context *accessor = find_entry(contexts, handle);
        gs_mutex_unlock(&contexts->lock);
        if (!accessor || !is_complete(accessor)) {
            return false;
        }
    }
    return true;
}

bool gs_context_counts_idle_among_others(struct gs_contexts *contexts,
                                         const struct gs_context *context)
{
    return gs_known_proof_holds() && is_complete(context) &&
           !__atomic_load_n(&context->unfenced, __ATOMIC_ACQUIRE) &&
           accessors_are_complete(contexts, context->handle);
}

CUcontext gs_context_search_accessor(struct gs_contexts *contexts, CUcontext owner,
                                     size_t index)
{
    const struct gs_context_set *shared = &contexts->shared;
    CUcontext found = NULL;
    gs_mutex_lock(&contexts->lock);
    for (size_t i = 0; i < shared->count && !found; i++) {
        bool may = shared->items[i].owner == owner ||
                   (!shared->items[i].owner && shared->items[i].other != owner);
        if (may && index-- == 0) {
            found = shared->items[i].other;
        }
    }
    gs_mutex_unlock(&contexts->lock);
    return found;
}
