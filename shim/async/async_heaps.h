/*
 * async_heaps.h - the heaps of streams: stream-ordered memory, each heap in the order of
 * one stream (GPUSHIM_ASYNC=pool).
 *
 * All memory of a heap is in its stream's order: its segments are allocated and returned
 * to the driver in this order. Blocks that the stream itself frees are in this order too,
 * and it may reuse them at once (rule L2). A block that another stream
 * frees waits until its event in that stream is complete. No block of one stream's heap
 * goes to another stream. Idle memory is returned to the driver in the stream's order,
 * and the driver gives it to other streams by its own rules.
 *
 *   living    in the order of a stream of the program
 *   ended     that stream was destroyed: in the order of a stream of the library's own,
 *             which waits for all work of the destroyed one. The heap serves no request;
 *             once it is empty it is reused for another stream
 *   over      the context ended, and with it all its work
 *
 * Segments come from a private memory pool (async_policy.h): they survive every context.
 *
 * Owns: struct gs_async_heap, never freed.   Lock: a mutex inside, never held across a
 * driver call.   Design: docs/async.md
 */
#ifndef GS_ASYNC_HEAPS_H
#define GS_ASYNC_HEAPS_H

#include "shim/state/state.h"

struct gs_async_heap {
    struct gs_context face; /* the heap's context from the pool's view; ordered is set */
    CUstream stream;        /* atomic: the stream of its order; NULL: the legacy stream */
    CUcontext home;         /* atomic: of that stream; NULL: over */
    CUmemoryPool source;    /* immutable */
    bool ended;             /* atomic: its stream was destroyed */
    bool broken;            /* atomic: serves nothing any more */
    bool pressed;      /* atomic: its stream waits for fences instead of polling them */
    unsigned given;    /* atomic: segments returned, by a free in its stream */
    unsigned awaited;  /* atomic: how many of them are known to have run */
    unsigned in_vain;  /* atomic: how many of them a long wait did not see run */
    bool handed_out;   /* atomic: memory, since the stream's last launch in full order */
    bool moving;       /* under the lock: its stream is about to end */
    unsigned users;    /* under the lock: threads that return segments */
    unsigned mapped;   /* atomic: segments */
    struct owed *owed; /* under the lock: segments to be returned later */
    struct gs_async_heap *next; /* immutable once published */
};

/* The one handle of the legacy stream. */
static inline CUstream gs_async_stream(CUstream stream)
{
    return stream == CU_STREAM_LEGACY ? NULL : stream;
}

/* Called when the context has failed permanently: the heaps of its streams serve nothing
 * more. A free of their memory calls the driver, which reports the error. */
void gs_async_context_fails(CUcontext context);

/* Returns true if the heap serves nothing any more. */
static inline bool gs_async_is_broken(const struct gs_async_heap *heap)
{
    return GS_UNLIKELY(__atomic_load_n(&heap->broken, __ATOMIC_RELAXED));
}

/* Returns true if an address is in a segment without an owner that is still to be
 * returned to the driver: the driver must not see a free of it. */
bool gs_async_owes(uint64_t addr);

/* Returns true if an address is in a segment without an owner, or in one of the last
 * segments that were freed in stream order; the address may have a new owner by now. */
bool gs_async_is_going(uint64_t addr);

/*
 * The heap of a stream of the current context; created at the first call. `stream` is not
 * a per-thread default stream. NULL: the driver serves this stream's memory.
 */
struct gs_async_heap *gs_async_heap_of(struct gs_state *state,
                                       const struct gs_context *context, CUstream stream);

/* Called when a block of the heap is handed to the program: sets handed_out. If it is set
 * already, the launch that clears it comes after the earlier owner of the block, and is
 * in full order. */
static inline void gs_async_handed_out(struct gs_async_heap *heap)
{
    if (!__atomic_load_n(&heap->handed_out, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&heap->handed_out, true, __ATOMIC_RELEASE);
    }
}

/* The stream's heap behind the pool's view of a heap; NULL: it is a context's heap. */
static inline struct gs_async_heap *gs_async_of(struct gs_context *face)
{
    return face->ordered ? (struct gs_async_heap *)face : NULL;
}

/* The heap of a block; NULL: the block is of a context's heap. */
static inline struct gs_async_heap *gs_async_heap_of_block(const struct gs_block *block)
{
    return gs_async_of(gs_heap_self(gs_block_heap(block)));
}

/* Returns true if the heap's stream has no work. False while a stream captures. */
bool gs_async_is_idle(struct gs_async_heap *heap);

/* Called after gs_heap_alloc has found no memory: also takes blocks that other streams
 * freed, and orders the heap's stream after their fences. */
enum gs_status gs_async_press(struct gs_async_heap *heap, size_t bytes,
                              struct gs_block **out, int *native) GS_MUST_USE;

/* Returns true if a free in the stream, of the current context, is in the heap's own
 * order. */
bool gs_async_is_own(const struct gs_async_heap *heap, CUstream stream, bool per_thread);

/*
 * Orders the free of a claimed block in a stream other than its heap's.
 * Returns the driver's code; unless it is CUDA_SUCCESS nothing has changed.
 * Out:    *fence  the fence for the free; 0: the block needs none
 */
CUresult gs_async_order(struct gs_async_heap *heap, CUstream stream, bool per_thread,
                        gs_fence *fence);

/* Called after a block was freed: returns idle memory to the driver if this is due. */
void gs_async_freed(struct gs_async_heap *heap);

/* Returns idle memory in the heaps of the device to the driver; -1: of all devices. */
void gs_async_give_back(int device);

/* A row of reclaim.def: segments returned since the last call are free once their streams
 * have reached the free; if nothing else runs this takes a short time, for which this
 * function waits, once for all streams. Returns true if any is free. No stream
 * captures. */
bool gs_async_await_given(int device);
/* The same for an allocation that fails otherwise: waits for 0.4 s, until the frees of
 * one stream have run; once for the same frees. */
bool gs_async_await_given_long(int device);

/* Called before a stream is destroyed. */
void gs_async_stream_ends(CUstream stream);

/* Called before a context is destroyed. */
void gs_async_heaps_freeze(CUcontext context);
/* Called after the attempt; destroyed: whether the context has ended. */
void gs_async_heaps_thaw(CUcontext context, bool destroyed);

/*
 * Called before the launch of a kernel that may start before the previous one has ended
 * (programmatic stream serialization). If the stream was handed memory since its last
 * launch in full order, the previous kernel may be the earlier owner of this memory:
 * copies the launch without the attribute, which is always allowed.
 * Returns the configuration to launch.
 */
const CUlaunchConfig *gs_async_launch_in_order(const CUlaunchConfig *config,
                                               bool per_thread)
    __attribute__((cold, noinline));

/* Called with the result of the launch of this configuration. */
void gs_async_launched(const CUlaunchConfig *launched, CUresult result);

extern unsigned gs_async_heap_count __attribute__((visibility("hidden"))); /* atomic */

static inline const CUlaunchConfig *gs_async_launch(const CUlaunchConfig *config,
                                                    bool per_thread)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_async_heap_count, __ATOMIC_ACQUIRE)) &&
                   config && config->numAttrs
               ? gs_async_launch_in_order(config, per_thread)
               : config;
}

/* In a forked child: drops all heaps. */
void gs_async_heaps_reset(void);
/* In a forked child: drops the library's own streams. */
void gs_async_order_reset(void);

#endif
