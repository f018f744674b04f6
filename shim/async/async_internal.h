/*
 * async_internal.h - shared by the files of the streams' heaps: the list of heaps, and
 * the stream that orders each.
 *
 * async_heaps.c finds heaps and serves memory. async_order.c returns segments, and
 * handles the end of streams and contexts. async_launch.c keeps overlapping launches from
 * memory that was just handed out.
 *
 * Lock: gs_async_lock.
 */
#ifndef GS_ASYNC_INTERNAL_H
#define GS_ASYNC_INTERNAL_H

#include "gs_locks.h"
#include "pool/backend.h"
#include "shim/async/async_heaps.h"

/* A segment that could not be returned when it was due. */
struct owed {
    uint64_t addr;
    size_t bytes;
    struct owed *next;
};

extern struct gs_mutex gs_async_lock __attribute__((visibility("hidden")));
/* Under gs_async_lock; heaps are added at the front and stay. */
extern struct gs_async_heap *gs_async_heaps __attribute__((visibility("hidden")));

static inline CUstream gs_async_order_of(const struct gs_async_heap *heap)
{
    return __atomic_load_n(&heap->stream, __ATOMIC_ACQUIRE);
}

static inline CUcontext gs_async_home_of(const struct gs_async_heap *heap)
{
    return __atomic_load_n(&heap->home, __ATOMIC_ACQUIRE);
}

static inline bool gs_async_is_ended(const struct gs_async_heap *heap)
{
    return __atomic_load_n(&heap->ended, __ATOMIC_ACQUIRE);
}

/* Puts the heap in the order of this stream. gs_async_lock is held. */
static inline void gs_async_bind(struct gs_async_heap *heap, CUcontext home,
                                 CUstream stream, bool ended)
{
    __atomic_store_n(&heap->ended, ended, __ATOMIC_RELEASE);
    __atomic_store_n(&heap->stream, stream, __ATOMIC_RELEASE);
    __atomic_store_n(&heap->home, home, __ATOMIC_RELEASE);
}

/* Threads look up the heaps they have cached again. */
void gs_async_drop_cached(void);

/* Keeps the heap's stream until gs_async_unpin. Returns false if the heap has no stream
 * at the moment; calls made between the two do not block. */
bool gs_async_pin(struct gs_async_heap *heap, CUcontext *home, CUstream *stream);
void gs_async_unpin(struct gs_async_heap *heap);

/* Returns a segment to the driver in the heap's order. Returns CUDA_ERROR_NOT_READY if
 * this is not possible now: the segment is then to be returned later. */
CUresult gs_async_return(struct gs_async_heap *heap, uint64_t addr, size_t bytes);
void gs_async_add_overdue(struct gs_async_heap *heap, uint64_t addr, size_t bytes);
/* Returns the segments that are overdue, as far as possible. */
void gs_async_settle(struct gs_async_heap *heap);

#endif
