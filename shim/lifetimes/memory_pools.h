/*
 * memory_pools.h - where the driver's memory pools have their memory: on which device, or
 * the host's, or managed.
 *
 * What is asked for from a pool of the program's is there, whichever context is current:
 * it is reported and charged there. A pool's place is known from its making, a device's
 * default pool by its handle; of any other it is asked once, of the first memory that
 * comes from it.
 *
 * Owns:  the table of places.   Lock: its own, over no call of the driver.
 */
#ifndef GS_MEMORY_POOLS_H
#define GS_MEMORY_POOLS_H

#include "record.h"

/* Where a pool's memory is. */
struct gs_memory_place {
    bool known;
    uint8_t kind;   /* enum gs_memory_kind: GS_MEMORY_ASYNC, _PINNED or _MANAGED */
    int16_t device; /* of GS_MEMORY_ASYNC; else -1 */
};

/* The program has made that pool, or is about to destroy it; a destroy that was refused
 * puts it back. */
void gs_memory_pools_created(CUmemoryPool pool, const CUmemPoolProps *props);
struct gs_memory_place gs_memory_pools_leaves(CUmemoryPool pool);
void gs_memory_pools_back(CUmemoryPool pool, struct gs_memory_place place);

struct gs_memory_place gs_memory_pools_place(CUmemoryPool pool);

/* The program has made that pool the current one of a device: memory that is asked for
 * without a pool comes from it. And where that is; not known: on the device itself. */
void gs_memory_pools_choose(int device, CUmemoryPool pool);
struct gs_memory_place gs_memory_pools_chosen(int device);

/* Of a pool whose place is not known, by memory that came from it. */
struct gs_memory_place gs_memory_pools_learn(CUmemoryPool pool, CUdeviceptr addr);

/* The device that has that memory, asked of the driver; `otherwise`: it does not say. */
int gs_memory_device(CUdeviceptr addr, int otherwise);

void gs_memory_pools_reset(void); /* in a forked child */

/* The device whose default pool that is, asked of the driver; -1: none. */
int gs_memory_pool_default_of(CUmemoryPool pool);

#endif
