/*
 * physical.c - tracks the references to memory that has a handle.
 *
 * A program that grows its own segments holds tens of thousands of handles and mappings,
 * so the one are found by their keys, the others in a tree of their addresses. A released
 * handle may be reused while its former memory is still mapped: the handle then names the
 * new memory.
 *
 * A multicast object, a logical endpoint, and an array with parts that memory was mapped
 * into, hold other memory. Such an array, and an endpoint, has no record: it owns no
 * memory.
 *
 * Owns:  the maps and their entries.
 * Lock:  lock; never held across a driver call. The tracker is called under it only to
 *        change a record's size, or that its parts count.
 */
#include "shim/lifetimes/physical.h"

#include <search.h>
#include <stdlib.h>

#include "gs_hash.h"
#include "gs_locks.h"
#include "shim/memory/tell.h"

/* A part of an object that holds memory: a box of a level's texels of an array, or a
 * range, stored as a box of one dimension, of a layer's mip tail, of a multicast object or
 * of an endpoint. */
struct part {
    bool tail;
    unsigned level, layer;
    uint64_t begin[3], extent[3];
};

/* Memory that an object holds. */
struct binding {
    struct binding *next; /* of the same object */
    struct gs_physical *memory;
    int device; /* whose binding it is; -1: not known */
    struct part part;
};

struct gs_physical {
    UT_hash_handle hh;        /* in memories, by key, while its handle names it */
    struct gs_physical *next; /* next in a list that ends together */
    uint64_t key;
    size_t bytes;
    int device;               /* -1: not known */
    bool charged;             /* `bytes` are charged to `device` */
    bool grows;               /* its size is known only when it is mapped */
    CUcontext context;        /* it ends with this context; NULL: it outlives all */
    uint32_t record;          /* the tracker's record id; 0: none */
    struct binding *bindings; /* of an object that holds other memory */
    unsigned references;      /* the handles in use */
    unsigned holds;           /* mappings, bindings, releases in progress */
};

struct mapping {
    CUdeviceptr addr;
    size_t bytes;
    struct gs_physical *memory;
};

static struct gs_mutex lock = GS_MUTEX(GS_RANK_PHYSICAL);
static struct gs_physical *memories; /* under lock */
static void *mappings;               /* under lock: the root of a tree (tsearch) */

/* ---- with the lock held --------------------------------------------------------- */

/* The memory named by a handle. */
static struct gs_physical *find_memory(uint64_t key)
{
    struct gs_physical *memory = GS_HASH_FIND(memories, &key);
    return memory && memory->references > 0 ? memory : NULL;
}

/* Orders mappings, which never overlap: equal if they share a byte. */
static int by_address(const void *left, const void *right)
{
    const struct mapping *a = left, *b = right;
    if (a->addr < b->addr) {
        return b->addr - a->addr < a->bytes ? 0 : -1;
    }
    return a->addr - b->addr < b->bytes ? 0 : 1;
}

/* A mapping that has a byte of the range; NULL: none. */
static struct mapping *mapping_within(CUdeviceptr addr, size_t bytes)
{
    const struct mapping wanted = {.addr = addr, .bytes = bytes};
    struct mapping *const *found = bytes ? tfind(&wanted, &mappings, by_address) : NULL;
    return found ? *found : NULL;
}

static void remove_memory(struct gs_physical *memory)
{
    if (memory->hh.tbl) {
        HASH_DEL(memories, memory);
        memory->hh.tbl = NULL;
    }
}

/* Adds memory that is no longer reachable to the list. */
static void end_if_unreachable(struct gs_physical *memory, struct gs_physical **ended);

static bool is_within(const struct part *inner, const struct part *outer)
{
    bool within = inner->tail == outer->tail && inner->level == outer->level &&
                  inner->layer == outer->layer;
    for (unsigned i = 0; i < 3; i++) {
        within = within && inner->begin[i] >= outer->begin[i] &&
                 inner->begin[i] + inner->extent[i] <= outer->begin[i] + outer->extent[i];
    }
    return within;
}

/* Ends the object's bindings within the part; NULL: all of them.
 * In: device  only those of the device; -1: of any */
static void end_bindings(struct gs_physical *object, const struct part *part, int device,
                         struct gs_physical **ended)
{
    for (struct binding **link = &object->bindings; *link;) {
        struct binding *binding = *link;
        if ((part && !is_within(&binding->part, part)) ||
            (device >= 0 && binding->device >= 0 && binding->device != device)) {
            link = &binding->next;
            continue;
        }
        *link = binding->next;
        binding->memory->holds--;
        end_if_unreachable(binding->memory, ended);
        free(binding);
    }
}

static void end_if_unreachable(struct gs_physical *memory, struct gs_physical **ended)
{
    if (memory->references == 0 && memory->holds == 0) {
        remove_memory(memory);
        memory->next = *ended;
        *ended = memory;
        end_bindings(memory, NULL, -1, ended);
    }
}

static void end_mapping(struct mapping *mapping, struct gs_physical **ended)
{
    (void)tdelete(mapping, &mappings, by_address);
    mapping->memory->holds--;
    end_if_unreachable(mapping->memory, ended);
    free(mapping);
}

/* In: device  -1: that of the memory */
static void add_binding(struct gs_physical *object, const struct part *part, int device,
                        struct gs_physical *memory)
{
    struct binding *binding = calloc(1, sizeof(*binding));
    if (binding) {
        *binding = (struct binding){object->bindings, memory,
                                    device >= 0 ? device : memory->device, *part};
        object->bindings = binding;
        memory->holds++;
    }
}

/* The array or endpoint with this key, added if new; NULL: no memory. */
static struct gs_physical *object_of(uint64_t key)
{
    struct gs_physical *object = find_memory(key);
    if (!object && (object = calloc(1, sizeof(*object)))) {
        object->key = key;
        object->references = 1;
        if (!GS_HASH_ADD(memories, key, object)) {
            free(object);
            object = NULL;
        }
    }
    return object;
}

/* ---- with the lock released ----------------------------------------------------- */

/* Ends memory that is no longer in the maps. */
static void end_memory(struct gs_state *state, struct gs_physical *ended, enum gs_api api)
{
    while (ended) {
        struct gs_physical *memory = ended;
        ended = memory->next;
        if (memory->charged) {
            gs_limits_uncharge(memory->device, memory->bytes);
        }
        gs_record_ends(state, memory->record, api, 0, GS_TRACE_HOW_NONE);
        free(memory);
    }
}

void gs_physical_created(struct gs_state *state, const struct gs_call *call, uint64_t key,
                         size_t bytes, bool grows)
{
    struct gs_physical *ended = NULL, *made = calloc(1, sizeof(*made));
    struct gs_call by_id = *call;
    if (!made) {
        if (call->charged) {
            gs_limits_uncharge(call->device, bytes);
        }
        gs_record_missed();
        return;
    }
    by_id.by_id = true;
    *made = (struct gs_physical){.key = key,
                                 .bytes = bytes,
                                 .device = call->device,
                                 .charged = call->charged,
                                 .grows = grows,
                                 .context = call->owner,
                                 .record = gs_tell_allocated(state, &by_id, key, bytes),
                                 .references = 1};
    gs_mutex_lock(&lock);
    struct gs_physical *former = GS_HASH_FIND(memories, &key);
    if (former) { /* imported by two threads, or released past the hooks */
        made->references += former->references;
        former->references = 0;
        remove_memory(former);
        end_if_unreachable(former, &ended);
    }
    if (!GS_HASH_ADD(memories, key, made)) {
        made->next = ended;
        ended = made;
    }
    gs_mutex_unlock(&lock);
    end_memory(state, ended, GS_API_UNKNOWN);
}

bool gs_physical_referenced(uint64_t key)
{
    gs_mutex_lock(&lock);
    struct gs_physical *memory = find_memory(key);
    if (memory) {
        memory->references++;
    }
    gs_mutex_unlock(&lock);
    return memory != NULL;
}

void gs_physical_retained(CUdeviceptr addr)
{
    gs_mutex_lock(&lock);
    struct mapping *mapping = mapping_within(addr, 1);
    if (mapping) {
        mapping->memory->references++;
    }
    gs_mutex_unlock(&lock);
}

struct gs_physical *gs_physical_release(uint64_t key)
{
    gs_mutex_lock(&lock);
    struct gs_physical *memory = find_memory(key);
    if (memory) {
        memory->references--;
        memory->holds++;
    }
    gs_mutex_unlock(&lock);
    return memory;
}

void gs_physical_released(struct gs_state *state, struct gs_physical *memory,
                          bool released, enum gs_api api)
{
    struct gs_physical *ended = NULL;
    gs_mutex_lock(&lock);
    memory->holds--;
    memory->references += released ? 0 : 1;
    end_if_unreachable(memory, &ended);
    gs_mutex_unlock(&lock);
    end_memory(state, ended, api);
}

void gs_physical_mapped(struct gs_state *state, CUmemGenericAllocationHandle handle,
                        CUdeviceptr addr, size_t bytes, size_t offset)
{
    struct gs_physical *ended = NULL;
    struct mapping *mapping = calloc(1, sizeof(*mapping));
    gs_mutex_lock(&lock);
    struct gs_physical *memory =
        mapping ? find_memory(gs_key(GS_KEY_ALLOCATION, handle)) : NULL;
    struct mapping *former;
    while (memory &&
           (former = mapping_within(addr, bytes))) { /* unmapped past the hooks */
        end_mapping(former, &ended);
    }
    if (memory) {
        mapping->addr = addr;
        mapping->memory = memory;
        mapping->bytes = bytes;
        if (tsearch(mapping, &mappings, by_address)) {
            memory->holds++;
            mapping = NULL;
        }
    }
    if (memory && memory->grows && offset + bytes > memory->bytes) {
        gs_tracker_grow(state->tracker, memory->record, offset + bytes - memory->bytes);
        memory->bytes = offset + bytes;
    }
    gs_mutex_unlock(&lock);
    free(mapping);
    end_memory(state, ended, GS_API_UNKNOWN);
}

void gs_physical_unmapped(struct gs_state *state, CUdeviceptr addr, size_t bytes)
{
    struct gs_physical *ended = NULL;
    struct mapping *mapping;
    gs_mutex_lock(&lock);
    while ((mapping = mapping_within(addr, bytes))) {
        end_mapping(mapping, &ended);
    }
    gs_mutex_unlock(&lock);
    end_memory(state, ended, GS_API_cuMemUnmap);
}

void gs_physical_divide(struct gs_state *state, CUdeviceptr addr, size_t bytes)
{
    const CUdeviceptr end = addr + bytes;
    struct mapping *mapping;
    gs_mutex_lock(&lock);
    while (addr < end && (mapping = mapping_within(addr, 1))) {
        gs_tracker_divide_record(state->tracker, mapping->memory->record);
        addr = mapping->addr + mapping->bytes;
    }
    gs_mutex_unlock(&lock);
}

static struct part byte_range(size_t offset, size_t bytes)
{
    return (struct part){.begin = {offset}, .extent = {bytes, 1, 1}};
}

/* The memory bound at `done` bytes of the range, or NULL. The lock is held.
 * Out: *end  where it ends in the range */
static struct gs_physical *memory_at(const struct gs_bound *bound, size_t done,
                                     size_t *end)
{
    *end = bound->bytes;
    if (bound->memory) {
        return find_memory(gs_key(GS_KEY_ALLOCATION, bound->memory));
    }
    const struct mapping *mapping = mapping_within(bound->addr + done, 1);
    if (!mapping) {
        return NULL;
    }
    *end = (size_t)(mapping->addr - bound->addr) + mapping->bytes;
    return mapping->memory;
}

void gs_physical_bound(const struct gs_bound *bound)
{
    bool is_endpoint = gs_key_space(bound->object) == GS_KEY_ENDPOINT;
    gs_mutex_lock(&lock);
    for (size_t done = 0, end; done < bound->bytes; done = end) {
        const struct part part =
            byte_range(bound->offset + done, 1); /* unbound with it */
        struct gs_physical *memory = memory_at(bound, done, &end), *object = NULL;
        if (memory) {
            object = is_endpoint ? object_of(bound->object) : find_memory(bound->object);
        }
        if (object) {
            add_binding(object, &part, bound->device, memory);
        }
    }
    gs_mutex_unlock(&lock);
}

void gs_physical_unbound(struct gs_state *state, const struct gs_bound *range)
{
    struct gs_physical *ended = NULL;
    const struct part part = byte_range(range->offset, range->bytes);
    gs_mutex_lock(&lock);
    struct gs_physical *object = find_memory(range->object);
    if (object) {
        end_bindings(object, &part, range->device, &ended);
    }
    gs_mutex_unlock(&lock);
    end_memory(state, ended, GS_API_UNKNOWN);
}

/* ---- parts of arrays (CUDA Driver API, cuMemMapArrayAsync) ---------------------- */

static uint64_t array_key(const CUarrayMapInfo *info)
{
    uintptr_t handle = info->resourceType == CU_RESOURCE_TYPE_ARRAY
                           ? (uintptr_t)info->resource.array
                           : (uintptr_t)info->resource.mipmap;
    return gs_key(GS_KEY_ARRAY, handle);
}

static struct part part_of(const CUarrayMapInfo *info)
{
    if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
        struct part tail =
            byte_range(info->subresource.miptail.offset, info->subresource.miptail.size);
        tail.tail = true;
        tail.layer = info->subresource.miptail.layer;
        return tail;
    }
    return (struct part){.level = info->subresource.sparseLevel.level,
                         .layer = info->subresource.sparseLevel.layer,
                         .begin = {info->subresource.sparseLevel.offsetX,
                                   info->subresource.sparseLevel.offsetY,
                                   info->subresource.sparseLevel.offsetZ},
                         .extent = {info->subresource.sparseLevel.extentWidth,
                                    info->subresource.sparseLevel.extentHeight,
                                    info->subresource.sparseLevel.extentDepth}};
}

void gs_physical_array_mapped(struct gs_state *state, const CUarrayMapInfo *list,
                              unsigned count, CUcontext context)
{
    struct gs_physical *ended = NULL;
    gs_mutex_lock(&lock);
    for (unsigned i = 0; i < count; i++) {
        const struct part part = part_of(&list[i]);
        struct gs_physical *array = find_memory(array_key(&list[i]));
        struct gs_physical *memory =
            list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP
                ? find_memory(gs_key(GS_KEY_ALLOCATION, list[i].memHandle.memHandle))
                : NULL;
        if (array) {
            end_bindings(array, &part, -1, &ended);
        }
        if (memory && (array = object_of(array_key(&list[i])))) {
            array->context = context;
            add_binding(array, &part, -1, memory);
        }
    }
    gs_mutex_unlock(&lock);
    end_memory(state, ended, GS_API_cuMemMapArrayAsync);
}

void gs_physical_object_ended(struct gs_state *state, uint64_t key, enum gs_api api)
{
    struct gs_physical *ended = NULL;
    gs_mutex_lock(&lock);
    struct gs_physical *object = find_memory(key);
    if (object) {
        object->references = 0;
        end_if_unreachable(object, &ended);
    }
    gs_mutex_unlock(&lock);
    end_memory(state, ended, api);
}

/* ---- ends ----------------------------------------------------------------------- */

void gs_physical_context_lost(struct gs_state *state, CUcontext context)
{
    struct gs_physical *ended = NULL;
    struct gs_physical *memory, *next;
    gs_mutex_lock(&lock);
    /* Entries that end with an array stay readable until the loop has ended. */
    HASH_ITER (hh, memories, memory, next) {
        if (context && memory->context == context && memory->references > 0) {
            memory->references = 0;
            end_if_unreachable(memory, &ended);
        }
    }
    gs_mutex_unlock(&lock);
    end_memory(state, ended, GS_API_UNKNOWN);
}

void gs_physical_reset(void)
{
    gs_mutex_init(&lock, GS_RANK_PHYSICAL);
    memories = NULL; /* another thread may have been changing them */
    mappings = NULL;
}
