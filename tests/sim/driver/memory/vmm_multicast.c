/*
 * vmm_multicast.c - multicast objects: one address, the memories of several devices
 * behind it.
 *
 * The alias of a mapping shows, unit by unit, the first memory bound there; when an
 * operation that wrote is over, what it wrote is carried to the other ones. That makes
 * plain writes reach all of them, which is what the address is for; reductions are not
 * modelled, for no kernel here does one. Objects are not shared between processes.
 *
 * Owns:  teams and bindings.   Lock: sim_vmm_lock.
 * Source: Driver API, "Multicast Object Management".
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "op.h"
#include "order.h"
#include "sched.h"
#include "space.h"
#include "vmm.h"
#include "vmm_range.h"

#define POLL_NS 200000

struct binding {
    struct binding *next;
    int device;
    size_t offset, bytes; /* in the object */
    int fd;               /* where the memory's pages are */
    size_t fd_offset;
    uintptr_t place;             /* the same to the oracle */
    struct sim_physical *memory; /* counted in its users; or NULL: */
    struct sim_alloc *alloc;     /* stream-ordered memory, with a reference */
};

struct sim_multicast {
    unsigned team_size; /* immutable */
    uint32_t team;      /* bit per device added */
    size_t bytes;       /* immutable */
    struct binding *bindings;
    struct sim_mapping *mappings;
};

static bool is_complete(const struct sim_multicast *multicast)
{
    return (unsigned)__builtin_popcount(multicast->team) == multicast->team_size;
}

struct sim_physical *sim_multicast_await_team(CUmemGenericAllocationHandle handle)
{
    const struct timespec pause = {0, POLL_NS};

    for (;;) {
        struct sim_physical *physical = sim_physical_get(handle);
        if (!physical || !physical->multicast || is_complete(physical->multicast))
            return physical;
        pthread_mutex_unlock(&sim_vmm_lock);
        sim_sched_point();
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        pthread_mutex_lock(&sim_vmm_lock);
    }
}

/* ---- bindings ---- */

static bool is_alive(const struct binding *binding)
{
    return !binding->alloc || sim_memory_state(binding->alloc) != SIM_MEMORY_DEAD;
}

/* The next binding at an offset, from `binding` on; NULL if there is none. */
static struct binding *at_offset(struct binding *binding, size_t offset)
{
    while (binding && (offset - binding->offset >= binding->bytes || !is_alive(binding)))
        binding = binding->next;
    return binding;
}

bool sim_multicast_is_bound(const struct sim_multicast *multicast, size_t offset)
{
    return at_offset(multicast->bindings, offset) != NULL;
}

static bool refresh(struct sim_mapping *mapping)
{
    const struct sim_multicast *multicast = mapping->physical->multicast;

    for (size_t done = 0; done < mapping->bytes; done += SIM_UNIT_BYTES) {
        size_t offset = mapping->offset + done;
        const struct binding *binding = at_offset(multicast->bindings, offset);
        sim_order_place(mapping->base + done, SIM_UNIT_BYTES,
                        binding ? binding->place + offset - binding->offset : 0);
        if (!binding)
            sim_range_hide(mapping->range, mapping->base + done, SIM_UNIT_BYTES);
        else if (!sim_range_show(mapping->range, mapping->base + done, SIM_UNIT_BYTES,
                                 binding->fd,
                                 binding->fd_offset + offset - binding->offset))
            return false;
    }
    return true;
}

static bool refresh_all(struct sim_multicast *multicast)
{
    bool shown = true;

    for (struct sim_mapping *mapping = multicast->mappings; mapping && shown;
         mapping = mapping->next)
        shown = refresh(mapping);
    return shown;
}

bool sim_multicast_show(struct sim_mapping *mapping)
{
    struct sim_multicast *multicast = mapping->physical->multicast;

    if (!refresh(mapping)) {
        sim_range_hide(mapping->range, mapping->base, mapping->bytes);
        return false;
    }
    mapping->next = multicast->mappings;
    multicast->mappings = mapping;
    return true;
}

void sim_multicast_forget(struct sim_mapping *mapping)
{
    struct sim_mapping **link = &mapping->physical->multicast->mappings;

    while (*link && *link != mapping)
        link = &(*link)->next;
    if (*link)
        *link = mapping->next;
}

static void free_binding(struct binding *binding)
{
    if (binding->memory)
        sim_physical_drop_user(binding->memory);
    if (binding->alloc)
        sim_memory_unref(binding->alloc);
    free(binding);
}

void sim_multicast_destroy(struct sim_multicast *multicast)
{
    while (multicast->bindings) {
        struct binding *binding = multicast->bindings;
        multicast->bindings = binding->next;
        free_binding(binding);
    }
    free(multicast);
}

void sim_multicast_visit(const struct sim_alloc *range, uintptr_t address, size_t bytes,
                         void (*visit)(uintptr_t address, size_t bytes, uintptr_t place,
                                       void *argument),
                         void *argument)
{
    const uintptr_t end = address + bytes;

    pthread_mutex_lock(&sim_vmm_lock);
    while (range->range->multicasts > 0 && address < end) {
        const struct sim_mapping *mapping = sim_vmm_at(range, address);
        uintptr_t next = (address / SIM_UNIT_BYTES + 1) * SIM_UNIT_BYTES;
        next = next < end ? next : end;
        if (mapping && mapping->physical->multicast) {
            size_t offset = mapping->offset + (address - mapping->base);
            struct binding *binding =
                at_offset(mapping->physical->multicast->bindings, offset);
            while (binding && (binding = at_offset(binding->next, offset)) != NULL)
                visit(address, next - address, binding->place + offset - binding->offset,
                      argument);
        }
        address = next;
    }
    pthread_mutex_unlock(&sim_vmm_lock);
}

/* Write one row to every memory bound there but the first, which has it. */
static void spread_row(const struct sim_alloc *range, uintptr_t address, size_t bytes)
{
    while (bytes > 0) {
        const struct sim_mapping *mapping = sim_vmm_at(range, address);
        size_t piece = SIM_UNIT_BYTES - address % SIM_UNIT_BYTES;
        if (piece > bytes)
            piece = bytes;
        if (mapping && mapping->physical->multicast) {
            size_t offset = mapping->offset + (address - mapping->base);
            const unsigned char *data = range->range->alias + (address - range->base);
            struct binding *binding =
                at_offset(mapping->physical->multicast->bindings, offset);
            while (binding && (binding = at_offset(binding->next, offset)) != NULL) {
                ssize_t written =
                    pwrite(binding->fd, data, piece,
                           (off_t)(binding->fd_offset + offset - binding->offset));
                (void)written; /* a file in memory of at least that length */
            }
        }
        address += piece;
        bytes -= piece;
    }
}

void sim_multicast_spread(const struct sim_access *access)
{
    pthread_mutex_lock(&sim_vmm_lock);
    for (size_t slice = 0; slice < access->slices; slice++) {
        for (size_t row = 0; row < access->rows; row++)
            spread_row(access->alloc,
                       access->address + slice * access->slice_pitch +
                           row * access->pitch,
                       access->row_bytes);
    }
    pthread_mutex_unlock(&sim_vmm_lock);
}

/* ---- calls ---- */

CUresult sim_multicast_create(unsigned devices, size_t bytes,
                              CUmemGenericAllocationHandle *out)
{
    struct sim_multicast *multicast = calloc(1, sizeof(*multicast));
    struct sim_physical *physical;

    if (!multicast)
        return CUDA_ERROR_OUT_OF_MEMORY;
    multicast->team_size = devices;
    multicast->bytes = bytes;
    physical = sim_physical_new_multicast(multicast, bytes);
    if (!physical) {
        free(multicast);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&sim_vmm_lock);
    CUresult res = sim_physical_enter(physical, out);
    pthread_mutex_unlock(&sim_vmm_lock);
    return res;
}

CUresult sim_multicast_add_device(CUmemGenericAllocationHandle handle, int device)
{
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&sim_vmm_lock);
    struct sim_physical *physical = sim_physical_get(handle);
    struct sim_multicast *multicast = physical ? physical->multicast : NULL;
    if (multicast && !is_complete(multicast) &&
        !(multicast->team & ((uint32_t)1 << device))) {
        multicast->team |= (uint32_t)1 << device;
        res = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sim_vmm_lock);
    return res;
}

/* Does [offset, offset + bytes) lie in something of that size? */
static bool fits(size_t offset, size_t bytes, size_t size)
{
    return bytes > 0 && offset <= size && bytes <= size - offset;
}

/* Enter a filled-in binding; it is not freed on failure. Needs vmm_lock. */
static CUresult bind(struct sim_multicast *multicast, struct binding *binding)
{
    if (!fits(binding->offset, binding->bytes, multicast->bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!(multicast->team & ((uint32_t)1 << binding->device)))
        return CUDA_ERROR_INVALID_DEVICE;
    for (const struct binding *other = multicast->bindings; other; other = other->next) {
        if (other->device == binding->device &&
            other->offset < binding->offset + binding->bytes &&
            binding->offset < other->offset + other->bytes)
            return CUDA_ERROR_INVALID_VALUE;
    }
    struct binding **end = &multicast->bindings;
    while (*end)
        end = &(*end)->next;
    *end = binding;
    if (refresh_all(multicast))
        return CUDA_SUCCESS;
    *end = NULL;
    bool back = refresh_all(multicast);
    (void)back; /* nothing but the mappings of the object itself can be wrong */
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult bind_memory(struct sim_multicast *multicast, size_t offset,
                            struct sim_physical *memory, size_t memory_offset,
                            size_t bytes)
{
    if (memory->multicast || sim_physical_is_host(memory) ||
        !fits(memory_offset, bytes, memory->bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct binding *binding = calloc(1, sizeof(*binding));
    if (!binding)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *binding = (struct binding){
        .device = memory->prop.location.id,
        .offset = offset,
        .bytes = bytes,
        .fd = memory->fd,
        .fd_offset = memory->fd_offset + memory_offset,
        .place = sim_physical_place(memory) + memory_offset,
        .memory = memory,
    };
    memory->users++;
    CUresult res = bind(multicast, binding);
    if (res != CUDA_SUCCESS)
        free_binding(binding);
    return res;
}

CUresult sim_multicast_bind(CUmemGenericAllocationHandle handle, size_t offset,
                            CUmemGenericAllocationHandle memory_handle,
                            size_t memory_offset, size_t bytes)
{
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&sim_vmm_lock);
    struct sim_physical *object = sim_multicast_await_team(handle);
    struct sim_physical *memory = sim_physical_get(memory_handle);
    if (object && object->multicast && memory)
        res = bind_memory(object->multicast, offset, memory, memory_offset, bytes);
    pthread_mutex_unlock(&sim_vmm_lock);
    return res;
}

/* Stream-ordered memory has whole units of its device. Needs vmm_lock. */
static CUresult bind_pool_memory(struct sim_multicast *multicast, size_t offset,
                                 struct sim_alloc *alloc, uintptr_t address, size_t bytes)
{
    const struct sim_space *space = sim_space_of(address);

    if (!space || !fits(address - alloc->base, bytes, alloc->block_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct binding *binding = calloc(1, sizeof(*binding));
    if (!binding)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *binding = (struct binding){
        .device = alloc->device,
        .offset = offset,
        .bytes = bytes,
        .fd = space->fd,
        .fd_offset = address - space->va,
        .place = address,
        .alloc = alloc,
    };
    sim_memory_ref(alloc);
    CUresult res = bind(multicast, binding);
    if (res != CUDA_SUCCESS)
        free_binding(binding);
    return res;
}

/* Memory by its address. Needs vmm_lock. */
static CUresult bind_found(struct sim_multicast *multicast, size_t offset,
                           struct sim_alloc *alloc, uintptr_t address, size_t bytes)
{
    if (alloc->kind == SIM_MEMORY_POOL)
        return bind_pool_memory(multicast, offset, alloc, address, bytes);
    if (alloc->kind != SIM_MEMORY_RESERVED)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_mapping *mapping = sim_vmm_at(alloc, address);
    if (!mapping || !fits(address - mapping->base, bytes, mapping->bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return bind_memory(multicast, offset, mapping->physical,
                       mapping->offset + (address - mapping->base), bytes);
}

CUresult sim_multicast_bind_address(CUmemGenericAllocationHandle handle, size_t offset,
                                    uintptr_t address, size_t bytes)
{
    struct sim_alloc *alloc = sim_memory_find(address);
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_vmm_lock);
    struct sim_physical *object = sim_multicast_await_team(handle);
    if (object && object->multicast)
        res = bind_found(object->multicast, offset, alloc, address, bytes);
    pthread_mutex_unlock(&sim_vmm_lock);
    sim_memory_unref(alloc);
    return res;
}

CUresult sim_multicast_unbind(CUmemGenericAllocationHandle handle, int device,
                              size_t offset, size_t bytes)
{
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&sim_vmm_lock);
    struct sim_physical *object = sim_physical_get(handle);
    struct sim_multicast *multicast = object ? object->multicast : NULL;
    struct binding **link = multicast ? &multicast->bindings : NULL;
    while (link && *link &&
           ((*link)->device != device || (*link)->offset != offset ||
            (*link)->bytes != bytes))
        link = &(*link)->next;
    if (link && *link) {
        struct binding *binding = *link;
        *link = binding->next;
        bool shown = refresh_all(multicast);
        (void)shown; /* refused: the mappings show the old memory a while longer */
        free_binding(binding);
        res = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sim_vmm_lock);
    return res;
}
