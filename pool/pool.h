/*
 * pool.h - where device memory lives: heaps of segments, cut into blocks.
 *
 * One `gs_pool` a process; one `gs_heap` a context (or whatever the caller keys memory
 * by). Requests below GS_LARGE_BYTES share segments: best fit, split, coalesced. Larger
 * ones get a segment of their own from the backend, a multiple of GS_LARGE_BYTES, cached
 * whole when freed and reused where they fit closely. All metadata is out of band.
 *
 * Locks: all functions may be called from any thread; locking is internal, and no pool
 * lock is held while the backend is called. Design: docs/pool.md.
 */
#ifndef GS_POOL_H
#define GS_POOL_H

#include "gs_base.h"
#include "backend.h"

/* Driver granularity: larger requests get an allocation of their own, aligned to this. */
#define GS_LARGE_BYTES ((size_t)2 << 20)
/* Blocks are multiples of this, and start at multiples of it. */
#define GS_BLOCK_BYTES ((size_t)512)
/* The most bytes of a block that shares its segment with others. */
#define GS_SHARED_MAX_BYTES ((size_t)1 << 30)

struct gs_pool;
struct gs_heap;
struct gs_block;

/* Size classes that a user may set, at most. */
#define GS_SIZE_CLASSES_MAX 64u
/* Of a level: no block at all. */
#define GS_TIER_NO_BLOCKS UINT32_MAX

struct gs_pool_config {
    size_t segment_bytes; /* the largest shared segment; a multiple of GS_LARGE_BYTES */
    size_t cache_bytes;   /* of one heap, above its segments at most; 0: no such caches */
    /* Blocks of these that are kept for one stream, and for all threads; 0: as many as
     * the bytes allow. */
    uint32_t stream_blocks, global_blocks;
    const size_t *classes; /* requests are rounded up to these sizes: rising, > 0; what is
                              above the last is not. Copied. NULL: as it is asked for */
    unsigned class_count;  /* GS_SIZE_CLASSES_MAX at most */
    /* Requests of GS_LARGE_BYTES and more, up to segment_bytes, share segments as well:
     * split, and coalesced. */
    bool carve;
    unsigned age_ms; /* idle for longer: given back at the next maintenance; 0: never */
    /* Requests of GS_LARGE_BYTES and more are rounded to this, a power of two of at least
     * GS_BLOCK_BYTES; 0: to GS_LARGE_BYTES. */
    size_t large_step_bytes;
    /* No thread keeps a freed large segment: it is idle at once, and the limit of idle
     * bytes holds for it. */
    bool strict_idle;
};

/* Every counter of a heap or a pool; names and docs stand in pool/stats.def. */
struct gs_pool_stats {
#define GS_POOL_STAT(name, unit, doc) uint64_t name;
#include "stats.def"
#undef GS_POOL_STAT
};

/* What the pool may hold of a device; SIZE_MAX: as much as there is. */
struct gs_pool_limits {
    size_t reserved_bytes; /* in segments, idle or not */
    size_t device_bytes;   /* what the pool can have of it at best; 0: not known */
    size_t
        idle_bytes; /* of these, idle; what is more goes back at the next maintenance */
};

/* Where an address lies. */
struct gs_range {
    uint64_t segment_addr;
    size_t segment_bytes;
    uint64_t block_addr;    /* block that holds the address, live or not */
    size_t block_bytes;     /* its rounded size */
    size_t requested_bytes; /* what was asked for; 0 where the block is not live */
    bool live;
    bool claimed;  /* not live: its free is under way, and may still fail */
    bool pending;  /* not live: freed behind work that may still run */
    bool shared;   /* the segment serves several small blocks */
    bool retained; /* it takes no new allocation: gs_pool_retain */
    struct gs_heap *heap;
};

/* Errors: GS_ERR_INVALID, GS_ERR_HOST_NOMEM. */
enum gs_status gs_pool_create(const struct gs_pool_config *config,
                              struct gs_pool **out) GS_MUST_USE;
/* Frees metadata only, never device memory. No other call may be in progress. */
void gs_pool_destroy(struct gs_pool *pool);

/*
 * A new, empty heap.
 * In:     backend  must outlive the heap; `self` is passed to each of its functions
 *         device   ordinal; heaps of one device give memory back for one another
 * Errors: GS_ERR_INVALID, GS_ERR_HOST_NOMEM
 */
enum gs_status gs_heap_create(struct gs_pool *pool, const struct gs_backend *backend,
                              void *self, int device, struct gs_heap **out) GS_MUST_USE;

/*
 * The context is gone and its memory with it: every segment is forgotten, the backend is
 * not called any more (fences are released). The handle stays valid; every later request
 * answers GS_ERR_UNPOOLABLE. Blocks claimed but not yet freed may still be freed.
 */
void gs_heap_kill(struct gs_heap *heap);

/* No new allocations from this heap (sticky error); frees are still recognised. */
void gs_heap_poison(struct gs_heap *heap);

/*
 * Allocate.
 * In:     bytes    as the program asked, > 0
 * Out:    *out     a live block, valid until gs_block_free / free_fenced / abandon
 *         *native  the backend's error code, where the backend failed
 * Errors: GS_ERR_NOMEM       the backend is out of memory, after everything idle on the
 *                            device has been given back and the exact size asked for
 *         GS_ERR_BACKEND     the backend failed otherwise
 *         GS_ERR_UNPOOLABLE  the caller should forward the request (heap dead or
 *                            poisoned, address unsuitable, the pool's limit reached)
 *         GS_ERR_HOST_NOMEM  no memory for metadata: the caller should forward
 */
enum gs_status gs_heap_alloc(struct gs_heap *heap, size_t bytes, struct gs_block **out,
                             int *native) GS_MUST_USE;

/*
 * The same with room for `behind` more bytes in the block, which the program did not ask
 * for. Where there is no memory for those the block goes without: gs_block_room tells.
 * It asks no cache: for heaps of a pool that has none (cache_bytes 0).
 */
enum gs_status gs_heap_alloc_behind(struct gs_heap *heap, size_t bytes, size_t behind,
                                    struct gs_block **out, int *native) GS_MUST_USE;

uint64_t gs_block_addr(const struct gs_block *block);
/* Bytes of the block: what was asked for, and what lies behind it. */
size_t gs_block_room(const struct gs_block *block);
size_t gs_block_requested(const struct gs_block *block);
struct gs_heap *gs_block_heap(const struct gs_block *block);
/* The caller's own small index, e.g. of the tracker's record. 0 until set. */
void gs_block_set_tag(struct gs_block *block, uint32_t tag);
uint32_t gs_block_tag(const struct gs_block *block);
/* Backend `self` of a heap, as given at creation. */
void *gs_heap_self(const struct gs_heap *heap);

/*
 * Take a live block out of use; of several racing callers exactly one gets it.
 * Errors: GS_ERR_NOT_OURS   outside every segment: the pointer is the driver's business
 *         GS_ERR_BAD_FREE   inside a segment, but not a live block's start
 */
enum gs_status gs_pool_claim(struct gs_pool *pool, uint64_t addr,
                             struct gs_block **out) GS_MUST_USE;

/* Put a claimed block back: ready for any new allocation at once. */
void gs_block_free(struct gs_block *block);
/*
 * Put a claimed block back, not to be reused before `fence` has completed; with fence 0,
 * not before gs_heap_retire is told of a synchronize entered later.
 */
void gs_block_free_fenced(struct gs_block *block, gs_fence fence);
/*
 * Put a claimed block back and its segment with it to the backend, if it has one of its
 * own: work that still uses it is then the backend's concern. Returns false, and nothing
 * is done, if it shares its segment.
 */
bool gs_block_give_back(struct gs_block *block);
/*
 * Would the segment of such a block go back to the driver at once, as the device is short
 * of memory? Then the free of the block may be the driver's own, which is one wait
 * instead of two.
 */
bool gs_block_goes_back(const struct gs_block *block);
/*
 * Take a claimed block and its segment out of the pool, for a caller that frees the
 * segment's memory itself, and then calls gs_segment_is_out. Until then nobody waits for
 * that memory: the program's free of it goes on, and natively it is in use. Returns NULL,
 * and nothing is done, if the block shares its segment or its heap is dead.
 */
struct gs_segment *gs_block_take_out(struct gs_block *block);
/* The driver's free of it has ended; `freed`: with success. */
void gs_segment_is_out(struct gs_segment *segment, bool freed);
/*
 * Ask after the fences of some of those that have waited longest. What is done is ready
 * for the calling thread first. Returns how many were.
 */
size_t gs_heap_collect_ready(struct gs_heap *heap);
/* A claimed block whose free failed: live again, as if never claimed. */
void gs_block_release_claim(struct gs_block *block);

/* Call before a context-wide synchronize is entered. 0: nothing is pending. Takes no lock
 * then ... */
uint64_t gs_heap_retire_begin(struct gs_heap *heap);
/* ... and with that token after it succeeded: blocks freed before it become ready, for
 * the calling thread first; but not those whose fence it did not wait for. */
void gs_heap_retire(struct gs_heap *heap, uint64_t token);

/*
 * The segment that holds `addr` takes no new allocation and is given back to the backend
 * when its last block is freed (exported memory, attributes set on it). Only a small
 * request that would otherwise fail for lack of memory opens such segments again. Errors:
 * GS_ERR_NOT_OURS
 */
enum gs_status gs_pool_retain(struct gs_pool *pool, uint64_t addr) GS_MUST_USE;

/* The same for every segment in which blocks of the heap share: it leaves with its last
 * allocation. One without allocations stays idle memory. A later small request is served
 * as ever.
 */
void gs_heap_retain_shared(struct gs_heap *heap);

/* The calling thread's, see below. */
extern _Thread_local uint64_t gs_pool_stream_key
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * The calling thread works with this stream from now on: any number that names it, over
 * all heaps. Threads of the same stream share what they free before others do. It has no
 * bearing on what may be reused, only on how likely it is found. 0 until set.
 */
static inline void gs_pool_thread_stream(uint64_t key)
{
    gs_pool_stream_key = key;
}

/* In a forked child, before any other call: pools of the parent are forgotten, and so is
 * what the calling thread cached of them. */
void gs_pool_after_fork_in_child(void);

/* Whether an address lies in a segment. Takes no lock: for signal handlers too. */
bool gs_pool_owns(const struct gs_pool *pool, uint64_t addr);

/*
 * The driver has given the memory at `addr` to somebody else. If a segment is still on
 * record there, its context has died unseen: its heap is killed.
 */
void gs_pool_displace(struct gs_pool *pool, uint64_t addr);

/* Errors: GS_ERR_NOT_OURS. */
enum gs_status gs_pool_find(struct gs_pool *pool, uint64_t addr,
                            struct gs_range *out) GS_MUST_USE;

/*
 * Free what is pending and has completed; then give idle memory of `device` (-1: all)
 * back to the backends, largest part first, what will be missed least first, until at
 * least `bytes` (SIZE_MAX: everything idle) are back. Returns the bytes given back.
 */
size_t gs_pool_trim(struct gs_pool *pool, int device, size_t bytes);
/* Bytes gs_pool_trim could give back on `device` now. */
size_t gs_pool_idle_bytes(struct gs_pool *pool, int device);
/* Bytes in segments, idle or not, on all devices, and on one. */
uint64_t gs_pool_reserved_bytes(struct gs_pool *pool);
uint64_t gs_pool_reserved_on(struct gs_pool *pool, int device);
/* Bytes of freed blocks that wait for a fence, on `device` (-1: all). */
uint64_t gs_pool_pending_bytes(struct gs_pool *pool, int device);

/* From now on, for heaps of `device` (>= 0). What is beyond a limit already goes back at
 * the next maintenance. Until called a device has none. */
void gs_pool_set_limits(struct gs_pool *pool, int device,
                        const struct gs_pool_limits *limits);

/* The device has so much less free memory than should be: for a second no more may be
 * idle on it than is idle now, less that. */
void gs_pool_set_missing(struct gs_pool *pool, int device, size_t bytes);
/*
 * The program was told that it cannot have `bytes` of the device (-1: of any). Nothing
 * may be idle there from now on. What the program frees, to ask again, goes back at once,
 * as it does without a pool: later the driver's free might wait for what runs then. This
 * is over once the device has served as much (gs_pool_served), or after the pool has got
 * 256 smaller segments: then the program goes on without that memory.
 */
void gs_pool_set_refused(struct gs_pool *pool, int device, size_t bytes);
/* The driver has served a request of so many bytes of the device, the pool's or not. */
void gs_pool_served(struct gs_pool *pool, int device, size_t bytes);

/*
 * The driver says that the device has so many bytes free, of which `to_spare` are to stay
 * free. From then on a large segment that becomes idle goes back at the next maintenance
 * where less than that is free; so does one of a 32nd of the device or more where less
 * than its size is free. Natively the next request has that memory, whatever runs by
 * then. Until called a device is never short.
 */
void gs_pool_set_free(struct gs_pool *pool, int device, size_t bytes, size_t to_spare);
/* Atomic: how often the process has freed memory that is not the pool's. */
extern uint64_t gs_pool_elsewhere __attribute__((visibility("hidden")));

/* The program has freed memory of a device that is not the pool's. */
static inline void gs_pool_freed_elsewhere(void)
{
    (void)__atomic_add_fetch(&gs_pool_elsewhere, 1, __ATOMIC_RELAXED);
}

/*
 * Is gs_heap_maintain worth calling? Cheap enough for every free: reads a flag, and once
 * in 64 calls of a thread the clock.
 */
bool gs_heap_wants_maintenance(const struct gs_heap *heap);
/* The same, and the clock is read unless the flag says it already. */
bool gs_heap_maintenance_is_late(const struct gs_heap *heap);
/*
 * Give idle memory of the heap back: what has been idle for longer than the pool's age,
 * what the device has idle beyond its limit, and in any case `bytes`, where there are as
 * many. To be called where the backend takes memory back at once: after a wait for all
 * work of the heap's context, or while that is idle. Returns the bytes given back.
 */
size_t gs_heap_maintain(struct gs_heap *heap, size_t bytes);

/*
 * For a thread that looks at the heap from time to time, whatever the program does. Has
 * anything been idle, or have the caches above the segments held anything, for longer
 * than the pool's age? Asks no backend.
 */
bool gs_heap_has_aged(struct gs_heap *heap);
/* Is anything of the heap idle, or in the caches above its segments? Asks no backend. */
bool gs_heap_may_give(struct gs_heap *heap);
/*
 * Give back what has been idle for longer than the age, and of any age until `bytes` are
 * back: one segment after the other, the longest idle first, for as long as `may` says
 * before each one that the backend takes memory back at once. What the caches above the
 * segments hold becomes idle memory first, once an age, and where `bytes` is more than is
 * idle. Returns the bytes given back.
 */
size_t gs_heap_give_aged(struct gs_heap *heap, size_t bytes, bool (*may)(void *self),
                         void *self);
/* Look after the heap at the next free, whatever the clock says. */
void gs_heap_set_due(struct gs_heap *heap);

/*
 * Give back all of the heap that is not in use, what it has cached and what was pending
 * and is done included; its next request asks the backend again. For a heap that is not
 * expected to be asked soon. Returns the bytes given back.
 */
size_t gs_heap_give_back(struct gs_heap *heap);

/* Sums over the device's heaps, dead ones included; device -1: all. */
void gs_pool_stats(struct gs_pool *pool, int device, struct gs_pool_stats *out);

/*
 * The pool's own classes, by which it counts: one for each size up to 32 KiB, then eight
 * an octave up to 2 MiB, then one an octave up to 1 TiB. They round nothing.
 */
#define GS_POOL_SMALL_CLASSES 112u
#define GS_POOL_LARGE_CLASSES 19u
#define GS_POOL_CLASSES       (GS_POOL_SMALL_CLASSES + GS_POOL_LARGE_CLASSES)

/* One class. Blocks belong where their own size lies, a missed request where what was
 * asked of the segments did (it may have been rounded to a size class of the user's). */
struct gs_pool_class {
    size_t bytes;            /* its largest size; the next smaller class ends below */
    uint64_t live;           /* blocks: handed out, or claimed and not yet freed ... */
    uint64_t live_bytes;     /* ... and their sizes */
    uint64_t rounding_bytes; /* of these, not asked for: rounding and fit tolerance */
    uint64_t cached; /* freed and kept whole: in the cache tiers, or as an idle large
                        segment */
    uint64_t cached_bytes;
    uint64_t pending; /* freed, not yet safe to reuse */
    uint64_t pending_bytes;
    uint64_t hits;   /* requests served without asking the driver */
    uint64_t misses; /* requests for which it was asked, served or not */
};

/* Where free memory lies that is not one piece. */
struct gs_pool_holes {
    uint64_t count;          /* free stretches of shared segments */
    uint64_t bytes;          /* all of them ... */
    uint64_t largest_bytes;  /* ... and the largest, whole segments included */
    uint64_t stranded_bytes; /* of these, beside an allocation: cannot be given back */
    uint64_t retained_bytes; /* of these, in retained segments: serve nobody */
    uint64_t
        tolerance_bytes; /* large segments in use: beyond what their allocations need */
};

struct gs_pool_class_stats {
    struct gs_pool_class classes[GS_POOL_CLASSES];
    struct gs_pool_holes holes;
};

/* The class of a size in bytes, > 0; sizes beyond the last count as of the last. */
unsigned gs_pool_class_of(size_t bytes);
/* The largest size of a class < GS_POOL_CLASSES, in bytes. */
size_t gs_pool_class_bytes(unsigned class);

/*
 * What each class holds and has served, and where free memory lies, of the device's heaps
 * (-1: all). Exact for one heap at a time. It looks at every block, some 10 ns each, and
 * keeps other threads out meanwhile: for reports, not for every call.
 * Locks: none may be held
 */
void gs_pool_class_stats(struct gs_pool *pool, int device,
                         struct gs_pool_class_stats *out);
/*
 * The share of the free bytes in shared segments that is not in the largest free stretch,
 * in thousandths: 0 if all is one piece or there is none.
 */
unsigned gs_pool_fragmentation(const struct gs_pool_holes *holes);

/* Check every invariant; false (with a static sentence in *why) if one is broken. */
bool gs_pool_check(struct gs_pool *pool, const char **why);

#endif
