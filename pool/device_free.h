/*
 * device_free.h - the free memory of a device, as far as known.
 */
#ifndef GS_POOL_DEVICE_FREE_H
#define GS_POOL_DEVICE_FREE_H

#include "pool/heap.h"

/* Nanoseconds of a monotonic clock, some milliseconds late. */
uint64_t gs_clock_coarse(void);
/* Bytes that the device lacks to have `bytes`, and its reserve, free. 0: it lacks none,
 * or its free memory is not known. Calls no backend. */
size_t gs_free_missing(struct gs_heap *heap, size_t bytes);
/* Returns true if a large segment of that size should return to the driver, rather than
 * become idle. */
bool gs_free_wants(struct gs_heap *heap, size_t bytes);
/* Records that a large segment became idle. `given`: it is to go back, or has gone, as
 * gs_free_wants decided. */
void gs_free_became_idle(struct gs_heap *heap, size_t bytes, bool given);
/* Records that a large segment was mapped. */
void gs_free_mapped(struct gs_heap *heap, size_t bytes);

/*
 * The device's free memory: the driver's answer, which the pool requests at most once a
 * second, and again after the program freed memory outside the pool. Returns false if it
 * is not known. No lock is held.
 */
bool gs_free_known(struct gs_heap *heap, size_t *bytes);

#endif
