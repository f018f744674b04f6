/*
 * physical.c - who still reaches memory that has a handle.
 *
 * A program that grows its own segments holds tens of thousands of handles and mappings,
 * so both are found by their keys. A handle that was released may be given out again
 * while its former memory is still mapped: only what has references is found by it.
 *
 * Owns:  the maps and what is in them.
 * Lock:  lock; never held over a driver call. The tracker is called under it only where
 *        a record's size changes.
 */
#include "physical.h"

#include <stdlib.h>
#include <string.h>

#include "gs_locks.h"
#include "key_map.h"

/* Memory bound to a multicast object. */
struct binding {
    struct binding *next; /* of the same object */
    struct gs_physical *memory;
    size_t offset; /* in the object */
};

struct gs_physical {
    struct gs_key_node node;  /* by its handle's key */
    struct gs_physical *next; /* of those that end together */
    struct gs_physical_origin origin;
    struct binding *bindings; /* a multicast object's */
    unsigned references;      /* handles */
    unsigned holds; /* mappings, bindings, tiles of arrays, releases on their way */
};

struct mapping {
    struct gs_key_node node; /* by its address */
    struct gs_physical *memory;
    size_t bytes;
};

static struct gs_mutex lock = GS_MUTEX(GS_RANK_PHYSICAL);
static struct gs_key_map memories; /* under lock */
static struct gs_key_map mappings; /* under lock */

/* ---- with the lock held -------------------------------------------------------------
 */

static struct gs_physical *memory_of(struct gs_key_node *node)
{
    return (struct gs_physical *)node;
}
static_assert(offsetof(struct gs_physical, node) == 0, "a node is its memory");

static struct mapping *mapping_of(struct gs_key_node *node)
{
    return (struct mapping *)node;
}
static_assert(offsetof(struct mapping, node) == 0, "a node is its mapping");

/* The memory that a handle names. */
static struct gs_physical *find(uint64_t key)
{
    struct gs_key_node *node = gs_key_map_find(&memories, key);
    while (node && memory_of(node)->references == 0) {
        node = gs_key_map_older(node);
    }
    return memory_of(node);
}

static bool holds_address(void *arg, const struct gs_key_node *node)
{
    const struct mapping *mapping = (const struct mapping *)node;
    return *(const CUdeviceptr *)arg - node->key < mapping->bytes;
}

/* The mapping that an address lies in. Fast for those that begin there. */
static struct mapping *mapping_at(CUdeviceptr addr)
{
    struct gs_key_node *node = gs_key_map_find(&mappings, addr);
    return mapping_of(node ? node : gs_key_map_search(&mappings, holds_address, &addr));
}

/* One hold less; what nobody reaches any more joins the list. */
static void end_if_unreachable(struct gs_physical *memory, struct gs_physical **ended)
{
    if (memory->references > 0 || memory->holds > 0) {
        return;
    }
    gs_key_map_take(&memories, &memory->node);
    memory->next = *ended;
    *ended = memory;
    while (memory->bindings) {
        struct binding *binding = memory->bindings;
        memory->bindings = binding->next;
        binding->memory->holds--;
        end_if_unreachable(binding->memory, ended);
        free(binding);
    }
}

static void unmap(struct mapping *mapping, struct gs_physical **ended)
{
    gs_key_map_take(&mappings, &mapping->node);
    mapping->memory->holds--;
    end_if_unreachable(mapping->memory, ended);
    free(mapping);
}

struct range {
    uint64_t begin, bytes;
};

static bool begins_within(void *arg, const struct gs_key_node *node)
{
    const struct range *range = arg;
    return node->key - range->begin < range->bytes;
}

static void bind(struct gs_physical *object, size_t offset, struct gs_physical *memory)
{
    struct binding *binding = calloc(1, sizeof(*binding));
    if (binding) {
        *binding = (struct binding){object->bindings, memory, offset};
        object->bindings = binding;
        memory->holds++;
    }
}

/* ---- without it ---------------------------------------------------------------------
 */

/* They are out of the maps: nobody else knows them. */
static void end(struct gs_state *state, struct gs_physical *ended, enum gs_api api)
{
    while (ended) {
        struct gs_physical *memory = ended;
        ended = memory->next;
        if (memory->origin.charged) {
            gs_limits_uncharge(memory->origin.device, memory->origin.bytes);
        }
        gs_record_note_ended(state, memory->origin.record, api);
        free(memory);
    }
}

void gs_physical_created(struct gs_state *state, const struct gs_physical_origin *origin)
{
    struct gs_physical *made = calloc(1, sizeof(*made));
    if (!made) {
        if (origin->charged) {
            gs_limits_uncharge(origin->device, origin->bytes);
        }
        gs_record_note_ended(state, origin->record, GS_API_UNKNOWN);
        return;
    }
    made->node.key = origin->key;
    made->origin = *origin;
    made->references = 1;
    gs_mutex_lock(&lock);
    gs_key_map_put(&memories, &made->node);
    gs_mutex_unlock(&lock);
}

bool gs_physical_referenced(uint64_t key)
{
    gs_mutex_lock(&lock);
    struct gs_physical *memory = find(key);
    if (memory) {
        memory->references++;
    }
    gs_mutex_unlock(&lock);
    return memory != NULL;
}

void gs_physical_retained(CUdeviceptr addr)
{
    gs_mutex_lock(&lock);
    struct mapping *mapping = mapping_at(addr);
    if (mapping) {
        mapping->memory->references++;
    }
    gs_mutex_unlock(&lock);
}

struct gs_physical *gs_physical_release(uint64_t key)
{
    gs_mutex_lock(&lock);
    struct gs_physical *memory = find(key);
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
    end(state, ended, api);
}

struct gs_physical *gs_physical_hold(uint64_t key)
{
    gs_mutex_lock(&lock);
    struct gs_physical *memory = find(key);
    if (memory) {
        memory->holds++;
    }
    gs_mutex_unlock(&lock);
    return memory;
}

void gs_physical_let_go(struct gs_state *state, struct gs_physical *memory,
                        enum gs_api api)
{
    struct gs_physical *ended = NULL;
    gs_mutex_lock(&lock);
    memory->holds--;
    end_if_unreachable(memory, &ended);
    gs_mutex_unlock(&lock);
    end(state, ended, api);
}

void gs_physical_mapped(struct gs_state *state, CUmemGenericAllocationHandle handle,
                        CUdeviceptr addr, size_t bytes, size_t offset)
{
    struct mapping *mapping = calloc(1, sizeof(*mapping));
    gs_mutex_lock(&lock);
    struct gs_physical *memory = mapping ? find(gs_key(GS_KEY_ALLOCATION, handle)) : NULL;
    if (memory) {
        mapping->node.key = addr;
        mapping->memory = memory;
        mapping->bytes = bytes;
        gs_key_map_put(&mappings, &mapping->node);
        memory->holds++;
        mapping = NULL;
    }
    if (memory && memory->origin.grows && offset + bytes > memory->origin.bytes) {
        gs_tracker_grow(state->tracker, memory->origin.record,
                        offset + bytes - memory->origin.bytes);
        memory->origin.bytes = offset + bytes;
    }
    gs_mutex_unlock(&lock);
    free(mapping);
}

void gs_physical_unmapped(struct gs_state *state, CUdeviceptr addr, size_t bytes)
{
    struct gs_physical *ended = NULL;
    struct range left = {addr, bytes};
    struct gs_key_node *node;
    gs_mutex_lock(&lock);
    /* One behind the other, as the driver wants them. */
    while (left.bytes > 0 && (node = gs_key_map_find(&mappings, left.begin))) {
        size_t one = mapping_of(node)->bytes;
        unmap(mapping_of(node), &ended);
        left.begin += one;
        left.bytes -= one < left.bytes ? one : left.bytes;
    }
    /* Something in between was mapped where nobody saw it. */
    while (left.bytes > 0 &&
           (node = gs_key_map_search(&mappings, begins_within, &left))) {
        unmap(mapping_of(node), &ended);
    }
    gs_mutex_unlock(&lock);
    end(state, ended, GS_API_cuMemUnmap);
}

void gs_physical_bound(CUmemGenericAllocationHandle handle, size_t offset, size_t bytes,
                       CUmemGenericAllocationHandle memory_handle, CUdeviceptr addr)
{
    gs_mutex_lock(&lock);
    struct gs_physical *object = find(gs_key(GS_KEY_ALLOCATION, handle));
    if (object && memory_handle) {
        struct gs_physical *memory = find(gs_key(GS_KEY_ALLOCATION, memory_handle));
        if (memory) {
            bind(object, offset, memory);
        }
    }
    for (size_t done = 0; object && !memory_handle && done < bytes;) {
        const struct mapping *mapping = mapping_at(addr + done);
        if (!mapping) {
            break;
        }
        bind(object, offset + done, mapping->memory);
        done = (size_t)(mapping->node.key - addr) + mapping->bytes;
    }
    gs_mutex_unlock(&lock);
}

void gs_physical_unbound(struct gs_state *state, CUmemGenericAllocationHandle handle,
                         int device, size_t offset, size_t bytes)
{
    struct gs_physical *ended = NULL;
    gs_mutex_lock(&lock);
    struct gs_physical *object = find(gs_key(GS_KEY_ALLOCATION, handle));
    for (struct binding **link = object ? &object->bindings : NULL; link && *link;) {
        struct binding *binding = *link;
        int bound = binding->memory->origin.device;
        if (binding->offset - offset >= bytes || (bound >= 0 && bound != device)) {
            link = &binding->next;
            continue;
        }
        *link = binding->next;
        binding->memory->holds--;
        end_if_unreachable(binding->memory, &ended);
        free(binding);
    }
    gs_mutex_unlock(&lock);
    end(state, ended, GS_API_UNKNOWN);
}

static bool ends_with(void *arg, const struct gs_key_node *node)
{
    const struct gs_physical *memory = (const struct gs_physical *)node;
    return memory->origin.context == arg && memory->references > 0;
}

void gs_physical_context_lost(struct gs_state *state, CUcontext context)
{
    struct gs_physical *ended = NULL;
    struct gs_key_node *node;
    gs_mutex_lock(&lock);
    while (context && (node = gs_key_map_search(&memories, ends_with, context))) {
        memory_of(node)->references = 0;
        end_if_unreachable(memory_of(node), &ended);
    }
    gs_mutex_unlock(&lock);
    end(state, ended, GS_API_UNKNOWN);
}

void gs_physical_reset(void)
{
    gs_mutex_init(&lock, GS_RANK_PHYSICAL);
    memset(&memories, 0,
           sizeof(memories)); /* another thread may have been changing them */
    memset(&mappings, 0, sizeof(mappings));
}
