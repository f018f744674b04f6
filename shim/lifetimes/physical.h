/*
 * physical.h - memory that lives as long as handles, mappings or bindings hold it.
 *
 * Memory of cuMemCreate lives as long as a handle refers to it or a mapping exists (CUDA
 * Driver API, virtual memory management: "the memory allocation will be freed when all
 * outstanding mappings to the memory are unmapped and when all outstanding references to
 * the handle are also released"), or as long as it is bound to a multicast object or a
 * logical endpoint, or mapped into a part of an array: a sparse array, and one whose
 * memory is mapped later, owns no memory. Memory opened by an IPC handle lives until it is closed as often as it
 * was opened; its address is its handle. Until then the tracker has a record of it, and
 * it is charged against GPUSHIM_MEM_LIMIT if it was charged. While both are off nothing
 * is recorded.
 */
#ifndef GS_PHYSICAL_H
#define GS_PHYSICAL_H

#include "shim/limits/mem_limits.h"
#include "shim/record.h"

struct gs_physical;

/* Returns true if physical memory is to be recorded. */
static inline bool gs_physical_wanted(const struct gs_state *state)
{
    return state->tracker || gs_limits_charging;
}

/*
 * Records new memory, which has one reference.
 * In:  call   call->charged: `bytes` are charged to call->device
 *      key    gs_key of its handle
 *      grows  its size is known only when it is mapped
 */
void gs_physical_created(struct gs_state *state, const struct gs_call *call, uint64_t key,
                         size_t bytes, bool grows);
/* Counts another reference that was handed out: false if the memory is not known. */
bool gs_physical_referenced(uint64_t key);
/* Likewise, for the memory mapped at an address. */
void gs_physical_retained(CUdeviceptr addr);

/*
 * The first is called before a reference is released, since another thread may get the
 * same handle afterwards; the second with the driver's answer (not `released`: refused).
 * The first returns NULL if the memory is not known; `api` is the call that may end the
 * memory.
 */
struct gs_physical *gs_physical_release(uint64_t key);
void gs_physical_released(struct gs_state *state, struct gs_physical *physical,
                          bool released, enum gs_api api);

void gs_physical_mapped(struct gs_state *state, CUmemGenericAllocationHandle handle,
                        CUdeviceptr addr, size_t bytes, size_t offset);
/* The mappings within the range have ended. */
void gs_physical_unmapped(struct gs_state *state, CUdeviceptr addr, size_t bytes);

/* Parts were handed out of the memory that is mapped here: gs_tracker_divide. */
void gs_physical_divide(struct gs_state *state, CUdeviceptr addr, size_t bytes);

/* A range of a multicast object or of a logical endpoint, and what is bound there. */
struct gs_bound {
    uint64_t object; /* gs_key of its handle, or of its id */
    int device;      /* whose binding it is; -1: the device of the memory */
    size_t offset, bytes;
    CUmemGenericAllocationHandle memory; /* 0: what is mapped at `addr` */
    CUdeviceptr addr;
};
/* Memory was bound to an object. */
void gs_physical_bound(const struct gs_bound *bound);
/* The device's bindings within the range have ended. */
void gs_physical_unbound(struct gs_state *state, const struct gs_bound *range);

/* Called after cuMemMapArrayAsync has accepted the list; its arrays belong to the
 * context. A part holds its memory until it is unmapped or mapped again, or the array
 * ends. */
void gs_physical_array_mapped(struct gs_state *state, const CUarrayMapInfo *list,
                              unsigned count, CUcontext context);
/* Called after an array or a logical endpoint was destroyed; `key`: gs_key of its handle,
 * or of its id. */
void gs_physical_object_ended(struct gs_state *state, uint64_t key, enum gs_api api);

/* Called when a context ended: memory that ends with it has no record in the tracker any
 * more. */
void gs_physical_context_lost(struct gs_state *state, CUcontext context);

void gs_physical_reset(void); /* in a forked child */

#endif
