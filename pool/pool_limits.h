/*
 * pool_limits.h - how much memory may stay idle, and when a heap is maintained
 * (maintenance.c).
 */
#ifndef GS_POOL_POOL_LIMITS_H
#define GS_POOL_POOL_LIMITS_H

#include "pool/heap.h"

void gs_limits_init(struct gs_pool *pool, unsigned age_ms);
/* Schedules the heap's first maintenance, one period from now. */
void gs_limits_begin_heap(struct gs_heap *heap);
/* Time between two maintenances of a heap. */
uint64_t gs_limits_period_ns(const struct gs_pool *pool);
/* Time between two drains of a heap's cache tiers by gs_heap_give_aged. */
uint64_t gs_limits_drain_ns(const struct gs_pool *pool);
/* The backend has served a request of `bytes`: gs_pool_served. */
static inline void gs_limits_served(struct gs_heap *heap, size_t bytes)
{
    gs_pool_served(heap->pool, heap->device, bytes);
}

/* Counts a segment that joins the idle ones, or leaves them; heap->lock is held. */
void gs_limits_set_idle(struct gs_heap *heap, struct gs_segment *segment);
void gs_limits_set_active(struct gs_heap *heap, const struct gs_segment *segment);
/* Returns true if no large segment of `bytes` may stay idle, because the device is short
 * of memory. */
bool gs_limits_keep_nothing(struct gs_heap *heap, size_t bytes);
/* Idle bytes of the heap's device, by no lock. */
size_t gs_limits_idle(const struct gs_heap *heap);

/*
 * Books the bytes to request from the backend, at most `preferred`; gs_reclaim_unbook
 * undoes it. Reclaims idle memory if the device's limit leaves no headroom.
 * Returns: the bytes; 0: not even the smallest segment fits the limit.   No lock is held.
 */
size_t gs_limits_book(struct gs_heap *heap, const struct gs_request *request,
                      size_t preferred) GS_MUST_USE;

/* Runs gs_heap_maintain if it is due and the backend is idle. No lock is held. */
void gs_heap_maintain_if_idle(struct gs_heap *heap);
/* Returns true if the heap's backend would take memory back without a wait. */
bool gs_heap_is_idle(const struct gs_heap *heap);

#endif
