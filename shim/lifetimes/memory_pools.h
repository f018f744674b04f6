/*
 * memory_pools.h - the location of the memory of the driver's memory pools: a device, the
 * host, or managed.
 *
 * Memory from a pool of the program is at the pool's location, whichever context is
 * current: it is reported and charged there. A pool's location is known from its
 * creation, that of a device's default pool by its handle. For any other pool the driver
 * is queried once, about the first memory from the pool.
 *
 * Owns:  the table of locations.   Lock: its own, not held across a driver call.
 */
#ifndef GS_MEMORY_POOLS_H
#define GS_MEMORY_POOLS_H

#include "shim/record.h"

/* The location of a pool's memory. */
struct gs_memory_location {
    bool known;
    uint8_t kind;   /* enum gs_memory_kind: GS_MEMORY_ASYNC, _PINNED or _MANAGED */
    int16_t device; /* of GS_MEMORY_ASYNC; else -1 */
};

/* Called after the program has created a pool, and before it destroys one; a refused
 * destroy restores the row. */
void gs_memory_pools_created(CUmemoryPool pool, const CUmemPoolProps *props);
struct gs_memory_location gs_memory_pools_leaves(CUmemoryPool pool);
void gs_memory_pools_back(CUmemoryPool pool, struct gs_memory_location location);

struct gs_memory_location gs_memory_pools_location(CUmemoryPool pool);

/* Records the current pool of a device, which serves requests without a pool; and returns
 * its location. Not known: the device itself. */
void gs_memory_pools_choose(int device, CUmemoryPool pool);
struct gs_memory_location gs_memory_pools_chosen(int device);

/* Determines the location of an unknown pool by memory that came from it. */
struct gs_memory_location gs_memory_pools_learn(CUmemoryPool pool, CUdeviceptr addr);

/* The device of the memory, by a query of the driver; `otherwise` if there is no
 * answer. */
int gs_memory_device(CUdeviceptr addr, int otherwise);

void gs_memory_pools_reset(void); /* in a forked child */

/* The device whose default pool this is, by a query of the driver; -1: none. */
int gs_memory_pool_default_of(CUmemoryPool pool);

#endif
