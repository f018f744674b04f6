/*
 * physical.h - memory that is held by handles, mappings and bindings, for as long as it
 * is.
 *
 * Memory of cuMemCreate lives as long as somebody holds a handle or has it mapped (CUDA
 * Driver API, virtual memory management: "the memory allocation will be freed when all
 * outstanding mappings to the memory are unmapped and when all outstanding references to
 * the handle are also released"), or has it bound to a multicast object. Memory that was
 * opened by an IPC handle lives as long as it is open once more than closed; its address
 * is its handle. Until then it is in the tracker's books, and charged against
 * GPUSHIM_MEM_LIMIT where it was charged. Nothing is known of it while both are off.
 */
#ifndef GS_PHYSICAL_H
#define GS_PHYSICAL_H

#include "mem_limits.h"
#include "record.h"

struct gs_physical;

/* What is made, with one reference. */
struct gs_physical_origin {
    uint64_t key; /* its handle's: gs_key */
    size_t bytes;
    int device;        /* -1: not known */
    bool charged;      /* `bytes` of `device` are; without host memory to remember it the
                          charge ends at once */
    bool grows;        /* how large it is shows when it is mapped */
    CUcontext context; /* with which it ends; NULL: it outlives all */
    uint32_t record;   /* the tracker's, by id; 0: none */
};

/* Whether anything is to be known of it. */
static inline bool gs_physical_wanted(const struct gs_state *state)
{
    return state->tracker || gs_limits_charging;
}

void gs_physical_created(struct gs_state *state, const struct gs_physical_origin *origin);
/* Another reference to it was given out: false if it is not known. */
bool gs_physical_referenced(uint64_t key);
/* Likewise, for the memory mapped at an address. */
void gs_physical_retained(CUdeviceptr addr);

/*
 * One reference is about to be given up, before another thread can be given the same
 * handle; then the driver has answered, and refused it unless `released`. The first
 * returns NULL where it is not known; `api` is the call that may end it.
 */
struct gs_physical *gs_physical_release(uint64_t key);
void gs_physical_released(struct gs_state *state, struct gs_physical *physical,
                          bool released, enum gs_api api);

void gs_physical_mapped(struct gs_state *state, CUmemGenericAllocationHandle handle,
                        CUdeviceptr addr, size_t bytes, size_t offset);
/* The mappings within the range are gone. */
void gs_physical_unmapped(struct gs_state *state, CUdeviceptr addr, size_t bytes);

/* Memory was bound to a multicast object: that of the handle, or, where `memory` is 0,
 * what is mapped at the address. */
void gs_physical_bound(CUmemGenericAllocationHandle object, size_t offset, size_t bytes,
                       CUmemGenericAllocationHandle memory, CUdeviceptr addr);
/* The device's bindings within the range are gone. */
void gs_physical_unbound(struct gs_state *state, CUmemGenericAllocationHandle object,
                         int device, size_t offset, size_t bytes);

/* Something else holds the memory of a handle; NULL: it is not known. Until let go. */
struct gs_physical *gs_physical_hold(uint64_t key);
void gs_physical_let_go(struct gs_state *state, struct gs_physical *physical,
                        enum gs_api api);

/* A context ended; what ends with it has left the tracker's books. */
void gs_physical_context_lost(struct gs_state *state, CUcontext context);

void gs_physical_reset(void); /* in a forked child */

#endif
