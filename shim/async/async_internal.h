/*
 * async_internal.h - what the files of the streams' heaps share: the list of heaps, and
 * whose order a heap is in.
 *
 * async_heaps.c finds and serves, async_order.c gives back and sees streams and contexts
 * end, async_launch.c keeps overlapping launches from memory that was just handed out.
 *
 * Lock: gs_async_lock.
 */
#ifndef GS_ASYNC_INTERNAL_H
#define GS_ASYNC_INTERNAL_H

#include "async_heaps.h"
#include "backend.h"
#include "gs_locks.h"

/* A segment that could not be given back when it was due. */
struct owed {
    uint64_t addr;
    size_t bytes;
    struct owed *next;
};

extern struct gs_mutex gs_async_lock __attribute__((visibility("hidden")));
/* Under gs_async_lock; heaps are pushed in thread cache and stay. */
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

/* In the order of that stream from now on. gs_async_lock is held. */
static inline void gs_async_bind(struct gs_async_heap *heap, CUcontext home,
                                 CUstream stream, bool ended)
{
    __atomic_store_n(&heap->ended, ended, __ATOMIC_RELEASE);
    __atomic_store_n(&heap->stream, stream, __ATOMIC_RELEASE);
    __atomic_store_n(&heap->home, home, __ATOMIC_RELEASE);
}

/* Heaps that threads remember are looked up anew. */
void gs_async_forget_seen(void);

/* Let `stream`, of the context `home`, go on behind that fence. */
CUresult gs_async_wait_behind(CUcontext home, CUstream stream, gs_fence fence);

/* The heap's stream stays until gs_async_unpin. Returns false where it has none just now;
 * calls made between the two do not block. */
bool gs_async_pin(struct gs_async_heap *heap, CUcontext *home, CUstream *stream);
void gs_async_unpin(struct gs_async_heap *heap);

/* Give a segment back in the heap's order. Returns CUDA_ERROR_NOT_READY where that cannot
 * be done now: then it is to be owed. */
CUresult gs_async_return(struct gs_async_heap *heap, uint64_t addr, size_t bytes);
void gs_async_owe(struct gs_async_heap *heap, uint64_t addr, size_t bytes);
/* Give back what is owed, as far as that can be done. */
void gs_async_settle(struct gs_async_heap *heap);

/* Whether the stream captures, or that cannot be told. */
bool gs_async_captures(CUstream stream);

/* In a forked child: there are no streams. */
void gs_async_order_reset(void);

#endif
