/*
 * vmm_range.h - address ranges a program sees that lie outside a device's own: the
 * reservations of cuMemAddressReserve and the buffers mapped onto external memory.
 *
 * A range is like a device's: the CPU cannot touch the addresses, and an alias of the
 * same length is where the device itself reads and writes. What the alias shows is
 * decided piece by piece: the pages of some file, or scratch pages that nobody else sees.
 *
 * Owns: the ranges and the map from addresses to them.   Lock: ranges_lock, inside only.
 */
#ifndef SIM_VMM_RANGE_H
#define SIM_VMM_RANGE_H

#include "memory.h"

struct sim_mapping;

struct sim_range {
    void *area; /* the addresses as they were got from the system; immutable */
    size_t area_bytes;
    unsigned char *alias;       /* immutable */
    bool hidden;                /* immutable; no program knows the address */
    struct sim_mapping **units; /* vmm_lock; by 2 MiB, a reservation's only */
    size_t mapped;              /* vmm_lock; mappings in it */
    size_t multicasts;          /* vmm_lock; of these, of multicast objects */
};

/* What a new range is for. */
struct sim_range_wish {
    enum sim_memory_kind kind; /* SIM_MEMORY_RESERVED or SIM_MEMORY_EXTERNAL */
    size_t bytes;
    size_t align;   /* a power of two */
    uintptr_t hint; /* 0: anywhere; otherwise there, if it is free */
    bool hidden;
    int device;
    struct sim_context *context; /* NULL: of no context */
    uint64_t context_id;
};

/*
 * Reserve addresses and enter them in the map. The caller gets a reference beside the
 * map's.
 *
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_range_create(const struct sim_range_wish *wish,
                          struct sim_alloc **out) GS_MUST_USE;

/*
 * Take it out of the map and give the addresses back; the alias goes with the last
 * reference. False if it was out.
 */
bool sim_range_remove(struct sim_alloc *alloc) GS_MUST_USE;

/* Remove the ranges that life of a context made. */
void sim_range_remove_context(const struct sim_context *context, uint64_t context_id);

/* The range at an address, with a reference, or NULL. */
struct sim_alloc *sim_range_find(uintptr_t address) GS_MUST_USE;

/* Let the alias of a piece show pages of a file. False if the system refuses. */
bool sim_range_show(struct sim_alloc *alloc, uintptr_t address, size_t bytes, int fd,
                    size_t offset) GS_MUST_USE;

/* Let it show scratch pages: what is still under way there touches nobody's memory. */
void sim_range_hide(struct sim_alloc *alloc, uintptr_t address, size_t bytes);

/*
 * Let the CPU itself see pages of a file at the address.
 *
 * In:      protection  PROT_READ and PROT_WRITE, or PROT_NONE to take it back
 */
bool sim_range_open_to_host(uintptr_t address, size_t bytes, int fd, size_t offset,
                            int protection) GS_MUST_USE;

/* The last reference is gone. */
void sim_range_destroy(struct sim_alloc *alloc);

#endif
