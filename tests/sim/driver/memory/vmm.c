/*
 * vmm.c - mappings: which units of a reservation show which memory, and who may touch
 * them.
 *
 * Unmapping waits for nothing: work that is under way goes on in scratch pages, work that
 * starts later finds nothing mapped. Each mapping is an allocation of its own to the
 * oracle.
 *
 * Owns:  mappings.   Lock: sim_vmm_lock.
 * Source: Driver API, cuMemMap, cuMemUnmap, cuMemSetAccess.
 */
#include "vmm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device.h"
#include "op.h"
#include "order.h"
#include "space.h"
#include "vmm_range.h"

/* Places of memory that has no units of a device: 2 TiB each, where no program has any.
 */
#define NO_ADDRESS ((uintptr_t)1 << 63)
#define PLACE_BITS 41

#define PROT_NEEDED(writes)                                                              \
    ((unsigned)((writes) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE                            \
                         : CU_MEM_ACCESS_FLAGS_PROT_READ))

static size_t unit_of(const struct sim_alloc *range, uintptr_t address)
{
    return address / SIM_UNIT_BYTES - range->base / SIM_UNIT_BYTES;
}

struct sim_mapping *sim_vmm_at(const struct sim_alloc *range, uintptr_t address)
{
    return range->range->units[unit_of(range, address)];
}

/* The reservation that has all of it, with a reference, or NULL. */
static struct sim_alloc *find_range(uintptr_t address, size_t bytes)
{
    struct sim_alloc *range = sim_range_find(address);

    if (!range)
        return NULL;
    if (range->kind == SIM_MEMORY_RESERVED && bytes > 0 &&
        bytes <= range->bytes - (address - range->base))
        return range;
    sim_memory_unref(range);
    return NULL;
}

static bool is_aligned(uintptr_t address, size_t bytes)
{
    return address % SIM_UNIT_BYTES == 0 && bytes % SIM_UNIT_BYTES == 0 && bytes > 0;
}

/* ---- mapping ---- */

/* A record for the oracle: what lives in the addresses from now on. */
static struct sim_alloc *new_life(uintptr_t base, size_t bytes)
{
    struct sim_alloc *life = calloc(1, sizeof(*life));

    if (!life)
        return NULL;
    atomic_init(&life->refs, 1);
    atomic_init(&life->state, SIM_MEMORY_LIVE);
    life->kind = SIM_MEMORY_DEVICE;
    life->base = base;
    life->bytes = bytes;
    life->id = sim_memory_next_id();
    return life;
}

static void free_mapping(struct sim_mapping *mapping)
{
    if (mapping->life)
        sim_memory_unref(mapping->life);
    free(mapping);
}

/* Point the units at the mapping, or at none. */
static void enter(struct sim_alloc *range, const struct sim_mapping *mapping,
                  struct sim_mapping *value)
{
    size_t first = unit_of(range, mapping->base);

    for (size_t i = 0; i < mapping->bytes / SIM_UNIT_BYTES; i++)
        range->range->units[first + i] = value;
    range->range->mapped += value ? 1 : (size_t)-1;
    if (mapping->physical->multicast)
        range->range->multicasts += value ? 1 : (size_t)-1;
}

static bool is_free(const struct sim_alloc *range, uintptr_t address, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += SIM_UNIT_BYTES) {
        if (sim_vmm_at(range, address + done))
            return false;
    }
    return true;
}

uintptr_t sim_physical_place(const struct sim_physical *physical)
{
    if (physical->space)
        return physical->space->va + physical->units->first * SIM_UNIT_BYTES;
    return NO_ADDRESS | (uintptr_t)(physical->id << PLACE_BITS & ~NO_ADDRESS);
}

/* Let the alias show the memory. */
static bool show(struct sim_mapping *mapping)
{
    const struct sim_physical *physical = mapping->physical;

    if (physical->multicast)
        return sim_multicast_show(mapping);
    return sim_range_show(mapping->range, mapping->base, mapping->bytes, physical->fd,
                          physical->fd_offset + mapping->offset);
}

static CUresult map(struct sim_alloc *range, uintptr_t address, size_t bytes,
                    struct sim_physical *physical)
{
    if (bytes > physical->bytes || !is_free(range, address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_mapping *mapping = calloc(1, sizeof(*mapping));
    if (!mapping)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mapping->base = address;
    mapping->bytes = bytes;
    mapping->physical = physical;
    mapping->range = range;
    mapping->life = new_life(address, bytes);
    if (!mapping->life || !show(mapping)) {
        free_mapping(mapping);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->users++;
    enter(range, mapping, mapping);
    if (!physical->multicast)
        sim_order_place(address, bytes, sim_physical_place(physical) + mapping->offset);
    sim_order_handed_out(mapping->life, NULL);
    return CUDA_SUCCESS;
}

CUresult sim_vmm_map(uintptr_t address, size_t bytes, size_t offset,
                     CUmemGenericAllocationHandle handle)
{
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    if (offset != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!is_aligned(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_alloc *range = find_range(address, bytes);
    if (!range)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_vmm_lock);
    struct sim_physical *physical = sim_multicast_await_team(handle);
    if (physical && sim_memory_state(range) == SIM_MEMORY_LIVE)
        res = map(range, address, bytes, physical);
    pthread_mutex_unlock(&sim_vmm_lock);
    sim_memory_unref(range);
    return res;
}

/*
 * Do whole mappings fill the piece, from its first byte to its last?
 */
static bool is_filled(const struct sim_alloc *range, uintptr_t address, size_t bytes)
{
    for (uintptr_t next = address; next < address + bytes;) {
        const struct sim_mapping *mapping = sim_vmm_at(range, next);
        if (!mapping || mapping->base != next || mapping->bytes > address + bytes - next)
            return false;
        next += mapping->bytes;
    }
    return true;
}

static void unmap(struct sim_alloc *range, struct sim_mapping *mapping)
{
    sim_order_ended(mapping->life);
    sim_order_place(mapping->base, mapping->bytes, 0);
    enter(range, mapping, NULL);
    sim_range_hide(range, mapping->base, mapping->bytes);
    if (mapping->host_rights) {
        bool closed =
            sim_range_open_to_host(mapping->base, mapping->bytes, -1, 0, PROT_NONE);
        (void)closed; /* refused: the process sees its old pages a while longer */
    }
    if (mapping->physical->multicast)
        sim_multicast_forget(mapping);
    sim_physical_drop_user(mapping->physical);
    free_mapping(mapping);
}

CUresult sim_vmm_unmap(uintptr_t address, size_t bytes)
{
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    if (!is_aligned(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_alloc *range = find_range(address, bytes);
    if (!range)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_vmm_lock);
    if (is_filled(range, address, bytes)) {
        for (uintptr_t next = address; next < address + bytes;) {
            struct sim_mapping *mapping = sim_vmm_at(range, next);
            next += mapping->bytes;
            unmap(range, mapping);
        }
        res = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sim_vmm_lock);
    sim_memory_unref(range);
    return res;
}

/* ---- access ---- */

static bool is_right(unsigned flags)
{
    return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
           flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
           flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

static bool is_host_location(int type)
{
    return type == SIM_LOCATION_HOST || type == SIM_LOCATION_HOST_NUMA;
}

/* Can the description be applied to what is mapped? */
static CUresult check_desc(const struct sim_physical *physical,
                           const CUmemAccessDesc *desc)
{
    if (!is_right((unsigned)desc->flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        return sim_device_get(desc->location.id) ? CUDA_SUCCESS
                                                 : CUDA_ERROR_INVALID_DEVICE;
    if (!is_host_location((int)desc->location.type) || !sim_physical_is_host(physical))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* Let the CPU see a mapping as far as `rights` says. */
static bool open_to_host(struct sim_mapping *mapping, unsigned rights)
{
    int protection = PROT_NONE;

    if (rights == CU_MEM_ACCESS_FLAGS_PROT_READ)
        protection = PROT_READ;
    else if (rights)
        protection = PROT_READ | PROT_WRITE;
    return sim_range_open_to_host(mapping->base, mapping->bytes, mapping->physical->fd,
                                  mapping->physical->fd_offset + mapping->offset,
                                  protection);
}

/* What checks could not see is a refusal of the system to map pages for the CPU. */
static CUresult apply(struct sim_mapping *mapping, const CUmemAccessDesc *desc)
{
    if (desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        mapping->rights[desc->location.id] = (unsigned char)desc->flags;
        return CUDA_SUCCESS;
    }
    if (!open_to_host(mapping, (unsigned)desc->flags))
        return CUDA_ERROR_OUT_OF_MEMORY;
    mapping->host_rights = (unsigned char)desc->flags;
    return CUDA_SUCCESS;
}

/* Run `visit` for every mapping of a filled piece and every description. */
static CUresult check_all(const struct sim_alloc *range, uintptr_t address, size_t bytes,
                          const CUmemAccessDesc *descs, size_t count)
{
    CUresult res =
        is_filled(range, address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

    for (uintptr_t next = address; res == CUDA_SUCCESS && next < address + bytes;) {
        const struct sim_mapping *mapping = sim_vmm_at(range, next);
        for (size_t i = 0; res == CUDA_SUCCESS && i < count; i++)
            res = check_desc(mapping->physical, &descs[i]);
        next += mapping->bytes;
    }
    return res;
}

CUresult sim_vmm_set_access(uintptr_t address, size_t bytes, const CUmemAccessDesc *descs,
                            size_t count)
{
    if (!is_aligned(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_alloc *range = find_range(address, bytes);
    if (!range)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_vmm_lock);
    CUresult res = check_all(range, address, bytes, descs, count);
    for (uintptr_t next = address; res == CUDA_SUCCESS && next < address + bytes;) {
        struct sim_mapping *mapping = sim_vmm_at(range, next);
        for (size_t i = 0; res == CUDA_SUCCESS && i < count; i++)
            res = apply(mapping, &descs[i]);
        next += mapping->bytes;
    }
    pthread_mutex_unlock(&sim_vmm_lock);
    sim_memory_unref(range);
    return res;
}

/* ---- questions ---- */

static bool allows(const struct sim_mapping *mapping, int device, unsigned needed)
{
    if (device != SIM_ANY_DEVICE)
        return (mapping->rights[device] & needed) == needed;
    for (unsigned i = 0; i < SIM_MAX_DEVICES; i++) {
        if ((mapping->rights[i] & needed) == needed)
            return true;
    }
    return (mapping->host_rights & needed) == needed;
}

static bool reaches_memory(const struct sim_mapping *mapping, uintptr_t address)
{
    const struct sim_physical *physical = mapping->physical;

    return !physical->multicast ||
           sim_multicast_is_bound(physical->multicast,
                                  address - mapping->base + mapping->offset);
}

bool sim_vmm_covers(const struct sim_alloc *range, uintptr_t address, size_t bytes,
                    int device, bool writes)
{
    bool good = address - range->base <= range->bytes &&
                bytes <= range->bytes - (address - range->base);
    uintptr_t end = address + bytes;

    pthread_mutex_lock(&sim_vmm_lock);
    good = good && sim_memory_state(range) == SIM_MEMORY_LIVE;
    while (good && address < end) {
        const struct sim_mapping *mapping = sim_vmm_at(range, address);
        good = mapping && allows(mapping, device, PROT_NEEDED(writes)) &&
               reaches_memory(mapping, address);
        address = (address / SIM_UNIT_BYTES + 1) * SIM_UNIT_BYTES;
    }
    pthread_mutex_unlock(&sim_vmm_lock);
    return good;
}

bool sim_vmm_look(const struct sim_alloc *range, uintptr_t address, int device,
                  struct sim_vmm_view *out)
{
    pthread_mutex_lock(&sim_vmm_lock);
    const struct sim_mapping *mapping = sim_vmm_at(range, address);
    if (mapping) {
        *out = (struct sim_vmm_view){
            .base = mapping->base,
            .bytes = mapping->bytes,
            .id = mapping->life->id,
            .physical_id = mapping->physical->id,
            .prop = mapping->physical->prop,
            .host_rights = mapping->host_rights,
            .rights = device == SIM_ANY_DEVICE ? 0 : mapping->rights[device],
        };
    }
    pthread_mutex_unlock(&sim_vmm_lock);
    return mapping != NULL;
}

bool sim_vmm_is_host(const struct sim_alloc *range, uintptr_t address)
{
    pthread_mutex_lock(&sim_vmm_lock);
    const struct sim_mapping *mapping = sim_vmm_at(range, address);
    bool is_host = mapping && sim_physical_is_host(mapping->physical);
    pthread_mutex_unlock(&sim_vmm_lock);
    return is_host;
}

bool sim_vmm_is_multicast(const struct sim_alloc *range)
{
    pthread_mutex_lock(&sim_vmm_lock);
    bool is_multicast = range->range->multicasts > 0;
    pthread_mutex_unlock(&sim_vmm_lock);
    return is_multicast;
}

bool sim_vmm_keeps_from_host(uintptr_t address)
{
    struct sim_alloc *range = sim_range_find(address);
    struct sim_vmm_view view;

    if (!range)
        return false;
    bool keeps = range->kind != SIM_MEMORY_RESERVED ||
                 !sim_vmm_look(range, address, SIM_ANY_DEVICE, &view) ||
                 view.host_rights == 0;
    sim_memory_unref(range);
    return keeps;
}

bool sim_memory_on_device(const struct sim_alloc *alloc, uintptr_t address)
{
    switch (alloc->kind) {
    case SIM_MEMORY_RESERVED:
        return !sim_vmm_is_host(alloc, address);
    case SIM_MEMORY_ARRAY:
    case SIM_MEMORY_EXTERNAL:
        return true;
    default:
        return sim_memory_is_device_kind(alloc);
    }
}

bool sim_memory_is_hidden(const struct sim_alloc *alloc)
{
    return alloc->kind == SIM_MEMORY_ARRAY || (alloc->range && alloc->range->hidden);
}
