/*
 * reclaim.h - stays in the backend, and what the heaps of a device hold together.
 */
#ifndef GS_POOL_RECLAIM_H
#define GS_POOL_RECLAIM_H

#include "pool/heap.h"

enum gs_status gs_reclaim_init(struct gs_reclaim *reclaim) GS_MUST_USE;
void gs_reclaim_fini(struct gs_reclaim *reclaim);

/*
 * Opens a ticket: the thread is about to enter the backend for `heap`. heap->lock may be
 * held. `awaited`: the thread holds memory there that the program does not use, or may
 * come out with memory for other threads, so no request may fail while it is inside.
 * Returns false, and no ticket, if the heap is dead: its backend must not be called.
 */
bool gs_reclaim_begin(struct gs_heap *heap, struct gs_ticket *ticket,
                      bool awaited) GS_MUST_USE;

/* Closes the ticket; `changed`: other threads may now find more memory. */
void gs_reclaim_end(struct gs_heap *heap, struct gs_ticket *ticket, bool changed);

static inline uint64_t gs_reclaim_generation(const struct gs_pool *pool)
{
    return __atomic_load_n(&pool->reclaim.generation, __ATOMIC_ACQUIRE);
}

/*
 * Has anything changed since `generation`? Waits for the stays now in progress, at most a
 * second in all: until something changes, or if `enough` is not 0, until the driver has
 * got that much back (gs_reclaim_returned). No lock is held.
 */
bool gs_reclaim_changed(struct gs_heap *heap, uint64_t generation, uint64_t enough);

/* Returns true if a thread is inside the backend for `heap`. */
bool gs_reclaim_is_inside(struct gs_heap *heap);
/* Waits until no thread is inside the backend for `heap`, at most wait_ns. */
void gs_reclaim_drain(struct gs_heap *heap, uint64_t wait_ns);
/* A number that changes with each stay; 0 while a thread is inside the backend. */
uint64_t gs_reclaim_stays(struct gs_pool *pool);
/* The row of a device; -1: of all devices. */
struct gs_row gs_reclaim_row(struct gs_pool *pool, int device);
/* Counts device memory that the heap got. */
void gs_reclaim_account(struct gs_heap *heap, size_t bytes);
/* Uncounts the heap's memory, which went with its context, without a stay. */
void gs_reclaim_bury(struct gs_heap *heap, size_t bytes);
/* Sets the size of the device, and the limit of reserved bytes. */
void gs_reclaim_set_limit(struct gs_pool *pool, int device,
                          const struct gs_pool_limits *limits);
/* Books bytes of the heap's device, if the limit allows. Out: *missing, if not: the bytes
 * above the limit. */
bool gs_reclaim_book(struct gs_heap *heap, size_t bytes, size_t *missing) GS_MUST_USE;
/* Books reserved bytes that are being returned, whatever the limit. */
void gs_reclaim_depart(struct gs_heap *heap, size_t bytes);
void gs_reclaim_unbook(struct gs_heap *heap, size_t bytes);
/* Ends the stay of gs_reclaim_depart: the driver has got `bytes` of the `departed`
 * bytes. */
void gs_reclaim_return(struct gs_heap *heap, struct gs_ticket *ticket, size_t bytes,
                       size_t departed);
/* Bytes of the heap's device that were returned to the driver so far. */
uint64_t gs_reclaim_returned(struct gs_heap *heap);
/* Records that a request missed `bytes`: maintenance reclaims them. */
void gs_reclaim_want(struct gs_heap *heap, size_t bytes);
/* Records that the driver refused the bytes booked for the heap. `before`: the pool's
 * memory when the driver was asked, which other threads may have returned since. */
void gs_reclaim_refused(struct gs_heap *heap, const struct gs_held *before);
/* Bytes to reclaim before the booked bytes fit, according to the driver's last refusals;
 * 0: they may fit. */
size_t gs_reclaim_missing(struct gs_heap *heap);
size_t gs_reclaim_take_wanted(struct gs_pool *pool, int device);

#endif
