/*
 * tiers.h - cached blocks above the segments, for requests of their own size.
 *
 *   thread cache   of one thread and one heap: small stacks, no lock for their owner
 *   stream tier    of one heap, for threads that submit to the same streams: a lock each
 *   global tier    of one heap: one lock per class
 *
 * A cached block still counts as occupied in its segment. It serves only a request that
 * rounds to its own size, so caching never worsens the fit. Blocks move in batches: down
 * when a tier is full, up when the tier above is empty. Below the last tier are the
 * segments, where blocks merge.
 *
 * A thread is inside its thread cache while it moves blocks between any of the tiers. A
 * thread that reads or drains a heap's tiers first excludes all threads from their thread
 * caches (gs_tiers_exclude). So it finds every block either in a tier or in a segment,
 * and a drain is one atomic step for all other threads.
 *
 * Owns: struct gs_tcache, struct gs_tiers.
 * Lock: thread caches as above; tiers->lock for the excluding thread.
 * Design: docs/pool.md, "Cache tiers"
 */
#ifndef GS_POOL_TIERS_H
#define GS_POOL_TIERS_H

#include <stdatomic.h>

#include "gs_base.h"
#include "pool/list.h"
#include "pool/lock.h"
#include "pool/pool.h"

struct gs_block;
struct gs_heap;
struct gs_pool;
struct gs_pool_stats;
struct gs_request;
struct gs_segment;

/* Classes: one for each size up to 32 KiB, then eight per octave, up to 2 MiB. */
#define GS_CLASS_EXACT 64u
#define GS_CLASS_COUNT (GS_CLASS_EXACT + 6 * 8)
#define GS_STREAMS     16u /* stream caches of a heap; keys share them */
/* Large blocks in a thread cache: of carved segments, where they keep their neighbours
 * from merging, and whole segments. */
#define GS_WHOLE_CARVED 4u
#define GS_WHOLE_COUNT  (GS_WHOLE_CARVED + 12u)

/* Limits of one class in a thread cache: blocks, and bytes unless those are fewer than
 * two blocks. */
#define GS_STACK_BLOCKS 16u
#define GS_STACK_BYTES  (256 * GS_KIB)
/* Limit of a whole thread cache. */
#define GS_TCACHE_BYTES (4 * GS_MIB)
/* The number of calls for which a full device keeps the cache tiers empty. */
#define GS_SUSPENDED 4096u
/* A stack of a lower tier holds this many times a thread cache's limit. */
#define GS_LOWER_STACKS 4u

static inline unsigned gs_class_of(uint32_t units)
{
    unsigned top;

    if (GS_LIKELY(units <= GS_CLASS_EXACT)) {
        return units - 1;
    }
    top = 31 - (unsigned)__builtin_clz(units - 1); /* 6 to 11 */
    return GS_CLASS_EXACT + (top - 6) * 8 + (((units - 1) >> (top - 3)) & 7);
}

/* Classes above 32 KiB hold several sizes, so a block may be cached that no request
 * fits. */
#define GS_CLASS_WIDE (GS_CLASS_COUNT - GS_CLASS_EXACT)
#define GS_ASKED      32u /* sizes of recent misses that a thread cache remembers */

/* Retention policy (retention.c). By class, from GS_CLASS_EXACT on. */
struct gs_wide {
    uint32_t hits[GS_CLASS_WIDE];  /* the stack's hits at its last eviction */
    uint8_t wasted[GS_CLASS_WIDE]; /* blocks evicted since the last hit */
    uint16_t asked[GS_ASKED]; /* units of recent misses, in classes that are not kept */
};

/* Blocks of one class, linked by live.below. */
struct gs_stack {
    struct gs_block *top;
    uint32_t count;
    uint32_t limit; /* in a thread cache; 0: the class is not kept, for now */
    uint64_t hits;  /* in a thread cache; see gs_classes_settle */
};

/* Counters of a thread cache since it was bound to its heap. */
struct gs_tcache_counts {
    uint64_t allocs, frees;
    uint64_t requested_bytes, requested_freed_bytes; /* handed out, and freed again */
    uint64_t given_bytes, given_back_bytes;
    uint64_t from_stream, from_global;          /* of allocs */
    uint64_t from_segments;                     /* likewise, with a batch */
    uint64_t whole_hits[GS_POOL_LARGE_CLASSES]; /* of allocs: whole segments, by class */
};

/* The counted allocations that the thread cache served itself. */
static inline uint64_t gs_tcache_hits(const struct gs_tcache_counts *counts)
{
    return counts->allocs - counts->from_stream - counts->from_global -
           counts->from_segments;
}

/* All fields except the next three belong to the thread that is inside: the owner, or the
 * thread that holds tiers->lock and has seen the owner outside. */
struct gs_tcache {
    /* Thread caches begin a page, and the first lines of all pages share a set of the
     * cache. */
    uint8_t unused[64 * 8 - 56];
    /* The thread's oldest thread cache, which has those whose heap has ended: any thread
     * adds one, the owner takes them. */
    struct gs_tcache *oldest;
    _Atomic(struct gs_tcache *) loose; /* in the oldest; linked by loose_next */
    struct gs_tcache *loose_next;
    /* The thread's map of its thread caches by heap: in its first one. */
    struct gs_tcache **known; /* chains; NULL: it has too few for a map */
    uint32_t known_bits, own_count;
    /* In each: its place in that map. */
    struct gs_tcache *known_next;
    struct gs_tcache **known_in;    /* its chain; NULL: not in the map */
    _Atomic uint32_t busy;          /* the owner is inside */
    _Atomic uint32_t wanted;        /* the owner has to stay outside */
    _Atomic(struct gs_heap *) heap; /* NULL: not bound */
    size_t bytes, limit_bytes;      /* in the stacks */
    struct gs_tcache_counts counts;
    struct gs_block *whole[GS_WHOLE_COUNT]; /* the first GS_WHOLE_CARVED: of carved
                                             * segments */
    uint32_t whole_units[GS_WHOLE_COUNT];   /* of each; 0: empty */
    uint16_t whole_hand[2];                 /* the next one to evict of either kind */
    uint64_t stream_key;
    struct gs_cache *stream; /* the cache of that key; NULL: not looked up */
    struct gs_link of_heap;  /* tiers->tcaches; tiers->lock */
    const void *owner;       /* an address of its thread alone; tiers->lock */
    struct gs_tcache *next;  /* of the same thread, or spare */
    unsigned hand;           /* the next class to evict */
    struct gs_wide wide;
    uint8_t batches[GS_CLASS_EXACT]; /* size of the last batch from the segments */
    struct gs_stack stacks[GS_CLASS_COUNT];
} __attribute__((aligned(64)));

static_assert(sizeof(struct gs_tcache) <= 4096, "docs/pool.md says a page");
static_assert(offsetof(struct gs_tcache, busy) == 512, "as the first comment says");

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
    _Atomic bool closed; /* the heap is dead or poisoned; written under lock */
    _Atomic uint32_t
        suspended; /* calls until the thread caches open again; raised under lock */
    bool drained;  /* lock: since the last drain no block was cached and no thread cache
                    * opened; valid while suspended */
    /* Limits, which change while no thread is inside a thread cache (gs_tiers_limit) ...
     */
    size_t threads_bytes;       /* of all thread caches together */
    size_t thread_bytes;        /* of one thread cache */
    size_t tier_bytes;          /* of the stream tier, and of the global tier */
    uint32_t stream_blocks_max; /* in one stream cache */
    uint32_t global_blocks_max;
    struct gs_link tcaches; /* lock */
    unsigned tcache_count;  /* lock */
    unsigned shares;        /* lock: thread caches that the shares are computed for */
    _Atomic size_t stream_bytes, global_bytes;
    _Atomic uint32_t global_blocks;
    _Atomic(struct gs_cache *) streams[GS_STREAMS];
    struct gs_global global[GS_CLASS_COUNT];
};

/* ---- tiers.c: moves between the cache tiers --------------------------------------- */

/* Creates the cache tiers of a heap. Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_tiers_create(const struct gs_pool *pool,
                               struct gs_tiers **out) GS_MUST_USE;
/* Sets the limits to the pool's. No thread may be inside a thread cache. */
void gs_tiers_set_limits(struct gs_tiers *tiers, const struct gs_pool *pool);
/* Unbinds the thread caches. No thread may be in a call for the heap. */
void gs_tiers_destroy(struct gs_tiers *tiers);

/*
 * Takes a block of `units` out of the caller's thread cache or a lower tier. A lower tier
 * also fills the thread cache with a batch; so do the segments for a class that was
 * missed repeatedly. NULL if there is none. The caller is inside the thread cache.
 */
struct gs_block *gs_tiers_take(struct gs_tcache *tcache, struct gs_heap *heap,
                               uint32_t units);
/* Makes space in the thread cache for one more block of `units` by moving other blocks
 * down. Adds segments that have to be returned to *detached. The caller is inside. */
void gs_tiers_spill(struct gs_tcache *tcache, struct gs_heap *heap, uint32_t units,
                    struct gs_segment **detached);
/* Takes a large block out of the thread cache, or puts one into it; one too large to keep
 * goes back to the heap. The caller is inside. */
struct gs_block *gs_tiers_take_whole(struct gs_tcache *tcache,
                                     const struct gs_request *request);
void gs_tiers_put_whole(struct gs_tcache *tcache, struct gs_heap *heap,
                        struct gs_block *block, struct gs_segment **detached);
/* Moves all of a thread cache's blocks down; the caller is inside, or holds
 * tiers->lock. */
void gs_tiers_flush(struct gs_tcache *tcache, struct gs_heap *heap,
                    struct gs_segment **detached);

/* Releases every cached block of the heap into the segments. Returns their bytes. No lock
 * is held. */
size_t gs_tiers_drain(struct gs_heap *heap);
/* The same, and the limits are the pool's from then on. */
void gs_tiers_limit(struct gs_heap *heap);
/* The same as gs_tiers_drain. Nothing is cached for the next GS_SUSPENDED calls: the
 * device is full, and every hole counts. */
size_t gs_tiers_suspend(struct gs_heap *heap);
/* Counts a call for the heap that found its thread cache closed, which the tiers of a
 * full device are. No lock is held. */
void gs_tiers_count(struct gs_heap *heap);
static inline void gs_tiers_pass(struct gs_heap *heap, struct gs_tiers *tiers)
{
    if (tiers &&
        GS_UNLIKELY(atomic_load_explicit(&tiers->suspended, memory_order_relaxed))) {
        gs_tiers_count(heap);
    }
}
/* Closes the cache tiers, and releases their blocks into the segments. No lock is held.
 */
void gs_tiers_close(struct gs_heap *heap);
/* The same for a heap that dies, whose blocks are forgotten with it: before
 * gs_tiers_admit, as after gs_tiers_exclude. */
void gs_tiers_bury(struct gs_heap *heap);

/* Opens the cache tiers of a dead heap's record for another heap. */
void gs_tiers_reopen(struct gs_tiers *tiers);

/* Excludes all threads from the heap's thread caches, and admits them again.
 * GS_RANK_TIERS is held in between. No effect without cache tiers. */
void gs_tiers_exclude(struct gs_heap *heap);
void gs_tiers_admit(struct gs_heap *heap);
/* Between the two: adds the thread caches' counters, and the cache tiers' bytes. */
void gs_tiers_sum(struct gs_heap *heap, struct gs_pool_stats *sum);
/* Between the two, with heap->lock held: NULL, or the fault. *count: cached blocks. */
const char *gs_tiers_check(struct gs_heap *heap, size_t *count);

/* ---- retention.c: which classes a thread cache keeps ------------------------------- */

/* Limit of a class's stack in a thread cache, while the class is kept. */
uint32_t gs_retention_limit(unsigned class);
/* Records that blocks of a wide class were evicted. Returns true if the class is no
 * longer kept: then the caller evicts all its blocks. The caller is inside, as for the
 * next. */
bool gs_retention_lost(struct gs_tcache *tcache, unsigned class, uint32_t count);
/* Records a miss of a wide class in the thread cache: the class may be kept again. */
void gs_retention_missed(struct gs_tcache *tcache, unsigned class, uint32_t units);

/* ---- tcache.c: threads, their thread caches, and exclusion ------------------------ */

/* The thread cache that the thread used last; never NULL. */
extern _Thread_local struct gs_tcache *gs_tcache_mine
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
/* True if the excluding threads force the barrier (membarrier), so that owners need
 * none. */
extern _Atomic bool gs_tcache_asymmetric __attribute__((visibility("hidden")));

/* The key of the stream that the thread submitted to last. */
uint64_t gs_tcache_stream_key(void);
/* gs_tcache_of for a heap that the thread did not use last. */
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

/* Recomputes every thread cache's share of the limit. No thread is inside; tiers->lock is
 * held. Adds segments that have to be returned to *detached. */
void gs_tcaches_share(struct gs_heap *heap, struct gs_segment **detached);
/* Unbinds every thread cache of a heap whose cache tiers end; their owners may bind them
 * to other heaps. tiers->lock is held, or no thread is in a call for the heap. */
void gs_tcaches_unbind(struct gs_tiers *tiers);
/* Offers a thread cache that is bound to no heap to its owner. */
void gs_tcache_loosen(struct gs_tcache *tcache);
/* The same for a heap that ends with its pool: discards their counters. */
void gs_tcaches_forget(struct gs_tiers *tiers);
/* Adds a thread cache's counters to its heap's. tiers->lock is held, and no thread is
 * inside. Takes heap->lock. */
void gs_tcache_settle(struct gs_tcache *tcache, struct gs_heap *heap);
/* Call after setting `wanted` in thread caches. When it returns, each owner either was
 * inside before, and is seen there, or sees `wanted`. */
void gs_tcache_barrier(void);

/* The thread's own thread caches; the lock of the bindings; the thread cache that is
 * bound to no heap and never entered. */
extern _Thread_local struct gs_tcache *gs_tcaches_own
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern struct gs_lock gs_tcaches_lock __attribute__((visibility("hidden")));
extern struct gs_tcache gs_tcache_none __attribute__((visibility("hidden")));

/* Puts a block, or a whole segment, into the thread cache, which the thread is inside;
 * moves blocks down first if a limit is reached. `uncounted`: this free is not yet
 * counted. Returns false if the block has to go back to its segment. */
bool gs_tcache_put(struct gs_tcache *tcache, struct gs_heap *heap, struct gs_block *block,
                   bool uncounted, struct gs_segment **detached);

/* The owner enters. Returns false if it is excluded. */
static inline bool gs_tcache_enter(struct gs_tcache *tcache)
{
    if (GS_LIKELY(atomic_load_explicit(&gs_tcache_asymmetric, memory_order_relaxed))) {
        atomic_store_explicit(&tcache->busy, 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        (void)atomic_exchange(&tcache->busy, 1);
    }
    if (GS_LIKELY(!atomic_load(&tcache->wanted))) {
        return true;
    }
    atomic_store_explicit(&tcache->busy, 0, memory_order_release);
    return false;
}

static inline void gs_tcache_leave(struct gs_tcache *tcache)
{
    atomic_store_explicit(&tcache->busy, 0, memory_order_release);
}

#endif
