/*
 * async_heaps.h - the heaps of streams: stream-ordered memory, each heap in the order of
 * one stream (GPUSHIM_ASYNC=pool).
 *
 * All memory of a heap is in its stream's order: its segments are made and given back in
 * that order, and so are the blocks that the stream itself frees, which it may have again
 * at once (reuse safety, rule L2). A block that another stream frees waits until that
 * stream's point was seen complete. No block of one stream's heap goes to another stream;
 * what is idle goes back to the driver in the stream's order, and the driver gives it to
 * others by its own rules.
 *
 *   living    in the order of a stream of the program's
 *   ended     that stream was destroyed: in the order of one of the library's own, which
 *             waits for all that the stream had. No request is served from it; it is used
 *             for another stream once it is empty
 *   over      the context ended, and with it all work there was
 *
 * Segments are of a private memory pool (async_policy.h): they survive every context.
 *
 * Owns: struct gs_async_heap, never freed.   Lock: a mutex inside, never held across a
 * driver call.   Design: docs/async.md
 */
#ifndef GS_ASYNC_HEAPS_H
#define GS_ASYNC_HEAPS_H

#include "state.h"

struct gs_async_heap {
    struct gs_context face; /* what the pool calls the heap's context; ordered is set */
    CUstream stream;        /* atomic: whose order it is; NULL: the legacy stream's */
    CUcontext home;         /* atomic: of that stream; NULL: over */
    CUmemoryPool source;    /* immutable */
    bool ended;             /* atomic: its stream was destroyed */
    bool broken;            /* atomic: serves nothing any more */
    bool pressed;           /* atomic: its stream waits for fences instead of asking */
    unsigned given;         /* atomic: segments that went back, by a free in its stream */
    unsigned awaited;       /* atomic: as many of them were waited for */
    bool handed_out;   /* atomic: memory, since the stream's last launch in full order */
    bool moving;       /* under the lock: its stream is about to end */
    unsigned users;    /* under the lock: threads that give segments back */
    unsigned mapped;   /* atomic: segments */
    struct owed *owed; /* under the lock: segments to be given back later */
    struct gs_async_heap *next; /* immutable once published */
};

/* The legacy stream by its one name. */
static inline CUstream gs_async_stream(CUstream stream)
{
    return stream == CU_STREAM_LEGACY ? NULL : stream;
}

/* The context has failed for good: its streams' heaps serve nothing more, and a free of
 * what they gave asks the driver, which says so. */
void gs_async_context_fails(CUcontext context);

/* Whether the heap serves nothing any more. */
static inline bool gs_async_is_broken(const struct gs_async_heap *heap)
{
    return GS_UNLIKELY(__atomic_load_n(&heap->broken, __ATOMIC_RELAXED));
}

/* Whether an address lies in a segment that is nobody's, and still to be given back: a
 * free of it is never the driver's business. */
bool gs_async_owes(uint64_t addr);

/* Whether it lies in such a one, or in one whose free in a stream's order was among the
 * last; somebody else may have the place by now. */
bool gs_async_is_going(uint64_t addr);

/*
 * The heap of a stream of the current context; made at first sight. `stream` is not the
 * thread's own default stream. NULL: that stream's memory is the driver's.
 */
struct gs_async_heap *gs_async_heap_of(struct gs_state *state,
                                       const struct gs_context *context, CUstream stream);

/* A block of the heap goes to the program. Where this finds it noted already, a launch
 * that takes the note away is behind whoever had the block before, and in full order. */
static inline void gs_async_handed_out(struct gs_async_heap *heap)
{
    if (!__atomic_load_n(&heap->handed_out, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&heap->handed_out, true, __ATOMIC_RELEASE);
    }
}

/* The heap that a block is of; NULL: it is a context's. */
static inline struct gs_async_heap *gs_async_heap_of_block(const struct gs_block *block)
{
    struct gs_context *face = gs_heap_self(gs_block_heap(block));
    return face->ordered ? (struct gs_async_heap *)face : NULL;
}

/* As gs_heap_alloc, once that has found no memory: blocks that other streams freed are
 * taken as well, and the heap's stream waits for those. */
enum gs_status gs_async_press(struct gs_async_heap *heap, size_t bytes,
                              struct gs_block **out, int *native) GS_MUST_USE;

/* Whether a free in that stream, of the current context, is in the heap's own order. */
bool gs_async_is_own(const struct gs_async_heap *heap, CUstream stream, bool per_thread);

/*
 * A claimed block is freed in the order of a stream that is not its heap's.
 * Returns the driver's code; unless it is CUDA_SUCCESS nothing has changed.
 * Out:    *fence  to free it with; 0: it may be freed as it is
 */
CUresult gs_async_order(struct gs_async_heap *heap, CUstream stream, bool per_thread,
                        gs_fence *fence);

/* A block was freed: idle memory may be due to go back. */
void gs_async_freed(struct gs_async_heap *heap);

/* Give back what is idle in the heaps of that device; -1: of all. */
void gs_async_give_back(int device);

/* The driver was out of memory. Segments that went back since the last time are free once
 * their streams have come so far: in a moment, if nothing else runs, which is waited for,
 * once for all streams. Returns whether any has: then it is worth to ask again. */
bool gs_async_await_given(int device);

/* A stream is about to be destroyed. */
void gs_async_stream_ends(CUstream stream);

/* A context is about to be destroyed ... */
void gs_async_heaps_freeze(CUcontext context);
/* ... and was, or was not. */
void gs_async_heaps_thaw(CUcontext context, bool destroyed);

/*
 * A kernel that may start before the one in front of it has ended is about to be launched
 * (programmatic stream serialization). Where the stream has been handed memory since its
 * last launch in full order, whoever had that memory before may be that kernel: a copy of
 * the launch without the attribute is made, which is always allowed.
 * Returns what to launch.
 */
const CUlaunchConfig *gs_async_launch_in_order(const CUlaunchConfig *config,
                                               bool per_thread)
    __attribute__((cold, noinline));

/* The launch of what that returned has failed, or not. */
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

/* In a forked child: there are none. */
void gs_async_heaps_reset(void);

#endif
