/*
 * trim.h - returns idle memory to the backend.
 */
#ifndef GS_POOL_TRIM_H
#define GS_POOL_TRIM_H

#include "pool/heap.h"

/* Returns to the segments the cached blocks of the device's heaps (-1: all) and the
 * pending blocks that are complete. Returns whether there were any. No lock is held. */
bool gs_pool_settle(struct gs_pool *pool, int device);
/* gs_pool_trim of memory that is idle already: nothing is settled first. */
size_t gs_pool_give_idle(struct gs_pool *pool, int device, size_t bytes);
/* Is memory idle that could be returned soon? */
bool gs_pool_can_give(struct gs_pool *pool, int device);

#endif
