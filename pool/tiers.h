/*
 * tiers.h - blocks kept whole above the segments, for requests of their own size.
 *
 *   thread cache    of one thread and one heap: small stacks, no lock for their owner
 *   stream   of one heap, for the threads that submit to the same streams: one lock each
 *   global   of one heap: one lock a class
 *
 * A cached block is still occupied as its segment sees it, and is handed out only for a
 * request that rounds to its own size: nothing here makes a block fit worse than it did.
 * Batches move down when a level is full and up when the one above is empty; below the
 * last are the segments, where blocks merge.
 *
 * A thread is inside its thread cache while it moves blocks between any of the cache
 * tiers, and all who look at or empty a heap's cache tiers first keep every thread out of
 * its thread caches (gs_tiers_exclude). So a block is always either where they find it or
 * in nobody's hands but a segment's, and what they do is one step for everybody else.
 *
 * Owns: struct gs_tcache, struct gs_tiers.   Lock: thread caches as said, tiers->lock for
 * who excludes.   Design: docs/pool.md, "Cache tiers"
 */
#ifndef GS_POOL_TIERS_H
#define GS_POOL_TIERS_H

#include <stdatomic.h>

#include "gs_base.h"
#include "list.h"
#include "lock.h"
#include "pool.h"

struct gs_block;
struct gs_heap;
struct gs_pool;
struct gs_pool_stats;
struct gs_segment;

/* Classes: one for each size up to 32 KiB, then eight an octave, up to 2 MiB. */
#define GS_CLASS_EXACT 64u
#define GS_CLASS_COUNT (GS_CLASS_EXACT + 6 * 8)
#define GS_STREAMS     16u /* caches of the stream level; keys share them */
#define GS_WHOLE_COUNT 16u /* whole segments in a thread cache */

/* What a thread cache holds of one class: at most so many blocks, and so many bytes
 * unless those are fewer than two blocks. */
#define GS_STACK_BLOCKS 16u
#define GS_STACK_BYTES  (256 * GS_KIB)
/* All classes of a thread cache together. */
#define GS_TCACHE_BYTES (4 * GS_MIB)
/* How many calls a full device keeps the cache tiers empty for. */
#define GS_SUSPENDED 4096u
/* A stack of a lower level holds so many times what a thread cache's does. */
#define GS_LOWER_STACKS 4u

static inline unsigned gs_class_of(uint32_t units)
{
    unsigned top;

    if (GS_LIKELY(units <= GS_CLASS_EXACT))
        return units - 1;
    top = 31 - (unsigned)__builtin_clz(units - 1); /* 6 to 11 */
    return GS_CLASS_EXACT + (top - 6) * 8 + (((units - 1) >> (top - 3)) & 7);
}

/* Classes above 32 KiB hold several sizes: what is kept of one may never be asked for. */
#define GS_CLASS_WIDE (GS_CLASS_COUNT - GS_CLASS_EXACT)
#define GS_ASKED      32u /* sizes that are remembered */

/* Are they worth a place in the thread cache? By class, from GS_CLASS_EXACT on. */
struct gs_wide {
    uint32_t hits[GS_CLASS_WIDE];  /* of its stack, when some of it gave way last */
    uint8_t wasted[GS_CLASS_WIDE]; /* blocks that gave way since the last hit */
    uint16_t asked[GS_ASKED]; /* units missed of late, in classes that are not kept */
};

/* Blocks of one class, linked by live.below. */
struct gs_stack {
    struct gs_block *top;
    uint32_t count;
    uint32_t limit; /* in a thread cache; 0: the class is not kept, for now */
    uint64_t hits;  /* in a thread cache; see gs_classes_settle */
};

/* What happened in a thread cache since it was bound to its heap. */
struct gs_tcache_counts {
    uint64_t allocs, frees;
    uint64_t requested_bytes, requested_freed_bytes; /* handed out, and freed again */
    uint64_t given_bytes, given_back_bytes;
    uint64_t from_stream, from_global;          /* of allocs */
    uint64_t from_segments;                     /* likewise, with a batch */
    uint64_t whole_hits[GS_POOL_LARGE_CLASSES]; /* of allocs: whole segments, by class */
};

/* Of the allocations that a thread cache counted, those that it served itself. */
static inline uint64_t gs_tcache_hits(const struct gs_tcache_counts *counts)
{
    return counts->allocs - counts->from_stream - counts->from_global -
           counts->from_segments;
}

/* All fields but the next three belong to whoever is inside: the owner, or who holds
 * tiers->lock and has seen the owner outside. */
struct gs_tcache {
    /* Thread caches begin a page, and the first lines of all pages share a set of the
     * cache. */
    uint8_t unused[64 * 8];
    _Atomic uint32_t busy;          /* the owner is inside */
    _Atomic uint32_t wanted;        /* the owner has to stay outside */
    _Atomic(struct gs_heap *) heap; /* NULL: bound to none */
    size_t bytes, limit_bytes;      /* in the stacks */
    struct gs_tcache_counts counts;
    struct gs_block *whole[GS_WHOLE_COUNT];
    uint32_t whole_units[GS_WHOLE_COUNT]; /* of each; 0: there is none */
    unsigned whole_hand;                  /* the one that gives way next */
    uint64_t stream_key;
    struct gs_cache *stream; /* of that key; NULL: not looked up */
    struct gs_link of_heap;  /* tiers->tcaches; tiers->lock */
    const void *owner;       /* an address of its thread's alone; tiers->lock */
    struct gs_tcache *next;  /* of the same thread, or spare */
    unsigned hand;           /* the class that gives way next */
    struct gs_wide wide;
    uint8_t
        batches[GS_CLASS_EXACT]; /* blocks that came from the segments last, at once */
    struct gs_stack stacks[GS_CLASS_COUNT];
} __attribute__((aligned(64)));

static_assert(sizeof(struct gs_tcache) <= 4096, "docs/pool.md says a page");

struct gs_cache {
    struct gs_lock lock;     /* GS_RANK_STREAM */
    _Atomic uint32_t blocks; /* on all stacks */
    struct gs_stack stacks[GS_CLASS_COUNT];
};

struct gs_global {
    struct gs_lock lock; /* GS_RANK_GLOBAL */
    struct gs_stack stack;
} __attribute__((aligned(64)));

struct gs_tiers {
    struct gs_lock lock; /* GS_RANK_TIERS */
    _Atomic bool closed; /* for good: the heap is dead or poisoned; written under lock */
    _Atomic uint32_t
        suspended; /* calls until the thread caches open again; raised under lock */
    bool drained;  /* lock: nothing has been cached since all was emptied, and no thread
                      cache was  opened; counts while the cache tiers are suspended */
    size_t threads_bytes; /* for all thread caches together; immutable */
    size_t thread_bytes;  /* for one thread cache at most; immutable */
    size_t tier_bytes;    /* for the stream level, and for the global one; immutable */
    uint32_t stream_blocks_max; /* in one of its caches; immutable, as the next */
    uint32_t global_blocks_max;
    struct gs_link tcaches; /* lock */
    unsigned tcache_count;  /* lock */
    unsigned shares; /* lock: thread caches that each one's share is reckoned for */
    _Atomic size_t stream_bytes, global_bytes;
    _Atomic uint32_t global_blocks;
    _Atomic(struct gs_cache *) streams[GS_STREAMS];
    struct gs_global global[GS_CLASS_COUNT];
};

/* --- tiers.c: what moves between the cache tiers ---------------------------------------
 */

/* Cache tiers of a heap of the pool, which has cache_bytes > 0. Errors:
 * GS_ERR_HOST_NOMEM. */
enum gs_status gs_tiers_create(const struct gs_pool *pool,
                               struct gs_tiers **out) GS_MUST_USE;
/* Unbinds the thread caches. No thread may be in a call for the heap. */
void gs_tiers_destroy(struct gs_tiers *tiers);

/*
 * A block of `units` from the caller's thread cache or a level below; what comes from
 * below brings a batch along, and so do the segments for a class that was asked for again
 * and again. NULL if there is none so. The caller is inside the thread cache.
 */
struct gs_block *gs_tiers_take(struct gs_tcache *tcache, struct gs_heap *heap,
                               uint32_t units);
/* Make room in the thread cache for one more block of `units`: what is too much moves
 * down. The caller is inside. Segments that have to be given back are added to *detached.
 */
void gs_tiers_spill(struct gs_tcache *tcache, struct gs_heap *heap, uint32_t units,
                    struct gs_segment **detached);
/* A whole segment out of the thread cache, or into it, or back to the segments where it
 * is too large to be kept; the caller is inside. */
struct gs_block *gs_tiers_take_whole(struct gs_tcache *tcache, uint32_t units);
void gs_tiers_put_whole(struct gs_tcache *tcache, struct gs_heap *heap,
                        struct gs_block *block, struct gs_segment **detached);
/* All of a thread cache's blocks move down; the caller is inside, or holds tiers->lock.
 */
void gs_tiers_flush(struct gs_tcache *tcache, struct gs_heap *heap,
                    struct gs_segment **detached);

/* Back into the segments with every cached block of the heap. Returns their bytes. No
 * lock is held. */
size_t gs_tiers_drain(struct gs_heap *heap);
/* The same; and for the next GS_SUSPENDED calls nothing is cached, as the device is full
 * and every hole counts. */
size_t gs_tiers_suspend(struct gs_heap *heap);
/* A call for the heap that found its thread cache closed. No lock is held. */
void gs_tiers_pass(struct gs_heap *heap);
/* Nothing is cached from now on; what was is released or, if the heap is about to be
 * buried, forgotten. No lock is held. */
void gs_tiers_close(struct gs_heap *heap, bool release);

/* Keep all threads out of the heap's thread caches; rank GS_RANK_TIERS is held in
 * between. No effect without cache tiers. */
void gs_tiers_exclude(struct gs_heap *heap);
void gs_tiers_admit(struct gs_heap *heap);
/* Between the two: add the thread caches' counters, and the cache tiers' bytes. */
void gs_tiers_sum(struct gs_heap *heap, struct gs_pool_stats *sum);
/* Between the two, with heap->lock held: NULL, or what is wrong. *count: cached blocks.
 */
const char *gs_tiers_check(struct gs_heap *heap, size_t *count);

/* --- keep.c: which classes a thread cache keeps
 * -------------------------------------------- */

/* Blocks of a class that a thread cache holds at most, while the class is kept. */
uint32_t gs_keep_limit(unsigned class);
/* Blocks of a wide class gave way. Returns true if it is not kept from now on: then all
 * the others have to give way. The caller is inside, as for the next. */
bool gs_keep_lost(struct gs_tcache *tcache, unsigned class, uint32_t count);
/* The thread cache had nothing for a request of a wide class: it may be kept again. */
void gs_keep_missed(struct gs_tcache *tcache, unsigned class, uint32_t units);

/* --- tcache.c: which thread has which thread cache, and how others are kept out
 * ------------- */

/* The thread's thread cache that was used last; never NULL. */
extern _Thread_local struct gs_tcache *gs_tcache_mine
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
/* Are stores of a thread seen by others only because these see to it (membarrier)? */
extern _Atomic bool gs_tcache_asymmetric __attribute__((visibility("hidden")));

/* The key of the stream the thread submitted to last. */
uint64_t gs_tcache_stream_key(void);
/* As gs_tcache_of, for a heap that the thread did not use last. */
struct gs_tcache *gs_tcache_search(struct gs_heap *heap);

/* The thread's thread cache for a heap, bound now if need be; NULL: there is none. No
 * lock is held. */
static inline struct gs_tcache *gs_tcache_of(struct gs_heap *heap)
{
    struct gs_tcache *tcache = gs_tcache_mine;

    return GS_LIKELY(atomic_load_explicit(&tcache->heap, memory_order_relaxed) == heap)
               ? tcache
               : gs_tcache_search(heap);
}

/* Every thread cache of a pool's heap is bound to none, and what it counted is lost. */
void gs_tcaches_forget(struct gs_tiers *tiers);
/* What a thread cache counted, to its heap's own counters; tiers->lock is held, and
 * nobody is inside. Takes heap->lock. */
void gs_tcache_settle(struct gs_tcache *tcache, struct gs_heap *heap);
/* After `wanted` was set in some thread caches: once this returns, an owner either was
 * inside before and is seen there, or sees `wanted`. */
void gs_tcache_barrier(void);
/* As the system call of that name. Keeps errno. */
bool gs_tcache_membarrier(int command);

/* The thread's own thread caches, and both ends of each binding; bound to nothing, and
 * never entered: gs_tcache_none. */
extern _Thread_local struct gs_tcache *gs_tcaches_own
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern struct gs_lock gs_tcaches_lock __attribute__((visibility("hidden")));
extern struct gs_tcache gs_tcache_none __attribute__((visibility("hidden")));

/* Into the thread cache, which the thread is inside, after what it has too much of was
 * moved down, or a whole segment. Returns false if it has to go back to its segment. */
bool gs_tcache_put(struct gs_tcache *tcache, struct gs_heap *heap, struct gs_block *block,
                   bool anew, struct gs_segment **detached);

/* The owner goes in. Returns false if it has to stay outside. */
static inline bool gs_tcache_enter(struct gs_tcache *tcache)
{
    if (GS_LIKELY(atomic_load_explicit(&gs_tcache_asymmetric, memory_order_relaxed))) {
        atomic_store_explicit(&tcache->busy, 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        (void)atomic_exchange(&tcache->busy, 1);
    }
    if (GS_LIKELY(!atomic_load(&tcache->wanted)))
        return true;
    atomic_store_explicit(&tcache->busy, 0, memory_order_release);
    return false;
}

static inline void gs_tcache_leave(struct gs_tcache *tcache)
{
    atomic_store_explicit(&tcache->busy, 0, memory_order_release);
}

#endif
