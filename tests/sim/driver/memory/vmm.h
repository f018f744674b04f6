/*
 * vmm.h - virtual memory management: physical memory without an address, reservations of
 * addresses without memory, and the mappings between them.
 *
 * Physical memory of a device takes units of the device as any allocation does, so it
 * counts against CUDASIM_MEMORY; its pages are those of the units, or, where it can be
 * shared with other processes, those of a file of its own. It lives as long as a handle
 * of it is held or something maps it. A reservation (kind SIM_MEMORY_RESERVED) is one
 * allocation to the rest of the driver, whatever is mapped in it: an access is good where
 * every unit it touches is mapped and open to the device.
 *
 * Owns: physical memory, mappings, bindings of multicast objects.
 * Lock: vmm_lock, outside a space's and the ranges' lock. Functions that need it say so.
 * Source: Driver API, "Virtual Memory Management", "Multicast Object Management".
 */
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include "config.h"
#include "handle.h"
#include "location.h"
#include "memory.h"

#define SIM_ANY_DEVICE (-1)

struct sim_access;
struct sim_multicast;

struct sim_physical {
    struct sim_object object;
    CUmemAllocationProp prop;        /* immutable */
    size_t bytes;                    /* immutable */
    uint64_t id;                     /* immutable */
    int fd;                          /* immutable: its pages; -1: a multicast object */
    size_t fd_offset;                /* immutable */
    bool own_fd;                     /* immutable: a file of its own */
    struct sim_space *space;         /* immutable: whose units it holds; or NULL */
    struct sim_extent *units;        /* immutable: these; freed with the object */
    unsigned handles;                /* vmm_lock: references by handle */
    unsigned users;                  /* vmm_lock: mappings and multicast bindings */
    struct sim_multicast *multicast; /* immutable; NULL: ordinary memory */
    struct sim_physical *next;       /* vmm_lock: all objects */
    struct sim_physical **link;      /* vmm_lock: what points to it there */
};

struct sim_mapping {
    uintptr_t base;
    size_t bytes;
    struct sim_physical *physical;         /* counted in its users */
    size_t offset;                         /* into the physical memory */
    unsigned char rights[SIM_MAX_DEVICES]; /* vmm_lock: CU_MEM_ACCESS_FLAGS_PROT_... */
    unsigned char host_rights;             /* vmm_lock */
    struct sim_alloc *life;                /* for the oracle: an allocation of its own */
    struct sim_alloc *range;               /* the reservation; it outlives its mappings */
    struct sim_mapping *next;              /* vmm_lock: the multicast object's mappings */
};

extern pthread_mutex_t sim_vmm_lock;

/* ---- physical memory (vmm_physical.c) ---- */

/*
 * Check what an allocation is asked to be.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_NOT_SUPPORTED
 */
CUresult sim_physical_check(const CUmemAllocationProp *prop) GS_MUST_USE;

/*
 * Make memory with one handle.
 *
 * In:      bytes  a multiple of 2 MiB, > 0; prop has been checked
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_physical_create(size_t bytes, const CUmemAllocationProp *prop,
                             CUmemGenericAllocationHandle *out) GS_MUST_USE;

/* A multicast object, not entered yet; owns `multicast`. NULL: no memory. */
struct sim_physical *sim_physical_new_multicast(struct sim_multicast *multicast,
                                                size_t bytes) GS_MUST_USE;

/* Enter an object with one handle. Frees it if no handle is left. Needs vmm_lock. */
CUresult sim_physical_enter(struct sim_physical *physical,
                            CUmemGenericAllocationHandle *out) GS_MUST_USE;

/* The object of a handle, borrowed while vmm_lock is held; NULL if it is none. */
struct sim_physical *sim_physical_get(CUmemGenericAllocationHandle handle) GS_MUST_USE;

/* Drop a handle's reference, or a user's. Needs vmm_lock. */
void sim_physical_drop_handle(struct sim_physical *physical);
void sim_physical_drop_user(struct sim_physical *physical);

/* A file descriptor for another process; -1 and errno if there is none to be had. */
int sim_physical_export(const struct sim_physical *physical) GS_MUST_USE;

/*
 * The memory behind a file descriptor that sim_physical_export gave, here or elsewhere.
 * Needs vmm_lock.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE  it is no such file
 *          CUDA_ERROR_NOT_SUPPORTED  it is of a device that this process lacks
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_physical_import(int fd, CUmemGenericAllocationHandle *out) GS_MUST_USE;

static inline bool sim_physical_is_host(const struct sim_physical *physical)
{
    return !physical->multicast &&
           physical->prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
}

/* ---- mappings (vmm.c) ---- */

/*
 * cuMemMap, cuMemUnmap, cuMemSetAccess, each all or nothing. Errors as documented there.
 */
CUresult sim_vmm_map(uintptr_t address, size_t bytes, size_t offset,
                     CUmemGenericAllocationHandle handle) GS_MUST_USE;
CUresult sim_vmm_unmap(uintptr_t address, size_t bytes) GS_MUST_USE;
CUresult sim_vmm_set_access(uintptr_t address, size_t bytes, const CUmemAccessDesc *descs,
                            size_t count) GS_MUST_USE;

/* The mapping at an address of a reservation, or NULL. Needs vmm_lock. */
struct sim_mapping *sim_vmm_at(const struct sim_alloc *range,
                               uintptr_t address) GS_MUST_USE;

/* Is a multicast object mapped somewhere in it? Takes vmm_lock. */
bool sim_vmm_is_multicast(const struct sim_alloc *range) GS_MUST_USE;

/* What is mapped at an address. */
struct sim_vmm_view {
    uintptr_t base;
    size_t bytes;
    uint64_t id, physical_id;
    CUmemAllocationProp prop;
    unsigned rights; /* of the device asked for */
    unsigned host_rights;
};

/* Where the memory is, to the oracle, whatever addresses it has: those of its units, or
 * some that nothing else has. */
uintptr_t sim_physical_place(const struct sim_physical *physical) GS_MUST_USE;

/* False if nothing is mapped there. device may be SIM_ANY_DEVICE. Takes vmm_lock. */
bool sim_vmm_look(const struct sim_alloc *range, uintptr_t address, int device,
                  struct sim_vmm_view *out) GS_MUST_USE;

/*
 * May that device touch those bytes of a reservation: all mapped, all with the right?
 *
 * In:      device  SIM_ANY_DEVICE: is there one, or the host, that may?
 * Locks:   takes vmm_lock
 */
bool sim_vmm_covers(const struct sim_alloc *range, uintptr_t address, size_t bytes,
                    int device, bool writes) GS_MUST_USE;

/* Does the address lie in a range, where the host cannot touch it? Takes vmm_lock. */
bool sim_vmm_keeps_from_host(uintptr_t address) GS_MUST_USE;

/* Is it memory of the host that is mapped there? Takes vmm_lock. */
bool sim_vmm_is_host(const struct sim_alloc *range, uintptr_t address) GS_MUST_USE;

/* ---- what pointers tell (vmm_pointer.c) ---- */

/*
 * cuPointerGetAttribute of an address in a range.
 *
 * Out:     *value  8 bytes; written on success
 * Errors:  CUDA_ERROR_INVALID_VALUE  nothing is mapped there, or it has no such property
 */
CUresult sim_vmm_attribute(const struct sim_alloc *alloc, CUpointer_attribute attribute,
                           CUdeviceptr pointer, void *value) GS_MUST_USE;

/* Base and size of the mapping at an address. False if nothing is mapped there. */
bool sim_vmm_mapped_range(const struct sim_alloc *alloc, uintptr_t address,
                          uintptr_t *base, size_t *bytes) GS_MUST_USE;

/* ---- multicast objects (vmm_multicast.c); all need vmm_lock ---- */

/* Does an offset of the object reach memory? */
bool sim_multicast_is_bound(const struct sim_multicast *multicast,
                            size_t offset) GS_MUST_USE;

/* Let a new mapping's alias show what is bound, now and after each change. False if the
 * system refuses. */
bool sim_multicast_show(struct sim_mapping *mapping) GS_MUST_USE;

/* The mapping goes. */
void sim_multicast_forget(struct sim_mapping *mapping);

/* The object is gone: so are its bindings. */
void sim_multicast_destroy(struct sim_multicast *multicast);

/*
 * Carry what an operation wrote to a multicast mapping to the other memories bound there:
 * the alias shows the first one only. Takes vmm_lock.
 */
void sim_multicast_spread(const struct sim_access *access);

/* Visit the memories bound behind these addresses, but the first that the alias shows.
 * Takes vmm_lock. */
void sim_multicast_visit(const struct sim_alloc *range, uintptr_t address, size_t bytes,
                         void (*visit)(uintptr_t address, size_t bytes, uintptr_t place,
                                       void *argument),
                         void *argument);

/*
 * Wait, as documented for binding and mapping, until the team of a multicast object is
 * complete. Returns with vmm_lock held and the object, or NULL if the handle has gone.
 * An ordinary handle returns at once. Needs vmm_lock; drops it meanwhile.
 */
struct sim_physical *
sim_multicast_await_team(CUmemGenericAllocationHandle handle) GS_MUST_USE;

/*
 * cuMulticastCreate, cuMulticastAddDevice, cuMulticastUnbind and the two ways to bind;
 * errors as documented there. These take vmm_lock themselves.
 */
CUresult sim_multicast_create(unsigned devices, size_t bytes,
                              CUmemGenericAllocationHandle *out) GS_MUST_USE;
CUresult sim_multicast_add_device(CUmemGenericAllocationHandle handle,
                                  int device) GS_MUST_USE;
CUresult sim_multicast_bind(CUmemGenericAllocationHandle handle, size_t offset,
                            CUmemGenericAllocationHandle memory, size_t memory_offset,
                            size_t bytes) GS_MUST_USE;
CUresult sim_multicast_bind_address(CUmemGenericAllocationHandle handle, size_t offset,
                                    uintptr_t address, size_t bytes) GS_MUST_USE;
CUresult sim_multicast_unbind(CUmemGenericAllocationHandle handle, int device,
                              size_t offset, size_t bytes) GS_MUST_USE;

#endif
