/*
 * pending.h - freed blocks that wait for a fence.
 */
#ifndef GS_POOL_PENDING_H
#define GS_POOL_PENDING_H

#include "pool/heap.h"

/* heap->lock is held. */
static inline void gs_pending_set_head(struct gs_heap *heap, uint32_t id)
{
    __atomic_store_n(&heap->pending_head, id, __ATOMIC_RELAXED);
}

/*
 * Queries the fences of the first `limit` pending blocks that have one (0: of all), and
 * frees the blocks whose fence is complete.
 * Returns: the number of freed blocks.   Locks: none may be held
 */
size_t gs_pending_poll(struct gs_heap *heap, size_t limit);

/* Frees the records of a dead heap's pending list and releases its fences. No lock
 * held. */
void gs_pending_forget(struct gs_heap *heap);

#endif
